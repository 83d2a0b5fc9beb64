#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base.h"
#include "core/memory.h"
#include "exec/cuda/device_cuda.h"
#include "models/networks.h"
#include "tests/cuda/conv_naive.h"
#include "tests/cuda/cuda_run.h"
#include "tests/cuda/fake_runtime.h"
#include "tests/exec/random_network.h"

/* The CUDA device where convolutions apply the batch norm and ReLU that they read, beside the same
 * device where they do not. */

enum { NETWORKS = 12 };

/* One step. */
struct seen {
    double loss, norm;
    float *gradient;
    int64_t applied; /* convolutions that applied, forward and backward */
};

static struct device_run_job job_of(const struct model *model, uint64_t seed)
{
    return (struct device_run_job){.model = model,
                                   .batch = 8,
                                   .micro_batches = seed % 3 == 0 ? 2 : 1,
                                   .threads = 1,
                                   .learning_rate = 0.01,
                                   .shift = 1.5,
                                   .compute = DTYPE_FP16,
                                   .gradients = DTYPE_FP16,
                                   .loss_scale = 256,
                                   .seed = seed};
}

static int64_t applied(void)
{
    int64_t forward = conv_naive.runs[CONV_FORWARD_APPLIED_SUMS];
    assert_int_equal(forward, conv_naive.runs[CONV_BACKWARD_FILTER_APPLIED]);
    return forward;
}

/* The second step, so that also the weights' way of the first counts. */
static struct seen step(struct device_run_job job, bool slow)
{
    struct device_run run;
    conv_naive = (struct conv_naive){.slow_to_apply = slow};
    cuda_run_open(&run, job, &device_cuda_ops);
    device_run_step(&run);
    struct outcome outcome = device_run_step(&run);
    struct seen seen = {outcome.loss, outcome.norm, cuda_run_gradients(&run), applied()};
    cuda_run_close(&run);
    return seen;
}

/* What core/memory.h says of values that need not be written. */
static int64_t planned(const struct model *model, int64_t images)
{
    const struct scenario scenario = {.model = {.compute = DTYPE_FP16, .gradients = DTYPE_FP16}};
    return memory_plan(model, &scenario, images, images).applied;
}

/* |a - b| / |b| of the gradients of both ways; -1: nothing is applied in this network. */
static double distance(const struct device_run_job *job)
{
    struct layout layout = layout_build(job->model);
    struct seen merged = step(*job, false), apart = step(*job, true);
    double difference = 0, square = 0;
    assert_int_equal(apart.applied, 0);
    assert_int_equal(merged.applied > 0, planned(job->model, 1) > 0);
    for (int64_t i = 0; i < layout.parameters; i++) {
        difference += pow((double)merged.gradient[i] - (double)apart.gradient[i], 2);
        square += pow((double)apart.gradient[i], 2);
    }
    bool close = fabs(merged.loss - apart.loss) <= 2e-3 * apart.loss &&
                 fabs(merged.norm - apart.norm) <= 5e-3 * apart.norm;
    assert_true(merged.applied > 0 || memcmp(merged.gradient, apart.gradient,
                                             (size_t)layout.parameters * sizeof(float)) == 0);
    free(merged.gradient);
    free(apart.gradient);
    layout_release(&layout);
    return !merged.applied ? -1 : close ? sqrt(difference / square) : INFINITY;
}

/* The limits and further tries are those of fp16 against fp32 in test_device_cuda.c.
 * @return whether anything was applied. */
static bool compare(struct device_run_job job)
{
    enum { TRIES = 4 };
    double limit = 0.02, found = INFINITY;
    uint64_t seed = job.seed;
    for (uint64_t i = 0; i < TRIES && !(found <= limit); i++) {
        job.seed = seed + 1000 * i;
        found = distance(&job);
    }
    if (!(found <= limit))
        fail_msg("%s, seed %d: gradients differ by %.2g", job.model->name, (int)seed, found);
    return found >= 0;
}

static void both_ways_train_alike(void **state)
{
    (void)state;
    static const char *const name[] = {"toy", "resnet8"};
    int32_t applying = 0;
    for (uint64_t seed = 1; seed <= (uint64_t)cuda_run_networks(NETWORKS); seed++) {
        struct model *model = random_network(seed);
        applying += compare(job_of(model, seed));
        model_free(model);
    }
    assert_true(applying >= 4);
    for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++) {
        struct err err = {0};
        struct model *model = network_build(name[i], 32, 10, &err);
        assert_true(compare(job_of(model, 3)));
        model_free(model);
    }
}

static struct shape add(struct model *model, struct layer layer)
{
    layer.first = model->layer_count == 0;
    layer.stride = 1;
    int32_t index = model_add(model, layer); /* may move the array */
    return model->layer[index].out;
}

