#include "exec/cuda/device_cuda_state.h"

#include "core/schedule/iteration.h"
#include "exec/cuda/runtime/check.h"
#include "exec/cuda/runtime/stream_cuda.h"

/* The plans of a network's convolutions; only for exec/cuda/device_cuda*.c. */

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

/* Find the plans of all layers, in struct cuda_place, and the workspace that they need.
 * @return 0, or -1 (exit code 69): a layer that cuDNN cannot run. */
static int cuda_plans_find(struct device_state *state, struct err *err)
{
    for (int32_t i = 0; i < state->graph.layer_count; i++) {
        if (!layer_has_arithmetic(&state->job.model->layer[i]))
            continue;
        bool reads = state->graph.node[i].reads >= 0;
        if (find_plan(state, i, CONV_FORWARD, err) ||
            (reads && find_plan(state, i, CONV_BACKWARD_DATA, err)) ||
            find_plan(state, i, CONV_BACKWARD_FILTER, err))
            return -1;
    }
    return 0;
}

/* Numbers of different arrays come from different streams of the seed. */
enum { NOISE_IMAGES = 1, NOISE_LABELS };

/* The one allocation, as its parts are assigned; without @base its size is only measured. */
struct arena {
    char *base;
    size_t used;
};

static void *take(struct arena *arena, int64_t count, int64_t size)
{
    void *place = arena->base ? arena->base + arena->used : NULL;
    arena->used += ((size_t)(count * size) + 255) / 256 * 256;
    return place;
}

struct kernel_rate cuda_state_rate(double learning_rate, double weight_decay)
{
    return (struct kernel_rate){(float)learning_rate, (float)weight_decay};
}

static int64_t padded_elements(struct shape shape)
{
    return (int64_t)cuda_state_pad(shape.channels) * shape.height * shape.width;
}

static bool has_pictures(const struct device_state *state)
{
    return state->job.source.next_pictures;
}

static bool noise(const struct device_state *state)
{
    return !state->job.source.next && !has_pictures(state);
}

/* Images on the device as fp32 at once, at most: those of score(), or a batch of next(). */
static int64_t raw_images(const struct device_state *state)
{
    return noise(state) || has_pictures(state) ? state->micro : state->job.batch;
}

/* ---- memory ---- */

/* Elements of gradients(). */
static int64_t gradients(const struct device_state *state)
{
    int64_t count = state->layout.parameters, padded = state->job.padded;
    return padded > count ? padded : count;
}

/* Bytes of gradients(), and of what is gathered behind them. */
static int64_t exchanged_bytes(const struct device_state *state)
{
    return gradients(state) *
           (dtype_size(state->gradient_type) + (state->job.shard ? dtype_size(state->type) : 0));
}

/* What a shard's optimizer has beside, and other places for what all have. */
static void lay_out_shard(struct device_state *state, struct arena *arena)
{
    const struct device_job *job = &state->job;
    struct kernel_parameters *p = &state->parameters;
    int64_t norms = iteration_norms(job->model, job->scenario);
    assert(state->vectors == iteration_vectors(job->model, job->scenario));
    p->shared = take(arena, norms + state->vectors, sizeof(float));
    if (!arena->base)
        return;
    state->copy = (char *)state->gradient + gradients(state) * dtype_size(state->gradient_type);
    p->working = state->copy;
    if (state->type == DTYPE_FP32)
        p->parameter = state->copy;
    else
        p->summed = p->shared + norms;
}

