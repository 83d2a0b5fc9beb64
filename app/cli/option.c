#include "app/cli/option.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_USAGE = 64 };

void option_list_add(struct option_list *list, const char *text)
{
    list->item = base_room(list->item, list->count, sizeof(*list->item));
    list->item[list->count++] = base_copy(text);
}

void option_list_add_all(struct option_list *list, const struct option_list *other)
{
    for (int32_t i = 0; i < other->count; i++)
        option_list_add(list, other->item[i]);
}

void option_list_release(struct option_list *list)
{
    for (int32_t i = 0; i < list->count; i++)
        free((char *)(size_t)list->item[i]);
    free(list->item);
    *list = (struct option_list){0};
}

int option_unknown(struct err *err, const char *what, const char *given, const char *const *words)
{
    const char *near = base_nearest(given, words);
    if (near)
        return err_add_code(err, EXIT_USAGE, "unknown %s '%s'; did you mean '%s'?", what, given,
                            near);
    AUTORELEASE(text) struct text list = {0};
    for (int32_t i = 0; words[i]; i++)
        text_add(&list, "%s%s", i ? ", " : "", words[i]);
    err_add_code(err, EXIT_USAGE, "unknown %s '%s'; it must be one of: %s", what, given, list.data);
    return -1;
}

static const struct option *find_name(const struct option *table, const char *name, size_t length)
{
    for (int32_t i = 0; table[i].name; i++)
        if (strlen(table[i].name) == length && !strncmp(table[i].name, name, length))
            return &table[i];
    return NULL;
}

static const struct option *find_letter(const struct option *table, char letter)
{
    for (int32_t i = 0; table[i].name; i++)
        if (table[i].letter && table[i].letter == letter)
            return &table[i];
    return NULL;
}

static int refuse_unknown(const struct option *table, const char *name, size_t length,
                          struct err *err)
{
    const char *names[64] = {0};
    for (int32_t i = 0; table[i].name; i++) {
        assert(i < 63);
        names[i] = table[i].name;
    }
    AUTOFREE char *given = base_format("%.*s", (int)length, name);
    const char *near = base_nearest(given, names);
    if (near)
        err_add_code(err, EXIT_USAGE, "unknown option '--%s'; did you mean '--%s'?", given, near);
    else
        err_add_code(err, EXIT_USAGE, "unknown option '--%s'; --help lists the options", given);
    return -1;
}

static int set_integer(const struct option *option, const char *value, int32_t *member,
                       struct err *err)
{
    char *end;
    errno = 0;
    long number = strtol(value, &end, 10);
    if (!*value || *end || errno || number < 0 || number > INT32_MAX)
        return err_add_code(err, EXIT_USAGE, "--%s: expected a whole number, got '%s'",
                            option->name, value);
    *member = (int32_t)number;
    return 0;
}

static int set_word(const struct option *option, const char *value, int32_t *member,
                    struct err *err)
{
    for (int32_t i = 0; option->words[i]; i++) {
        if (!strcmp(option->words[i], value)) {
            *member = i;
            return 0;
        }
    }
    AUTOFREE char *what = base_format("value of --%s", option->name);
    option_unknown(err, what, value, option->words);
    return -1;
}

/* Quoted, so that a value is one value whatever its characters. */
static void assign(const struct option *option, const char *value, struct option_list *list)
{
    for (const char *const *key = option->words; *key; key++) {
        AUTORELEASE(text) struct text text = {0};
        text_add(&text, "%s", *key);
        if (!strchr(*key, '=')) {
            text_add(&text, "='");
            for (const char *c = value; *c; c++)
                text_add(&text, *c == '\'' ? "''" : "%c", *c);
            text_add(&text, "'");
        }
        option_list_add(list, text.data);
    }
}

