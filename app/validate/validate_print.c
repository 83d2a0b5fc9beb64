#include <assert.h>
#include <math.h>

#include "app/validate/validate.h"
#include "core/base/json.h"
#include "core/base/unit.h"

static void add_seconds(struct text *out, double seconds)
{
    text_add(out, "  %11s", unit_text(UNIT_SECONDS, seconds));
}

static void add_row(struct text *out, const struct validate_row *row)
{
    text_add(out, "  %-34s", row->name);
    add_seconds(out, row->predicted_s);
    add_seconds(out, row->measured_s);
    add_seconds(out, row->quartile_s);
    if (isfinite(row->error))
        text_add(out, "  %+8.1f %%\n", 100 * row->error);
    else
        text_add(out, "  %10s\n", "-");
}

void validation_print(struct text *out, const struct validation *validation)
{
    static const char *const heading[] = {
        "", "steps by kind", "lanes, busy", "the step, on the rank that ends last",
        "collectives, from the last rank's entering to the last one's leaving"};
    static_assert(ARRAY_SIZE(heading) == VALIDATE_GROUP_COUNT, "one each");
    text_add(out, "%-36s  %11s  %11s  %11s  %10s\n", "", "predicted", "measured", "quartile",
             "error");
    for (int32_t i = 0; i < validation->count; i++) {
        enum validate_group group = validation->row[i].group;
        if (i > 0 && group != validation->row[i - 1].group)
            text_add(out, "%s\n", heading[group]);
        add_row(out, &validation->row[i]);
    }
    text_add(out, "\nmedian and lower quartile of %d steps, error of the %s",
             validation->iterations, validation->lab ? "quartile" : "median");
    if (isfinite(validation->low))
        text_add(out, "; the prediction's 90 %% interval, %s to %s, %s",
                 unit_text(UNIT_SECONDS, validation->low),
                 unit_text(UNIT_SECONDS, validation->high),
                 validation->inside ? "holds the median" : "does not hold the median");
    text_add(out, "\nstep time: %s (tolerance %g %%)\n", validate_verdict_name(validation->verdict),
             100 * validation->tolerance);
}

static struct json *row_json(const struct validate_row *row)
{
    struct json *json = json_new_object();
    json_put_text(json, "group", validate_group_name(row->group));
    json_put_text(json, "name", row->name);
    json_put_real(json, "predicted_s", row->predicted_s);
    json_put_real(json, "measured_s", row->measured_s);
    json_put_real(json, "lower_quartile_s", row->quartile_s);
    if (isfinite(row->error))
        json_put_real(json, "error", row->error);
    else
        json_put_text(json, "error", NULL);
    return json;
}

void validation_put(struct json *json, const struct validation *validation)
{
    struct json *rows = json_new_array(), *times = json_new_array();
    for (int32_t i = 0; i < validation->iterations; i++)
        json_append_real(times, validation->time[i]);
    for (int32_t i = 0; i < validation->count; i++)
        json_append(rows, row_json(&validation->row[i]));
    json_put_integer(json, "measured_steps", validation->iterations);
    json_put(json, "step_times_s", times);
    json_put_text(json, "error_of", validation->lab ? "lower quartile" : "median");
    json_put_interval(json, "step_interval_s", validation->low, validation->high);
    json_put_boolean(json, "inside_interval", validation->inside);
    json_put_real(json, "tolerance", validation->tolerance);
    json_put_text(json, "verdict", validate_verdict_name(validation->verdict));
    json_put(json, "rows", rows);
}
