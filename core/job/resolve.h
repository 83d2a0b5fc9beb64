#pragma once

/** @file
 * A job in which nothing is left open.
 *
 * A scenario leaves much to others: devices per node to the platform, the grid to the number of
 * devices, jitter to the software.  Here alone that is decided, and here alone is checked what only
 * scenario and platform together can tell.  Commands and back ends read the result.
 */

#include "core/backend/backend.h"
#include "core/backend/noise.h"
#include "core/collective/collective.h"
#include "core/collective/grid.h"
#include "core/network/fabric.h"
#include "core/platform/platform.h"
#include "core/platform/software.h"
#include "core/scenario/phase.h"
#include "core/schedule/model.h"

/* The grid of a torus2d all-reduce when nobody gives one.
 *
 * A row that is a node lets every network card work and keeps the longest messages off the network,
 * but columns are then as long as there are nodes; the grid nearest to a square has the fewest
 * rounds.  Which is faster depends on bytes and latencies, so both are timed by the closed form. */

/** What a grid is chosen for. */
struct grid_question {
    const struct platform *platform;
    int32_t nodes, devices_per_node;
    enum rank_order order; /**< in which ranks fill the nodes: a row or a column is a node */
    enum algorithm column_algorithm; /**< of the columns */
    int64_t bytes;                   /**< of one all-reduce */
    struct memory *memory;           /**< of who asks again; NULL: none */
};

/** A grid, and why. */
struct grid_choice {
    struct grid grid;
    const char *why; /**< "a row is a node" or "nearest to a square"; static; NULL: nobody chose */
    struct grid other;    /**< the slower one; 0 x 0: there was none */
    double seconds;       /**< of one all-reduce by the closed form, when there was another */
    double other_seconds; /**< of the other grid, not shorter */
};

/** The faster of both, the node's when they are equal.  Nearest to a square where the platform has
 * no nodes, not so many, or only one device is used in each. */
struct grid_choice grid_choose(const struct grid_question *question);

/** "grid 8 x 32: a row is a node; 16 x 16 takes 4.15 times as long".  The caller frees it. */
char *grid_choice_text(const struct grid_choice *choice);

/** What the command line asks for beyond the scenario.  Start from {0}: nothing. */
struct wish {
    int64_t nodes, devices_per_node; /**< instead of the scenario's cluster; 0: that */
    bool real; /**< the ranks are processes: neither size nor parts of the platform bind them */
    enum rank_order order;
    bool repeat;           /**< schedules say how often alike micro-batches come instead of
                                having them all; not what devices run */
    bool ignore_memory;    /**< batches may be larger than a device's memory holds */
    struct memory *memory; /**< of who asks again; borrowed; NULL: none */
};

enum {
    /** All-reduces in a training step.  Our choice: as many as a software profile may say, and 60
     * times the tensors of ResNet-50. */
    RESOLVED_ALL_REDUCES_MOST = 10000,
    /** Passes of layers in a training step: the layers times the micro-batches.  Our choice: a
     * prediction then took 20 s and 250 MB on a core of 2026. */
    RESOLVED_PASSES_MOST = 200000,
    /** Such passes of a baseline with a pipeline, which has more nodes where that helps. */
    RESOLVED_BASELINE_PASSES_MOST = 50000,
};

/** Devices that work together. */
struct extent {
    int32_t nodes, devices_per_node;
    struct grid grid; /**< holds all of them */
};

