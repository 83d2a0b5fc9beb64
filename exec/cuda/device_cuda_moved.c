#include "exec/cuda/device_cuda_moved.h"

#include <assert.h>

#include "exec/cuda/device_cuda_weights.h"

/* Each function follows the one of device_cuda_pass.c that issues the kernels. */

/* The value of layer @index; -1: images. */
static int64_t value(const struct device_state *state, int32_t index)
{
    int64_t size = dtype_size(state->type);
    if (index < 0)
        return state->micro * state->pixels * state->image * size;
    return state->place[index].rows * state->place[index].channels * size;
}

static int64_t mask(const struct device_state *state, int32_t index)
{
    return state->place[index].mask ? value(state, index) / dtype_size(state->type) / 8 : 0;
}

static int64_t weights(const struct device_state *state, int32_t index)
{
    const struct kernel_tensor *tensor = &state->tensor[state->place[index].tensor];
    return (int64_t)cuda_state_pad(tensor->out) * tensor->taps * tensor->padded_in *
           dtype_size(state->type);
}

/* What brings gathered weights to the convolution. */
static int64_t receive(const struct device_state *state, int32_t index)
{
    const struct kernel_tensor *tensor = &state->tensor[state->place[index].tensor];
    if (!state->copy || cuda_state_straight(state, tensor))
        return 0;
    return 2 * (int64_t)tensor->out * tensor->taps * tensor->in * dtype_size(state->type);
}

static int64_t convolution(const struct device_state *state, int32_t index)
{
    return value(state, state->graph.node[index].reads) + weights(state, index) +
           value(state, index);
}

static int64_t normalise(const struct device_state *state, int32_t index)
{
    const struct graph_node *node = &state->graph.node[index];
    const int64_t bytes = value(state, index);
    bool adds = node->finishes != index || node->residual >= 0;
    if (node->finish != index)
        return bytes;
    return bytes + (adds ? 3 : 2) * bytes + mask(state, node->finishes);
}

static int64_t forward(const struct device_state *state, int32_t index, int32_t micro)
{
    const struct layer *layer = &state->job.model->layer[index];
    const struct cuda_place *place = &state->place[index];
    const int64_t read = value(state, state->graph.node[index].reads);
    switch (layer->op) {
    case LAYER_BATCH_NORM:
        return normalise(state, index);
    case LAYER_MAX_POOL:
    case LAYER_AVERAGE_POOL:
        return read + value(state, index) + (place->winner ? place->rows * place->channels : 0);
    default:
        return convolution(state, index) + (micro == 0 ? receive(state, index) : 0) +
               (layer->bias || layer->relu ? 2 * value(state, index) + mask(state, index) : 0);
    }
}

/* Batch norm @index, whose gradient is written to dz where @writes; @more: arrays and masks read
 * beside, by the first pass, and by the second where dz is not written. */
static int64_t norm_backward(const struct device_state *state, int32_t index, bool writes,
                             int64_t more, int64_t cut)
{
    const int64_t bytes = value(state, index);
    return (writes ? 3 : 2) * bytes + more + cut + 3 * bytes + (writes ? 0 : cut);
}

static int64_t norms_backward(const struct device_state *state, int32_t index)
{
    const struct graph_node *node = &state->graph.node[index];
    const int32_t whose = node->finishes;
    const struct cuda_place *place = &state->place[whose];
    if (node->finish != index)
        return 0;
    bool shared = place->given[1] || ((whose != index || node->residual >= 0) && place->mask);
    int64_t all = norm_backward(state, whose, shared, place->given[1] ? value(state, whose) : 0,
                                mask(state, whose));
    return all + (whose != index ? norm_backward(state, index, false, 0, 0) : 0);
}

static int64_t settle(const struct device_state *state, int32_t index)
{
    const struct cuda_place *place = &state->place[index];
    if (!place->given[1] && !place->mask)
        return 0;
    return (place->given[1] ? 3 : 2) * value(state, index) + mask(state, index);
}

static int64_t pool_backward(const struct device_state *state, int32_t index)
{
    const struct cuda_place *place = &state->place[index];
    return value(state, index) + value(state, state->graph.node[index].reads) +
           (place->winner ? place->rows * place->channels : 0);
}

static int64_t backward_data(const struct device_state *state, int32_t index)
{
    const struct layer *layer = &state->job.model->layer[index];
    if (layer->op == LAYER_BATCH_NORM)
        return norms_backward(state, index);
    if (layer->op == LAYER_MAX_POOL || layer->op == LAYER_AVERAGE_POOL)
        return settle(state, index) + pool_backward(state, index);
    return settle(state, index) + convolution(state, index);
}

static int64_t backward_filter(const struct device_state *state, int32_t index)
{
    const struct kernel_tensor *tensor = &state->tensor[state->place[index].tensor];
    const int64_t elements = (int64_t)tensor->out * tensor->taps * tensor->in;
    int64_t all = convolution(state, index);
    if (!cuda_state_direct(state, tensor))
        all += weights(state, index) + elements * dtype_size(state->gradient_type);
    if (state->graph.node[index].reads < 0)
        all += settle(state, index);
    if (state->sum)
        all += 2 * elements * (int64_t)sizeof(float);
    return all + (state->job.model->layer[index].bias ? value(state, index) : 0);
}

/* Norms read gradients and, with LARS, weights; the update reads and writes weights and momentum,
 * reads gradients, and writes copies.  Of a shard, norms are a step of their own. */
static int64_t optimizer(const struct device_state *state, bool measures, bool updates)
{
    const int64_t size = dtype_size(state->gradient_type), real = sizeof(float);
    bool lars = state->job.scenario->training.optimizer == OPTIMIZER_LARS;
    bool copies = !state->copy || state->type != DTYPE_FP32;
    int64_t all = 0, each = updates ? size + 4 * real + (copies ? dtype_size(state->type) : 0) : 0;
    for (int32_t i = 0; i < state->parameters.chunks; i++)
        all += state->chunk[i].elements *
               (each + (measures && state->chunk[i].own ? size + (lars ? real : 0) : 0));
    return all;
}

int64_t cuda_moved(const struct device_state *state, const struct step *step)
{
    int32_t index = step->compute.layer;
    switch (step->compute.op) {
    case COMPUTE_FORWARD:
        return forward(state, index, step->compute.micro);
    case COMPUTE_LOSS:
        return 2 * value(state, state->job.model->layer_count - 1);
    case COMPUTE_BACKWARD_DATA:
        return backward_data(state, index);
    case COMPUTE_BACKWARD_FILTER:
        return backward_filter(state, index);
    case COMPUTE_OPTIMIZER:
        return optimizer(state, !state->copy || step->role == ROLE_NORMS, step->role != ROLE_NORMS);
    case COMPUTE_OP_COUNT:
        break;
    }
    assert(!"a kind of step");
    return 0;
}
