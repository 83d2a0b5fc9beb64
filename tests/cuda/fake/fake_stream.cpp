#include "tests/cuda/fake/fake_runtime.h"

#include <chrono>
#include <cstring>
#include <string>

#include "tests/cuda/fake/fake_stream.hpp"

using namespace fake;

namespace
{

double now()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
               .count() +
           all().passed;
}

/* ---- streams ---- */

/* Run @stream's items up to the first @upto of them all, or wait until another thread has.  What an
 * item waits for was issued before it, so threads never wait in a circle. */
void advance(cudaStream_t stream, uint64_t upto)
{
    std::unique_lock<std::mutex> guard(stream->lock);
    while (stream->done < upto) {
        if (stream->begun > stream->done) {
            if (stream->runner == std::this_thread::get_id())
                misuse("work on a stream waits for itself");
            stream->changed.wait(guard);
            continue;
        }
        item work =
            std::move(stream->pending[stream->pending.size() - (stream->issued - stream->begun)]);
        if (++stream->begun == stream->issued)
            stream->pending.clear();
        stream->runner = std::this_thread::get_id();
        guard.unlock();
        work(nullptr);
        guard.lock();
        stream->done++;
        stream->changed.notify_all();
    }
}

} // namespace

void fake::issue_item(cudaStream_t stream, item work)
{
    if (stream->captured) {
        capture &captured = *stream->captured;
        captured.clock[stream->member][stream->member]++;
        captured.lane[stream->member].work.push_back(std::move(work));
        return;
    }
    uint64_t upto;
    {
        std::lock_guard<std::mutex> guard(stream->lock);
        stream->pending.push_back(std::move(work));
        upto = ++stream->issued;
    }
    if (!all().lazy)
        advance(stream, upto);
}

static void issue_work(cudaStream_t stream, std::function<void()> work)
{
    if (!stream)
        work();
    else
        issue_item(stream, [work = std::move(work)](launch *) { work(); });
}

bool fake::is_captured(cudaStream_t stream)
{
    return stream && stream->captured;
}

void fake_enqueue(cudaStream_t stream, std::function<void()> work)
{
    enter("a launch");
    if (stream)
        check_handle(stream, "a launch");
    else if (capturing > 0)
        misuse("a launch on stream 0 while this thread captures a stream");
    issue_work(stream, std::move(work));
}

void fake_enqueue_c(cudaStream_t stream, void (*run)(void *argument), const void *argument,
                    size_t size)
{
    std::string copy(static_cast<const char *>(argument), size);
    fake_enqueue(stream, [run, copy]() mutable { run(&copy[0]); });
}

extern "C" {

/* ---- streams ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
    enter(__func__);
    if (flags != cudaStreamNonBlocking)
        misuse("a stream that waits for stream 0");
    *stream = new CUstream_st();
    add_handle(*stream);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    enter(__func__);
    if (!stream)
        return cudaSuccess;
    check_handle(stream, __func__);
    if (stream->captured)
        misuse("the host waits for a captured stream");
    advance(stream, stream->issued);
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    enter_outside_capture(__func__);
    if (all().lazy)
        misuse("the host waits for the whole device: the software runtime knows streams alone");
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    enter(__func__);
    drop_handle(stream, __func__);
    if (stream->captured)
        misuse("a stream is destroyed while it is captured");
    advance(stream, stream->issued);
    stream->pending = {};
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int)
{
    enter(__func__);
    check_handle(stream, __func__);
    check_handle(event, __func__);
    if (stream->captured || event->captured) {
        wait_captured(stream, event);
        return cudaSuccess;
    }
    cudaStream_t other = event->stream;
    uint64_t upto = event->issued;
    std::shared_ptr<moment> when = event->when;
    if (other)
        issue_item(stream, [other, upto, when](launch *) {
            if (!when->happened)
                advance(other, upto);
        });
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t run, void *argument)
{
    fake_enqueue(stream, [run, argument] {
        in_host_function = true;
        run(argument);
        in_host_function = false;
    });
    return cudaSuccess;
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    enter(__func__);
    *event = new CUevent_st();
    add_handle(*event);
    (*event)->timed = !(flags & cudaEventDisableTiming);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    enter(__func__);
    drop_handle(event, __func__);
    *event = CUevent_st();
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    enter(__func__);
    check_handle(event, __func__);
    check_handle(stream, __func__);
    event->stream = stream;
    event->captured = stream->captured;
    if (event->captured) {
        event->lane = stream->member;
        event->place = event->captured->lane[stream->member].work.size();
        event->clock = event->captured->clock[stream->member];
        return cudaSuccess;
    }
    std::shared_ptr<moment> when = event->when = std::make_shared<moment>();
    event->issued = stream->issued + 1;
    issue_item(stream, [when](launch *) {
        when->seconds = now();
        when->happened = true;
    });
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    enter(__func__);
    check_handle(event, __func__);
    if (event->captured)
        misuse("the host waits for an event that was recorded in a capture");
    if (event->when && !event->when->happened)
        advance(event->stream, event->issued);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    enter(__func__);
    check_handle(from, __func__);
    check_handle(to, __func__);
    if (from->captured || to->captured || !from->when || !to->when)
        misuse("the time of an event that was not recorded, or recorded in a capture");
    if (!from->timed || !to->timed)
        misuse("the time of an event made without");
    if (!from->when->happened || !to->when->happened)
        misuse("the time of an event that has not happened");
    *milliseconds = float(1e3 * (to->when->seconds - from->when->seconds));
    return cudaSuccess;
}

} // extern "C"
