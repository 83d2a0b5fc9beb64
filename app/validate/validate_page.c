#include <math.h>

#include "app/page/html.h"
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

int validation_page(const char *file, const struct json *all, struct err *err)
{
    static const struct page_part part = {
        .heading = "Where do both differ?",
        .words = "What takes less than 1 % of the step is in the table alone.",
        .picture = "rows",
        .rows = "rows",
        .caption = "predicted and measured times of one step",
        .columns = "group: of, name: what, predicted_s, measured_s, lower_quartile_s, error"};
    struct page page = {0};
    AUTORELEASE(json) struct json *steps = step_rows(all);
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
    html_section(&page, "Every measured step");
    html_picture(&page, "measured", -1);
    html_table(&page, "steps", "measured steps", steps,
               "step, measured_s, predicted_s_low: predicted from, predicted_s_high: to", true);
    html_part(&page, all, &part);
    return html_write(&page, file, title, all, err);
}
