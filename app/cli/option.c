#include "app/cli/option.h"

#include "core/base/claim.h"
#include "core/base/file.h"

enum { EXIT_USAGE = 64 };

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

/* One parse. */
struct parse {
    const struct option *table;
    char **argv;
    int argc, next;
    void *record;
    struct texts *given;
    struct err *err;
};

/* By its name, or by its letter unless that is 0. */
static const struct option *find(const struct option *table, const char *name, size_t length,
                                 char letter)
{
    for (; table->name; table++)
        if (letter ? table->letter == letter
                   : strlen(table->name) == length && !strncmp(table->name, name, length))
            return table;
    return NULL;
}

static int refuse_unknown(const struct parse *parse, const char *name, size_t length)
{
    AUTORELEASE(texts) struct texts names = {0};
    for (const struct option *option = parse->table; option->name; option++)
        texts_add(&names, "%s", option->name);
    AUTOFREE char *given = base_format("%.*s", (int)length, name);
    const char *near = base_nearest(given, names.item);
    if (near)
        return err_add_code(parse->err, EXIT_USAGE, "unknown option '--%s'; did you mean '--%s'?",
                            given, near);
    return err_add_code(parse->err, EXIT_USAGE, "unknown option '--%s'; --help lists the options",
                        given);
}

static int set_integer(const struct option *option, const char *value, int32_t *member,
                       struct err *err)
{
    char *end;
    errno = 0;
    long number = strtol(value, &end, 10);
    if (!*value || *end || errno || number < !option->zero || number > INT32_MAX)
        return err_add_code(err, EXIT_USAGE, "--%s: expected a whole number from %d, got '%s'",
                            option->name, !option->zero, value);
    *member = (int32_t)number;
    return 0;
}

static int set_word(const struct option *option, const char *value, int32_t *member,
                    struct err *err)
{
    int32_t word = base_find_word(value, option->words);
    if (word >= 0) {
        *member = word;
        return 0;
    }
    AUTOFREE char *what = base_format("value of --%s", option->name);
    return option_unknown(err, what, value, option->words);
}

static int set_real(const struct option *option, const char *value, double *member, struct err *err)
{
    AUTORELEASE(err) struct err why = {0};
    double number = 0;
    if (unit_parse(option->unit, value, &number, &why) || !(number >= 0) ||
        (number == 0 && !option->zero) || (option->most > 0 && number > option->most))
        return err_add_code(err, EXIT_USAGE, "--%s: expected %s, got '%s'", option->name,
                            option->example, value);
    *member = number;
    return 0;
}

/* Quoted, so that a value is one value whatever its characters. */
static void assign(const struct option *option, const char *value, struct texts *list)
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
        texts_add(list, "%s", text.data);
    }
}

static int set(const struct option *option, const char *value, void *record, struct err *err)
{
    void *member = (char *)record + option->offset;
    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)member = true;
        return 0;
    case OPTION_OUTPUT:
        if (!strcmp(value, "-") && strcmp(option->name, "csv")) /* which prints */
            return err_add_code(err, EXIT_USAGE, "--%s -: a file is written; ./- is one called so",
                                option->name);
        *(const char **)member = value;
        return 0;
    case OPTION_TEXT:
    case OPTION_FOLDER:
        *(const char **)member = value;
        return 0;
    case OPTION_TEXTS:
        texts_add(member, "%s", value);
        return 0;
    case OPTION_INTEGER:
        return set_integer(option, value, member, err);
    case OPTION_WORD:
        return set_word(option, value, member, err);
    case OPTION_REAL:
        return set_real(option, value, member, err);
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
static int set_from(struct parse *parse, const struct option *option, const char *attached)
{
    const char *value = attached;
    if (option->kind == OPTION_FLAG && attached)
        return err_add_code(parse->err, EXIT_USAGE, "--%s takes no value", option->name);
    if (option->kind != OPTION_FLAG && !attached) {
        if (parse->next >= parse->argc)
            return err_add_code(parse->err, EXIT_USAGE, "--%s needs a value", option->name);
        value = parse->argv[parse->next++];
    }
    texts_add(parse->given, "--%s%s%s", option->name, value ? "=" : "", value ? value : "");
    return set(option, value, parse->record, parse->err);
}

