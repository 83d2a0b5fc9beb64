#pragma once

/** @file
 * One step as lines of letters, a line per bucket, with the figures of exchanges.h.
 */

#include "core/report/exchanges.h"

enum {
    GANTT_WIDTH = 80,       /**< where no terminal says how wide it is */
    GANTT_WIDTH_LEAST = 50, /**< [columns] */
};

/** Append the step of @list, @width columns wide (GANTT_WIDTH_LEAST or more): a line for the
 * compute lane, of a pipeline of each stage, one for the input lane if it works, one for what
 * layers exchange, and one per bucket with all parts of its all-reduce, each at least one letter;
 * if there are too many buckets, one for all.  Where the rank does two things of a line within one
 * column, the later has it. */
void gantt_print(struct text *out, const struct report_exchanges *list, int32_t width);
