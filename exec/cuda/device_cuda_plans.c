#include "exec/cuda/device_cuda_plans.h"

#include <stddef.h>

#include "core/base/base.h"
#include "exec/cuda/runtime/stream_cuda.h"

/* ---- finding ---- */

/* A linear layer is a convolution of one pixel, whose channels are all numbers of an image: they
 * lie in the order of its weights. */
static struct conv_shape shape_of(const struct device_state *state, const struct layer *layer)
{
    struct conv_shape shape = {.type = state->type,
                               .batch = state->micro,
                               .in_channels = cuda_state_pad(layer->in.channels),
                               .in_height = layer->in.height,
                               .in_width = layer->in.width,
                               .out_channels = cuda_state_pad(layer->out.channels),
                               .out_height = layer->out.height,
                               .out_width = layer->out.width,
                               .kernel = layer->kernel,
                               .stride = layer->stride,
                               .padding = layer->padding};
    if (layer->op == LAYER_LINEAR) {
        shape.in_channels *= layer->in.height * layer->in.width;
        shape.in_height = shape.in_width = shape.kernel = shape.stride = 1;
        shape.padding = 0;
    }
    return shape;
}

/* Whether the next step is the batch norm and the only reader of this convolution: only then can
 * its sums stay in the scratch memory. */
static bool feeds_norm(const struct device_state *state, int32_t index)
{
    const struct model *model = state->job.model;
    return index + 1 < model->layer_count && model->layer[index + 1].op == LAYER_BATCH_NORM &&
           state->graph.node[index + 1].reads == index && !model->layer[index].bias &&
           !model->layer[index].relu;
}

/* Whether convolution @index is the only reader of the batch norm and ReLU of one value, channel by
 * channel. */
static bool reads_norm(const struct device_state *state, int32_t index)
{
    int32_t source = state->graph.node[index].reads;
    const struct layer *layer = &state->job.model->layer[index];
    if (source < 0 || (layer->op == LAYER_LINEAR && layer->in.height * layer->in.width > 1))
        return false;
    const struct layer *norm = &state->job.model->layer[source];
    const struct graph_node *node = &state->graph.node[source];
    return norm->op == LAYER_BATCH_NORM && norm->relu && node->residual < 0 && node->readers == 1 &&
           node->finish == source;
}

/* Whether it may apply them: cuDNN has such engines only with sums. */
static bool may_apply(const struct device_state *state, int32_t index)
{
    return feeds_norm(state, index) && reads_norm(state, index);
}

static bool wants(const struct device_state *state, int32_t index, enum conv_op op)
{
    if (conv_applies(op))
        return may_apply(state, index);
    if (conv_norms(op))
        return reads_norm(state, index);
    if (conv_sums(op))
        return feeds_norm(state, index);
    return op != CONV_BACKWARD_DATA || state->graph.node[index].reads >= 0;
}

static int find_plan(struct device_state *state, int32_t index, enum conv_op op, struct err *err)
{
    const struct layer *layer = &state->job.model->layer[index];
    struct conv_shape shape = shape_of(state, layer);
    int32_t before = err->count;
    const struct conv_plan *plan = conv_plan(state->library, op, &shape, err);
    state->place[index].plan[op] = plan;
    if (plan || (err->count == before && conv_optional(op)))
        return 0;
    if (err->count > before)
        return -1;
    return err_add_code(err, 69,
                        "the cuda device cannot run %s in %s: cuDNN has no engine for its %s on a "
                        "batch of %d; try --set model.precision.compute=fp32",
                        layer->name, dtype_names[state->type], conv_op_names[op], state->micro);
}

static int find_plans(struct device_state *state, int32_t index, struct err *err)
{
    for (int32_t op = 0; op < CONV_OP_COUNT; op++)
        if (wants(state, index, (enum conv_op)op) && find_plan(state, index, (enum conv_op)op, err))
            return -1;
    return 0;
}

/* ---- what passes of our own take ---- */

struct timed {
    const struct device_state *state;
    enum conv_pass pass;
    int64_t rows;
    int32_t channels;
};

/* Memory of a pass, in one piece: an array, the one that is written, its mask, numbers. */
struct pass_memory {
    char *x, *y;
    uint32_t *mask;
    float *numbers;
};

static struct pass_memory pass_memory_new(const struct timed *pass)
{
    struct pass_memory memory = {0};
    int64_t elements = pass->rows * pass->channels,
            bytes = elements * dtype_size(pass->state->type);
    int64_t bits = (elements + 127) / 128 * 16;
    int64_t numbers = 2 * (int64_t)pass->channels * (KERNEL_PARTIALS + 1) * (int64_t)sizeof(float);
    if (cudaMalloc((void **)&memory.x, (size_t)(2 * bytes + bits + numbers)) != cudaSuccess) {
        cudaGetLastError(); /* the network does not fit either, and is refused with a better
                               message */
        return (struct pass_memory){0};
    }
    memory.y = memory.x + bytes;
    memory.mask = (uint32_t *)(void *)(memory.y + bytes);
    memory.numbers = (float *)(void *)((char *)memory.mask + bits);
    return memory;
}

