#include "exec/cuda/device_cuda_state.h"

#include "core/schedule/iteration.h"
#include "exec/cuda/runtime/check.h"
#include "exec/cuda/runtime/stream_cuda.h"
#include "exec/step/half.h"

enum { ALIGNMENT = 128 /* elements, so that every working copy starts on 256 bytes */ };

/* A tensor of @layer in the flat arrays: (out, taps, in) where torchvision has (out, in, taps). */
static struct kernel_tensor order_of(const struct layer *layer, bool vector)
{
    bool linear = layer->op == LAYER_LINEAR;
    if (vector)
        return (struct kernel_tensor){.out = 1, .taps = 1, .in = layer->out.channels};
    return (struct kernel_tensor){.out = layer->out.channels,
                                  .taps = linear ? layer->in.height * layer->in.width
                                                 : layer->kernel * layer->kernel,
                                  .in = layer->in.channels};
}

static int64_t aligned(int64_t elements)
{
    return (elements + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* ---- chunks ---- */

/* Of tensor @t from @first to @end in the flat gradients, and from @momentum on in the momentum. */
static void cut_part(struct device_state *state, int32_t t, int64_t first, int64_t end,
                     int64_t momentum, bool own)
{
    bool dense = state->job.shard && state->type != DTYPE_FP32;
    for (int64_t at = first; at < end; at += KERNEL_CHUNK) {
        int64_t left = end - at, place = momentum + at - first;
        int32_t count = state->parameters.chunks++;
        state->chunk =
            base_grow(state->chunk, count + 1, &state->chunk_capacity, sizeof(*state->chunk));
        state->chunk[count] = (struct kernel_chunk){
            t,  (int32_t)(left < KERNEL_CHUNK ? left : KERNEL_CHUNK), at, dense ? place : at, place,
            own};
    }
}

/* The parts of tensor @t in @shard (count); of a vector whose masters every rank has, all. */
static void cut_tensor(struct device_state *state, int32_t t, const struct slice *shard,
                       int32_t count)
{
    const struct kernel_tensor *tensor = &state->tensor[t];
    int64_t begin = tensor->offset, end = begin + state->layout.parameter[t].elements, at = begin;
    int64_t dense = aligned(state->vectors);
    bool all = state->vectors > 0 && !tensor->works;
    for (int32_t i = 0; i < count; dense += shard[i++].elements) {
        struct slice own = slice_overlap((struct slice){begin, end - begin}, shard[i]);
        int64_t first = own.offset, last = first + own.elements;
        if (first == last)
            continue;
        if (all)
            cut_part(state, t, at, first, tensor->padded + at - begin, false);
        cut_part(state, t, first, last,
                 all ? tensor->padded + first - begin : dense + first - shard[i].offset,
                 !state->job.repeats);
        at = last;
    }
    if (all)
        cut_part(state, t, at, end, tensor->padded + at - begin, false);
}

static void cut_tensors(struct device_state *state)
{
    struct slice whole = {0, state->layout.parameters};
    const struct device_job *job = &state->job;
    for (int32_t t = 0; t < job->model->tensor_count; t++)
        cut_tensor(state, t, job->shard ? job->shard : &whole, job->shard ? job->shards : 1);
}

int64_t cuda_state_elements(const struct device_state *state, bool momentum)
{
    if (!state->job.shard || (!momentum && state->type == DTYPE_FP32))
        return state->layout.parameters;
    return aligned(state->vectors) + slice_elements(state->job.shard, state->job.shards);
}

/* ---- tensors ---- */

/* A working copy for convolutions, or room among the masters that every rank has. */
static void place_copy(struct device_state *state, struct kernel_tensor *tensor, int64_t *working)
{
    bool common = state->job.shard && state->type != DTYPE_FP32 && !tensor->works;
    tensor->padded = common ? state->vectors : tensor->works ? *working : 0;
    if (common)
        state->vectors += tensor->in;
    if (tensor->works && !cuda_state_straight(state, tensor))
        *working = aligned(*working +
                           (int64_t)cuda_state_pad(tensor->out) * tensor->taps * tensor->padded_in);
}

void cuda_state_place_tensors(struct device_state *state)
{
    const struct model *model = state->job.model;
    int64_t working = 0;
    state->tensor = base_alloc(model->tensor_count, sizeof(*state->tensor));
    for (int32_t i = 0; i < model->layer_count; i++)
        state->place[i].tensor = -1;
    for (int32_t t = 0; t < model->tensor_count; t++) {
        struct kernel_tensor *tensor = &state->tensor[t];
        struct cuda_place *place = &state->place[model->tensor[t].layer];
        bool vector = iteration_is_vector(model, t);
        *tensor = order_of(&model->layer[model->tensor[t].layer], vector);
        tensor->offset = state->layout.parameter[t].offset;
        tensor->padded_in = cuda_state_pad(tensor->in);
        if (!vector && model->layer[model->tensor[t].layer].first)
            tensor->padded_in = state->image;
        tensor->decays = state->layout.parameter[t].kind == PARAMETER_WEIGHT;
        tensor->works = !vector;
        place_copy(state, tensor, &working);
        if (place->tensor < 0)
            place->tensor = t;
    }
    cut_tensors(state);
}

static bool unpadded(const struct kernel_tensor *tensor)
{
    return tensor->in == tensor->padded_in && tensor->out == cuda_state_pad(tensor->out);
}

void *cuda_state_direct(const struct device_state *state, const struct kernel_tensor *tensor)
{
    char *to = (char *)state->gradient + tensor->offset * dtype_size(state->gradient_type);
    bool same = state->gradient_type == state->type && !state->sum && !(state->share < 1) &&
                unpadded(tensor);
    return same && (uintptr_t)to % 16 == 0 ? to : NULL;
}

bool cuda_state_straight(const struct device_state *state, const struct kernel_tensor *tensor)
{
    return state->job.shard && unpadded(tensor) &&
           tensor->offset * dtype_size(state->type) % 16 == 0;
}

int64_t cuda_state_master(const struct device_state *state, const struct kernel_tensor *tensor)
{
    return state->vectors > 0 ? tensor->padded : tensor->offset;
}

int64_t cuda_state_working_elements(const struct device_state *state)
{
    int64_t working = 0;
    for (int32_t t = 0; t < state->job.model->tensor_count; t++) {
        const struct kernel_tensor *tensor = &state->tensor[t];
        int64_t end = tensor->padded +
                      (int64_t)cuda_state_pad(tensor->out) * tensor->taps * tensor->padded_in;
        if (tensor->works && !cuda_state_straight(state, tensor) && end > working)
            working = end;
    }
    return working;
}

void cuda_state_upload(const struct device_state *state, const void *to, const void *from,
                       size_t size)
{
    cudaStream_t stream = cuda_stream_handle(state->stream);
    CUDA_CHECK(cudaMemcpyAsync((void *)to, from, size, cudaMemcpyHostToDevice, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
}

void cuda_state_upload_tensors(struct device_state *state)
{
    const struct kernel_parameters *parameters = &state->parameters;
    int32_t tensors = parameters->tensors, next = 0;
    AUTOFREE struct kernel_tensor *tensor = base_alloc(tensors, sizeof(*tensor));
    AUTOFREE int32_t *first = base_alloc(tensors + 1, sizeof(*first));
    for (int32_t t = 0; t < tensors; t++) {
        while (next < parameters->chunks && state->chunk[next].tensor == t)
            next++;
        first[t + 1] = next;
        tensor[t] = state->tensor[t];
        if (!state->copy)
            continue;
        tensor[t].works = tensor[t].works && state->type != DTYPE_FP32; /* else masters are read */
        tensor[t].padded = tensor[t].offset;
        tensor[t].padded_in = tensor[t].in;
    }
    cuda_state_upload(state, parameters->tensor, tensor, (size_t)tensors * sizeof(*tensor));
    cuda_state_upload(state, parameters->chunk, state->chunk,
                      (size_t)parameters->chunks * sizeof(*state->chunk));
    cuda_state_upload(state, parameters->first_chunk, first,
                      (size_t)(tensors + 1) * sizeof(*first));
}

/* ---- copies of the masters ---- */

static void copy_vector(const struct device_state *state, cudaStream_t stream, int32_t index)
{
    const struct layer *layer = &state->job.model->layer[index];
    const struct cuda_place *place = &state->place[index];
    bool norm = layer->op == LAYER_BATCH_NORM;
    const struct kernel_tensor *tensor = &state->tensor[place->tensor + !norm];
    for (int32_t i = 0; i < (norm ? 2 : 1); i++)
        CUDA_CHECK(cudaMemcpyAsync(
            place->vector + i * place->channels,
            state->parameters.parameter + cuda_state_master(state, &tensor[i]),
            (size_t)tensor[i].in * sizeof(float), cudaMemcpyDeviceToDevice, stream));
}

void cuda_state_refresh(struct device_state *state, cudaStream_t stream, bool working)
{
    if (working)
        kernel_working(stream, &state->parameters);
    for (int32_t i = 0; i < state->graph.layer_count; i++)
        if (state->place[i].copied)
            copy_vector(state, stream, i);
}

/* Rows of the working copy behind those of the tensor stay 0. */
static void copy_weights(const struct device_state *state, cudaStream_t stream, int32_t index)
{
    const struct kernel_tensor *tensor = &state->tensor[state->place[index].tensor];
    size_t size = (size_t)dtype_size(state->type), row = (size_t)tensor->in * size;
    CUDA_CHECK(cudaMemcpy2DAsync(state->place[index].working, (size_t)tensor->padded_in * size,
                                 (const char *)state->copy + (size_t)tensor->offset * size, row,
                                 row, (size_t)tensor->out * (size_t)tensor->taps,
                                 cudaMemcpyDeviceToDevice, stream));
}

void cuda_state_receive(struct device_state *state, cudaStream_t stream, int32_t index)
{
    const struct cuda_place *place = &state->place[index];
    if (state->copy && place->working && !cuda_state_straight(state, &state->tensor[place->tensor]))
        copy_weights(state, stream, index);
    if (state->copy && place->copied)
        copy_vector(state, stream, index);
}

/* ---- to and from the host ---- */

void cuda_state_turn(const struct device_state *state, bool back, const float *from, float *to)
{
    for (int32_t t = 0; t < state->job.model->tensor_count; t++) {
        const struct kernel_tensor *tensor = &state->tensor[t];
        for (int64_t o = 0; o < tensor->out; o++)
            for (int64_t tap = 0; tap < tensor->taps; tap++)
                for (int64_t i = 0; i < tensor->in; i++) {
                    int64_t first = tensor->offset + o * tensor->taps * tensor->in;
                    int64_t ours = first + tap * tensor->in + i,
                            theirs = first + i * tensor->taps + tap;
                    to[back ? theirs : ours] = from[back ? ours : theirs];
                }
    }
}

/* Between @host and @device: to the device, or @back from it. */
static void copy(const struct device_state *state, bool back, void *host, void *device, size_t size)
{
    if (back)
        CUDA_CHECK(cudaMemcpy(host, device, size, cudaMemcpyDeviceToHost));
    else
        cuda_state_upload(state, device, host, size);
}

/* Parameters as ranks gather them. */
static void copy_gathered(const struct device_state *state, bool back, float *flat)
{
    int64_t count = state->layout.parameters;
    size_t bytes = (size_t)(count * dtype_size(state->type));
    AUTOFREE void *narrow = base_alloc(1, bytes);
    if (!back)
        half_from_float(state->type, count, flat, narrow);
    copy(state, back, narrow, state->copy, bytes);
    if (back)
        half_to_float(state->type, count, narrow, flat);
}

/* All parameters, or the momentum, of which this rank may have a shard. */
static void copy_flat(const struct device_state *state, bool back, bool momentum, float *host)
{
    const struct kernel_parameters *p = &state->parameters;
    int64_t count = cuda_state_elements(state, momentum);
    if (!host)
        return;
    AUTOFREE float *flat = base_alloc(state->layout.parameters, sizeof(*flat));
    AUTOFREE float *array = base_alloc(count, sizeof(*array));
    void *device = momentum ? p->momentum : p->parameter;
    bool gathers = state->copy && !momentum;
    if (!back)
        cuda_state_turn(state, false, host, flat);
    else if (gathers)
        copy_gathered(state, back, flat);
    if (back)
        copy(state, back, array, device, (size_t)count * sizeof(*array));
    for (int32_t i = 0; i < p->chunks; i++) {
        const struct kernel_chunk *chunk = &state->chunk[i];
        float *own = array + (momentum ? chunk->momentum : chunk->parameter);
        float *whole = flat + chunk->offset;
        memcpy(back ? whole : own, back ? own : whole, (size_t)chunk->elements * sizeof(*flat));
    }
    if (back)
        cuda_state_turn(state, true, flat, host);
    else
        copy(state, back, array, device, (size_t)count * sizeof(*array));
    if (!back && gathers) /* in fp32 over the masters, which lie there */
        copy_gathered(state, back, flat);
}

static void copy_all(const struct device_state *state, bool back, const struct weights *weights)
{
    copy_flat(state, back, false, weights->parameter);
    copy_flat(state, back, true, weights->momentum);
    for (int32_t i = 0; i < state->graph.layer_count && weights->statistics; i++) {
        int64_t channels = state->job.model->layer[i].out.channels;
        const struct cuda_place *place = &state->place[i];
        float *host = weights->statistics + state->layout.statistics[i];
        for (int32_t k = 0; k < 2 && place->running; k++)
            copy(state, back, host + k * channels, place->running + k * place->channels,
                 (size_t)channels * sizeof(float));
    }
}

void cuda_state_read(const struct device_state *state, const struct weights *weights)
{
    copy_all(state, true, weights);
}

void cuda_state_write(struct device_state *state, const struct weights *weights)
{
    copy_all(state, false, weights);
    cudaStream_t stream = cuda_stream_handle(state->stream);
    if (!state->copy)
        cuda_state_refresh(state, stream, true);
    for (int32_t i = 0; i < state->graph.layer_count; i++)
        cuda_state_receive(state, stream, i);
    CUDA_CHECK_LAUNCHES("refreshing weights");
    CUDA_CHECK(cudaStreamSynchronize(stream));
}