static void lay_out_weights(struct device_state *state, struct arena *arena)
{
    int64_t count = state->layout.parameters;
    int32_t tensors = state->job.model->tensor_count, chunks = state->parameters.chunks;
    struct kernel_parameters *p = &state->parameters;
    bool sums = state->job.micro_batches > 1;
    *p = (struct kernel_parameters){.tensors = tensors,
                                    .chunks = chunks,
                                    .gradient_type = state->gradient_type,
                                    .working_type = state->type,
                                    .rate_count = state->job.rate_count};
    state->gradient = state->job.gradients;
    if (!state->gradient)
        state->gradient = take(arena, exchanged_bytes(state), 1);
    if (sums && state->gradient_type == DTYPE_FP32)
        state->sum = state->gradient;
    else if (sums)
        state->sum = take(arena, count, sizeof(float));
    p->gradient = state->gradient;
    if (!state->job.shard || state->type != DTYPE_FP32)
        p->parameter = take(arena, cuda_state_elements(state, false), sizeof(float));
    p->momentum = take(arena, cuda_state_elements(state, true), sizeof(float));
    p->working = state->working =
        take(arena, cuda_state_working_elements(state), dtype_size(state->type));
    p->tensor = take(arena, tensors, sizeof(*p->tensor));
    p->chunk = take(arena, chunks, sizeof(*p->chunk));
    p->first_chunk = take(arena, tensors + 1, sizeof(*p->first_chunk));
    p->norms = take(arena, 2 * (int64_t)chunks, sizeof(*p->norms));
    p->trust = take(arena, tensors, sizeof(*p->trust));
    p->rate = take(arena, state->job.rate_count, sizeof(*p->rate));
    if (state->job.shard)
        lay_out_shard(state, arena);
}

/* Biases and batch norm's parameters are read from the masters, unless they need padding. */
static void lay_out_vector(struct device_state *state, struct arena *arena, int32_t index)
{
    const struct layer *layer = &state->job.model->layer[index];
    struct cuda_place *place = &state->place[index];
    bool norm = layer->op == LAYER_BATCH_NORM;
    if (!norm && !layer->bias) {
        if (layer->relu)
            place->vector = take(arena, place->channels, sizeof(float)); /* zeros */
        return;
    }
    int64_t offset = cuda_state_master(state, &state->tensor[place->tensor + !norm]);
    place->copied = layer->out.channels != place->channels;
    if (place->copied)
        place->vector = take(arena, (norm ? 2 : 1) * (int64_t)place->channels, sizeof(float));
    else if (arena->base)
        place->vector = state->parameters.parameter + offset;
}

static void lay_out_place(struct device_state *state, struct arena *arena, int32_t index)
{
    const struct layer *layer = &state->job.model->layer[index];
    struct cuda_place *place = &state->place[index];
    int64_t size = dtype_size(state->type);
    place->channels = cuda_state_pad(layer->out.channels);
    place->rows = (int64_t)state->micro * layer->out.height * layer->out.width;
    int64_t elements = place->rows * place->channels;
    if (state->graph.node[index].finishes == index)
        place->y = take(arena, elements, size);
    if (layer->relu)
        place->mask = take(arena, (elements + 31) / 32, sizeof(uint32_t));
    if (layer->op == LAYER_MAX_POOL)
        place->winner = take(arena, elements, 1);
    if (layer->op == LAYER_BATCH_NORM) {
        place->statistics = take(arena, 2 * (int64_t)place->channels, sizeof(float));
        place->factors = take(arena, 2 * (int64_t)place->channels, sizeof(float));
        place->running = take(arena, 2 * (int64_t)place->channels, sizeof(float));
    }
    lay_out_vector(state, arena, index);
    if (!layer_has_arithmetic(layer) || !arena->base)
        return;
    const struct kernel_tensor *tensor = &state->tensor[place->tensor];
    place->working = cuda_state_straight(state, tensor)
                         ? (char *)state->copy + tensor->offset * size
                         : state->working + tensor->padded * size;
}

/* The plan has channels without padding: a buffer is as large as its largest array. */
static void lay_out_gradients(struct device_state *state, struct arena *arena)
{
    const struct backward_plan *plan = &state->plan;
    AUTOFREE int64_t *elements = base_alloc(plan->buffers, sizeof(*elements));
    AUTOFREE void **buffer = base_alloc(plan->buffers, sizeof(*buffer));
    for (int32_t i = 0; i < state->graph.layer_count; i++) {
        const struct layer *layer = &state->job.model->layer[i];
        bool norm = layer->op == LAYER_BATCH_NORM;
        int64_t out = padded_elements(layer->out), in = norm ? out : padded_elements(layer->in);
        const int32_t used[] = {plan->place[i].given[0], plan->place[i].given[1],
                                plan->place[i].dx};
        for (int32_t k = 0; k < 3; k++) {
            int64_t needed = k < 2 ? out : in;
            if (used[k] >= 0 && elements[used[k]] < needed)
                elements[used[k]] = needed;
        }
    }
    for (int32_t i = 0; i < plan->buffers; i++)
        buffer[i] = take(arena, state->micro * elements[i], dtype_size(state->type));
    for (int32_t i = 0; i < state->graph.layer_count; i++) {
        const struct plan_place *from = &plan->place[i];
        for (int32_t k = 0; k < 2; k++)
            state->place[i].given[k] = from->given[k] >= 0 ? buffer[from->given[k]] : NULL;
        state->place[i].dx = from->dx >= 0 ? buffer[from->dx] : NULL;
    }
}

