#include "core/config/field.h"

#include "core/config/field_rows.h"

/* One record being read from one mapping. */
struct reading {
    const struct field_table *table;
    const struct node *root;
    const char *prefix; /* the place of the mapping: "training.phases[0]" */
    char *record;
    int32_t *plain; /* quantities without a source, counted over all records */
    struct err *err;
};

static int read_record(struct reading *reading);

/* ---- nodes ---- */

static const struct node *step_down(const struct node *node, const char *key, size_t length)
{
    for (int32_t i = 0; i < node->child_count; i++) {
        const struct node *child = node->child[i];
        if (child->key && strlen(child->key) == length && memcmp(child->key, key, length) == 0)
            return child;
    }
    return NULL;
}

/* Follow @path as far as the file has it; *rest is the remaining part, NULL if all was found. */
static const struct node *walk_down(const struct node *node, const char *path, const char **rest)
{
    while (*path) {
        size_t length = strcspn(path, ".");
        const struct node *child = step_down(node, path, length);
        if (!child) {
            *rest = path;
            return node;
        }
        node = child;
        path += length + (path[length] == '.');
    }
    *rest = NULL;
    return node;
}

/* Whether @node was an unknown input with its source, and is now {value, source, kind}. */
static bool is_sourced(const struct node *node)
{
    const struct node *value = node_get(node, "value");
    return node->drawn && value && value->drawn;
}

static const char *kind_phrase(const struct node *node)
{
    static const char *const phrases[] = {"a single value", "a list", "a mapping of keys"};
    return is_sourced(node) ? "one value with its source" : phrases[node->kind];
}

static int wrong_kind(const struct reading *reading, const struct field *field,
                      const struct node *node, const char *expected)
{
    AUTORELEASE(text) struct text example = {0};
    field_example(&example, field);
    AUTOFREE char *path = path_join(reading->prefix, field->path);
    return origin_error(&node->origin, reading->err, "%s takes %s, not %s, for example: %s", path,
                        expected, kind_phrase(node), example.data);
}

/* Read @node as one value of the type of @field. */
static int read_single(const struct reading *reading, const struct field *field,
                       const struct node *node, void *member)
{
    if (node->kind != NODE_SCALAR)
        return wrong_kind(reading, field, node, "a single value");
    AUTORELEASE(err) struct err err = {0};
    if (field_read_scalar(field, node->text, member, &err) == 0)
        return 0;
    return origin_error(&node->origin, reading->err, "%s", err_reason(&err));
}

/* "12.5 GB/s" alone, or with the source of a number that an assignment has replaced. */
static void assume(const struct reading *reading, const struct node *node,
                   struct quantity *quantity)
{
    bool assigned = node->origin.line == 0;
    free(quantity->source);
    quantity->source = base_copy(node->drawn ? "an unknown input"
                                 : assigned  ? "--set"
                                             : "none given");
    quantity->provenance = PROVENANCE_ASSUMED;
    *reading->plain += !assigned && !node->drawn;
}

static int read_quantity(const struct reading *reading, const struct field *field,
                         const struct node *node, struct quantity *quantity)
{
    if (node->kind == NODE_SEQUENCE)
        return wrong_kind(reading, field, node, "a number, alone or with its source");
    struct quantity_rows rows;
    quantity_rows_init(&rows, field);
    quantity->path = path_join(reading->prefix, field->path);
    quantity->drawn = node->drawn;
    if (node->kind == NODE_SCALAR) {
        assume(reading, node, quantity);
        return read_single(reading, &rows.field[0], node, &quantity->value);
    }
    int failed = read_record(&(struct reading){&rows.table, node, quantity->path, (char *)quantity,
                                               reading->plain, reading->err});
    if (!failed && node_get(node, "value")->origin.line == 0 &&
        node_get(node, "source")->origin.line > 0)
        assume(reading, node_get(node, "value"), quantity);
    return failed;
}

static int check_length(const struct reading *reading, const struct field *field,
                        const struct node *node)
{
    double count = node->child_count;
    if (!field_has_range(field) || (count >= field->minimum && count <= field->maximum))
        return 0;
    return origin_error(&node->origin, reading->err, "%s has %d items; it must have %.0f to %.0f",
                        field->path, node->child_count, field->minimum, field->maximum);
}

static int read_item(const struct reading *reading, const struct field *field,
                     const struct node *node, int32_t index, char *record)
{
    if (node->kind != NODE_MAPPING)
        return wrong_kind(reading, field, node, "mappings");
    AUTOFREE char *place = base_format("%s[%d]", field->path, index);
    AUTOFREE char *prefix = path_join(reading->prefix, place);
    return read_record(
        &(struct reading){field->table, node, prefix, record, reading->plain, reading->err});
}

