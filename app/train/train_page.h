#pragma once

/** @file
 * A training run as a page (app/page/html.h), from its log.
 */

#include "core/base/err.h"

/** Write the run in @directory, whose steps.jsonl has steps and evaluations, as a page to @file;
 * @job names it.  Of many steps a point is the mean of several.
 * @return 0, or -1: the log cannot be read (exit codes 65, 66, 74) or the page not be written (73,
 * 74). */
int train_page(const char *file, const char *directory, const char *job, struct err *err);
