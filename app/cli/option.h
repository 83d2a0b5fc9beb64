#pragma once

/** @file
 * Command-line options described by rows: one row drives parsing, --help and completion.
 *
 * Options may be anywhere, as `--name value`, `--name=value`, `-n value` or `-nvalue`; `--` ends
 * them.  Values are borrowed from argv.
 */

#include "core/base/unit.h"

/** Type of an option's member in the record. */
enum option_kind {
    OPTION_FLAG,    /**< bool */
    OPTION_TEXT,    /**< const char *; the last one given is used */
    OPTION_OUTPUT,  /**< const char *: a file that the command writes; with `holds` it may be a
                         directory for such files, by its name: "DIR/" */
    OPTION_FOLDER,  /**< const char *: a directory that the command writes files to */
    OPTION_TEXTS,   /**< struct texts; each use appends */
    OPTION_INTEGER, /**< int32_t, at least 1 */
    OPTION_WORD,    /**< int32_t: the index in `words` */
    OPTION_REAL,    /**< double in `unit`, above 0 */
    OPTION_ASSIGN,  /**< struct texts; appends "key='value'" for each key in `words`, and as
                         they are those that have a value */
    OPTION_KIND_COUNT
};

/** One row. */
struct option {
    const char *name; /**< "backend", without dashes */
    char letter;      /**< the short form, or 0 */
    enum option_kind kind;
    size_t offset;            /**< of the member in the record */
    const char *argument;     /**< what help calls the value: "FILE"; NULL for flags and words */
    const char *const *words; /**< for OPTION_WORD, OPTION_ASSIGN: NULL-terminated */
    const char *help;         /**< one sentence without full stop */

    const char *needs; /**< "trace|spans" or "device=cuda": one that must be given, too */
    const char *bars;  /**< "steps|ranks": those that must not be given */
    const char *holds; /**< names of what is written to the directory: see claim_output() */
    enum unit unit;
    double most;         /**< of an OPTION_REAL; 0: any */
    bool zero;           /**< it may be 0, too */
    const char *example; /**< what messages expect: "a share such as 5 %" */
};

/** One row of a table, member by member. */
#define OPTION_ROW(...)                                                                            \
    {                                                                                              \
        .name = __VA_ARGS__                                                                        \
    }

/** Parse @argv (@argc) by @table, which a row of zeros ends, into @record, which the caller has
 * filled with defaults; what is no option goes to @argument, options as "--name=value" to @given.
 * @return 0, or -1 with exit code 64: unknown option (with the nearest), missing or unexpected
 * value, not a number, unknown word, an option without what it needs. */
int option_parse(const struct option *table, int argc, char **argv, void *record,
                 struct texts *argument, struct texts *given, struct err *err);

/** Note what @record says will be written.  @return 0, or -1: see claim_output(). */
int option_claim(const struct option *table, const void *record, struct err *err);

/** Release the lists that option_parse() filled in @record. */
void option_release(const struct option *table, void *record);

/** Append one line per option of @table. */
void option_help(struct text *out, const struct option *table);

/** Add a message with exit code 64 that @given is not among the NULL-terminated @words: "unknown
 * command 'predcit'; did you mean 'predict'?".  @what is the noun ("command").  @return -1. */
int option_unknown(struct err *err, const char *what, const char *given, const char *const *words);
