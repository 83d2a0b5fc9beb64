#include <math.h>
#include <stdio.h>

#include "core/base/base.h"
#include "exec/cpu/device_naive.h"
#include "exec/cpu/dnnl/device_dnnl.h"
#include "exec/cpu/dnnl/device_dnnl_state.h"
#include "models/networks.h"
#include "tests/core/own.h"
#include "tests/exec/device_run.h"
#include "tests/exec/random_network.h"
#include "tests/test.h"

enum { NETWORKS = 6 };

/* ---- comparisons ---- */

static void open_run(struct device_run *run, struct device_run_job job,
                     const struct device_ops *ops)
{
    struct err err = {0};
    job.ops = ops;
    int status = device_run_open(run, &job, &err);
    assert_ok(status == 0, err);
}

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

/* The largest relative difference of one tensor's gradient. */
static double gradient_difference(struct device_run *a, struct device_run *b)
{
    const float *mine = a->job.ops->gradients(a->state), *naive = b->job.ops->gradients(b->state);
    double worst = 0, whole = 0;
    for (int64_t i = 0; i < a->layout.parameters; i++)
        whole += pow((double)naive[i], 2);
    for (int32_t t = 0; t < a->job.model->tensor_count; t++) {
        struct parameter p = a->layout.parameter[t];
        double square = 0;
        for (int64_t i = p.offset; i < p.offset + p.elements; i++)
            square += pow((double)naive[i], 2);
        if (square < 1e-8 * whole)
            continue; /* a bias before batch norm has no effect: what is left is rounding */
        worst = fmax(worst, relative(mine + p.offset, naive + p.offset, p.elements));
    }
    return worst;
}

static void assert_same_state(struct device_run *a, struct device_run *b, double tolerance)
{
    struct weights *mine = &a->weights, *other = &b->weights;
    a->job.ops->read(a->state, mine);
    b->job.ops->read(b->state, other);
    assert_true(relative(mine->parameter, other->parameter, a->layout.parameters) <= tolerance);
    assert_true(relative(mine->statistics, other->statistics, a->layout.statistic_count) <=
                tolerance);
}

static void assert_same_scores(struct device_run *a, struct device_run *b, double tolerance)
{
    int64_t count = (int64_t)a->job.batch / a->job.micro_batches * a->job.model->classes;
    AUTOFREE float *mine = base_alloc(count, sizeof(float)),
                   *other = base_alloc(count, sizeof(float));
    device_run_score(a, mine);
    device_run_score(b, other);
    double difference = relative(mine, other, count);
    if (!(difference <= tolerance))
        fail_msg("seed %d: scores differ by %g", (int)a->job.seed, difference);
}

/* One step, inference with what it left, another step.
 * @return the largest difference of a gradient. */
static double compare(const struct model *model, int32_t micro_batches, uint64_t seed)
{
    const struct device_run_job job = {.model = model,
                                       .batch = 8,
                                       .micro_batches = micro_batches,
                                       .threads = 1 + (int32_t)(seed % 2),
                                       .learning_rate = 0.01,
                                       .seed = seed};
    struct device_run mine, naive;
    double worst = 0;
    open_run(&mine, job, &device_dnnl_ops);
    open_run(&naive, job, &device_naive_ops);
    for (int32_t i = 0; i < 2; i++) {
        double loss = device_run_step(&mine).loss, expected = device_run_step(&naive).loss;
        if (!(fabs(loss - expected) <= 1e-4 * expected))
            fail_msg("seed %d: loss %.9g, not %.9g", (int)seed, loss, expected);
        worst = fmax(worst, gradient_difference(&mine, &naive));
        assert_same_state(&mine, &naive, 1e-4);
        assert_same_scores(&mine, &naive, 1e-3);
    }
    device_run_close(&mine);
    device_run_close(&naive);
    return worst;
}

/* Sums in another order are rounded otherwise.  Where that moves a value across a ReLU's corner or
 * makes another element of a window its maximum, a gradient jumps by what one pixel brings: of
 * four sets of data one may do so, three must agree within @limit. */
