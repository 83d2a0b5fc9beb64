#include "exec/log/log_rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>

static void print_value(struct text *out, const struct log_row *row, const void *record, bool json)
{
    const void *member = (const char *)record + row->offset;
    if (row->kind == LOG_INTEGER) {
        text_add(out, "%" PRId64, *(const int64_t *)member);
        return;
    }
    if (row->kind == LOG_WORD) {
        text_add(out, json ? "\"%s\"" : "%s", *(const char *const *)member);
        return;
    }
    if (row->kind == LOG_BOOLEAN) {
        bool set = *(const bool *)member;
        text_add(out, "%s", json ? (set ? "true" : "false") : (set ? "1" : "0"));
        return;
    }
    double value = *(const double *)member;
    if (isfinite(value))
        text_add(out, row->kind == LOG_TIME ? "%.3f" : "%.9g", value);
    else if (json)
        text_add(out, "null");
    else
        text_add(out, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

void log_rows_header(struct text *out, const struct log_row *rows)
{
    for (const struct log_row *row = rows; row->name; row++)
        text_add(out, "%s%s", row == rows ? "" : ",", row->name);
    text_append(out, "\n", 1);
}

void log_rows_csv(struct text *out, const struct log_row *rows, const void *record)
{
    for (const struct log_row *row = rows; row->name; row++) {
        if (row != rows)
            text_append(out, ",", 1);
        print_value(out, row, record, false);
    }
    text_append(out, "\n", 1);
}

void log_rows_json(struct text *out, const struct log_row *rows, const void *record,
                   const char *event)
{
    text_add(out, "{\"event\": \"%s\"", event);
    for (const struct log_row *row = rows; row->name; row++) {
        text_add(out, ", \"%s\": ", row->name);
        print_value(out, row, record, true);
    }
    text_append(out, "}\n", 2);
}
