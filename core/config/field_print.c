#include "core/config/field_rows.h"

/* Call @visit for each member of @record, and those of the items of its lists, with its path. */
static void each_value(const struct field_table *table, const char *prefix, const void *record,
                       void (*visit)(void *context, const struct field *field, const char *path,
                                     const void *member),
                       void *context)
{
    for (const struct field *field = table->field; field < table->field + table->count; field++) {
        AUTOFREE char *path = path_join(prefix, field->path);
        const void *member = (const char *)record + field->offset;
        const struct field_list *list = member;
        if (field->kind != FIELD_LIST)
            visit(context, field, path, member);
        for (int32_t i = 0; field->kind == FIELD_LIST && i < list->count; i++) {
            AUTOFREE char *item = base_format("%s.%d", path, i);
            each_value(field->table, item, (const char *)list->item + i * field->table->size, visit,
                       context);
        }
    }
}

/* ---- explain ---- */

static void add_value(struct text *out, const struct field *field, const void *member)
{
    const struct quantity *quantity = member;
    switch (field->kind) {
    case FIELD_INTEGER:
        text_add(out, "%lld", (long long)*(const int64_t *)member);
        break;
    case FIELD_REAL:
        text_add(out, "%s", unit_text(field->unit, *(const double *)member));
        break;
    case FIELD_TEXT:
        text_add(out, "%s", *(char *const *)member);
        break;
    case FIELD_WORD:
        text_add(out, "%s", field->words[*(const int32_t *)member]);
        break;
    case FIELD_BOOLEAN:
        text_add(out, "%s", *(const bool *)member ? "true" : "false");
        break;
    case FIELD_QUANTITY:
        text_add(out, "%s (%s: %s)", unit_text(field->unit, quantity->value),
                 provenance_name(quantity->provenance), quantity->source);
        break;
    default:
        break;
    }
}

static void add_origin(struct text *out, const struct node *node)
{
    if (!node)
        text_add(out, "default");
    else if (node->origin.line == 0)
        text_add(out, "%s", node->origin.file);
    else
        text_add(out, "%s:%d:%d", node->origin.file, node->origin.line, node->origin.column);
}

/* True if the file has no value and the row has no default. */
static bool is_unset(const struct field *field, const struct node *node, const void *member)
{
    if (field->kind == FIELD_TEXT)
        return !*(char *const *)member;
    if (field->kind == FIELD_QUANTITY)
        return !((const struct quantity *)member)->source;
    return !node && !(field->fallback && *field->fallback);
}

/* Where explanations go, and what they are of. */
struct explaining {
    struct text *out;
    const struct node *root;
};

static void explain(const struct explaining *e, const char *path, const char *value,
                    const struct node *node)
{
    text_add(e->out, "%-36s  %-20s  ", path, value);
    add_origin(e->out, node);
    text_add(e->out, "\n");
}

static void explain_row(void *context, const struct field *field, const char *path,
                        const void *member)
{
    const struct explaining *e = context;
    const struct field_list *list = member;
    const struct node *node = field_origin(e->root, path);
    AUTORELEASE(text) struct text value = {0};
    for (int32_t i = 0; field->kind == FIELD_TEXTS && i < list->count; i++) {
        AUTOFREE char *item = base_format("%s.%d", path, i);
        explain(e, item, ((char *const *)list->item)[i], field_origin(e->root, item));
    }
    if (field->kind == FIELD_TEXTS || is_unset(field, node, member))
        return;
    add_value(&value, field, member);
    explain(e, path, value.data, node);
}

void field_explain(struct text *out, const struct field_table *table, const struct node *root,
                   const void *record)
{
    each_value(table, "", record, explain_row, &(struct explaining){out, root});
}

/* ---- values ---- */

static void put_value(void *out, const struct field *field, const char *path, const void *member)
{
    bool optional = field->fallback && !*field->fallback;
    const char *text = field->kind == FIELD_TEXT ? *(char *const *)member : NULL;
    int64_t integer = field->kind == FIELD_INTEGER ? *(const int64_t *)member : 0;
    double real = field->kind == FIELD_REAL ? *(const double *)member : 0;
    if (text)
        json_put_text(out, path, text);
    else if (field->kind == FIELD_INTEGER && !(optional && integer == 0))
        json_put_integer(out, path, integer);
    else if (field->kind == FIELD_REAL && !(optional && real == 0))
        json_put_real(out, path, real);
    else if (field->kind == FIELD_WORD)
        json_put_text(out, path, field->words[*(const int32_t *)member]);
    else if (field->kind == FIELD_BOOLEAN)
        json_put(out, path, json_new_boolean(*(const bool *)member));
}

struct json *field_values(const struct field_table *table, const void *record)
{
    struct json *out = json_new_object();
    each_value(table, "", record, put_value, out);
    return out;
}

/* ---- JSON Schema ---- */

