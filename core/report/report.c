#include "core/report/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "config.h"
#include "core/backend/floor.h"

int32_t report_bottleneck(const struct fabric *fabric, const struct schedule *schedule,
                          enum axis axis)
{
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        if (step->kind == STEP_COLLECTIVE && step->collective.axis == axis &&
            grid_axis_size(schedule->grid, axis) > 1)
            return floor_collective(fabric, schedule, id).tier;
    }
    return -1;
}

void result_add(char ***list, int32_t *count, char *text)
{
    *list = base_room(*list, *count, sizeof(**list));
    (*list)[(*count)++] = text;
}

/* The parts of a step are differences, which are rounded: @slack [s] below 0 is 0. */
static int check_number(const char *name, double value, double slack, struct err *err)
{
    if (isfinite(value) && value >= -slack)
        return 0;
    return err_add_code(err, 70,
                        "the prediction's %s came out as %g: please report this job as a fault of "
                        "foretrain",
                        name, value);
}

static int check_interval(const char *name, struct interval likely, struct err *err)
{
    if (isnan(likely.low) && isnan(likely.high))
        return 0;
    return check_number(name, likely.low, 0, err) ||
           check_number(name, likely.high - likely.low, 1e-9 * likely.high, err);
}

int result_check(const struct result *result, struct err *err)
{
    const struct breakdown *step = &result->step;
    double slack = 1e-9 * step->time;
    for (int32_t i = 0; i < result->plan.phase_count; i++)
        if (check_number("step of a phase", result->phase_step_time[i], 0, err) ||
            check_number("number of steps", (double)result->plan.phase[i].steps, 0, err))
            return -1;
    return check_number("step", step->time, 0, err) ||
                   check_number("compute", step->compute, slack, err) ||
                   check_number("compute beside collectives", step->slowed, slack, err) ||
                   check_number("wait for slower ranks", step->slower, slack, err) ||
                   check_number("exposed communication", step->exposed_communication, slack, err) ||
                   check_number("input wait", step->input_wait, slack, err) ||
                   check_number("rest of the step", step->other, slack, err) ||
                   check_number("throughput", result->images_per_s, 0, err) ||
                   check_number("scaling efficiency", result->weak.efficiency, 0, err) ||
                   check_number("strong scaling efficiency", result->strong.efficiency, 0, err) ||
                   check_number("evaluation", result->evaluation_s, 0, err) ||
                   check_number("time to train", result->time_to_train_s, 0, err) ||
                   check_interval("interval of the step", result->step_likely, err) ||
                   check_interval("interval of the throughput", result->images_likely, err) ||
                   check_interval("interval of the efficiency", result->weak.likely, err) ||
                   check_interval("interval of the time to train", result->train_likely, err)
               ? -1
               : 0;
}

static struct json *json_step(const struct result *result)
{
    const struct breakdown *step = &result->step;
    bool grid = result->grid.columns > 0;
    struct json *json = json_new_object();
    json_put_real(json, "time_s", step->time);
    json_put_real(json, "compute_s", step->compute);
    json_put_real(json, "exposed_communication_s", step->exposed_communication);
    json_put_real(json, "exposed_row_s", grid ? step->exposed_row : NAN);
    json_put_real(json, "exposed_column_s", grid ? step->exposed_column : NAN);
    json_put_real(json, "slowed_s", step->slowed);
    json_put_real(json, "slower_ranks_s", step->slower);
    json_put_real(json, "input_wait_s", step->input_wait);
    json_put_real(json, "other_s", step->other);
    return json;
}

static struct json *json_phases(const struct result *result)
{
    struct json *json = json_new_array();
    for (int32_t i = 0; i < result->plan.phase_count; i++) {
        const struct phase *phase = &result->plan.phase[i];
        struct json *item = json_append_object(json);
        json_put_real(item, "epochs", phase->epochs);
        json_put_integer(item, "batch_per_device", phase->batch_per_device);
        json_put_integer(item, "devices", phase->devices);
        json_put_integer(item, "global_batch", phase->global_batch);
        json_put_integer(item, "steps", phase->steps);
        json_put_real(item, "step_time_s", result->phase_step_time[i]);
    }
    return json;
}

