#pragma once

/** @file
 * Values as field.h reads them: what writes files for us writes them so.
 */

#include "core/config/field.h"

/** Append @text as one value of YAML: as it is if it has but letters, digits and _ . / -, else in
 * double quotes.  What cannot stand in a file becomes '?'. */
void field_write_text(struct text *out, const char *text);

/** Append the line "KEY: TEXT" behind @indent blanks. */
void field_write_line(struct text *out, int32_t indent, const char *key, const char *text);

/** Append the line "KEY: {value: VALUE, source: SOURCE, kind: KIND}" behind @indent blanks.  VALUE
 * is formatted, with its unit; a @spread above 0 (1: 100 %) stands behind it, of at most 10, which
 * is what a file may say. */
void field_write_quantity(struct text *out, int32_t indent, const char *key, enum provenance kind,
                          double spread, const char *source, const char *value, ...)
    __attribute__((format(printf, 7, 8)));
