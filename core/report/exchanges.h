#pragma once

/** @file
 * The all-reduces of one step, one after the other: when each is ready, when it runs, and how much
 * of it nothing hides.
 */

#include "core/backend/nccl_use.h"
#include "core/schedule/schedule.h"

/** One STEP_COLLECTIVE of the last iteration, on the rank that finishes last.  Times are seconds
 * since that iteration began. */
struct report_exchange {
    const struct step *step; /**< borrowed from the schedule */
    int32_t way;             /**< of NCCL: an index of nccl_way_words */
    double ready;            /**< all that it needs was there */
    double begin, end;
    double exposed; /**< the part in which the rank neither computes nor waits for a column instead,
                         of all its runs; together they are the breakdown's exposed communication */
};

/** All of them, in the order in which they begin, and all that the rank does meanwhile. */
struct report_exchanges {
    const struct schedule *schedule; /**< borrowed */
    const struct trace *trace;       /**< borrowed */
    int32_t rank;                    /**< breakdown_rank() */
    double from, to;                 /**< the iteration [s], as the trace counts */
    struct span
        *span;     /**< (span_count) of that rank, in or across the iteration, by begin; owned */
    double *reach; /**< (span_count) when the last of the spans up to each ends [s]; owned */
    int64_t span_count;
    struct report_exchange *exchange; /**< (count) owned */
    int32_t count;
};

/** Those of @trace, which ran @schedule as @run says; release with exchanges_release(). */
struct report_exchanges exchanges_of(const struct run *run, const struct schedule *schedule,
                                     const struct trace *trace);

/** Seconds of @span, which is a collective or a part of one, that nothing hides. */
double exchanges_exposed(const struct report_exchanges *list, const struct span *span);

void exchanges_release(struct report_exchanges *list);

/** The columns of a report_exchange. */
extern const struct answer_columns exchange_columns;
