#pragma once

/** @file
 * Streams, events and captures of the software runtime, for fake_stream.cpp and fake_graph.cpp.
 */

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/cuda/fake/fake_inner.hpp"

/** What one launch of a graph has done of each of its lanes; NULL for work outside graphs. */
struct launch;

/** Work on a stream. */
using item = std::function<void(launch *)>;

/** A clock says how much of each lane is known to be over. */
using vector_clock = std::vector<size_t>;

/** A stream's part of a graph. */
struct graph_lane {
    std::vector<item> work;
};

/** See above. */
struct launch {
    const std::vector<graph_lane> *lane;
    std::vector<size_t> done;
};

/** One capture, from begin to end. */
struct capture {
    cudaStream_t origin;
    std::vector<cudaStream_t> member;
    std::vector<graph_lane> lane;
    std::vector<vector_clock> clock; /**< of each member */
    bool open;
};

/** A stream. */
struct CUstream_st {
    std::mutex lock; /**< of the next lines */
    std::condition_variable changed;
    std::vector<item> pending;
    uint64_t issued, begun, done; /**< items */
    std::thread::id runner;       /**< of what has begun and is not done */
    std::shared_ptr<capture> captured;
    size_t member; /**< of the capture */
};

/** When a record happened. */
struct moment {
    std::atomic<bool> happened;
    double seconds;
};

/** An event. */
struct CUevent_st {
    cudaStream_t stream; /**< recorded on; NULL: never */
    uint64_t issued;     /**< items of the stream up to it */
    std::shared_ptr<moment> when;
    std::shared_ptr<capture> captured; /**< recorded in */
    size_t lane, place;
    vector_clock clock;
    bool timed;
};

namespace fake
{

/** Let @stream do @work after all before it, or add it to its capture. */
void issue_item(cudaStream_t stream, item work);

/** Let @stream, which joins the capture if it is in none, wait for @event of a capture. */
void wait_captured(cudaStream_t stream, cudaEvent_t event);

} // namespace fake
