#include "exec/cuda/device_cuda_plans.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

#include "exec/cuda/conv/conv_chain.h"

/* ---- finding ---- */

/* A linear layer is a convolution of one pixel, whose channels are all numbers of an image: they
 * lie in the order of its weights. */
static struct conv_shape shape_of(const struct device_state *state, const struct layer *layer)
{
    int32_t channels = layer->first ? state->image : cuda_state_pad(layer->in.channels);
    struct conv_shape shape = {.type = state->type,
                               .batch = state->micro,
                               .in_channels = channels,
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

/* Whether layer @index is the only reader of the batch norm and ReLU of one value, channel by
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

/* Whether layer @index, of two readers, gives the last gradient to the end of a block: a batch
 * norm's result, and another value, behind a ReLU. */
static bool ends_block(const struct device_state *state, int32_t index)
{
    int32_t source = state->graph.node[index].reads;
    if (source < 0 || state->job.model->layer[index].op == LAYER_LINEAR)
        return false;
    const struct layer *norm = &state->job.model->layer[source];
    return norm->op == LAYER_BATCH_NORM && norm->relu && state->graph.node[source].residual >= 0 &&
           state->plan.place[source].given[1] == state->plan.place[index].dx;
}

static bool wants(const struct device_state *state, int32_t index, enum conv_op op)
{
    if (conv_ops[op].adds) {
        int32_t source = state->graph.node[index].reads;
        return ends_block(state, index) && (conv_ops[op].norms || feeds_norm(state, index)) &&
               (state->graph.node[source].finish != source) == conv_ops[op].pairs;
    }
    if (conv_ops[op].applies)
        return may_apply(state, index);
    if (conv_ops[op].norms)
        return reads_norm(state, index);
    if (conv_ops[op].sums)
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
    if (plan || (err->count == before && conv_ops[op].optional))
        return 0;
    if (err->count > before)
        return -1;
    return err_add_code(err, 69,
                        "the cuda device cannot run %s in %s: cuDNN has no engine for its %s on a "
                        "batch of %d; try --set model.precision.compute=fp32",
                        layer->name, dtype_names[state->type], conv_ops[op].name, state->micro);
}

static int find_plans(struct device_state *state, int32_t index, struct err *err)
{
    for (int32_t op = 0; op < CONV_OP_COUNT; op++)
        if (wants(state, index, (enum conv_op)op) && find_plan(state, index, (enum conv_op)op, err))
            return -1;
    return 0;
}

/* ---- choosing ---- */

/* The chain among the @count of @way that takes least beside convolution @index, which has the
 * plans @narrow for fewer channels; the first, which merges nothing, if it ties or they cannot be
 * timed.  Chains without their plans are no way. */
static enum conv_chain fastest(struct device_state *state, int32_t index,
                               const enum conv_chain *way, int32_t count,
                               const struct conv_plan *const *narrow)
{
    struct conv_chain_job job = {.plan = state->place[index].plan,
                                 .shape = shape_of(state, &state->job.model->layer[index]),
                                 .narrow = narrow};
    double seconds[CONV_CHAIN_COUNT], next = INFINITY;
    uint32_t wanted = 0;
    enum conv_chain best = way[0];
    for (int32_t i = 0; i < count; i++)
        wanted |= UINT32_C(1) << way[i];
    if (count == 1 ||
        conv_chain_seconds(state->library, wanted, &job.shape, seconds, conv_chain_measure, &job))
        return best;
    for (int32_t i = 1; i < count; i++)
        best = seconds[way[i]] < seconds[best] ? way[i] : best;
    for (int32_t i = 0; i < count; i++) {
        next = way[i] != best && seconds[way[i]] < next ? seconds[way[i]] : next;
        state->merged[way[i]].of += i > 0;
    }
    if (best != way[0]) {
        state->merged[best].layers++;
        state->merged[best].saved += next - seconds[best];
    }
    return best;
}

/* How many channels the images of convolution @index have: KERNEL_CHANNELS, unless engines for
 * KERNEL_IMAGES are faster. */
static int choose_images(struct device_state *state, int32_t index, struct err *err)
{
    static const enum conv_chain way[] = {CONV_CHAIN_IMAGES, CONV_CHAIN_IMAGES_NARROW};
    const struct layer *layer = &state->job.model->layer[index];
    const struct conv_plan **plan = state->place[index].plan, *narrow[CONV_OP_COUNT] = {NULL};
    struct conv_shape shape = shape_of(state, layer);
    int32_t before = err->count;
    if (!layer->first || layer->op != LAYER_CONVOLUTION || state->type == DTYPE_FP32 ||
        layer->in.channels > KERNEL_IMAGES)
        return 0;
    shape.in_channels = KERNEL_IMAGES;
    for (int32_t op = 0; op < CONV_OP_COUNT; op++)
        if (wants(state, index, (enum conv_op)op))
            narrow[op] = conv_plan(state->library, (enum conv_op)op, &shape, err);
    if (err->count > before)
        return -1;
    if (!narrow[CONV_FORWARD] || !narrow[CONV_BACKWARD_FILTER] ||
        fastest(state, index, way, 2, narrow) != CONV_CHAIN_IMAGES_NARROW)
        return 0;
    state->image = KERNEL_IMAGES;
    for (int32_t op = 0; op < CONV_OP_COUNT; op++)
        plan[op] = narrow[op];
    return 0;
}

/* How convolution @index runs forward, and the gradient of its weights.  Drops the plans of other
 * ways. */
static void choose_forward(struct device_state *state, int32_t index)
{
    const struct conv_plan **plan = state->place[index].plan;
    bool may = plan[CONV_FORWARD_APPLIED_SUMS] && plan[CONV_BACKWARD_FILTER_APPLIED];
    enum conv_chain way[3] = {may ? CONV_CHAIN_APPLY_FORWARD : CONV_CHAIN_FORWARD};
    int32_t count = 1;
    if (plan[CONV_FORWARD_SUMS])
        way[count++] = may ? CONV_CHAIN_APPLY_FORWARD_SUMS : CONV_CHAIN_FORWARD_SUMS;
    if (may)
        way[count++] = CONV_CHAIN_APPLIED;
    enum conv_chain best = fastest(state, index, way, count, NULL);
    if (best == CONV_CHAIN_APPLIED) {
        plan[CONV_FORWARD_SUMS] = plan[CONV_BACKWARD_FILTER] = NULL;
        state->place[state->graph.node[index].reads].applied = true;
        return;
    }
    plan[CONV_FORWARD_APPLIED_SUMS] = plan[CONV_BACKWARD_FILTER_APPLIED] = NULL;
    if (best == way[0])
        plan[CONV_FORWARD_SUMS] = NULL;
}

/* Whether convolution @index includes the backward of the batch norm that it reads, and of the one
 * whose result is added to that. */
static void choose_norm(struct device_state *state, int32_t index)
{
    const struct conv_plan **plan = state->place[index].plan;
    const int32_t source = state->graph.node[index].reads;
    for (int32_t op = 0; op < CONV_OP_COUNT; op++) {
        if (!plan[op] || !conv_ops[op].norms)
            continue;
        struct cuda_place *norm = &state->place[source];
        enum conv_chain way[] = {norm->applied ? CONV_CHAIN_BACKWARD_CUT : CONV_CHAIN_BACKWARD,
                                 CONV_CHAIN_BACKWARD_NORM};
        if (conv_ops[op].adds) {
            bool two = conv_ops[op].pairs;
            way[0] = two ? CONV_CHAIN_BACKWARD_ADD_TWO : CONV_CHAIN_BACKWARD_ADD;
            way[1] = two ? CONV_CHAIN_BACKWARD_ADD_NORMS : CONV_CHAIN_BACKWARD_ADD_NORM;
        }
        bool merged = fastest(state, index, way, 2, NULL) == way[1];
        norm->derives = state->place[state->graph.node[source].finish].derives = merged;
        plan[merged ? CONV_BACKWARD_DATA : op] = NULL;
    }
}

/* Whether convolution @index writes the value of the block before it.  That has no mask, so
 * backward must form the ReLU again. */
static void choose_end(struct device_state *state, int32_t index)
{
    const struct conv_plan **plan = state->place[index].plan;
    for (int32_t op = 0; op < CONV_OP_COUNT; op++) {
        if (!plan[op] || !conv_ops[op].adds || !conv_ops[op].sums)
            continue;
        const bool two = conv_ops[op].pairs;
        const enum conv_chain way[] = {two ? CONV_CHAIN_END_TWO : CONV_CHAIN_END,
                                       two ? CONV_CHAIN_END_TWO_MERGED : CONV_CHAIN_END_MERGED};
        const int32_t source = state->graph.node[index].reads;
        struct cuda_place *norm = &state->place[source];
        norm->ends = norm->derives && fastest(state, index, way, 2, NULL) == way[1];
        state->place[state->graph.node[source].finish].ends = norm->ends;
        plan[norm->ends ? CONV_FORWARD_SUMS : op] = NULL;
    }
}

static void choose(struct device_state *state, int32_t index)
{
    const struct conv_plan **plan = state->place[index].plan;
    choose_forward(state, index);
    choose_norm(state, index);
    choose_end(state, index);
    for (int32_t op = 0; op < CONV_OP_COUNT; op++)
        if (plan[op] && conv_workspace(plan[op]) > state->workspace)
            state->workspace = conv_workspace(plan[op]);
}

/* Whether maximum pool @index applies the batch norm and ReLU that it alone reads.  The gradient of
 * the pool must outlive that of batch norm's input. */
static void choose_pool(struct device_state *state, int32_t index)
{
    static const enum conv_chain way[] = {CONV_CHAIN_POOL, CONV_CHAIN_POOL_MERGED};
    int32_t from = state->graph.node[index].reads;
    if (!reads_norm(state, index) ||
        state->plan.place[from].dx == state->plan.place[index].given[0])
        return;
    if (fastest(state, index, way, 2, NULL) == CONV_CHAIN_POOL_MERGED)
        state->place[from].pool = index;
}

int cuda_plans_find(struct device_state *state, struct err *err)
{
    for (int32_t i = 0; i < state->graph.layer_count; i++) {
        enum layer_op op = state->job.model->layer[i].op;
        if (op == LAYER_MAX_POOL)
            choose_pool(state, i);
        if (op != LAYER_CONVOLUTION && op != LAYER_LINEAR)
            continue;
        if (find_plans(state, i, err) || choose_images(state, i, err))
            return -1;
        choose(state, i);
    }
    return 0;
}

static_assert((int)CONV_CHAIN_COUNT <= (int)DEVICE_CHOICES, "all are reported");

int32_t cuda_plans_choices(const struct device_state *state, struct choice *choice)
{
    int32_t count = 0;
    for (int32_t i = 0; i < CONV_CHAIN_COUNT; i++) {
        const struct merged *merged = &state->merged[i];
        if (merged->of)
            choice[count++] = (struct choice){conv_chain_names[i], merged->layers, merged->of,
                                              merged->saved * state->job.micro_batches};
    }
    return count;
}
