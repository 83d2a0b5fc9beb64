#include "tests/cuda/cuda_run.h"

#include "core/schedule/iteration.h"
#include "exec/cuda/device_cuda.h"
#include "exec/step/half.h"
#include "tests/cuda/fake/fake_runtime.h"

void cuda_run_open(struct device_run *run, struct device_run_job job)
{
    job.ops = &device_cuda_ops;
    device_open(run, job);
}

void cuda_run_close(struct device_run *run)
{
    device_run_close(run);
    assert_int_equal(fake_objects(), 0);
}

float *cuda_run_gradients(struct device_run *run)
{
    const struct device_ops *ops = run->job.ops;
    int64_t count = run->layout.parameters;
    float *wide = base_alloc(count, sizeof(float));
    enum dtype type = ops->exchanges_payload ? run->job.gradients : DTYPE_FP32;
    size_t bytes = (size_t)count * (size_t)dtype_size(type);
    AUTOFREE void *flat = base_alloc(1, bytes);
    if (fake_on_device(ops->gradients(run->state)))
        assert_int_equal(
            cudaMemcpy(flat, ops->gradients(run->state), bytes, cudaMemcpyDeviceToHost), 0);
    else
        memcpy(flat, ops->gradients(run->state), bytes);
    half_to_float(type, count, flat, wide);
    if (!ops->turn)
        return wide;
    float *ordered = base_alloc(count, sizeof(float));
    ops->turn(run->state, true, wide, ordered);
    free(wide);
    return ordered;
}

struct model *cuda_run_toy(void)
{
    return network_of("toy", 16, 4);
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

struct schedule *cuda_run_schedule(const struct device_run *run)
{
    const struct device_run_job *job = &run->job;
    struct iteration iteration = {.model = job->model,
                                  .scenario = &run->scenario,
                                  .grid = {1, 1},
                                  .devices_per_node = 1,
                                  .batch = job->batch,
                                  .micro_batch = job->batch / job->micro_batches};
    return iteration_build(&iteration);
}

struct weights cuda_run_read(const struct device_run *run)
{
    struct weights weights = weights_new(&run->layout, 0);
    run->job.ops->read(run->state, &weights);
    return weights;
}

void cuda_run_same_bits(const struct model *model, const struct weights *a, const struct weights *b)
{
    HELD(layout) layout = layout_build(model);
    size_t parameters = (size_t)layout.parameters * sizeof(float);
    assert_memory_equal(a->parameter, b->parameter, parameters);
    assert_memory_equal(a->momentum, b->momentum, parameters);
    assert_memory_equal(a->statistics, b->statistics,
                        (size_t)layout.statistic_count * sizeof(float));
}
