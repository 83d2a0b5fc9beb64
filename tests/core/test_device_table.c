/** @file
 * Tests of core/platform/device_table.h: what was measured goes before the roofline, exactly where
 * it was measured and monotonely between; classes come next; a file that contradicts itself is
 * refused.
 */

#include "core/platform/device_table.h"

#include "core/backend/cost.h"
#include "core/schedule/iteration.h"
#include "models/networks.h"
#include "tests/core/own.h"
#include "tests/folder.h"
#include "tests/test.h"

#define assert_same(value, expected) assert_relative(value, expected, 1e-9)

#define HEAD                                                                                       \
    "name: test\ndescription: a device\n"                                                          \
    "peak:\n  fp32: {value: 100 GFLOP/s, source: s, kind: measured}\n"                             \
    "memory_bandwidth: {value: 10 GB/s, source: s, kind: measured}\n"                              \
    "memory: {value: 1 GB, source: s, kind: assumed}\n"                                            \
    "math_efficiency: {value: 50 %, source: s, kind: measured}\n"                                  \
    "memory_efficiency: {value: 80 %, source: s, kind: measured}\n"                                \
    "kernel_overhead: {value: 10 us, source: s, kind: measured}\n"                                 \
    "fusion: bn-relu\n"
#define ROW(amount, time)                                                                          \
    "    - {op: forward, shape: \"a shape\", dtype: fp32, amount: " amount ", time: " time "}\n"
#define CLASS                                                                                      \
    "  - {op: forward, layer: convolution, dtype: fp32, efficiency: {value: 25 %, source: s, "     \
    "kind: measured}}\n"
#define MEASURED "measured:\n  source: me\n  threads: 1\n  steps:\n"

/* The device with that text; -1 with messages in err. */
static int read_text(struct device *device, const char *text)
{
    AUTOFREE char *path = fixture_yaml(text);
    *device = (struct device){0};
    int failed = device_read(device, path, &err);
    unlink(path);
    return failed;
}

static struct device device_of(const char *text)
{
    struct device device;
    assert_ok(!read_text(&device, text), err);
    return device;
}

/* A forward convolution of @flops on a shape, of which nothing is in memory. */
static struct step step_of(const char *shape, int64_t amount, int64_t flops)
{
    struct step step = {.kind = STEP_COMPUTE,
                        .compute = {.op = COMPUTE_FORWARD,
                                    .layer_op = LAYER_CONVOLUTION,
                                    .dtype = DTYPE_FP32,
                                    .kernels = 1,
                                    .flops = flops,
                                    .shape = shape,
                                    .amount = amount}};
    return step;
}

static double seconds(const struct device *device, const char *shape, int64_t amount, int64_t flops)
{
    struct step step = step_of(shape, amount, flops);
    return cost_compute(device, &step);
}

TEST(takes_what_was_measured)
{
    HELD(device) device = device_of(HEAD MEASURED ROW("8", "1 ms") ROW("32", "3 ms"));
    assert_same(seconds(&device, "a shape", 8, 1), 1e-3);
    assert_same(seconds(&device, "a shape", 32, 1000000000), 3e-3);
    struct step exchanged = step_of("a shape", 8, 1);
    exchanged.compute.exchanges = 2;
    assert_same(cost_compute(&device, &exchanged), 1e-3 + 2 * COST_NORM_EXCHANGE);
}

TEST(follows_straight_lines_between_and_beyond)
{
    HELD(device) device = device_of(HEAD MEASURED ROW("32", "3 ms") ROW("8", "1 ms"));
    assert_same(seconds(&device, "a shape", 20, 1), 2e-3);
    assert_same(seconds(&device, "a shape", 4, 1), (1e-3 + 10e-6) / 2);
    assert_same(seconds(&device, "a shape", 64, 1), 6e-3 - 10e-6);
}

TEST(more_work_never_takes_less)
{
    HELD(device)
    device = device_of(HEAD MEASURED ROW("8", "1 us") ROW("16", "2 ms") ROW("32", "2 ms"));
    double before = 0;
    for (int64_t amount = 1; amount < 100; amount++) {
        double now = seconds(&device, "a shape", amount, 1);
        assert_true(now >= before);
        before = now;
    }
}

TEST(other_shapes_take_the_roofline_of_their_class)
{
    HELD(device) device = device_of(HEAD "classes:\n" CLASS MEASURED ROW("8", "1 ms"));
    assert_same(seconds(&device, "another", 8, 100000000), 10e-6 + 1e-3 / 0.25);
    struct step backward = step_of("a shape", 8, 100000000);
    backward.compute.op = COMPUTE_BACKWARD_DATA;
    assert_same(cost_compute(&device, &backward), 10e-6 + 1e-3 / 0.5);
    backward = step_of("a shape", 8, 100000000);
    backward.compute.dtype = DTYPE_FP16;
    assert_true(device_measured(&device, &backward) < 0);
}

TEST(a_file_that_contradicts_itself_is_refused)
{
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {HEAD MEASURED ROW("8", "1 ms") ROW("8", "1 ms"), "are given twice"},
        {HEAD MEASURED ROW("8", "2 ms") ROW("16", "1 ms"), "takes less time"},
        {HEAD "classes:\n" CLASS CLASS, "are given twice"},
        {HEAD "other_networks: 30 %\n", "'other_networks' has no effect without 'measured.steps'"},
        {HEAD MEASURED ROW("0", "1 ms"), "out of range"},
        {HEAD "measured: {thread: 1}\n", "did you mean 'threads'"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct device device;
        assert_int_equal(read_text(&device, wrong[i].text), -1);
        assert_has(err.text, ".yaml:"); /* where */
        assert_message(&err, 65, wrong[i].message);
    }
}

/* What is looked up by shape must tell apart what costs differently. */
TEST(equal_shapes_have_equal_work)
{
    for (const char *const *name = network_names; *name; name++) {
        OWN(model) *model = network_of(*name, 64, 10);
        char a[64], b[64];
        for (int32_t i = 0; i < model->layer_count; i++) {
            layer_describe(&model->layer[i], a, sizeof(a));
            assert_true(strlen(a) < sizeof(a) - 1);
            for (int32_t k = 0; k < i; k++) {
                layer_describe(&model->layer[k], b, sizeof(b));
                if (strcmp(a, b) != 0)
                    continue;
                for (enum pass pass = 0; pass < PASS_COUNT; pass++) {
                    assert_int_equal(layer_flops(&model->layer[i], pass),
                                     layer_flops(&model->layer[k], pass));
                    assert_int_equal(layer_kernels(&model->layer[i], pass, FUSION_BN_RELU),
                                     layer_kernels(&model->layer[k], pass, FUSION_BN_RELU));
                }
            }
        }
    }
}

TEST(every_step_says_its_shape_and_amount)
{
    struct scenario scenario = {0};
    OWN(model) *model = network_of("resnet20", 32, 10);
    struct iteration iteration = {.model = model,
                                  .scenario = &scenario,
                                  .fusion = FUSION_BN_RELU,
                                  .grid = {1, 1},
                                  .devices_per_node = 1,
                                  .batch = 24,
                                  .micro_batch = 8};
    OWN(schedule) *schedule = iteration_build(&iteration);
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        if (step->kind != STEP_COMPUTE)
            continue;
        assert_true(*step->compute.shape);
        assert_int_equal(step->compute.amount,
                         step->compute.op == COMPUTE_OPTIMIZER ? model_parameters(model) : 8);
    }
}
