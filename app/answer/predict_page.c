#include "app/answer/predict_page.h"

#include <math.h>
#include <string.h>

#include "app/answer/curve.h"
#include "app/answer/whatif.h"
#include "app/page/chart.h"
#include "core/report/picture.h"

/* What is shown, and its result. */
struct answer {
    struct page page;
    const struct json *all, *result;
};

/* ---- the answer ---- */

static void add_range(struct text *out, enum unit unit, const struct json *object, const char *key)
{
    if (!isnan(html_end(object, key, false)))
        text_add(out, " (90 %%: %s to %s)", unit_text(unit, html_end(object, key, false)),
                 unit_text(unit, html_end(object, key, true)));
}

/* A sentence without a table. */
static char *answer_of(const struct json *result)
{
    struct text out = {0};
    double target = html_number(result, "target", -1);
    text_add(&out, "Training");
    if (target > 0)
        text_add(&out, " to %g %%", 100 * target);
    text_add(&out, " takes %s",
             unit_text(UNIT_SECONDS, html_number(result, "time_to_train_s", -1)));
    add_range(&out, UNIT_SECONDS, result, "time_to_train_s");
    text_add(&out, ". A step takes %s", unit_text(UNIT_SECONDS, html_number(result, "step_s", -1)));
    add_range(&out, UNIT_SECONDS, result, "step_s");
    text_add(&out, "; each device does %s of the work of one in a job of %.0f. It is %s.",
             unit_text(UNIT_FRACTION, html_number(result, "scaling_efficiency", -1)),
             html_number(json_get(result, "baseline"), "devices", -1),
             html_word(result, "sentence"));
    return out.data;
}

static char *title_of(const struct answer *answer)
{
    double devices = html_number(answer->result, "devices", -1);
    return base_format("%s on %.0f device%s of %s", html_word(answer->all, "network"), devices,
                       base_plural((int64_t)devices), html_word(answer->result, "platform"));
}

static void add_figures(struct answer *answer)
{
    html_figures(&answer->page, answer->result,
                 "step_s~, images_per_s~, samples_per_s~, weak_scaling_efficiency~, "
                 "strong_scaling_efficiency~, time_to_train_s~, evaluation_s, cost~, energy_kwh~, "
                 "carbon_kg~");
}

/* "KEY: RANGE" of each. */
static struct json *unknown_texts(const struct json *result)
{
    const struct json *unknown = json_get(result, "unknown_inputs");
    struct json *list = json_new_array();
    for (int64_t i = 0; i < json_count_items(unknown); i++) {
        const struct json *item = json_item(unknown, i);
        AUTOFREE char *text =
            base_format("%s: %s", html_word(item, "input"), html_word(item, "range"));
        json_append_text(list, text);
    }
    return list;
}

static void add_assumptions(struct answer *answer)
{
    const struct json *r = answer->result;
    AUTORELEASE(json) struct json *unknown = unknown_texts(r);
    html_section(&answer->page, "What it rests on");
    html_list(&answer->page, "Warnings:", json_get(r, "warnings"));
    html_list(&answer->page, "Unknown, and drawn from a range:", unknown);
    html_list(&answer->page,
              "Assumed, for nobody measured or published it:", json_get(r, "assumptions"));
    AUTOFREE char *run =
        base_format("Job %s; back end %s, grain %s; draws behind the intervals: %.0f; schedule %s.",
                    html_word(answer->all, "job"), html_word(r, "backend"), html_word(r, "grain"),
                    html_number(json_get(r, "draws"), "count", -1), html_word(r, "schedule_hash"));
    html_paragraph(&answer->page, "small", run);
}

/* ---- pictures ---- */

