#pragma once

/** @file
 * The part of a network that a rank has: a stage of a pipeline, and of each layer what is not of
 * the ranks that share it.
 *
 * A rank computes with the layers of its part alone, and its flat arrays hold the parameters of
 * those.  Its layers have the indices of the schedule: the others are there, but empty, unless they
 * bring what the rank receives.  Checkpoints and the start of a run know the whole network; so each
 * tensor of a part has a place in the whole one's arrays: all of it, some rows, which may end in
 * padding, or some columns.
 */

#include "core/collective/grid.h"
#include "core/scenario/scenario.h"
#include "core/schedule/schedule.h"
#include "exec/step/layout.h"

/** Where a tensor of a part lies in the arrays of the whole network. */
struct place {
    int64_t own, whole;    /**< offsets */
    int64_t rows, columns; /**< that both have */
    int64_t next;          /**< elements from one row to the next in the whole */
    bool repeated;         /**< another rank has it, too, and measures its norms */
};

/** A part. */
struct part {
    const struct model *model; /**< of this rank */
    struct model *made;        /**< the same, if it is a stage; owned */
    struct layout layout;      /**< of it */
    struct place *place;       /**< (model->tensor_count) in the order of the model; owned */
    int32_t stage, stages;
    int32_t index, parts; /**< of those that share layers */
    int32_t shared;       /**< layer whose weights another stage uses, too; -1: there is none */
};

/** The part of @rank by @schedule of the network @whole, laid out as @layout, of which @split has
 * what one of the ranks that share layers has (@whole if none do).  All are borrowed.  Release with
 * part_release(). */
struct part part_build(const struct layout *whole, const struct model *split,
                       const struct scenario *scenario, const struct schedule *schedule,
                       int32_t rank);

void part_release(struct part *part);

/** Micro-batches whose values of a layer some stage of @schedule keeps at a time, at most, of a
 * network of so many @layers.  A value may lie where that of so many micro-batches before lay: a
 * stage runs another one forward only once the one before has come all the way back. */
int32_t part_flights(const struct schedule *schedule, int32_t layers);

/** Whether it is not the whole network. */
bool part_is_split(const struct part *part);

/** Copy what the part has of the flat array @whole to its own one, or @back. */
void part_copy(const struct part *part, bool back, float *whole, float *own);
