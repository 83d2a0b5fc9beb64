#pragma once

/** @file
 * What the sources of the software runtime (tests/cuda/fake/fake_runtime.h) share.
 */

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/cuda/fake/fake_runtime.h"

namespace fake
{

/** All that the process has; lock it. */
struct registry {
    std::recursive_mutex lock;
    std::map<const char *, size_t> device, pinned;
    std::map<const void *, bool> handle; /* alive?  The dead are kept: no address comes again */
    int64_t alive = 0;                   /* handles */
    size_t in_use = 0, capacity = size_t(1) << 30;
    int64_t launches = 0;
    int devices = 1;
    bool lazy = false;
    double passed = 0; /* seconds that the device's clock is ahead */
};

extern thread_local int capturing;         /**< open captures of this thread */
extern thread_local bool in_host_function; /**< of cudaLaunchHostFunc() */

/** The one registry. */
registry &all();

/** Say what was wrong, and abort(). */
[[noreturn]] __attribute__((format(printf, 1, 2))) void misuse(const char *format, ...);

/** @call is no misuse in a host function. */
void enter(const char *call);

/** And not while this thread captures. */
void enter_outside_capture(const char *call);

/** Take note of a new handle. */
void add_handle(const void *handle);

/** @handle is alive. */
void check_handle(const void *handle, const char *call);

/** Forget it, alive so far. */
void drop_handle(const void *handle, const char *call);

/** Whether @stream, which may be 0, is being captured. */
bool is_captured(cudaStream_t stream);

} // namespace fake
