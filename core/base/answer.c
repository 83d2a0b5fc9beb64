#include "core/base/answer.h"

#include "config.h"

/* The types of JSON Schema. */
static const char *const types[] = {
    [COLUMN_REAL] = "number",      [COLUMN_RANGE] = "number",    [COLUMN_INTEGER] = "integer",
    [COLUMN_COUNT] = "integer",    [COLUMN_BOOLEAN] = "boolean", [COLUMN_HASH] = "string",
    [COLUMN_TEXT] = "string",      [COLUMN_CHARS] = "string",    [COLUMN_JSON] = "object",
    [COLUMN_LINES] = "string",     [COLUMN_TEXTS] = "string",    [COLUMN_REALS] = "number",
    [COLUMN_INTEGERS] = "integer", [COLUMN_COUNTS] = "integer",  [COLUMN_LIST] = "object",
};

void answer_add_row(struct answer_rows *rows, struct answer_column row)
{
    assert(rows->count < (int32_t)ARRAY_SIZE(rows->row));
    rows->row[rows->count++] = row;
}

static struct answer_rows rows_of(const struct answer_columns *columns)
{
    struct answer_rows rows = {.count = 0};
    columns->list(&rows, NULL);
    return rows;
}

static bool is_list(const struct answer_column *column)
{
    return column->kind == COLUMN_LINES || column->kind == COLUMN_TEXTS ||
           column->kind == COLUMN_REALS || column->kind == COLUMN_INTEGERS ||
           column->kind == COLUMN_COUNTS || column->kind == COLUMN_LIST;
}

static bool has_interval(const struct answer_column *column)
{
    return column->likely || column->kind == COLUMN_RANGE;
}

static bool may_be_null(const struct answer_column *column)
{
    return column->null || column->zero || column->negative;
}

/* ---- names ---- */

/* How names end: what stands for that in a heading, and the unit. */
static const struct ending {
    const char *end, *label;
    enum unit unit;
} endings[] = {
    {"images_per_s", "throughput", UNIT_IMAGES_PER_SECOND},
    {"samples_per_s", "throughput", UNIT_SAMPLES_PER_SECOND},
    {"_bytes_per_s", "", UNIT_BYTES_PER_SECOND},
    {"bytes_per_s", "traffic", UNIT_BYTES_PER_SECOND},
    {"flops_per_s", "speed", UNIT_FLOPS},
    {"bandwidth", "bandwidth", UNIT_BYTES_PER_SECOND},
    {"_s", "", UNIT_SECONDS},
    {"_bytes", "", UNIT_BYTES},
    {"bytes", "size", UNIT_BYTES},
    {"_share", "", UNIT_FRACTION},
    {"share", "share", UNIT_FRACTION},
    {"efficiency", "efficiency", UNIT_FRACTION},
    {"error", "error", UNIT_FRACTION},
    {"accuracy", "accuracy", UNIT_FRACTION},
    {"target", "target", UNIT_FRACTION},
    {"mfu", "MFU", UNIT_FRACTION},
    {"top1", "top-1", UNIT_FRACTION},
    {"top5", "top-5", UNIT_FRACTION},
    {"_kwh", ", kWh", UNIT_NONE},
    {"_kg", ", kg", UNIT_NONE},
    {"_hours", "-hours", UNIT_NONE},
    {"backend", "back end", UNIT_NONE},
    {"", "", UNIT_NONE},
};

/* The first that fits @key, whose _low and _high are as itself; @rest: the characters before it. */
static const struct ending *ending_of(const char *key, size_t *rest)
{
    size_t length = strlen(key), end;
    length -= length > 4 && !strcmp(key + length - 4, "_low") ? 4 : 0;
    length -= length > 5 && !strcmp(key + length - 5, "_high") ? 5 : 0;
    const struct ending *ending = endings;
    while ((end = strlen(ending->end)) > length || strncmp(key + length - end, ending->end, end))
        ending++;
    *rest = length - end;
    return ending;
}

enum unit answer_unit(const char *key)
{
    size_t rest;
    return ending_of(key, &rest)->unit;
}

char *answer_label(const char *key)
{
    size_t rest;
    const struct ending *ending = ending_of(key, &rest);
    char *label = base_format("%.*s%s", (int)rest, key, ending->label);
    for (size_t i = 0; i < rest; i++)
        label[i] = label[i] == '_' ? ' ' : label[i];
    return label;
}

/* ---- values ---- */

/* What @record holds at @offset. */
#define AT(type, offset) (*(type const *)(const void *)((const char *)record + (offset)))

