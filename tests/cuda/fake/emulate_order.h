#pragma once

/** @file
 * In which order tests/cuda/fake/emulate.hpp runs threads, for tests in C.
 */

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Run blocks and threads in descending order from now on, or (false) in ascending order. */
void emulate_backwards(bool backwards);

/** Kernels launched so far, also into captures. */
int64_t emulate_launches(void);

#ifdef __cplusplus
}
#endif
