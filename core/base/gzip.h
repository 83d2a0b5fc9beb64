#pragma once

/** @file
 * Compressed text, as gzip writes it.
 */

#include "core/base/base.h"

/** Whether @path is the name of a compressed file: it ends in ".gz". */
bool gzip_named(const char *path);

/** Write @text to @file, compressed; the same text gives the same bytes.  Output errors stay with
 * @file. */
void gzip_write(FILE *file, const struct text *text);

/** Replace the text of the file @path by what it was, if it begins as compressed text does.
 * @return 0, or -1 with @text unchanged: damaged, or more than @limit bytes (exit code 65). */
int gzip_expand(struct text *text, int64_t limit, const char *path, struct err *err);