static bool is_none(const struct answer_column *column, double value)
{
    return (column->zero && value == 0) || (column->negative && value < 0);
}

static struct json *integer(const struct answer_column *column, int64_t value)
{
    return is_none(column, (double)value) ? json_new_text(NULL) : json_new_integer(value);
}

static struct json *hash(uint64_t value)
{
    AUTOFREE char *digits = base_format("%016" PRIx64, value);
    return json_new_text(digits);
}

static struct json *item(const struct answer_column *column, const void *list, int64_t index)
{
    switch (column->kind) {
    case COLUMN_TEXTS:
        return json_new_text(((char *const *)list)[index]);
    case COLUMN_REALS:
        return json_new_real(((const double *)list)[index]);
    case COLUMN_INTEGERS:
        return json_new_integer(((const int64_t *)list)[index]);
    case COLUMN_COUNTS:
        return json_new_integer(((const int32_t *)list)[index]);
    default:
        break;
    }
    struct json *object = json_new_object();
    answer_put(object, column->table, (const char *)list + (size_t)index * column->table->size);
    return object;
}

static struct json *items(const struct answer_column *column, const void *record)
{
    const void *list =
        column->inside ? (const char *)record + column->offset : AT(void *, column->offset);
    if (!list && column->absent)
        return json_new_text(NULL);
    int64_t count = column->items  ? column->items
                    : column->wide ? AT(int64_t, column->count)
                                   : AT(int32_t, column->count);
    struct json *json = json_new_array();
    for (int64_t i = 0; i < count; i++)
        json_append(json, item(column, list, i));
    return json;
}

static struct json *lines(const struct text *text)
{
    struct json *json = json_new_array();
    for (const char *line = text->data; line && *line;) {
        size_t length = strcspn(line, "\n");
        AUTOFREE char *copy = base_format("%.*s", (int)length, line);
        json_append(json, json_new_text(copy));
        line += length + (line[length] == '\n');
    }
    return json;
}

static struct json *text(const struct answer_column *column, const char *value)
{
    return json_new_text(column->zero && value && !*value ? NULL : value);
}

static struct json *value(const struct answer_column *column, const void *record)
{
    switch (column->kind) {
    case COLUMN_REAL:
        return json_new_real(
            is_none(column, AT(double, column->offset)) ? NAN : AT(double, column->offset));
    case COLUMN_RANGE:
        return json_new_real(AT(struct range, column->offset).value);
    case COLUMN_INTEGER:
        return integer(column, AT(int64_t, column->offset));
    case COLUMN_COUNT:
        return column->words ? text(column, column->words[AT(int32_t, column->offset)])
                             : integer(column, AT(int32_t, column->offset));
    case COLUMN_BOOLEAN:
        return json_new_boolean(AT(bool, column->offset));
    case COLUMN_HASH:
        return hash(AT(uint64_t, column->offset));
    case COLUMN_TEXT:
        return text(column, AT(char *, column->offset));
    case COLUMN_CHARS:
        return text(column, (const char *)record + column->offset);
    case COLUMN_LINES:
        return lines(&AT(struct text, column->offset));
    case COLUMN_JSON:
        return json_share(AT(struct json *, column->offset));
    default:
        return items(column, record);
    }
}

static struct interval interval_of(const struct answer_column *column, const void *record)
{
    if (column->likely)
        return AT(struct interval, column->likely);
    struct range range = AT(struct range, column->offset);
    return (struct interval){range.low, range.high};
}

/* The object of @key's last part, which @key then points to. */
static struct json *inside(struct json *object, const char **key)
{
    for (const char *dot; (dot = strchr(*key, '.')) != NULL; *key = dot + 1) {
        AUTOFREE char *name = base_format("%.*s", (int)(dot - *key), *key);
        object = json_at(object, name);
    }
    return object;
}

static void put_column(struct json *object, const struct answer_column *column, const void *record)
{
    const char *key = column->key;
    struct json *json = value(column, record);
    if (json_is_nothing(json) && column->absent) {
        json_free(json);
        return;
    }
    assert(!json_is_nothing(json) || may_be_null(column));
    object = inside(object, &key);
    json_put(object, key, json);
    if (!has_interval(column))
        return;
    struct interval likely = interval_of(column, record);
    AUTOFREE char *low = base_format("%s_low", key), *high = base_format("%s_high", key);
    json_put_real(object, low, likely.low);
    json_put_real(object, high, likely.high);
}

