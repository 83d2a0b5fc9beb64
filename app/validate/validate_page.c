#include <math.h>

#include "app/page/chart.h"
#include "app/validate/validate.h"

static char *answer_of(const struct json *all)
{
    const struct json *step = json_item(json_get(all, "rows"), 0);
    double error = html_number(step, "error", -1);
    struct text out = {0};
    text_add(&out,
             "A step was predicted to take %s and took %s in the median of %.0f: the prediction is "
             "%s too %s. Verdict with a tolerance of %g %%: %s.",
             unit_text(UNIT_SECONDS, html_number(step, "predicted_s", -1)),
             unit_text(UNIT_SECONDS, html_number(step, "measured_s", -1)),
             html_number(all, "measured_steps", -1), unit_text(UNIT_FRACTION, fabs(error)),
             error > 0 ? "long" : "short", 100 * html_number(all, "tolerance", -1),
             html_word(all, "verdict"));
    return out.data;
}

/* Each measured step, with the interval that was predicted for all. */
static struct json *step_rows(const struct json *all)
{
    const struct json *times = json_get(all, "step_times_s");
    struct json *rows = json_new_array();
    for (int64_t i = 0; i < json_count_items(times); i++) {
        struct json *row = json_append_object(rows);
        json_put_integer(row, "step", i + 1);
        json_put_real(row, "measured_s", html_number(all, "step_times_s", i));
        json_put_real(row, "predicted_s_low", html_number(all, "step_s_low", -1));
        json_put_real(row, "predicted_s_high", html_number(all, "step_s_high", -1));
    }
    return rows;
}

static void add_steps(struct page *page, const struct json *all)
{
    AUTORELEASE(json) struct json *rows = step_rows(all);
    const struct json *step = json_item(json_get(all, "rows"), 0);
    html_section(page, "Every measured step");
    chart_curve(
        page, &(struct chart_curve){.words = {"Measured steps and what was predicted",
                                              "A point per step; the table below has the numbers."},
                                    .rows = rows,
                                    .x = "step",
                                    .value = "measured_s",
                                    .range = "predicted_s",
                                    .value_label = "Measured time of a step",
                                    .centre_label = "predicted",
                                    .colour = CHART_ROW,
                                    .points = true,
                                    .centre = html_number(step, "predicted_s", -1)});
    html_table(page, "steps", "measured steps", rows,
               "step, measured_s, predicted_s_low: predicted from, predicted_s_high: to", true);
}

/* Those of @rows that a bar can show; the first is the step. */
static struct json *long_rows(const struct json *rows)
{
    static const char *const keys[] = {"predicted_s", "measured_s", "lower_quartile_s"};
    struct json *found = json_new_array();
    double step = html_number(json_item(rows, 0), "measured_s", -1);
    for (int64_t i = 0; i < json_count_items(rows); i++) {
        const struct json *row = json_item(rows, i);
        double most = fmax(html_number(row, "predicted_s", -1), html_number(row, "measured_s", -1));
        if (most < 0.01 * step)
            continue;
        struct json *copy = json_append_object(found);
        json_put_text(copy, "name", html_word(row, "name"));
        for (int k = 0; k < 3; k++)
            json_put_real(copy, keys[k], html_number(row, keys[k], -1));
    }
    return found;
}

static void add_rows(struct page *page, const struct json *rows)
{
    static const struct chart_part part[] = {
        {"predicted_s", "predicted", CHART_COMPUTE},
        {"measured_s", "measured (median)", CHART_ROW},
        {"lower_quartile_s", "measured (lower quartile)", CHART_OTHER},
        {0}};
    AUTORELEASE(json) struct json *shown = long_rows(rows);
    html_section(page, "Where do both differ?");
    html_paragraph(page, "small", "What takes less than 1 % of the step is in the table alone.");
    chart_bars(page,
               &(struct chart_bars){.words = {.title = "Predicted and measured times of one step"},
                                    .rows = shown,
                                    .label = "name",
                                    .word = "",
                                    .part = part,
                                    .beside = true});
    html_table(page, "rows", "predicted and measured times of one step", rows,
               "group: of, name: what, predicted_s, measured_s, lower_quartile_s, error", true);
}

int validation_page(const char *file, const struct json *all, struct err *err)
{
    struct page page = {0};
    AUTOFREE char *answer = answer_of(all);
    AUTOFREE char *title =
        base_format("Predicted and measured: %.0f rank%s of %s", html_number(all, "ranks", -1),
                    base_plural((int64_t)html_number(all, "ranks", -1)),
                    *html_word(all, "platform") ? html_word(all, "platform") : "a run");
    AUTOFREE char *from =
        base_format("Predicted by back end %s, grain %s; schedule %s; errors are relative to "
                    "the %s.",
                    html_word(all, "backend"), html_word(all, "grain"),
                    html_word(all, "schedule_hash"), html_word(all, "error_of"));
    html_answer(&page, title, answer);
    html_paragraph(&page, "small", from);
    add_steps(&page, all);
    add_rows(&page, json_get(all, "rows"));
    return html_write(&page, file, title, all, err);
}
