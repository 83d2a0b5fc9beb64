#include "exec/cuda/device_cuda.h"
#include "tests/cuda/cuda_run.h"
#include "tests/cuda/fake/fake_runtime.h"
#include "tests/exec/random_network.h"
#include "tests/test.h"

/* The CUDA device against the naive one. */

enum { NETWORKS = 4 };

/* A gradient jumps in 4 to 20 % of sets of data, by network. */
static void assert_trains(struct device_run_job job, struct difference limit)
{
    job.ops = &device_cuda_ops;
    device_compare(job, cuda_run_gradients, 2, &limit, NULL);
    assert_int_equal(fake_objects(), 0);
}

/* What trains on batches of @batch images at a usual rate. */
static struct device_run_job job_of(const struct model *model, int32_t batch, uint64_t seed)
{
    return (struct device_run_job){.model = model,
                                   .batch = batch,
                                   .micro_batches = batch == 8 && seed % 4 == 0 ? 2 : 1,
                                   .threads = 1,
                                   .learning_rate = 0.01,
                                   .seed = seed};
}

/* Rounding of fp32 alone; a tensor whose gradient nearly cancels suffers most. */
static const struct difference fp32_limit = {.loss = 1e-6,
                                             .norm = 2e-6,
                                             .gradient = 1e-5,
                                             .tensor = 1e-4,
                                             .parameter = 1e-7,
                                             .statistic = 1e-6,
                                             .score = 1e-5};

TEST(random_networks_train_as_on_the_naive_device)
{
    for (uint64_t seed = 0; random_seed(&seed, NETWORKS);) {
        OWN(model) *model = random_network(seed);
        assert_trains(job_of(model, 8, seed), fp32_limit);
    }
}

TEST(known_networks_train_as_on_the_naive_device)
{
    static const char *const name[] = {"toy", "resnet8"};
    for (size_t i = 0; i < ARRAY_SIZE(name); i++) {
        OWN(model) *model = network_of(name[i], 32, 10);
        assert_trains(job_of(model, 4, i), fp32_limit);
    }
}

/* Images seen as 4 x 9 pixels, of which a linear layer sees all, behind a batch norm. */
TEST(a_linear_layer_takes_any_image)
{
    OWN(model) *model = model_new("oblong", 6, 4);
    struct shape at = {3, 4, 9}; /* of images of 6 x 6 */
    struct layer layers[] = {
        {.op = LAYER_CONVOLUTION, .out.channels = 12, .kernel = 3, .padding = 1},
        {.op = LAYER_BATCH_NORM, .relu = true},
        {.op = LAYER_LINEAR, .out.channels = 4, .kernel = 1, .bias = true}};
    for (size_t i = 0; i < ARRAY_SIZE(layers); i++) {
        layers[i].in = at;
        layers[i].input[0] = (int32_t)i - 1;
        layers[i].input_count = 1;
        layers[i].stride = 1;
        int32_t index = model_add(model, layers[i]);
        at = model->layer[index].out;
    }
    assert_trains(job_of(model, 4, 3), fp32_limit);
}

/* Every value is rounded to 11 or 8 bits, relatively 2^-12 or 2^-9 on average, some twenty times on
 * the way there and back; where that moves a value across a ReLU's corner more changes than
 * rounding, so batch norm's shifts keep most away from it.  Tensors whose gradient nearly cancels
 * say little then, so the whole gradient counts. */
static void check_narrow(enum dtype type, double loss_scale, struct difference limit)
{
    for (uint64_t seed = 0; random_seed(&seed, NETWORKS);) {
        OWN(model) *model = random_network(seed);
        struct device_run_job job = job_of(model, 8, seed);
        job.shift = 1.5;
        job.compute = type;
        job.gradients = seed % 3 == 0 ? DTYPE_FP32 : type;
        job.loss_scale = loss_scale;
        assert_trains(job, limit);
    }
}

TEST(random_networks_train_in_fp16)
{
    const struct difference limit = {.loss = 2e-3,
                                     .norm = 5e-3,
                                     .gradient = 0.02,
                                     .tensor = INFINITY,
                                     .parameter = 1e-3,
                                     .statistic = 1e-3,
                                     .score = 0.01};
    check_narrow(DTYPE_FP16, 256, limit);
}

TEST(random_networks_train_in_bf16)
{
    const struct difference limit = {.loss = 0.01,
                                     .norm = 0.03,
                                     .gradient = 0.1,
                                     .tensor = INFINITY,
                                     .parameter = 5e-3,
                                     .statistic = 0.01,
                                     .score = 0.04};
    check_narrow(DTYPE_BF16, 1, limit);
}
