#include <inttypes.h>
#include <math.h>

#include "app/compare/compare.h"
#include "config.h"

const struct figure_row compare_figures[FIGURE_COUNT] = {
    [FIGURE_STEP] = {"step_s", "step", UNIT_SECONDS, NULL},
    [FIGURE_IMAGES] = {"images_per_s", "throughput", UNIT_IMAGES_PER_SECOND, NULL},
    [FIGURE_TRAIN] = {"time_to_train_s", "time to train", UNIT_SECONDS, NULL},
    [FIGURE_DEVICE_HOURS] = {"device_hours", "device-hours", UNIT_NONE, "h"},
    [FIGURE_COST] = {"cost", "cost", UNIT_NONE, NULL},
    [FIGURE_ENERGY] = {"energy_kwh", "energy", UNIT_NONE, "kWh"},
    [FIGURE_CARBON] = {"carbon_kg", "carbon", UNIT_NONE, "kg"},
    [FIGURE_MEMORY] = {"memory_bytes", "memory of a device", UNIT_BYTES, NULL},
    [FIGURE_WEAK] = {"weak_scaling_efficiency", "weak scaling", UNIT_FRACTION, NULL},
    [FIGURE_STRONG] = {"strong_scaling_efficiency", "strong scaling", UNIT_FRACTION, NULL},
};

/* What follows a number of @figure, or NULL. */
static const char *word_of(const struct comparison *c, int figure)
{
    return figure == FIGURE_COST ? c->prices.low.currency : compare_figures[figure].word;
}

/* ---- text ---- */

static void print_jobs(struct text *out, const struct comparison *c)
{
    for (int32_t i = 0; i < c->count; i++) {
        const struct column *column = &c->column[i];
        const struct result *result = &column->prediction.result;
        text_add(out, "%s: %s", compare_names[i], column->path);
        for (int32_t k = 0; k < column->own->count; k++)
            text_add(out, "%s%s", k ? ", " : " with ", column->own->item[k]);
        text_add(out,
                 "\n   %s on %s, %" PRId32 " device%s in %" PRId32 " node%s (back end %s, "
                 "grain %s)\n",
                 result->scenario->model.network, result->platform, result->devices,
                 base_plural(result->devices), result->nodes, base_plural(result->nodes),
                 result->backend, result->grain);
    }
}

/* What a line of the table has of each range. */
enum part { PART_VALUE, PART_LOW, PART_HIGH };

static double part_of(struct range range, enum part part)
{
    return part == PART_LOW ? range.low : part == PART_HIGH ? range.high : range.value;
}

static void print_cell(struct text *out, double value, enum unit unit, const char *word)
{
    bool with = word && !isnan(value);
    AUTOFREE char *cell = base_format("%s%s%s", isnan(value) ? "-" : unit_text(unit, value),
                                      with ? " " : "", with ? word : "");
    text_add(out, "%20s", cell);
}

static void print_line(struct text *out, const struct comparison *c, int figure, enum part part)
{
    const char *label = compare_figures[figure].label;
    bool any = false;
    for (int32_t i = 0; i < c->count; i++)
        any = any || !isnan(part_of(c->column[i].figure[figure], part));
    if (!any)
        return;
    text_add(out, "  %-22s", part == PART_LOW ? "  from" : part == PART_HIGH ? "  to" : label);
    for (int32_t i = 0; i < c->count; i++)
        print_cell(out, part_of(c->column[i].figure[figure], part),
                   figure == FIGURE_IMAGES ? c->column[i].prediction.result.images_unit
                                           : compare_figures[figure].unit,
                   word_of(c, figure));
    text_add(out, "\n");
}

static void print_table(struct text *out, const struct comparison *c)
{
    text_add(out, "\n  %-22s", "");
    for (int32_t i = 0; i < c->count; i++)
        text_add(out, "%20s", compare_names[i]);
    text_add(out, "\n");
    for (int figure = 0; figure < FIGURE_COUNT; figure++) {
        print_line(out, c, figure, PART_VALUE);
        print_line(out, c, figure, PART_LOW);
        print_line(out, c, figure, PART_HIGH);
    }
    if (c->prices.path) {
        AUTOFREE char *origin = bill_origin(&c->column[0].prediction.result.bill);
        text_add(out, "  prices: %s\n", origin);
    }
}