static void expect_without_jump(double (*compare_one)(const struct model *, int32_t, uint64_t),
                                const struct model *model, int32_t micro_batches, uint64_t seed,
                                double limit)
{
    int32_t agreed = 0, jumped = 0;
    for (uint64_t i = 0; agreed < 3; i++) {
        double difference = compare_one(model, micro_batches, seed + 1000 * i);
        agreed += difference <= limit;
        jumped += !(difference <= limit);
        if (jumped > 1)
            fail_msg("%s, seed %d: a gradient differs by %g", model->name, (int)seed, difference);
    }
}

TEST(random_networks_train_as_on_the_naive_device)
{
    for (uint64_t seed = 0; random_seed(&seed, NETWORKS);) {
        OWN(model) *model = random_network(seed);
        expect_without_jump(compare, model, seed % 4 == 0 ? 2 : 1, seed, 1e-3);
    }
}

TEST(known_networks_train_as_on_the_naive_device)
{
    static const char *const name[] = {"toy", "resnet8"};
    for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++) {
        struct err err = {0};
        OWN(model) *model = network_build(name[i], 32, 10, &err);
        expect_without_jump(compare, model, 1, i, 1e-3);
    }
}

static bool runs_bf16(void)
{
    HELD(err) err = {0};
    struct device_run run;
    OWN(model) *model = network_build("toy", 16, 4, &err);
    const struct device_run_job job = {.ops = &device_dnnl_ops,
                                       .model = model,
                                       .batch = 1,
                                       .micro_batches = 1,
                                       .threads = 1,
                                       .compute = DTYPE_BF16};
    bool runs = device_run_open(&run, &job, &err) == 0;
    device_run_close(&run);
    return runs;
}

/* Of the whole gradient: |a - b| / |b|.  That there is one shows that bf16 is used at all. */
static double bf16_difference(const struct model *model, int32_t micro_batches, uint64_t seed)
{
    struct device_run mine, naive;
    const struct device_run_job job = {.model = model,
                                       .batch = 8,
                                       .micro_batches = micro_batches,
                                       .threads = 2,
                                       .shift = 2,
                                       .seed = seed};
    struct device_run_job narrow = job;
    narrow.compute = DTYPE_BF16;
    open_run(&mine, narrow, &device_dnnl_ops);
    open_run(&naive, job, &device_naive_ops);
    double loss = device_run_step(&mine).loss, expected = device_run_step(&naive).loss;
    if (!(fabs(loss - expected) <= 0.02 * expected))
        fail_msg("seed %d: loss %.9g, not %.9g", (int)seed, loss, expected);
    double difference = relative(device_dnnl_ops.gradients(mine.state),
                                 device_naive_ops.gradients(naive.state), mine.layout.parameters);
    device_run_close(&mine);
    device_run_close(&naive);
    assert_true(difference > 1e-4);
    return difference;
}

/* Rounding to 8 bits changes each factor by up to 0.2 %; a wrong operand changes the gradient by as
 * much as it is.  Batch norm's shifts keep most values away from ReLU's corner. */
TEST(bf16_is_fp32_up_to_rounding)
{
    if (!runs_bf16()) {
        print_message("this CPU has no instructions for bf16\n");
        skip();
    }
    for (uint64_t seed = 0; random_seed(&seed, NETWORKS);) {
        OWN(model) *model = random_network(seed);
        expect_without_jump(bf16_difference, model, 1, seed, 0.04);
    }
}

/* Gradients, weights and statistics after two steps, bit for bit. */
TEST(the_same_threads_give_the_same_bits)
{
    struct err err = {0};
    OWN(model) *model = network_build("resnet8", 32, 10, &err);
    const struct device_run_job job = {
        .model = model, .batch = 8, .micro_batches = 2, .threads = 2, .learning_rate = 0.1};
    struct device_run run[2];
    for (int32_t i = 0; i < 2; i++) {
        open_run(&run[i], job, &device_dnnl_ops);
        device_run_step(&run[i]);
        device_run_step(&run[i]);
        device_dnnl_ops.read(run[i].state, &run[i].weights);
    }
    size_t size = (size_t)run[0].layout.parameters * sizeof(float);
    assert_memory_equal(device_dnnl_ops.gradients(run[0].state),
                        device_dnnl_ops.gradients(run[1].state), size);
    assert_memory_equal(run[0].weights.parameter, run[1].weights.parameter, size);
    assert_memory_equal(run[0].weights.statistics, run[1].weights.statistics,
                        (size_t)run[0].layout.statistic_count * sizeof(float));
    device_run_close(&run[0]);
    device_run_close(&run[1]);
}

