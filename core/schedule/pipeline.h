#pragma once

/** @file
 * Stages of a pipeline: which layers each has, and in which order it runs micro-batches.
 *
 * The network is cut into parts, one after the other, of which stage s of p has parts s, p + s,
 * 2 p + s, ...: its chunks.  A cut lies where one value crosses: of transformers between blocks,
 * equally many in each part; where that is not possible, the parts at both ends, which have the
 * embedding and the words, have one fewer, or none; with parallel.blocks so many in each part, and
 * what is left in the last.  Others, and with parallel.balance flop, are
 * cut so that the part with most FLOP has as few as possible.  With greedy a part ends behind the
 * block with which the weights of products so far are more than its share and that of those before
 * it. Source: Llama 3's stages (Grattafiori et al. 2024, section 3.3.2); greedy: nanotron,
 * models/base.py.
 *
 * A task is a part, forward or backward, of a micro-batch.  GPipe runs all forward first.  1F1B
 * runs p - s - 1 forward first, then one forward and one backward in turns; interleaved, of several
 * chunks, 2 (p - s - 1) + (chunks - 1) p, p micro-batches of a chunk before the next chunk.
 * Source: Huang et al. 2018, "GPipe"; Narayanan et al. 2021, "Efficient large-scale language model
 * training on GPU clusters using Megatron-LM", section 2.2, and its warm-up.
 */

#include "core/scenario/scenario.h"
#include "core/schedule/model.h"

/** A network in stages.  Start from {0}; release with pipeline_release(). */
struct pipeline {
    int32_t stages, chunks; /**< chunks of each stage */
    int32_t parts;          /**< of all stages together */
    int32_t *end;           /**< (parts) the layer behind each, in the order of the network */
    int32_t *value;         /**< (parts) the layer whose value the next part reads */
    int32_t blocks;         /**< that parts share as evenly as can be; else 0 */
};

/** Cut @model into the stages that @scenario asks for, without any into one.
 * @return 0, or -1: it has no place for so many cuts. */
int pipeline_build(struct pipeline *pipeline, const struct model *model,
                   const struct scenario *scenario, struct err *err);

void pipeline_release(struct pipeline *pipeline);

/** What stage @stage has of @model, for sums: the others' layers are there, but have neither
 * parameters nor values, but for those that it receives.  Weights that it uses and another stage
 * has are its own, too.  Release with model_free(). */
struct model *pipeline_stage(const struct pipeline *pipeline, const struct model *model,
                             int32_t stage);

/** The layer of a stage, @own, of network @all whose weights a layer of another stage uses, too, or
 * that uses another's; -1: none. */
int32_t pipeline_shared(const struct model *own, const struct model *all);

/** A part of the network, forward or @back, of a micro-batch. */
struct task_of_stage {
    int32_t stage, part, micro;
    bool back;
};

/** All tasks of @micros micro-batches, each behind what it needs, those of a stage in its order: 2
 * * parts * micros.  The caller frees them. */
struct task_of_stage *pipeline_order(const struct pipeline *pipeline, enum pipeline_order order,
                                     int32_t micros);

/** Parts of micro-batches whose values stage @stage keeps at most, of @micros. */
int64_t pipeline_in_flight(const struct pipeline *pipeline, enum pipeline_order order,
                           int32_t stage, int64_t micros);
