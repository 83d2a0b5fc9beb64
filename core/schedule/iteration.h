#pragma once

/** @file
 * From a network and a scenario to the schedule of one training iteration.
 *
 * FLOP are matrix arithmetic only, as everywhere.  These are added to the layers' own FLOP and
 * activations, per batch:
 *
 *   weights    read by forward and backward-data in the type of the arithmetic; their gradients are
 *              written once, by backward-filter, in the type of the exchange: no step of its own
 *              converts them.  A layer that uses another's weights reads the sum of both, too
 *   loss       softmax, cross-entropy and its gradient: 2 kernels; each score is read twice and its
 *              gradient written once
 *   optimizer  what core/schedule/optimizer.h says, and 3 kernels more for norms of tensors (both
 *              norms, the rates), 2 for that of all gradients alone
 *   batch norm in groups of 2^k devices: k exchanges of the sums per layer, forward and backward,
 *              with one other device at a time; evaluation has none.
 *              Source: NVIDIA apex contrib/groupbn/batch_norm.py: bn_sync_steps is 1, 2, 3 for
 *              groups of 2, 4, 8.
 *
 * A batch larger than the micro-batch runs as several passes, whose gradients add up;
 * only the last one's are exchanged.
 *
 * A sharded optimizer (parallel.sharding) has these steps:
 * - a reduce-scatter of each bucket, in torus2d of rows before the all-reduce of columns;
 * - an all-reduce of the sums of squares of the ranks' shards: one fp32 number, or two per tensor
 *   for LARS, without which no rank knows of an overflow elsewhere or of a tensor's norm.  LAMB has
 *   a second one, of two per tensor, once its moments are there.
 *   If the type of the arithmetic is not that of the masters, the gradients of biases and batch
 *   norm are in it, too: every rank computes with their masters, and so updates them;
 * - the update of the shard;
 * - at the beginning of the next iteration, an all-gather of each bucket's parameters in the type
 *   of the arithmetic, the last bucket's first, as forward needs them.
 * Source: Rajbhandari et al. 2020, "ZeRO: Memory optimizations toward training trillion parameter
 * models" (stage 1).  Kernels are assumed to be those of whole tensors.
 *
 * With parallel.sharding 2 gradients are kept as a shard, too, so that each pass scatters its own,
 * and begins backward once those of the pass before are scattered: they lie in the same place.
 * With 3 so are the weights: a group of layers, those of a bucket, or of several that end in one
 * layer, gathers them in the type of the arithmetic before it runs forward and again before it runs
 * backward, while the group before it runs, and no earlier: two groups are there at once.  No
 * parameter is kept whole, so that none goes with the norms.  A layer that uses another's weights
 * is assumed to have kept them.  Left out: the gathers of evaluations.
 * Source: Rajbhandari et al. 2020 (stages 2 and 3); Zhao et al. 2023, "PyTorch FSDP".
 *
 * Where ranks share layers (parallel.tensor), the network is that of one of them, and a layer that
 * they exchange is a collective forward and one backward on a lane of its own.  What reads the
 * value waits for it; backward, gradients of weights do not.  LAMB's update is two steps, and these
 * ranks sum the squares of each tensor's step and weights between them.  Where each has a block
 * of the positions between layers, they sum the gradients of the norms there after those of other
 * replicas.  Left out: the second all-gather of a layer's input, which is kept instead.
 * Source: Shoeybi et al. 2019, "Megatron-LM"; Korthikanti et al. 2022, "Reducing activation
 * recomputation in large transformer models".
 *
 * Where ranks share sequences (parallel.context), the keys and values of the others are not kept:
 * backward has them once more, and scatters their gradients.  By all-gather attention waits; by
 * ring its last part alone does, as each part waits for its own: n parts of c s beside n - 1 rounds
 * of r s take max(n c, (n - 1) r + c) either way.  The other parts have a kernel each.  Left out:
 * the sums of partial results.
 * Source: Liu et al. 2023, "Ring attention with blockwise transformers"; Grattafiori et al. 2024,
 * "The Llama 3 herd of models", section 3.3.2.
 *
 * Where ranks share experts (parallel.expert), positions go to them and back, all to all in pairs;
 * nothing runs beside that.  Every rank is as busy as the busiest (parallel.imbalance), which waits
 * for nobody.  Gradients of experts are in buckets of their own, over the ranks that have the same.
 * Source: Lepikhin et al. 2020, "GShard"; Megatron-LM's order of ranks.
 *
 * With parallel.recompute the layers of a block, or its attention, run forward again before their
 * backward, with what ranks exchange in them; weights are assumed to be gathered by blocks.  What
 * software computes again by itself (flash attention) is part of its backward.
 * Source: Korthikanti et al. 2022.
 *
 * Of a pipeline (core/schedule/pipeline.h) the list has the tasks of all stages, each behind what
 * it needs.  What a stage sends is a step behind the task that computes it; the task that reads it
 * waits for it.  Each stage has buckets of its own, exchanged while its last micro-batch runs
 * backward, and its own optimizer.  Weights that the first and the last stage both use: each sends
 * the other its gradient.
 *
 * Where ranks share the words, the last layer's scores are of some words each.  For each position
 * and rank four numbers in fp32 are gathered: the largest score, the sum of exponentials relative
 * to it, the sum of scores, and the score of what follows.  Megatron-LM adds up three numbers, one
 * after the other.
 *
 * Where the optimizer needs the norm of all gradients, the ranks that share layers add their
 * squares; stages send theirs on to the last one, which sends all of them back.
 *
 * The all-reduces of two buckets never overlap: a torus all-reduce, or what is left of it before a
 * sharded optimizer, ends before the next begins, as on one CUDA stream.
 */

