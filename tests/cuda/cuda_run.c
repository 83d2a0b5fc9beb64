#include "tests/cuda/cuda_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/base.h"
#include "exec/cuda/device_cuda.h"
#include "exec/step/half.h"
#include "models/networks.h"
#include "tests/cuda/fake/fake_runtime.h"

void cuda_run_open(struct device_run *run, struct device_run_job job, const struct device_ops *ops)
{
    struct err err = {0};
    job.ops = ops;
    int status = device_run_open(run, &job, &err);
    if (status)
        fail_msg("%s", err.text);
}

void cuda_run_close(struct device_run *run)
{
    bool ours = run->job.ops == &device_cuda_ops;
    device_run_close(run);
    if (ours)
        assert_int_equal(fake_objects(), 0);
}

float *cuda_run_gradients(struct device_run *run)
{
    int64_t count = run->layout.parameters;
    const void *device = run->job.ops->gradients(run->state);
    float *wide = base_alloc(count, sizeof(float)), *ordered = base_alloc(count, sizeof(float));
    enum dtype type = run->job.ops->exchanges_payload ? run->job.gradients : DTYPE_FP32;
    size_t bytes = (size_t)count * (size_t)dtype_size(type);
    void *flat = base_alloc(1, bytes);
    if (run->job.ops == &device_cuda_ops)
        assert_int_equal(cudaMemcpy(flat, device, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    else
        memcpy(flat, device, bytes);
    if (type == DTYPE_FP32)
        memcpy(wide, flat, bytes);
    else
        half_to_float(type, count, flat, wide);
    free(flat);
    for (int32_t t = 0; t < run->job.model->tensor_count; t++) {
        int32_t out = 1, taps = 1, in = (int32_t)run->layout.parameter[t].elements;
        if (run->job.ops == &device_cuda_ops)
            device_cuda_order(run->job.model, t, &out, &taps, &in);
        assert_int_equal((int64_t)out * taps * in, run->layout.parameter[t].elements);
        const float *from = wide + run->layout.parameter[t].offset;
        float *to = ordered + run->layout.parameter[t].offset;
        for (int64_t o = 0; o < out; o++)
            for (int64_t tap = 0; tap < taps; tap++)
                for (int64_t i = 0; i < in; i++)
                    to[(o * in + i) * taps + tap] = *from++;
    }
    free(wide);
    return ordered;
}

struct model *cuda_run_toy(void)
{
    struct err err = {0};
    struct model *model = network_build("toy", 16, 4, &err);
    assert_non_null(model);
    return model;
}

struct device_run_job cuda_run_toy_job(const struct model *model)
{
    return (struct device_run_job){.model = model,
                                   .batch = 4,
                                   .micro_batches = 2,
                                   .threads = 1,
                                   .learning_rate = 0.05,
                                   .compute = DTYPE_FP16,
                                   .gradients = DTYPE_FP16,
                                   .seed = 5};
}

struct weights cuda_run_read(const struct device_run *run)
{
    struct weights weights = {.parameter = base_alloc(run->layout.parameters, sizeof(float)),
                              .momentum = base_alloc(run->layout.parameters, sizeof(float)),
                              .statistics = base_alloc(run->layout.statistic_count, sizeof(float))};
    run->job.ops->read(run->state, &weights);
    return weights;
}

void cuda_run_free(struct weights *weights)
{
    free(weights->parameter);
    free(weights->momentum);
    free(weights->statistics);
}

void cuda_run_same_bits(const struct layout *layout, const struct weights *a,
                        const struct weights *b)
{
    size_t parameters = (size_t)layout->parameters * sizeof(float);
    assert_memory_equal(a->parameter, b->parameter, parameters);
    assert_memory_equal(a->momentum, b->momentum, parameters);
    assert_memory_equal(a->statistics, b->statistics,
                        (size_t)layout->statistic_count * sizeof(float));
}