static struct json *constant(const char *text)
{
    AUTORELEASE(err) struct err err = {0};
    return json_read("schema", text, (int64_t)strlen(text), &err);
}

/* A schema of one of two forms. */
static struct json *either(struct json *one, struct json *other)
{
    struct json *schema = json_new_object(), *forms = json_put_array(schema, "anyOf");
    json_append(forms, one);
    json_append(forms, other);
    return schema;
}

/* Of a mapping with @properties and no others. */
static struct json *mapping_of(struct json *properties)
{
    struct json *schema = json_new_object();
    json_put_text(schema, "type", "object");
    json_put(schema, "additionalProperties", json_new_boolean(false));
    json_put(schema, "properties", properties);
    return schema;
}

/* A value in a file has no type of its own (see yaml.h): the schema accepts "4" and 4. */
static void put_types(struct json *schema, const char *type, const char *pattern)
{
    struct json *types = json_put_array(schema, "type");
    json_append(types, json_new_text(type));
    if (strcmp(type, "string"))
        json_append(types, json_new_text("string"));
    json_put_text(schema, "pattern", pattern);
}

/* YAML reads a word of digits as a number, and true as a truth value. */
static void put_text(struct json *schema, const char *const *words)
{
    if (!words) {
        json_put_text(schema, "type", "string");
        json_put_integer(schema, "minLength", 1);
        return;
    }
    struct json *list = json_put_array(schema, "enum");
    for (; *words; words++) {
        json_append(list, json_new_text(*words));
        if (!(*words)[strspn(*words, "0123456789")])
            json_append(list, json_new_integer(atoi(*words)));
        if (!strcmp(*words, "true") || !strcmp(*words, "false"))
            json_append(list, json_new_boolean(**words == 't'));
    }
}

static void put_range(struct json *schema, const struct field *field)
{
    if (!field_has_range(field))
        return;
    json_put_real(schema, "minimum", field->minimum);
    json_put_real(schema, "maximum", field->maximum);
}

/* What a schema describes. */
struct form {
    bool whole;    /* else another file may supply required keys */
    bool unknowns; /* values may be unknown inputs */
};

static struct json *schema_object(const struct field_table *table, const char *prefix,
                                  struct form form);

static void put_real(struct json *schema, const struct field *field)
{
    AUTORELEASE(text) struct text pattern = {0};
    unit_pattern(&pattern, field->unit);
    put_types(schema, unit_allows_bare(field->unit) ? "number" : "string", pattern.data);
    put_range(schema, field);
}

static void put_list(struct json *schema, const struct field *field, struct form form)
{
    json_put_text(schema, "type", "array");
    if (field->kind == FIELD_LIST) {
        json_put(schema, "items",
                 schema_object(field->table, "", (struct form){true, form.unknowns}));
    } else {
        json_put(schema, "items", constant("{\"type\": \"string\"}"));
    }
    if (!field_has_range(field))
        return;
    json_put_integer(schema, "minItems", (int64_t)field->minimum);
    json_put_integer(schema, "maxItems", (int64_t)field->maximum);
}

/* The number alone, or with its source. */
static void put_quantity(struct json *schema, const struct field *field, struct form form)
{
    struct quantity_rows rows;
    quantity_rows_init(&rows, field);
    struct json *alone = json_new_object(), *forms = json_put_array(schema, "anyOf");
    put_real(alone, field);
    json_append(forms, alone);
    json_append(forms, schema_object(&rows.table, "", form));
}

static struct json *schema_value(const struct field *field, struct form form)
{
    struct json *schema = json_new_object();
    json_put_text(schema, "description", field->help);
    switch (field->kind) {
    case FIELD_INTEGER:
        put_types(schema, "integer", "^[-+]?[0-9]+$");
        put_range(schema, field);
        break;
    case FIELD_REAL:
        put_real(schema, field);
        break;
    case FIELD_QUANTITY:
        put_quantity(schema, field, form);
        break;
    case FIELD_TEXT:
    case FIELD_WORD:
        put_text(schema, field->words);
        break;
    case FIELD_BOOLEAN:
        put_types(schema, "boolean", "^(true|false)$");
        break;
    case FIELD_TEXTS:
    case FIELD_LIST:
        put_list(schema, field, form);
        break;
    default:
        break;
    }
    return schema;
}

/* Or what is known of @value, where that may stand in its place. */
static struct json *or_unknown(struct json *value, struct form form)
{
    return form.unknowns ? either(value, constant("{\"$ref\": \"#/$defs/unknown\"}")) : value;
}

static struct json *schema_row(const struct field *field, struct form form)
{
    return or_unknown(schema_value(field, form), form);
}

static bool is_required(const struct field_table *table, const char *path)
{
    const struct field *row = table_row(table, path);
    if (row)
        return !row->fallback;
    for (int32_t i = 0; i < table->count; i++)
        if (path_below(table->field[i].path, path) && !table->field[i].fallback)
            return true;
    return false;
}

