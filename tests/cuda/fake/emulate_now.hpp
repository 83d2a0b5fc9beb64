#pragma once

/** @file
 * Where the kernel that runs stands, for tests/cuda/fake/watch_kernels.cpp.
 */

#include <cstdint>

#include "tests/cuda/fake/emulate.hpp"

/** Launches and blocks begun so far, and barriers that the block has passed. */
extern struct emulate_now {
    uint32_t launches, blocks, barriers;
} emulate_now;

/** What this thread runs, or NULL. */
extern thread_local const emulate_call *emulate_call_now;

/** Whether @place is on a stack that belongs to the running thread of a kernel. */
bool emulate_on_stack(const void *place);
