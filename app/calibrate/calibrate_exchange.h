#pragma once

/** @file
 * Times of a round of an all-reduce by size, and the line fitted to them.
 *
 * Measured are the rounds of a ring all-reduce of all ranks, which exchange messages and add up
 * what arrives.  That is what training does, so the line becomes the platform's link.  Numbers
 * travel in the type of request.exchange.gradients, so what converting them takes is in every
 * figure.  The figure is the lower quartile of several sweeps; they go on until one half of them
 * says what the other does, within bounds of number and time.
 */

#include "app/calibrate/calibrate_run.h"
#include "app/cli/request.h"

/** One size. */
struct exchange_time {
    int64_t bytes;  /**< of a message */
    double seconds; /**< of a round, the lower quartile of the sweeps */
};

/** A line: seconds = latency + bytes / bandwidth. */
struct exchange_line {
    double latency, bandwidth;       /**< [s], [bytes/s] */
    double latency_sd, bandwidth_sd; /**< standard deviations; the second relative */
    double correlation;              /**< of latency and seconds per byte */
    double residual;                 /**< root mean square of (measured - line) / measured */
};

/** The answer.  Start from {0}; release with exchange_release(). */
struct exchanges {
    struct sizes sizes;         /**< of one message [bytes] */
    struct exchange_time *time; /**< (sizes.count) owned */
    struct exchange_line line;  /**< through those */
    int32_t ranks, sweeps;
    double apart;  /**< the largest relative difference between two halves of the sweeps; INFINITY:
                        there was one */
    double unsure; /**< standard deviation of the log of a time, from those two halves;
                        EXCHANGE_UNKNOWN of one sweep */
};

/** The relative difference of lower quartiles up to which halves of the sweeps agree. */
#define EXCHANGE_AGREE 0.10
/** Beyond this difference, the sweeps are called disturbed.  Our choices. */
#define EXCHANGE_DISTURBED 0.30
/** A relative standard deviation where only one sweep was. */
#define EXCHANGE_UNKNOWN 0.30
enum { EXCHANGE_SWEEPS_LEAST = 4, EXCHANGE_SWEEPS_MOST = 16 };

/** Measure rounds between @ranks ranks on this machine with messages of
 * @bytes ("1KiB..4MiB:x4") and the gradients and repeats of @options, into zeroed @exchange,
 * within the fraction @share of what @budget has left.
 * @return 0, or -1: the messages of measure_collective(), malformed sizes (exit code 64); if
 * @budget is strict, sweeps that do not agree or times that do not grow with the size (75). */
int exchange_measure(struct exchanges *exchange, const struct exchange_options *options,
                     const char *bytes, int32_t ranks, struct budget *budget, double share,
                     struct err *err);

/** The relative standard deviation of a time: what the line leaves, or what two halves
 * of the sweeps show, whichever is more. */
double exchange_spread(const struct exchanges *exchange);

void exchange_release(struct exchanges *exchange);