static struct json *json_texts(char *const *text, int32_t count)
{
    struct json *json = json_new_array();
    for (int32_t i = 0; i < count; i++)
        json_append_text(json, text[i]);
    return json;
}

static void put_side(struct json *json, const char *key, int32_t size)
{
    json_put(json, key, size ? json_new_integer(size) : json_new_text(NULL));
}

static void put_setting(struct json *json, const struct result *result)
{
    AUTOFREE char *hash = base_format("%016" PRIx64, result->schedule_hash);
    AUTOFREE char *numbers = base_format("%016" PRIx64, result->platform_hash);
    json_put_text(json, "schema", "foretrain/result/1");
    json_put_text(json, "version", FORETRAIN_VERSION);
    json_put_text(json, "scenario_sha256", result->sha256);
    json_put_text(json, "schedule_hash", hash);
    json_put_text(json, "backend", result->backend);
    json_put_text(json, "grain", result->grain);
    json_put_text(json, "platform", result->platform);
    json_put_text(json, "platform_hash", numbers);
    json_put_integer(json, "nodes", result->nodes);
    json_put_integer(json, "devices", result->devices);
    struct json *grid = json_put_object(json, "grid");
    put_side(grid, "columns", result->grid.columns);
    put_side(grid, "rows", result->grid.rows);
}

static void put_interval(struct json *json, const char *key, struct interval likely)
{
    json_put_interval(json, key, likely.low, likely.high);
}

/* What a scenario that fixes the global batch asks for first. */
static const struct scaling *first_scaling(const struct result *result)
{
    return result->strong.batch ? &result->strong : &result->weak;
}

static struct json *json_baseline(const struct scaling *scaling)
{
    struct json *json = json_new_object();
    json_put_integer(json, "devices", scaling->devices);
    json_put_integer(json, "batch_per_device", scaling->batch);
    json_put_real(json, "images_per_s", scaling->images_per_s);
    return json;
}

static void put_scaling(struct json *json, const struct result *result)
{
    const struct scaling *first = first_scaling(result);
    json_put_real(json, "scaling_efficiency", first->efficiency);
    put_interval(json, "scaling_efficiency_interval", first->likely);
    json_put(json, "baseline", json_baseline(first));
    json_put_text(json, "scaling", first == &result->weak ? "weak" : "strong");
    json_put_real(json, "weak_scaling_efficiency", result->weak.efficiency);
    put_interval(json, "weak_scaling_interval", result->weak.likely);
    json_put_real(json, "strong_scaling_efficiency",
                  result->strong.batch ? result->strong.efficiency : NAN);
    put_interval(json, "strong_scaling_interval",
                 result->strong.batch ? result->strong.likely : (struct interval){NAN, NAN});
}

/* Times are null and intervals empty without a target. */
static void put_target(struct json *json, const struct result *result)
{
    const struct to_target *to = &result->to_target;
    const struct interval none = {NAN, NAN};
    double target = result->scenario->training.target;
    const char *recipe = result->scenario->training.recipe;
    bool any = target > 0;
    json_put_real(json, "target", any ? target : NAN);
    json_put_text(json, "recipe", any && !recipe ? "own points" : recipe);
    json_put_real(json, "time_to_target_s", any ? result->time_to_train_s : NAN);
    json_put_real(json, "time_to_target_median_s", any ? to->median : NAN);
    put_interval(json, "time_to_target_interval_s", any ? result->train_likely : none);
    put_interval(json, "epochs_interval", any ? to->epochs : none);
}

