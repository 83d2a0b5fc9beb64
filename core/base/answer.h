#pragma once

/** @file
 * Answers described by one table: each row names a value of a record, its key, type, unit, help and
 * label.
 *
 * The same rows drive the JSON of a command, its JSON Schema and manual page (`foretrain schema
 * ANSWER`), its CSV, and the headings of its tables in text and pages, so they cannot disagree.  A
 * key with dots ("grid.columns") is a member of an object inside; rows of one object stand
 * together.
 *
 * One number has one name in every answer: step_s, images_per_s, scaling_efficiency,
 * time_to_train_s, ...  A number with a 90 % interval has it beside itself, as KEY_low and
 * KEY_high. A value that is not known is null; only where a row says so is its key left out.  The
 * name also gives the unit and the heading of a column: see answer_unit() and answer_label().
 */

#include "core/base/json.h"
#include "core/base/unit.h"

/** 90 % of the probability are between both; NAN: not known. */
struct interval {
    double low, high;
};

/** A number and what it lies between; all NAN: not known, low and high NAN: no bounds. */
struct range {
    double low, value, high;
};

/** What a member of a record is. */
enum column_kind {
    COLUMN_REAL,     /**< double; NAN: null */
    COLUMN_RANGE,    /**< struct range */
    COLUMN_INTEGER,  /**< int64_t */
    COLUMN_COUNT,    /**< int32_t or an enum */
    COLUMN_BOOLEAN,  /**< bool */
    COLUMN_HASH,     /**< uint64_t, as 16 hexadecimal digits */
    COLUMN_TEXT,     /**< char *; NULL: null */
    COLUMN_CHARS,    /**< char [] */
    COLUMN_JSON,     /**< struct json *, put as it is; NULL: null */
    COLUMN_LINES,    /**< struct text, whose lines are items */
    COLUMN_TEXTS,    /**< char ** of `count` */
    COLUMN_REALS,    /**< double * of `count` */
    COLUMN_INTEGERS, /**< int64_t * of `count` */
    COLUMN_COUNTS,   /**< int32_t * of `count` */
    COLUMN_LIST,     /**< pointer to `count` records of `table` */
    COLUMN_RECORD,   /**< one record of `table`: an object, or with the key "" members of the same
                          object */
    COLUMN_POINTER   /**< pointer to one; NULL, if `absent`: left out */
};

/** One row. */
struct answer_column {
    const char *key;  /**< "grid.columns" */
    const char *help; /**< without full stop; a sentence that needs no other row */
    enum column_kind kind;
    bool null;                /**< the value may be missing: null */
    bool zero;                /**< a number of 0, or an empty text, is null */
    bool negative;            /**< a number below 0 is null */
    bool absent;              /**< where it would be null, the key is left out */
    size_t offset;            /**< of the member [bytes] */
    size_t likely;            /**< of the struct interval of a REAL [bytes]; 0: it has none */
    size_t count;             /**< of the number of items [bytes] */
    bool wide;                /**< which is an int64_t, not an int32_t */
    bool inside;              /**< the items are an array inside the record, not behind a pointer */
    int32_t items;            /**< of an array that is always full; 0: `count` says it */
    const char *const *words; /**< of COUNT, which is an index of them; NULL: it is a number */
    const struct answer_columns
        *table;       /**< of LIST; of JSON: what describes its members, or NULL */
    const char *type; /**< of JSON without a table: the type of JSON Schema */
};

/** The rows of a table while it is gone through. */
struct answer_rows {
    struct answer_column row[64];
    int32_t count;
};

/** A table of rows. */
struct answer_columns {
    const char *name; /**< of the answer, "collective/2"; NULL: a part of others */
    void (*list)(struct answer_rows *rows, void *described); /**< described: NULL */
    size_t size;                                             /**< of a record [bytes] */
};

/** Begin the table @columns of the answer @answer for records of @type, which one file uses; its
 * rows follow in braces. */
#define COLUMNS(columns, answer, type) COLUMNS_OF(static, columns, answer, type)

/** COLUMNS() that a header declares. */
#define SHARED_COLUMNS(columns, answer, type) COLUMNS_OF(, columns, answer, type)

