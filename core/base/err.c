#include "core/base/err.h"

#include "core/base/base.h"

/* Each message that is left out rewrites the closing line, so that the text is complete. */
static void count_left_out(struct err *err)
{
    int32_t left_out = err->count - ERR_MESSAGE_LIMIT;
    err->text[strlen(err->text) - 1] = '\0';
    if (left_out > 1)
        *strrchr(err->text, '\n') = '\0';
    char *text = base_format("%s\n... and %d more\n", err->text, left_out);
    free(err->text);
    err->text = text;
}

static void add(struct err *err, int32_t exit_code, const char *format, va_list list)
{
    if (err->count++ == 0)
        err->exit_code = exit_code;
    if (err->count > ERR_MESSAGE_LIMIT) {
        count_left_out(err);
        return;
    }
    AUTOFREE char *message = base_format_list(format, list);
    text_clean(message);
    char *text = base_format("%s%s\n", err->text ? err->text : "", message);
    free(err->text);
    err->text = text;
}

int err_add(struct err *err, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    add(err, 65, format, list);
    va_end(list);
    return -1;
}

int err_add_code(struct err *err, int32_t exit_code, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    add(err, exit_code, format, list);
    va_end(list);
    return -1;
}

int err_exit(struct err *err, int32_t exit_code)
{
    err->exit_code = exit_code;
    return -1;
}

char *err_reason(struct err *err)
{
    if (!err->text)
        err->text = base_copy("");
    err->text[strcspn(err->text, "\n")] = '\0';
    return err->text;
}

void err_warn(struct err *err, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    AUTOFREE char *line = base_format_list(format, list);
    va_end(list);
    text_clean(line);
    if (!err->warning || !strstr(err->warning, line)) {
        char *longer = base_format("%s%s\n", err->warning ? err->warning : "", line);
        free(err->warning);
        err->warning = longer;
    }
}

void err_warn_all(struct err *err, const struct err *from)
{
    for (const char *line = from->warning; line && *line; line += strcspn(line, "\n") + 1)
        err_warn(err, "%.*s", (int)strcspn(line, "\n"), line);
}

RELEASE(err, it->warning, it->text)
