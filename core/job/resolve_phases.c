#include "core/job/resolving.h"

#include <stdlib.h>

/* ---- nodes ---- */

/* A phase with nodes of its own keeps the columns of a grid that is given. */
static struct extent phase_extent(struct question *q, const struct resolved *resolved,
                                  int32_t index)
{
    const struct scenario_phase *phase =
        (const struct scenario_phase *)q->scenario->training.phase.item + index;
    struct extent extent = resolved->cluster;
    if (!phase->nodes)
        return extent;
    AUTOFREE char *key = base_format("training.phases.%d.nodes", index);
    int64_t devices = phase->nodes * extent.devices_per_node;
    extent.nodes = (int32_t)phase->nodes;
    if (q->wish->real)
        blame(q, EXIT_UNAVAILABLE, key,
              "phases with nodes of their own are for predictions: a training run keeps its ranks; "
              "train the phases one after the other, each from the checkpoint of the one before");
    else if (devices > SCENARIO_DEVICE_LIMIT)
        blame(q, EXIT_DATA, key, "%lld devices are more than %d", (long long)devices,
              SCENARIO_DEVICE_LIMIT);
    else if (!q->scenario->allreduce.columns)
        extent.grid = choose_grid(q, resolved, extent).grid;
    else if (devices % q->scenario->allreduce.columns)
        blame(q, EXIT_DATA, key, "its %lld devices do not fill %lld columns of the grid",
              (long long)devices, (long long)q->scenario->allreduce.columns);
    else
        extent.grid = fitting_grid((int32_t)devices, q->scenario->allreduce.columns);
    struct err found = {0};
    if (!q->faults && platform_check_extent(q->platform, extent.nodes, extent.devices_per_node,
                                            extent.grid, &found))
        blame_found(q, key, &found);
    return extent;
}

void resolving_find_phases(struct question *q, struct resolved *resolved)
{
    int32_t count = q->scenario->training.phase.count;
    resolved->phase = base_alloc(count, sizeof(*resolved->phase));
    for (int32_t i = 0; i < count; i++)
        resolved->phase[i] = phase_extent(q, resolved, i);
}

/* ---- batches ---- */

static void refuse_uneven(struct question *q, const char *key, int64_t batch, int64_t devices)
{
    int64_t below = batch / devices * devices, above = below + devices;
    if (below == 0)
        blame(q, ranks_code(q), key,
              "%lld images are fewer than the %lld devices; use at least %lld", (long long)batch,
              (long long)devices, (long long)above);
    else
        blame(q, ranks_code(q), key,
              "%lld images cannot be divided evenly among %lld devices; round: down beside it "
              "trains %lld, round: up %lld",
              (long long)batch, (long long)devices, (long long)below, (long long)above);
}

static void check_phase(struct question *q, int32_t index, int64_t devices)
{
    const struct scenario *s = q->scenario;
    const struct scenario_phase *phase =
        (const struct scenario_phase *)s->training.phase.item + index;
    AUTOFREE char *key = base_format("training.phases.%d.%s", index,
                                     phase->global_batch ? "global_batch" : "batch_per_device");
    int64_t batch = phase_batch(phase, devices), micro = s->training.micro_batch;
    int64_t layers = q->model->layer_count, most = RESOLVED_PASSES_MOST / layers;
    if (phase->global_batch && phase->round == ROUND_EXACT && phase->global_batch % devices)
        refuse_uneven(q, key, phase->global_batch, devices);
    else if (batch == 0)
        refuse_uneven(q, key, phase->global_batch, devices);
    else if (batch * devices > s->training.train_images)
        blame(q, phase->global_batch ? EXIT_DATA : ranks_code(q), key,
              "a step would take %lld images, more than the %lld of an epoch",
              (long long)(batch * devices), (long long)s->training.train_images);
    else if (micro > 0 && batch > micro && batch % micro)
        blame(q, EXIT_DATA, key,
              "%lld images per device are no multiple of training.micro_batch: %lld",
              (long long)batch, (long long)micro);
    else if (phase_micro_batch(s, batch) * most < batch)
        blame(q, EXIT_DATA, "training.micro_batch",
              "%lld images per device in parts of %lld are more than %lld parts, of %lld layers "
              "each; use parts of at least %lld",
              (long long)batch, (long long)micro, (long long)most, (long long)layers,
              (long long)((batch - 1) / most + 1));
}

