#include "exec/cuda/device_cuda_pass.h"

#include <assert.h>

#include "core/base/base.h"
#include "exec/cuda/device_cuda_weights.h"

/* The value of a layer.  A value that is not written in training is written in inference, to the
 * place of its gradient. */
static void *value(const struct cuda_place *place, bool trains)
{
    return place->applied && !trains ? place->given[0] : place->y;
}

/* What layer @index reads. */
static const void *source(const struct device_state *state, int32_t index, const void *images,
                          bool trains)
{
    int32_t from = state->graph.node[index].reads;
    return from >= 0 ? value(&state->place[from], trains) : images;
}

/* Let @call of @op apply the batch norm that layer @index reads, and its ReLU; where it ends a
 * block, also add what is added there, and write the value. */
static void apply_source(const struct device_state *state, int32_t index, enum conv_op op,
                         struct conv_call *call)
{
    const int32_t norm = state->graph.node[index].reads;
    const struct graph_node *node = &state->graph.node[norm];
    call->x = state->place[node->reads].y;
    call->factors = state->place[norm].halves;
    if (!conv_ops[op].adds)
        return;
    call->value = state->place[norm].y;
    call->residual = state->place[node->residual].y;
    if (conv_ops[op].pairs) {
        call->residual = state->place[state->graph.node[node->finish].reads].y;
        call->residual_factors = state->place[node->finish].halves;
    }
}

/* ---- forward ---- */

static void run_convolution(const struct device_state *state, cudaStream_t stream, int32_t index,
                            const void *images, bool trains)
{
    const struct layer *layer = &state->job.model->layer[index];
    const struct cuda_place *place = &state->place[index];
    const enum conv_op op = trains ? cuda_state_op(place, PASS_FORWARD) : CONV_FORWARD;
    struct conv_call call = {.x = source(state, index, images, trains),
                             .w = place->working,
                             .y = place->y,
                             .sums = conv_ops[op].sums ? state->scratch.partial : NULL,
                             .workspace = state->scratch.workspace};
    if (conv_ops[op].applies)
        apply_source(state, index, op, &call);
    conv_run(place->plan[op], stream, &call);
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
    int32_t count = 1; /* the convolution has left them */
    if (!conv_ops[cuda_state_op(from, PASS_FORWARD)].sums)
        count = kernel_sums(stream, state->type, place->rows, place->channels, from->y,
                            state->scratch.partial);
    kernel_statistics(stream, place->rows, place->channels, scenario->training.batch_norm.epsilon,
                      count, state->scratch.partial, place->vector, running, place->statistics,
                      place->factors, place->halves);
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
    if (place->pool || ((place->applied || place->ends) && micro >= 0))
        return; /* what reads it applies the factors */
    if (whose != index)
        residual = state->place[node->reads].y;
    else if (added >= 0)
        residual = state->place[added].y;
    kernel_apply(stream, state->type, place->rows, place->channels, x, place->factors, residual,
                 whose != index ? last->factors : NULL, relu, micro >= 0 ? place->mask : NULL,
                 value(place, micro >= 0));
}

static void run_pool(const struct device_state *state, cudaStream_t stream, int32_t index,
                     const void *x)
{
    const struct cuda_place *place = &state->place[index];
    int32_t from = state->graph.node[index].reads;
    const float *factors = NULL;
    if (from >= 0 && state->place[from].pool) {
        x = state->place[state->graph.node[from].reads].y;
        factors = state->place[from].factors;
    }
    kernel_pool(stream, state->type, &state->job.model->layer[index], state->micro, place->channels,
                x, factors, place->winner, place->y);
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
        run_pool(state, stream, index, source(state, index, images, micro >= 0));
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
    struct kernel_cut cut;
    void *dz; /* output: the masked sum of dy and more; NULL: not needed elsewhere */
    void *dx;
};

/* Where a pool applies batch norm @index: its gradient is gathered from that of the pool. */
static void run_pooled_norm(const struct device_state *state, cudaStream_t stream, int32_t index,
                            void *dx, int32_t micro)
{
    const struct cuda_place *place = &state->place[index], *pool = &state->place[place->pool];
    const void *x = state->place[state->graph.node[index].reads].y;
    const struct scratch *scratch = &state->scratch;
    const struct kernel_pooled pooled = {&state->job.model->layer[place->pool], state->micro,
                                         pool->winner, pool->given[0], place->factors};
    int32_t count = kernel_pooled_sums(stream, state->type, place->channels, &pooled, x,
                                       place->statistics, scratch->partial);
    kernel_backward_factors(stream, place->rows, place->channels, count, scratch->partial,
                            place->vector, place->statistics, scratch->gradient, scratch->factors);
    kernel_pooled_apply(stream, state->type, place->channels, &pooled, x, scratch->factors, dx,
                        goal_of_norm(state, index, scratch->gradient, micro));
}

