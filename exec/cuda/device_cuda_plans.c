#include "exec/cuda/device_cuda_plans.h"

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

static int find_plan(struct device_state *state, int32_t index, enum conv_op op, struct err *err)
{
    const struct layer *layer = &state->job.model->layer[index];
    struct conv_shape shape = shape_of(state, layer);
    int32_t before = err->count;
    const struct conv_plan *plan = conv_plan(state->library, op, &shape, err);
    state->place[index].plan[op] = plan;
    if (err->count > before)
        return -1;
    if (!plan)
        return err_add_code(err, 69,
                            "the cuda device cannot run %s in %s: cuDNN has no engine for its %s "
                            "on a batch of %d; try --set model.precision.compute=fp32",
                            layer->name, dtype_names[state->type], conv_names[op], state->micro);
    if (conv_workspace(plan) > state->workspace)
        state->workspace = conv_workspace(plan);
    return 0;
}

int cuda_plans_find(struct device_state *state, struct err *err)
{
    for (int32_t i = 0; i < state->graph.layer_count; i++) {
        const enum layer_op op = state->job.model->layer[i].op;
        if (op != LAYER_CONVOLUTION && op != LAYER_LINEAR)
            continue;
        bool reads = state->graph.node[i].reads >= 0;
        if (find_plan(state, i, CONV_FORWARD, err) ||
            (reads && find_plan(state, i, CONV_BACKWARD_DATA, err)) ||
            find_plan(state, i, CONV_BACKWARD_FILTER, err))
            return -1;
    }
    return 0;
}
