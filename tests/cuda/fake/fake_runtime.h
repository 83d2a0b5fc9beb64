#pragma once

/** @file
 * The CUDA runtime in software: device memory is the host's, and the calls of the runtime that the
 * CUDA device makes are defined here under their own names, so that its sources run unchanged.
 *
 * Work on a stream runs at once, in order of issue, on the thread that issues it; or, after
 * fake_lazy(), as late as the rules of streams and events allow, so that a missing wait shows as a
 * wrong result.  While a stream is captured its work is kept, and cudaGraphLaunch() runs it.
 *
 * Device memory starts as bytes of 0xFF (NaN in every type).  Every misuse ends the process with
 * abort() and a message on stderr: memory or handles that are unknown or freed; a copy beyond what
 * was allocated; an event of a capture waited for outside it, or the other way round; waiting for a
 * captured stream or event; allocation, or pageable memory, while capturing; a capture left open,
 * or ended with a stream that was not joined; CUDA calls in a host function.
 *
 * Threads may issue on streams of their own at the same time; each stream's work is run by whoever
 * waits for it, one at a time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#ifdef __cplusplus
#include <functional>

/** Issue @work on @stream; on stream 0 it runs at once. */
void fake_enqueue(cudaStream_t stream, std::function<void()> work);

extern "C" {
#endif

/** Issue the call of @run on a copy of @argument (@size bytes). */
void fake_enqueue_c(cudaStream_t stream, void (*run)(void *argument), const void *argument,
                    size_t size);

/** Run work as late as possible from now on, or (false) at once; nothing may be pending. */
void fake_lazy(bool lazy);

/** How many devices there are from now on (at first 1); 0: calls fail with cudaErrorNoDevice. */
void fake_devices(int count);

/** Let the device have so many bytes (at first 1 GiB): cudaMalloc() fails beyond. */
void fake_capacity(size_t bytes);

/** Bytes of device memory in use. */
size_t fake_in_use(void);

/** Streams, events, graphs and allocations of any kind that have not been released. */
int64_t fake_objects(void);

/** Graphs launched so far. */
int64_t fake_launches(void);

/** Put the clock of events forward by @seconds: work that would take so long on a device. */
void fake_pass(double seconds);

/** Whether @pointer lies in device memory. */
bool fake_on_device(const void *pointer);

#ifdef __cplusplus
}
#endif
