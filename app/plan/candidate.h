#pragma once

/** @file
 * Candidates of a plan: one way each to run the job, and what a prediction says of it.
 */

#include "app/cli/request.h"
#include "app/explore/axes.h"
#include "app/explore/finding.h"

/** Draws behind an interval, as in `predict`.  Where inputs are unknown each draw is a job of its
 * own: candidates have few, finalists as many as in `predict`. */
enum { CANDIDATE_DRAWS = 400, UNKNOWN_DRAWS = 20, UNKNOWN_FINALIST_DRAWS = 240 };

/** What a plan decides, in the order of the axes. */
enum decision {
    DECISION_PLATFORM,
    DECISION_NODES,
    DECISION_BATCH, /**< images per device in the last phase */
    DECISION_ALGORITHM,
    DECISION_BUCKET,
    DECISION_TENSOR, /**< of meshes alone, from here on */
    DECISION_CONTEXT,
    DECISION_EXPERT,
    DECISION_PIPELINE,
    DECISION_CHUNKS,
    DECISION_MICRO_BATCH,
    DECISION_SHARDING,
    DECISION_RECOMPUTE,
    DECISION_COUNT,
    MESH_PARTS = DECISION_COUNT - DECISION_TENSOR
};

/** What a mesh decides: DECISION_TENSOR is the first. */
enum mesh_part {
    MESH_TENSOR,
    MESH_CONTEXT,
    MESH_EXPERT,
    MESH_PIPELINE,
    MESH_CHUNKS,
    MESH_MICRO,
    MESH_SHARDING,
    MESH_AGAIN
};

/** How prediction of a candidate ends. */
enum depth {
    DEPTH_MESH,   /**< with its time: no interval */
    DEPTH_PLAN,   /**< with a rough interval */
    DEPTH_BESIDE, /**< with the interval that `predict` has, but not the efficiency */
    DEPTH_FINAL,  /**< as `predict` has it */
};

/** The keys that --set takes for them. */
extern const char *const decision_keys[DECISION_COUNT];

/** And the options, without dashes. */
extern const char *const decision_options[DECISION_COUNT];

/** One way to run the job. */
struct candidate {
    const char *platform;           /**< as --set takes it; borrowed */
    const char *algorithm, *bucket; /**< the same, or NULL: as the job says */
    int64_t nodes, batch;
    int64_t mesh[MESH_PARTS]; /**< all 0: as the job says */
    enum finding_status status;
    int32_t code;           /**< the exit code that `predict` would have */
    char *reason;           /**< NULL: it was predicted as it should be; owned */
    enum depth depth;       /**< to which it was predicted, or that failed */
    int32_t backend;        /**< enum backend_choice, behind the numbers */
    struct figures figures; /**< `least` is that of all algorithms and buckets of its nodes and
                                 batch */
    double closed;          /**< the time in closed form [s] */
};

/** Where candidates come from. */
struct question {
    const char *path;                      /**< of the job; borrowed */
    const struct predict_options *options; /**< borrowed */
    const struct scenario *scenario;       /**< the job as it is; borrowed */
    const struct tariffs *tariffs;         /**< borrowed; NULL: none */
    const char *target;                    /**< an accuracy, or NULL: as the job says; borrowed */
    double *share;   /**< (phases) images of a step over those of the last phase's; owned */
    int64_t *global; /**< (phases) of meshes: images of a step; owned; NULL: no mesh is searched */
    int32_t phases;
    bool unknown;    /**< the job has unknown inputs */
    bool pictures;   /**< the network reads them */
    int32_t workers; /**< at least 1 */
};

/** Let the job have @algorithm, or its own for NULL: without a grid, and without what belongs to
 * another algorithm. */
void candidate_add_algorithm(struct texts *set, const char *algorithm);

/** Everything that makes the job that of @candidate; texts_release() it. */
struct texts candidate_set(const struct question *question, const struct candidate *candidate);

/** "17 nodes of dgx-h100, nccl, bucket 64 MiB, 16, then 32 images a device"; owned. */
char *candidate_name(const struct question *question, const struct candidate *candidate);

/** "tensor 8, pipeline 4, data 32, micro-batch 1, sharding 1, recompute full"; owned. */
char *candidate_mesh(const struct candidate *candidate);

/** What an input of the network is called: "image" or "sample". */
const char *question_input(const struct question *question);

/** Images per device of phase @index of @candidate. */
int64_t candidate_batch(const struct question *question, const struct candidate *candidate,
                        int32_t index);

/** Predict those of @list that @at (@chosen) names, or for NULL the first @chosen, on @backend to
 * @depth.  Those that were predicted before keep their numbers where that fails.
 * @return 0, or -1 with a message: SIGINT (exit code 130), no process can be started (71). */
int candidates_predict(const struct question *question, struct candidate *list, const int64_t *at,
                       int64_t chosen, enum backend_choice backend, enum depth depth,
                       struct err *err);