/** What both have in common.  Only the type of @described is used. */
#define COLUMNS_OF(scope, columns, answer, type)                                                   \
    static void columns##_rows(struct answer_rows *rows, type *described);                         \
    static void columns##_list(struct answer_rows *rows, void *described)                          \
    {                                                                                              \
        columns##_rows(rows, described);                                                           \
    }                                                                                              \
    scope const struct answer_columns columns = {answer, columns##_list, sizeof(type)};            \
    static void columns##_rows(struct answer_rows *rows, type *described)

/** Append @row. */
void answer_add_row(struct answer_rows *rows, struct answer_column row);

/** A row of the table. */
#define COLUMN_ROW(...)       answer_add_row(rows, (struct answer_column){__VA_ARGS__})
#define COLUMN_OFFSET(member) offsetof(__typeof__(*described), member)

/** A row for @member, whose type says its kind.  The rest is `.help = "...", ...`. */
#define COLUMN(name, member, ...)                                                                  \
    COLUMN_ROW(.key = name, .offset = COLUMN_OFFSET(member),                                       \
               .kind = COLUMN_KIND(described->member), __VA_ARGS__)

/** The kind of a @member that is one value; COLUMN_TEXT precedes COLUMN_CHARS. */
#define COLUMN_KIND(member)                                                                        \
    _Generic((member), double                                                                      \
             : COLUMN_REAL, struct range                                                           \
             : COLUMN_RANGE, int64_t                                                               \
             : COLUMN_INTEGER, int32_t                                                             \
             : COLUMN_COUNT, bool                                                                  \
             : COLUMN_BOOLEAN, uint64_t                                                            \
             : COLUMN_HASH, const char *                                                           \
             : COLUMN_TEXT, unsigned                                                               \
             : COLUMN_COUNT, struct json *                                                          \
             : COLUMN_JSON, struct text                                                           \
             : COLUMN_LINES, char *                                                                 \
             : COLUMN_CHARS) -                                                                      \
        __builtin_types_compatible_p(__typeof__(member), char *)

/** The kind of a @member that points to values. */
#define COLUMN_ITEM_KIND(member)                                                                   \
    _Generic((member), char **                                                                     \
             : COLUMN_TEXTS, const char *const *                                                   \
             : COLUMN_TEXTS, const char **                                                         \
             : COLUMN_TEXTS, double *                                                              \
             : COLUMN_REALS, int64_t *                                                             \
             : COLUMN_INTEGERS, int32_t *                                                          \
             : COLUMN_COUNTS, default                                                              \
             : COLUMN_LIST)

/** A row for @member, an array or a pointer, of @number items: char *, double, int64_t, int32_t, or
 * records of a `.table`.  NULL is an empty list, or none if `.absent`. */
#define COLUMN_ITEMS(name, member, number, ...)                                                    \
    COLUMN_ROW(.key = name, .offset = COLUMN_OFFSET(member), .count = COLUMN_OFFSET(number),       \
               .wide = sizeof(described->number) == sizeof(int64_t),                               \
               .inside = !__builtin_types_compatible_p(__typeof__(described->member),              \
                                                       __typeof__(&described->member[0])),         \
               .kind = COLUMN_ITEM_KIND(described->member), __VA_ARGS__)

/** A row for @member, a record of @columns or a pointer to one, as an object called @name. */
#define COLUMN_OBJECT(name, member, columns) COLUMN_INSIDE(name, member, columns, false)

/** A row for a record of @columns or a pointer to one, whose values stand beside this record's. */
#define COLUMN_MEMBERS(member, columns) COLUMN_INSIDE("", member, columns, false)

/** COLUMN_MEMBERS() of a pointer that may be NULL: then the values are left out. */
#define COLUMN_OPTIONAL(member, columns) COLUMN_INSIDE("", member, columns, true)

/** Further rows of this record, which @columns has. */
#define COLUMN_ROWS(columns) COLUMN_ROW(.key = "", .kind = COLUMN_RECORD, .table = columns)

/** What the three have in common. */
#define COLUMN_INSIDE(name, member, columns, may_be_absent)                                        \
    COLUMN_ROW(.key = name, .offset = COLUMN_OFFSET(member), .table = columns,                     \
               .absent = may_be_absent,                                                            \
               .kind = __builtin_classify_type(described->member) == 5 /* a pointer */             \
                           ? COLUMN_POINTER                                                        \
                           : COLUMN_RECORD)

/** A row for the array @member of records of a `.table`. */
#define COLUMN_ARRAY(name, member, ...)                                                            \
    COLUMN_ROW(.key = name, .offset = COLUMN_OFFSET(member), .kind = COLUMN_LIST, .inside = true,  \
               .items = ARRAY_SIZE(described->member), __VA_ARGS__)

/** Of a row: @member is the 90 % interval of its number. */
#define LIKELY(member) .likely = COLUMN_OFFSET(member)

/** The unit of the numbers called @key, by its end: step_s, memory_bytes, scaling_efficiency. */
enum unit answer_unit(const char *key);

/** "time to train" for time_to_train_s: what stands above a column.  The caller frees it. */
char *answer_label(const char *key);

/** Set the values of @record as members of @object. */
void answer_put(struct json *object, const struct answer_columns *columns, const void *record);

/** The answer @record: "schema" (foretrain/NAME), "version", and all its values. */
struct json *answer_json(const struct answer_columns *columns, const void *record);

/** Append answer_json() as indented text. */
void answer_print(struct text *out, const struct answer_columns *columns, const void *record);

/** The @count records at @list as an array. */
struct json *answer_list(const struct answer_columns *columns, const void *list, int64_t count);

/** Append the keys of @columns, which have no lists, as the first line of a CSV. */
void answer_heading(struct text *out, const struct answer_columns *columns);

/** Read what answer_put() put of numbers, words, texts, records inside, and of lists of numbers and
 * records behind pointers, into zeroed @record, which owns its texts and lists; null is NAN, 0 or
 * NULL.
 * @return whether every key is there that may not be left out, each of its type, and lists of one
 * number of items have that many. */
bool answer_read(const struct answer_columns *columns, const struct json *object, void *record);

/** Call @row for "schema", "version", and each key of @columns and those inside: its @path as in
 * "rows[].error?" (a question mark: may be left out), its @type of JSON Schema as in "number?" (a
 * question mark: may be null), its @help. */
void answer_describe(const struct answer_columns *columns,
                     void (*row)(void *context, const char *path, const char *type,
                                 const char *help),
                     void *context);