static struct json *schema_key(const struct field_table *table, const char *path, struct form form)
{
    const struct field *row = table_row(table, path);
    if (!table_has_below(table, path))
        return schema_row(row, form);
    struct json *object = schema_object(table, path, form);
    return row ? either(schema_row(row, form), object) : or_unknown(object, form);
}

static struct json *schema_properties(const struct field_table *table, const char *prefix,
                                      struct form form)
{
    struct json *properties = json_new_object();
    AUTORELEASE(texts) struct texts keys = table_keys(table, prefix);
    for (int32_t i = 0; i < keys.count; i++) {
        AUTOFREE char *path = path_join(prefix, keys.item[i]);
        json_put(properties, keys.item[i], schema_key(table, path, form));
    }
    return properties;
}

static struct json *required_keys(const struct field_table *table, const char *prefix)
{
    struct json *required = json_new_array();
    AUTORELEASE(texts) struct texts keys = table_keys(table, prefix);
    for (int32_t i = 0; i < keys.count; i++) {
        AUTOFREE char *path = path_join(prefix, keys.item[i]);
        if (is_required(table, path))
            json_append(required, json_new_text(keys.item[i]));
    }
    return required;
}

/* The mapping at @prefix. */
static struct json *schema_object(const struct field_table *table, const char *prefix,
                                  struct form form)
{
    struct json *schema = mapping_of(schema_properties(table, prefix, form));
    if (form.whole)
        json_put(schema, "required", required_keys(table, prefix));
    return schema;
}

static struct json *schema_extending(const struct field_table *table, struct form form)
{
    struct json *path = constant(
        "{\"type\": \"string\", \"description\": \"another file, whose keys this one replaces\"}");
    struct json *properties = schema_properties(table, "", (struct form){false, form.unknowns});
    json_put(properties, "extends", path);
    return mapping_of(properties);
}

/* core/config/unknown.h in the words of a schema. */
static const char schema_unknown[] =
    "{\"description\": \"what is known of an input that nobody knows\", \"anyOf\": [{\"type\": "
    "\"object\", \"additionalProperties\": false, \"properties\": {\"low\": {}, \"high\": {}, "
    "\"source\": {}, \"kind\": {}}, \"required\": [\"low\", \"high\"]}, {\"type\": \"object\", "
    "\"additionalProperties\": false, \"properties\": {\"one_of\": {\"type\": \"array\", "
    "\"minItems\": 2}, \"source\": {}, \"kind\": {}}, \"required\": [\"one_of\"]}, {\"type\": "
    "\"object\", \"additionalProperties\": false, \"properties\": {\"value\": {}, \"spread\": {}}, "
    "\"required\": [\"value\", \"spread\"]}]}";

void field_schema(struct text *out, const struct field_table *table, bool unknowns)
{
    struct form form = {true, unknowns};
    AUTORELEASE(json) struct json *schema = json_new_object();
    json_put_text(schema, "$schema", "https://json-schema.org/draft/2020-12/schema");
    json_put_text(schema, "title", table->name);
    if (unknowns) {
        json_put(json_at(schema, "$defs"), "unknown", constant(schema_unknown));
    }
    json_put(schema, "if", constant("{\"required\": [\"extends\"]}"));
    json_put(schema, "then", schema_extending(table, form));
    json_put(schema, "else", schema_object(table, "", form));
    json_print(out, schema);
}

/* ---- help ---- */

static void add_type(struct text *out, const struct field *field)
{
    static const char *const types[] = {
        [FIELD_INTEGER] = "whole number",
        [FIELD_REAL] = "number",
        [FIELD_TEXT] = "text",
        [FIELD_WORD] = "word",
        [FIELD_BOOLEAN] = "true or false",
        [FIELD_QUANTITY] = "number, alone or with its source",
        [FIELD_TEXTS] = "list of texts",
        [FIELD_LIST] = "list",
    };
    if (field->words)
        for (const char *const *word = field->words; *word; word++)
            text_add(out, "%s%s", word == field->words ? "" : " | ", *word);
    else
        text_add(out, "%s", types[field->kind]);
    if (field->unit != UNIT_NONE)
        text_add(out, ", such as %s", unit_example(field->unit));
    if (!field->fallback)
        text_add(out, "; required");
    else if (*field->fallback)
        text_add(out, "; default %s", field->fallback);
}

static void help_rows(struct text *out, const struct field_table *table, const char *prefix)
{
    for (int32_t i = 0; i < table->count; i++) {
        const struct field *field = &table->field[i];
        AUTOFREE char *path = path_join(prefix, field->path);
        text_add(out, "%s\n    %s (", path, field->help);
        add_type(out, field);
        text_add(out, ")\n");
        if (field->kind == FIELD_LIST) {
            AUTOFREE char *items = base_format("%s[]", path);
            help_rows(out, field->table, items);
        }
    }
}

void field_help(struct text *out, const struct field_table *table)
{
    help_rows(out, table, "");
}
