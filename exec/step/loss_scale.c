#include "exec/step/loss_scale.h"

#include <math.h>

struct loss_scale loss_scale_init(const struct scenario *scenario)
{
    return (struct loss_scale){.value = scenario->training.loss_scale.initial};
}

static bool may_recover(const struct scenario *scenario)
{
    return scenario->training.loss_scale.dynamic || scenario->model.compute != DTYPE_FP32 ||
           scenario->model.gradients != DTYPE_FP32;
}

static int skip(struct loss_scale *loss_scale, const struct scenario *scenario)
{
    loss_scale->skipped++;
    loss_scale->in_a_row++;
    loss_scale->good_steps = 0;
    if (scenario->training.loss_scale.dynamic)
        loss_scale->value = fmax(loss_scale->value / 2, SCENARIO_LOSS_SCALE_LEAST);
    return may_recover(scenario) && loss_scale->in_a_row < LOSS_SCALE_SKIP_LIMIT ? 0 : -1;
}

int loss_scale_update(struct loss_scale *loss_scale, bool overflow, const struct scenario *scenario)
{
    bool dynamic = scenario->training.loss_scale.dynamic;
    if (overflow)
        return skip(loss_scale, scenario);
    loss_scale->in_a_row = 0;
    loss_scale->good_steps++;
    if (dynamic && loss_scale->good_steps >= scenario->training.loss_scale.interval) {
        loss_scale->value = fmin(loss_scale->value * 2, SCENARIO_LOSS_SCALE_MOST);
        loss_scale->good_steps = 0;
    }
    return 0;
}