static void print_pair(struct text *out, const struct pair *pair)
{
    const char *a = compare_names[pair->a], *b = compare_names[pair->b];
    text_add(out, "\n%s over %s: ", b, a);
    if (compare_differs(pair->ratio))
        text_add(out, "%.4g times the time", pair->ratio);
    else
        text_add(out, "the same time");
    if (!isnan(pair->faster)) {
        text_add(out, ", 90 %% interval %.4g to %.4g; %s is faster with a probability of ",
                 pair->likely.low, pair->likely.high, a);
        compare_print_probability(out, pair->faster);
    }
    text_add(out, "\n");
    for (int i = 0; i < DIFFERENCE_COUNT; i++)
        if (compare_differs(pair->factor[i]))
            text_add(out, "  x %-8.4g by the %s\n", pair->factor[i], difference_names[i]);
    if (pair->cause)
        text_add(out, "  most of the difference: %s\n", pair->cause);
}

void comparison_print(struct text *out, const struct comparison *comparison)
{
    text_add(out, "%s\n\n", comparison->sentence);
    print_jobs(out, comparison);
    print_table(out, comparison);
    for (int32_t i = 0; i < comparison->pair_count; i++)
        print_pair(out, &comparison->pair[i]);
    for (int32_t i = 0; i < comparison->warning_count; i++)
        text_add(out, "%swarning: %s\n", i ? "" : "\n", comparison->warning[i]);
}

/* ---- JSON ---- */

static struct json *job_json(const struct comparison *c, int32_t index)
{
    const struct column *column = &c->column[index];
    const struct result *result = &column->prediction.result;
    struct json *json = json_new_object(), *own = json_new_array();
    for (int32_t i = 0; i < column->own->count; i++)
        json_append_text(own, column->own->item[i]);
    json_put_text(json, "name", compare_names[index]);
    json_put_text(json, "scenario", column->path);
    json_put(json, "set", own);
    json_put_text(json, "network", result->scenario->model.network);
    json_put_text(json, "platform", result->platform);
    json_put_text(json, "backend", result->backend);
    json_put_text(json, "grain", result->grain);
    json_put_integer(json, "devices", result->devices);
    json_put_integer(json, "nodes", result->nodes);
    for (int figure = 0; figure < FIGURE_COUNT; figure++)
        if (figure < FIGURE_COST || figure > FIGURE_CARBON)
            range_put(json, compare_figures[figure].key, column->figure[figure]);
    bill_put(json, &result->bill);
    return json;
}

static struct json *pair_json(const struct pair *pair)
{
    struct json *json = json_new_object(), *factors = json_new_array();
    for (int i = 0; i < DIFFERENCE_COUNT; i++) {
        struct json *factor = json_append_object(factors);
        json_put_text(factor, "name", difference_names[i]);
        json_put_real(factor, "factor", pair->factor[i]);
    }
    json_put_text(json, "a", compare_names[pair->a]);
    json_put_text(json, "b", compare_names[pair->b]);
    json_put_real(json, "faster_probability", pair->faster);
    range_put(json, "ratio", (struct range){pair->likely.low, pair->ratio, pair->likely.high});
    json_put_integer(json, "draws", pair->draws);
    json_put(json, "factors", factors);
    json_put_text(json, "cause", pair->cause);
    return json;
}

struct json *comparison_json(const struct comparison *comparison)
{
    struct json *json = json_new_object(), *jobs = json_new_array(), *pairs = json_new_array(),
                *warnings = json_new_array();
    for (int32_t i = 0; i < comparison->count; i++)
        json_append(jobs, job_json(comparison, i));
    for (int32_t i = 0; i < comparison->pair_count; i++)
        json_append(pairs, pair_json(&comparison->pair[i]));
    for (int32_t i = 0; i < comparison->warning_count; i++)
        json_append_text(warnings, comparison->warning[i]);
    json_put_text(json, "schema", "foretrain/compare/1");
    json_put_text(json, "version", FORETRAIN_VERSION);
    json_put(json, "jobs", jobs);
    json_put(json, "pairs", pairs);
    json_put_text(json, "sentence", comparison->sentence);
    json_put(json, "warnings", warnings);
    return json;
}

struct json *comparison_rows(const struct comparison *comparison)
{
    struct json *rows = json_new_array();
    for (int32_t i = 0; i < comparison->count; i++)
        for (int figure = 0; figure < FIGURE_COUNT; figure++) {
            struct range range = comparison->column[i].figure[figure];
            struct json *row = json_append_object(rows);
            json_put_text(row, "job", compare_names[i]);
            json_put_text(row, "quantity", compare_figures[figure].key);
            json_put_real(row, "value", range.value);
            json_put_real(row, "low", range.low);
            json_put_real(row, "high", range.high);
        }
    return rows;
}