/* One batch of noise serves all slots. */
static void lay_out_input(struct device_state *state, struct arena *arena)
{
    const struct device_job *job = &state->job;
    int64_t size = dtype_size(state->type);
    int64_t images = job->batch * state->pixels * state->image;
    int64_t raw = raw_images(state) * shape_elements(job->model->layer[0].in);
    for (int32_t i = 0; i < job->slots; i++) {
        struct cuda_slot *slot = &state->slot[i];
        bool shares = noise(state) && i > 0;
        slot->words = take(arena, 1, sizeof(*slot->words));
        slot->images = shares ? state->slot[0].images : take(arena, images, size);
        slot->label = shares ? state->slot[0].label : take(arena, job->batch, sizeof(int32_t));
    }
    state->scored = state->slot[0].images;
    if (noise(state))
        state->scored = take(arena, state->micro * state->pixels * state->image, size);
    state->raw = take(arena, raw, sizeof(float));
}

static void lay_out_scratch(struct device_state *state, struct arena *arena)
{
    struct scratch *scratch = &state->scratch;
    int64_t widest = 0, largest = 0;
    for (int32_t i = 0; i < state->graph.layer_count; i++)
        widest = state->place[i].channels > widest ? state->place[i].channels : widest;
    for (int32_t t = 0; t < state->parameters.tensors; t++) {
        const struct kernel_tensor *tensor = &state->tensor[t];
        int64_t padded = (int64_t)cuda_state_pad(tensor->out) * tensor->taps * tensor->padded_in;
        largest = padded > largest ? padded : largest;
    }
    scratch->partial = take(arena, KERNEL_PARTIALS * 2 * widest, sizeof(float));
    scratch->factors = take(arena, 3 * widest, sizeof(float));
    scratch->gradient = take(arena, 2 * widest, sizeof(float));
    scratch->dw = take(arena, largest, dtype_size(state->type));
    scratch->losses = take(arena, state->micro, sizeof(float));
    scratch->scores = take(arena, (int64_t)state->micro * state->job.model->classes, sizeof(float));
    scratch->workspace = take(arena, (int64_t)state->workspace, 1);
}

static size_t lay_out(struct device_state *state, char *base)
{
    struct arena arena = {.base = base};
    lay_out_weights(state, &arena);
    for (int32_t i = 0; i < state->graph.layer_count; i++)
        lay_out_place(state, &arena, i);
    lay_out_gradients(state, &arena);
    lay_out_input(state, &arena);
    lay_out_scratch(state, &arena);
    return arena.used;
}

static int refuse_memory(const struct device_state *state, size_t bytes, struct err *err)
{
    size_t available = 0, total = 0;
    char way_out[64] = "one image at once is too many for it";
    if (state->micro > 1)
        snprintf(way_out, sizeof(way_out), "use --set training.micro_batch=%d, or a smaller batch",
                 state->micro / 2);
    cudaGetLastError(); /* or the next launch would be blamed */
    CUDA_CHECK(cudaMemGetInfo(&available, &total));
    return err_add_code(err, 69,
                        "a batch of %d images, %d at once, takes %.2f GB on the GPU, of whose "
                        "%.2f GB %.2f GB are free: %s",
                        state->job.batch, state->micro, 1e-9 * (double)bytes, 1e-9 * (double)total,
                        1e-9 * (double)available, way_out);
}

/* Incoming pictures are outside the one allocation. */
static size_t feed_bytes(const struct device_state *state)
{
    return has_pictures(state) ? feed_memory(state->job.batch, state->job.model->layer[0].in.width)
                               : 0;
}

