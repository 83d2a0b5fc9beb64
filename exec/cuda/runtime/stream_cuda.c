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

struct stream *cuda_stream_new(void)
{
    struct stream *stream = base_alloc(1, sizeof(*stream));
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream->handle, cudaStreamNonBlocking));
    return stream;
}

void cuda_stream_free(struct stream *stream)
{
    CUDA_CHECK(cudaStreamSynchronize(stream->handle));
    CUDA_CHECK(cudaStreamDestroy(stream->handle));
    free(stream);
}

cudaStream_t cuda_stream_handle(const struct stream *stream)
{
    return stream->handle;
}

struct event *cuda_event_new(void)
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

void cuda_event_free(struct event *event)
{
    forget_mark(event);
    if (event->side)
        CUDA_CHECK(cudaStreamDestroy(event->side));
    CUDA_CHECK(cudaEventDestroy(event->handle));
    free(event);
}

void cuda_stream_record(struct stream *stream, struct event *event)
{
    forget_mark(event);
    CUDA_CHECK(cudaEventRecord(event->handle, stream->handle));
}

void cuda_stream_wait(struct stream *stream, struct event *event)
{
    CUDA_CHECK(cudaStreamWaitEvent(stream->handle, event->handle, 0));
}

void cuda_event_synchronize(struct event *event)
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

double cuda_event_seconds(struct event *from, struct event *to)
{
    float since = milliseconds(from->mark ? from->mark : from->handle, to->handle);
    double seconds = from->mark_s + 1e-3 * (double)since;
    if (since > LONG_AGO)
        mark(from);
    return seconds;
}

const struct stream_ops cuda_stream_ops = {
    .stream_new = cuda_stream_new,
    .stream_free = cuda_stream_free,
    .event_new = cuda_event_new,
    .event_free = cuda_event_free,
    .record = cuda_stream_record,
    .wait = cuda_stream_wait,
    .synchronize = cuda_event_synchronize,
    .seconds = cuda_event_seconds,
};
