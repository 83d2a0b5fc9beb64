#include "core/backend/cost.h"

#include <assert.h>
#include <math.h>

#include "core/platform/device_table.h"

double cost_added(const struct device *device, const struct step *step)
{
    assert(step->kind == STEP_COMPUTE);
    double added = step->compute.exchanges * COST_NORM_EXCHANGE;
    if (step->compute.op == COMPUTE_OPTIMIZER && step->role != ROLE_NORMS) /* once */
        added += device->iteration_overhead.value;
    return added;
}

double cost_compute(const struct device *device, const struct step *step)
{
    double added = cost_added(device, step);
    double measured = device_measured(device, step);
    if (measured >= 0)
        return measured + added;
    const struct device_class *class = device_find_class(device, step);
    double of_peak = class ? class->efficiency.value : device->math_efficiency.value;
    double of_bandwidth = class ? class->efficiency.value : device->memory_efficiency.value;
    double rate = device->peak[step->compute.dtype].value * of_peak;
    double bandwidth = device->memory_bandwidth.value * of_bandwidth;
    double math = step->compute.flops > 0 ? (double)step->compute.flops / rate : 0.0;
    double memory = (double)step->compute.bytes / bandwidth;
    return step->compute.kernels * device->kernel_overhead.value + fmax(math, memory) + added;
}

double cost_input(const struct step *step, int64_t workers, double rate)
{
    assert(step->kind == STEP_INPUT);
    return workers > 0 ? step->input.images / ((double)workers * rate) : 0.0;
}
