#pragma once

/** @file
 * A schedule is the program one rank runs in one training iteration: a list of steps.
 *
 * All ranks of a stage run the same steps of the list; a rank's place in the grid decides only its
 * peers.  What a stage sends to another is a step of both.  Without a pipeline there is one stage.
 * Two rules fix the order completely:
 *
 *   1. A step starts after every step it depends on has finished; each rank waits for those that
 *      it runs.
 *   2. Steps of one lane run one at a time, in the order they were added.
 *
 * A dependency names a step and a distance: distance 0 is this iteration and must name an earlier
 * step; distance d > 0 is d iterations ago and may name any step (a dependency on an iteration
 * before the first is met).  So a cycle cannot be written, the list is in topological order, and no
 * back end ever chooses an order.
 *
 * A schedule holds no durations and no buffers, only FLOPs and bytes: facts of the model.  Bytes
 * and FLOP are exact integers for one rank and its whole local batch.
 */

#include "core/base/answer.h"
#include "core/collective/collective.h"
#include "core/schedule/model.h"

/** What a step does. */
enum step_kind { STEP_COMPUTE, STEP_COLLECTIVE, STEP_INPUT, STEP_REPEAT, STEP_KIND_COUNT };

/** "compute", "collective", "input", "repeat". */
extern const char *const step_kind_names[];

/** A queue of a rank: one CUDA stream, one communicator, one thread, one simulated actor. */
enum lane {
    LANE_COMPUTE,
    LANE_ROW,
    LANE_COLUMN,
    LANE_INPUT,
    LANE_TENSOR, /**< collectives inside of layers */
    LANE_SEND,   /**< values to the next stage; each lane of what is sent has its receivers' lane
                      behind it */
    LANE_RECEIVE,
    LANE_SEND_BACK, /**< gradients to the stage before */
    LANE_RECEIVE_BACK,
    LANE_COUNT,
    LANE_CAPTURED = LANE_TENSOR /**< lanes that devices run which capture iterations */
};

/** "compute", "row", "column", "input", "tensor", "send", "receive", "send-back", "receive-back".
 */
const char *lane_name(enum lane lane);

/** What a compute step computes. */
enum compute_op {
    COMPUTE_FORWARD,
    COMPUTE_LOSS,
    COMPUTE_BACKWARD_DATA,
    COMPUTE_BACKWARD_FILTER,
    COMPUTE_OPTIMIZER,
    COMPUTE_OP_COUNT
};

/** "forward", "loss", "backward-data", "backward-filter", "optimizer"; NULL-terminated, in the
 * order of enum compute_op. */
extern const char *const compute_op_names[];

/** What a collective carries. */
enum collective_content {
    CONTENT_GRADIENTS,
    CONTENT_PARAMETERS, /**< that each rank of the axis has updated a shard of */
    CONTENT_NORMS,      /**< sums of squares over those shards, parts of layers or stages, and
                             gradients that no shard keeps, in fp32 */
    CONTENT_STEPS,  /**< of LAMB, sums of squares of each tensor's step and weights over shards and
                         parts of layers, in fp32 */
    CONTENT_BLOCKS, /**< gradients of iteration_is_apart(), of a block of the positions each */
    CONTENT_ACTIVATIONS, /**< of layers that the ranks of the axis share, or between stages, and
                              their gradients */
    CONTENT_COUNT
};

/** "gradients", "parameters", "norms", "steps", "blocks", "activations". */
extern const char *const content_names[];

/** What a step is to the iteration of its stage, for back ends that report on it. */
enum step_role {
    ROLE_NONE,
    ROLE_FIRST_FORWARD, /**< the iteration's work begins with it, once its input is there */
    ROLE_LAST_BACKWARD, /**< what follows on the compute lane may wait for other ranks */
    ROLE_NORMS,         /**< of a sharded optimizer: the sums over the rank's shard */
    ROLE_MOMENTS,       /**< of LAMB in parts or shards: steps that wait for their norms */
    ROLE_OPTIMIZER,     /**< the iteration's work ends with it */
    ROLE_COUNT
};

/** A step must run after @step of @distance iterations ago. */
struct dep {
    int32_t step;
    int32_t distance;
};

