#include "core/backend/cost.h"

#include "tests/test.h"

#define assert_same(value, expected) assert_relative(value, expected, 1e-12)

static const struct device device = {
    .peak = {{.value = 10e12}, {.value = 100e12}, {.value = 50e12}},
    .memory_bandwidth = {.value = 1e12},
    .math_efficiency = {.value = 0.5},
    .memory_efficiency = {.value = 0.8},
    .kernel_overhead = {.value = 5e-6},
};

static struct step compute(int32_t kernels, int64_t flops, int64_t bytes)
{
    return (struct step){
        .kind = STEP_COMPUTE,
        .compute = {.dtype = DTYPE_FP16, .kernels = kernels, .flops = flops, .bytes = bytes},
    };
}

static double seconds(int32_t kernels, int64_t flops, int64_t bytes)
{
    struct step step = compute(kernels, flops, bytes);
    return cost_compute(&device, &step);
}

TEST(no_work_costs_only_overhead)
{
    assert_same(seconds(1, 0, 0), 5e-6);
    assert_same(seconds(3, 0, 0), 15e-6);
    assert_true(seconds(0, 0, 0) == 0.0);
}

TEST(an_iteration_pays_its_overhead_once_with_its_optimizer)
{
    struct device longer = device;
    longer.iteration_overhead.value = 30e-6;
    struct step step = compute(1, 0, 0);
    assert_same(cost_compute(&longer, &step), 5e-6);
    step.compute.op = COMPUTE_OPTIMIZER;
    step.role = ROLE_OPTIMIZER;
    assert_same(cost_compute(&longer, &step), 35e-6);
}

TEST(the_slower_of_math_and_memory_decides)
{
    assert_same(seconds(1, 50000000000, 0), 5e-6 + 1e-3);
    assert_same(seconds(1, 0, 800000000), 5e-6 + 1e-3);
    assert_same(seconds(1, 50000000000, 1600000000), 5e-6 + 2e-3);
    assert_same(seconds(2, 100000000000, 800000000), 10e-6 + 2e-3);
}

TEST(the_peak_is_that_of_the_number_format)
{
    struct step step = compute(0, 5000000000, 0);
    const double expected[] = {[DTYPE_FP32] = 1e-3, [DTYPE_FP16] = 1e-4, [DTYPE_BF16] = 2e-4};
    for (enum dtype d = 0; d < DTYPE_COUNT; d++) {
        step.compute.dtype = d;
        assert_same(cost_compute(&device, &step), expected[d]);
    }
}

/* 200 GFLOP at half of 400 TFLOP/s take 1 ms, as do 800 MB at 0.8 TB/s before them. */
TEST(narrow_products_have_a_peak_of_their_own_and_are_converted_before)
{
    struct device narrow = device;
    narrow.peak_products[PRODUCTS_FP8].value = 400e12;
    struct step step = compute(0, 200000000000, 800);
    step.compute.products = PRODUCTS_FP8;
    assert_same(cost_compute(&narrow, &step), 1e-3);
    step.compute.converted = 800000000;
    assert_same(cost_compute(&narrow, &step), 2e-3);
}

TEST(memory_traffic_needs_no_arithmetic_of_its_format)
{
    struct device plain = device;
    plain.peak[DTYPE_FP16].value = 0;
    struct step step = compute(1, 0, 800000000);
    assert_same(cost_compute(&plain, &step), 5e-6 + 1e-3);
}

/* A random step: kernels, flops and bytes over many orders of magnitude. */
static struct step random_step(uint64_t i)
{
    return compute((int32_t)(base_uniform(1, i, 0, 0) * 10),
                   INT64_C(1) << (int32_t)(base_uniform(1, i, 1, 0) * 45),
                   INT64_C(1) << (int32_t)(base_uniform(1, i, 2, 0) * 35));
}

TEST(more_work_never_takes_less_time)
{
    for (uint64_t i = 0; i < 1000; i++) {
        struct step step = random_step(i), more = step;
        more.compute.kernels += (int32_t)(base_uniform(2, i, 0, 0) * 3);
        more.compute.flops += (int64_t)(base_uniform(2, i, 1, 0) * 1e12);
        more.compute.bytes += (int64_t)(base_uniform(2, i, 2, 0) * 1e9);
        assert_true(cost_compute(&device, &more) >= cost_compute(&device, &step));
    }
}

TEST(a_slower_device_never_takes_less_time)
{
    struct device slower[] = {device, device, device, device, device};
    slower[0].peak[DTYPE_FP16].value *= 0.9;
    slower[1].memory_bandwidth.value *= 0.9;
    slower[2].math_efficiency.value *= 0.9;
    slower[3].memory_efficiency.value *= 0.9;
    slower[4].kernel_overhead.value *= 1.1;
    for (uint64_t i = 0; i < 1000; i++) {
        struct step step = random_step(i);
        for (size_t k = 0; k < sizeof(slower) / sizeof(slower[0]); k++)
            assert_true(cost_compute(&slower[k], &step) >= cost_compute(&device, &step));
    }
}

/* By hand, with the constants that experiments/04_gpu/products.py fits. */
TEST(a_matrix_product_is_as_fast_as_its_shape_allows)
{
    struct device rated = device;
    rated.rated = true;
    rated.sustained.value = 1;
    rated.multiprocessors = 100;
    rated.compute_capability = 90;
    rated.rate[DTYPE_FP16][KERNEL_GEMM] = (struct kind_rate){1, 1};
    const struct {
        struct matrix_product product;
        int32_t capability;
        double part;
    } row[] = {
        {{0}, 90, 1},
        {{12800, 1280, 910, 8, 0}, 90, 0.91},
        {{12800, 1280, 910, 4, 0}, 90, 0.91 * 0.346},
        {{12800, 1280, 910, 2, 0}, 90, 0.91 * 0.346},
        {{12800, 1280, 910, 1, 0}, 90, 0.91 * 0.166},
        {{12800, 1280, 910, 1, 0}, 80, 0.91}, /* not measured */
        {{12801, 1280, 910, 8, 0}, 90, 0.91 * 12801 / 12928},
        {{128, 128, 910, 8, 0}, 90, 0.91 * 4 / (100 * 1.21)},
        {{128, 128, 409600, 8, 0}, 90, 409600.0 / 409690},
        {{12800, 1280, 910, 8, 840}, 90, 0.91 * 0.8},
    };
    for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
        struct step step = compute(0, 50000000000, 0);
        step.compute.product = row[i].product;
        rated.compute_capability = row[i].capability;
        assert_same(cost_compute(&rated, &step), 1e-3 / row[i].part);
    }
}

TEST(an_exchange_of_sums_costs_the_same_on_any_device)
{
    struct device fast = device;
    fast.memory_bandwidth.value *= 10;
    struct step step = compute(1, 0, 800000000);
    step.compute.exchanges = 3;
    assert_same(cost_compute(&device, &step), 5e-6 + 1e-3 + 3 * 3.4e-6);
    assert_same(cost_compute(&fast, &step), 5e-6 + 1e-4 + 3 * 3.4e-6);
}

TEST(input_is_shared_among_workers)
{
    struct step step = {.kind = STEP_INPUT, .input = {.images = 64}};
    assert_same(cost_input(&step, 1, 320.0), 0.2);
    assert_same(cost_input(&step, 8, 320.0), 0.025);
    assert_true(cost_input(&step, 0, 320.0) == 0.0);
    step.input.images = 0;
    assert_true(cost_input(&step, 8, 320.0) == 0.0);
}
