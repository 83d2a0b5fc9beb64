#pragma once

/** @file
 * What commands answer with --json: every value, for schemas and manual pages.
 */

#include <stdint.h>

#include "core/base/base.h"

/** One value of an answer; the rows of one object stand together.  A name with a question mark may
 * be missing, a type with one may be null. */
struct row {
    const char *path; /**< "rows[].error?" */
    const char *type; /**< of JSON Schema: "number?"; "#/properties/best": as that member */
    const char *help; /**< without full stop */
};

/** One kind of answer. */
struct answer {
    const struct row *row; /**< (count) the first is "schema", whose help is its value */
    int32_t count;
};

/** The answer whose first of @rows names it. */
#define ANSWER(rows)                                                                               \
    {                                                                                              \
        rows, ARRAY_SIZE(rows)                                                                     \
    }

/** All that no table of a command describes yet, NULL-terminated. */
extern const struct answer *const answers[];