/** One step. */
struct step {
    enum step_kind kind;
    enum lane lane;
    enum step_role role;
    int32_t stage; /**< of the ranks that run it; of COLLECTIVE_SEND, those that send */
    int32_t times; /**< how often a repeat runs it; 0: once, without one.  Predictions only */
    int32_t dep_begin, dep_end; /**< half-open range in schedule.dep; set by schedule_add() */
    const char *name; /**< a literal, or of schedule_text(); NULL is "" once it is added */
    union {
        struct {
            enum compute_op op;
            enum layer_op layer_op;  /**< of the layer; meaningless for loss and optimizer */
            int32_t layer;           /**< index in the model, or -1 */
            enum kernel_kind kernel; /**< kind of its kernels */
            enum dtype dtype;        /**< of the arithmetic's inputs */
            enum products products;  /**< if those of a product are narrower */
            int32_t micro;           /**< index of its micro-batch in the local batch */
            int32_t kernels;         /**< kernels launched */
            int32_t exchanges;       /**< of batch norm's sums with a device of the same node */
            int64_t flops;           /**< [FLOP] */
            int64_t bytes;           /**< memory traffic [bytes] */
            int64_t converted;       /**< before that, to make a product's inputs narrow [bytes] */
            struct matrix_product product; /**< of KERNEL_GEMM; terms 0: not known */
            int64_t amount;                /**< images of the pass; parameters of the optimizer */
            const char *shape; /**< of the layer, as layer_describe() writes it; like the name */
        } compute;
        struct {
            enum collective_op op;
            enum collective_content content;
            enum axis axis;
            enum algorithm algorithm; /**< never TORUS2D: that is three steps */
            int32_t group;            /**< HIERARCHICAL, several channels: ranks per node; else 0 */
            int32_t channels;         /**< rings side by side; 0: one */
            int32_t chunks;           /**< of TREE; 0: one */
            int32_t bucket;           /**< which bucket, from 0; of norms the last */
            int64_t bytes;            /**< the full vector on one rank, for every op */
            int32_t to;               /**< of COLLECTIVE_SEND: the stage that receives */
            int32_t layer, micro;     /**< of activations: whose value, of which micro-batch; -1:
                                           the gradient of its weights */
            bool back;                /**< of activations: the gradient of that value */
            bool beside; /**< of activations: only its lane waits for it.  Predictions only */
        } collective;
        struct {
            int32_t images; /**< to decode and copy */
            int64_t bytes;  /**< of the decoded batch */
        } input;
        struct {
            int32_t since; /**< an earlier step of the lane: what follows it up to here repeats */
            int32_t times; /**< how often */
        } repeat;          /**< lasts as long as so many more runs of the lane, waiting included */
    };
};

/** What decides when a step runs, close together, since back ends read it often. */
struct step_turn {
    int32_t lane, other;        /**< stage * LANE_COUNT + lane, and that of the receiver, or -1 */
    int32_t dep_begin, dep_end; /**< of the step */
    int32_t like;               /**< of a collective: schedule_first_like() */
    bool repeats;               /**< it is a STEP_REPEAT */
};

/** Read freely; write only through the functions below. */
struct schedule {
    struct grid grid;
    struct step *step;
    struct step_turn *turn; /**< (step_count) once it is sealed */
    struct dep *dep;
    void *texts;                     /**< those of schedule_text(), a tree of tsearch() */
    enum algorithm column_algorithm; /**< of the column step of TORUS2D: RING until changed */
    int32_t channels; /**< rings of RING on AXIS_WORLD, at most the group; 0 like 1 */
    int64_t chunk;    /**< bytes of TREE's chunks; 0: the whole vector */
    double far;       /**< of an all-to-all, as of a collective */
    bool mesh;        /**< of several channels, as of a collective */
    int32_t step_count, dep_count;
    int32_t stage; /**< of the steps that are added next */
    bool experts;  /**< what is added next is of experts: AXIS_COPIES in place of AXIS_WORLD */
    bool sealed;
    bool mpi, grouped; /**< once it is sealed: it has collectives of MPI, products of experts */
    uint64_t hash;     /**< what schedule_hash() found once it was sealed; 0: nothing yet */
};

/** An empty schedule for @grid; never NULL; release with schedule_free(). */
struct schedule *schedule_new(struct grid grid);

void schedule_free(struct schedule *schedule);

