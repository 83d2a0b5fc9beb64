#include "core/config/field_rows.h"

static const char *const provenance_names[] = {"measured", "datasheet", "published", "assumed",
                                               NULL};
static_assert(ARRAY_SIZE(provenance_names) == PROVENANCE_COUNT + 1, "one word per provenance");

const char *provenance_name(enum provenance provenance)
{
    return provenance_names[provenance];
}

#define MEMBER(name) offsetof(struct quantity, name)

void quantity_rows_init(struct quantity_rows *rows, const struct field *field)
{
    *rows = (struct quantity_rows){
        .field = {{"value", FIELD_REAL, field->unit, MEMBER(value), .minimum = field->minimum,
                   .maximum = field->maximum, .help = "the number with its unit"},
                  {"source", FIELD_TEXT, .offset = MEMBER(source),
                   .help = "where the number comes from"},
                  {"kind", FIELD_WORD, .offset = MEMBER(provenance), .words = provenance_names,
                   .help = "how the number was obtained"},
                  {"spread", FIELD_REAL, UNIT_FRACTION, MEMBER(spread), "", .maximum = 10,
                   .help = "its standard deviation, relative, where more than is usual for its "
                           "kind"}},
        .table = {"quantity", rows->field, 4, sizeof(struct quantity)}};
}

char *path_join(const char *prefix, const char *path)
{
    return base_format("%s%s%s", prefix, *prefix && *path ? "." : "", path);
}

const char *path_below(const char *path, const char *prefix)
{
    size_t length = strlen(prefix);
    if (length == 0)
        return path;
    return strncmp(path, prefix, length) == 0 && path[length] == '.' ? path + length + 1 : NULL;
}

bool table_has_below(const struct field_table *table, const char *path)
{
    for (int32_t i = 0; i < table->count; i++)
        if (path_below(table->field[i].path, path))
            return true;
    return false;
}

const struct field *table_row(const struct field_table *table, const char *path)
{
    for (int32_t i = 0; i < table->count; i++)
        if (strcmp(table->field[i].path, path) == 0)
            return &table->field[i];
    return NULL;
}

const struct field *table_shorthand(const struct field_table *table, const char *path)
{
    for (int32_t i = 0; i < table->count; i++)
        if (path_below(path, table->field[i].path))
            return &table->field[i];
    return NULL;
}

static bool holds(const struct texts *keys, const char *key, size_t length)
{
    for (int32_t i = 0; i < keys->count; i++)
        if (strlen(keys->item[i]) == length && strncmp(keys->item[i], key, length) == 0)
            return true;
    return false;
}

struct texts table_keys(const struct field_table *table, const char *prefix)
{
    struct texts keys = {0};
    for (int32_t i = 0; i < table->count; i++) {
        const char *rest = path_below(table->field[i].path, prefix);
        size_t length = rest ? strcspn(rest, ".") : 0;
        if (rest && !holds(&keys, rest, length))
            texts_add(&keys, "%.*s", (int)length, rest);
    }
    return keys;
}

bool field_has_range(const struct field *field)
{
    return field->minimum != 0 || field->maximum != 0;
}

/* The rows that are required; of a table without any the first. */
static void example_record(struct text *out, const struct field_table *table)
{
    const char *separator = "";
    bool required = false;
    for (int32_t i = 0; i < table->count; i++)
        required = required || !table->field[i].fallback;
    text_add(out, "{");
    for (int32_t i = 0; i < table->count; i++) {
        if (required ? table->field[i].fallback != NULL : i > 0)
            continue;
        text_add(out, "%s%s: ", separator, table->field[i].path);
        field_example(out, &table->field[i]);
        separator = ", ";
    }
    text_add(out, "}");
}

void field_example(struct text *out, const struct field *field)
{
    struct quantity_rows rows;
    switch (field->kind) {
    case FIELD_INTEGER:
        text_add(out, "%.0f", field->minimum > 1 ? field->minimum : 1);
        break;
    case FIELD_REAL:
        text_add(out, "%s", unit_example(field->unit));
        break;
    case FIELD_TEXT:
    case FIELD_WORD:
        text_add(out, "%s", field->words ? field->words[0] : "...");
        break;
    case FIELD_BOOLEAN:
        text_add(out, "true");
        break;
    case FIELD_QUANTITY:
        quantity_rows_init(&rows, field);
        example_record(out, &rows.table);
        break;
    case FIELD_TEXTS:
        text_add(out, "[...]");
        break;
    case FIELD_LIST:
        text_add(out, "[");
        example_record(out, field->table);
        text_add(out, "]");
        break;
    case FIELD_KIND_COUNT:
        break;
    }
}