/* Where the points come from. */
static void add_curve_words(struct answer *answer)
{
    double factor = html_number(answer->all, "curve_exposed_factor", -1);
    AUTORELEASE(text) struct text out = {0};
    if (html_number(json_get(answer->result, "draws"), "count", -1) > 0)
        text_add(&out, "Job and baseline move together in each draw. ");
    text_add(&out, "At other numbers of nodes foretrain chooses the grid; everything else is as in "
                   "the job.");
    if (isfinite(factor))
        text_add(&out, " This job is simulated; the other points are in closed form");
    if (isfinite(factor) && fabs(factor - 1) >= 5e-4)
        text_add(&out,
                 ", scaled to meet the simulation at this job: communication that nothing hides "
                 "takes %.4g times as long",
                 factor);
    text_add(&out, isfinite(factor) ? "." : "");
    html_paragraph(&answer->page, "small", out.data);
}

static void add_curve(struct answer *answer)
{
    const struct json *rows = json_get(answer->all, "curve");
    const char *kind = html_word(answer->result, "scaling");
    AUTOFREE char *about =
        base_format("%s scaling efficiency on 1 node up to all of the job. The job "
                    "itself: %.1f %%.",
                    kind, 100 * html_number(answer->result, "scaling_efficiency", -1));
    const struct json *published = json_get(answer->all, "published");
    bool any = json_count_items(published) > 0;
    html_section(&answer->page, "Does it scale?");
    chart_curve(
        &answer->page,
        &(struct chart_curve){.words = {"Scaling efficiency against the number of devices", about},
                              .rows = rows,
                              .x = "devices",
                              .value = "scaling_efficiency",
                              .value_label = "Scaling efficiency",
                              .marked_label = "this job",
                              .marked = "own",
                              .x_log = true,
                              .centre = NAN,
                              .published = published});
    add_curve_words(answer);
    if (any) {
        AUTOFREE char *text = base_format("Published: %g %%.",
                                          100 * html_number(json_item(published, 0), "value", -1));
        html_paragraph(&answer->page, NULL, text);
    }
    html_table(
        &answer->page, "curve", "efficiency by number of devices", rows,
        "devices, scaling_efficiency~, images_per_s, samples_per_s, time_to_train_s, backend, "
        "reason: no answer because",
        true);
}

static const struct chart_part step_parts[] = {
    {"compute_s", "compute", CHART_COMPUTE},
    {"slowed_s", "slowed by the all-reduce", CHART_BACKWARD},
    {"slower_ranks_s", "waits for slower devices", CHART_SLOWER},
    {"exposed_row_s", "waits for rows", CHART_ROW},
    {"exposed_column_s", "waits for columns", CHART_COLUMN},
    {"exposed_world_s", "waits for the all-reduce", CHART_ROW},
    {"input_wait_s", "waits for images", CHART_INPUT},
    {"other_s", "optimizer and other", CHART_OTHER},
    {0}};

static void add_stack(struct answer *answer)
{
    const struct json *rows = json_get(answer->all, "curve");
    AUTORELEASE(text) struct text columns = {0};
    text_add(&columns, "devices, step_s");
    for (const struct chart_part *part = step_parts; part->key; part++)
        text_add(&columns, ", %s: %s", part->key, part->label);
    html_section(&answer->page, "Where does the time of a step go?");
    chart_bars(&answer->page, &(struct chart_bars){.words = {"Parts of a step by number of devices",
                                                             html_word(answer->result, "sentence")},
                                                   .rows = rows,
                                                   .label = "devices",
                                                   .word = "device",
                                                   .part = step_parts,
                                                   .total = "step_s"});
    html_table(&answer->page, "steps", "parts of a step by number of devices", rows, columns.data,
               true);
}

static void add_lanes(struct answer *answer)
{
    html_section(&answer->page, "What happens in one step?");
    html_paragraph(
        &answer->page, NULL,
        "The lanes of a few ranks in the last phase, without jitter. Lines lead from the "
        "compute that a bucket of gradients waits for to its all-reduce. Point at a "
        "piece or a row of the table to see all of its bucket.");
    chart_lanes(&answer->page,
                (struct chart_words){"One training step of a few ranks",
                                     "Lanes of compute and communication over time; the table "
                                     "below lists every all-reduce."},
                json_get(answer->all, "lanes"));
    html_table(&answer->page, "lanes", "what the lanes do", json_get(answer->all, "lanes"),
               "rank, lane, name: what, bucket, begin_s: begins, end_s: ends", true);
    if (json_count_items(json_get(answer->result, "exchanges")) <= 0)
        return;
    html_table(&answer->page, "exchanges", "all-reduces of the rank that ends last",
               json_get(answer->result, "exchanges"),
               "bucket, name: all-reduce, bytes, ready_s, begin_s: begins, end_s: ends, "
               "exposed_s: nothing hides",
               true);
}