/** Formatted text that lives as long as @schedule does; equal texts are one. */
const char *schedule_text(struct schedule *schedule, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Append @step, of schedule->stage, which waits for @dep (count).
 * @return its id, to be named in later dependencies. */
int32_t schedule_add(struct schedule *schedule, struct step step, const struct dep *dep,
                     int32_t count);

/** Append an all-reduce of @bytes that waits for step @after (-1: nothing): one step on AXIS_WORLD
 * and the row lane, or for TORUS2D the three steps row reduce-scatter, column all-reduce, row
 * all-gather (steps along an axis of size 1 are left out; with one rank nothing is added).  @group
 * is the ranks of a node, for HIERARCHICAL and channels; within one node all rings are the same, so
 * there is one.
 * @return the id of the last step, or @after when nothing was added. */
int32_t schedule_add_all_reduce(struct schedule *schedule, enum algorithm algorithm, int32_t group,
                                int32_t bucket, int64_t bytes, int32_t after);

/** The axis whose ranks share the optimizer's work where RING, TORUS2D or NCCL is @algorithm. */
enum axis schedule_shard_axis(enum algorithm algorithm);

/** Append what leaves each rank of the shard axis with the sum of its block of @bytes of gradients
 * of @bucket, once step @after is done, and not beside the bucket that ends in step @before (-1:
 * there is none); at least 2 ranks are on that axis.  @return the id of the last step. */
int32_t schedule_add_reduce_scatter(struct schedule *schedule, enum algorithm algorithm,
                                    int32_t bucket, int64_t bytes, int32_t after, int32_t before);

/** Append the all-gather of the blocks of @bytes of parameters of @bucket along the shard axis; it
 * waits for @after.  @return its id. */
int32_t schedule_add_all_gather(struct schedule *schedule, enum algorithm algorithm, int32_t bucket,
                                int64_t bytes, struct dep after);

/** Append what the ranks on @axis, which share a layer, a sequence or experts, exchange of a value
 * in it, or of its gradient, of @bytes, once step @after is done: by NCCL, or as a ring.  @return
 * its id. */
int32_t schedule_add_exchange(struct schedule *schedule, const char *name, enum collective_op op,
                              enum axis axis, enum algorithm algorithm, int64_t bytes,
                              int32_t after);

/** Append what schedule->stage sends to stage @to once steps @after and @also (-1: nothing) are
 * done: a value, or @back its gradient.  @return its id. */
int32_t schedule_add_send(struct schedule *schedule, const char *name, bool back, int32_t to,
                          int64_t bytes, int32_t after, int32_t also);

/** Append the all-reduce of @bytes of norms or steps among all ranks, once step @after is done: by
 * NCCL, or by halving and doubling, of 2 log2 n rounds, because the message is small.  Several rows
 * of a torus each have all shards, but only one all-reduce of all gives all the same bits.  @return
 * its id. */
int32_t schedule_add_norms(struct schedule *schedule, enum collective_content content,
                           enum algorithm algorithm, int32_t bucket, int64_t bytes, int32_t after);

/** The axis along which the optimizer of a sealed @schedule is sharded; AXIS_COUNT: it is not. */
enum axis schedule_sharded(const struct schedule *schedule);

/** Check every invariant and forbid further change.
 * @return 0, or -1: unknown kind, lane, op, axis or algorithm; negative count; a dependency on
 * itself, on a later step at distance 0, on a missing step or at a negative distance; a role on two
 * steps of a stage, or on one that computes nothing; a collective on the compute or input lane, or
 * another step on a lane of collectives; an algorithm that cannot compute its op or (NCCL) its
 * axis, a group that does not divide the ranks; no steps. */
int schedule_seal(struct schedule *schedule, struct err *err);

/** The first step that has @role (not ROLE_NONE), or -1. */
int32_t schedule_find(const struct schedule *schedule, enum step_role role);

/** How many stages @schedule has, at least 1. */
int32_t schedule_stages(const struct schedule *schedule);

/** The stage of @rank. */
int32_t schedule_stage(const struct schedule *schedule, int32_t rank);

/** Whether it is of a network with experts. */
bool schedule_has_experts(const struct schedule *schedule);

/** How often a step runs that is there once. */
int32_t step_runs(const struct step *step);

/** Append, on each lane that runs steps of schedule->stage from step @first on, but for those
 * between stages, a repeat of @times. */
void schedule_add_repeats(struct schedule *schedule, int32_t first, int32_t times);

/** The lane on which ranks of @stage run @step; LANE_COUNT: they do not. */
enum lane step_lane(const struct step *step, int32_t stage);

/** How many lanes @schedule has: LANE_COUNT, without stages LANE_SEND, or, where no layer is split
 * either, LANE_TENSOR. */
int32_t schedule_lanes(const struct schedule *schedule);

/** What people call a lane: "all-reduce" in place of "row" where there are no rows and columns, and
 * NULL in place of "column"; NULL in place of "tensor" where no layer is split, and of lanes
 * between stages where there is one. */
const char *schedule_lane(const struct schedule *schedule, enum lane lane);

/** A hash of every field that a back end reads.  Names, shapes and amounts are not hashed: FLOP and
 * bytes follow from them.  Enum constants are hashed as words, so that a new one changes no hash.
 * Equal schedules have equal hashes on every machine. */
uint64_t schedule_hash(const struct schedule *schedule);

/** Append the sealed schedule as text: a heading, then one line per step with its id, lane, kind,
 * name, size, and the steps it waits for ("<- 3, 7@-1": step 3, and step 7 one iteration ago). */
void schedule_print(struct text *out, const struct schedule *schedule);

/** Append the same as JSON. */
void schedule_print_json(struct text *out, const struct schedule *schedule);

/** Its columns. */
extern const struct answer_columns schedule_columns;

/** The collective of a STEP_COLLECTIVE, with bytes as elements. */
struct collective schedule_collective(const struct schedule *schedule, int32_t step);

/** The rank that each rank (ranks of the grid) sends to in a round of @pattern of @channel of the
 * STEP_COLLECTIVE @step, or -1.  The caller frees them. */
int32_t *schedule_send_peers(const struct schedule *schedule, int32_t step, int32_t channel,
                             int32_t pattern);

/** Whether two STEP_COLLECTIVEs, of any bytes, have equal rounds and ranks, as NCCL's always do. */
bool schedule_walk_alike(const struct step *a, const struct step *b);

/** Of a sealed schedule: the first STEP_COLLECTIVE that equals @step except for name, bucket and
 * dependencies (perhaps
 * @step itself), so that equal costs are computed once. */
int32_t schedule_first_like(const struct schedule *schedule, int32_t step);
