#pragma once

/** @file
 * In which order tests/cuda/fake/emulate.hpp runs threads, for tests in C.
 */

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Run blocks and threads in descending order from now on, or (false) in ascending order. */
void emulate_backwards(bool backwards);

#ifdef __cplusplus
}
#endif
