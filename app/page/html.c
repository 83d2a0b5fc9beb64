#include "app/page/html.h"

#include <sha2.h>

#include "config.h"
#include "core/base/file.h"

/* For an element and for an attribute in double quotes. */
static void add_text(struct text *out, const char *text)
{
    static const char special[] = "<>&\"' ";
    for (const char *at = text; at && *at; at++) {
        size_t plain = strcspn(at, special);
        text_append(out, at, (int64_t)plain);
        at += plain;
        if (!*at)
            return;
        bool number = at > text && isdigit((unsigned char)at[-1]);
        if (*at != ' ')
            text_add(out, "&#%d;", *at);
        else
            text_add(out, number && unit_follows(at + 1) ? "&#160;" : " ");
    }
}

void html_add_format(struct html *html, const char *markup, ...)
{
    struct text *out = &html->text;
    va_list list;
    va_start(list, markup);
    for (const char *at = markup, *end; *at; at = end) {
        end = at + (*at == '%' ? 2 + strcspn(at + 1, "%scdfg") : strcspn(at, "%"));
        AUTOFREE char *one = base_format("%.*s", (int)(end - at), at);
        if (*at != '%')
            text_append(out, at, end - at);
        else if (end[-1] == '%')
            text_append(out, "%", 1);
        else if (end[-1] == 's')
            add_text(out, va_arg(list, const char *));
        else if (end[-1] == 'f' || end[-1] == 'g')
            text_add(out, one, va_arg(list, double));
        else if (strchr(one, 'l'))
            text_add(out, one, va_arg(list, int64_t));
        else
            text_add(out, one, va_arg(list, int));
    }
    va_end(list);
}

static void html_release(struct html *html)
{
    text_release(&html->text);
}

double html_number(const struct json *object, const char *key, int64_t index)
{
    double value = NAN;
    const struct json *member = json_get(object, key);
    if (index >= 0)
        member = json_item(member, index);
    json_as_real(member, &value);
    return value;
}

double html_end(const struct json *object, const char *key, bool high)
{
    AUTOFREE char *end = base_format("%s_%s", key, high ? "high" : "low");
    return html_number(object, end, -1);
}

const char *html_word(const struct json *object, const char *key)
{
    const char *text = json_as_text(json_get(object, key));
    return text ? text : "";
}

void html_answer(struct page *page, const char *title, const char *sentence)
{
    html_add(&page->body, "<h1>%s</h1>\n", title);
    html_paragraph(page, "answer", sentence);
    html_add(&page->body, "<noscript><p class=\"small\">Pictures need JavaScript; the text and "
                          "tables below do not.</p></noscript>\n");
}

void html_section(struct page *page, const char *heading)
{
    if (page->sections++)
        html_add(&page->body, "</section>\n");
    html_add(&page->body,
             "<section aria-labelledby=\"h%" PRId32 "\">\n<h2 id=\"h%" PRId32 "\">%s</h2>\n",
             page->sections, page->sections, heading);
}

void html_paragraph(struct page *page, const char *class, const char *text)
{
    html_add(&page->body, "<p");
    if (class)
        html_add(&page->body, " class=\"%s\"", class);
    html_add(&page->body, ">%s</p>\n", text);
}

void html_list(struct page *page, const char *words, const struct json *list)
{
    int64_t count = json_count_items(list);
    if (count <= 0)
        return;
    html_paragraph(page, NULL, words);
    html_add(&page->body, "<ul>\n");
    for (int64_t i = 0; i < count; i++)
        html_add(&page->body, "<li>%s</li>\n", json_as_text(json_item(list, i)));
    html_add(&page->body, "</ul>\n");
}

/* ---- tables ---- */

/* All @rows as a file in a link, which needs no script. */
static void add_csv(struct html *out, const char *name, const struct json *rows)
{
    AUTORELEASE(text) struct text csv = {0};
    json_print_csv(&csv, rows);
    if (csv.length > PAGE_DATA_LIMIT) {
        html_add(out, "<p class=\"small\">All rows are too many for a page: <code>--csv</code> "
                      "writes them to a file.</p>\n");
        return;
    }
    html_add(out, "<p><a download=\"%s.csv\" href=\"data:text/csv;charset=utf-8,", name);
    for (int64_t i = 0; i < csv.length; i++) {
        unsigned char c = (unsigned char)csv.data[i];
        bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     strchr("-._,", c);
        text_add(&out->text, plain ? "%c" : "%%%02X", c);
    }
    html_add(out, "\">Download CSV</a></p>\n");
}

