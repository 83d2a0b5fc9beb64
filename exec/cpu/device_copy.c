#include "exec/cpu/device_copy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "exec/cpu/stream.h"

enum {
    TRIALS = 8,           /* the fastest is used */
    LEAST_BYTES = 1 << 24 /* in one trial, long enough to make reading a clock negligible */
};

/* Volatile, so that the compiler cannot remove the call. */
static void *(*volatile copy_memory)(void *, const void *, size_t) = memcpy;

/* Copies for a stream to make. */
struct copies {
    char *to, *from;
    int64_t bytes;
    int32_t times;
};

/* Pages are a thread's own once it has written to them. */
static void touch(void *argument)
{
    const struct copies *copies = argument;
    memset(copies->from, 1, (size_t)copies->bytes);
    memset(copies->to, 2, (size_t)copies->bytes);
}

static void run(void *argument)
{
    const struct copies *copies = argument;
    for (int32_t i = 0; i < copies->times; i++)
        copy_memory(copies->to, copies->from, (size_t)copies->bytes);
}

static double copy_seconds(int64_t bytes)
{
    struct copies copies = {
        .to = base_alloc(bytes, 1), .from = base_alloc(bytes, 1), .bytes = bytes};
    struct stream *stream = cpu_stream_new();
    struct event *begin = cpu_event_new(), *end = cpu_event_new();
    double quickest = INFINITY;
    copies.times = bytes < LEAST_BYTES ? (int32_t)(LEAST_BYTES / bytes) : 1;
    cpu_stream_issue(stream, touch, &copies, sizeof(copies));
    for (int32_t i = 0; i < TRIALS; i++) {
        cpu_stream_record(stream, begin);
        cpu_stream_issue(stream, run, &copies, sizeof(copies));
        cpu_stream_record(stream, end);
        cpu_event_synchronize(end);
        quickest = fmin(quickest, cpu_event_busy(begin, end) / copies.times);
    }
    cpu_event_free(begin);
    cpu_event_free(end);
    cpu_stream_free(stream);
    free(copies.to);
    free(copies.from);
    return quickest;
}

const struct measure_ops cpu_measure_ops = {.busy = cpu_event_busy, .copy = copy_seconds};
