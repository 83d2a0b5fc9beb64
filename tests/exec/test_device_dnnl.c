#include "exec/cpu/dnnl/device_dnnl.h"
#include "exec/cpu/dnnl/device_dnnl_state.h"
#include "tests/core/own.h"
#include "tests/exec/device_compare.h"
#include "tests/exec/random_network.h"
#include "tests/test.h"

enum { NETWORKS = 6 };

/* ---- comparisons ---- */

static float *gradients_of(struct device_run *run)
{
    float *copy = base_alloc(run->layout.parameters, sizeof(*copy));
    return memcpy(copy, run->job.ops->gradients(run->state),
                  (size_t)run->layout.parameters * sizeof(*copy));
}

static struct device_run_job job_of(const struct model *model, int32_t micro_batches,
                                    int32_t threads)
{
    return (struct device_run_job){.ops = &device_dnnl_ops,
                                   .model = model,
                                   .batch = 8,
                                   .micro_batches = micro_batches,
                                   .threads = threads};
}

static void assert_trains(const struct model *model, uint64_t seed)
{
    const struct difference limit = {.loss = 1e-4,
                                     .norm = INFINITY,
                                     .gradient = INFINITY,
                                     .tensor = 1e-3,
                                     .parameter = 1e-4,
                                     .statistic = 1e-4,
                                     .score = 1e-3};
    struct difference jumped = limit;
    jumped.tensor = INFINITY;
    struct device_run_job job =
        job_of(model, seed > 0 && seed % 4 == 0 ? 2 : 1, 1 + (int32_t)(seed % 2));
    job.learning_rate = 0.01;
    job.seed = seed;
    device_compare(job, gradients_of, 1, &limit, &jumped);
}

TEST(random_networks_train_as_on_the_naive_device)
{
    for (uint64_t seed = 0; random_seed(&seed, NETWORKS);) {
        OWN(model) *model = random_network(seed);
        assert_trains(model, seed);
    }
}

TEST(known_networks_train_as_on_the_naive_device)
{
    static const char *const name[] = {"toy", "resnet8"};
    for (size_t i = 0; i < ARRAY_SIZE(name); i++) {
        OWN(model) *model = network_of(name[i], 16, 10);
        assert_trains(model, i);
    }
}

static bool runs_bf16(void)
{
    err_release(&err);
    CLOSED(device_run) run;
    OWN(model) *model = network_of("toy", 16, 4);
    struct device_run_job job = job_of(model, 1, 1);
    job.compute = DTYPE_BF16;
    return device_run_open(&run, &job, &err) == 0;
}

/* Rounding to 8 bits changes each factor by up to 0.2 %; a wrong operand changes the gradient by as
 * much as it is.  Batch norm's shifts keep most values away from ReLU's corner.  That there is a
 * difference shows that bf16 is used at all. */
TEST(bf16_is_fp32_up_to_rounding)
{
    if (!runs_bf16()) {
        print_message("this CPU has no instructions for bf16\n");
        skip();
    }
    const struct difference limit = {0.02,     INFINITY, 0.04,     INFINITY,
                                     INFINITY, INFINITY, INFINITY, 1e-4};
    struct difference jumped = limit;
    jumped.gradient = INFINITY;
    for (uint64_t seed = 0; random_seed(&seed, NETWORKS);) {
        OWN(model) *model = random_network(seed);
        struct device_run_job job = job_of(model, 1, 2);
        job.shift = 2;
        job.compute = DTYPE_BF16;
        job.seed = seed;
        device_compare(job, gradients_of, 1, &limit, &jumped);
    }
}

/* Of both kinds of masks, heads that share keys, and a last block that is shorter; in less memory.
 */