static int parse_long(struct parse *parse, const char *name)
{
    size_t length = strcspn(name, "=");
    const struct option *option = find(parse->table, name, length, 0);
    if (!option)
        return refuse_unknown(parse, name, length);
    return set_from(parse, option, name[length] ? name + length + 1 : NULL);
}

static int parse_short(struct parse *parse, const char *given)
{
    const struct option *option = find(parse->table, "", 0, *given);
    if (!option)
        return err_add_code(parse->err, EXIT_USAGE,
                            "unknown option '-%c'; --help lists the options", *given);
    return set_from(parse, option, given[1] ? given + 1 : NULL);
}

/* The first of @names, "trace|device=cuda", that was given; NULL: none. */
static const char *find_given(const struct texts *given, const char *names)
{
    for (const char *term = names; term; term = strchr(term, '|') ? strchr(term, '|') + 1 : NULL) {
        size_t length = strcspn(term, "|");
        for (int32_t i = 0; i < given->count; i++) {
            const char *word = given->item[i] + strlen("--");
            if (!strncmp(word, term, length) && (!word[length] || word[length] == '='))
                return term;
        }
    }
    return NULL;
}

/* Append @names, "--trace or --device=cuda", behind @before. */
static void add_names(struct text *out, const char *before, const char *names)
{
    text_add(out, "%s--", before);
    for (; *names; names++)
        text_add(out, *names == '|' ? " or --" : "%c", *names);
}

static int check_needs(const struct parse *parse)
{
    for (const struct option *option = parse->table; option->name; option++) {
        if (!find_given(parse->given, option->name))
            continue;
        const char *barred = find_given(parse->given, option->bars);
        if (barred)
            return err_add_code(parse->err, EXIT_USAGE, "--%s does not work with --%.*s",
                                option->name, (int)strcspn(barred, "|"), barred);
        if (!option->needs || find_given(parse->given, option->needs))
            continue;
        AUTORELEASE(text) struct text names = {0};
        add_names(&names, "", option->needs);
        return err_add_code(parse->err, EXIT_USAGE, "--%s has no effect without %s", option->name,
                            names.data);
    }
    return 0;
}

int option_parse(const struct option *table, int argc, char **argv, void *record,
                 struct texts *argument, struct texts *given, struct err *err)
{
    struct parse parse = {table, argv, argc, 0, record, given, err};
    bool ended = false;
    while (parse.next < argc) {
        const char *word = argv[parse.next++];
        int failed = 0;
        if (ended || word[0] != '-' || !word[1])
            texts_add(argument, "%s", word);
        else if (!strcmp(word, "--"))
            ended = true;
        else if (word[1] == '-')
            failed = parse_long(&parse, word + 2);
        else
            failed = parse_short(&parse, word + 1);
        if (failed)
            return -1;
    }
    return check_needs(&parse);
}

int option_claim(const struct option *table, const void *record, struct err *err)
{
    for (const struct option *option = table; option->name; option++) {
        if (option->kind != OPTION_OUTPUT && option->kind != OPTION_FOLDER)
            continue;
        const char *path = *(const char *const *)((const char *)record + option->offset);
        bool file = option->kind == OPTION_OUTPUT && (!path || !file_is_directory(path));
        if (claim_output(option->name, path, file ? NULL : option->holds, err))
            return -1;
    }
    return 0;
}

void option_release(const struct option *table, void *record)
{
    for (int32_t i = 0; table[i].name; i++)
        if (table[i].kind == OPTION_TEXTS || table[i].kind == OPTION_ASSIGN)
            texts_release((struct texts *)((char *)record + table[i].offset));
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
            text_add(out, "%-*s%s", HELP_COLUMN, left.data, table[i].help);
        else
            text_add(out, "%s\n%*s%s", left.data, HELP_COLUMN, "", table[i].help);
        if (table[i].needs)
            add_names(out, "; needs ", table[i].needs);
        if (table[i].bars)
            add_names(out, "; not with ", table[i].bars);
        text_add(out, "\n");
    }
}
