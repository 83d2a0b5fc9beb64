#pragma once

/** @file
 * What a sweep answers: a table of all points for programs, the best ones for people.
 */

#include "app/explore/sweep.h"

/** All points of this process, a row each: the scanned keys as they were given, then the members
 * of a finding; in a shard last "point", as in 17/1000, by which `merge` finds its place. */
struct json *sweep_rows(const struct sweep *sweep);

/** The answer. */
struct json *sweep_json(const struct sweep *sweep);

/** Its columns. */
extern const struct answer_columns sweep_columns;

/** Append the front as a table, which point is fastest, and what the simulator says of the closed
 * form. */
void sweep_print(struct text *out, const struct sweep *sweep);

/** Write the answer as a page to @file: the time along the axis with most numbers, the front, all
 * points.  @return 0, or -1: it cannot be written (exit codes 73, 74). */
int sweep_page(const char *file, const struct sweep *sweep, struct err *err);

/** Add the reason of the first point without an answer to @err if no point has one.
 * @return 0, or -1 with that point's exit code. */
int sweep_verdict(const struct sweep *sweep, struct err *err);