static void run_norm(const struct device_state *state, cudaStream_t stream,
                     const struct norm_gradient *g, int32_t micro)
{
    const struct cuda_place *place = &state->place[g->index];
    const void *x = state->place[state->graph.node[g->index].reads].y;
    const struct scratch *scratch = &state->scratch;
    const struct kernel_cut done = {0};
    if (place->derives) { /* the convolution that gave dy has masked it, and formed the sums */
        kernel_backward_apply(stream, state->type, place->rows, place->channels,
                              g->dz ? g->dz : g->dy, done, x,
                              place->derived + 2 * (int64_t)place->channels, g->dx,
                              goal_of_norm(state, g->index, place->derived, micro));
        return;
    }
    if (place->pool) {
        run_pooled_norm(state, stream, g->index, g->dx, micro);
        return;
    }
    int32_t count =
        kernel_backward_sums(stream, state->type, place->rows, place->channels, g->dy, g->more,
                             g->cut, x, place->statistics, g->dz, scratch->partial);
    kernel_backward_factors(stream, place->rows, place->channels, count, scratch->partial,
                            place->vector, place->statistics, scratch->gradient, scratch->factors);
    kernel_backward_apply(stream, state->type, place->rows, place->channels, g->dz ? g->dz : g->dy,
                          g->dz ? done : g->cut, x, scratch->factors, g->dx,
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
    struct norm_gradient first = {
        .index = whose,
        .dy = place->given[0],
        .more = place->given[1],
        .cut = {.mask = place->mask, .factors = place->applied ? place->factors : NULL},
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

/* Let @call of @op include the backward of the batch norm that layer @index reads, and of its ReLU;
 * at the end of a block, of the projection's batch norm if there is one. */
static void go_back(const struct device_state *state, int32_t index, enum conv_op op,
                    struct conv_call *call)
{
    const int32_t whose = state->graph.node[index].reads;
    const struct graph_node *node = &state->graph.node[whose];
    for (int32_t k = 0; k < conv_ops[op].norms; k++) {
        int32_t norm = k == 0 ? whose : node->finish;
        const struct cuda_place *place = &state->place[norm];
        call->norm[k] = (struct conv_norm){state->place[state->graph.node[norm].reads].y,
                                           place->statistics, place->vector, place->derived};
    }
    if (conv_ops[op].adds)
        call->other = state->place[whose].given[0];
    if (conv_ops[op].adds && !conv_ops[op].pairs)
        call->residual = state->place[node->residual].y;
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
        int32_t from = state->graph.node[index].reads;
        if (from >= 0 && state->place[from].pool)
            return; /* that batch norm gathers its gradient itself */
        kernel_pool_backward(stream, state->type, layer, state->micro, place->channels,
                             place->winner, place->given[0], place->dx);
        return;
    }
    struct conv_call call = {.w = place->working,
                             .dy = place->given[0],
                             .dx = place->dx,
                             .workspace = state->scratch.workspace};
    const enum conv_op op = cuda_state_op(place, PASS_BACKWARD_DATA);
    go_back(state, index, op, &call);
    conv_run(place->plan[op], stream, &call);
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
    struct conv_call call = {.x = source(state, index, images, true),
                             .dy = place->given[0],
                             .dw = direct ? direct : scratch->dw,
                             .workspace = scratch->workspace};
    const enum conv_op op = cuda_state_op(place, PASS_BACKWARD_FILTER);
    if (conv_ops[op].applies)
        apply_source(state, index, op, &call);
    conv_run(place->plan[op], stream, &call);
    if (!direct)
        pack(state, stream, weights, state->type, scratch->dw, micro);
    if (!state->job.model->layer[index].bias)
        return;
    kernel_bias_backward(stream, state->type, place->rows, place->channels, place->given[0],
                         scratch->partial, scratch->gradient);
    pack(state, stream, &state->tensor[place->tensor + 1], DTYPE_FP32, scratch->gradient, micro);
}
