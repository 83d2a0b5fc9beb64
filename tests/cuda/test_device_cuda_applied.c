#include <math.h>

#include "core/schedule/memory.h"
#include "tests/cuda/conv_naive.h"
#include "tests/cuda/cuda_run.h"
#include "tests/cuda/fake/emulate_order.h"
#include "tests/cuda/fake/fake_runtime.h"
#include "tests/exec/random_network.h"
#include "tests/test.h"

/* The CUDA device where convolutions apply the batch norm and ReLU that they read, and go back
 * through them, beside the same device where they do not. */

enum { NETWORKS = 4 };

/* One step. */
struct seen {
    double loss, norm;
    float *gradient;
    int64_t applied; /* convolutions that applied, forward and backward */
    int64_t back;    /* that went back */
    int64_t ended;   /* at the end of a block */
    int64_t written; /* that wrote a block's value */
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

/* Which ways are faster. */
struct way {
    bool apply, back, add, end, pool;
};

static const struct way neither = {.apply = false}, both = {.apply = true, .back = true},
                        ends = {true, true, true, true, false};

static struct conv_naive take(struct way way)
{
    return (struct conv_naive){.slow_to_apply = !way.apply,
                               .slow_to_norm = !way.back,
                               .slow_to_add = !way.add,
                               .slow_to_end = !way.end,
                               .merges_pools = way.pool};
}

/* The second step, so that also the weights' way of the first counts. */
static struct seen step(struct device_run_job job, struct way way)
{
    CUDA_RUN run;
    conv_naive = take(way);
    cuda_run_open(&run, job);
    device_run_step(&run);
    struct outcome outcome = device_run_step(&run);
    return (struct seen){outcome.loss,
                         outcome.norm,
                         cuda_run_gradients(&run),
                         applied(),
                         conv_naive.runs[CONV_BACKWARD_DATA_NORM],
                         conv_naive.runs[CONV_BACKWARD_DATA_ADD_NORM] +
                             conv_naive.runs[CONV_BACKWARD_DATA_ADD_NORMS],
                         conv_naive.runs[CONV_FORWARD_ADD_SUMS] +
                             conv_naive.runs[CONV_FORWARD_ADD_TWO_SUMS]};
}

/* What core/schedule/memory.h says of values that need not be written. */
static int64_t planned(const struct model *model, int64_t images)
{
    const struct scenario scenario = {.model = {.compute = DTYPE_FP16, .gradients = DTYPE_FP16}};
    return memory_plan(model, &scenario, 1, images, images).applied;
}

/* |a - b| / |b| of the gradients of @way and neither; -1: nothing can be merged in this network. */
static double distance(const struct device_run_job *job, struct way way)
{
    const int64_t count = model_parameters(job->model);
    struct seen merged = step(*job, way), apart = step(*job, neither);
    assert_int_equal(apart.applied + apart.back + apart.ended + apart.written, 0);
    assert_true((way.apply || merged.applied == 0) && (way.back || merged.back == 0));
    assert_true(way.add || merged.ended == 0);
    assert_int_equal(merged.written, way.end ? merged.ended : 0);
    assert_true(!way.apply || (merged.applied > 0) == (planned(job->model, 1) > 0));
    double difference = relative(merged.gradient, apart.gradient, count);
    bool close = fabs(merged.loss - apart.loss) <= 2e-3 * apart.loss &&
                 fabs(merged.norm - apart.norm) <= 5e-3 * apart.norm;
    bool any = merged.applied + merged.back + merged.ended > 0;
    assert_true(any || memcmp(merged.gradient, apart.gradient, (size_t)count * sizeof(float)) == 0);
    free(merged.gradient);
    free(apart.gradient);
    return !any ? -1 : close ? difference : INFINITY;
}

/* The limits are those of fp16 against fp32 in test_device_cuda.c; so is that three sets of data
 * agree before three jump.  @return whether anything was merged. */
static bool compare(struct device_run_job job, struct way way)
{
    const double limit = 0.02;
    bool any = false;
    for (int32_t agreed = 0, jumped = 0; agreed < 3; job.seed += 1000) {
        double found = distance(&job, way);
        any = any || found >= 0;
        agreed += found <= limit;
        jumped += !(found <= limit);
        if (jumped > 2)
            fail_msg("%s, seed %d: gradients differ by %.2g, with three of %d sets of data",
                     job.model->name, (int)job.seed, found, agreed + jumped);
    }
    return any;
}

static void train_alike(struct way way)
{
    static const char *const name[] = {"toy", "resnet8"};
    int32_t merging = 0, networks = 0;
    for (uint64_t seed = 0; random_seed(&seed, NETWORKS); networks++) {
        OWN(model) *model = random_network(seed);
        merging += compare(job_of(model, seed), way);
    }
    assert_true(3 * merging >= networks);
    for (size_t i = 0; i < ARRAY_SIZE(name); i++) {
        OWN(model) *model = cuda_run_network(name[i], 32, 10);
        assert_true(compare(job_of(model, 3), way));
    }
}

TEST(merging_trains_alike)
{
    train_alike((struct way){.apply = true});
    train_alike((struct way){.back = true});
    train_alike(both);
}

/* Whether a block's value is read by another block. */
static bool has_ends(const struct model *model)
{
    bool any = false;
    for (int32_t i = 0; i < model->layer_count; i++)
        any = any || (model->layer[i].residual && model->layer[i].readers == 2);
    return any;
}

/* Where blocks end in sums with values and with projections, of any shape; others merge nothing. */
TEST(ending_blocks_trains_alike)
{
    for (uint64_t seed = 0, found = 0; found < NETWORKS; seed++) {
        OWN(model) *model = random_network(seed);
        if (has_ends(model)) {
            found++;
            assert_true(compare(job_of(model, seed), (struct way){.add = true}));
            assert_true(compare(job_of(model, seed), (struct way){.add = true, .end = true}));
        }
    }
    OWN(model) *model = cuda_run_network("resnet20", 16, 10);
    assert_true(compare(job_of(model, 3), ends));
}

static void add(struct model *model, struct layer layer)
{
    layer.input[0] = model->layer_count - 1;
    layer.input_count = 1;
    layer.stride = layer.stride ? layer.stride : 1;
    model_add(model, layer);
}

/* Three convolutions, of which the last has a bias where others have batch norm; so wide that
 * factors of one fill more than what memory is rounded up to. */
static struct model *plain_network(bool relu)
{
    struct model *model = model_new("plain", 6, 4);
    for (int32_t i = 0; i < 3; i++) {
        add(model, (struct layer){.op = LAYER_CONVOLUTION,
                                  .out.channels = 136,
                                  .kernel = 3,
                                  .padding = 1,
                                  .bias = i == 2});
        if (i < 2)
            add(model, (struct layer){.op = LAYER_BATCH_NORM, .relu = relu});
    }
    add(model, (struct layer){.op = LAYER_LINEAR, .out.channels = 4, .kernel = 1, .bias = true});
    return model;
}

/* A batch norm without ReLU is not; nor is one applied whose reader leaves no sums. */
TEST(only_what_fits_is_merged)
{
    for (int32_t relu = 0; relu < 2; relu++) {
        OWN(model) *model = plain_network(relu);
        struct seen seen = step(job_of(model, 1), both);
        assert_int_equal(seen.applied, relu ? 2 : 0); /* conv2, in two steps */
        assert_int_equal(seen.back, relu ? 4 : 0);    /* and conv3, whose bias is no matter */
        free(seen.gradient);
        assert_int_equal(compare(job_of(model, 1), both), relu);
    }
}

/* bn1 is read by conv2 alone and bn2 by conv3: neither values nor masks of theirs take memory, only
 * their factors in 16 bits.  Beside that the ways differ by who forms sums, and where masks are. */
TEST(what_is_applied_takes_no_memory)
{
    OWN(model) *model = cuda_run_network("toy", 32, 10);
    size_t used[2];
    for (int32_t slow = 0; slow < 2; slow++) {
        CUDA_RUN run;
        conv_naive = take((struct way){.apply = !slow});
        cuda_run_open(&run, job_of(model, 1));
        used[slow] = fake_in_use();
        device_run_step(&run);
        assert_int_equal(applied(), slow ? 0 : 2);
        assert_int_equal(conv_naive.runs[CONV_FORWARD_SUMS], slow ? 3 : 1);
        assert_int_equal(conv_naive.runs[CONV_FORWARD], 1); /* the classifier */
        assert_int_equal(conv_naive.runs[CONV_BACKWARD_FILTER], slow ? 4 : 2);
    }
    int64_t values = 8 * (16 * 32 * 32 + 32 * 16 * 16), halves = 2 * 256; /* rounded up */
    assert_int_equal(planned(model, 8), values * 2);
    assert_int_equal(used[1] - used[0], values * 2 + values / 8 - halves);
}

/* Both gradients come cut, so no masks are kept; instead five numbers per channel, rounded up, and
 * copies of scales and shifts, which the classifier's ten biases leave off 16 bytes. */
TEST(what_comes_cut_needs_no_masks)
{
    OWN(model) *model = cuda_run_network("toy", 32, 10);
    size_t used[2];
    for (int32_t back = 0; back < 2; back++) {
        CUDA_RUN run;
        conv_naive = take((struct way){.back = back});
        cuda_run_open(&run, job_of(model, 1));
        used[back] = fake_in_use();
        device_run_step(&run);
        assert_int_equal(conv_naive.runs[CONV_BACKWARD_DATA_NORM], back ? 2 : 0);
        assert_int_equal(conv_naive.runs[CONV_BACKWARD_DATA], back ? 1 : 3);
    }
    int64_t values = 8 * (16 * 32 * 32 + 32 * 16 * 16), derived = 512 + 768;
    int64_t copies = 2 * 256;
    assert_int_equal(used[0] - used[1], values / 8 - derived - copies);
}

static void score_alike(const struct model *model, uint64_t seed)
{
    float scores[2][8 * 16] = {{0}};
    assert_true(model->classes <= 16);
    for (int32_t slow = 0; slow < 2; slow++) {
        CUDA_RUN run;
        conv_naive = take(slow ? neither : ends);
        cuda_run_open(&run, job_of(model, seed));
        device_run_score(&run, scores[slow]);
        assert_int_equal(applied(), 0);
        for (int32_t op = 0; op < CONV_OP_COUNT; op++)
            assert_true(op == CONV_FORWARD || conv_naive.runs[op] == 0);
    }
    assert_memory_equal(scores[0], scores[1], sizeof(scores[0]));
    assert_true(scores[0][0] != 0);
}

/* In inference nothing is applied: the same weights give the same bits. */
TEST(scores_are_the_same_bits)
{
    for (uint64_t seed = 0; random_seed(&seed, NETWORKS);) {
        OWN(model) *model = random_network(seed);
        score_alike(model, seed);
    }
    OWN(model) *model = cuda_run_network("resnet8", 16, 10);
    score_alike(model, 1);
}

/* Values that inference writes lie where gradients do, which the next step writes again. */
TEST(inference_between_steps_changes_nothing)
{
    OWN(model) *model = cuda_run_toy();
    struct outcome outcome[2];
    for (int32_t scores = 0; scores < 2; scores++) {
        CUDA_RUN run;
        float score[8 * 4];
        conv_naive = take(both);
        cuda_run_open(&run, job_of(model, 1));
        device_run_step(&run);
        if (scores)
            device_run_score(&run, score);
        outcome[scores] = device_run_step(&run);
        assert_int_equal(applied(), 4);
    }
    assert_true(outcome[0].loss == outcome[1].loss && outcome[0].norm == outcome[1].norm);
}

/* A stem as resnet50's, whose pool a block reads twice. */
static struct model *pooled_network(void)
{
    struct model *model = model_new("pooled", 32, 10);
    const struct layer conv = {
        .op = LAYER_CONVOLUTION, .out.channels = 64, .kernel = 3, .padding = 1};
    struct layer stem = conv;
    stem.kernel = 7;
    stem.stride = 2;
    stem.padding = 3;
    add(model, stem);
    add(model, (struct layer){.op = LAYER_BATCH_NORM, .relu = true});
    add(model, (struct layer){.op = LAYER_MAX_POOL, .kernel = 3, .stride = 2, .padding = 1});
    for (int32_t i = 0; i < 2; i++) {
        add(model, conv);
        add(model, (struct layer){.op = LAYER_BATCH_NORM, .relu = true});
    }
    model_add_residual(model, 6, 2);
    add(model,
        (struct layer){.op = LAYER_AVERAGE_POOL, .out = {.height = 1, .width = 1}, .kernel = 8});
    add(model, (struct layer){.op = LAYER_LINEAR, .out.channels = 10, .kernel = 1, .bias = true});
    return model;
}

/* Two steps of @job and inference leave the same bits in both ways.  @return bytes that the second
 * takes less; its second step has @launches less. */
static int64_t spared(struct device_run_job job, struct conv_naive first, struct conv_naive second,
                      int64_t launches)
{
    struct weights weights[2];
    float score[2][80] = {{0}};
    size_t used[2];
    int64_t launched[2];
    for (int32_t i = 0; i < 2; i++) {
        CUDA_RUN run;
        conv_naive = i ? second : first;
        cuda_run_open(&run, job);
        used[i] = fake_in_use();
        device_run_step(&run);
        int64_t before = emulate_launches();
        device_run_step(&run);
        launched[i] = emulate_launches() - before;
        device_run_score(&run, score[i]);
        weights[i] = cuda_run_read(&run);
    }
    cuda_run_same_bits(job.model, &weights[0], &weights[1]);
    assert_memory_equal(score[0], score[1], sizeof(score[0]));
    assert_true(score[0][0] != 0);
    assert_int_equal(launched[0] - launched[1], launches);
    weights_release(&weights[0]);
    weights_release(&weights[1]);
    return (int64_t)used[0] - (int64_t)used[1];
}

/* A pool that applies the batch norm before it takes the memory of one value and its mask less. */
TEST(pools_apply_to_the_same_bits)
{
    OWN(model) *model = pooled_network();
    struct device_run_job job = job_of(model, 1);
    int64_t values = 4 * 64 * 16 * 16; /* of a micro-batch */
    struct way pool = both;
    job.micro_batches = 2;
    pool.pool = true;
    int64_t less = spared(job, take(both), take(pool), 2 * 2); /* apply and pool backward, twice */
    assert_int_equal(less, values * 2 + values / 8);
}

/* Images of 4 channels instead of 8, in all types of 16 bits, take half the memory; fp32 keeps 8.
 */
TEST(images_of_four_channels_give_the_same_bits)
{
    const int64_t images = 2 * 4 * 16 * 16 * 4 * 2; /* slots, images, pixels, channels, bytes */
    OWN(model) *model = cuda_run_toy();
    for (enum dtype type = 0; type < DTYPE_COUNT; type++) {
        struct device_run_job job = cuda_run_toy_job(model);
        bool wide = type == DTYPE_FP32;
        job.compute = type;
        int64_t less = spared(job, (struct conv_naive){0}, (struct conv_naive){.narrows = true}, 0);
        assert_in_range(less, wide ? 0 : images, wide ? 0 : 2 * images);
    }
}
