#include "exec/cuda/runtime/stream_cuda.h"

#include "exec/cuda/runtime/check.h"

struct stream {
    cudaStream_t handle;
};

enum { LONG_AGO = 16384 /* ms: beyond, fp32 milliseconds are coarser than a microsecond */ };

/* An event that is the start of long measurements gets later marks, each when the last one is old,
 * so that the times from CUDA stay short. */
struct event {
    cudaEvent_t handle;
    cudaEvent_t mark;  /* NULL: not yet */
    double mark_s;     /* after the event [s] */
    cudaStream_t side; /* for marks */
};

static struct stream *stream_new(void)
{
    struct stream *stream = base_alloc(1, sizeof(*stream));
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream->handle, cudaStreamNonBlocking));
    return stream;
}

static void stream_free(struct stream *stream)
{
    CUDA_CHECK(cudaStreamSynchronize(stream->handle));
    CUDA_CHECK(cudaStreamDestroy(stream->handle));
    free(stream);
}

cudaStream_t cuda_stream_handle(const struct stream *stream)
{
    return stream->handle;
}

static struct event *event_new(void)
{
    struct event *event = base_alloc(1, sizeof(*event));
    CUDA_CHECK(cudaEventCreateWithFlags(&event->handle, cudaEventBlockingSync));
    return event;
}

static void forget_mark(struct event *event)
{
    if (!event->mark)
        return;
    CUDA_CHECK(cudaEventDestroy(event->mark));
    event->mark = NULL;
    event->mark_s = 0;
}

static void event_free(struct event *event)
{
    forget_mark(event);
    if (event->side)
        CUDA_CHECK(cudaStreamDestroy(event->side));
    CUDA_CHECK(cudaEventDestroy(event->handle));
    free(event);
}

static void stream_record(struct stream *stream, struct event *event)
{
    forget_mark(event);
    CUDA_CHECK(cudaEventRecord(event->handle, stream->handle));
}

static void stream_wait(struct stream *stream, struct event *event)
{
    CUDA_CHECK(cudaStreamWaitEvent(stream->handle, event->handle, 0));
}

/* The thread sleeps. */
static void event_synchronize(struct event *event)
{
    CUDA_CHECK(cudaEventSynchronize(event->handle));
}

static float milliseconds(cudaEvent_t from, cudaEvent_t to)
{
    float between = 0;
    CUDA_CHECK(cudaEventElapsedTime(&between, from, to));
    return between;
}

static void mark(struct event *event)
{
    cudaEvent_t next;
    if (!event->side)
        CUDA_CHECK(cudaStreamCreateWithFlags(&event->side, cudaStreamNonBlocking));
    CUDA_CHECK(cudaEventCreateWithFlags(&next, cudaEventBlockingSync));
    CUDA_CHECK(cudaEventRecord(next, event->side));
    CUDA_CHECK(cudaEventSynchronize(next));
    cudaEvent_t last = event->mark ? event->mark : event->handle;
    double after = event->mark_s + 1e-3 * (double)milliseconds(last, next);
    forget_mark(event);
    event->mark = next;
    event->mark_s = after;
}

/* Right even over hours, if called now and then with the same @from, although CUDA answers in fp32
 * milliseconds. */
static double event_seconds(struct event *from, struct event *to)
{
    float since = milliseconds(from->mark ? from->mark : from->handle, to->handle);
    double seconds = from->mark_s + 1e-3 * (double)since;
    if (since > LONG_AGO)
        mark(from);
    return seconds;
}

const struct stream_ops cuda_stream_ops = {
    .stream_new = stream_new,
    .stream_free = stream_free,
    .event_new = event_new,
    .event_free = event_free,
    .record = stream_record,
    .wait = stream_wait,
    .synchronize = event_synchronize,
    .seconds = event_seconds,
};
