#include <math.h>

#include "app/answer/predict_page.h"
#include "app/page/chart.h"
#include "core/report/toll.h"

struct json *failing_rows(const struct toll *toll)
{
    struct failures f = toll->failures;
    struct json *rows = json_new_array();
    double own = f.interval, best = failures_daly(f.mtbf, f.cost);
    if (!toll->any || isinf(f.mtbf))
        return rows;
    for (int power = -9; power <= 8; power++) { /* in halves; the first is the job's own */
        f.interval = power < -8 ? own : best * pow(2, power / 2.0);
        double time = failures_expected(&f, toll->work);
        bool there = f.interval > 0 && f.interval < toll->work && time <= FAILURES_LONGEST;
        if (!there || (power >= -8 && fabs(f.interval / own - 1) < 1e-9))
            continue;
        struct json *row = json_append_object(rows);
        json_put_real(row, "interval_s", f.interval);
        json_put_real(row, "checkpoints", failures_checkpoints(&f, toll->work));
        json_put_real(row, "time_to_train_s", time);
        json_put_text(row, "own", power < -8 ? "this job" : NULL);
    }
    return rows;
}

/* "Something fails every 5 h ..." */
static char *words_of(const struct json *f)
{
    struct text out = {0};
    if (isfinite(html_number(f, "mtbf_s", -1)))
        text_add(&out,
                 "Something that the job uses fails every %s on average: %.3g failures are "
                 "expected, and a restart takes %s. ",
                 unit_text(UNIT_SECONDS, html_number(f, "mtbf_s", -1)),
                 html_number(f, "expected", -1),
                 unit_text(UNIT_SECONDS, html_number(f, "restart_s", -1)));
    double count = html_number(f, "checkpoints", -1);
    text_add(&out, "The run saves %.0f checkpoint%s of %s", count, base_plural((int64_t)count),
             unit_text(UNIT_SECONDS, html_number(f, "checkpoint_s", -1)));
    if (isfinite(html_number(f, "interval_s", -1)))
        text_add(&out, ", one every %s of work (%.3g epochs)",
                 unit_text(UNIT_SECONDS, html_number(f, "interval_s", -1)),
                 html_number(f, "interval_epochs", -1));
    else
        text_add(&out, ", at the end");
    if (isfinite(html_number(f, "daly_s", -1)))
        text_add(&out, ". The best interval is %s by Daly's formula, %s by Young's",
                 unit_text(UNIT_SECONDS, html_number(f, "daly_s", -1)),
                 unit_text(UNIT_SECONDS, html_number(f, "young_s", -1)));
    text_add(&out, ".");
    return out.data;
}

/* What the time to train consists of. */
static void add_parts(struct page *page, const struct json *result)
{
    static const char *const keys[] = {"without_s", "saving_s", "failing_s"};
    static const struct chart_part part[] = {
        {"without_s", "without both", CHART_COMPUTE},
        {"saving_s", "saves checkpoints", CHART_OTHER},
        {"failing_s", "restarts, and works again", CHART_PUBLISHED},
        {0}};
    const struct json *f = json_get(result, "failures");
    struct json *rows = json_new_array(), *row = json_append_object(rows);
    json_put_text(row, "what", "time to train");
    json_put_real(row, "time_to_train_s", html_number(result, "time_to_train_s", -1));
    for (int i = 0; i < 3; i++)
        json_put_real(row, keys[i], html_number(f, keys[i], -1));
    json_put_real(row, "without_s_low", html_end(f, "without_s", false));
    json_put_real(row, "without_s_high", html_end(f, "without_s", true));
    chart_bars(page, &(struct chart_bars){.words = {.title = "Parts of the time to train"},
                                          .rows = rows,
                                          .label = "what",
                                          .word = "",
                                          .part = part,
                                          .total = "time_to_train_s"});
    html_table(
        page, "toll", "parts of the time to train", rows,
        "time_to_train_s, without_s~: without both, saving_s: checkpoints, failing_s: failures",
        true);
    json_free(rows);
}

void failing_add(struct page *page, const struct json *all)
{
    const struct json *result = json_get(all, "result"), *f = json_get(result, "failures");
    const struct json *rows = json_get(all, "checkpoints");
    if (isnan(html_number(f, "checkpoint_s", -1)))
        return;
    AUTOFREE char *words = words_of(f);
    html_section(page, "What do failures and checkpoints add?");
    html_paragraph(page, NULL, words);
    add_parts(page, result);
    if (json_count_items(rows) < 2)
        return;
    chart_curve(
        page, &(struct chart_curve){.words = {.title = "Time to train by work between checkpoints"},
                                    .rows = rows,
                                    .x = "interval_s",
                                    .x_label = "work between checkpoints",
                                    .value = "time_to_train_s",
                                    .value_label = "Expected time to train",
                                    .marked = "own",
                                    .marked_label = "this job",
                                    .x_log = true,
                                    .centre = NAN});
    html_table(page, "checkpoints", "time to train by work between checkpoints", rows,
               "interval_s: work between checkpoints, checkpoints, time_to_train_s, own: ", true);
}