static int set(const struct option *option, const char *value, void *record, struct err *err)
{
    void *member = (char *)record + option->offset;
    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)member = true;
        return 0;
    case OPTION_TEXT:
        *(const char **)member = value;
        return 0;
    case OPTION_TEXTS:
        option_list_add(member, value);
        return 0;
    case OPTION_INTEGER:
        return set_integer(option, value, member, err);
    case OPTION_WORD:
        return set_word(option, value, member, err);
    case OPTION_ASSIGN:
        assign(option, value, member);
        return 0;
    case OPTION_KIND_COUNT:
        break;
    }
    assert(!"unknown kind of option");
    return -1;
}

/* The value attached to the option (after "=" or the letter), or the next argument. */
static int set_from(const struct option *option, const char *attached, char **argv, int argc,
                    int *next, void *record, struct err *err)
{
    const char *value = attached;
    if (option->kind == OPTION_FLAG && attached)
        return err_add_code(err, EXIT_USAGE, "--%s takes no value", option->name);
    if (option->kind != OPTION_FLAG && !attached) {
        if (*next >= argc)
            return err_add_code(err, EXIT_USAGE, "--%s needs a value", option->name);
        value = argv[(*next)++];
    }
    return set(option, value, record, err);
}

static int parse_long(const struct option *table, char **argv, int argc, int *next, void *record,
                      struct err *err)
{
    const char *name = argv[*next - 1] + 2;
    size_t length = strcspn(name, "=");
    const struct option *option = find_name(table, name, length);
    if (!option)
        return refuse_unknown(table, name, length, err);
    const char *attached = name[length] ? name + length + 1 : NULL;
    return set_from(option, attached, argv, argc, next, record, err);
}

static int parse_short(const struct option *table, char **argv, int argc, int *next, void *record,
                       struct err *err)
{
    const char *given = argv[*next - 1];
    const struct option *option = find_letter(table, given[1]);
    if (!option)
        return err_add_code(err, EXIT_USAGE, "unknown option '-%c'; --help lists the options",
                            given[1]);
    return set_from(option, given[2] ? given + 2 : NULL, argv, argc, next, record, err);
}

int option_parse(const struct option *table, int argc, char **argv, void *record,
                 struct option_list *argument, struct err *err)
{
    bool ended = false;
    for (int next = 0; next < argc;) {
        const char *word = argv[next++];
        int failed = 0;
        if (ended || word[0] != '-' || !word[1])
            option_list_add(argument, word);
        else if (!strcmp(word, "--"))
            ended = true;
        else if (word[1] == '-')
            failed = parse_long(table, argv, argc, &next, record, err);
        else
            failed = parse_short(table, argv, argc, &next, record, err);
        if (failed)
            return -1;
    }
    return 0;
}

void option_release(const struct option *table, void *record)
{
    for (int32_t i = 0; table[i].name; i++)
        if (table[i].kind == OPTION_TEXTS || table[i].kind == OPTION_ASSIGN)
            option_list_release((struct option_list *)((char *)record + table[i].offset));
}

static void help_left(struct text *left, const struct option *option)
{
    if (option->letter)
        text_add(left, "  -%c, --%s", option->letter, option->name);
    else
        text_add(left, "      --%s", option->name);
    if (option->kind == OPTION_WORD)
        for (int32_t i = 0; option->words[i]; i++)
            text_add(left, "%s%s", i ? "|" : " ", option->words[i]);
    else if (option->argument)
        text_add(left, " %s", option->argument);
}

void option_help(struct text *out, const struct option *table)
{
    enum { HELP_COLUMN = 26 };
    for (int32_t i = 0; table[i].name; i++) {
        AUTORELEASE(text) struct text left = {0};
        help_left(&left, &table[i]);
        if (left.length < HELP_COLUMN - 1)
            text_add(out, "%-*s%s\n", HELP_COLUMN, left.data, table[i].help);
        else
            text_add(out, "%s\n%*s%s\n", left.data, HELP_COLUMN, "", table[i].help);
    }
}