static void assert_compiled(const struct layer *layer, const struct call *call)
{
    const_dnnl_primitive_desc_t desc;
    const char *name;
    if (!call->primitive)
        return; /* images have no gradient */
    assert_int_equal(dnnl_primitive_get_primitive_desc(call->primitive, &desc), dnnl_success);
    assert_int_equal(dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name),
                     dnnl_success);
    if (strncmp(name, "ref", 3) == 0)
        fail_msg("%s runs oneDNN's reference, %s", layer->name, name);
}

/* The build runs this with the instructions of older processors, too. */
TEST(no_matrix_is_left_to_the_slow_reference)
{
    static const char *const name[] = {"resnet8", "resnet18", "resnet50"};
    for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++) {
        struct err err = {0};
        struct model *model = network_build(name[i], 64, 16, &err);
        const struct device_run_job job = {
            .model = model, .batch = 1, .micro_batches = 1, .threads = 1, .blank = true};
        struct device_run run;
        open_run(&run, job, &device_dnnl_ops);
        for (int32_t k = 0; k < model->layer_count; k++) {
            const struct matrix *matrix = &run.state->place[k].matrix;
            assert_compiled(&model->layer[k], &matrix->forward);
            assert_compiled(&model->layer[k], &matrix->data);
            assert_compiled(&model->layer[k], &matrix->filter);
        }
        device_run_close(&run);
        model_free(model);
    }
}

/* What is told without allocating is what open() then takes; inner headers say what that is. */
static void assert_workspace(const struct model *model, enum dtype compute, int32_t micro_batches,
                             int32_t threads)
{
    const struct device_run_job job = {.model = model,
                                       .batch = 8,
                                       .micro_batches = micro_batches,
                                       .threads = threads,
                                       .compute = compute};
    CLOSED(device_run) run;
    struct err err = {0};
    int64_t told = -1;
    open_run(&run, job, &device_dnnl_ops);
    struct device_job asked = {.model = model,
                               .scenario = &run.scenario,
                               .batch = job.batch,
                               .micro_batches = micro_batches,
                               .slots = 1,
                               .ranks = 1,
                               .threads = threads};
    assert_int_equal(device_dnnl_ops.workspace(&asked, &told, &err), 0);
    assert_int_equal(told, run.state->workspace);
    assert_true(told >= (int64_t)run.state->engine.scratch_size);
    assert_true(told < run.state->engine.bytes);
}

TEST(the_workspace_is_told_beforehand)
{
    bool narrow = runs_bf16();
    for (uint64_t seed = 0; random_seed(&seed, NETWORKS);) {
        OWN(model) *model = random_network(seed);
        assert_workspace(model, DTYPE_FP32, seed % 4 == 0 ? 2 : 1, 1 + (int32_t)(seed % 2));
        if (narrow)
            assert_workspace(model, DTYPE_BF16, 1, 1);
    }
    struct err err = {0};
    OWN(model) *model = network_build("resnet18", 64, 10, &err);
    assert_workspace(model, DTYPE_FP32, 1, 2); /* wide enough for Winograd's algorithm */
}

TEST(half_precision_is_refused_with_a_way_out)
{
    for (int32_t i = 0; i < 2; i++) {
        struct err err = {0};
        struct scenario scenario = {.model.compute = i == 0 ? DTYPE_FP16 : DTYPE_BF16,
                                    .model.master = i == 0 ? DTYPE_FP32 : DTYPE_BF16};
        struct device_job job = {.scenario = &scenario};
        struct device_state *opened;
        assert_int_equal(device_dnnl_ops.open(&opened, &job, &err), -1);
        assert_int_equal(strstr(err.text, "--device cuda") != NULL, i == 0);
        assert_message(&err, 69, "--set model.precision.compute=fp32");
        int64_t bytes;
        assert_int_equal(device_dnnl_ops.workspace(&job, &bytes, &err), -1);
        assert_int_equal(err.exit_code, 69);
        err_release(&err);
    }
}