struct json *result_json(const struct result *result)
{
    struct json *json = json_new_object();
    put_setting(json, result);
    json_put(json, "step", json_step(result));
    put_interval(json, "step_interval_s", result->step_likely);
    json_put_real(json, "images_per_s", result->images_per_s);
    put_interval(json, "throughput_interval", result->images_likely);
    put_scaling(json, result);
    json_put(json, "phases", json_phases(result));
    json_put_real(json, "epochs", result->plan.epochs);
    json_put_real(json, "evaluation_s", result->evaluation_s);
    json_put_real(json, "startup_s", result->startup_s);
    json_put_real(json, "time_to_train_s", result->time_to_train_s);
    put_interval(json, "time_to_train_interval_s", result->train_likely);
    toll_put(json, &result->toll);
    bill_put(json, &result->bill);
    doubts_put(json, &result->doubts);
    put_target(json, result);
    json_put_text(json, "bound_by", result->bound_by);
    json_put_text(json, "sentence", result->sentence);
    json_put(json, "assumptions", json_texts(result->assumption, result->assumption_count));
    json_put(json, "warnings", json_texts(result->warning, result->warning_count));
    return json;
}

/* One row of the table: a label, a quantity, and its share or comparison. */
static void print_row(struct text *out, const char *label, enum unit unit, double value,
                      const char *note)
{
    text_add(out, "  %-24s%16s%s%s\n", label, unit_text(unit, value), *note ? "   " : "", note);
}

static void print_part(struct text *out, const char *label, double seconds, double whole)
{
    AUTOFREE char *share = base_format("%5.1f %%", 100 * seconds / whole);
    print_row(out, label, UNIT_SECONDS, seconds, share);
}

/* Only if it was drawn: a build without GSL has none. */
static void print_interval(struct text *out, enum unit unit, struct interval likely)
{
    if (isnan(likely.low))
        return;
    text_add(out, "  %-24s%16s to %s\n", "  90 % interval", unit_text(unit, likely.low),
             unit_text(unit, likely.high));
}

static void print_step(struct text *out, const struct result *result)
{
    const struct breakdown *step = &result->step;
    print_row(out, "step", UNIT_SECONDS, step->time, "");
    print_interval(out, UNIT_SECONDS, result->step_likely);
    print_part(out, "  compute", step->compute, step->time);
    if (step->slowed > 0)
        print_part(out, "  beside communication", step->slowed, step->time);
    if (step->slower > 0)
        print_part(out, "  slower ranks", step->slower, step->time);
    print_part(out, "  exposed communication", step->exposed_communication, step->time);
    if (step->exposed_row > 0 && step->exposed_column > 0) {
        print_part(out, "    in rows", step->exposed_row, step->time);
        print_part(out, "    in columns", step->exposed_column, step->time);
    }
    print_part(out, "  input wait", step->input_wait, step->time);
    print_part(out, "  optimizer and other", step->other, step->time);
}

static void print_scaling(struct text *out, const char *label, const char *kind,
                          const struct scaling *scaling, enum unit images_unit)
{
    AUTORELEASE(text) struct text note = {0};
    text_add(&note, "%s, of %" PRId32 " device%s with %s at %" PRId64 " each", kind,
             scaling->devices, base_plural(scaling->devices),
             unit_text(images_unit, scaling->images_per_s), scaling->batch);
    print_row(out, label, UNIT_FRACTION, scaling->efficiency, note.data);
    print_interval(out, UNIT_FRACTION, scaling->likely);
}

/* Epochs, time, where its uncertainty comes from, and where it goes. */
static void print_target(struct text *out, const struct result *result)
{
    const struct to_target *to = &result->to_target;
    double whole = result->time_to_train_s;
    AUTOFREE char *label = base_format("time to %g %%", 100 * result->scenario->training.target);
    print_row(out, "epochs", UNIT_NONE, result->plan.epochs, "mean");
    print_interval(out, UNIT_NONE, to->epochs);
    print_row(out, label, UNIT_SECONDS, whole, "mean epochs, nothing slower than usual");
    if (!isnan(to->median))
        print_row(out, "  median", UNIT_SECONDS, to->median,
                  "of draws; in some, something is slower");
    print_interval(out, UNIT_SECONDS, result->train_likely);
    if (!isnan(to->epochs_share))
        print_row(out, "  by the epochs", UNIT_FRACTION, to->epochs_share, "of its variance");
    print_part(out, "  steps", result->toll.work - result->evaluation_s - result->startup_s, whole);
    print_part(out, "  evaluation", result->evaluation_s, whole);
    print_part(out, "  start-up", result->startup_s, whole);
    toll_print(out, &result->toll);
}

