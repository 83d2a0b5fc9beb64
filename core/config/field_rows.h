#pragma once

/** @file
 * Inner side of field.h: shared by reading (field.c, field_value.c) and describing (field_print.c)
 * records.
 */

#include "core/config/field.h"

/** The rows of `{value, source, kind, spread}` for one QUANTITY row. */
struct quantity_rows {
    struct field field[4];
    struct field_table table;
};

/** Fill @rows so that rows->table reads a struct quantity; it points into @rows. */
void quantity_rows_init(struct quantity_rows *rows, const struct field *field);

/** Give @text the type of the row and put it into @member.  @return 0, or -1: not of that type,
 * unknown word, out of range. */
int field_read_scalar(const struct field *field, const char *text, void *member, struct err *err);

/** "a" and "b" become "a.b"; an empty part adds nothing.  The caller frees it. */
char *path_join(const char *prefix, const char *path);

/** The rest of @path if it is below @prefix (everything is below ""), else NULL. */
const char *path_below(const char *path, const char *prefix);

/** True when another row's path is below @path. */
bool table_has_below(const struct field_table *table, const char *path);

/** The row with that path, or NULL. */
const struct field *table_row(const struct field_table *table, const char *path);

/** The row whose shorthand includes @path, or NULL. */
const struct field *table_shorthand(const struct field_table *table, const char *path);

/** The allowed keys of the mapping at @prefix, each once.  Release with texts_release(). */
struct texts table_keys(const struct field_table *table, const char *prefix);

/** True when the row limits its values. */
bool field_has_range(const struct field *field);

/** Append an example of the value: "25 GB/s", "[{epochs: 1, batch_per_device: 1}]". */
void field_example(struct text *out, const struct field *field);
