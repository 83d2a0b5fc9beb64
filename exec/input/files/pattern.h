#pragma once

/** @file
 * Names of many files at once: "train-{000..146}.tar", "part-*.tar", "{a,b}.tar".
 */

#include <stdint.h>

#include "core/base/err.h"

/** Paths.  Start from {0}; release with pattern_release(). */
struct pattern {
    char **path; /**< (count) owned */
    int64_t count;
};

enum {
    PATTERN_LIMIT = 100000, /**< maximum number of names of one pattern */
    PATTERN_BRACES = 64     /**< and of its pairs of braces */
};

/** Append the names that @pattern matches: braces first, in their order, then * ? [] in the order
 * of the names; a folder means its files that end in @suffix.
 * @return 0, or -1: nothing matches (exit code 66), a brace that is not closed or a pattern with
 * too many of them or too many names (65). */
int pattern_expand(struct pattern *list, const char *pattern, const char *suffix, struct err *err);

void pattern_release(struct pattern *list);
