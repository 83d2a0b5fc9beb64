#include <inttypes.h>
#include <math.h>

#include "app/compare/compare.h"

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
        if (result->nccl)
            text_add(out, "   %s\n", result->nccl);
    }
}

/* A line for each number and each end of its interval. */
static void print_table(struct text *out, const struct comparison *c)
{
    AUTORELEASE(json) struct json *all = comparison_json(c);
    const struct json *jobs = json_get(all, "jobs");
    AUTORELEASE(columns) struct columns lines = columns_of(COMPARE_FIGURES, jobs);
    text_add(out, "\n  %-22s", "");
    for (int32_t i = 0; i < c->count; i++)
        text_add(out, "%20s", compare_names[i]);
    text_add(out, "\n");
    for (const struct columns_item *l = lines.item; l < lines.item + lines.count; l++) {
        text_add(out, l->end ? "    %-20s" : "  %-22s", l->label);
        for (int32_t i = 0; i < c->count; i++) {
            AUTOFREE char *cell = columns_cell(l, json_item(jobs, i));
            text_add(out, "%20s", cell);
        }
        text_add(out, "\n");
    }
    for (int32_t i = 0; i < c->count; i++)
        if (c->column[i].prices)
            text_add(out, "  prices of %s: %s\n", compare_names[i], c->column[i].prices->origin);
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
        if (compare_differs(pair->factor[i].factor))
            text_add(out, "  x %-8.4g by the %s\n", pair->factor[i].factor, pair->factor[i].name);
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

/* What the table of jobs has beside their figures. */
struct shown_job {
    const char *name, *scenario, *network;
    const char **set;
    int32_t sets;
    const struct result *result;
    const struct column *column;
};

struct shown {
    struct shown_job job[COMPARE_MOST];
    const struct shown_job *jobs;
    const struct comparison *comparison;
    int32_t count;
};

#define DESCRIBED struct result
static const struct answer_column result_rows[] = {
    COLUMN("platform", platform, .help = "name of its platform"),
    COLUMN("backend", backend, .help = "analytic or sim"),
    COLUMN("grain", grain, .help = "as in a result"),
    COLUMN("devices", devices, .help = "devices in use"),
    COLUMN("nodes", nodes, .help = "nodes in use"),
};
static const struct answer_columns setting_columns = COLUMNS(NULL, result_rows);
#undef DESCRIBED

#define DESCRIBED struct column
static const struct answer_column column_rows[] = {
    COLUMN_MEMBERS(figures, &figures_columns),
    COLUMN("memory_bytes", memory, .help = "arrays of training on a device, without libraries"),
    COLUMN("weak_scaling_efficiency", prediction.result.weak.efficiency,
           LIKELY(prediction.result.weak.likely), .help = "as in a result"),
    COLUMN("strong_scaling_efficiency", prediction.result.strong.efficiency,
           LIKELY(prediction.result.strong.likely), .null = true, .help = "as in a result"),
    COLUMN("currency", figures.bill.currency, .null = true, .help = "of the cost"),
    COLUMN("prices", figures.bill.origin, .null = true, .help = "price file: name, date and path"),
};
static const struct answer_columns column_columns = COLUMNS(NULL, column_rows);
#undef DESCRIBED

#define DESCRIBED struct shown_job
static const struct answer_column job_rows[] = {
    COLUMN("name", name, .help = "A, B, C or D: in the order of the command line"),
    COLUMN("scenario", scenario, .help = "path of the job"),
    COLUMN_ITEMS("set", set, sets, .help = "assignments to this job alone"),
    COLUMN("network", network, .help = "network that is trained"),
    COLUMN_MEMBERS(result, &setting_columns),
    COLUMN_MEMBERS(column, &column_columns),
};
static const struct answer_columns job_columns = COLUMNS(NULL, job_rows);
#undef DESCRIBED

#define DESCRIBED struct time_factor
static const struct answer_column factor_rows[] = {
    COLUMN("name", name, .help = "what the times differ by"),
    COLUMN("factor", factor, .help = "by how much: the product of all is the ratio"),
};
static const struct answer_columns factor_columns = COLUMNS(NULL, factor_rows);
#undef DESCRIBED

#define DESCRIBED struct pair
static const struct answer_column pair_rows[] = {
    COLUMN("a", a, .words = compare_names, .help = "name of a job"),
    COLUMN("b", b, .words = compare_names, .help = "name of a later job"),
    COLUMN("faster_probability", faster, .null = true,
           .help = "that a takes less time, ties counting half; null: a job has no interval"),
    COLUMN("ratio", ratio, LIKELY(likely), .help = "time of b over time of a"),
    COLUMN("draws", draws, .help = "draws that both jobs have"),
    COLUMN_ARRAY("factors", factor, .table = &factor_columns),
    COLUMN("cause", cause, .null = true,
           .help = "what makes most of the difference; null: there is none"),
};
static const struct answer_columns pair_columns = COLUMNS(NULL, pair_rows);
#undef DESCRIBED

#define DESCRIBED struct comparison
static const struct answer_column comparison_rows_of[] = {
    COLUMN_ITEMS("pairs", pair, pair_count, .table = &pair_columns),
    COLUMN("sentence", sentence, .help = "the fastest job against the next, in words"),
    COLUMN_ITEMS("warnings", warning, warning_count,
                 .help = "of the predictions, and what makes jobs hard to compare"),
};
static const struct answer_columns rest_columns = COLUMNS(NULL, comparison_rows_of);
#undef DESCRIBED

#define DESCRIBED struct shown
static const struct answer_column shown_rows[] = {
    COLUMN_ITEMS("jobs", jobs, count, .table = &job_columns),
    COLUMN_MEMBERS(comparison, &rest_columns),
};
const struct answer_columns compare_columns = COLUMNS("compare/2", shown_rows);
#undef DESCRIBED

struct json *comparison_json(const struct comparison *c)
{
    struct shown shown = {.comparison = c, .count = c->count};
    for (int32_t i = 0; i < c->count; i++) {
        const struct column *column = &c->column[i];
        const struct result *result = &column->prediction.result;
        shown.job[i] = (struct shown_job){
            .name = compare_names[i],
            .scenario = column->path,
            .network = result->scenario->model.network,
            .set = column->own->item,
            .sets = column->own->count,
            .result = result,
            .column = column,
        };
    }
    shown.jobs = shown.job;
    return answer_json(&compare_columns, &shown);
}