static int allocate(struct device_state *state, struct err *err)
{
    size_t bytes = lay_out(state, NULL);
    cudaStream_t stream = cuda_stream_handle(state->stream);
    if (cudaMalloc((void **)&state->memory, bytes) != cudaSuccess)
        return refuse_memory(state, bytes + feed_bytes(state), err);
    CUDA_CHECK(cudaMemsetAsync(state->memory, 0, bytes, stream));
    lay_out(state, state->memory);
    CUDA_CHECK(cudaMemsetAsync(state->gradient, 0, (size_t)exchanged_bytes(state), stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    return 0;
}

static void pin(struct device_state *state)
{
    const struct device_job *job = &state->job;
    size_t image = (size_t)shape_elements(job->model->layer[0].in) * sizeof(float);
    size_t images = (size_t)raw_images(state) * image;
    struct words *words;
    if (!has_pictures(state))
        CUDA_CHECK(cudaMallocHost((void **)&state->pinned, images));
    CUDA_CHECK(cudaMallocHost((void **)&state->pinned_label, (size_t)job->batch * sizeof(int32_t)));
    CUDA_CHECK(cudaMallocHost((void **)&words, 2 * (size_t)job->slots * sizeof(*words)));
    for (int32_t i = 0; i < job->slots; i++) {
        state->slot[i].prepared = &words[2 * i];
        state->slot[i].result = &words[2 * i + 1];
        words[2 * i] = words[2 * i + 1] = (struct words){0};
    }
}

/* ---- noise ---- */

static void make_labels(struct device_state *state, uint64_t seed)
{
    const struct device_job *job = &state->job;
    for (int32_t i = 0; i < job->batch; i++)
        state->pinned_label[i] =
            (int32_t)(base_uniform(seed, NOISE_LABELS, (uint64_t)i, 0) * job->model->classes);
    cuda_state_upload(state, state->slot[0].label, state->pinned_label,
                      (size_t)job->batch * sizeof(int32_t));
}

static void make_noise(struct device_state *state)
{
    const struct device_job *job = &state->job;
    struct shape in = job->model->layer[0].in;
    uint64_t seed = (uint64_t)job->scenario->seed + (uint64_t)job->rank;
    int64_t count = state->micro * shape_elements(in);
    int64_t size = state->micro * state->pixels * state->image * dtype_size(state->type);
    cudaStream_t stream = cuda_stream_handle(state->stream);
    for (int32_t micro = 0; micro < job->micro_batches; micro++) {
#pragma omp parallel for num_threads(job->threads > 0 ? job->threads : 1) schedule(static)
        for (int64_t i = 0; i < count; i++)
            state->pinned[i] =
                (float)base_normal(seed, NOISE_IMAGES, (uint64_t)(micro * count + i), 0);
        CUDA_CHECK(cudaMemcpyAsync(state->raw, state->pinned, (size_t)count * sizeof(float),
                                   cudaMemcpyHostToDevice, stream));
        kernel_images(stream, state->type, state->micro * state->pixels, in.channels, state->raw,
                      state->image, (char *)state->slot[0].images + micro * size);
        CUDA_CHECK(cudaStreamSynchronize(stream));
    }
    make_labels(state, seed);
}

/* ---- the schedule of the learning rate ---- */

static void upload_rates(struct device_state *state)
{
    int32_t count = state->job.rate_count;
    AUTOFREE struct kernel_rate *rate = base_alloc(count, sizeof(*rate));
    for (int32_t i = 0; i < count; i++)
        rate[i] =
            cuda_state_rate(state->job.rate[i].learning_rate, state->job.rate[i].weight_decay);
    if (count > 0)
        cuda_state_upload(state, state->parameters.rate, rate, (size_t)count * sizeof(*rate));
    state->job.rate = NULL; /* it was borrowed for open() alone */
}

/* ---- opening and closing ---- */

/* Ranks add gradients of fp16: divided by about the root of their number, sums stay far from the
 * largest number of fp16, and what is added far from the smallest. */
static float share_of(const struct device_job *job)
{
    float share = 1;
    bool narrow = (enum dtype)job->scenario->model.gradients == DTYPE_FP16;
    for (int64_t ranks = 4; narrow && ranks <= job->ranks; ranks *= 4)
        share /= 2;
    return share;
}

/* Channels of images: in 16 bits KERNEL_IMAGES, with which convolutions of images are faster, where
 * nothing else reads images and every micro-batch then begins on 16 bytes. */
static int32_t image_channels(const struct device_state *state)
{
    const struct model *model = state->job.model;
    int32_t channels = model->layer[0].in.channels;
    bool narrow = state->type != DTYPE_FP32 && channels <= KERNEL_IMAGES &&
                  state->micro * state->pixels % 2 == 0;
    for (int32_t i = 0; i < model->layer_count; i++)
        narrow =
            narrow && (state->graph.node[i].reads >= 0 || model->layer[i].op == LAYER_CONVOLUTION);
    return narrow ? KERNEL_IMAGES : cuda_state_pad(channels);
}

static void describe(struct device_state *state, const struct device_job *job)
{
    struct shape in = job->model->layer[0].in;
    *state = (struct device_state){.job = *job,
                                   .layout = layout_build(job->model),
                                   .graph = graph_build(job->model, false),
                                   .type = (enum dtype)job->scenario->model.compute,
                                   .gradient_type = (enum dtype)job->scenario->model.gradients,
                                   .share = share_of(job),
                                   .micro = job->batch / job->micro_batches,
                                   .pixels = (int64_t)in.height * in.width};
    state->image = image_channels(state);
    state->job.rate_count = job->rate ? job->rate_count : 0;
    state->plan = backward_plan_build(job->model, &state->graph);
    state->place = base_alloc(job->model->layer_count, sizeof(*state->place));
    state->slot = base_alloc(job->slots, sizeof(*state->slot));
}

int64_t device_cuda_bytes(const struct device_job *job)
{
    struct device_state state;
    describe(&state, job);
    cuda_state_place_tensors(&state);
    size_t bytes = lay_out(&state, NULL) + feed_bytes(&state);
    cuda_state_release(&state);
    return (int64_t)bytes;
}

int cuda_state_init(struct device_state *state, const struct device_job *job, const char *cache,
                    struct err *err)
{
    describe(state, job);
    state->stream = cuda_stream_ops.stream_new();
    state->fork = cuda_stream_ops.event_new();
    for (int32_t i = 0; i < LANE_CAPTURED; i++)
        state->join[i] = cuda_stream_ops.event_new();
    if (conv_open(&state->library, cache, job->tunes, err) || cuda_plans_find(state, err))
        return -1;
    cuda_state_place_tensors(state);
    if (allocate(state, err))
        return -1;
    pin(state);
    cuda_state_upload_tensors(state);
    upload_rates(state);
    if (noise(state))
        make_noise(state);
    CUDA_CHECK_LAUNCHES("opening the device");
    if (has_pictures(state))
        return feed_open(&state->feed, &job->source, job->batch, job->model->layer[0].in.width,
                         err);
    return 0;
}

static void release_cuda(struct device_state *state)
{
    feed_close(state->feed);
    cuda_stream_ops.stream_free(state->stream);
    cuda_stream_ops.event_free(state->fork);
    for (int32_t i = 0; i < LANE_CAPTURED; i++)
        cuda_stream_ops.event_free(state->join[i]);
    conv_close(state->library);
    for (int32_t i = 0; i < state->job.slots; i++)
        if (state->slot[i].graph)
            CUDA_CHECK(cudaGraphExecDestroy(state->slot[i].graph));
    CUDA_CHECK(cudaFreeHost(state->pinned));
    CUDA_CHECK(cudaFreeHost(state->pinned_label));
    CUDA_CHECK(cudaFreeHost(state->slot[0].prepared)); /* the first of all */
    CUDA_CHECK(cudaFree(state->memory));
}

void cuda_state_release(struct device_state *state)
{
    if (state->stream)
        release_cuda(state);
    free(state->place);
    free(state->slot);
    free(state->tensor);
    free(state->chunk);
    backward_plan_release(&state->plan);
    graph_release(&state->graph);
    layout_release(&state->layout);
}