/* The record inside @record that @column describes, or NULL. */
static const void *inner(const struct answer_column *column, const void *record)
{
    return column->kind == COLUMN_POINTER ? AT(void *, column->offset)
                                          : (const char *)record + column->offset;
}

static bool is_inside(const struct answer_column *column)
{
    return column->kind == COLUMN_RECORD || column->kind == COLUMN_POINTER;
}

void answer_put(struct json *object, const struct answer_columns *columns, const void *record)
{
    const struct answer_rows rows = rows_of(columns);
    for (const struct answer_column *c = rows.row; c < rows.row + rows.count; c++) {
        if (!is_inside(c))
            put_column(object, c, record);
        else if (inner(c, record))
            answer_put(*c->key ? json_at(object, c->key) : object, c->table, inner(c, record));
    }
}

struct json *answer_json(const struct answer_columns *columns, const void *record)
{
    struct json *json = json_new_object();
    AUTOFREE char *schema = base_format("foretrain/%s", columns->name);
    json_put_text(json, "schema", schema);
    json_put_text(json, "version", FORETRAIN_VERSION);
    answer_put(json, columns, record);
    return json;
}

void answer_print(struct text *out, const struct answer_columns *columns, const void *record)
{
    AUTORELEASE(json) struct json *json = answer_json(columns, record);
    json_print(out, json);
}

struct json *answer_list(const struct answer_columns *columns, const void *list, int64_t count)
{
    struct json *json = json_new_array();
    for (int64_t i = 0; i < count; i++)
        answer_put(json_append_object(json), columns,
                   (const char *)list + (size_t)i * columns->size);
    return json;
}

/* ---- the inverse ---- */

/* What @record has room for at @offset. */
#define ROOM(type, offset) (*(type *)(void *)((char *)record + (offset)))

static bool read_real(const struct json *object, const char *key, const char *end, double *value)
{
    AUTOFREE char *name = base_format("%s%s", key, end);
    return json_as_real(json_get(object, name), value);
}

static bool read_word(const struct answer_column *column, const struct json *json, int32_t *index)
{
    const char *word = json_as_text(json);
    *index = base_find_word(!word && column->zero ? "" : word, column->words);
    return *index >= 0;
}

static bool read_count(const struct json *json, int32_t *count)
{
    int64_t value = 0;
    bool good = json_is_nothing(json) || json_as_integer(json, &value);
    *count = (int32_t)value;
    return good && *count == value;
}

static bool read_hash(const struct json *json, uint64_t *hash)
{
    const char *digits = json_as_text(json);
    *hash = digits ? strtoull(digits, NULL, 16) : 0;
    return digits && strlen(digits) == 16 && strspn(digits, "0123456789abcdef") == 16;
}

static bool read_item(const struct answer_column *column, const struct json *json, void *item)
{
    switch (column->kind) {
    case COLUMN_REALS:
        return json_as_real(json, item);
    case COLUMN_COUNTS:
        return read_count(json, item);
    default:
        return answer_read(column->table, json, item);
    }
}

static bool read_items(const struct answer_column *column, const struct json *json, void *record)
{
    size_t size = column->kind == COLUMN_REALS    ? sizeof(double)
                  : column->kind == COLUMN_COUNTS ? sizeof(int32_t)
                                                  : column->table->size;
    int64_t count = json_count_items(json);
    int32_t *known = &ROOM(int32_t, column->count);
    bool good = count >= 0 && count <= INT32_MAX && (!*known || *known == count);
    char *list = count > 0 ? base_alloc(count, (int64_t)size) : NULL;
    ROOM(char *, column->offset) = list;
    *known = good ? (int32_t)count : 0;
    for (int64_t i = 0; i < *known && good; i++)
        good = read_item(column, json_item(json, i), list + (size_t)i * size);
    return good;
}

/* The object that has @key's last part, which @key then points to. */
static const struct json *within(const struct json *object, const char **key)
{
    for (const char *dot; (dot = strchr(*key, '.')) != NULL; *key = dot + 1) {
        AUTOFREE char *name = base_format("%.*s", (int)(dot - *key), *key);
        object = json_get(object, name);
    }
    return object;
}

