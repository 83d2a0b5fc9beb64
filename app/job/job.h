#pragma once

/** @file
 * From a scenario file to something a back end can run.
 *
 * foretrain and foretrain-sim both come through here, so the child simulates exactly the schedule
 * and fabric that its parent checks.
 */

#include "core/backend/backend.h"
#include "core/platform/platform.h"
#include "core/platform/software.h"
#include "core/scenario/phase.h"
#include "core/scenario/scenario.h"
#include "core/schedule/model.h"

/** A scenario with what it names.  Start from {0}. */
struct job {
    struct scenario scenario;
    struct platform *platform; /**< owned; its device as the software makes it */
    struct software *software; /**< owned; NULL: the scenario names none */
    struct model *model;       /**< owned */
};

/** Read scenario @path with @set ("key=value", count), its platform, software and network, and
 * check the grid against the platform's devices.
 * @return 0, or -1 with the messages of scenario, platform, software or network, or: a grid that
 * does not hold the devices; then @job is released. */
int job_read(struct job *job, const char *path, const char *const *set, int32_t set_count,
             struct err *err);

/** Release; accepts a zeroed struct. */
void job_release(struct job *job);

/** Whether every phase's batch can be shared out to @devices devices and cut into micro-batches.
 * @return 0, or -1 with a message located at the phases. */
int job_check_batches(const struct job *job, int64_t devices, struct err *err);

/** The number of phases. */
int32_t job_phases(const struct job *job);

/** What stands in place of a phase's number. */
enum {
    JOB_BASELINE = -1, /**< the run that efficiency is relative to */
    JOB_LAST = 0,      /**< the last phase */
};

/** One schedule on one fabric: what a back end runs once.  Start from {0}. */
struct point {
    int32_t nodes, devices_per_node;
    struct grid grid;
    bool grid_chosen;          /**< the user gave none, and it matters */
    enum rank_order order;     /**< of a cluster */
    int64_t batch;             /**< images per device; 0: not a training step */
    struct fabric *fabric;     /**< owned */
    struct schedule *schedule; /**< owned, sealed */
    struct run run;            /**< points to the fabric and to the platform's device */
};

/** Build the iteration of @phase (from 1), or of the baseline at the last phase's batch, into
 * zeroed @point.  Borrows from @job.
 * @return 0, or -1: no such phase (exit code 64), more nodes or devices than the platform has. */
int job_point(const struct job *job, int32_t phase, struct point *point, struct err *err);

/** A whole training run on real ranks.  Start from {0}. */
struct training {
    struct grid grid;
    struct plan plan;           /**< owned */
    struct schedule **schedule; /**< (plan.phase_count) owned, sealed */
};

/** What a back end needs besides schedule and fabric: device, input and noise.  Borrows from
 * @job. */
struct run job_run(const struct job *job);

/** Whether ranks on CPUs can exchange gradients as the job says.
 * @return 0, or -1: algorithm nccl (exit code 69). */
int job_check_mpi(const struct job *job, struct err *err);

/** Build the schedules of all phases for @ranks ranks, @local of them on each machine, into zeroed
 * @training.  Borrows from @job.  The platform says nothing here but how kernels are merged.
 * @return 0, or -1: a grid of the job that does not hold the ranks, a batch that cannot be shared
 * out to them, an algorithm that cannot run on them (exit code 64), what only predictions know:
 * batch norm over groups of devices (69). */
int job_training(const struct job *job, int32_t ranks, int32_t local, struct training *training,
                 struct err *err);

/** Release; accepts a zeroed struct. */
void training_release(struct training *training);

/** Which ranks take part in a single collective. */
struct placement {
    int32_t nodes;    /**< 0: as many as the grid needs */
    struct grid grid; /**< 0 x 0: nearest to a square */
    enum rank_order order;
};

/** Build one all-reduce of @bytes into zeroed @point.  Borrows from @platform.
 * @return 0, or -1: neither grid nor nodes given (exit code 64), a grid that does not fill nodes or
 * does not fit the platform, an algorithm that cannot run on it, an order of ranks that has no
 * effect there. */
int point_collective(struct point *point, const struct platform *platform,
                     struct placement placement, enum algorithm algorithm, int64_t bytes,
                     struct err *err);

/** Let the ranks of @point fill the nodes of a cluster in @order; its all-reduces are by
 * @algorithm.
 * @return 0, or -1 (exit code 64): an order that has no effect there. */
int point_set_order(struct point *point, const struct platform *platform, enum algorithm algorithm,
                    enum rank_order order, struct err *err);

/** Release; accepts a zeroed struct. */
void point_release(struct point *point);

/** Whether a back end must answer the same for both: equal schedules on equal fabrics of one
 * platform. */
bool point_equal(const struct point *a, const struct point *b);

/** Seconds of all @evaluations of the validation set, split over the devices of @point: forward
 * passes at the local batch, without communication. */
double job_evaluation(const struct job *job, const struct point *point, int64_t evaluations);

/** Parse "64x32" as columns x rows.  @return 0, or -1 with exit code 64. */
int grid_parse(const char *text, struct grid *grid, struct err *err);
