#pragma once

/** @file
 * The axes of a sweep: keys with the values that each takes, and their cross product.
 *
 * "cluster.nodes=8..1024:x2" is a range that is multiplied, "16..64:16" one that is added to,
 * "1..5" has a step of 1; numbers may have a unit: "2us..16us:x2".  "torus2d,ring" is a list;
 * commas inside brackets and quotes belong to a value.  The first axis changes slowest.
 */

#include "app/cli/option.h"

enum {
    AXES_POINTS_MOST = 1000000 /**< of one sweep: a mistyped factor must not run for days.  Our
                                    choice */
};

/** One key. */
struct scanned {
    char *key;          /**< as --set takes it; owned */
    struct texts value; /**< as --set takes them */
};

/** All keys.  Start from {0}; release with axes_release(). */
struct axes {
    struct scanned *item; /**< (count) owned */
    int32_t count;
    int64_t points; /**< of the cross product; 1 without axes */
};

/** Read the @given axes, of @option ("--scan") in messages, into the empty @axes.
 * @return 0, or -1 with located messages (exit code 64): no "key=", no value, a range that is none
 * or never ends, ends of different units, a key given twice, too many points. */
int axes_read(struct axes *axes, const char *option, const struct texts *given, struct err *err);

/** That each value can stand at its key of a job, whatever the other axes have: a misspelt word
 * would otherwise be found when all other points are done.
 * @return 0, or -1 as job_check_value() (exit code 64). */
int axes_check(const struct axes *axes, struct err *err);

/** How far apart in the order of points two neighbours on @axis are. */
int64_t axes_stride(const struct axes *axes, int32_t axis);

/** The value of @axis at @point (from 0); borrowed. */
const char *axes_value(const struct axes *axes, int64_t point, int32_t axis);

/** Append "key=value" of every axis at @point to @set. */
void axes_assign(const struct axes *axes, int64_t point, struct texts *set);

void axes_release(struct axes *axes);
