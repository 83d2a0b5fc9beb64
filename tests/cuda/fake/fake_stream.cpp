#include "tests/cuda/fake/fake_runtime.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <string>
#include <thread>

#include "tests/cuda/fake/fake_inner.hpp"

using namespace fake;

/* What one launch of a graph has done of each of its lanes; NULL for work outside graphs. */
struct launch;

using item = std::function<void(launch *)>;

/* A stream's part of a graph. */
struct graph_lane {
    std::vector<item> work;
};

struct launch {
    const std::vector<graph_lane> *lane;
    std::vector<size_t> done;
};

/* One capture, from begin to end.  A clock says how much of each lane is known to be over. */
using vector_clock = std::vector<size_t>;

struct capture {
    cudaStream_t origin;
    std::vector<cudaStream_t> member;
    std::vector<graph_lane> lane;
    std::vector<vector_clock> clock; /* of each member */
    bool open;
};

struct CUstream_st {
    std::mutex lock; /* of the next lines */
    std::condition_variable changed;
    std::vector<item> pending;
    uint64_t issued, begun, done; /* items */
    std::thread::id runner;       /* of what has begun and is not done */
    std::shared_ptr<capture> captured;
    size_t member; /* of the capture */
};

/* When a record happened. */
struct moment {
    std::atomic<bool> happened;
    double seconds;
};

struct CUevent_st {
    cudaStream_t stream; /* recorded on; NULL: never */
    uint64_t issued;     /* items of the stream up to it */
    std::shared_ptr<moment> when;
    std::shared_ptr<capture> captured; /* recorded in */
    size_t lane, place;
    vector_clock clock;
    bool timed;
};

struct CUgraph_st {
    std::shared_ptr<std::vector<graph_lane>> lane; /* the first is the origin's */
};

struct CUgraphExec_st {
    std::shared_ptr<std::vector<graph_lane>> lane;
};

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

void advance(launch *launch, size_t lane, size_t upto)
{
    while (launch->done[lane] < upto)
        (*launch->lane)[lane].work[launch->done[lane]++](launch);
}

void issue_item(cudaStream_t stream, item work)
{
    if (stream->captured) {
        capture &captured = *stream->captured;
        captured.lane[stream->member].work.push_back(std::move(work));
        captured.clock[stream->member][stream->member]++;
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

void issue_work(cudaStream_t stream, std::function<void()> work)
{
    if (!stream)
        work();
    else
        issue_item(stream, [work = std::move(work)](launch *) { work(); });
}

void join_capture(cudaStream_t stream, const std::shared_ptr<capture> &captured)
{
    stream->captured = captured;
    stream->member = captured->member.size();
    captured->member.push_back(stream);
    captured->lane.emplace_back();
    for (vector_clock &clock : captured->clock)
        clock.resize(captured->member.size());
    captured->clock.emplace_back(captured->member.size());
}

void wait_captured(cudaStream_t stream, cudaEvent_t event)
{
    const std::shared_ptr<capture> &captured = event->captured;
    if (!captured)
        misuse("a captured stream waits for an event that was not recorded in the capture");
    if (!captured->open)
        misuse("a stream waits for an event of a capture that has ended");
    if (!stream->captured)
        join_capture(stream, captured);
    if (stream->captured != captured)
        misuse("a captured stream waits for an event of another capture");
    vector_clock &clock = captured->clock[stream->member];
    for (size_t i = 0; i < event->clock.size(); i++)
        if (clock[i] < event->clock[i])
            clock[i] = event->clock[i];
    size_t lane = event->lane, place = event->place;
    issue_item(stream, [lane, place](launch *launch) { advance(launch, lane, place); });
}

void end_capture(cudaStream_t stream)
{
    std::shared_ptr<capture> captured = stream->captured;
    for (size_t i = 0; i < captured->member.size(); i++) {
        if (captured->clock[0][i] < captured->lane[i].work.size())
            misuse("a capture ends with work of a stream that its first one did not wait for");
        captured->member[i]->captured = nullptr;
    }
    captured->open = false;
    capturing--;
}

} // namespace

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

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int)
{
    return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    enter(__func__);
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

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return cudaStreamSynchronize(stream);
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

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return cudaEventSynchronize(event);
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

/* ---- graphs ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    enter(__func__);
    check_handle(stream, __func__);
    if (stream->captured)
        misuse("a capture of a stream that is captured");
    if (mode != cudaStreamCaptureModeThreadLocal)
        misuse("a capture that other threads can spoil");
    std::shared_ptr<capture> captured = std::make_shared<capture>();
    captured->origin = stream;
    captured->open = true;
    join_capture(stream, captured);
    capturing++;
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    check_handle(stream, __func__);
    *status = stream->captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    enter(__func__);
    check_handle(stream, __func__);
    if (!stream->captured || stream->captured->origin != stream)
        misuse("the end of a capture that did not begin on this stream");
    std::shared_ptr<capture> captured = stream->captured;
    end_capture(stream);
    *graph = new CUgraph_st();
    add_handle(*graph);
    (*graph)->lane = std::make_shared<std::vector<graph_lane>>(std::move(captured->lane));
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long)
{
    enter_outside_capture(__func__);
    check_handle(graph, __func__);
    *executable = new CUgraphExec_st();
    add_handle(*executable);
    (*executable)->lane = graph->lane;
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream)
{
    enter(__func__);
    check_handle(executable, __func__);
    check_handle(stream, __func__);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream)
{
    enter(__func__);
    check_handle(executable, __func__);
    check_handle(stream, __func__);
    if (stream->captured)
        misuse("a graph is launched on a captured stream");
    {
        std::lock_guard<std::recursive_mutex> guard(all().lock);
        all().launches++;
    }
    std::shared_ptr<std::vector<graph_lane>> lane = executable->lane;
    issue_item(stream, [lane](launch *) {
        launch all_lanes = {lane.get(), std::vector<size_t>(lane->size())};
        for (size_t i = lane->size(); all().joined_first && --i > 0;)
            advance(&all_lanes, i, (*lane)[i].work.size());
        advance(&all_lanes, 0, (*lane)[0].work.size());
        for (size_t i = 1; i < lane->size(); i++)
            advance(&all_lanes, i, (*lane)[i].work.size());
    });
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    enter(__func__);
    drop_handle(graph, __func__);
    graph->lane = nullptr;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable)
{
    enter(__func__);
    drop_handle(executable, __func__);
    executable->lane = nullptr;
    return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *, size_t *count)
{
    check_handle(graph, __func__);
    *count = 0;
    for (const graph_lane &lane : *graph->lane)
        *count += lane.work.size();
    return cudaSuccess;
}

} // extern "C"