static void issue_pass(const struct timed *pass, const struct pass_memory *memory)
{
    cudaStream_t stream = cuda_stream_handle(pass->state->stream);
    enum dtype type = pass->state->type;
    const struct kernel_cut cut = {.mask = memory->mask};
    switch (pass->pass) {
    case CONV_PASS_SUMS:
        kernel_sums(stream, type, pass->rows, pass->channels, memory->x, memory->numbers);
        break;
    case CONV_PASS_APPLY:
        kernel_apply(stream, type, pass->rows, pass->channels, memory->x, memory->numbers, NULL,
                     NULL, 1, memory->mask, memory->y);
        break;
    default:
        kernel_backward_sums(stream, type, pass->rows, pass->channels, memory->x, NULL, cut,
                             memory->y, memory->numbers, NULL,
                             memory->numbers + 2 * (int64_t)pass->channels);
    }
}

/* The mean of some runs [s], after one that loads the code; 0: not enough memory. */
static double time_pass(void *context)
{
    enum { RUNS = 5 };
    const struct timed *pass = context;
    struct stream *stream = pass->state->stream;
    struct pass_memory memory = pass_memory_new(pass);
    if (!memory.x)
        return 0;
    struct event *begin = cuda_event_new(), *end = cuda_event_new();
    issue_pass(pass, &memory);
    cuda_stream_record(stream, begin);
    for (int32_t i = 0; i < RUNS; i++)
        issue_pass(pass, &memory);
    cuda_stream_record(stream, end);
    cuda_event_synchronize(end);
    double seconds = cuda_event_seconds(begin, end) / RUNS;
    cuda_event_free(begin);
    cuda_event_free(end);
    cudaFree(memory.x);
    return seconds;
}

static double pass_seconds(const struct device_state *state, int32_t index, enum conv_pass which)
{
    const struct layer *layer = &state->job.model->layer[index];
    struct conv_shape shape = shape_of(state, layer);
    bool out = which == CONV_PASS_SUMS;
    struct timed pass = {.state = state,
                         .pass = which,
                         .rows = (int64_t)shape.batch * (out ? shape.out_height : shape.in_height) *
                                 (out ? shape.out_width : shape.in_width),
                         .channels = out ? shape.out_channels : shape.in_channels};
    return conv_pass_seconds(state->library, which, &shape, time_pass, &pass);
}

/* ---- choosing ---- */

/* A convolution with sums may be slower than one without and a pass over its value.  @return
 * seconds of the faster way, and keep its plan. */
static double choose_sums(const struct device_state *state, int32_t index)
{
    const struct conv_plan **plan = state->place[index].plan;
    double apart = conv_seconds(plan[CONV_FORWARD]) + pass_seconds(state, index, CONV_PASS_SUMS);
    double merged = conv_seconds(plan[CONV_FORWARD_SUMS]);
    if (merged <= apart)
        return merged;
    plan[CONV_FORWARD_SUMS] = NULL;
    return apart;
}

/* Whether convolution @index applies batch norm and ReLU; otherwise it takes @forward seconds.
 * Drops the plans of the other way. */
static void choose_applied(struct device_state *state, int32_t index, double forward)
{
    const struct conv_plan **plan = state->place[index].plan;
    const struct conv_plan *applied = plan[CONV_FORWARD_APPLIED_SUMS];
    const struct conv_plan *filter = plan[CONV_BACKWARD_FILTER_APPLIED];
    bool wins = applied && filter &&
                conv_seconds(applied) + conv_seconds(filter) <
                    forward + conv_seconds(plan[CONV_BACKWARD_FILTER]) +
                        pass_seconds(state, index, CONV_PASS_APPLY);
    if (wins)
        plan[CONV_FORWARD_SUMS] = plan[CONV_BACKWARD_FILTER] = NULL;
    else
        plan[CONV_FORWARD_APPLIED_SUMS] = plan[CONV_BACKWARD_FILTER_APPLIED] = NULL;
    if (wins)
        state->place[state->graph.node[index].reads].applied = true;
}

/* Whether convolution @index includes the backward of the batch norm that it reads. */
static void choose_norm(struct device_state *state, int32_t index)
{
    const struct conv_plan **plan = state->place[index].plan;
    if (!plan[CONV_BACKWARD_DATA_NORM])
        return;
    bool wins = conv_seconds(plan[CONV_BACKWARD_DATA_NORM]) <
                conv_seconds(plan[CONV_BACKWARD_DATA]) + pass_seconds(state, index, CONV_PASS_NORM);
    plan[wins ? CONV_BACKWARD_DATA : CONV_BACKWARD_DATA_NORM] = NULL;
    if (wins)
        state->place[state->graph.node[index].reads].derives = true;
}

static void choose(struct device_state *state, int32_t index)
{
    const struct conv_plan **plan = state->place[index].plan;
    choose_norm(state, index);
    if (plan[CONV_FORWARD_SUMS])
        choose_applied(state, index, choose_sums(state, index));
    else
        plan[CONV_FORWARD_APPLIED_SUMS] = plan[CONV_BACKWARD_FILTER_APPLIED] = NULL;
    for (int32_t op = 0; op < CONV_OP_COUNT; op++)
        if (plan[op] && conv_workspace(plan[op]) > state->workspace)
            state->workspace = conv_workspace(plan[op]);
}

int cuda_plans_find(struct device_state *state, struct err *err)
{
    for (int32_t i = 0; i < state->graph.layer_count; i++) {
        enum layer_op op = state->job.model->layer[i].op;
        if (op != LAYER_CONVOLUTION && op != LAYER_LINEAR)
            continue;
        if (find_plans(state, i, err))
            return -1;
        choose(state, i);
    }
    return 0;
}
