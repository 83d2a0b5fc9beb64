#include <math.h>
#include <stdlib.h>

#include "core/base/base.h"
#include "exec/cpu/device_naive.h"
#include "exec/cuda/device_cuda.h"
#include "models/networks.h"
#include "tests/cuda/cuda_run.h"
#include "tests/exec/random_network.h"
#include "tests/test.h"

/* The CUDA device against the naive one. */

enum { NETWORKS = 4 };

/* |a - b| / |b| */
static double relative(const float *a, const float *b, int64_t count)
{
    double difference = 0, square = 0;
    for (int64_t i = 0; i < count; i++) {
        difference += pow((double)a[i] - (double)b[i], 2);
        square += pow((double)b[i], 2);
    }
    return sqrt(difference / fmax(square, 1e-30));
}

/* What two steps may differ in, relatively. */
struct difference {
    double loss, norm;
    double gradient, tensor; /* the whole gradient, and the worst of its tensors */
    double parameter, statistic, score;
};

static void widen(double *difference, double other)
{
    if (!(other <= *difference)) /* also NaN */
        *difference = other;
}

static void compare_gradients(struct device_run *a, struct device_run *b, struct difference *d)
{
    float *mine = cuda_run_gradients(a), *naive = cuda_run_gradients(b);
    double whole = 0;
    for (int64_t i = 0; i < a->layout.parameters; i++)
        whole += pow((double)naive[i], 2);
    widen(&d->gradient, relative(mine, naive, a->layout.parameters));
    for (int32_t t = 0; t < a->job.model->tensor_count; t++) {
        struct parameter p = a->layout.parameter[t];
        double square = 0;
        for (int64_t i = p.offset; i < p.offset + p.elements; i++)
            square += pow((double)naive[i], 2);
        if (square < 1e-8 * whole)
            continue; /* a bias before batch norm has no effect: what is left is rounding */
        widen(&d->tensor, relative(mine + p.offset, naive + p.offset, p.elements));
    }
    free(mine);
    free(naive);
}

static double score_difference(struct device_run *a, struct device_run *b)
{
    int64_t count = (int64_t)a->job.batch / a->job.micro_batches * a->job.model->classes;
    float *mine = base_alloc(count, sizeof(float)), *other = base_alloc(count, sizeof(float));
    device_run_score(a, mine);
    device_run_score(b, other);
    double difference = relative(mine, other, count);
    free(mine);
    free(other);
    return difference;
}

static void compare_states(struct device_run *a, struct device_run *b, struct difference *d)
{
    a->job.ops->read(a->state, &a->weights);
    b->job.ops->read(b->state, &b->weights);
    widen(&d->parameter,
          relative(a->weights.parameter, b->weights.parameter, a->layout.parameters));
    widen(&d->statistic,
          relative(a->weights.statistics, b->weights.statistics, a->layout.statistic_count));
    widen(&d->score, score_difference(a, b));
}

/* Two steps in @job's types, each followed by inference, against fp32 on the naive device. */
static struct difference compare(struct device_run_job job)
{
    struct device_run mine, naive;
    struct difference d = {0};
    cuda_run_open(&mine, job, &device_cuda_ops);
    job.compute = job.gradients = DTYPE_FP32;
    cuda_run_open(&naive, job, &device_naive_ops);
    for (int32_t i = 0; i < 2; i++) {
        struct outcome outcome = device_run_step(&mine), expected = device_run_step(&naive);
        assert_false(outcome.overflow);
        widen(&d.loss, fabs(outcome.loss - expected.loss) / expected.loss);
        widen(&d.norm, fabs(outcome.norm - expected.norm) / expected.norm);
        compare_gradients(&mine, &naive, &d);
        compare_states(&mine, &naive, &d);
    }
    cuda_run_close(&mine);
    cuda_run_close(&naive);
    return d;
}

