#include "tests/cuda/conv_operands.h"

#include "core/base/base.h"
#include "exec/step/half.h"

void operands_must(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    printf("%s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}

double operands_element(enum dtype type, const void *array, int64_t index)
{
    float wide;
    half_to_float(type, 1, (const char *)array + index * dtype_size(type), &wide);
    return (double)wide;
}

/* The pattern of @array over and over, on 16 bytes. */
static void *filled(const struct conv_shape *shape, enum conv_array array, size_t bytes)
{
    int64_t count = conv_elements(shape, array);
    float *pattern = conv_pattern(shape->type, array);
    char *to = aligned_alloc(16, (bytes + 15) / 16 * 16);
    for (int64_t i = 0; i < count; i += CONV_PATTERN)
        half_from_float(shape->type, count - i < CONV_PATTERN ? count - i : CONV_PATTERN, pattern,
                        to + i * dtype_size(shape->type));
    free(pattern);
    return to;
}

struct operands operands_of(const struct conv_shape *shape, size_t workspace)
{
    struct operands o = {0};
    for (int32_t i = 0; i < CONV_ARRAY_COUNT; i++) {
        enum conv_array array = (enum conv_array)i;
        o.bytes[i] = (size_t)(conv_elements(shape, array) * dtype_size(shape->type));
        o.host[i] = filled(shape, array, o.bytes[i]);
        operands_must(cudaMalloc(&o.array[i], o.bytes[i]), "memory");
        operands_must(cudaMemcpy(o.array[i], o.host[i], o.bytes[i], cudaMemcpyHostToDevice),
                      "copy");
    }
    operands_must(cudaMalloc(&o.workspace, workspace + 16), "memory");
    o.call = conv_call_of(o.array, o.workspace);
    return o;
}

void operands_release(struct operands *o)
{
    for (int32_t i = 0; i < CONV_ARRAY_COUNT; i++) {
        cudaFree(o->array[i]);
        free(o->host[i]);
    }
    cudaFree(o->workspace);
}
