#include <math.h>
#include <string.h>

#include "app/page/html.h"
#include "app/plan/plan_report.h"

/* The key of what a plan costs. */
static const char *price_key(const struct json *all)
{
    const char *hours = aim_names[AIM_DEVICE_HOURS];
    return strcmp(html_word(all, "price_unit"), hours) == 0 ? "device_hours" : "cost";
}

/* ---- the answer ---- */

static void add_limits(struct text *out, const struct json *all)
{
    double within = html_number(all, "within_s", -1), budget = html_number(all, "budget", -1);
    if (isfinite(within))
        text_add(out, " within %s", unit_text(UNIT_SECONDS, within));
    if (isfinite(budget))
        text_add(out, " for at most %.4g %s", budget, html_word(all, "price_unit"));
}

static char *answer_of(const struct json *all)
{
    const struct json *best = json_get(all, "best");
    const char *target = html_word(all, "target"), *key = price_key(all);
    bool kept = json_truth(json_get(all, "met"));
    struct text out = {0};
    text_add(&out, kept ? "The plan with the least %s" : "No plan trains", html_word(all, "aim"));
    text_add(&out, "%s%s", *target ? " to " : "", target);
    add_limits(&out, all);
    text_add(&out, kept ? " is %s. It takes " : "; the nearest is %s. It takes ",
             html_word(best, "name"));
    text_add(&out, "%s (90 %%: %s to %s) and %.4g %s (%.4g to %.4g).",
             unit_text(UNIT_SECONDS, html_number(best, "time_to_train_s", -1)),
             unit_text(UNIT_SECONDS, html_end(best, "time_to_train_s", false)),
             unit_text(UNIT_SECONDS, html_end(best, "time_to_train_s", true)),
             html_number(best, key, -1), html_word(all, "price_unit"), html_end(best, key, false),
             html_end(best, key, true));
    return out.data;
}

/* ---- rows of tables ---- */

static bool is_same(const struct json *a, const struct json *b)
{
    return b && strcmp(html_word(a, "name"), html_word(b, "name")) == 0;
}

/* Best, next best and the rest of the front; or only the first two. */
static struct json *plans_of(const struct json *all, bool front)
{
    const struct json *best = json_get(all, "best"), *next = json_get(all, "next");
    const struct json *list = json_get(all, "front");
    struct json *rows = json_new_array();
    json_append(rows, json_share(best));
    if (next)
        json_append(rows, json_share(next));
    for (int64_t i = 0; i < json_count_items(list) && front; i++)
        if (!is_same(json_item(list, i), best) && !is_same(json_item(list, i), next))
            json_append(rows, json_share(json_item(list, i)));
    return rows;
}

/* END_time_s, END_price, and END_best if it is not @best. */
static void put_swing(struct json *row, const char *end, const struct json *swing, const char *best)
{
    const char *other = html_word(swing, "best");
    AUTOFREE char *time = base_format("%s_time_s", end), *price = base_format("%s_price", end);
    AUTOFREE char *plan = base_format("%s_best", end);
    json_put_real(row, time, html_number(swing, "time_to_train_s", -1));
    json_put_real(row, price, html_number(swing, "price", -1));
    json_put_text(row, plan, strcmp(other, best) ? other : NULL);
}

static struct json *swings_of(const struct json *all)
{
    const struct json *list = json_get(all, "sensitivity");
    const char *best = html_word(json_get(all, "best"), "name");
    struct json *rows = json_new_array();
    for (int64_t i = 0; i < json_count_items(list); i++) {
        const struct json *item = json_item(list, i);
        struct json *row = json_append_object(rows);
        json_put_text(row, "input", html_word(item, "input"));
        json_put_text(row, "range", html_word(item, "range"));
        put_swing(row, "low", json_get(item, "low"), best);
        put_swing(row, "high", json_get(item, "high"), best);
    }
    return rows;
}

/* ---- pictures ---- */

static void add_table(struct page *page, const struct json *all, const char *name,
                      const char *words, const struct json *rows, bool folded)
{
    AUTOFREE char *columns =
        base_format("plan: , time_to_train_s~, %s~: %s, keeps: in limits, name: plan, energy_kwh, "
                    "devices, epochs, backend",
                    price_key(all), html_word(all, "price_unit"));
    html_table(page, name, words, rows, columns, folded);
}

static void add_front(struct page *page, const struct json *all)
{
    AUTORELEASE(json) struct json *rows = plans_of(all, true);
    html_section(page, "What does less time cost?");
    html_picture(page, "front", -1);
    add_table(page, all, "front", "best, next best and front", rows, true);
}

static void add_swings(struct page *page, const struct json *all)
{
    const char *unit = html_word(all, "price_unit");
    AUTOFREE char *columns =
        base_format("input: uncertain input, range: ends, low_time_s: low: time, low_price: %s, "
                    "high_time_s: high: time, high_price: %s, low_best: low: the best is, "
                    "high_best: high: the best is",
                    unit, unit);
    AUTORELEASE(json) struct json *rows = swings_of(all);
    if (json_count_items(rows) <= 0)
        return;
    html_section(page, "What would change it?");
    html_paragraph(page, NULL,
                   "The best plan with one uncertain input at either end, all else in the middle "
                   "(line).");
    html_picture(page, "sensitivity", -1);
    html_table(page, "sensitivity", "what each uncertain input moves", rows, columns, true);
}

int plan_page(const char *file, const struct search *search, struct err *err)
{
    struct page page = {0};
    AUTORELEASE(json) struct json *all = plan_json(search), *two = plans_of(all, false);
    AUTOFREE char *answer = answer_of(all),
                  *title = base_format("Plan of %s", search->question.path);
    html_answer(&page, title, answer);
    html_paragraph(&page, NULL,
                   "A plan keeps a limit if 95 of 100 runs do: if the upper end of its 90 % "
                   "interval does.");
    add_table(&page, all, "best", "best and next best", two, false);
    AUTOFREE char *tried =
        base_format("Tried: %.0f plans, of which %.0f make no job, and %.0f were simulated.",
                    html_number(all, "candidates", -1), html_number(all, "refused", -1),
                    html_number(all, "simulated", -1));
    html_paragraph(&page, "small", tried);
    add_front(&page, all);
    add_swings(&page, all);
    html_section(&page, "The best plan as a prediction");
    html_list(&page, "With foretrain predict, the job and these words, each after --set:",
              json_get(json_get(all, "best"), "set"));
    return html_write(&page, file, title, all, err);
}
