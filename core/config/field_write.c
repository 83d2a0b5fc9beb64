#include "core/config/field_write.h"

#include "core/config/document.h"

void field_write_text(struct text *out, const char *text)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-";
    if (*text && !text[strspn(text, plain)] && *text != '-' && strcmp(text, "null")) {
        text_add(out, "%s", text);
        return;
    }
    AUTOFREE char *copy = base_copy(text);
    text_clean(copy);
    text_add(out, "\"");
    for (const char *at = copy, *end = copy + strlen(copy); at < end;) {
        int32_t length = document_character(at, end);
        bool shown = length && *at != '\n' && *at != '\t';
        text_add(out, *at == '"' || *at == '\\' ? "\\" : "");
        text_append(out, shown ? at : "?", shown ? length : 1);
        at += length ? length : 1;
    }
    text_add(out, "\"");
}

void field_write_line(struct text *out, int32_t indent, const char *key, const char *text)
{
    text_add(out, "%*s%s: ", indent, "", key);
    field_write_text(out, text);
    text_add(out, "\n");
}

void field_write_quantity(struct text *out, int32_t indent, const char *key, enum provenance kind,
                          double spread, const char *source, const char *value, ...)
{
    va_list list;
    va_start(list, value);
    AUTOFREE char *number = base_format_list(value, list);
    va_end(list);
    text_add(out, "%*s%s: {value: %s, source: ", indent, "", key, number);
    field_write_text(out, source);
    text_add(out, ", kind: %s", provenance_name(kind));
    if (spread > 0)
        text_add(out, ", spread: %.3g %%", 100 * fmin(spread, 10));
    text_add(out, "}\n");
}
