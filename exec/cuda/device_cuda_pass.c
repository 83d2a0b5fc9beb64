#include "exec/cuda/device_cuda_pass.h"

#include <assert.h>

#include "core/base/base.h"
#include "exec/cuda/device_cuda_weights.h"

/* What layer @index reads. */
static const void *source(const struct device_state *state, int32_t index, const void *images)
{
    int32_t from = state->graph.node[index].reads;
    return from >= 0 ? state->place[from].y : images;
}

/* ---- forward ---- */

static void run_convolution(const struct device_state *state, cudaStream_t stream, int32_t index,
                            const void *images, bool trains)
{
    const struct layer *layer = &state->job.model->layer[index];
    const struct cuda_place *place = &state->place[index];
    struct conv_call call = {.x = source(state, index, images),
                             .w = place->working,
                             .y = place->y,
                             .workspace = state->scratch.workspace};
    conv_run(place->plan[CONV_FORWARD], stream, &call);
    if (layer->bias || layer->relu)
        kernel_bias(stream, state->type, place->rows, place->channels, place->y, place->vector,
                    layer->relu, trains ? place->mask : NULL, place->y);
}

/* Fill the factors of batch norm @index from the statistics of the batch, which update the running
 * ones. */
static void find_statistics(const struct device_state *state, cudaStream_t stream, int32_t index,
                            int32_t micro)
{
    const struct scenario *scenario = state->job.scenario;
    const struct cuda_place *place = &state->place[index];
    const struct cuda_place *from = &state->place[state->graph.node[index].reads];
    double share = scenario->training.batch_norm.statistics == BN_STATISTICS_LAST
                       ? 1
                       : scenario->training.batch_norm.momentum;
    struct kernel_running running = {.mean = place->running,
                                     .variance = place->running + place->channels,
                                     .keep = (float)(micro == 0 ? 1 - share : 1),
                                     .take = (float)(share / state->job.micro_batches)};
    int32_t count = kernel_sums(stream, state->type, place->rows, place->channels, from->y,
                                state->scratch.partial);
    kernel_statistics(stream, place->rows, place->channels, scenario->training.batch_norm.epsilon,
                      count, state->scratch.partial, place->vector, running, place->statistics,
                      place->factors);
}

/* Batch norm @index; once both branches are complete, with the residual add and the ReLU. */
static void normalise(const struct device_state *state, cudaStream_t stream, int32_t index,
                      int32_t micro)
{
    const struct graph_node *node = &state->graph.node[index];
    const struct cuda_place *last = &state->place[index], *place = &state->place[node->finishes];
    int32_t whose = node->finishes, added = node->residual;
    bool relu = state->job.model->layer[whose].relu;
    const void *x = state->place[state->graph.node[whose].reads].y, *residual = NULL;
    if (micro >= 0)
        find_statistics(state, stream, index, micro);
    else
        kernel_inference(stream, last->channels, state->job.scenario->training.batch_norm.epsilon,
                         last->vector, last->running, last->running + last->channels,
                         last->factors);
    if (node->finish != index)
        return; /* the projection's last layer adds both */
    if (whose != index)
        residual = state->place[node->reads].y;
    else if (added >= 0)
        residual = state->place[added].y;
    kernel_apply(stream, state->type, place->rows, place->channels, x, place->factors, residual,
                 whose != index ? last->factors : NULL, relu, micro >= 0 ? place->mask : NULL,
                 place->y);
}

static void run_pool(const struct device_state *state, cudaStream_t stream, int32_t index,
                     const void *x)
{
    const struct cuda_place *place = &state->place[index];
    kernel_pool(stream, state->type, &state->job.model->layer[index], state->micro, place->channels,
                x, place->winner, place->y);
}

void cuda_pass_forward(struct device_state *state, cudaStream_t stream, int32_t index,
                       const void *images, int32_t micro)
{
    const struct layer *layer = &state->job.model->layer[index];
    if (micro <= 0)
        cuda_state_receive(state, stream, index);
    switch (layer->op) {
    case LAYER_CONVOLUTION:
    case LAYER_LINEAR:
        run_convolution(state, stream, index, images, micro >= 0);
        break;
    case LAYER_BATCH_NORM:
        normalise(state, stream, index, micro);
        break;
    case LAYER_MAX_POOL:
    case LAYER_AVERAGE_POOL:
        run_pool(state, stream, index, source(state, index, images));
        break;
    default:
        assert(!"a kind of layer");
    }
}

void cuda_pass_loss(struct device_state *state, cudaStream_t stream, struct cuda_slot *slot,
                    int32_t micro)
{
    const struct device_job *job = &state->job;
    const struct cuda_place *last = &state->place[job->model->layer_count - 1];
    kernel_loss(stream, state->type, state->micro, job->model->classes, last->channels, last->y,
                slot->label + (int64_t)micro * state->micro,
                job->scenario->training.label_smoothing, &slot->words->update.loss_scale,
                1 / (float)job->micro_batches, state->scratch.losses, &slot->words->outcome.loss,
                last->given[0]);
}

/* ---- backward ---- */

/* Where the part of micro-batch @micro of the gradient of @tensor goes, which it adds to; the last
 * one completes it. */
static struct kernel_packed goal(const struct device_state *state,
                                 const struct kernel_tensor *tensor, int32_t micro)
{
    bool last = micro == state->job.micro_batches - 1;
    int64_t size = dtype_size(state->gradient_type);
    char *gradient = (char *)state->gradient + tensor->offset * size;
    bool wanted = last && (const void *)state->sum != state->gradient;
    return (struct kernel_packed){.first = micro == 0,
                                  .sum = state->sum ? state->sum + tensor->offset : NULL,
                                  .share = state->share,
                                  .type = state->gradient_type,
                                  .gradient = wanted ? gradient : NULL};
}

