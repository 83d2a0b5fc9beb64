#include <math.h>

#include "app/answer/predict_page.h"
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

void failing_add(struct page *page, const struct json *all)
{
    static const struct page_part part = {
        .picture = "checkpoints",
        .rows = "checkpoints",
        .caption = "time to train by work between checkpoints",
        .columns = "interval_s: work between checkpoints, checkpoints, time_to_train_s, own: "};
    const struct json *f = json_get(json_get(all, "result"), "failures");
    if (isnan(html_number(f, "checkpoint_s", -1)))
        return;
    AUTOFREE char *words = words_of(f);
    AUTORELEASE(json) struct json *rows = json_new_array();
    json_append(rows, json_share(f));
    html_section(page, "What do failures and checkpoints add?");
    html_paragraph(page, NULL, words);
    html_picture(page, "toll", -1);
    html_table(page, "toll", "parts of the time to train", rows,
               "without_s~: without both, saving_s: checkpoints, failing_s: failures", true);
    html_part(page, all, &part);
}
