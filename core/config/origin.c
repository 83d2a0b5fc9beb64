#include "core/config/document.h"

enum { EXCERPT_WIDTH = 100 /* [characters] of a source line shown in a message */ };

static const char *skip_characters(const char *text, int32_t count)
{
    while (count-- > 0 && *text)
        for (text++; ((unsigned char)*text & 0xc0) == 0x80; text++)
            ;
    return text;
}

static void add_excerpt(struct text *out, const struct origin *origin)
{
    int32_t skip = origin->column > EXCERPT_WIDTH ? origin->column - EXCERPT_WIDTH / 2 : 0;
    const char *start = skip_characters(origin->source, skip);
    const char *caret = skip_characters(start, origin->column - 1 - skip);
    const char *end = skip_characters(start, EXCERPT_WIDTH);
    text_add(out, "\n  %.*s\n  %*s^", (int)(end - start), start, origin->column - 1 - skip, "");
    for (int32_t i = 1; i < origin->width; i++) {
        caret = skip_characters(caret, 1);
        if (caret >= end)
            break;
        text_append(out, "~", 1);
    }
}

int origin_report(const struct origin *origin, int32_t exit_code, const char *message,
                  struct err *err)
{
    AUTORELEASE(text) struct text out = {0};
    text_add(&out, "%s", origin->file);
    if (origin->line > 0)
        text_add(&out, ":%d:%d", origin->line, origin->column);
    text_add(&out, ": error: %s", message);
    for (char *c = out.data; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = ' ';
    if (!origin->hidden)
        add_excerpt(&out, origin);
    return err_add_code(err, exit_code, "%s", out.data);
}

int origin_error(const struct origin *origin, struct err *err, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    AUTOFREE char *message = base_format_list(format, list);
    va_end(list);
    origin_report(origin, 65, message, err);
    return -1;
}