static void add_map(struct answer *answer)
{
    const struct json *rows = json_get(answer->all, "map");
    if (json_count_items(rows) <= 0)
        return;
    html_paragraph(&answer->page, NULL,
                   "Where: each row and column of the grid of ranks by the busiest link on its "
                   "way, then each node by its network cards and each group of nodes by its "
                   "uplinks. Of more than twelve, those equally busy are one, and the fifth kind "
                   "holds all that are less busy; \303\227 says how many.");
    chart_map(&answer->page,
              (struct chart_words){"Map of the load", "How busy links are, by where they are; the "
                                                      "table has the numbers."},
              rows);
    html_table(&answer->page, "map", "load by place", rows,
               "part, name: where, alike, bandwidth, busy_s, share: of the step", true);
}

static void add_links(struct answer *answer)
{
    static const struct chart_part part[] = {{"busy_s", "busy", CHART_ROW}, {0}};
    const struct json *rows = json_get(answer->all, "links");
    if (json_count_items(rows) <= 0)
        return;
    html_section(&answer->page, "Which links are busy?");
    html_paragraph(&answer->page, NULL,
                   "The time that the busiest link of each kind needs for the bytes of one step at "
                   "its full bandwidth. The bar is as wide as the step.");
    chart_bars(
        &answer->page,
        &(struct chart_bars){
            .words = {"Links by load", "The busiest link of each kind; the table has the numbers."},
            .rows = rows,
            .label = "link",
            .word = "",
            .part = part,
            .total = "busy_s",
            .most = fmax(html_number(answer->result, "step_s", -1),
                         html_number(json_item(rows, 0), "busy_s", -1))});
    html_table(&answer->page, "links", "links by load", rows,
               "link: kind of link, bandwidth, busy_s, share: of the step", true);
    add_map(answer);
}

static double largest_share(const struct json *row)
{
    double share = html_number(row, "time_to_train", -1);
    share = fmax(share, html_number(row, "step", -1));
    share = fmax(share, html_number(row, "weak_scaling", -1));
    return fmax(share, html_number(row, "strong_scaling", -1));
}

/* The inputs with a share worth a bar, the largest first; rows are borrowed as copies. */
static struct json *sorted_shares(const struct json *shares, const struct json *unknown)
{
    enum { SHOWN = 10 };
    struct json *rows = json_new_array();
    double before = INFINITY;
    for (int32_t shown = 0; shown < SHOWN; shown++) {
        const struct json *next = NULL;
        for (int64_t i = 0; i < json_count_items(shares); i++) {
            double share = largest_share(json_item(shares, i));
            if (share >= 0.01 && share < before && (!next || share > largest_share(next)))
                next = json_item(shares, i);
        }
        if (!next)
            break;
        before = largest_share(next);
        const char *name = html_word(next, "input"), *range = NULL;
        for (int64_t i = 0; i < json_count_items(unknown); i++)
            if (!strcmp(html_word(json_item(unknown, i), "input"), name))
                range = html_word(json_item(unknown, i), "range");
        struct json *row = json_append_object(rows);
        AUTOFREE char *label = range ? base_format("%s: %s", name, range) : base_copy(name);
        json_put_text(row, "input", label);
        static const char *const key[] = {"step", "weak_scaling", "strong_scaling",
                                          "time_to_train"};
        for (int k = 0; k < 4; k++) {
            AUTOFREE char *share = base_format("%s_share", key[k]);
            json_put_real(row, share, html_number(next, key[k], -1));
        }
    }
    return rows;
}

