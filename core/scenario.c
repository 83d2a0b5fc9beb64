#include "core/scenario.h"

#include <math.h>
#include <sha2.h>
#include <stdlib.h>
#include <string.h>

/* ---- checks of values against each other ---- */

/* Where the value at @path stands, or NULL when its default applied. */
static const struct origin *given(const struct node *root, const char *path)
{
    const struct node *node = field_origin(root, path);
    return node ? &node->origin : NULL;
}

static double total_epochs(const struct scenario *scenario)
{
    const struct scenario_phase *phase = scenario->training.phase.item;
    double epochs = 0;
    for (int32_t i = 0; i < scenario->training.phase.count; i++)
        epochs += phase[i].epochs;
    return epochs;
}

/* The grid of @devices places nearest to a square, @columns wide if that divides. */
static int64_t fitting_columns(int64_t devices, int64_t columns)
{
    if (devices % columns == 0)
        return columns;
    columns = (int64_t)sqrt((double)devices);
    while (devices % columns)
        columns--;
    return devices / columns;
}

static int check_devices(const struct scenario *scenario, const struct node *root, struct err *err)
{
    int64_t devices = scenario->cluster.nodes * scenario->cluster.devices_per_node;
    if (devices <= SCENARIO_DEVICE_LIMIT)
        return 0;
    return origin_error(given(root, "cluster.nodes"), err,
                        "%lld nodes with %lld devices each are more than %d devices",
                        (long long)scenario->cluster.nodes,
                        (long long)scenario->cluster.devices_per_node, SCENARIO_DEVICE_LIMIT);
}

/* The grid, or the side of it that an assignment changed. */
static const struct origin *grid_origin(const struct node *root)
{
    const char *const paths[] = {"allreduce.grid.columns", "allreduce.grid.rows"};
    for (int32_t i = 0; i < 2; i++) {
        const struct origin *side = given(root, paths[i]);
        if (side && side->line == 0)
            return side;
    }
    return given(root, "allreduce.grid");
}

/* Devices per node may come from the platform: then the fit is checked by whoever reads that. */
static int check_grid(const struct scenario *scenario, const struct node *root, struct err *err)
{
    const struct origin *origin = grid_origin(root);
    if (!origin)
        return 0;
    if (scenario->allreduce.algorithm != ALGORITHM_TORUS2D)
        return origin_error(origin, err, "a grid has no effect: only torus2d uses one, not %s",
                            algorithm_names[scenario->allreduce.algorithm]);
    int64_t columns = scenario->allreduce.columns, rows = scenario->allreduce.rows;
    if (columns == 0 || rows == 0)
        return origin_error(origin, err, "a grid needs both columns and rows");
    int64_t devices = scenario->cluster.nodes * scenario->cluster.devices_per_node;
    if (devices == 0 || devices > SCENARIO_DEVICE_LIMIT || columns * rows == devices)
        return 0;
    int64_t fitting = fitting_columns(devices, columns);
    return origin_error(origin, err,
                        "grid %lld x %lld has %lld places but there are %lld devices; "
                        "{columns: %lld, rows: %lld} would fit",
                        (long long)columns, (long long)rows, (long long)(columns * rows),
                        (long long)devices, (long long)fitting, (long long)(devices / fitting));
}

static int check_column_algorithm(const struct scenario *scenario, const struct node *root,
                                  struct err *err)
{
    const struct origin *origin = given(root, "allreduce.column_algorithm");
    if (!origin || scenario->allreduce.algorithm == ALGORITHM_TORUS2D)
        return 0;
    return origin_error(origin, err,
                        "a column algorithm has no effect: only torus2d has columns, not %s",
                        algorithm_names[scenario->allreduce.algorithm]);
}

static int check_phase(const struct scenario *scenario, int32_t index, const struct node *root,
                       struct err *err)
{
    int result = 0;
    const struct scenario_phase *phase =
        (const struct scenario_phase *)scenario->training.phase.item + index;
    char *epochs = base_format("training.phases.%d.epochs", index);
    char *batch = base_format("training.phases.%d.batch_per_device", index);
    if (phase->epochs <= 0)
        result = origin_error(given(root, epochs), err, "a phase lasts more than 0 epochs");
    int64_t devices = scenario->cluster.nodes * scenario->cluster.devices_per_node;
    int64_t images = phase->batch_per_device * devices;
    if (devices <= SCENARIO_DEVICE_LIMIT && images > scenario->training.train_images)
        result = origin_error(given(root, batch), err,
                              "a step would take %lld images, more than the %lld of an epoch",
                              (long long)images, (long long)scenario->training.train_images);
    free(epochs);
    free(batch);
    return result;
}

