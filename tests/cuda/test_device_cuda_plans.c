#include "exec/cpu/device_naive.h"
#include "tests/cuda/cuda_run.h"
#include "tests/cuda/fake/fake_cudnn.h"
#include "tests/cuda/fake/fake_runtime.h"
#include "tests/test.h"

/* The CUDA device with plans that are sought, checked and timed as on a GPU, over a cuDNN in
 * software: every shape, op and chain of a network goes the way that it goes there. */

static void train(enum dtype type)
{
    OWN(model) *model = cuda_run_toy();
    struct device_run_job job = cuda_run_toy_job(model);
    CUDA_RUN found;
    CLOSED(device_run) naive;
    job.compute = job.gradients = type;
    cuda_run_open(&found, job);
    job.compute = job.gradients = DTYPE_FP32;
    job.ops = &device_naive_ops;
    device_open(&naive, job);
    for (int32_t i = 0; i < 2; i++) {
        struct outcome got = device_run_step(&found), want = device_run_step(&naive);
        double limit = type == DTYPE_FP32 ? 1e-5 : type == DTYPE_FP16 ? 5e-3 : 0.03;
        assert_relative(got.loss, want.loss, limit);
        assert_relative(got.norm, want.norm, limit);
    }
}

TEST(a_network_trains_on_plans_that_were_found)
{
    fake_capacity((size_t)64 << 20); /* no room to flush caches: there are none */
    setenv("XDG_CACHE_HOME", "", 1); /* nothing is kept */
    setenv("HOME", "", 1);
    fake_cudnn.hidden[FAKE_WRONG] = fake_cudnn.hidden[FAKE_FICKLE] = true;
    for (int32_t type = 0; type < DTYPE_COUNT; type++)
        train((enum dtype)type);
    assert_int_equal(fake_cudnn.alive, 0);
}
