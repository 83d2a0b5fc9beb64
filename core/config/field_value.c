#include "core/config/field_rows.h"

static int read_integer(const char *text, int64_t *value, struct err *err)
{
    const char *digits = text + (*text == '-' || *text == '+');
    if (!*digits || digits[strspn(digits, "0123456789")])
        return err_add(err, "'%s' is not a whole number", text);
    errno = 0;
    long long number = strtoll(text, NULL, 10);
    if (errno)
        return err_add(err, "'%s' is too large for a whole number", text);
    *value = number;
    return 0;
}

static int read_boolean(const char *text, bool *value, struct err *err)
{
    if (strcmp(text, "true") && strcmp(text, "false"))
        return err_add(err, "'%s' is neither true nor false", text);
    *value = *text == 't';
    return 0;
}

static int unknown_word(const struct field *field, const char *text, struct err *err)
{
    const char *const *words = field->words;
    const char *nearest = base_nearest(text, words);
    if (nearest)
        return err_add(err, "unknown word '%s' for %s; did you mean '%s'?", text, field->path,
                       nearest);
    AUTORELEASE(text) struct text list = {0};
    for (; *words; words++)
        text_add(&list, "%s%s", *words, words[1] ? ", " : "");
    return err_add(err, "unknown word '%s' for %s; it must be one of: %s", text, field->path,
                   list.data);
}

static int read_word(const struct field *field, const char *text, int32_t *value, struct err *err)
{
    int32_t word = base_find_word(text, field->words);
    if (word < 0)
        return unknown_word(field, text, err);
    *value = word;
    return 0;
}

static int check_range(const struct field *field, const char *text, double value, struct err *err)
{
    if (!field_has_range(field) || (value >= field->minimum && value <= field->maximum))
        return 0;
    const char *least = unit_text(field->unit, field->minimum);
    if (field->minimum == field->maximum)
        return err_add(err, "'%s' is not allowed: only %s is", text, least);
    return err_add(err, "'%s' is out of range: it must be %s to %s", text, least,
                   unit_text(field->unit, field->maximum));
}

static int read_text(const struct field *field, const char *text, char **value, struct err *err)
{
    int32_t index;
    if (field->words && read_word(field, text, &index, err))
        return -1;
    *value = base_copy(text);
    return 0;
}

int field_read_scalar(const struct field *field, const char *text, void *member, struct err *err)
{
    if (!*text)
        return err_add(err, "a value is missing here");
    int64_t integer = 0;
    double real;
    switch (field->kind) {
    case FIELD_INTEGER:
        if (read_integer(text, &integer, err) || check_range(field, text, (double)integer, err))
            return -1;
        *(int64_t *)member = integer;
        return 0;
    case FIELD_REAL:
        if (unit_parse(field->unit, text, &real, err) || check_range(field, text, real, err))
            return -1;
        *(double *)member = real;
        return 0;
    case FIELD_TEXT:
        return read_text(field, text, member, err);
    case FIELD_WORD:
        return read_word(field, text, member, err);
    case FIELD_BOOLEAN:
        return read_boolean(text, member, err);
    default:
        assert(!"a row of several values has no text");
        return -1;
    }
}
