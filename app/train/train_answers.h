#pragma once

/** @file
 * The answers of `train` and `evaluate`, which foretrain-exec makes and foretrain describes, and
 * the runs of an all-reduce, which foretrain reads.
 */

#include "exec/measure/timing.h"
#include "exec/train/train.h"

/** A training step of this process. */
struct train_step {
    double loss, seconds;
};

/** The answer of `train`.  Everything is borrowed but the steps. */
struct train_answer {
    const char *sha256;
    uint64_t schedule_hash; /**< of the first phase */
    const char *network, *device;
    int32_t threads;
    const struct train_result *result;
    const struct train_result *rehearsed;       /**< the same if the device rehearses, else NULL */
    const struct train_result *traced;          /**< the same if there is a trace, else NULL */
    double images_per_s, loss_first, loss_last; /**< NAN: no step was run */
    double checkpoint_s;                        /**< of one checkpoint; NAN: none was written */
    struct train_step *step;                    /**< (steps) owned */
    int64_t steps;
};

/** The score of a checkpoint, or of an ensemble. */
struct train_score {
    const char *const *checkpoint; /**< (checkpoints) borrowed */
    int32_t checkpoints;
    struct evaluation evaluation;
    double top1, top5; /**< fractions */
};

/** The answer of `evaluate`. */
struct train_scores {
    struct train_score *item; /**< (count) owned */
    int32_t count;
};

/** The columns of both, and of a struct timing_sample. */
extern const struct answer_columns training_columns, evaluation_columns, sample_columns;
