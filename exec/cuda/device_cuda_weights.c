#include "exec/cuda/device_cuda_weights.h"

#include <stdlib.h>

#include "core/base/base.h"
#include "exec/cuda/runtime/check.h"
#include "exec/cuda/runtime/stream_cuda.h"

enum { ALIGNMENT = 128 /* elements, so that every working copy starts on 256 bytes */ };

static bool is_vector(const struct model *model, int32_t tensor)
{
    const struct layer *layer = &model->layer[model->tensor[tensor].layer];
    bool first = tensor == 0 || model->tensor[tensor - 1].layer != model->tensor[tensor].layer;
    return layer->op == LAYER_BATCH_NORM || !first;
}

void device_cuda_order(const struct model *model, int32_t tensor, int32_t *out, int32_t *taps,
                       int32_t *in)
{
    const struct layer *layer = &model->layer[model->tensor[tensor].layer];
    bool linear = layer->op == LAYER_LINEAR;
    bool vector = is_vector(model, tensor);
    *out = vector ? 1 : layer->out.channels;
    *in = vector ? layer->out.channels : layer->in.channels;
    *taps = 1;
    if (!vector)
        *taps = linear ? layer->in.height * layer->in.width : layer->kernel * layer->kernel;
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
        bool vector = is_vector(model, t);
        device_cuda_order(model, t, &tensor->out, &tensor->taps, &tensor->in);
        tensor->offset = state->layout.parameter[t].offset;
        tensor->padded_in = cuda_state_pad(tensor->in);
        if (!vector && model->layer[model->tensor[t].layer].first)
            tensor->padded_in = state->image;
        tensor->decays = state->layout.parameter[t].kind == PARAMETER_WEIGHT;
        tensor->works = !vector;
        tensor->padded = vector ? 0 : working;
        if (place->tensor < 0)
            place->tensor = t;
        if (!vector)
            working += (int64_t)cuda_state_pad(tensor->out) * tensor->taps * tensor->padded_in;
        working = (working + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
}

void *cuda_state_direct(const struct device_state *state, const struct kernel_tensor *tensor)
{
    char *to = (char *)state->gradient + tensor->offset * dtype_size(state->gradient_type);
    bool same = state->gradient_type == state->type && !state->sum && !(state->share < 1) &&
                tensor->in == tensor->padded_in && tensor->out == cuda_state_pad(tensor->out);
    return same && (uintptr_t)to % 16 == 0 ? to : NULL;
}

int64_t cuda_state_working_elements(const struct device_state *state)
{
    int64_t working = 0;
    for (int32_t t = 0; t < state->job.model->tensor_count; t++) {
        const struct kernel_tensor *tensor = &state->tensor[t];
        int64_t end = tensor->padded +
                      (int64_t)cuda_state_pad(tensor->out) * tensor->taps * tensor->padded_in;
        if (tensor->works && end > working)
            working = end;
    }
    return working;
}

static int32_t chunks_of(const struct parameter *parameter)
{
    return (int32_t)((parameter->elements + KERNEL_CHUNK - 1) / KERNEL_CHUNK);
}

int32_t cuda_state_chunks(const struct device_state *state)
{
    int32_t chunks = 0;
    for (int32_t t = 0; t < state->job.model->tensor_count; t++)
        chunks += chunks_of(&state->layout.parameter[t]);
    return chunks;
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
    struct kernel_chunk *chunk = base_alloc(parameters->chunks, sizeof(*chunk));
    int32_t *first = base_alloc(tensors + 1, sizeof(*first));
    for (int32_t t = 0; t < tensors; t++) {
        const struct parameter *parameter = &state->layout.parameter[t];
        for (int64_t done = 0; done < parameter->elements; done += KERNEL_CHUNK) {
            int64_t left = parameter->elements - done;
            chunk[next++] = (struct kernel_chunk){
                t, (int32_t)(left < KERNEL_CHUNK ? left : KERNEL_CHUNK), parameter->offset + done};
        }
        first[t + 1] = next;
    }
    cuda_state_upload(state, parameters->tensor, state->tensor,
                      (size_t)tensors * sizeof(*state->tensor));
    cuda_state_upload(state, parameters->chunk, chunk, (size_t)next * sizeof(*chunk));
    cuda_state_upload(state, parameters->first_chunk, first,
                      (size_t)(tensors + 1) * sizeof(*first));
    free(chunk);
    free(first);
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
            place->vector + i * place->channels, state->parameters.parameter + tensor[i].offset,
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

/* ---- to and from the host ---- */

/* Between torchvision's order and the device's; @back: from the device's. */
static void turn(const struct device_state *state, bool back, const float *from, float *to)
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

static void fetch(const struct device_state *state, const float *from, float *to)
{
    int64_t count = state->layout.parameters;
    if (!to)
        return;
    float *buffer = base_alloc(count, sizeof(*buffer));
    CUDA_CHECK(cudaMemcpy(buffer, from, (size_t)count * sizeof(*buffer), cudaMemcpyDeviceToHost));
    turn(state, true, buffer, to);
    free(buffer);
}

static void store(const struct device_state *state, float *to, const float *from)
{
    int64_t count = state->layout.parameters;
    if (!from)
        return;
    float *buffer = base_alloc(count, sizeof(*buffer));
    turn(state, false, from, buffer);
    cuda_state_upload(state, to, buffer, (size_t)count * sizeof(*buffer));
    free(buffer);
}

void cuda_state_read(const struct device_state *state, const struct weights *weights)
{
    fetch(state, state->parameters.parameter, weights->parameter);
    fetch(state, state->parameters.momentum, weights->momentum);
    for (int32_t i = 0; i < state->graph.layer_count && weights->statistics; i++) {
        int64_t channels = state->job.model->layer[i].out.channels;
        size_t size = (size_t)channels * sizeof(float);
        const struct cuda_place *place = &state->place[i];
        float *to = weights->statistics + state->layout.statistics[i];
        if (!place->running)
            continue;
        CUDA_CHECK(cudaMemcpy(to, place->running, size, cudaMemcpyDeviceToHost));
        CUDA_CHECK(cudaMemcpy(to + channels, place->running + place->channels, size,
                              cudaMemcpyDeviceToHost));
    }
}

void cuda_state_write(struct device_state *state, const struct weights *weights)
{
    store(state, state->parameters.parameter, weights->parameter);
    store(state, state->parameters.momentum, weights->momentum);
    for (int32_t i = 0; i < state->graph.layer_count && weights->statistics; i++) {
        int64_t channels = state->job.model->layer[i].out.channels;
        size_t size = (size_t)channels * sizeof(float);
        const struct cuda_place *place = &state->place[i];
        const float *from = weights->statistics + state->layout.statistics[i];
        if (!place->running)
            continue;
        cuda_state_upload(state, place->running, from, size);
        cuda_state_upload(state, place->running + place->channels, from + channels, size);
    }
    cudaStream_t stream = cuda_stream_handle(state->stream);
    cuda_state_refresh(state, stream, true);
    CUDA_CHECK_LAUNCHES("refreshing weights");
    CUDA_CHECK(cudaStreamSynchronize(stream));
}