static int read_list(const struct reading *reading, const struct field *field,
                     const struct node *node, struct field_list *list)
{
    if (node->kind != NODE_SEQUENCE)
        return wrong_kind(reading, field, node, "a list");
    int result = check_length(reading, field, node);
    bool texts = field->kind == FIELD_TEXTS;
    size_t size = texts ? sizeof(char *) : field->table->size;
    list->count = node->child_count;
    list->item = base_alloc(list->count, size);
    const struct field text = {.path = field->path, .kind = FIELD_TEXT, .words = field->words};
    for (int32_t i = 0; i < list->count; i++) {
        char *item = (char *)list->item + (size_t)i * size;
        result |= texts ? read_single(reading, &text, node->child[i], item)
                        : read_item(reading, field, node->child[i], i, item);
    }
    return result;
}

static int read_node(const struct reading *reading, const struct field *field,
                     const struct node *node)
{
    void *member = reading->record + field->offset;
    switch (field->kind) {
    case FIELD_QUANTITY:
        return read_quantity(reading, field, node, member);
    case FIELD_TEXTS:
    case FIELD_LIST:
        return read_list(reading, field, node, member);
    default:
        return read_single(reading, field, node, member);
    }
}

/* ---- keys ---- */

/* True when a key of @mapping, which stands at @prefix, is unknown and looks like a misspelt @key:
 * then that is reported, and @key is not reported as missing. */
static bool is_misspelt(const struct reading *reading, const struct node *mapping,
                        const char *prefix, const char *key)
{
    bool misspelt = false;
    const char *const words[] = {key, NULL};
    for (int32_t i = 0; i < mapping->child_count && !misspelt; i++) {
        AUTOFREE char *path = path_join(prefix, mapping->child[i]->key);
        misspelt = !table_row(reading->table, path) && !table_has_below(reading->table, path) &&
                   base_nearest(mapping->child[i]->key, words);
    }
    return misspelt;
}

/* @rest, the end of the row's path, is missing in the mapping @deepest. */
static int missing_key(const struct reading *reading, const struct field *field,
                       const struct node *deepest, const char *rest)
{
    int32_t found = (int32_t)(rest - field->path); /* with the dot after it */
    AUTOFREE char *prefix = base_format("%.*s", found > 0 ? found - 1 : 0, field->path);
    AUTOFREE char *key = base_format("%.*s", (int)strcspn(rest, "."), rest);
    AUTOFREE char *path = path_join(reading->prefix, field->path);
    AUTORELEASE(text) struct text example = {0};
    field_example(&example, field);
    if (!is_misspelt(reading, deepest, prefix, key)) {
        const char *dot = strrchr(field->path, '.');
        origin_error(deepest->key ? &deepest->key_origin : &deepest->origin, reading->err,
                     "missing key '%s' (%s), for example '%s: %s'", path, field->help,
                     dot ? dot + 1 : field->path, example.data);
    }
    return -1;
}

/* Whether @mapping is one value where keys belong. */
static bool is_no_record(const struct reading *reading, const struct node *mapping)
{
    return is_sourced(mapping) && !table_row(reading->table, "value");
}

static int read_default(const struct reading *reading, const struct field *field,
                        const struct node *deepest, const char *rest)
{
    if (field->fallback) {
        struct err err = {0};
        if (*field->fallback &&
            field_read_scalar(field, field->fallback, reading->record + field->offset, &err))
            assert(!"the default of a row is wrong");
        return 0;
    }
    /* a shorthand, or reported with the unknown keys */
    if (deepest->kind != NODE_MAPPING || is_no_record(reading, deepest))
        return 0;
    const struct field *shorthand = table_shorthand(reading->table, field->path);
    if (shorthand) {
        const char *left;
        walk_down(reading->root, shorthand->path, &left);
        if (left) /* neither form was chosen: only the shorthand is reported */
            return 0;
    }
    return missing_key(reading, field, deepest, rest);
}

static int read_row(const struct reading *reading, const struct field *field)
{
    const char *rest;
    const struct node *node = walk_down(reading->root, field->path, &rest);
    if (rest)
        return read_default(reading, field, node, rest);
    if (node->kind == NODE_MAPPING && table_has_below(reading->table, field->path))
        return 0; /* the longer form was chosen */
    return read_node(reading, field, node);
}

/* The paths that end in @key: "nodes" is "cluster.nodes" or "baseline.nodes".  Whether there is
 * one.
 */
static bool suggest_below(struct text *message, const struct field_table *table, const char *key)
{
    int32_t found = 0;
    for (int32_t i = 0; i < table->count; i++) {
        const char *dot = strrchr(table->field[i].path, '.');
        if (dot && !strcmp(dot + 1, key))
            text_add(message, "%s'%s'", found++ ? " or " : "; did you mean ", table->field[i].path);
    }
    text_add(message, "%s", found ? "?" : "");
    return found > 0;
}

static int unknown_key(const struct reading *reading, const struct node *child, const char *prefix)
{
    AUTOFREE char *folder = path_join(reading->prefix, prefix);
    AUTORELEASE(texts) struct texts keys = table_keys(reading->table, prefix);
    const char *nearest = base_nearest(child->key, keys.item);
    AUTORELEASE(text) struct text message = {0};
    text_add(&message, "unknown key '%s'", child->key);
    if (*folder)
        text_add(&message, " in %s", folder);
    if (nearest)
        text_add(&message, "; did you mean '%s'?", nearest);
    else if (*folder || !suggest_below(&message, reading->table, child->key))
        text_add(&message, "; known here:");
    for (int32_t i = 0; i < keys.count && message.data[message.length - 1] != '?'; i++)
        text_add(&message, "%s %s", i ? "," : "", keys.item[i]);
    return origin_error(&child->key_origin, reading->err, "%s", message.data);
}