/* What is done every so many epochs is done between two steps. */
static void check_interval(struct question *q, const char *key, double epochs,
                           const struct resolved *resolved)
{
    const struct scenario_phase *phase = q->scenario->training.phase.item;
    int64_t images = 0;
    for (int32_t i = 0; i < q->scenario->training.phase.count; i++) {
        int64_t devices = extent_devices(resolved->phase[i]);
        int64_t global = phase_batch(&phase[i], devices) * devices;
        images = global > images ? global : images;
    }
    double step = (double)images / (double)q->scenario->training.train_images;
    if (epochs > 0 && epochs < step * (1 - 1e-9))
        blame(q, EXIT_DATA, key, "%g epochs are less than one step, which takes %.6g epochs",
              epochs, step);
}

/* ---- the target ---- */

/* Batches are those of published runs, and the last phase has a part in it. */
static void check_target(struct question *q, int64_t devices)
{
    const struct scenario *s = q->scenario;
    if (s->training.target > 0 && q->wish->real)
        blame(q, EXIT_UNAVAILABLE, "training.target",
              "a target is for predictions; to train, give the last phase's epochs in its place: "
              "'foretrain predict' says how many it takes");
    if (!(s->training.target > 0) || q->faults)
        return;
    struct convergence curve = scenario_convergence(s);
    AUTORELEASE(plan) struct plan plan = plan_build(s, devices);
    for (int32_t i = 0; i < plan.phase_count && !s->training.extrapolate; i++) {
        const struct phase *phase = &plan.phase[i];
        bool given = ((const struct scenario_phase *)s->training.phase.item)[i].global_batch;
        AUTOFREE char *key =
            base_format("training.phases.%d.%s", i, given ? "global_batch" : "batch_per_device");
        if (convergence_is_outside(&curve, phase->global_batch))
            blame(q, ranks_code(q), key,
                  "%lld images a step are outside of what the recipe knows, %lld to %lld; to go "
                  "on by E0 (1 + B / Bc): training.extrapolate: true",
                  (long long)phase->global_batch, (long long)curve.point[0].batch,
                  (long long)curve.point[curve.count - 1].batch);
    }
    if (plan_progress(&plan, 0) >= 1)
        blame(q, EXIT_DATA, "training.target",
              "the phases before the last one already reach the target: %.0f %% of the way",
              100 * plan_progress(&plan, 0));
}

/* ---- memory ---- */

int64_t resolved_fitting_part(int64_t batch, int64_t most)
{
    int64_t parts = (batch - 1) / most + 1;
    while (batch % parts)
        parts++;
    return batch / parts;
}

static void check_memory(struct question *q, int32_t index, int64_t devices, int64_t most)
{
    const struct scenario *s = q->scenario;
    const struct device *device = platform_device(q->platform);
    const struct scenario_phase *phase =
        (const struct scenario_phase *)s->training.phase.item + index;
    int64_t batch = phase_batch(phase, devices), micro = phase_micro_batch(s, batch);
    if (q->faults || micro <= most)
        return;
    AUTOFREE char *key = base_format("training.phases.%d.%s", index,
                                     phase->global_batch ? "global_batch" : "batch_per_device");
    int64_t part = most ? resolved_fitting_part(batch, most) : 0;
    AUTOFREE char *parts =
        4 * part < most ? base_copy("")
                        : base_format("; in parts: training.micro_batch=%lld", (long long)part);
    if (most == 0)
        blame(q, EXIT_DATA, key,
              "%s does not fit the %s of %s, even with one image; to predict all the same: "
              "--ignore-memory",
              q->model->name, unit_text(UNIT_BYTES, device->memory.value), device->name);
    else
        blame(q, EXIT_DATA, key,
              "%lld images at once do not fit the %s of %s, at most %lld do%s; all the same: "
              "--ignore-memory",
              (long long)micro, unit_text(UNIT_BYTES, device->memory.value), device->name,
              (long long)most, parts);
}

/* ---- all phases ---- */

void resolving_check_phases(struct question *q, const struct resolved *resolved)
{
    for (int32_t i = 0; i < q->scenario->training.phase.count; i++)
        check_phase(q, i, extent_devices(resolved->phase[i]));
    check_interval(q, "training.evaluate_every", q->scenario->training.evaluate_every, resolved);
    check_interval(q, "training.checkpoint.every", q->scenario->training.checkpoint.every,
                   resolved);
    check_target(q, extent_devices(resolved->cluster));
}

void resolving_check_memory(struct question *q, const struct resolved *resolved)
{
    for (int32_t i = 0; i < q->scenario->training.phase.count; i++)
        check_memory(q, i, extent_devices(resolved->phase[i]), resolved->most_images);
}
