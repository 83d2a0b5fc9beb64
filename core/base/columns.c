#include "core/base/columns.h"

/* Takes @key and @label over.  Without a value in @rows it is none. */
static void add(struct columns *columns, char *key, char *label, bool end, const struct json *rows)
{
    bool any = false, text = false;
    double number;
    for (int64_t i = 0; i < json_count_items(rows); i++) {
        const struct json *value = json_get(json_item(rows, i), key);
        any = any || !json_is_nothing(value);
        text = text || !(json_is_nothing(value) || json_as_real(value, &number));
    }
    BASE_NEXT(columns->item, columns->count) = (struct columns_item){key, label, text, end};
    if (!any) {
        free(key);
        free(label);
        columns->count--;
    }
}

struct columns columns_of(const char *words, const struct json *rows)
{
    struct columns columns = {NULL, 0};
    for (const char *at = words; *at; at += strspn(at, ", \n")) {
        size_t length = strcspn(at, ","), key = strcspn(at, ":,");
        bool ends = key > 0 && at[key - 1] == '~';
        char *name = base_format("%.*s", (int)key - ends, at);
        char *label = key < length ? base_format("%.*s", (int)(length - key - 2), at + key + 2)
                                   : answer_label(name);
        AUTOFREE char *low = base_format("%s_low", name), *high = base_format("%s_high", name);
        add(&columns, name, label, false, rows);
        if (ends) {
            add(&columns, base_copy(low), base_copy("from"), true, rows);
            add(&columns, base_copy(high), base_copy("to"), true, rows);
        }
        at += length;
    }
    return columns;
}

void columns_release(struct columns *columns)
{
    for (int32_t i = 0; i < columns->count; i++) {
        free(columns->item[i].key);
        free(columns->item[i].label);
    }
    free(columns->item);
    *columns = (struct columns){NULL, 0};
}

/* The number of @key in @row; NAN: there is none. */
static double number_of(const struct json *row, const char *key, const char *end)
{
    AUTOFREE char *name = base_format("%s%s", key, end);
    double number;
    const struct json *value = json_get(row, name);
    return !json_is_nothing(value) && json_as_real(value, &number) ? number : NAN;
}

/* @number as @item of @row: with the unit and the digits of its interval, if it has one. */
static char *likely_cell(const struct columns_item *item, const struct json *row, double number)
{
    AUTOFREE char *key = base_copy(item->key);
    if (item->end)
        *strrchr(key, '_') = '\0';
    return base_copy(unit_likely(answer_unit(key), number, number_of(row, key, ""),
                                 number_of(row, key, "_low"), number_of(row, key, "_high")));
}

char *columns_cell(const struct columns_item *item, const struct json *row)
{
    const struct json *value = json_get(row, item->key);
    const char *text = json_as_text(value);
    double number;
    if (json_is_nothing(value))
        return base_copy(item->text ? "" : "-");
    if (!text && json_as_real(value, &number))
        return likely_cell(item, row, number);
    struct text list = {0};
    if (json_count_items(value) >= 0)
        json_print_line(&list, value, 4);
    return list.data ? list.data : base_copy(text ? text : json_truth(value) ? "yes" : "no");
}

/* ---- text ---- */

static int width_of(const struct columns_item *item, const struct json *rows)
{
    size_t width = strlen(item->label);
    for (int64_t i = 0; i < json_count_items(rows); i++) {
        AUTOFREE char *cell = columns_cell(item, json_item(rows, i));
        width = strlen(cell) > width ? strlen(cell) : width;
    }
    return (int)width;
}

/* A line of cells, or the one of headings if @row is NULL. */
static void print_line(struct text *out, const struct columns *columns, const int *width,
                       const struct json *row)
{
    for (int32_t i = 0; i < columns->count; i++) {
        const struct columns_item *item = &columns->item[i];
        AUTOFREE char *cell = row ? columns_cell(item, row) : base_copy(item->label);
        text_add(out, item->text ? "  %-*s" : "  %*s", width[i], cell);
    }
    while (out->length && out->data[out->length - 1] == ' ')
        out->data[--out->length] = '\0';
    text_add(out, "\n");
}

void columns_print(struct text *out, const char *words, const struct json *rows)
{
    AUTORELEASE(columns) struct columns columns = columns_of(words, rows);
    AUTOFREE int *width = base_alloc(columns.count, sizeof(*width));
    for (int32_t i = 0; i < columns.count; i++)
        width[i] = width_of(&columns.item[i], rows);
    print_line(out, &columns, width, NULL);
    for (int64_t i = 0; i < json_count_items(rows); i++)
        print_line(out, &columns, width, json_item(rows, i));
}
