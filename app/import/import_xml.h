#pragma once

/** @file
 * XML files as a tree that keeps line numbers.  The only file that includes expat is import_xml.c.
 */

#include <stdint.h>

#include "core/base/err.h"

/** An element.  Owns its children and texts. */
struct xml {
    char *name;
    char **attribute;   /**< key, value, key, value ..., NULL */
    struct xml *parent; /**< NULL for the root */
    struct xml **child;
    int32_t child_count;
    int32_t line; /**< where it begins, from 1 */
};

/** Read @text (@length), the content of @file.
 * @return the root, to be released with xml_free(), or NULL with a message "file:line: ...": not
 * well-formed, custom entities, more than 64 levels or 100000 elements. */
struct xml *xml_read(const char *file, const char *text, int64_t length, struct err *err);

/** The value of an attribute, or "" when there is none; borrowed. */
const char *xml_get(const struct xml *element, const char *key);

/** Call @visit for @element and everything in it, parents first, in order of the file. */
void xml_walk(const struct xml *element, void (*visit)(void *context, const struct xml *element),
              void *context);

void xml_free(struct xml *element);
