#include "app/cli/command.h"
#include "core/platform/platform.h"
#include "core/platform/software.h"
#include "core/price/price.h"
#include "core/scenario/scenario.h"
#include "models/networks.h"

/* One value of an answer; the rows of one object stand together.  A name with a question mark may
 * be missing, a type with one may be null. */
struct row {
    const char *path; /* "rows[].error?" */
    const char *type; /* of JSON Schema: "number?" */
    const char *help; /* without full stop */
};

static bool same_name(const struct row *a, const struct row *b, size_t skip)
{
    size_t length = strcspn(a->path + skip, ".[?");
    return length == strcspn(b->path + skip, ".[?") &&
           !strncmp(a->path + skip, b->path + skip, length);
}

static void put_type(struct json *json, const char *type)
{
    size_t length = strcspn(type, "?");
    AUTOFREE char *name = base_format("%.*s", (int)length, type);
    if (type[length]) {
        struct json *both = json_put_array(json, "type");
        json_append(both, json_new_text(name));
        json_append(both, json_new_text("null"));
    } else {
        json_put_text(json, "type", name);
    }
}

/* The schema of all @row (@count) that share their first @skip characters. */
static struct json *describe(const struct row *row, int32_t count, size_t skip)
{
    struct json *json = json_new_object();
    skip += row->path[skip] == '?';
    const char *rest = row->path + skip;
    if (!*rest) {
        put_type(json, row->type);
        json_put_text(json, "description", row->help);
    } else if (*rest == '[') {
        json_put_text(json, "type", "array");
        json_put(json, "items", describe(row, count, skip + strlen("[]")));
    } else {
        skip += *rest == '.';
        struct json *properties = json_new_object();
        struct json *required = json_new_array();
        for (int32_t begin = 0, end; begin < count; begin = end) {
            for (end = begin + 1; end < count && same_name(&row[begin], &row[end], skip);)
                end++;
            size_t length = strcspn(row[begin].path + skip, ".[?");
            AUTOFREE char *name = base_format("%.*s", (int)length, row[begin].path + skip);
            json_put(properties, name, describe(&row[begin], end - begin, skip + length));
            if (row[begin].path[skip + length] != '?')
                json_append(required, json_new_text(name));
        }
        json_put_text(json, "type", "object");
        json_put(json, "properties", properties);
        json_put(json, "required", required);
    }
    return json;
}

static void print_answer_schema(struct text *out, const struct row *row, int32_t count)
{
    AUTORELEASE(json) struct json *json = describe(row, count, 0);
    json_put_text(json, "$schema", "https://json-schema.org/draft/2020-12/schema");
    json_put_text(json, "title", row->help);
    json_print(out, json);
}

/* ---- kinds by name ---- */

/* What has a schema: a file, or an answer as rows. */
struct kind {
    char *name;                     /* owned */
    const struct field_table *file; /* or NULL */
    struct row *row;                /* (count) owned, with its texts */
    int32_t count;
};

struct kinds {
    struct kind *kind;
    int32_t count;
};

static struct kind *add_kind(struct kinds *kinds, const char *name, size_t length)
{
    struct kind *kind = &BASE_NEXT(kinds->kind, kinds->count);
    *kind = (struct kind){.name = base_format("%.*s", (int)length, name)};
    return kind;
}

static void add_row(void *context, const char *path, const char *type, const char *help)
{
    struct kind *kind = context;
    BASE_NEXT(kind->row, kind->count) =
        (struct row){base_copy(path), base_copy(type), base_copy(help)};
}

static void add_commands(struct kinds *kinds, const struct command *const *command)
{
    for (; command && *command; command++) {
        const struct answer_columns *const *answer = (*command)->answers;
        for (; answer && *answer; answer++)
            answer_describe(*answer, add_row,
                            add_kind(kinds, (*answer)->name, strcspn((*answer)->name, "/")));
        add_commands(kinds, (*command)->sub);
    }
}

static struct kinds list_kinds(void)
{
    static const struct field_table *const files[] = {&scenario_table, &platform_table,
                                                      &device_table,   &software_table,
                                                      &price_table,    &network_table};
    struct kinds kinds = {NULL, 0};
    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        add_kind(&kinds, files[i]->name, strlen(files[i]->name))->file = files[i];
    add_commands(&kinds, command_foretrain.sub);
    return kinds;
}

static void kinds_release(struct kinds *kinds)
{
    for (struct kind *kind = kinds->kind; kind < kinds->kind + kinds->count; kind++) {
        for (int32_t i = 0; i < kind->count; i++) {
            free((void *)(uintptr_t)kind->row[i].path);
            free((void *)(uintptr_t)kind->row[i].type);
            free((void *)(uintptr_t)kind->row[i].help);
        }
        free(kind->row);
        free(kind->name);
    }
    free(kinds->kind);
}

/* ---- the command ---- */

struct schema_request {
    struct request head;
    bool keys;
};

static int unknown(const struct kinds *kinds, const char *given, struct err *err)
{
    AUTOFREE const char **words = base_alloc(kinds->count + 1, sizeof(*words));
    for (int32_t i = 0, count = 0; i < kinds->count; i++)
        if (base_find_word(kinds->kind[i].name, words) < 0) /* commands share some */
            words[count++] = kinds->kind[i].name;
    return option_unknown(err, "schema", given, words);
}

static void print(struct text *out, const struct kind *kind)
{
    if (kind->file)
        field_schema(out, kind->file,
                     kind->file != &software_table && kind->file != &network_table);
    else
        print_answer_schema(out, kind->row, kind->count);
}

static int schema(const void *record, struct text *out, struct err *err)
{
    const struct schema_request *request = record;
    AUTORELEASE(kinds) struct kinds kinds = list_kinds();
    const char *given = request->head.argument.item[0];
    int32_t i = 0;
    while (i < kinds.count && strcmp(kinds.kind[i].name, given) != 0)
        i++;
    if (i == kinds.count)
        return unknown(&kinds, given, err);
    if (request->keys && !kinds.kind[i].file)
        return err_usage(err, "--keys: '%s' is an answer, which nobody writes", given);
    if (request->keys)
        field_help(out, kinds.kind[i].file);
    else
        print(out, &kinds.kind[i]);
    return 0;
}

#define AT(member) offsetof(struct schema_request, member)

static const struct option options[] = {
    OPTION_ROW("keys", 0, OPTION_FLAG, AT(keys), .help = "Print the keys of a file as text"),
    ROW_LAST};

const struct command command_schema = {
    .name = "schema",
    .synopsis = "KIND [options]",
    .help = "the JSON Schema of a file or of a command's answer, for editors and programs",
    .examples = "foretrain schema scenario > foretrain.schema.json",
    RECORD(options, struct schema_request, NULL),
    TAKES(1, 1),
    .run = schema,
};