static void print_totals(struct text *out, const struct result *result)
{
    enum unit unit = result->images_unit;
    print_row(out, "throughput", unit, result->images_per_s, "");
    print_interval(out, unit, result->images_likely);
    if (result->strong.batch)
        print_scaling(out, "scaling efficiency", "strong", &result->strong, unit);
    print_scaling(out, result->strong.batch ? "" : "scaling efficiency", "weak", &result->weak,
                  unit);
    if (result->scenario->training.target > 0) {
        print_target(out, result);
        return;
    }
    print_row(out, "evaluation", UNIT_SECONDS, result->evaluation_s, "");
    print_row(out, "start-up", UNIT_SECONDS, result->startup_s, "");
    print_row(out, "time to train", UNIT_SECONDS, result->time_to_train_s, "");
    print_interval(out, UNIT_SECONDS, result->train_likely);
    toll_print(out, &result->toll);
}

static void print_phases(struct text *out, const struct result *result)
{
    text_add(out, "\n  %5s%9s%18s%14s%9s%14s\n", "phase", "epochs", "batch per device",
             "global batch", "steps", "step");
    for (int32_t i = 0; i < result->plan.phase_count; i++) {
        const struct phase *phase = &result->plan.phase[i];
        text_add(out, "  %5" PRId32 "%9.4g%18" PRId64 "%14" PRId64 "%9" PRId64 "%14s", i + 1,
                 phase->epochs, phase->batch_per_device, phase->global_batch, phase->steps,
                 unit_text(UNIT_SECONDS, result->phase_step_time[i]));
        if (phase->devices != result->devices)
            text_add(out, "   on %" PRId64 " devices", phase->devices);
        text_add(out, "\n");
    }
}

static void print_texts(struct text *out, const char *heading, char *const *text, int32_t count)
{
    if (count > 0)
        text_add(out, "\n%s\n", heading);
    for (int32_t i = 0; i < count; i++)
        text_add(out, "  %s\n", text[i]);
}

static void print_heading(struct text *out, const struct result *result)
{
    text_add(out, "%s on %s: %" PRId32 " device%s in %" PRId32 " node%s",
             result->scenario->model.network, result->platform, result->devices,
             base_plural(result->devices), result->nodes, base_plural(result->nodes));
    if (result->grid.columns)
        text_add(out, ", grid of %" PRId32 " column%s x %" PRId32 " row%s", result->grid.columns,
                 base_plural(result->grid.columns), result->grid.rows,
                 base_plural(result->grid.rows));
    text_add(out, "\nback end %s, grain %s, schedule %016" PRIx64 "\n\n", result->backend,
             result->grain, result->schedule_hash);
}

void result_print(struct text *out, const struct result *result)
{
    print_heading(out, result);
    print_step(out, result);
    print_totals(out, result);
    bill_print(out, &result->bill);
    print_phases(out, result);
    text_add(out, "\n%s\n", result->sentence);
    doubts_print(out, &result->doubts);
    print_texts(out, "assumptions", result->assumption, result->assumption_count);
    print_texts(out, "warnings", result->warning, result->warning_count);
}

static void free_texts(char **text, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        free(text[i]);
    free(text);
}

void result_release(struct result *result)
{
    free(result->platform);
    free(result->phase_step_time);
    free(result->bound_by);
    free(result->sentence);
    free_texts(result->assumption, result->assumption_count);
    free_texts(result->warning, result->warning_count);
    doubts_release(&result->doubts);
    *result = (struct result){0};
}