/* Three convolutions, of which the last has a bias where others have batch norm; so wide that
 * factors of one fill more than what memory is rounded up to. */
static struct model *plain_network(bool relu)
{
    struct model *model = model_new("plain", 6, 4);
    struct shape at = {3, 6, 6};
    for (int32_t i = 0; i < 3; i++) {
        at = add(model, (struct layer){.op = LAYER_CONVOLUTION,
                                       .in = at,
                                       .out.channels = 136,
                                       .kernel = 3,
                                       .padding = 1,
                                       .bias = i == 2});
        if (i < 2)
            at = add(model, (struct layer){.op = LAYER_BATCH_NORM, .in = at, .relu = relu});
    }
    add(model,
        (struct layer){.op = LAYER_LINEAR, .in = at, .out.channels = 4, .kernel = 1, .bias = true});
    return model;
}

/* A batch norm without ReLU is not; nor is one read by a convolution that leaves no sums. */
static void only_what_fits_is_applied(void **state)
{
    (void)state;
    for (int32_t relu = 0; relu < 2; relu++) {
        struct model *model = plain_network(relu);
        struct seen seen = step(job_of(model, 1), false);
        assert_int_equal(seen.applied, relu ? 2 : 0); /* conv2, in two steps */
        free(seen.gradient);
        assert_int_equal(compare(job_of(model, 1)), relu);
        model_free(model);
    }
}

/* bn1 is read by conv2 alone and bn2 by conv3: neither values nor masks of theirs take memory, only
 * their factors in 16 bits.  Beside that the ways differ by who forms sums, and where masks are. */
static void what_is_applied_takes_no_memory(void **state)
{
    (void)state;
    struct err err = {0};
    struct model *model = network_build("toy", 32, 10, &err);
    size_t used[2];
    for (int32_t slow = 0; slow < 2; slow++) {
        struct device_run run;
        conv_naive = (struct conv_naive){.slow_to_apply = slow};
        cuda_run_open(&run, job_of(model, 1), &device_cuda_ops);
        used[slow] = fake_in_use();
        device_run_step(&run);
        assert_int_equal(applied(), slow ? 0 : 2);
        assert_int_equal(conv_naive.runs[CONV_FORWARD_SUMS], slow ? 3 : 1);
        assert_int_equal(conv_naive.runs[CONV_FORWARD], 1); /* the classifier */
        assert_int_equal(conv_naive.runs[CONV_BACKWARD_FILTER], slow ? 4 : 2);
        cuda_run_close(&run);
    }
    int64_t values = 8 * (16 * 32 * 32 + 32 * 16 * 16), halves = 2 * 256; /* rounded up */
    assert_int_equal(planned(model, 8), values * 2);
    assert_int_equal(used[1] - used[0], values * 2 + values / 8 - halves);
    model_free(model);
}

/* In inference nothing is applied: the same weights give the same bits. */
static void scores_are_the_same_bits(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)cuda_run_networks(NETWORKS); seed++) {
        struct model *model = random_network(seed);
        float scores[2][8 * 16] = {{0}};
        assert_true(model->classes <= 16);
        for (int32_t slow = 0; slow < 2; slow++) {
            struct device_run run;
            conv_naive = (struct conv_naive){.slow_to_apply = slow};
            cuda_run_open(&run, job_of(model, seed), &device_cuda_ops);
            device_run_score(&run, scores[slow]);
            assert_int_equal(applied(), 0);
            assert_int_equal(conv_naive.runs[CONV_FORWARD_SUMS], 0);
            cuda_run_close(&run);
        }
        assert_memory_equal(scores[0], scores[1], sizeof(scores[0]));
        assert_true(scores[0][0] != 0);
        model_free(model);
    }
}

/* Values that inference writes lie where gradients do, which the next step writes again. */
static void inference_between_steps_changes_nothing(void **state)
{
    (void)state;
    struct err err = {0};
    struct model *model = network_build("toy", 16, 4, &err);
    struct outcome outcome[2];
    for (int32_t scores = 0; scores < 2; scores++) {
        struct device_run run;
        float score[8 * 4];
        conv_naive = (struct conv_naive){0};
        cuda_run_open(&run, job_of(model, 1), &device_cuda_ops);
        device_run_step(&run);
        if (scores)
            device_run_score(&run, score);
        outcome[scores] = device_run_step(&run);
        assert_int_equal(applied(), 4);
        cuda_run_close(&run);
    }
    assert_true(outcome[0].loss == outcome[1].loss && outcome[0].norm == outcome[1].norm);
    model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ways_train_alike),
        cmocka_unit_test(only_what_fits_is_applied),
        cmocka_unit_test(what_is_applied_takes_no_memory),
        cmocka_unit_test(scores_are_the_same_bits),
        cmocka_unit_test(inference_between_steps_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