#include "core/scenario/scenario.h"
#include "core/schedule/bucket.h"
#include "core/schedule/schedule.h"

enum { LOSS_SUMS = 4 /**< numbers for each position that ranks which share the words gather */ };

/** What an iteration looks like. */
struct iteration {
    const struct model *model;       /**< borrowed */
    const struct scenario *scenario; /**< borrowed: precision, optimizer, all-reduce, input */
    enum fusion fusion;              /**< of the device's software */
    struct merges merges;            /**< of the same */
    struct grid grid;
    int32_t devices_per_node;        /**< with the same parameters: for hierarchical all-reduce and
                                          groups of batch norm */
    int64_t batch;                   /**< images per rank; a multiple of micro_batch */
    int64_t micro_batch;             /**< images that pass through the network at once */
    int64_t bucket;                  /**< gradients in one all-reduce, at most [bytes] */
    enum algorithm column_algorithm; /**< of the column step of TORUS2D */
    bool repeat; /**< of many alike micro-batches in a row have some and steps that repeat them */

    /* Kept by iteration_build(): steps of layers, which are alike in all micro-batches, and the
     * task that is built. */
    struct step
        *known; /**< (layers * COMPUTE_OP_COUNT) those without a name are not known; or NULL */
    struct {
        int32_t begin, end; /**< its layers */
        int32_t first;      /**< its first step */
        int32_t arrived;    /**< the step that brings what it reads, or -1 */
        int32_t paired;     /**< its first step, if exchanges with experts run beside another
                                 micro-batch; else 0 */
    } task;
};

/** Build and seal: input (prefetched), forward, loss, backward from last to first layer, an
 * all-reduce per bucket (as soon as it is full, or all after backward; none for one rank),
 * optimizer; with a pipeline, whose stages must fit the model, those of each stage.  A layer
 * without matrix arithmetic runs backward in one backward-data step; the first layer has no
 * backward-data step.
 * @return the schedule; never fails for a checked scenario. */
struct schedule *iteration_build(const struct iteration *iteration);

/** The ranks on @grid that share the optimizer's work by the scenario; 1: each does all. */
int32_t iteration_shards(const struct scenario *scenario, struct grid grid);

/** The sums of squares in the all-reduce of norms of a sharded optimizer. */
int64_t iteration_norms(const struct model *model, const struct scenario *scenario);

/** Whether ranks have the gradient of tensor @t of a block of the positions each. */
bool iteration_is_apart(const struct model *model, const struct scenario *scenario, int32_t t);

/** Whether tensor @t is not the weight of a product or an embedding: biases, and those of norms. */
bool iteration_is_vector(const struct model *model, int32_t t);

/** The gradients behind them: of all such parameters, or none. */
int64_t iteration_vectors(const struct model *model, const struct scenario *scenario);

/** Only input and forward pass, for evaluation; sealed. */
struct schedule *iteration_build_forward(const struct iteration *iteration);

/** How to all-reduce. */
struct all_reduce {
    enum algorithm algorithm;
    int32_t channels; /**< a word of channel_names */
    int64_t chunk;    /**< bytes of a tree's chunks; 0: all at once */
};

/** Only one all-reduce of @bytes; sealed.  NULL with a message when the algorithm cannot run on
 * the grid: one rank, nodes that are not full for the hierarchical one and for channels, more
 * channels than a node has devices, channels of what is no ring, chunks of what is no tree. */
struct schedule *iteration_build_all_reduce(struct all_reduce how, struct grid grid,
                                            int32_t devices_per_node, int64_t bytes,
                                            struct err *err);
