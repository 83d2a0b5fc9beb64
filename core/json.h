#pragma once

/** @file
 * JSON output.  The only file that includes jansson is json.c.  Keys keep their order; numbers are
 * written with 17 digits; NaN and infinity become null.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base.h"

/** A JSON value under construction.  Owned by whoever made it until it is put into another. */
struct json;

/** An empty object. */
struct json *json_new_object(void);

/** An empty array. */
struct json *json_new_array(void);

/** Set a member of an object. */
void json_put_real(struct json *object, const char *key, double value);

/** Set a member of an object. */
void json_put_integer(struct json *object, const char *key, int64_t value);

/** Set a member of an object; NULL becomes null, bytes that are not UTF-8 become '?'. */
void json_put_text(struct json *object, const char *key, const char *value);

/** Set a member of an object. */
void json_put_boolean(struct json *object, const char *key, bool value);

/** Set a member of an object; takes ownership of @value. */
void json_put(struct json *object, const char *key, struct json *value);

/** Append to an array; takes ownership of @value. */
void json_append(struct json *array, struct json *value);

/** Append to an array. */
void json_append_real(struct json *array, double value);

/** Append text to an array. */
void json_append_text(struct json *array, const char *value);

/** Append the value as indented text, ending in newline. */
void json_print(struct text *out, const struct json *value);

/** Release; accepts NULL. */
void json_free(struct json *value);
