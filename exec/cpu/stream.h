#pragma once

/** @file
 * Streams and events of the CPU: a stream is a thread with a queue of calls.
 *
 * exec/step/device.h documents each function.  If a thread cannot be started, the process ends with
 * exit code 71.
 */

#include "exec/step/device.h"

/** A thread that waits for work. */
struct stream *cpu_stream_new(void);

/** Run the queued calls, end the thread, release. */
void cpu_stream_free(struct stream *stream);

/** Queue the call of @run on a copy of @argument (@size bytes). */
void cpu_stream_issue(struct stream *stream, void (*run)(void *argument), const void *argument,
                      size_t size);

/** A new event. */
struct event *cpu_event_new(void);

/** Release. */
void cpu_event_free(struct event *event);

/** Queue the recording of @event. */
void cpu_stream_record(struct stream *stream, struct event *event);

/** Queue waiting for the latest record of @event issued so far. */
void cpu_stream_wait(struct stream *stream, struct event *event);

/** Block until every record of @event issued so far has happened. */
void cpu_event_synchronize(struct event *event);

/** CPU time [s] between two events of the thread whose stream recorded them. */
double cpu_event_busy(struct event *from, struct event *to);

/** Time of the latest event of another stream that @stream waited for, by the monotonic clock [s];
 * 0: none.  For calls that @stream runs. */
double cpu_stream_released(const struct stream *stream);

/** All of them that every device has. */
extern const struct stream_ops cpu_stream_ops;
