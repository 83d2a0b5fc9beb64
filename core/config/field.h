#pragma once

/** @file
 * Records described by one table: each row names a key, its type, unit, default, range and help.
 *
 * The same rows drive reading, --help, the JSON Schema, `check --explain` and the manual page, so
 * they cannot disagree.  A path with dots ("cluster.nodes") is a key inside mappings.
 *
 * Shorthand: when a row's path is also the start of others ("training.dataset" and
 * "training.dataset.train_images"), the file gives either one value, which sets that row, or a
 * mapping, which sets the others; required rows are those of the chosen form.
 */

#include "core/base/unit.h"
#include "core/config/yaml.h"

/** Where a number came from. */
enum provenance {
    PROVENANCE_MEASURED,  /**< measured by us or by the user */
    PROVENANCE_DATASHEET, /**< the vendor's specification */
    PROVENANCE_PUBLISHED, /**< measured by others and published */
    PROVENANCE_ASSUMED,   /**< without a source: reports list these first */
    PROVENANCE_COUNT
};

/** The word of a provenance: "measured", ... */
const char *provenance_name(enum provenance provenance);

/** A number with its source.  In a file: `{value: 12.5 GB/s, source: "...", kind: datasheet}`, or
 * only `12.5 GB/s`, which is assumed, with the source "none given"; a measurement that scatters
 * adds `spread: 8 %`.  An assignment makes it assumed, with the source "--set". */
struct quantity {
    double value;  /**< SI */
    double spread; /**< its standard deviation, relative; 0: what its kind says */
    bool drawn;    /**< it is an unknown input, whose doubt is drawn apart from all others */
    enum provenance provenance;
    char *source; /**< owned by the record */
    char *path;   /**< the key's full path, for lists of assumptions; owned */
};

/** Type of a field's member in the record. */
enum field_kind {
    FIELD_INTEGER,  /**< int64_t */
    FIELD_REAL,     /**< double, in SI of the field's unit */
    FIELD_TEXT,     /**< char *, owned by the record; one of `words` if there are any */
    FIELD_WORD,     /**< int32_t: the index in `words` */
    FIELD_BOOLEAN,  /**< bool: true or false */
    FIELD_QUANTITY, /**< struct quantity, in SI of the field's unit */
    FIELD_TEXTS,    /**< struct field_list of char * */
    FIELD_LIST,     /**< struct field_list of records of `table` */
    FIELD_KIND_COUNT
};

/** A list read from a sequence.  Owned by the record. */
struct field_list {
    void *item; /**< (count) records of table->size bytes, or (count) char * */
    int32_t count;
};

struct field_table;
struct json;

/** One row. */
struct field {
    const char *path; /**< "cluster.nodes" */
    enum field_kind kind;
    enum unit unit;          /**< for REAL and QUANTITY */
    size_t offset;           /**< of the member in the record */
    const char *fallback;    /**< default as text; NULL: required; "": optional, stays 0 or NULL */
    double minimum, maximum; /**< allowed range, of a list's length for LIST; both 0: any */
    const char *const
        *words; /**< for WORD and TEXT: NULL-terminated; a WORD's value is the index */
    const struct field_table *table; /**< for LIST: the rows of an item */
    const char *help;                /**< one sentence without full stop */
};

/** The rows of one record. */
struct field_table {
    const char *name;          /**< "scenario", "platform", "device" */
    const struct field *field; /**< (count) rows */
    int32_t count;
    size_t size; /**< of the record [bytes] */
};

/** The table of the array @rows, which describes a @record. */
#define FIELD_TABLE(what, rows, record)                                                            \
    {                                                                                              \
        what, rows, ARRAY_SIZE(rows), sizeof(record)                                               \
    }

/** A row for @member of struct @record, whose key may be left out unless @missing is NULL.  Its
 * kind and what that adds follow. */
#define FIELD_ROW(key, record, member, missing, meaning, ...)                                      \
    {                                                                                              \
        .path = key, .offset = offsetof(struct record, member), .fallback = missing,               \
        .help = meaning, __VA_ARGS__                                                               \
    }

/** Fill zeroed @record from mapping @root; missing keys get their defaults.  Every unknown key
 * (with the nearest right one), wrong type, missing key, missing unit and value out of range is
 * reported.  A scalar where a mapping belongs is a wrong type.  One warning counts the quantities
 * that the file gives without a source.
 * @return 0, or -1; then release @record as well. */
int field_read(const struct field_table *table, const struct node *root, void *record,
               struct err *err);

/** Whether @text can be the value at @path ("training.phases[0].epochs") of a record of @table, as
 * far as its row alone says.  What no row of a single value describes can be anything.
 * @return 0, or -1: not of its type, an unknown word, out of range. */
int field_check_text(const struct field_table *table, const char *path, const char *text,
                     struct err *err);

/** Release what field_read() put into @record (not the record itself). */
void field_release(const struct field_table *table, void *record);

/** The node that set @path ("training.phases.0.epochs"; a shorthand sets all paths below it), or
 * NULL when the default applied. */
const struct node *field_origin(const struct node *root, const char *path);

/** Append one line per field: path = value, and its origin (file:line, --set, default). */
void field_explain(struct text *out, const struct field_table *table, const struct node *root,
                   const void *record);

/** The values of the record as one flat JSON object, "training.phases.0.epochs": 4, numbers in SI.
 * Optional values not given, quantities and lists of texts are left out.  The caller frees it. */
struct json *field_values(const struct field_table *table, const void *record);

/** Append a JSON Schema (draft 2020-12) object for the table; @unknowns: any value may also be an
 * unknown input (core/config/unknown.h). */
void field_schema(struct text *out, const struct field_table *table, bool unknowns);

/** Append the rows as help for people: path, type, default, help. */
void field_help(struct text *out, const struct field_table *table);