TEST(attention_by_blocks_is_that_of_all_scores)
{
    static const char *const name[] = {"transformer", "vit_b_16"};
    struct transformer keys[] = {
        {.layers = 2, .hidden = 32, .heads = 4, .kv_heads = 2, .vocab = 61, .sequence = 600},
        {.layers = 1}};
    for (size_t i = 0; i < ARRAY_SIZE(name); i++) {
        OWN(model) *model = network_open(NULL, name[i], i ? 272 : 1, 61, &keys[i], &err);
        assert_ok(model, err);
        struct device_run_job job = job_of(model, 2, 2);
        job.batch = 4;
        struct device_run run[2];
        double loss[2];
        for (int32_t k = 0; k < 2; k++) {
            job.attention = k ? ATTENTION_FLASH : ATTENTION_UNFUSED;
            device_open(&run[k], job);
            loss[k] = device_run_step(&run[k]).loss;
        }
        assert_true(fabs(loss[1] / loss[0] - 1) < 1e-6);
        const float *all = device_dnnl_ops.gradients(run[0].state),
                    *blocks = device_dnnl_ops.gradients(run[1].state);
        double square = 0, error = 0;
        for (int64_t p = 0; p < run[0].layout.parameters; p++) {
            square += (double)all[p] * (double)all[p];
            error += pow((double)all[p] - (double)blocks[p], 2);
        }
        assert_true(square > 0 && error < 1e-10 * square);
        assert_true(run[1].state->engine.bytes < run[0].state->engine.bytes / (i ? 1 : 2));
        device_run_close(&run[0]);
        device_run_close(&run[1]);
    }
}

/* Gradients, weights and statistics after two steps, bit for bit. */
TEST(the_same_threads_give_the_same_bits)
{
    OWN(model) *model = network_of("resnet8", 32, 10);
    struct device_run_job job = job_of(model, 2, 2);
    job.learning_rate = 0.1;
    struct device_run run[2];
    for (int32_t i = 0; i < 2; i++) {
        device_open(&run[i], job);
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
    for (size_t i = 0; i < ARRAY_SIZE(name); i++) {
        OWN(model) *model = network_of(name[i], 64, 16);
        struct device_run_job job = job_of(model, 1, 1);
        job.batch = 1;
        job.blank = true;
        CLOSED(device_run) run;
        device_open(&run, job);
        for (int32_t k = 0; k < model->layer_count; k++) {
            const struct matrix *matrix = &run.state->place[k].matrix;
            assert_compiled(&model->layer[k], &matrix->forward);
            assert_compiled(&model->layer[k], &matrix->data);
            assert_compiled(&model->layer[k], &matrix->filter);
        }
    }
}

/* What is told without allocating is what open() then takes; inner headers say what that is. */
static void assert_workspace(const struct model *model, enum dtype compute, int32_t micro_batches,
                             int32_t threads)
{
    struct device_run_job job = job_of(model, micro_batches, threads);
    job.compute = compute;
    CLOSED(device_run) run;
    int64_t told = -1;
    device_open(&run, job);
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
    told = run.state->engine.bytes;
    device_run_step(&run);
    assert_int_equal(run.state->engine.bytes, told); /* a step takes no more */
    for (int32_t i = 0; i < model->layer_count && run.state->narrow; i++)
        assert_true(!layer_is_dense(&model->layer[i]) || model->layer[i].weights_of ||
                    run.state->place[i].narrowed == run.state->cpu.version - 1);
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
    OWN(model) *model = network_of("resnet18", 64, 10);
    assert_workspace(model, DTYPE_FP32, 1, 2); /* wide enough for Winograd's algorithm */
    struct transformer keys = {.layers = 2, .hidden = 64, .heads = 2, .vocab = 61, .sequence = 24};
    OWN(model) *gpt = network_open(NULL, "transformer", 1, 61, &keys, &err);
    assert_ok(gpt, err);
    for (int32_t threads = 1; threads < 4; threads++)
        assert_workspace(gpt, narrow ? DTYPE_BF16 : DTYPE_FP32, threads % 2 + 1, threads);
}

TEST(half_precision_is_refused_with_a_way_out)
{
    for (int32_t i = 0; i < 2; i++) {
        struct scenario scenario = {.model.compute = i == 0 ? DTYPE_FP16 : DTYPE_BF16,
                                    .model.master = i == 0 ? DTYPE_FP32 : DTYPE_BF16};
        struct device_job job = {.scenario = &scenario};
        struct device_state *opened;
        assert_int_equal(device_dnnl_ops.open(&opened, &job, &err), -1);
        assert_int_equal(strstr(err.text, "--device cuda") != NULL, i == 0);
        assert_message(&err, 69, "--set model.precision.compute=fp32");
        int64_t bytes;
        assert_fails(device_dnnl_ops.workspace(&job, &bytes, &err), 69, "");
    }
}
