#include "exec/cuda/device_cuda.h"

#include <sys/stat.h>

#include "exec/cuda/device_cuda_state.h"
#include "exec/cuda/runtime/check.h"
#include "exec/cuda/runtime/gpu.h"
#include "exec/cuda/runtime/stream_cuda.h"

/* Forward and backward passes, layer by layer. */

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
        kernel_apply(stream, state->type, place->rows, place->channels, place->y, NULL,
                     place->vector, NULL, NULL, layer->relu, trains ? place->mask : NULL, place->y);
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
    kernel_apply(stream, state->type, place->rows, place->channels, x, place->factors,
                 place->factors + place->channels, residual, whose != index ? last->factors : NULL,
                 relu, micro >= 0 ? place->mask : NULL, place->y);
}

static void run_pool(const struct device_state *state, cudaStream_t stream, int32_t index,
                     const void *x)
{
    const struct cuda_place *place = &state->place[index];
    kernel_pool(stream, state->type, &state->job.model->layer[index], state->micro, place->channels,
                x, place->winner, place->y);
}

/* Issue layer @index forward, on micro-batch @micro of @images (its images); -1: in inference. */
static void cuda_pass_forward(struct device_state *state, cudaStream_t stream, int32_t index,
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

/* Issue the loss of micro-batch @micro and its gradient. */
static void cuda_pass_loss(struct device_state *state, cudaStream_t stream, struct cuda_slot *slot,
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

/* Where the gradients @dw of both tensors of batch norm @index, which follow each other, go. */
static struct kernel_packed goal_of_norm(const struct device_state *state, int32_t index,
                                         const float *dw, int32_t micro)
{
    const struct kernel_tensor *tensor = &state->tensor[state->place[index].tensor];
    struct kernel_packed to = goal(state, tensor, micro);
    to.from = dw;
    to.count = tensor->in;
    return to;
}

/* The gradient of the value of layer @whose, masked by its ReLU, and of batch norm @index. */
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

/* Issue the gradient of layer @index's input; of batch norm that of its parameters too. */
static void cuda_pass_backward_data(struct device_state *state, cudaStream_t stream, int32_t index,
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

/* Issue the gradient of the weights of layer @index. */
static void cuda_pass_backward_filter(struct device_state *state, cudaStream_t stream,
                                      int32_t index, const void *images, int32_t micro)
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

/* ---- what a step moves, with the plans it has ---- */

/* Each function follows the one above that issues the kernels. */

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

static int64_t bytes_to_normalise(const struct device_state *state, int32_t index)
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
        return bytes_to_normalise(state, index);
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

static int64_t bytes_to_settle(const struct device_state *state, int32_t index)
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
        return bytes_to_settle(state, index) + pool_backward(state, index);
    return bytes_to_settle(state, index) + convolution(state, index);
}

static int64_t backward_filter(const struct device_state *state, int32_t index)
{
    const struct kernel_tensor *tensor = &state->tensor[state->place[index].tensor];
    const int64_t elements = (int64_t)tensor->out * tensor->taps * tensor->in;
    int64_t all = convolution(state, index);
    if (!cuda_state_direct(state, tensor))
        all += weights(state, index) + elements * dtype_size(state->gradient_type);
    if (state->graph.node[index].reads < 0)
        all += bytes_to_settle(state, index);
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

/* Bytes that @step reads and writes (device_ops.moved).  Numbers per channel are left out. */
static int64_t cuda_moved(const struct device_state *state, const struct step *step)
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

static int check_types(const struct scenario *scenario, struct err *err)
{
    if (scenario->model.master == DTYPE_FP32)
        return 0;
    return err_add_code(err, 69,
                        "the cuda device keeps master weights in fp32: use --set "
                        "model.precision.master=fp32");
}

/* Where plans of convolutions are kept: $XDG_CACHE_HOME/foretrain, else ~/.cache/foretrain; NULL:
 * there is no such place, and every run searches again.  The caller frees it. */
static char *cache_path(void)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    AUTOFREE char *parent = cache && cache[0] == '/' ? base_copy(cache)
                            : home && home[0] == '/' ? base_format("%s/.cache", home)
                                                     : NULL;
    if (!parent)
        return NULL;
    AUTOFREE char *folder = base_format("%s/foretrain", parent);
    mkdir(parent, 0777);
    return mkdir(folder, 0777) == 0 || errno == EEXIST ? base_format("%s/convolutions", folder)
                                                       : NULL;
}

static int open_cuda(struct device_state **out, const struct device_job *job, struct err *err)
{
    if (check_types(job->scenario, err) || cuda_choose_device(err))
        return -1;
    *out = base_alloc(1, sizeof(**out));
    AUTOFREE char *cache = cache_path();
    if (cuda_state_init(*out, job, cache, err) == 0)
        return 0;
    cuda_state_release(*out);
    free(*out);
    *out = NULL;
    return -1;
}

static void close_cuda(struct device_state *state)
{
    if (!state)
        return;
    cuda_state_release(state);
    free(state);
}

static struct cuda_slot *slot_of(const struct device_state *state, int32_t iteration)
{
    return &state->slot[iteration % state->job.slots];
}

/* ---- input ---- */

/* On a thread of CUDA, which makes no call of it. */
static void read_source(void *argument)
{
    struct device_state *state = argument;
    state->job.source.next(state->job.source.context, state->pinned, state->pinned_label);
}

static void convert(const struct device_state *state, cudaStream_t stream, int32_t count,
                    const float *from, void *to)
{
    struct shape in = state->job.model->layer[0].in;
    CUDA_CHECK(cudaMemcpyAsync(state->raw, from,
                               (size_t)(count * shape_elements(in)) * sizeof(float),
                               cudaMemcpyHostToDevice, stream));
    kernel_images(stream, state->type, count * state->pixels, in.channels, state->raw, state->image,
                  to);
}

/* All slots share the staging buffers: steps of the input lane run one at a time. */
static void issue_input(struct device_state *state, cudaStream_t stream,
                        const struct cuda_slot *slot)
{
    if (state->feed) {
        feed_crop(state->feed, stream, state->type, state->image, slot->images, slot->label);
        return;
    }
    if (!state->job.source.next)
        return;
    CUDA_CHECK(cudaLaunchHostFunc(stream, read_source, state));
    CUDA_CHECK(cudaMemcpyAsync(slot->label, state->pinned_label,
                               (size_t)state->job.batch * sizeof(int32_t), cudaMemcpyHostToDevice,
                               stream));
    convert(state, stream, state->job.batch, state->pinned, slot->images);
}

static const void *micro_images(const struct device_state *state, const struct cuda_slot *slot,
                                int32_t micro)
{
    int64_t elements = (int64_t)state->micro * state->pixels * state->image;
    return (const char *)slot->images + micro * elements * dtype_size(state->type);
}

/* ---- steps ---- */

static void prepare(struct device_state *state, int32_t iteration, const struct update *update)
{
    double passes = (double)state->job.ranks * state->job.micro_batches;
    slot_of(state, iteration)->prepared->update = (struct kernel_update){
        .iteration = iteration,
        .rate = cuda_state_rate(update->learning_rate, update->weight_decay),
        .loss_scale = (float)update->loss_scale,
        .scale = (float)(1 / (passes * update->loss_scale * (double)state->share))};
}

/* The first compute step of an iteration uploads the numbers of prepare(), and a loss of 0. */
static void bring_words(cudaStream_t stream, const struct cuda_slot *slot)
{
    CUDA_CHECK(cudaMemcpyAsync(slot->words, slot->prepared, sizeof(*slot->words),
                               cudaMemcpyHostToDevice, stream));
}

static void run_optimizer(struct device_state *state, cudaStream_t stream,
                          const struct cuda_slot *slot, bool norms)
{
    const struct scenario *scenario = state->job.scenario;
    struct kernel_rule rule = {.lars = scenario->training.optimizer == OPTIMIZER_LARS,
                               .nesterov = scenario->training.nesterov,
                               .momentum = (float)scenario->training.momentum,
                               .trust = (float)scenario->training.trust};
    if (norms) {
        kernel_measure(stream, &state->parameters, rule, &slot->words->update);
        return;
    }
    kernel_optimizer(stream, &state->parameters, rule, &slot->words->update, &slot->words->outcome);
    if (!state->copy)
        cuda_state_refresh(state, stream, false);
    CUDA_CHECK(cudaMemcpyAsync(slot->result, slot->words, sizeof(*slot->words),
                               cudaMemcpyDeviceToHost, stream));
}

static void issue_compute(struct device_state *state, cudaStream_t stream, const struct step *step,
                          struct cuda_slot *slot)
{
    int32_t index = step->compute.layer, micro = step->compute.micro;
    const void *images = micro_images(state, slot, micro);
    switch (step->compute.op) {
    case COMPUTE_FORWARD:
        if (index == 0 && micro == 0)
            bring_words(stream, slot);
        cuda_pass_forward(state, stream, index, images, micro);
        break;
    case COMPUTE_LOSS:
        cuda_pass_loss(state, stream, slot, micro);
        break;
    case COMPUTE_BACKWARD_DATA:
        cuda_pass_backward_data(state, stream, index, micro);
        break;
    case COMPUTE_BACKWARD_FILTER:
        cuda_pass_backward_filter(state, stream, index, images, micro);
        break;
    case COMPUTE_OPTIMIZER:
        run_optimizer(state, stream, slot, step->role == ROLE_NORMS);
        break;
    case COMPUTE_OP_COUNT:
        assert(!"a kind of step");
    }
}

static void issue(struct device_state *state, struct stream *stream, const struct step *step,
                  int32_t iteration)
{
    cudaStream_t handle = cuda_stream_handle(stream);
    struct cuda_slot *slot = slot_of(state, iteration);
    if (step->kind == STEP_INPUT)
        issue_input(state, handle, slot);
    else
        issue_compute(state, handle, step, slot);
    CUDA_CHECK_LAUNCHES(step->name ? step->name : "a step");
}

static void *gradients(struct device_state *state)
{
    return state->gradient;
}

static void *shared(struct device_state *state, enum collective_content content)
{
    return content == CONTENT_NORMS ? (void *)state->parameters.shared : state->copy;
}

static struct outcome outcome(const struct device_state *state, int32_t iteration)
{
    struct kernel_outcome outcome = slot_of(state, iteration)->result->outcome;
    return (struct outcome){.loss = (double)outcome.loss,
                            .norm = (double)outcome.norm,
                            .overflow = outcome.overflow != 0};
}

/* ---- iterations launched whole ---- */

static bool launch(struct device_state *state, struct stream *compute, int32_t iteration)
{
    const struct cuda_slot *slot = slot_of(state, iteration);
    if (!slot->graph)
        return false;
    CUDA_CHECK(cudaGraphLaunch(slot->graph, cuda_stream_handle(compute)));
    return true;
}

static bool captured_beside(struct stream *const *lane, int32_t i)
{
    return lane[i] && i != LANE_COMPUTE && i != LANE_INPUT;
}

static void capture(struct device_state *state, struct stream *const *lane, int32_t iteration)
{
    (void)iteration;
    CUDA_CHECK(cudaStreamBeginCapture(cuda_stream_handle(lane[LANE_COMPUTE]),
                                      cudaStreamCaptureModeThreadLocal));
    cuda_stream_ops.record(lane[LANE_COMPUTE], state->fork);
    for (int32_t i = 0; i < LANE_CAPTURED; i++)
        if (captured_beside(lane, i))
            cuda_stream_ops.wait(lane[i], state->fork);
}

static void capture_end(struct device_state *state, struct stream *const *lane, int32_t iteration)
{
    struct cuda_slot *slot = slot_of(state, iteration);
    cudaGraph_t graph;
    for (int32_t i = 0; i < LANE_CAPTURED; i++) {
        if (!captured_beside(lane, i))
            continue;
        cuda_stream_ops.record(lane[i], state->join[i]);
        cuda_stream_ops.wait(lane[LANE_COMPUTE], state->join[i]);
    }
    CUDA_CHECK(cudaStreamEndCapture(cuda_stream_handle(lane[LANE_COMPUTE]), &graph));
    CUDA_CHECK(cudaGraphInstantiate(&slot->graph, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
}

/* ---- around training ---- */

static void score(struct device_state *state, struct stream *stream, const float *images,
                  int32_t count, float *scores)
{
    const struct model *model = state->job.model;
    const struct cuda_place *last = &state->place[model->layer_count - 1];
    cudaStream_t handle = cuda_stream_handle(stream);
    convert(state, handle, count, images, state->scored);
    for (int32_t i = 0; i < model->layer_count; i++)
        cuda_pass_forward(state, handle, i, state->scored, -1);
    kernel_scores(handle, state->type, count, model->classes, last->channels, last->y,
                  state->scratch.scores);
    CUDA_CHECK(cudaMemcpyAsync(scores, state->scratch.scores,
                               (size_t)count * (size_t)model->classes * sizeof(float),
                               cudaMemcpyDeviceToHost, handle));
    CUDA_CHECK_LAUNCHES("scores");
}

static const struct capture_ops captures = {.launch = launch, .begin = capture, .end = capture_end};

const struct device_ops device_cuda_ops = {
    .name = "cuda",
    .exchanges_payload = true,
    .pads = true,
    .makes_noise = true,
    .crops = true,
    .open = open_cuda,
    .close = close_cuda,
    .streams = &cuda_stream_ops,
    .prepare = prepare,
    .issue = issue,
    .gradients = gradients,
    .shared = shared,
    .capture = &captures,
    .moved = cuda_moved,
    .outcome = outcome,
    .score = score,
    .read = cuda_state_read,
    .write = cuda_state_write,
    .turn = cuda_state_turn,
};
