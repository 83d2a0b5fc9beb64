#pragma once

/** @file
 * What the writers of core/report/timeline.h share.
 */

#include <stdio.h>

#include "core/backend/trace.h"
#include "core/schedule/schedule.h"

/** Check that @trace is of @schedule.  @return 0, or -1 (exit code 70). */
int timeline_check(const struct schedule *schedule, const struct trace *trace, struct err *err);

/** The spans of @trace by rank, iteration and time; the caller frees them. */
struct span *timeline_sort(const struct trace *trace);

/** Write @name; what would end it in either format becomes '_'. */
void timeline_put_name(FILE *file, const char *name);
