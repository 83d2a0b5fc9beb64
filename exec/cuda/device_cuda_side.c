#include "exec/cuda/device_cuda_side.h"

#include <stdlib.h>

#include "core/base/base.h"
#include "core/schedule/memory.h"
#include "exec/cuda/runtime/check.h"
#include "exec/cuda/runtime/stream_cuda.h"

static size_t filter_workspace(const struct device_state *state)
{
    size_t bytes = 0;
    for (int32_t i = 0; i < state->graph.layer_count; i++)
        for (int32_t op = 0; op < CONV_OP_COUNT; op++) {
            const struct conv_plan *plan = state->place[i].plan[op];
            if (plan && conv_ops[op].pass == PASS_BACKWARD_FILTER && conv_workspace(plan) > bytes)
                bytes = conv_workspace(plan);
        }
    return bytes;
}

void cuda_side_open(struct device_state *state)
{
    struct side *side = &state->side;
    const size_t bytes = filter_workspace(state);
    if (state->job.ranks > 1 || state->workspace + bytes > MEMORY_WORKSPACE_LIMIT)
        return;
    side->stream = cuda_stream_new();
    side->workspace = bytes;
    side->read = base_alloc(state->graph.layer_count, sizeof(*side->read));
    CUDA_CHECK(cudaEventCreateWithFlags(&side->begun, cudaEventDisableTiming));
    CUDA_CHECK(cudaEventCreateWithFlags(&side->done, cudaEventDisableTiming));
    for (int32_t i = 0; i < state->job.slots; i++) {
        state->slot[i].first = cuda_event_new();
        state->slot[i].last = cuda_event_new();
    }
    side->timed = true;
}

void cuda_side_close(struct device_state *state)
{
    if (!state->side.stream)
        return;
    cuda_stream_free(state->side.stream);
    CUDA_CHECK(cudaEventDestroy(state->side.begun));
    CUDA_CHECK(cudaEventDestroy(state->side.done));
    for (int32_t i = 0; i < state->job.slots; i++) {
        cuda_event_free(state->slot[i].first);
        cuda_event_free(state->slot[i].last);
    }
    free(state->side.read);
}

/* ---- choosing ---- */

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *seconds)
{
    qsort(seconds, SIDE_RUNS, sizeof(*seconds), compare);
    return seconds[SIDE_RUNS / 2];
}

/* The last launch of @slot is over. */
static void note_seconds(struct side *side, struct cuda_slot *slot)
{
    if (!slot->timed)
        return;
    int32_t kind = slot->kind;
    slot->timed = false;
    if (side->runs[kind] < SIDE_RUNS)
        side->seconds[kind][side->runs[kind]++] = cuda_event_seconds(slot->first, slot->last);
    if (side->runs[0] < SIDE_RUNS || side->runs[1] < SIDE_RUNS)
        return;
    side->timed = false;
    side->kind = median(side->seconds[1]) < median(side->seconds[0]);
}

bool cuda_side_launch(struct device_state *state, struct cuda_slot *slot, struct stream *compute)
{
    struct side *side = &state->side;
    if (side->timed)
        note_seconds(side, slot);
    if (!slot->graph[side->kind])
        return false;
    slot->kind = side->kind;
    slot->timed = side->timed;
    if (slot->timed)
        cuda_stream_record(compute, slot->first);
    CUDA_CHECK(cudaGraphLaunch(slot->graph[side->kind], cuda_stream_handle(compute)));
    if (slot->timed) {
        cuda_stream_record(compute, slot->last);
        side->kind = !side->kind;
    }
    return true;
}

int32_t cuda_side_choices(const struct device_state *state, struct choice *choice)
{
    const struct side *side = &state->side;
    if (!side->stream || side->timed)
        return 0;
    const double saved = side->seconds[0][SIDE_RUNS / 2] - side->seconds[1][SIDE_RUNS / 2];
    *choice = (struct choice){"weights-beside", side->kind, 1, side->kind ? saved : 0};
    return 1;
}

/* ---- waiting ---- */

cudaStream_t cuda_side_fork(struct device_state *state, cudaStream_t stream, const void *read)
{
    struct side *side = &state->side;
    if (!side->captured || side->kind == 0)
        return stream;
    cudaStream_t other = cuda_stream_handle(side->stream);
    CUDA_CHECK(cudaEventRecord(side->begun, stream));
    CUDA_CHECK(cudaStreamWaitEvent(other, side->begun, 0));
    side->read[side->reads++] = read;
    return other;
}

void cuda_side_forked(struct device_state *state)
{
    if (state->side.reads)
        CUDA_CHECK(cudaEventRecord(state->side.done, cuda_stream_handle(state->side.stream)));
}

void cuda_side_join(struct device_state *state, cudaStream_t stream)
{
    if (state->side.reads)
        CUDA_CHECK(cudaStreamWaitEvent(stream, state->side.done, 0));
    state->side.reads = 0;
}

/* What is read is a buffer that the plan gives anew: first to the gradient of some layer's input.
 */
void cuda_side_clear(struct device_state *state, cudaStream_t stream, int32_t index)
{
    const void *dx = state->place[index].dx;
    const void *other = state->place[state->graph.node[index].finishes].dx;
    bool writes = false;
    for (int32_t i = 0; i < state->side.reads; i++)
        writes |= state->side.read[i] == dx || state->side.read[i] == other;
    if (writes)
        cuda_side_join(state, stream);
}
