#pragma once

/** @file
 * JSON, written and read.  The only file that includes jansson is json.c.  Keys keep their order;
 * numbers are written with 17 digits; NaN and infinity become null.
 *
 * Files that people write (scenarios, platforms) are read by core/config/yaml.h instead, which
 * keeps the place of each value; json_read() is for files that programs wrote.
 */

#include "core/base/base.h"

/** A JSON value.  Its creator owns it until it is put into another. */
struct json;

/** An empty object. */
struct json *json_new_object(void);

/** An empty array. */
struct json *json_new_array(void);

/** A number; null when it is not finite. */
struct json *json_new_real(double value);

/** A whole number. */
struct json *json_new_integer(int64_t value);

/** True or false. */
struct json *json_new_boolean(bool value);

/** A text; NULL becomes null, bytes that are not UTF-8 become '?'. */
struct json *json_new_text(const char *value);

/** Set a member of an object. */
void json_put_real(struct json *object, const char *key, double value);

/** Set a member of an object. */
void json_put_integer(struct json *object, const char *key, int64_t value);

/** Set a member of an object; NULL becomes null, bytes that are not UTF-8 become '?'. */
void json_put_text(struct json *object, const char *key, const char *value);

/** Set a member of an object; takes ownership of @value. */
void json_put(struct json *object, const char *key, struct json *value);

/** Set a member to a new array.  @return it, which is @object's. */
struct json *json_put_array(struct json *object, const char *key);

/** Append a new object.  @return it, which is @array's. */
struct json *json_append_object(struct json *array);

/** The object that is @object's member @key, which is made where there is none; borrowed. */
struct json *json_at(struct json *object, const char *key);

/** @value once more, to be put into another; NULL is null.  Neither may be changed any more. */
struct json *json_share(const struct json *value);

/** Append to an array; takes ownership of @value. */
void json_append(struct json *array, struct json *value);

/** Append the value as indented text, ending in newline. */
void json_print(struct text *out, const struct json *value);

/** Append the value on one line, without the newline; numbers that are not whole have @digits
 * significant digits (17: none is lost). */
void json_print_line(struct text *out, const struct json *value, int32_t digits);

/** Append an array of objects as CSV (RFC 4180): a header of all their keys, in the order in which
 * they first come, then a line per object.  Numbers have 17 digits; null and a missing key are
 * empty cells; the items of a list share a cell, with blanks between.  A "'" precedes a text that a
 * spreadsheet would compute: it begins with =, +, -, @, a tab or CR and is no number. */
void json_print_csv(struct text *out, const struct json *rows);

void json_free(struct json *value);

/** json_free() of @value, for AUTORELEASE(json). */
void json_release(struct json **value);

/** Read @length characters of @text, the content of a file called @name: one JSON value and nothing
 * else.
 * @return the value, to be released with json_free(), or NULL with one message that starts with
 * @name: not JSON, a key given twice, a number out of range, bytes that are not UTF-8. */
struct json *json_read(const char *name, const char *text, int64_t length, struct err *err);

/** The number of items of an array, or -1 when @value is no array; NULL is none. */
int64_t json_count_items(const struct json *value);

/** The number of members of an object, or -1 when @value is no object; NULL is none. */
int64_t json_count_members(const struct json *value);

/** Item @index of @array, or NULL: it has none, or is no array; borrowed. */
const struct json *json_item(const struct json *array, int64_t index);

/** The member of @object with that key, or NULL: it has none, or is no object; borrowed. */
const struct json *json_get(const struct json *object, const char *key);

/** The key after @key in @object, or the first for NULL; NULL at the end.  @key must come from an
 * earlier call; borrowed. */
const char *json_next_key(const struct json *object, const char *key);

/** Whether @value is null or NULL. */
bool json_is_nothing(const struct json *value);

/** Whether @value is true. */
bool json_truth(const struct json *value);

/** Set @out to an integer.  @return whether @value is one; NULL is none. */
bool json_as_integer(const struct json *value, int64_t *out);

/** Set @out to a number of either kind, or NaN for null.  @return whether @value is one. */
bool json_as_real(const struct json *value, double *out);

/** The text of @value, or NULL when it is none; borrowed. */
const char *json_as_text(const struct json *value);
