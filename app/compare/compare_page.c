#include <math.h>

#include "app/compare/compare.h"
#include "app/page/chart.h"

/* One of the three numbers of @figure of each job; a line that no job has is left out. */
static void add_line(struct html *out, const struct json *jobs, int figure, int end)
{
    static const char *const bound[] = {NULL, "from", "to"};
    const struct answer_column *row = &compare_figures[figure];
    AUTORELEASE(html) struct html cells = {0};
    bool any = false;
    for (int64_t i = 0; i < json_count_items(jobs); i++) {
        const struct json *job = json_item(jobs, i);
        double value = end ? html_end(job, row->key, end == 2) : html_number(job, row->key, -1);
        const char *word = compare_word(figure, html_word(job, "currency"));
        any = any || !isnan(value);
        html_add(&cells, "<td");
        html_value(&cells, value);
        html_add(&cells, ">%s", unit_text(row->unit, value));
        if (!isnan(value) && word)
            html_add(&cells, "&#160;%s", word);
        html_add(&cells, "</td>");
    }
    if (!any)
        return;
    html_add(out, "<tr><th scope=\"row\"");
    if (end)
        html_add(out, " class=\"end\">%s</th>", bound[end]);
    else
        html_add(out, ">%s</th>", row->label);
    html_append(out, &cells);
    html_add(out, "</tr>\n");
}

static void add_figures(struct page *page, const struct json *jobs)
{
    struct html *out = &page->body;
    html_begin_table(out, "figures", "Figures of each job");
    html_add(out, "<th scope=\"col\">quantity</th>");
    for (int64_t i = 0; i < json_count_items(jobs); i++)
        html_add(out, "<th scope=\"col\">%s</th>", html_word(json_item(jobs, i), "name"));
    html_add(out, "</tr></thead>\n<tbody>\n");
    for (int figure = 0; figure < FIGURE_COUNT; figure++)
        for (int end = 0; end < 3; end++)
            add_line(out, jobs, figure, end);
    html_add(out, "</tbody></table></div>\n");
}

/* "A: job.yaml with KEY=VALUE; resnet50 on 16 devices of abci" */
static struct json *job_texts(const struct json *jobs)
{
    struct json *list = json_new_array();
    for (int64_t i = 0; i < json_count_items(jobs); i++) {
        const struct json *job = json_item(jobs, i), *set = json_get(job, "set");
        AUTORELEASE(text) struct text text = {0};
        text_add(&text, "%s: %s", html_word(job, "name"), html_word(job, "scenario"));
        for (int64_t k = 0; k < json_count_items(set); k++)
            text_add(&text, "%s%s", k ? ", " : " with ", json_as_text(json_item(set, k)));
        double devices = html_number(job, "devices", -1);
        text_add(&text, "; %s on %.0f device%s of %s; back end %s, grain %s",
                 html_word(job, "network"), devices, base_plural((int64_t)devices),
                 html_word(job, "platform"), html_word(job, "backend"), html_word(job, "grain"));
        json_append_text(list, text.data);
    }
    return list;
}

/* A row with three numbers at @key and its interval, for a picture. */
static struct json *range_row(const char *label, const struct json *object, const char *key)
{
    struct json *row = json_new_object();
    json_put_text(row, "label", label);
    json_put_real(row, "low", html_end(object, key, false));
    json_put_real(row, "value", html_number(object, key, -1));
    json_put_real(row, "high", html_end(object, key, true));
    return row;
}

/* Of rows as range_row() makes them. */
static void add_ranges(struct page *page, const char *title, const struct json *rows,
                       enum unit unit, bool ratios)
{
    chart_ranges(page, &(struct chart_ranges){.words = {.title = title},
                                              .rows = rows,
                                              .label = "label",
                                              .low = "low",
                                              .value = "value",
                                              .high = "high",
                                              .unit = unit,
                                              .mark = ratios ? 1 : NAN,
                                              .log = ratios});
}

