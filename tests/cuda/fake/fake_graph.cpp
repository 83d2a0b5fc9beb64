#include "tests/cuda/fake/fake_stream.hpp"

#include <algorithm>

using namespace fake;

struct CUgraph_st {
    std::shared_ptr<std::vector<graph_lane>> lane; /* the first is the origin's */
};

struct CUgraphExec_st {
    std::shared_ptr<std::vector<graph_lane>> lane;
};

namespace
{

void advance(launch *launch, size_t lane, size_t upto)
{
    while (launch->done[lane] < upto)
        (*launch->lane)[lane].work[launch->done[lane]++](launch);
}

void launch_graph(const std::vector<graph_lane> &lane)
{
    launch all_lanes = {&lane, std::vector<size_t>(lane.size())};
    for (size_t i = 0; i < lane.size(); i++)
        advance(&all_lanes, i, lane[i].work.size());
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

void fake::wait_captured(cudaStream_t stream, cudaEvent_t event)
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

extern "C" {

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
    issue_item(stream, [lane](launch *) { launch_graph(*lane); });
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

} // extern "C"
