#include "core/json.h"

#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

/* struct json has no members of its own: it is jansson's value under a name of ours. */
static json_t *to_jansson(const struct json *value)
{
    return (json_t *)(uintptr_t)value;
}

static struct json *from_jansson(json_t *value)
{
    assert(value);
    return (struct json *)value;
}

static json_t *text_value(const char *text)
{
    if (!text)
        return json_null();
    json_t *value = json_string(text);
    if (value)
        return value;
    char *ascii = base_copy(text); /* not UTF-8, as a file name may be */
    for (char *c = ascii; *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    value = json_string(ascii);
    free(ascii);
    return value;
}

static void put(struct json *object, const char *key, json_t *value)
{
    int failed = json_object_set_new(to_jansson(object), key, value);
    assert(!failed);
    (void)failed;
}

struct json *json_new_object(void)
{
    return from_jansson(json_object());
}

struct json *json_new_array(void)
{
    return from_jansson(json_array());
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

void json_put_boolean(struct json *object, const char *key, bool value)
{
    put(object, key, json_boolean(value));
}

void json_put(struct json *object, const char *key, struct json *value)
{
    put(object, key, to_jansson(value));
}

void json_append(struct json *array, struct json *value)
{
    int failed = json_array_append_new(to_jansson(array), to_jansson(value));
    assert(!failed);
    (void)failed;
}

void json_append_real(struct json *array, double value)
{
    json_append(array, from_jansson(isfinite(value) ? json_real(value) : json_null()));
}

void json_append_text(struct json *array, const char *value)
{
    json_append(array, from_jansson(text_value(value)));
}

static int append_chunk(const char *chunk, size_t size, void *out)
{
    text_append(out, chunk, (int64_t)size);
    return 0;
}

void json_print(struct text *out, const struct json *value)
{
    json_dump_callback(to_jansson(value), append_chunk, out,
                       JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    text_append(out, "\n", 1);
}

void json_free(struct json *value)
{
    json_decref(to_jansson(value));
}