static void add_shares(struct answer *answer)
{
    bool strong = strcmp(html_word(answer->result, "scaling"), "strong") == 0;
    const struct chart_part part[] = {{"step_share", "of the step", CHART_COMPUTE},
                                      {strong ? "strong_scaling_share" : "weak_scaling_share",
                                       "of the scaling efficiency", CHART_ROW},
                                      {"time_to_train_share", "of the time to train", CHART_INPUT},
                                      {0}};
    AUTORELEASE(json)
    struct json *rows = sorted_shares(json_get(answer->result, "interval_shares"),
                                      json_get(answer->result, "unknown_inputs"));
    if (json_count_items(rows) > 0) {
        html_section(&answer->page, "What makes the intervals wide?");
        html_paragraph(&answer->page, NULL,
                       "The part of the variance that is gone once an input is known (first-order "
                       "Sobol index). To narrow an interval, measure the first ones.");
        chart_bars(&answer->page,
                   &(struct chart_bars){.words = {"Uncertain inputs by their part in the variance",
                                                  "The largest first; the table has the numbers."},
                                        .rows = rows,
                                        .label = "input",
                                        .word = "",
                                        .part = part,
                                        .most = 1,
                                        .beside = true});
        html_table(&answer->page, "shares", "parts of the variance", rows,
                   "input: uncertain input, step_share, weak_scaling_share, strong_scaling_share, "
                   "time_to_train_share",
                   true);
    }
}

static void add_phases(struct answer *answer)
{
    html_section(&answer->page, "Phases of the training");
    html_table(&answer->page, "phases", "phases of the training",
               json_get(answer->result, "phases"),
               "epochs, batch_per_device, global_batch, devices, steps, step_s", false);
}

static int write_page(const char *file, const struct json *all, const struct json *whatif,
                      struct err *err)
{
    struct answer answer = {.all = all, .result = json_get(all, "result")};
    AUTOFREE char *title = title_of(&answer), *sentence = answer_of(answer.result);
    html_answer(&answer.page, title, sentence);
    add_figures(&answer);
    add_assumptions(&answer);
    if (json_count_items(json_get(all, "curve")) > 1)
        add_curve(&answer);
    add_stack(&answer);
    add_lanes(&answer);
    add_links(&answer);
    failing_add(&answer.page, all);
    add_shares(&answer);
    add_phases(&answer);
    whatif_section(&answer.page, whatif);
    return html_write(&answer.page, file, title, all, err);
}

static struct json *published_rows(const struct predict_page *what)
{
    struct json *rows = json_new_array();
    if (isnan(what->published))
        return rows;
    struct json *row = json_append_object(rows);
    json_put_integer(row, "x", what->prediction->result.devices);
    json_put_real(row, "value", what->published);
    return rows;
}

int predict_page(const char *file, const struct predict_page *what, struct err *err)
{
    const struct task *last = prediction_last(what->prediction);
    const struct point *point = &last->point;
    AUTORELEASE(json) struct json *all = json_new_object();
    json_put_text(all, "job", what->path);
    json_put_text(all, "network", what->prediction->result.scenario->model.network);
    json_put(all, "result", result_json(&what->prediction->result, what->exchanges));
    double exposed;
    json_put(all, "curve", curve_rows(what->prediction, what->path, what->options, &exposed));
    json_put_real(all, "curve_exposed_factor", exposed);
    json_put(all, "published", published_rows(what));
    json_put(all, "checkpoints", failing_rows(&what->prediction->result.toll));
    json_put(all, "lanes", picture_lanes(point->schedule, last->quiet));
    json_put(all, "links",
             picture_links(point->fabric, point->schedule, trace_step_time(last->quiet)));
    json_put(all, "map", picture_map(point->fabric, point->schedule, trace_step_time(last->quiet)));
    AUTORELEASE(json)
    struct json *whatif = whatif_json(what->prediction, what->path, what->options);
    return write_page(file, all, whatif, err);
}
