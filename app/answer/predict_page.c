#include "app/answer/predict_page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/page/html.h"
#include "core/report/picture.h"

/* What is shown, and its result. */
struct answer {
    struct page page;
    const struct json *all, *result;
};

/* ---- the answer ---- */

/* @value in digits that an interval of that @width leaves certain: a tenth of it. */
static void add_rounded(struct text *out, enum unit unit, double value, double width)
{
    char text[UNIT_ROOM], *rest;
    double number = strtod(unit_write(text, unit, value), &rest);
    double place = pow(10, floor(log10(fmin(width / 10 * number / value, number))));
    if (place > 0)
        text_add(out, "%.10g%s", place * round(number / place), rest);
    else
        text_add(out, "%s", text);
}

static void add_likely(struct text *out, enum unit unit, const struct json *object, const char *key)
{
    double low = html_end(object, key, false), high = html_end(object, key, true);
    add_rounded(out, unit, html_number(object, key, -1), high - low);
    if (isnan(low))
        return;
    text_add(out, " (90 %%: ");
    add_rounded(out, unit, low, high - low);
    text_add(out, " to ");
    add_rounded(out, unit, high, high - low);
    text_add(out, ")");
}

/* A sentence without a table. */
static char *answer_of(const struct json *result)
{
    struct text out = {0};
    double target = html_number(result, "target", -1);
    text_add(&out, "Training");
    if (target > 0)
        text_add(&out, " to %g %%", 100 * target);
    text_add(&out, " takes ");
    add_likely(&out, UNIT_SECONDS, result, "time_to_train_s");
    text_add(&out, ". A step takes ");
    add_likely(&out, UNIT_SECONDS, result, "step_s");
    text_add(&out, "; each device does ");
    add_likely(&out, UNIT_FRACTION, result, "scaling_efficiency");
    text_add(&out, " of the work of one in a job of %.0f. It is %s.",
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
    const struct json *r = answer->result, *assumed = json_get(r, "assumptions");
    AUTORELEASE(json) struct json *unknown = unknown_texts(r);
    html_section(&answer->page, "What it rests on");
    html_list(&answer->page, "Unknown, and drawn from a range:", unknown);
    html_add(&answer->page.body,
             "<details><summary>Assumed, for nobody measured or published it: "
             "%d values</summary>\n",
             (int)json_count_items(assumed));
    for (int topic = 0; report_topics[topic]; topic++) {
        AUTORELEASE(json) struct json *list = json_new_array();
        AUTOFREE char *words = base_format("Of the %s:", report_topics[topic]);
        for (int64_t i = 0; i < json_count_items(assumed); i++)
            if (report_topic(json_as_text(json_item(assumed, i))) == topic)
                json_append(list, json_share(json_item(assumed, i)));
        html_list(&answer->page, words, list);
    }
    html_add(&answer->page.body, "</details>\n");
    AUTOFREE char *run =
        base_format("Job %s; back end %s, grain %s; draws behind the intervals: %.0f; schedule %s.",
                    html_word(answer->all, "job"), html_word(r, "backend"), html_word(r, "grain"),
                    html_number(json_get(r, "draws"), "count", -1), html_word(r, "schedule_hash"));
    html_paragraph(&answer->page, "small", run);
}

/* Words that the page uses, as docs/class/glossary.md has them. */
static void add_terms(struct page *page)
{
    html_section(page, "Words");
    html_add(&page->body,
             "<dl><dt>device, node</dt><dd>a GPU, or what computes in its place; a machine with "
             "one or more devices</dd>\n"
             "<dt>step</dt><dd>one batch, forward and backward, and the update of the "
             "parameters</dd>\n"
             "<dt>rank</dt><dd>the process of one device; ranks stand in a grid of rows and "
             "columns</dd>\n"
             "<dt>all-reduce</dt><dd>the sum of all ranks' gradients, which each rank gets</dd>\n"
             "<dt>bucket</dt><dd>gradients that are sent together, when all of them are "
             "ready</dd>\n"
             "<dt>exposed communication</dt><dd>what a step waits for, since no computing hides "
             "it</dd>\n"
             "<dt>nic, uplink</dt><dd>a network card of a node; the link of a rack or switch to "
             "the others</dd>\n"
             "<dt>scaling efficiency</dt><dd>work of a device, over that of one in the baseline"
             "</dd>\n"
             "<dt>closed form</dt><dd>the prediction by formulas, without messages that share a "
             "link by chance</dd>\n"
             "<dt>90&#160;%% interval</dt><dd>nine of ten draws of all that is uncertain are in it"
             "</dd></dl>\n");
}

/* ---- pictures and tables ---- */

/* Where the points come from. */
static void add_curve_words(struct answer *answer)
{
    double factor = html_number(answer->all, "curve_exposed_factor", -1);
    AUTORELEASE(text) struct text out = {0};
    if (json_count_items(json_get(answer->all, "curve")) <= 1)
        return;
    text_add(&out, "The curve: ");
    if (html_number(json_get(answer->result, "draws"), "count", -1) > 0)
        text_add(&out, "job and baseline move together in each draw. ");
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
    static const struct page_part part = {
        .picture = "curve",
        .rows = "curve",
        .caption = "efficiency by number of devices",
        .columns = "devices, scaling_efficiency~, images_per_s, samples_per_s, time_to_train_s, "
                   "backend, reason: no answer because"};
    const struct json *published = json_get(answer->all, "published");
    if (json_count_items(json_get(answer->all, "curve")) <= 1)
        return;
    html_section(&answer->page, "Does it scale?");
    if (json_count_items(published) > 0) {
        AUTOFREE char *text = base_format("Published: %g %%.",
                                          100 * html_number(json_item(published, 0), "value", -1));
        html_paragraph(&answer->page, NULL, text);
    }
    html_part(&answer->page, answer->all, &part);
}

static const struct page_part of_a_step[] = {
    {.heading = "Where does the time of a step go?",
     .picture = "steps",
     .rows = "curve",
     .caption = "parts of a step by number of devices",
     .columns = "devices, step_s, compute_s: compute, slowed_s: slowed by the all-reduce, "
                "slower_ranks_s: waits for slower devices, exposed_row_s: waits for rows, "
                "exposed_column_s: waits for columns, exposed_world_s: waits for the all-reduce, "
                "input_wait_s: waits for images, other_s: optimizer and other"},
    {.heading = "What happens in one step?",
     .words = "The lanes of a few ranks in the last phase, without jitter. Lines lead from the "
              "compute that a bucket of gradients waits for to its all-reduce. Point at a piece or "
              "a row of the table to see all of its bucket.",
     .picture = "lanes",
     .rows = "lanes",
     .caption = "what the lanes do",
     .columns = "rank, lane, name: what, bucket, begin_s: begins, end_s: ends"},
    {.rows = "result.exchanges",
     .table = "exchanges",
     .caption = "all-reduces of the rank that ends last",
     .columns = "bucket, name: all-reduce, bytes, ready_s, begin_s: begins, end_s: ends, "
                "exposed_s: nothing hides"},
    {.heading = "Where do the bytes go?",
     .words = "The machine from the outside in, of many alike eight. A colour says how long the "
              "busiest link of a kind needs for the bytes of one step at its full bandwidth, as a "
              "part of the step.",
     .picture = "machine",
     .rows = "links",
     .table = "links",
     .caption = "links by load",
     .columns = "link: kind of link, places, bandwidth, busy_s, share: of the step"},
};

static const struct page_part of_all[] = {
    {.heading = "What makes the intervals wide?",
     .words = "The part of the variance that is gone once an input is known (first-order Sobol "
              "index). To narrow an interval, measure the first ones.",
     .picture = "shares",
     .rows = "result.interval_shares",
     .caption = "parts of the variance",
     .columns = "input: uncertain input, step: of the step, weak_scaling, strong_scaling, "
                "time_to_train"},
    {.heading = "Phases of the training",
     .rows = "result.phases",
     .table = "phases",
     .caption = "phases of the training",
     .columns = "epochs, batch_per_device, global_batch, devices, steps, step_s",
     .open = true},
};

static int write_page(const char *file, const struct json *all, const struct json *whatif,
                      struct err *err)
{
    struct answer answer = {.all = all, .result = json_get(all, "result")};
    AUTOFREE char *title = title_of(&answer), *sentence = answer_of(answer.result);
    html_answer(&answer.page, title, sentence);
    html_list(&answer.page, "Warnings:", json_get(answer.result, "warnings"));
    add_curve(&answer);
    whatif_section(&answer.page, whatif);
    html_section(&answer.page, "The answer in numbers");
    add_figures(&answer);
    add_curve_words(&answer);
    for (size_t i = 0; i < ARRAY_SIZE(of_a_step); i++)
        html_part(&answer.page, all, &of_a_step[i]);
    failing_add(&answer.page, all);
    for (size_t i = 0; i < ARRAY_SIZE(of_all); i++)
        html_part(&answer.page, all, &of_all[i]);
    add_assumptions(&answer);
    add_terms(&answer.page);
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
    AUTORELEASE(json)
    struct json *whatif = whatif_json(what->prediction, what->path, what->options);
    return write_page(file, all, whatif, err);
}
