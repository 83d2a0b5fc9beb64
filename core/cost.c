#include "core/cost.h"

#include <assert.h>
#include <math.h>

double cost_compute(const struct device *device, const struct step *step)
{
    assert(step->kind == STEP_COMPUTE);
    double rate = device->peak[step->compute.dtype].value * device->math_efficiency.value;
    double bandwidth = device->memory_bandwidth.value * device->memory_efficiency.value;
    double math = step->compute.flops > 0 ? (double)step->compute.flops / rate : 0.0;
    double memory = (double)step->compute.bytes / bandwidth;
    return step->compute.kernels * device->kernel_overhead.value + fmax(math, memory);
}

double cost_input(const struct step *step, int64_t workers, double rate)
{
    assert(step->kind == STEP_INPUT);
    return workers > 0 ? step->input.images / ((double)workers * rate) : 0.0;
}