/** The job.  Start from {0}; release with resolved_release(). */
struct resolved {
    struct extent cluster;
    struct extent *phase;      /**< (plan.phase_count) devices of each phase; owned */
    struct extent baseline;    /**< what efficiency is relative to */
    struct grid_choice choice; /**< of the cluster's grid; why is NULL where that is given or does
                                    not matter */
    enum rank_order order;     /**< in which ranks fill the nodes of the cluster */
    enum algorithm algorithm, column_algorithm;
    int32_t channels;      /**< rings side by side */
    int64_t bucket;        /**< gradients in one all-reduce, at most [bytes] */
    char *stages;          /**< of a pipeline, a line for those that are alike, or NULL; owned */
    const char *optimizer; /**< its name */
    int64_t state;         /**< that it keeps, of all shards together [bytes] */
    int32_t sharding;      /**< its stage; 0: none */
    int32_t shards;        /**< of the optimizer, in the phase with the fewest; 1: not sharded */
    int64_t most_images;   /**< at once that fit the memory of a device */
    int32_t cut;           /**< tensors larger than a bucket */
    int32_t tensors;       /**< of the model */
    int64_t all_reduces;   /**< in an iteration, by torus2d of three steps each */
    bool repeat;           /**< as wished */
    struct plan plan;      /**< phases: batches, micro-batches, steps; owned */
    struct noise noise;    /**< zero: every device computes as fast as every other, always */
    int32_t nccl;          /**< version that the software brings, 100 * major + minor; 0: none */
    const char *software;  /**< name of the profile; NULL: the device file's; borrowed */
    const char *inputs;    /**< "images" or "samples" */
};

/** Decide all of @resolved (zeroed) for @scenario on @platform with @software (or NULL), training
 * @model.  Borrows from @software.
 * @return 0, or -1 with every fault, each located where the scenario says it: more devices than
 * SCENARIO_DEVICE_LIMIT or than the platform has, a grid that does not hold them, a batch that is
 * too small or too large, cannot be divided evenly or is no multiple of the micro-batch, more
 * all-reduces or micro-batches than are computed, evaluations or checkpoints within a step, a batch
 * that the recipe of a target does not know, phases that reach the target before the last, groups
 * of batch norm that do not fill a node, a number format or NCCL that the platform lacks, a batch
 * that does not fit the memory of a device (core/schedule/memory.h, with the workspace that a
 * convolution on a GPU may need), devices that share layers but do not fill a node, or on a
 * platform without nodes.  @model is that of one of them.  The exit code is 64 when wish->nodes is
 * what does not fit or wish->order has no effect, 69 when a target shall be trained for, else 65.
 */
int resolved_build(struct resolved *resolved, const struct scenario *scenario,
                   const struct platform *platform, const struct software *software,
                   const struct model *model, const struct wish *wish, struct err *err);

/** Whether ranks on @platform may fill the nodes in @order, for all-reduces by @algorithm.
 * @return 0, or -1 (exit code 64): an order that has no effect there. */
int resolved_check_order(const struct platform *platform, enum algorithm algorithm,
                         enum rank_order order, struct err *err);

void resolved_release(struct resolved *resolved);

/** The number of devices. */
int64_t extent_devices(struct extent extent);

/** Of groups of devices that have a batch each: all, unless they share layers. */
int64_t extent_replicas(struct extent extent);

/** Devices of each node of @scenario's cluster: those given, or all that a node of @platform
 * has. */
int64_t cluster_devices_per_node(const struct scenario *scenario, const struct platform *platform);

/** The largest divisor of @batch that is at most @most. */
int64_t resolved_fitting_part(int64_t batch, int64_t most);

/** A wish for @ranks ranks on as few nodes as hold them, equally many and at most @room on each. */
struct wish wish_for_ranks(int64_t ranks, int64_t room);

/** Which tensors are larger than a bucket, in words; NULL: none is.  The caller frees it. */
char *resolved_cut_text(const struct resolved *resolved);

/** A line for each run of stages of @model that are alike, of which each has values of some of
 * @micros micro-batches; NULL: there is one stage.  The caller frees it. */
char *resolved_stages(const struct scenario *scenario, const struct model *model, int64_t micros);

/** Append everything that was decided, one line each, with rows and columns if there is a @grid. */
void resolved_print(struct text *out, const struct resolved *resolved, bool grid);
