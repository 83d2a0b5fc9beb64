#pragma once

/** @file
 * Streams and events of a GPU: those of CUDA, which exec/step/device.h follows.
 *
 * The calling thread must have chosen the GPU (exec/cuda/runtime/gpu.h).  Streams do not wait for
 * stream 0.
 */

#include <cuda_runtime_api.h>

#include "exec/step/device.h"

/** See stream_ops. */
struct stream *cuda_stream_new(void);

/** Finish its work and release. */
void cuda_stream_free(struct stream *stream);

/** CUDA's own; valid until cuda_stream_free(). */
cudaStream_t cuda_stream_handle(const struct stream *stream);

/** See stream_ops. */
struct event *cuda_event_new(void);

/** Release. */
void cuda_event_free(struct event *event);

/** See stream_ops. */
void cuda_stream_record(struct stream *stream, struct event *event);

/** See stream_ops. */
void cuda_stream_wait(struct stream *stream, struct event *event);

/** Block until the latest record has happened; the thread sleeps. */
void cuda_event_synchronize(struct event *event);

/** Seconds between two events, to a few microseconds.  This holds even over hours, if called now
 * and then with the same @from, although CUDA answers in fp32 milliseconds.  Not while the thread
 * captures. */
double cuda_event_seconds(struct event *from, struct event *to);

/** All of them that every device has. */
extern const struct stream_ops cuda_stream_ops;
