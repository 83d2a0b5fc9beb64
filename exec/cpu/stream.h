#pragma once

/** @file
 * Streams and events of the CPU: a stream is a thread with a queue of calls.
 *
 * exec/step/device.h documents each function.  If a thread cannot be started, the process ends with
 * exit code 71.
 */

#include "exec/step/device.h"

/** Of the CPU. */
extern const struct stream_ops cpu_stream_ops;

/** Queue the call of @run on a copy of @argument (@size bytes). */
void cpu_stream_issue(struct stream *stream, void (*run)(void *argument), const void *argument,
                      size_t size);

/** CPU time [s] between two events of the thread whose stream recorded them. */
double cpu_event_busy(struct event *from, struct event *to);

/** Time of the latest event of another stream that @stream waited for, by the monotonic clock [s];
 * 0: none.  For calls that @stream runs. */
double cpu_stream_released(const struct stream *stream);
