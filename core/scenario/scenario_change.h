#pragma once

/** @file
 * What may become another job when a run goes on: values, compared one by one.
 *
 * A checkpoint keeps the values that its job had, resolved and in SI ("training.micro_batch": 8),
 * so neither spelling nor a default that is given matters, and a default that changed does.  Phases
 * have the global batch that they had on their ranks.
 */

#include "core/scenario/phase.h"

/** Whether a run may go on with another value. */
enum scenario_change {
    CHANGE_NEVER,     /**< weights, momentum or position would mean something else */
    CHANGE_KNOWINGLY, /**< the result is another: who goes on must say so */
    CHANGE_FREELY     /**< the result stays, up to rounding */
};

/** One decision: for a key, and for those below it that have none of their own. */
struct scenario_rule {
    const char *path; /**< "training.optimizer" */
    enum scenario_change change;
};

/** All decisions, ending with path NULL: every key of a scenario has one. */
extern const struct scenario_rule scenario_rules[];

/** What is decided of @key ("training.phases.0.epochs"); CHANGE_KNOWINGLY where nothing is, as for
 * keys of other versions. */
enum scenario_change scenario_change_of(const char *key);

/** The values of @scenario, whose batches are @plan's.  The caller frees them. */
struct json *scenario_values(const struct scenario *scenario, const struct plan *plan);

/** Whether @key is a key of a scenario, or stands above some: one that may be allowed to change.
 * @return 0, or -1 (exit code 64) with the nearest key. */
int scenario_check_key(const char *key, struct err *err);

/** Compare the values @before, which stand in checkpoint @name, with @now.  What was changed
 * freely, or is among the keys @allowed (count) or below one of them, is told in @notes, with old
 * and new value.
 * @return 0, or -1 (exit code 65) with one message that has a line for each other change. */
int scenario_compare(const char *name, const struct json *before, const struct json *now,
                     const char *const *allowed, int32_t count, struct text *notes,
                     struct err *err);