static int not_a_mapping(const struct reading *reading, const struct node *child, const char *path)
{
    AUTORELEASE(texts) struct texts keys = table_keys(reading->table, path);
    AUTOFREE char *whole = path_join(reading->prefix, path);
    return origin_error(&child->origin, reading->err, "%s takes keys such as '%s', not %s", whole,
                        keys.item[0], kind_phrase(child));
}

static int check_keys(const struct reading *reading, const struct node *mapping,
                      const char *prefix);

static int check_key(const struct reading *reading, const struct node *child, const char *prefix)
{
    AUTOFREE char *path = path_join(prefix, child->key);
    bool dotted = strchr(child->key, '.'); /* "a.b: 1" does not mean a: {b: 1} */
    bool below = !dotted && table_has_below(reading->table, path);
    if (below && child->kind == NODE_MAPPING)
        return check_keys(reading, child, path);
    if (!dotted && table_row(reading->table, path))
        return 0;
    return below ? not_a_mapping(reading, child, path) : unknown_key(reading, child, prefix);
}

static int check_keys(const struct reading *reading, const struct node *mapping, const char *prefix)
{
    int result = 0;
    if (is_no_record(reading, mapping))
        return not_a_mapping(reading, mapping, prefix);
    for (int32_t i = 0; i < mapping->child_count; i++)
        result |= check_key(reading, mapping->child[i], prefix);
    return result;
}

static int read_record(struct reading *reading)
{
    int result = check_keys(reading, reading->root, "");
    for (int32_t i = 0; i < reading->table->count; i++)
        result |= read_row(reading, &reading->table->field[i]);
    return result;
}

int field_read(const struct field_table *table, const struct node *root, void *record,
               struct err *err)
{
    int32_t plain = 0;
    int failed = read_record(&(struct reading){
        .table = table, .root = root, .prefix = "", .record = record, .plain = &plain, .err = err});
    if (plain > 0 && !failed)
        err_warn(err, "%s: warning: %d number%s without a source count%s as assumed",
                 root->origin.file, plain, base_plural(plain), plain > 1 ? "" : "s");
    return failed;
}

/* The row at @path, which may lead into items of lists; or NULL. */
static const struct field *row_within(const struct field_table *table, const char *path)
{
    for (int32_t i = 0; i < table->count; i++) {
        const struct field *field = &table->field[i];
        size_t length = strlen(field->path);
        if (field->kind == FIELD_LIST && !strncmp(path, field->path, length) && path[length]) {
            const char *rest = path + length + 1; /* the index, "0].epochs" or "0.epochs" */
            rest += strcspn(rest, ".");
            return *rest ? row_within(field->table, rest + 1) : NULL;
        }
    }
    return table_row(table, path);
}

int field_check_text(const struct field_table *table, const char *path, const char *text,
                     struct err *err)
{
    const struct field *field = row_within(table, path);
    union {
        int64_t integer;
        double real;
        char *text;
        int32_t word;
        bool boolean;
    } value = {0};
    if (!field || field->kind >= FIELD_QUANTITY)
        return 0;
    int failed = field_read_scalar(field, text, &value, err);
    if (!failed && field->kind == FIELD_TEXT)
        free(value.text);
    return failed;
}

static void release_list(const struct field *field, struct field_list *list)
{
    for (int32_t i = 0; i < list->count; i++) {
        if (field->kind == FIELD_TEXTS)
            free(((char **)list->item)[i]);
        else
            field_release(field->table, (char *)list->item + (size_t)i * field->table->size);
    }
    free(list->item);
    *list = (struct field_list){0};
}

static void release_member(const struct field *field, void *member)
{
    struct quantity *quantity = member;
    switch (field->kind) {
    case FIELD_TEXT:
        free(*(char **)member);
        *(char **)member = NULL;
        break;
    case FIELD_QUANTITY:
        free(quantity->source);
        free(quantity->path);
        *quantity = (struct quantity){0};
        break;
    case FIELD_TEXTS:
    case FIELD_LIST:
        release_list(field, member);
        break;
    default:
        break;
    }
}

void field_release(const struct field_table *table, void *record)
{
    for (int32_t i = 0; i < table->count; i++)
        release_member(&table->field[i], (char *)record + table->field[i].offset);
}

const struct node *field_origin(const struct node *root, const char *path)
{
    const struct node *node = root;
    while (node && *path) {
        size_t length = strcspn(path, ".");
        if (node->kind == NODE_SCALAR)
            return node; /* a shorthand for all keys below */
        if (node->kind == NODE_SEQUENCE) {
            long index = strtol(path, NULL, 10);
            node = index >= 0 && index < node->child_count ? node->child[index] : NULL;
        } else {
            node = step_down(node, path, length);
        }
        path += length + (path[length] == '.');
    }
    return node;
}
