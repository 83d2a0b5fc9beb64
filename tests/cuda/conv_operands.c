#include "tests/cuda/conv_operands.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <cuda_runtime_api.h>

#include "exec/step/half.h"

double operands_element(enum dtype type, const void *array, int64_t index)
{
    float wide;
    half_to_float(type, 1, (const char *)array + index * dtype_size(type), &wide);
    return (double)wide;
}

/* @array of @op on @shape full of its pattern, on the device of software. */
static void *filled(enum conv_op op, const struct conv_shape *shape, enum conv_array array)
{
    int64_t count = conv_elements(op, shape, array);
    enum dtype type = conv_array_type(shape->type, array);
    float *pattern = conv_pattern(shape->type, array);
    void *to = NULL;
    assert_int_equal(cudaMalloc(&to, (size_t)count * (size_t)dtype_size(type) + 1), 0);
    for (int64_t i = 0; i < count; i++)
        half_from_float(type, 1, &pattern[i % CONV_PATTERN], (char *)to + i * dtype_size(type));
    free(pattern);
    return to;
}

struct operands operands_of(enum conv_op op, const struct conv_shape *shape, size_t workspace)
{
    struct operands o = {0};
    for (int32_t i = 0; i < CONV_ARRAY_COUNT; i++)
        o.array[i] = filled(op, shape, (enum conv_array)i);
    assert_int_equal(cudaMalloc(&o.workspace, workspace + 1), 0);
    assert_int_equal(cudaMalloc((void **)&o.sums, 2 * (size_t)shape->out_channels * sizeof *o.sums),
                     0);
    size_t derived = 2 * CONV_DERIVED_COUNT * (size_t)shape->in_channels * sizeof *o.derived;
    assert_int_equal(cudaMalloc((void **)&o.derived, derived), 0);
    o.call = conv_call_of(shape, o.array, o.sums, o.derived, o.workspace);
    return o;
}

void operands_release(struct operands *o)
{
    for (int32_t i = 0; i < CONV_ARRAY_COUNT; i++)
        cudaFree(o->array[i]);
    cudaFree(o->workspace);
    cudaFree(o->sums);
    cudaFree(o->derived);
}
