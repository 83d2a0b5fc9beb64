#include "core/base/json.h"

#include <jansson.h>

/* struct json has no members: it is jansson's value under our name. */
static json_t *to_jansson(const struct json *value)
{
    return (json_t *)(uintptr_t)value;
}

/* jansson has none only where memory fails. */
static struct json *from_jansson(json_t *value)
{
    if (!value)
        base_out_of_memory(0);
    return (struct json *)value;
}

static json_t *text_value(const char *text)
{
    if (!text)
        return json_null();
    json_t *value = json_string(text);
    if (value)
        return value;
    AUTOFREE char *ascii = base_copy(text); /* not UTF-8, as a file name may be */
    for (char *c = ascii; *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    value = json_string(ascii);
    return value;
}

static void put(struct json *object, const char *key, json_t *value)
{
    if (json_object_set_new(to_jansson(object), key, value))
        base_out_of_memory(0);
}

struct json *json_new_object(void)
{
    return from_jansson(json_object());
}

struct json *json_new_array(void)
{
    return from_jansson(json_array());
}

struct json *json_new_real(double value)
{
    return from_jansson(isfinite(value) ? json_real(value) : json_null());
}

struct json *json_new_integer(int64_t value)
{
    return from_jansson(json_integer(value));
}

struct json *json_new_boolean(bool value)
{
    return from_jansson(json_boolean(value));
}

struct json *json_new_text(const char *value)
{
    return from_jansson(text_value(value));
}

void json_put_real(struct json *object, const char *key, double value)
{
    put(object, key, isfinite(value) ? json_real(value) : json_null());
}

void json_put_integer(struct json *object, const char *key, int64_t value)
{
    put(object, key, json_integer(value));
}

void json_put_text(struct json *object, const char *key, const char *value)
{
    put(object, key, text_value(value));
}

void json_put(struct json *object, const char *key, struct json *value)
{
    put(object, key, to_jansson(value));
}

void json_append(struct json *array, struct json *value)
{
    if (json_array_append_new(to_jansson(array), to_jansson(value)))
        base_out_of_memory(0);
}

static struct json *put_new(struct json *object, const char *key, struct json *value)
{
    json_put(object, key, value);
    return value;
}

struct json *json_put_array(struct json *object, const char *key)
{
    return put_new(object, key, json_new_array());
}

struct json *json_append_object(struct json *array)
{
    struct json *object = json_new_object();
    json_append(array, object);
    return object;
}

struct json *json_at(struct json *object, const char *key)
{
    json_t *member = json_object_get(to_jansson(object), key);
    return member ? from_jansson(member) : put_new(object, key, json_new_object());
}

struct json *json_share(const struct json *value)
{
    return from_jansson(value ? json_incref(to_jansson(value)) : json_null());
}

static int append_chunk(const char *chunk, size_t size, void *out)
{
    text_append(out, chunk, (int64_t)size);
    return 0;
}

static void dump(struct text *out, const struct json *value, size_t flags)
{
    if (json_dump_callback(to_jansson(value), append_chunk, out, flags))
        base_out_of_memory(0);
}

void json_print(struct text *out, const struct json *value)
{
    dump(out, value, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    text_append(out, "\n", 1);
}

void json_print_line(struct text *out, const struct json *value, int32_t digits)
{
    dump(out, value, JSON_ENCODE_ANY | JSON_REAL_PRECISION((size_t)digits));
}

void json_free(struct json *value)
{
    json_decref(to_jansson(value));
}

void json_release(struct json **value)
{
    json_free(*value);
}

struct json *json_read(const char *name, const char *text, int64_t length, struct err *err)
{
    json_error_t fault;
    json_t *value = json_loadb(length > 0 ? text : "", (size_t)length,
                               JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &fault);
    if (value)
        return from_jansson(value);
    if (json_error_code(&fault) == json_error_out_of_memory)
        base_out_of_memory((size_t)length);
    for (char *c = fault.text; *c; c++) /* it quotes the file */
        if ((unsigned char)*c < ' ' || (unsigned char)*c >= 0x7f)
            *c = '?';
    err_add(err, "%s:%d:%d: not valid JSON: %s", name, fault.line, fault.column, fault.text);
    return NULL;
}

int64_t json_count_items(const struct json *value)
{
    bool is_array = value && json_is_array(to_jansson(value));
    return is_array ? (int64_t)json_array_size(to_jansson(value)) : -1;
}

int64_t json_count_members(const struct json *value)
{
    bool is_object = value && json_is_object(to_jansson(value));
    return is_object ? (int64_t)json_object_size(to_jansson(value)) : -1;
}

const struct json *json_item(const struct json *array, int64_t index)
{
    return (struct json *)json_array_get(to_jansson(array), (size_t)index);
}

const struct json *json_get(const struct json *object, const char *key)
{
    return (struct json *)json_object_get(to_jansson(object), key);
}

const char *json_next_key(const struct json *object, const char *key)
{
    json_t *inside = to_jansson(object);
    void *place = key ? json_object_iter_next(inside, json_object_key_to_iter(key))
                      : json_object_iter(inside);
    return place ? json_object_iter_key(place) : NULL;
}

bool json_is_nothing(const struct json *value)
{
    return !value || json_is_null(to_jansson(value));
}

bool json_truth(const struct json *value)
{
    return value && json_is_true(to_jansson(value));
}

bool json_as_integer(const struct json *value, int64_t *out)
{
    if (!value || !json_is_integer(to_jansson(value)))
        return false;
    *out = json_integer_value(to_jansson(value));
    return true;
}

bool json_as_real(const struct json *value, double *out)
{
    if (!value || !(json_is_number(to_jansson(value)) || json_is_null(to_jansson(value))))
        return false;
    *out = json_is_null(to_jansson(value)) ? NAN : json_number_value(to_jansson(value));
    return true;
}

const char *json_as_text(const struct json *value)
{
    return value ? json_string_value(to_jansson(value)) : NULL;
}

/* What stands in a cell, without quotes. */
static void add_plain(struct text *out, const struct json *value)
{
    if (!value || json_is_null(to_jansson(value)))
        return;
    if (json_as_text(value))
        text_add(out, "%s", json_as_text(value));
    else if (json_count_items(value) < 0)
        json_print_line(out, value, 17);
    for (int64_t i = 0; i < json_count_items(value); i++) {
        text_add(out, "%s", i ? " " : "");
        add_plain(out, json_item(value, i));
    }
}

/* A spreadsheet computes what begins like this; text that is a number stays one. */
static bool is_formula(const struct json *value, const char *plain)
{
    bool text = json_as_text(value) || json_as_text(json_item(value, 0));
    char *end;
    strtod(plain, &end);
    return text && *plain && strchr("=+-@\t\r", *plain) && (end == plain || *end);
}

static void add_cell(struct text *out, const struct json *value, bool first)
{
    AUTORELEASE(text) struct text plain = {0};
    add_plain(&plain, value);
    const char *from = plain.data ? plain.data : "";
    bool quoted = strpbrk(from, "\",\r\n") != NULL;
    text_add(out, "%s%s%s", first ? "" : ",", quoted ? "\"" : "",
             is_formula(value, from) ? "'" : "");
    for (; *from; from++)
        text_add(out, *from == '"' ? "\"\"" : "%c", *from);
    text_add(out, "%s", quoted ? "\"" : "");
}

/* The cells of @row under the keys of @heading. */
static void add_line(struct text *out, const struct json *heading, const struct json *row)
{
    const char *first = json_next_key(heading, NULL);
    for (const char *key = first; key; key = json_next_key(heading, key))
        add_cell(out, json_get(row, key), key == first);
    text_add(out, "\r\n");
}

void json_print_csv(struct text *out, const struct json *rows)
{
    AUTORELEASE(json) struct json *heading = json_new_object();
    for (int64_t i = 0; i < json_count_items(rows); i++) {
        const struct json *row = json_item(rows, i);
        for (const char *key = json_next_key(row, NULL); key; key = json_next_key(row, key))
            json_put_text(heading, key, key);
    }
    add_line(out, heading, heading);
    for (int64_t i = 0; i < json_count_items(rows); i++)
        add_line(out, heading, json_item(rows, i));
}