static void add_cell(struct html *out, const struct columns_item *column, const struct json *row)
{
    AUTOFREE char *cell = columns_cell(column, row);
    double value = html_number(row, column->key, -1);
    html_add(out, "<td class=\"%s\"", column->text ? "text" : "");
    if (isfinite(value))
        html_add(out, " data-value=\"%.17g\"", value);
    html_add(out, ">%s</td>", cell);
}

static void add_row(struct html *out, const struct columns *columns, const struct json *row)
{
    double bucket = html_number(row, "bucket", -1);
    html_add(out, "<tr");
    if (bucket >= 0)
        html_add(out, " data-bucket=\"%.0f\"", bucket);
    html_add(out, ">");
    for (const struct columns_item *c = columns->item; c < columns->item + columns->count; c++)
        add_cell(out, c, row);
    html_add(out, "</tr>\n");
}

static void begin_table(struct html *out, const char *name, const char *words)
{
    html_add(out,
             "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"%s\"><table "
             "id=\"%s\">\n<caption>%s</caption>\n<thead><tr>",
             words, name, words);
}

void html_table(struct page *page, const char *name, const char *words, const struct json *rows,
                const char *columns, bool folded)
{
    struct html *out = &page->body;
    int64_t count = json_count_items(rows);
    AUTORELEASE(columns) struct columns shown = columns_of(columns, rows);
    if (folded)
        html_add(out, "<details><summary>Table and CSV: %s</summary>\n", words);
    begin_table(out, name, words);
    for (const struct columns_item *c = shown.item; c < shown.item + shown.count; c++)
        html_add(out, "<th scope=\"col\" class=\"%s\">%s</th>", c->text ? "text" : "", c->label);
    html_add(out, "</tr></thead>\n<tbody>\n");
    for (int64_t i = 0; i < count && i < PAGE_ROWS; i++)
        add_row(out, &shown, json_item(rows, i));
    html_add(out, "</tbody></table></div>\n");
    if (count > PAGE_ROWS)
        html_add(out, "<p class=\"small\">and %" PRId64 " more rows</p>\n", count - PAGE_ROWS);
    add_csv(out, name, rows);
    if (folded)
        html_add(out, "</details>\n");
}

void html_figures(struct page *page, const struct json *object, const char *columns)
{
    struct html *out = &page->body;
    AUTORELEASE(json) struct json *row = json_new_array();
    json_append(row, json_share(object));
    AUTORELEASE(columns) struct columns shown = columns_of(columns, row);
    const struct columns_item *end = shown.item + shown.count;
    begin_table(out, "figures", "The answer, from and to: its 90 % interval");
    html_add(out, "<th scope=\"col\">quantity</th><th scope=\"col\">value</th><th "
                  "scope=\"col\">from</th><th scope=\"col\">to</th></tr></thead>\n<tbody>\n");
    for (const struct columns_item *c = shown.item; c < end; c++) {
        if (c->end)
            continue;
        AUTOFREE char *low = base_format("%s_low", c->key), *high = base_format("%s_high", c->key);
        html_add(out, "<tr><td>%s</td>", c->label);
        add_cell(out, c, object);
        add_cell(out, &(struct columns_item){.key = low, .end = true}, object);
        add_cell(out, &(struct columns_item){.key = high, .end = true}, object);
        html_add(out, "</tr>\n");
    }
    html_add(out, "</tbody></table></div>\n");
}

void html_picture(struct page *page, const char *name, int64_t row)
{
    html_add(&page->body, "<figure data-picture=\"%s\"", name);
    if (row >= 0)
        html_add(&page->body, " data-row=\"%" PRId64 "\"", row);
    html_add(&page->body, "></figure>\n");
}