static void pack(const struct device_state *state, cudaStream_t stream,
                 const struct kernel_tensor *tensor, enum dtype type, const void *dw, int32_t micro)
{
    const struct kernel_packed to = goal(state, tensor, micro);
    kernel_pack(stream, tensor, type, dw, to.first, to.sum, to.share, to.type, to.gradient);
}

/* The same of both tensors of batch norm @index, which follow each other, from @dw. */
static struct kernel_packed goal_of_norm(const struct device_state *state, int32_t index,
                                         const float *dw, int32_t micro)
{
    const struct kernel_tensor *tensor = &state->tensor[state->place[index].tensor];
    struct kernel_packed to = goal(state, tensor, micro);
    to.from = dw;
    to.count = tensor->in;
    return to;
}

/* The gradient of the value of layer @whose, masked by its ReLU, and of batch norm @index before
 * it. */
struct norm_gradient {
    int32_t index;
    const void *dy, *more;
    const uint32_t *mask;
    void *dz; /* output: the masked sum of dy and more; NULL: not needed elsewhere */
    void *dx;
};

static void run_norm(const struct device_state *state, cudaStream_t stream,
                     const struct norm_gradient *g, int32_t micro)
{
    const struct cuda_place *place = &state->place[g->index];
    const void *x = state->place[state->graph.node[g->index].reads].y;
    const struct scratch *scratch = &state->scratch;
    int32_t count =
        kernel_backward_sums(stream, state->type, place->rows, place->channels, g->dy, g->more,
                             g->mask, x, place->statistics, g->dz, scratch->partial);
    kernel_backward_factors(stream, place->rows, place->channels, count, scratch->partial,
                            place->vector, place->statistics, scratch->gradient, scratch->factors);
    kernel_backward_apply(stream, state->type, place->rows, place->channels, g->dz ? g->dz : g->dy,
                          g->dz ? NULL : g->mask, x, scratch->factors, g->dx,
                          goal_of_norm(state, g->index, scratch->gradient, micro));
}

/* A projection's batch norm and that of its main branch get the same gradient: the main branch's
 * pass forms it, and the projection's overwrites it. */
static void run_norms(const struct device_state *state, cudaStream_t stream, int32_t index,
                      int32_t micro)
{
    const struct graph_node *node = &state->graph.node[index];
    int32_t whose = node->finishes;
    const struct cuda_place *place = &state->place[whose];
    if (node->finish != index)
        return; /* done in the projection's last layer */
    bool shared = place->given[1] || ((whose != index || node->residual >= 0) && place->mask);
    void *sum = place->given[place->given[1] != NULL];
    struct norm_gradient first = {.index = whose,
                                  .dy = place->given[0],
                                  .more = place->given[1],
                                  .mask = place->mask,
                                  .dz = shared ? sum : NULL,
                                  .dx = place->dx};
    run_norm(state, stream, &first, micro);
    if (whose == index)
        return;
    struct norm_gradient second = {.index = index, .dy = sum, .dx = state->place[index].dx};
    run_norm(state, stream, &second, micro);
}

/* Complete the gradient of the value of layer @index, which is no batch norm. */
static void settle(const struct device_state *state, cudaStream_t stream, int32_t index)
{
    const struct cuda_place *place = &state->place[index];
    if (place->given[1] || place->mask)
        kernel_mask(stream, state->type, place->rows * place->channels, place->given[0],
                    place->given[1], place->mask, place->given[0]);
}

void cuda_pass_backward_data(struct device_state *state, cudaStream_t stream, int32_t index,
                             int32_t micro)
{
    const struct layer *layer = &state->job.model->layer[index];
    const struct cuda_place *place = &state->place[index];
    if (layer->op == LAYER_BATCH_NORM) {
        run_norms(state, stream, index, micro);
        return;
    }
    settle(state, stream, index);
    if (layer->op == LAYER_MAX_POOL || layer->op == LAYER_AVERAGE_POOL) {
        kernel_pool_backward(stream, state->type, layer, state->micro, place->channels,
                             place->winner, place->given[0], place->dx);
        return;
    }
    struct conv_call call = {.w = place->working,
                             .dy = place->given[0],
                             .dx = place->dx,
                             .workspace = state->scratch.workspace};
    conv_run(place->plan[CONV_BACKWARD_DATA], stream, &call);
}

void cuda_pass_backward_filter(struct device_state *state, cudaStream_t stream, int32_t index,
                               const void *images, int32_t micro)
{
    const struct cuda_place *place = &state->place[index];
    const struct scratch *scratch = &state->scratch;
    const struct kernel_tensor *weights = &state->tensor[place->tensor];
    void *direct = cuda_state_direct(state, weights);
    if (state->graph.node[index].reads < 0)
        settle(state, stream, index); /* else its data step has */
    struct conv_call call = {.x = source(state, index, images),
                             .dy = place->given[0],
                             .dw = direct ? direct : scratch->dw,
                             .workspace = scratch->workspace};
    conv_run(place->plan[CONV_BACKWARD_FILTER], stream, &call);
    if (!direct)
        pack(state, stream, weights, state->type, scratch->dw, micro);
    if (!state->job.model->layer[index].bias)
        return;
    kernel_bias_backward(stream, state->type, place->rows, place->channels, place->given[0],
                         scratch->partial, scratch->gradient);
    pack(state, stream, &state->tensor[place->tensor + 1], DTYPE_FP32, scratch->gradient, micro);
}
