#pragma once

/** @file
 * Inputs of which a file does not say one value but what is known of it:
 *
 *     batch_per_device: {low: 16, high: 64}       every value between is equally likely
 *     algorithm: {one_of: [ring, torus2d]}        each is equally likely; also lists and mappings
 *     rate: {value: 350 images/s, spread: 40 %}   lognormal, of that deviation of the logarithm
 *
 * The first two may have the source and kind that a platform's numbers have.  Settling puts one
 * value in place of each, so nobody who reads the document afterwards needs to know of them.  A
 * whole file is none.
 */

#include "core/config/yaml.h"

enum {
    UNKNOWN_LIMIT =
        32 /**< in one job: more is a mistake, and draws fill so many dimensions evenly */
};

/** One of them. */
struct unknown {
    char *key;       /**< as assignments name it: "training.phases[0].batch_per_device"; owned */
    int32_t choices; /**< values to choose from, 2 for the ends of a range; 0: no end */
    bool listed;     /**< the choices are all there is: one_of */
    double values;   /**< how many there are, equally likely: listed, whole; 0: any between */
    char *range;     /**< for people: "16 to 64", "ring or torus2d", "10 us, spread 40 %"; owned */
};

/** All of a job.  Start from {0} or with the quantiles; release with unknowns_release(). */
struct unknowns {
    const double *quantile; /**< (quantile_count) 0 to 1, of each in the order of the files; NULL
                               and what is missing: the centre, which is the middle between low and
                                 high, the first of several, and the value of a spread; borrowed */
    int32_t quantile_count;
    struct unknown *item; /**< (count) that were found; owned */
    int64_t count;
};

/** Whether @node says what is known of a value instead of the value. */
bool node_is_unknown(const struct node *node);

/** Put values in place of all unknown inputs of @document, whose keys assignments begin with
 * "platform." or "" (@prefix), and append them to @unknowns; NULL: none is allowed.
 * @return 0, or -1 with located messages: not allowed here, a key beside them that has no place,
 * two ends that are no numbers of one unit in order, fewer than two to choose from, a spread that
 * is not above 0 and at most 10, more than UNKNOWN_LIMIT. */
int unknowns_settle(struct unknowns *unknowns, struct document *document, const char *prefix,
                    struct err *err);

/** Which of @values, all equally likely, @quantile is: a whole number below it. */
double unknown_choice(double quantile, double values);

/** The place of @key among @unknowns; -1: it is none of them. */
int32_t unknowns_find(const struct unknowns *unknowns, const char *key);

/** Append copies of those of @more whose keys are not among @all.
 * @return 0, or -1 with exit code 65: more than UNKNOWN_LIMIT. */
int unknowns_merge(struct unknowns *all, const struct unknowns *more, struct err *err);

/** Release what was found. */
void unknowns_release(struct unknowns *unknowns);
