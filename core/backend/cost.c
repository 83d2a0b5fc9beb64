#include "core/backend/cost.h"

#include "core/platform/device_table.h"

double cost_added(const struct device *device, const struct step *step)
{
    assert(step->kind == STEP_COMPUTE);
    double added = step->compute.exchanges * COST_NORM_EXCHANGE;
    if (step->compute.op == COMPUTE_OPTIMIZER && step->role == ROLE_OPTIMIZER) /* once */
        added += device->iteration_overhead.value;
    return added;
}

/* Of the best matrix product over the data sheet's peak, where a device file does not say it: the
 * mean of A100 SXM and PCIe, H100, B200, MI300X and MI325X, which reach 51 to 87 %, of NVIDIA's
 * alone 81 to 87 %.  Source: ml-engineering/compute/accelerator (Bekman, 2024 to 2026), "maximum
 * achievable matmul FLOPS". */
#define USUAL_SUSTAINED 0.84

/* A matrix product reaches less than large ones: of few terms, of few results, and where rows do
 * not begin at multiples of 16 bytes.  Fitted by experiments/04_gpu/products.py to 107 products of
 * one H200, 183 of an A100 PCIe and 514 of a B200, with a rate for each device; residual deviations
 * 7, 8 and 14 %, where one rate leaves 55, 10 and 19 %.  Alignment was measured on the H200 alone;
 * of 8 bytes it is assumed to be that of 4. */
#define PRODUCT_TERMS 90.0
/* Products of several experts reach the part that the positions of one are of so many more: 160 on
 * an A100 PCIe (616 and 1232 positions), 265 to 290 on a B200 (128 to 1232; 2460 and more reach 93
 * %), beside large products of the same tables (SimuMax, a100_pcie.json, b200_bf16_ceperm.json). */
#define EXPERT_POSITIONS     210.0
#define PRODUCT_SMALL_TILES  1.21 /* work of a result in tiles of 64 x 64, over 128 x 128 */
#define PRODUCT_SHARED_TERMS 4096 /* sums of more terms are split among multiprocessors */
#define ALIGNED_TO_4         0.346
#define ALIGNED_TO_2         0.166
#define HOPPER               90

static double tiled_results(struct matrix_product by, double side, double busy)
{
    double tiles = ceil((double)by.rows / side) * ceil((double)by.columns / side);
    return fmax(tiles, busy) * side * side;
}

/* The part of the rate of large products that that of @step reaches; elements have @size bytes. */
static double product_part(const struct device *device, const struct step *step, int32_t size)
{
    struct matrix_product by = step->compute.product;
    if (by.terms == 0)
        return 1;
    double part = (double)by.terms / ((double)by.terms + PRODUCT_TERMS);
    double busy =
        (double)device->multiprocessors / fmax(1, (double)by.terms / PRODUCT_SHARED_TERMS);
    if (busy > 0)
        part *=
            (double)by.rows * (double)by.columns /
            fmin(tiled_results(by, 128, busy), PRODUCT_SMALL_TILES * tiled_results(by, 64, busy));
    if (by.each > 0)
        part *= (double)by.each / ((double)by.each + EXPERT_POSITIONS);
    int64_t aligned = by.aligned * size;
    if (aligned < 16 && device->compute_capability >= HOPPER)
        part *= aligned < 4 ? ALIGNED_TO_2 : ALIGNED_TO_4;
    return part;
}

/* The peak of @step's arithmetic [FLOP/s], of which the rate of its kind reaches a part.  Depthwise
 * convolutions have no matrix arithmetic. */
static double peak_of(const struct device *device, const struct step *step)
{
    enum kernel_kind kernel = step->compute.kernel;
    enum dtype dtype = step->compute.dtype;
    enum products products = step->compute.products;
    bool rounded = device->tf32[kernel] && device->peak_tf32.value > 0;
    double rate = device->rate[dtype][kernel].math;
    double peak = device_peak(device, dtype, products, kernel);
    if (rate == 0)
        return peak;
    if (kernel == KERNEL_DEPTHWISE || (dtype == DTYPE_FP32 && !rounded))
        return rate * device->peak[DTYPE_FP32].value;
    double sustained = device->sustained.value;
    if (products && device->sustained_fp8.value > 0)
        sustained = device->sustained_fp8.value;
    return rate * peak * (sustained > 0 ? sustained : USUAL_SUSTAINED) *
           product_part(device, step, products ? 1 : dtype_size(dtype));
}

/* What narrows a product's inputs moves bytes as other kernels of single values do [s]. */
static double converted(const struct device *device, const struct step *step)
{
    if (step->compute.converted == 0)
        return 0;
    const struct kind_rate *rate = &device->rate[step->compute.dtype][KERNEL_ELEMENTWISE];
    return (double)step->compute.converted /
           (device->memory_bandwidth.value * device->memory_efficiency.value *
            (device->rated ? rate->memory : 1));
}

/* The roofline's part of a STEP_COMPUTE that was not measured: neither overhead nor what is
 * added [s]. */
static double cost_roof(const struct device *device, const struct step *step)
{
    if (device->rated)
        return converted(device, step) +
               fmax((double)step->compute.flops /
                        (peak_of(device, step) * device->math_efficiency.value),
                    (double)step->compute.bytes /
                        (device->memory_bandwidth.value * device->memory_efficiency.value *
                         device->rate[step->compute.dtype][step->compute.kernel].memory));
    const struct device_class *class = device_find_class(device, step);
    double of_peak = class ? class->efficiency.value : device->math_efficiency.value;
    double of_bandwidth = class ? class->efficiency.value : device->memory_efficiency.value;
    double rate = peak_of(device, step) * of_peak;
    double bandwidth = device->memory_bandwidth.value * of_bandwidth;
    double math = step->compute.flops > 0 ? (double)step->compute.flops / rate : 0.0;
    return converted(device, step) + fmax(math, (double)step->compute.bytes / bandwidth);
}

double cost_compute(const struct device *device, const struct step *step)
{
    double added = cost_added(device, step);
    double measured = device_measured(device, step);
    if (measured >= 0)
        return measured + added;
    return step->compute.kernels * device->kernel_overhead.value + cost_roof(device, step) + added;
}

double cost_host(const struct device *device, const struct schedule *schedule)
{
    bool experts = device->experts_launch.value > 0 && schedule_has_experts(schedule);
    double launch = experts ? device->experts_launch.value : device->launch.value, kernels = 0;
    for (int32_t id = 0; launch > 0 && id < schedule->step_count; id++)
        if (schedule->step[id].kind == STEP_COMPUTE)
            kernels += (double)step_runs(&schedule->step[id]) * schedule->step[id].compute.kernels;
    return kernels * launch;
}

double cost_input(const struct step *step, int64_t workers, double rate)
{
    assert(step->kind == STEP_INPUT);
    return workers > 0 ? step->input.images / ((double)workers * rate) : 0.0;
}
