#include <math.h>

#include "app/compare/compare.h"
#include "app/page/html.h"

/* A line for each number and each end of its interval. */
static void add_figures(struct page *page, const struct json *jobs)
{
    struct html *out = &page->body;
    AUTORELEASE(columns) struct columns lines = columns_of(COMPARE_FIGURES, jobs);
    html_begin_table(out, "figures", "Figures of each job");
    html_add(out, "<th scope=\"col\">quantity</th>");
    for (int64_t i = 0; i < json_count_items(jobs); i++)
        html_add(out, "<th scope=\"col\">%s</th>", html_word(json_item(jobs, i), "name"));
    html_add(out, "</tr></thead>\n<tbody>\n");
    for (const struct columns_item *l = lines.item; l < lines.item + lines.count; l++) {
        html_add(out, "<tr><th scope=\"row\" class=\"%s\">%s</th>", l->end ? "end" : "", l->label);
        for (int64_t i = 0; i < json_count_items(jobs); i++)
            html_cell(out, l, json_item(jobs, i));
        html_add(out, "</tr>\n");
    }
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

static void add_times(struct page *page, const struct json *jobs)
{
    html_section(page, "How long does each take?");
    html_picture(page, "times", -1);
    add_figures(page, jobs);
}

/* Pairs with a label, and their probability in words. */
static struct json *pair_rows(const struct json *pairs)
{
    static const char *const keys[] = {"ratio", "ratio_low", "ratio_high"};
    struct json *rows = json_new_array();
    for (int64_t i = 0; i < json_count_items(pairs); i++) {
        const struct json *pair = json_item(pairs, i);
        struct json *row = json_append_object(rows);
        AUTOFREE char *label =
            base_format("%s over %s", html_word(pair, "b"), html_word(pair, "a"));
        double faster = html_number(pair, "faster_probability", -1);
        AUTORELEASE(text) struct text probability = {0};
        if (!isnan(faster)) {
            text_add(&probability, "%s with a probability of ", html_word(pair, "a"));
            compare_print_probability(&probability, faster);
        }
        json_put_text(row, "times", label);
        for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
            json_put_real(row, keys[k], html_number(pair, keys[k], -1));
        json_put_text(row, "faster", probability.data);
        json_put_text(row, "cause", json_as_text(json_get(pair, "cause")));
    }
    return rows;
}

static void add_pairs(struct page *page, const struct json *pairs)
{
    AUTORELEASE(json) struct json *rows = pair_rows(pairs);
    html_section(page, "Which is faster, and how surely?");
    html_paragraph(
        page, NULL,
        "The time of one job over that of another. What is uncertain in both in the same "
        "way cancels. An interval that does not cross 1 settles which is faster.");
    html_picture(page, "ratios", -1);
    html_table(page, "pairs", "ratios of times", rows,
               "times, ratio~, faster, cause: most of the difference", false);
}

/* What makes the difference of each pair: factors whose product is the ratio. */
static void add_factors(struct page *page, const struct json *pairs)
{
    html_section(page, "What makes the difference?");
    html_paragraph(page, NULL,
                   "The factors of each pair; their product is the ratio of the times.");
    for (int64_t i = 0; i < json_count_items(pairs); i++) {
        const struct json *pair = json_item(pairs, i), *factors = json_get(pair, "factors");
        AUTOFREE char *title =
            base_format("Factors of %s over %s", html_word(pair, "b"), html_word(pair, "a"));
        AUTOFREE char *name =
            base_format("factors-%s-%s", html_word(pair, "b"), html_word(pair, "a"));
        html_picture(page, "factors", i);
        html_table(page, name, title, factors, "name: because of the, factor: times", false);
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
