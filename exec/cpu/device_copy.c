#include "exec/cpu/device_copy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "exec/cpu/stream.h"

enum {
    TRIALS = 8,           /* the quickest counts */
    LEAST_BYTES = 1 << 24 /* in one trial, beside which reading a clock is nothing */
};

/* Never left out for want of a reader. */
static void *(*volatile copy_memory)(void *, const void *, size_t) = memcpy;

/* Copies for a stream to make. */
struct order {
    char *to, *from;
    int64_t bytes;
    int32_t times;
};

/* Pages are a thread's own once it has written to them. */
static void touch(void *argument)
{
    const struct order *order = argument;
    memset(order->from, 1, (size_t)order->bytes);
    memset(order->to, 2, (size_t)order->bytes);
}

static void run(void *argument)
{
    const struct order *order = argument;
    for (int32_t i = 0; i < order->times; i++)
        copy_memory(order->to, order->from, (size_t)order->bytes);
}

double cpu_device_copy(int64_t bytes)
{
    struct order order = {.to = base_alloc(bytes, 1), .from = base_alloc(bytes, 1), .bytes = bytes};
    struct stream *stream = cpu_stream_new();
    struct event *begin = cpu_event_new(), *end = cpu_event_new();
    double quickest = INFINITY;
    order.times = bytes < LEAST_BYTES ? (int32_t)(LEAST_BYTES / bytes) : 1;
    cpu_stream_issue(stream, touch, &order, sizeof(order));
    for (int32_t i = 0; i < TRIALS; i++) {
        cpu_stream_record(stream, begin);
        cpu_stream_issue(stream, run, &order, sizeof(order));
        cpu_stream_record(stream, end);
        cpu_event_synchronize(end);
        quickest = fmin(quickest, cpu_event_busy(begin, end) / order.times);
    }
    cpu_event_free(begin);
    cpu_event_free(end);
    cpu_stream_free(stream);
    free(order.to);
    free(order.from);
    return quickest;
}