static bool read_column(const struct answer_column *column, const struct json *object, void *record)
{
    const char *key = column->key;
    object = within(object, &key);
    const struct json *json = json_get(object, key);
    if (!json && column->absent)
        return true;
    switch (column->kind) {
    case COLUMN_REAL:
        return json_as_real(json, &ROOM(double, column->offset)) &&
               (!column->likely ||
                (read_real(object, key, "_low", &ROOM(double, column->likely)) &&
                 read_real(object, key, "_high", &ROOM(double, column->likely + sizeof(double)))));
    case COLUMN_RANGE:
        return json_as_real(json, &ROOM(struct range, column->offset).value) &&
               read_real(object, key, "_low", &ROOM(struct range, column->offset).low) &&
               read_real(object, key, "_high", &ROOM(struct range, column->offset).high);
    case COLUMN_HASH:
        return read_hash(json, &ROOM(uint64_t, column->offset));
    case COLUMN_INTEGER:
        return json_as_integer(json, &ROOM(int64_t, column->offset));
    case COLUMN_COUNT:
        return column->words ? read_word(column, json, &ROOM(int32_t, column->offset))
                             : read_count(json, &ROOM(int32_t, column->offset));
    case COLUMN_TEXT:
        ROOM(char *, column->offset) = base_copy(json_as_text(json));
        return json_is_nothing(json) || json_as_text(json);
    case COLUMN_REALS:
    case COLUMN_COUNTS:
    case COLUMN_LIST:
        return read_items(column, json, record);
    case COLUMN_RECORD:
        return answer_read(column->table, *key ? json : object, (char *)record + column->offset);
    default:
        return false;
    }
}

bool answer_read(const struct answer_columns *columns, const struct json *object, void *record)
{
    const struct answer_rows rows = rows_of(columns);
    for (const struct answer_column *c = rows.row; c < rows.row + rows.count; c++)
        if (c->kind == COLUMN_RECORD && !*c->key
                ? !answer_read(c->table, object, (char *)record + c->offset)
                : !read_column(c, object, record))
            return false;
    return true;
}

/* ---- the same in words ---- */

struct visit {
    void (*row)(void *context, const char *path, const char *type, const char *help);
    void *context;
};

static void visit_value(const struct visit *visit, const char *path, const char *end,
                        const char *type, const char *help)
{
    AUTOFREE char *whole = base_format("%s%s", path, end);
    visit->row(visit->context, whole, type, help);
}

/* @path without @end, "?" or "[]". */
static void visit_column(const struct visit *visit, const struct answer_column *column,
                         const char *path, const char *end)
{
    bool null = may_be_null(column) && !column->absent;
    const char *kind = column->type ? column->type : column->words ? "string" : types[column->kind];
    AUTOFREE char *type = base_format("%s%s", kind, null ? "?" : "");
    AUTOFREE char *low = base_format("_low%s", end), *high = base_format("_high%s", end);
    visit_value(visit, path, end, type, column->help);
    if (!has_interval(column))
        return;
    visit_value(visit, path, low, "number?", "lower end of its 90 % interval; null: not known");
    visit_value(visit, path, high, "number?", "upper end of its 90 % interval; null: not known");
}

static void visit_columns(const struct visit *visit, const struct answer_columns *columns,
                          const char *prefix, bool absent)
{
    const struct answer_rows rows = rows_of(columns);
    for (const struct answer_column *c = rows.row; c < rows.row + rows.count; c++) {
        bool beside = is_inside(c) && !*c->key;
        AUTOFREE char *path = base_format("%s%s", prefix, c->key);
        AUTOFREE char *end = base_format("%s%s", (absent || c->absent) && !beside ? "?" : "",
                                         is_list(c) ? "[]" : "");
        AUTOFREE char *members = base_format("%s%s%s", path, end, beside ? "" : ".");
        if (c->table)
            visit_columns(visit, c->table, members, beside && c->absent);
        else
            visit_column(visit, c, path, end);
    }
}

void answer_describe(const struct answer_columns *columns,
                     void (*row)(void *context, const char *path, const char *type,
                                 const char *help),
                     void *context)
{
    const struct visit visit = {row, context};
    AUTOFREE char *schema = base_format("foretrain/%s", columns->name);
    row(context, "schema", "string", schema);
    row(context, "version", "string", "of foretrain");
    visit_columns(&visit, columns, "", false);
}

static void add_key(void *context, const char *path, const char *type, const char *help)
{
    struct text *out = context;
    text_add(out, "%s%.*s", out->length ? "," : "", (int)strcspn(path, "?"), path);
}

void answer_heading(struct text *out, const struct answer_columns *columns)
{
    AUTORELEASE(text) struct text line = {0};
    const struct visit visit = {add_key, &line};
    visit_columns(&visit, columns, "", false);
    text_add(out, "%s\r\n", line.data);
}
