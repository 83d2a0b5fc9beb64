#include "core/scenario/phase.h"

/* Epochs are written with few decimals: 45.1 * 1000 images must not become one step more because
 * the product is not exact. */
static int64_t whole_steps(double epochs, int64_t images, int64_t batch)
{
    double steps = epochs * (double)images / (double)batch;
    return (int64_t)ceil(steps * (1 - 1e-12));
}

int64_t phase_passes(const struct scenario *scenario)
{
    return scenario->training.accumulate > 0 ? scenario->training.accumulate : 1;
}

int64_t phase_multiple(const struct scenario *scenario, int64_t images)
{
    int64_t micro = scenario->training.micro_batch;
    return micro > 0 && micro < images ? micro : phase_passes(scenario);
}

int64_t phase_batch(const struct scenario *scenario, const struct scenario_phase *phase,
                    int64_t devices)
{
    if (!phase->global_batch)
        return phase->batch_per_device * phase_passes(scenario);
    int64_t most = (phase->global_batch + devices - 1) / devices;
    int64_t each = phase_multiple(scenario, most);
    int64_t rest = phase->round == ROUND_UP ? devices * each - 1 : 0;
    return (phase->global_batch + rest) / (devices * each) * each;
}

int64_t phase_micro_batch(const struct scenario *scenario, int64_t images)
{
    int64_t micro = scenario->training.micro_batch, passes = phase_passes(scenario);
    while (passes < images && images % passes)
        passes++;
    if (passes > 1)
        return passes < images ? images / passes : 1;
    return micro > 0 && micro < images ? micro : images;
}

/* ---- to a target ---- */

static const struct phase *last_of(const struct plan *plan)
{
    return &plan->phase[plan->phase_count - 1];
}

static double needed(const struct phase *phase, double deviations)
{
    return fmax(1, phase->need.epochs + deviations * phase->need.spread);
}

double plan_progress(const struct plan *plan, double deviations)
{
    double progress = 0;
    for (const struct phase *phase = plan->phase; phase < last_of(plan); phase++)
        progress += phase->epochs / needed(phase, deviations);
    return progress;
}

/* Of all phases, when each turns out @deviations longer. */
static double schedule_length(const struct plan *plan, double deviations)
{
    double before = 0;
    for (const struct phase *phase = plan->phase; phase < last_of(plan); phase++)
        before += phase->epochs;
    double left = fmax(0, 1 - plan_progress(plan, deviations));
    return before + left * needed(last_of(plan), deviations);
}

double plan_end(const struct plan *plan, double every, double deviations, double uniform)
{
    return convergence_end(schedule_length(plan, deviations), every, uniform);
}

int64_t plan_evaluations(double epochs, double every)
{
    return (int64_t)ceil(epochs / every * (1 - 1e-12));
}

/* The last phase is as long as expected. */
static void reach_target(struct plan *plan, const struct scenario *scenario)
{
    struct convergence curve = scenario_convergence(scenario);
    double every = scenario->training.evaluate_every, before = plan->epochs;
    struct phase *last = &plan->phase[plan->phase_count - 1];
    for (int32_t i = 0; i < plan->phase_count; i++)
        plan->phase[i].need = convergence_epochs(&curve, plan->phase[i].global_batch);
    plan->epochs = schedule_length(plan, 0) + every * CONVERGENCE_EXTRA;
    plan->evaluations = plan_evaluations(plan->epochs, every);
    last->epochs = plan->epochs - before;
    last->steps = whole_steps(last->epochs, scenario->training.train_images, last->global_batch);
}

struct plan plan_build(const struct scenario *scenario, int64_t devices)
{
    const struct scenario_phase *wanted = scenario->training.phase.item;
    struct plan plan = {.phase_count = scenario->training.phase.count};
    plan.phase = base_alloc(plan.phase_count, sizeof(*plan.phase));
    for (int32_t i = 0; i < plan.phase_count; i++) {
        int64_t own =
            wanted[i].nodes ? devices / scenario->cluster.nodes * wanted[i].nodes : devices;
        int64_t replicas = own / scenario_parts(scenario);
        int64_t batch = phase_batch(scenario, &wanted[i], replicas), global = batch * replicas;
        plan.phase[i] = (struct phase){
            .epochs = wanted[i].epochs,
            .devices = own,
            .batch_per_device = batch,
            .global_batch = global,
            .micro_batch = phase_micro_batch(scenario, batch),
            .steps = whole_steps(wanted[i].epochs, scenario->training.train_images, global)};
        plan.epochs += wanted[i].epochs;
    }
    if (scenario->training.target > 0)
        reach_target(&plan, scenario);
    else if (scenario->training.evaluate_every > 0)
        plan.evaluations =
            (int64_t)floor(plan.epochs / scenario->training.evaluate_every * (1 + 1e-12));
    return plan;
}

RELEASE(plan, it->phase)