static void add_times(struct page *page, const struct json *jobs)
{
    AUTORELEASE(json) struct json *rows = json_new_array();
    for (int64_t i = 0; i < json_count_items(jobs); i++)
        json_append(rows, range_row(html_word(json_item(jobs, i), "name"), json_item(jobs, i),
                                    "time_to_train_s"));
    html_section(page, "How long does each take?");
    add_ranges(page, "Time to train of each job", rows, UNIT_SECONDS, false);
    add_figures(page, jobs);
}

/* For the table of pairs, and for the picture. */
static struct json *pair_rows(const struct json *pairs)
{
    struct json *rows = json_new_array();
    for (int64_t i = 0; i < json_count_items(pairs); i++) {
        const struct json *pair = json_item(pairs, i);
        AUTOFREE char *label =
            base_format("%s over %s", html_word(pair, "b"), html_word(pair, "a"));
        struct json *row = range_row(label, pair, "ratio");
        double faster = html_number(pair, "faster_probability", -1);
        AUTORELEASE(text) struct text probability = {0};
        if (!isnan(faster))
            compare_print_probability(&probability, faster);
        json_put_text(row, "faster", probability.data);
        json_put_text(row, "cause", json_as_text(json_get(pair, "cause")));
        json_append(rows, row);
    }
    return rows;
}

static void add_pairs(struct page *page, const struct json *pairs)
{
    static const struct html_column columns[] = {
        {"label", "times", UNIT_NONE, true},
        {"value", "ratio", UNIT_NONE, false},
        {"low", "from", UNIT_NONE, false},
        {"high", "to", UNIT_NONE, false},
        {"faster", "the second is faster", UNIT_NONE, true},
        {"cause", "most of the difference", UNIT_NONE, true},
        {0}};
    AUTORELEASE(json) struct json *rows = pair_rows(pairs);
    html_section(page, "Which is faster, and how surely?");
    html_paragraph(
        page, NULL,
        "The time of one job over that of another. What is uncertain in both in the same "
        "way cancels. An interval that does not cross 1 settles which is faster.");
    add_ranges(page, "Ratios of times", rows, UNIT_NONE, true);
    html_table(page, "pairs", "ratios of times", rows, columns, false);
}

/* What makes the difference of each pair: factors whose product is the ratio. */
static void add_factors(struct page *page, const struct json *pairs)
{
    static const struct html_column columns[] = {
        {"label", "because of the", UNIT_NONE, true}, {"value", "times", UNIT_NONE, false}, {0}};
    html_section(page, "What makes the difference?");
    html_paragraph(page, NULL,
                   "The factors of each pair; their product is the ratio of the times.");
    for (int64_t i = 0; i < json_count_items(pairs); i++) {
        const struct json *pair = json_item(pairs, i), *factors = json_get(pair, "factors");
        AUTORELEASE(json) struct json *rows = json_new_array();
        for (int64_t k = 0; k < json_count_items(factors); k++)
            json_append(rows, range_row(html_word(json_item(factors, k), "name"),
                                        json_item(factors, k), "factor"));
        AUTOFREE char *title =
            base_format("Factors of %s over %s", html_word(pair, "b"), html_word(pair, "a"));
        AUTOFREE char *name =
            base_format("factors-%s-%s", html_word(pair, "b"), html_word(pair, "a"));
        add_ranges(page, title, rows, UNIT_NONE, true);
        html_table(page, name, title, rows, columns, false);
    }
}

int comparison_page(const char *file, const struct comparison *comparison, struct err *err)
{
    struct page page = {0};
    AUTORELEASE(json) struct json *all = comparison_json(comparison);
    const struct json *jobs = json_get(all, "jobs"), *pairs = json_get(all, "pairs");
    AUTORELEASE(json) struct json *texts = job_texts(jobs);
    AUTOFREE char *title =
        base_format("%.0f jobs beside each other", (double)json_count_items(jobs));
    html_answer(&page, title, html_word(all, "sentence"));
    html_list(&page, "The jobs:", texts);
    html_list(&page, "Warnings:", json_get(all, "warnings"));
    add_pairs(&page, pairs);
    add_times(&page, jobs);
    add_factors(&page, pairs);
    return html_write(&page, file, title, all, err);
}
