#pragma once

/** @file
 * Trials: a step of training on a platform as it is and with some number changed, in closed form.
 */

#include "core/backend/backend.h"
#include "core/schedule/iteration.h"
#include "tests/assert.h"

/** What runs, and where. */
struct trial {
    struct platform *platform;
    enum algorithm algorithm;
    bool sharded;           /**< the optimizer, of RING and TORUS2D */
    bool channels;          /**< RING: one for each device of a node, else one */
    int32_t nodes, devices; /**< devices: of each node */
    struct grid grid;
    const char *network;
    enum dtype compute, gradients;
    enum overlap overlap;
    int64_t batch, bucket;
    struct noise noise;
    int32_t nccl; /**< its version; 0: the newest */
};

/** ResNet-50 by ALGORITHM_RING on all devices of @nodes nodes: 32 images each, in fp16 where the
 * device has it, buckets of 8 MB during backward, rows as long as a node. */
struct trial trial_new(struct platform *platform, int32_t nodes);

/** Whether the platform has what the algorithm needs, and there are several ranks. */
bool trial_can_run(const struct trial *trial);

/** The schedule of its iteration, which is built once for trials of one job in a row: it lasts
 * until that of another job is asked for. */
const struct schedule *trial_schedule(const struct trial *trial);

/** The platform laid out for it. */
struct fabric *trial_fabric(const struct trial *trial);

/** Everything a back end needs to run it on @fabric. */
struct run trial_run(const struct trial *trial, const struct fabric *fabric);

/** How long a step on @fabric takes [s]. */
double trial_step(const struct trial *trial, const struct fabric *fabric);

/** The same on its own fabric. */
double trial_seconds(const struct trial *trial);

/** Print what it is: "abci by ring on 2 nodes". */
void trial_print(struct text *out, const struct trial *trial);

/** Call @visit with each platform of the platform directory. */
void trial_each_platform(void (*visit)(void *context, struct platform *platform), void *context);

/** A number that a platform or device file gives, which may be changed in place. */
struct number {
    char path[96];
    enum unit unit;
    double *value;  /**< NULL: it is whole */
    int64_t *count; /**< NULL: it is not */
    int64_t part;   /**< of which it is a multiple: rails share uplinks evenly */
};

/** All of them. */
struct number_list {
    struct number *number;
    int32_t count;
};

/** The numbers of @platform, quantities and whole ones.  The caller frees the array. */
struct number_list trial_numbers(struct platform *platform);

/** Whether a larger value is better: bandwidths, rates, parts of them. */
bool number_is_rate(const struct number *number);

/** Multiply it.  @return what it was, for number_set(). */
double number_scale(const struct number *number, double factor);

/** Set it; a whole number is rounded to a multiple of its part, and at least one. */
void number_set(const struct number *number, double value);