void html_part(struct page *page, const struct json *data, const struct page_part *part)
{
    AUTOFREE char *first = base_format("%.*s", (int)strcspn(part->rows, "."), part->rows);
    const char *second = strchr(part->rows, '.');
    const struct json *rows = json_get(data, first);
    rows = second ? json_get(rows, second + 1) : rows;
    if (json_count_items(rows) <= 0)
        return;
    if (part->heading)
        html_section(page, part->heading);
    if (part->words)
        html_paragraph(page, NULL, part->words);
    if (part->picture)
        html_picture(page, part->picture, -1);
    html_table(page, part->table ? part->table : part->picture, part->caption, rows, part->columns,
               !part->open);
}

/* ---- the file ---- */

/* The SHA-256 of @text in base64, as a Content-Security-Policy has it (CSP level 3, 2.3.1). */
static void add_hash(struct text *out, const char *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t digest[SHA256_DIGEST_LENGTH + 1] = {0};
    SHA2_CTX state;
    SHA256Init(&state);
    SHA256Update(&state, (const uint8_t *)text, strlen(text));
    SHA256Final(digest, &state);
    text_add(out, "'sha256-");
    for (int i = 0; i < SHA256_DIGEST_LENGTH; i += 3) {
        uint32_t bits =
            (uint32_t)digest[i] << 16 | digest[i + 1] << 8 | (i < 30 ? digest[i + 2] : 0);
        for (int k = 0; k < (i < 30 ? 4 : 3); k++)
            text_add(out, "%c", digits[bits >> (18 - 6 * k) & 63]);
    }
    text_add(out, "='");
}

static void add_head(struct html *out, const char *title, const struct page *page)
{
    html_add(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                  "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                  "base-uri 'none'; form-action 'none'; style-src ");
    add_hash(&out->text, page_css);
    html_add(out, "; script-src ");
    add_hash(&out->text, page_js);
    if (page->script) {
        html_add(out, " ");
        add_hash(&out->text, page->script);
    }
    html_add(out,
             "%s\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
             "<title>%s</title>\n<style>",
             page->whatif ? " 'wasm-unsafe-eval'" : "", title);
    text_add(&out->text, "%s</style>\n</head>\n<body>\n<main>\n", page_css);
}

/* As a block that nothing runs; "<" could end it. */
static void add_data(struct html *out, const char *id, const struct json *data)
{
    AUTORELEASE(text) struct text line = {0};
    json_print_line(&line, data, 17);
    if (line.length > PAGE_JSON_LIMIT) {
        html_add(out, "<p>The numbers are too many for a page with pictures: <code>--json</code> "
                      "prints them.</p>\n");
    } else {
        html_add(out, "<script type=\"application/json\" id=\"%s\">", id);
        for (int64_t i = 0; i < line.length; i++)
            text_add(&out->text, line.data[i] == '<' ? "\\u003c" : "%c", line.data[i]);
        html_add(out, "</script>\n");
    }
}

int html_write(struct page *page, const char *path, const char *title, const struct json *data,
               struct err *err)
{
    AUTORELEASE(html) struct html out = {0};
    add_head(&out, title, page);
    html_section(page, "Words");
    text_add(&page->body.text, "%s", terms_html);
    text_append(&out.text, page->body.text.data, page->body.text.length);
    if (page->sections)
        html_add(&out, "</section>\n");
    html_add(&out, "</main>\n<footer><p>foretrain " FORETRAIN_VERSION
                   ". This file holds all its numbers as JSON and asks for nothing from "
                   "outside.</p></footer>\n");
    add_data(&out, "data", data);
    text_add(&out.text, "<script>%s</script>\n", page_js);
    if (page->whatif) {
        add_data(&out, "whatif-data", page->whatif);
        text_add(&out.text, "<script type=\"application/wasm\" id=\"core\">%s</script>\n",
                 page_core);
    }
    if (page->script)
        text_add(&out.text, "<script>%s</script>\n", page->script);
    html_add(&out, "</body>\n</html>\n");
    int failed = file_write(path, &out.text, NULL, err);
    html_release(&page->body);
    return failed;
}
