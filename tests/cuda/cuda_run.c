#include "tests/cuda/cuda_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base.h"
#include "exec/cuda/device_cuda.h"
#include "exec/half.h"
#include "tests/cuda/fake_runtime.h"

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

int32_t cuda_run_networks(int32_t usual)
{
    const char *wanted = getenv("FORETRAIN_TEST_NETWORKS");
    int32_t fewer = wanted ? (int32_t)strtol(wanted, NULL, 10) : usual;
    return fewer > 0 && fewer < usual ? fewer : usual;
}
