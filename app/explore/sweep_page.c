#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/explore/sweep_report.h"
#include "app/page/html.h"

enum {
    NAMED = 10, /* points without an answer that are named */
};

/* "KEY VALUE, KEY VALUE" */
static char *name_of(const struct axes *axes, int64_t point)
{
    struct text name = {0};
    for (int32_t i = 0; i < axes->count; i++)
        text_add(&name, "%s%s %s", i ? ", " : "", axes->item[i].key, axes_value(axes, point, i));
    return name.data;
}

/* What is scanned, as a number where it is one. */
static void put_value(struct json *row, const char *key, const char *text)
{
    char *end;
    double number = strtod(text, &end);
    if (*text && !*end)
        json_put_real(row, key, number);
    else
        json_put_text(row, key, text);
}

/* All points, or only the front: what is scanned, the finding and whether it is on the front. */
static struct json *point_rows(const struct sweep *sweep, bool front)
{
    struct json *rows = json_new_array();
    for (int64_t i = 0; i < sweep->axes.points; i++) {
        if (!sweep_has(sweep, i) || (front && !sweep->front[i]))
            continue;
        struct json *row = json_append_object(rows);
        struct finding finding = sweep_row(sweep, i);
        AUTOFREE char *name = name_of(&sweep->axes, i);
        json_put_integer(row, "point", i + 1);
        for (int32_t k = 0; k < sweep->axes.count; k++)
            put_value(row, sweep->axes.item[k].key, axes_value(&sweep->axes, i, k));
        answer_put(row, &finding_columns, &finding);
        json_put_text(row, "front", sweep->front[i] ? "yes" : NULL);
        json_put_text(row, "name", name);
    }
    return rows;
}

/* ---- the answer ---- */

static const struct json *fastest_of(const struct json *rows)
{
    const struct json *best = NULL;
    for (int64_t i = 0; i < json_count_items(rows); i++) {
        const struct json *row = json_item(rows, i);
        double time = html_number(row, "time_to_train_s", -1);
        if (isfinite(time) && (!best || time < html_number(best, "time_to_train_s", -1)))
            best = row;
    }
    return best;
}

static char *answer_of(const struct json *rows)
{
    const struct json *best = fastest_of(rows);
    struct text out = {0};
    if (!best)
        return base_copy("No point has an answer.");
    text_add(&out, "Of %.0f points the fastest is %s: %s", (double)json_count_items(rows),
             html_word(best, "name"),
             unit_text(UNIT_SECONDS, html_number(best, "time_to_train_s", -1)));
    if (isfinite(html_number(best, "time_to_train_s_low", -1)))
        text_add(&out, " (90 %%: %s to %s)",
                 unit_text(UNIT_SECONDS, html_number(best, "time_to_train_s_low", -1)),
                 unit_text(UNIT_SECONDS, html_number(best, "time_to_train_s_high", -1)));
    text_add(&out, " and %.4g device-hours.", html_number(best, "device_hours", -1));
    return out.data;
}

/* Why points have no answer. */
static void add_failures(struct page *page, const struct json *rows)
{
    AUTORELEASE(json) struct json *list = json_new_array();
    int64_t failed = 0;
    for (int64_t i = 0; i < json_count_items(rows); i++) {
        const struct json *row = json_item(rows, i);
        if (!*html_word(row, "reason") || failed++ >= NAMED)
            continue;
        AUTOFREE char *text =
            base_format("%s: %s", html_word(row, "name"), html_word(row, "reason"));
        json_append_text(list, text);
    }
    AUTOFREE char *words = base_format("%lld point%s without an answer%s:", (long long)failed,
                                       base_plural(failed), failed > NAMED ? "; the first" : "");
    html_list(page, words, list);
}

/* A table of points: the scanned keys, then what most ask for. */
static void add_table(struct page *page, const struct sweep *sweep, const char *name,
                      const char *words, const struct json *rows)
{
    AUTORELEASE(text) struct text columns = {0};
    sweep_list_keys(&columns, sweep);
    text_add(&columns, "time_to_train_s~, device_hours, scaling_efficiency, front, step_s, "
                       "images_per_s, samples_per_s, cost, energy_kwh, backend");
    html_table(page, name, words, rows, columns.data, strcmp(name, "points") == 0);
}

int sweep_page(const char *file, const struct sweep *sweep, struct err *err)
{
    struct page page = {0};
    AUTORELEASE(json) struct json *all = sweep_json(sweep), *rows = point_rows(sweep, false);
    AUTORELEASE(json) struct json *front = point_rows(sweep, true);
    AUTORELEASE(text) struct text control = {0};
    AUTOFREE char *answer = answer_of(rows), *title = base_format("Sweep of %s", sweep->plan.job);
    html_answer(&page, title, answer);
    sweep_print_given(&control, sweep);
    sweep_print_control(&control, sweep);
    html_paragraph(&page, NULL, control.data);
    add_failures(&page, rows);
    html_section(&page, "How does the time change?");
    if (fastest_of(rows))
        html_picture(&page, "points", -1);
    add_table(&page, sweep, "points", "all points", rows);
    if (json_count_items(front) > 0) {
        html_section(&page, "How much time do device-hours buy?");
        html_picture(&page, "sweep_front", -1);
        add_table(&page, sweep, "front", "points that no other one beats in both", front);
    }
    return html_write(&page, file, title, all, err);
}