static void assert_close(const struct device_run_job *job, struct difference d,
                         struct difference limit)
{
    bool close = d.loss <= limit.loss && d.norm <= limit.norm && d.gradient <= limit.gradient &&
                 d.tensor <= limit.tensor && d.parameter <= limit.parameter &&
                 d.statistic <= limit.statistic && d.score <= limit.score;
    if (!close)
        fail_msg("%s, seed %d, %s: relative differences: loss %.2g, norm %.2g, gradient %.2g, of a "
                 "tensor %.2g, parameters %.2g, statistics %.2g, scores %.2g",
                 job->model->name, (int)job->seed, dtype_names[job->compute], d.loss, d.norm,
                 d.gradient, d.tensor, d.parameter, d.statistic, d.score);
}

/* Sums in another order are rounded otherwise.  Where that moves a value across a ReLU's corner or
 * makes another element of a window its maximum, a gradient jumps by what one pixel brings: 4 to
 * 20 % of sets of data do so, by network.  Three must agree before three jump. */
static void assert_trains(struct device_run_job job, struct difference limit)
{
    for (int32_t agreed = 0, jumped = 0; agreed < 3; job.seed += 1000) {
        struct difference d = compare(job);
        bool agrees = d.gradient <= limit.gradient && d.tensor <= limit.tensor;
        agreed += agrees;
        jumped += !agrees;
        if (agrees || jumped > 2)
            assert_close(&job, d, limit);
    }
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
        struct model *model = random_network(seed);
        const struct device_run_job job = {.model = model,
                                           .batch = 8,
                                           .micro_batches = seed % 4 == 0 ? 2 : 1,
                                           .threads = 1,
                                           .learning_rate = 0.01,
                                           .seed = seed};
        assert_trains(job, fp32_limit);
        model_free(model);
    }
}

TEST(known_networks_train_as_on_the_naive_device)
{
    static const char *const name[] = {"toy", "resnet8"};
    for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++) {
        struct err err = {0};
        struct model *model = network_build(name[i], 32, 10, &err);
        const struct device_run_job job = {.model = model,
                                           .batch = 4,
                                           .micro_batches = 1,
                                           .threads = 1,
                                           .learning_rate = 0.01,
                                           .seed = i};
        assert_trains(job, fp32_limit);
        model_free(model);
    }
}

/* Images seen as 4 x 9 pixels, of which a linear layer sees all, behind a batch norm. */
TEST(a_linear_layer_takes_any_image)
{
    struct model *model = model_new("oblong", 6, 4);
    struct shape at = {3, 4, 9}; /* of images of 6 x 6 */
    struct layer layers[] = {
        {.op = LAYER_CONVOLUTION, .out.channels = 12, .kernel = 3, .padding = 1},
        {.op = LAYER_BATCH_NORM, .relu = true},
        {.op = LAYER_LINEAR, .out.channels = 4, .kernel = 1, .bias = true}};
    for (size_t i = 0; i < sizeof(layers) / sizeof(*layers); i++) {
        layers[i].in = at;
        layers[i].input[0] = (int32_t)i - 1;
        layers[i].input_count = 1;
        layers[i].stride = 1;
        int32_t index = model_add(model, layers[i]);
        at = model->layer[index].out;
    }
    assert_trains((struct device_run_job){.model = model,
                                          .batch = 4,
                                          .micro_batches = 1,
                                          .threads = 1,
                                          .learning_rate = 0.01,
                                          .seed = 3},
                  fp32_limit);
    model_free(model);
}

/* Every value is rounded to 11 or 8 bits, relatively 2^-12 or 2^-9 on average, some twenty times on
 * the way there and back; where that moves a value across a ReLU's corner more changes than
 * rounding, so batch norm's shifts keep most away from it.  Tensors whose gradient nearly cancels
 * say little then, so the whole gradient counts. */
static void check_narrow(enum dtype type, double loss_scale, struct difference limit)
{
    for (uint64_t seed = 0; random_seed(&seed, NETWORKS);) {
        struct model *model = random_network(seed);
        const struct device_run_job job = {.model = model,
                                           .batch = 8,
                                           .micro_batches = seed % 4 == 0 ? 2 : 1,
                                           .threads = 1,
                                           .learning_rate = 0.01,
                                           .shift = 1.5,
                                           .compute = type,
                                           .gradients = seed % 3 == 0 ? DTYPE_FP32 : type,
                                           .loss_scale = loss_scale,
                                           .seed = seed};
        assert_trains(job, limit);
        model_free(model);
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
