#include "exec/step/rate.h"

/* The place of a step in its cycle. */
struct cycle_point {
    double epoch;  /* since the cycle began */
    double length; /* of the cycle without its collapse */
};

static struct cycle_point find_point(const struct scenario *scenario, const struct plan *plan,
                                     double epoch)
{
    double cycles = (double)scenario->training.learning_rate.cycles, cycle = plan->epochs / cycles;
    double number = fmin(floor(epoch / cycle * (1 + 1e-12)), cycles - 1);
    return (struct cycle_point){fmax(epoch - number * cycle, 0),
                                cycle - scenario->training.collapse.epochs};
}

static double milestone_factor(const struct scenario *scenario, double epoch)
{
    const struct field_list *list = &scenario->training.learning_rate.milestone;
    const struct scenario_milestone *milestone = list->item;
    double factor = 1;
    for (int32_t i = 0; i < list->count && milestone[i].epoch <= epoch * (1 + 1e-12); i++)
        factor = milestone[i].factor;
    return factor;
}

/* @done: progress from the end of the warm-up to the end, 0 ... 1. */
static double decay_factor(const struct scenario *scenario, double epoch, double done)
{
    double final = scenario->training.learning_rate.final;
    switch ((enum decay)scenario->training.learning_rate.decay) {
    case DECAY_STEP:
        return milestone_factor(scenario, epoch);
    case DECAY_POLYNOMIAL:
        return final + (1 - final) * pow(1 - done, scenario->training.learning_rate.power);
    case DECAY_COSINE:
        return final + (1 - final) * 0.5 * (1 + cos(M_PI * done));
    case DECAY_CONSTANT:
    case DECAY_COUNT:
        break;
    }
    return 1;
}

static struct rate collapse_rate(const struct scenario *scenario, double epoch)
{
    double left = fmax(1 - epoch / scenario->training.collapse.epochs, 0);
    return (struct rate){.learning_rate = scenario->training.collapse.learning_rate *
                                          pow(left, scenario->training.collapse.power),
                         .weight_decay = scenario->training.collapse.weight_decay,
                         .augment = scenario->training.collapse.augment};
}

struct rate rate_at(const struct scenario *scenario, const struct plan *plan, double epoch,
                    int64_t global_batch)
{
    struct cycle_point at = find_point(scenario, plan, epoch);
    if (scenario->training.collapse.epochs > 0 && at.epoch >= at.length * (1 - 1e-12))
        return collapse_rate(scenario, at.epoch - at.length);
    double warmup = scenario->training.warmup_epochs;
    double rate = scenario->training.learning_rate.base;
    if (scenario->training.learning_rate.base_batch)
        rate *= (double)global_batch / (double)scenario->training.learning_rate.base_batch;
    if (at.epoch < warmup)
        rate *= at.epoch / warmup;
    else
        rate *=
            decay_factor(scenario, at.epoch, fmin((at.epoch - warmup) / (at.length - warmup), 1));
    return (struct rate){.learning_rate = rate,
                         .weight_decay = scenario->training.weight_decay,
                         .augment = scenario->training.data.augment};
}
