#include "tests/cuda/conv_operands.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "exec/step/half.h"

double operands_element(enum dtype type, const void *array, int64_t index)
{
    float wide;
    half_to_float(type, 1, (const char *)array + index * dtype_size(type), &wide);
    return (double)wide;
}

/* @array of @shape full of its pattern, on the device of software. */
static void *filled(const struct conv_shape *shape, enum conv_array array)
{
    int64_t count = conv_elements(shape, array);
    int32_t size = dtype_size(shape->type);
    float *pattern = conv_pattern(shape->type, array);
    void *to = NULL;
    assert_int_equal(cudaMalloc(&to, (size_t)(count * size)), 0);
    for (int64_t i = 0; i < count; i++)
        half_from_float(shape->type, 1, &pattern[i % CONV_PATTERN], (char *)to + i * size);
    free(pattern);
    return to;
}

struct operands operands_of(const struct conv_shape *shape, size_t workspace)
{
    struct operands o = {0};
    for (int32_t i = 0; i < CONV_ARRAY_COUNT; i++)
        o.array[i] = filled(shape, (enum conv_array)i);
    assert_int_equal(cudaMalloc(&o.workspace, workspace + 1), 0);
    o.call = conv_call_of(o.array, o.workspace);
    return o;
}

void operands_release(struct operands *o)
{
    for (int32_t i = 0; i < CONV_ARRAY_COUNT; i++)
        cudaFree(o->array[i]);
    cudaFree(o->workspace);
}
