#include "core/scenario/phase.h"

#include <math.h>
#include <stdlib.h>

/* Epochs are written with few decimals: 45.1 * 1000 images must not become one step more because
 * the product is not exact. */
static int64_t whole_steps(double epochs, int64_t images, int64_t batch)
{
    double steps = epochs * (double)images / (double)batch;
    return (int64_t)ceil(steps * (1 - 1e-12));
}

int64_t phase_batch(const struct scenario_phase *phase, int64_t devices)
{
    if (!phase->global_batch)
        return phase->batch_per_device;
    int64_t rest = phase->round == ROUND_UP ? devices - 1 : 0;
    return (phase->global_batch + rest) / devices;
}

int64_t phase_micro_batch(const struct scenario *scenario, int64_t images)
{
    int64_t micro = scenario->training.micro_batch;
    return micro > 0 && micro < images ? micro : images;
}

struct plan plan_build(const struct scenario *scenario, int64_t devices)
{
    const struct scenario_phase *wanted = scenario->training.phase.item;
    struct plan plan = {.phase_count = scenario->training.phase.count};
    plan.phase = base_alloc(plan.phase_count, sizeof(*plan.phase));
    for (int32_t i = 0; i < plan.phase_count; i++) {
        int64_t batch = phase_batch(&wanted[i], devices), global = batch * devices;
        plan.phase[i] = (struct phase){
            .epochs = wanted[i].epochs,
            .batch_per_device = batch,
            .global_batch = global,
            .micro_batch = phase_micro_batch(scenario, batch),
            .steps = whole_steps(wanted[i].epochs, scenario->training.train_images, global)};
        plan.epochs += wanted[i].epochs;
    }
    if (scenario->training.evaluate_every > 0)
        plan.evaluations =
            (int64_t)floor(plan.epochs / scenario->training.evaluate_every * (1 + 1e-12));
    return plan;
}

void plan_release(struct plan *plan)
{
    free(plan->phase);
    *plan = (struct plan){0};
}