static int check_training(const struct scenario *scenario, const struct node *root, struct err *err)
{
    int result = 0;
    for (int32_t i = 0; i < scenario->training.phase.count; i++)
        result |= check_phase(scenario, i, root, err);
    double epochs = total_epochs(scenario);
    if (scenario->training.warmup_epochs > epochs)
        result =
            origin_error(given(root, "training.warmup_epochs"), err,
                         "the warm-up lasts longer than all phases together (%g epochs)", epochs);
    if (scenario->training.evaluate_every > epochs)
        result = origin_error(given(root, "training.evaluate_every"), err,
                              "no effect: all phases together last %g epochs", epochs);
    else if (scenario->training.evaluate_every > 0 && scenario->training.validation_images == 0)
        result = origin_error(given(root, "training.evaluate_every"), err,
                              "no effect: there are no validation images");
    if (scenario->training.momentum >= 1)
        result = origin_error(given(root, "training.optimizer.momentum"), err,
                              "momentum is less than 1");
    if (scenario->training.label_smoothing >= 1)
        result = origin_error(given(root, "training.label_smoothing"), err,
                              "label smoothing is less than 100 %%");
    return result;
}

/* What @path says matters only when @needed says something too. */
static int check_pair(bool set, bool needed_set, const char *path, const char *needed,
                      const struct node *root, struct err *err)
{
    const struct origin *origin = given(root, path);
    if (!set || needed_set || !origin)
        return 0;
    return origin_error(origin, err, "no effect without %s", needed);
}

static int check_noise(const struct scenario *scenario, const struct node *root, struct err *err)
{
    bool fraction = scenario->noise.straggler_fraction > 0;
    bool slowdown = scenario->noise.straggler_slowdown > 0;
    return check_pair(fraction, slowdown, "noise.straggler.fraction", "noise.straggler.slowdown",
                      root, err) |
           check_pair(slowdown, fraction, "noise.straggler.slowdown", "noise.straggler.fraction",
                      root, err);
}

static int check_input(const struct scenario *scenario, const struct node *root, struct err *err)
{
    bool workers = scenario->input.workers > 0, rate = scenario->input.rate > 0;
    return check_pair(workers, rate, "input.workers", "input.rate", root, err) |
           check_pair(rate, workers, "input.rate", "input.workers", root, err) |
           check_pair(true, workers, "input.prefetch", "input.workers", root, err);
}

static int check_values(const struct scenario *scenario, const struct node *root, struct err *err)
{
    return check_devices(scenario, root, err) | check_grid(scenario, root, err) |
           check_column_algorithm(scenario, root, err) | check_training(scenario, root, err) |
           check_noise(scenario, root, err) | check_input(scenario, root, err);
}

/* ---- reading ---- */

/* ILSVRC2012, the classification task.  Source: Russakovsky et al. 2015, arXiv 1409.0575, table 2.
 */
static void resolve_dataset(struct scenario *scenario)
{
    if (!scenario->training.dataset)
        return;
    scenario->training.train_images = 1281167;
    scenario->training.validation_images = 50000;
}

/* Takes over @document, which may be NULL.  With @explained, append where each value comes from. */
static int read_document(struct scenario *scenario, struct document *document, const char *path,
                         struct text *explained, struct err *err)
{
    if (!document)
        return -1;
    struct scenario result = {.path = base_copy(path)};
    const char *source = yaml_source(document);
    SHA256Data((const uint8_t *)source, strlen(source), result.sha256);
    const struct node *root = yaml_root(document);
    int failed = field_read(&scenario_table, root, &result, err);
    resolve_dataset(&result);
    if (!failed)
        failed = check_values(&result, root, err);
    if (!failed && explained)
        field_explain(explained, &scenario_table, root, &result);
    result.document = document;
    if (failed)
        scenario_release(&result);
    else
        *scenario = result;
    return failed;
}

static struct document *read_with_assignments(const char *path, const char *const *set,
                                              int32_t set_count, struct err *err)
{
    struct document *document = yaml_read_file(path, err);
    if (!document)
        return NULL;
    int failed = 0;
    for (int32_t i = 0; i < set_count; i++)
        failed |= yaml_set(document, set[i], err);
    if (!failed)
        return document;
    yaml_free(document);
    return NULL;
}

int scenario_read(struct scenario *scenario, const char *path, const char *const *set,
                  int32_t set_count, struct err *err)
{
    return read_document(scenario, read_with_assignments(path, set, set_count, err), path, NULL,
                         err);
}

int scenario_read_text(struct scenario *scenario, const char *name, const char *text,
                       struct err *err)
{
    return read_document(scenario, yaml_read_text(name, text, err), name, NULL, err);
}

int scenario_explain(struct text *out, const char *path, const char *const *set, int32_t set_count,
                     struct err *err)
{
    struct scenario scenario;
    if (read_document(&scenario, read_with_assignments(path, set, set_count, err), path, out, err))
        return -1;
    scenario_release(&scenario);
    return 0;
}

int scenario_blame(const struct scenario *scenario, const char *key, struct err *found,
                   struct err *err)
{
    const struct node *node = field_origin(yaml_root(scenario->document), key);
    int32_t length = (int32_t)strlen(found->text);
    length -= length > 0 && found->text[length - 1] == '\n';
    if (node && found->count == 1 && !memchr(found->text, '\n', (size_t)length))
        origin_error(&node->origin, err, "%.*s", length, found->text);
    else
        err_add(err, "%.*s", length, found->text);
    if (err->count == 1)
        err->exit_code = found->exit_code;
    err_release(found);
    return -1;
}

void scenario_release(struct scenario *scenario)
{
    field_release(&scenario_table, scenario);
    yaml_free(scenario->document);
    free(scenario->path);
    *scenario = (struct scenario){0};
}
