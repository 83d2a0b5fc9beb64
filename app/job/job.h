#pragma once

/** @file
 * From a scenario file to something a back end can run.
 *
 * foretrain and foretrain-sim both come through here, so the child simulates exactly the schedule
 * and fabric that its parent checks.
 */

#include "core/backend/backend.h"
#include "core/job/resolve.h"
#include "core/schedule/iteration.h"

/** A scenario with what it names.  Start from {0}. */
struct job {
    const struct files *files; /**< that it was read from; borrowed; NULL: from disk */
    struct scenario scenario;
    struct platform *platform; /**< owned; its device as the software makes it */
    struct software *software; /**< owned; NULL: the scenario names none */
    bool without_layout;       /**< it is the one that the named one names for such networks */
    struct model *model;       /**< owned */
    struct model *part;        /**< of one of the ranks that share layers; owned unless `model` */
    struct unknowns unknowns;  /**< inputs that the files do not know; owned */
    struct resolved resolved;  /**< owned; set by job_resolve() */
};

/** Where in its range each unknown input of a job is; see struct unknowns. */
struct draw {
    const double *quantile; /**< (count); borrowed */
    int32_t count;          /**< 0: all are in their centre */
};

/** All unknown inputs in their centre. */
extern const struct draw draw_centre;

/** Read scenario @path, of @files or (NULL) on disk, with @set ("key=value", count), its platform,
 * which @set may change, too, software and network.  Unknown inputs are as in @draw; NULL: they are
 * refused.
 * @return 0, or -1 with the messages of scenario, platform, software or network; then @job is
 * released. */
int job_read(struct job *job, const struct files *files, const char *path, const char *const *set,
             int32_t set_count, const struct draw *draw, struct err *err);

/** Whether @value can stand at @key of a scenario, whatever stands at other keys: its type and its
 * word, and that what it names exists.  Keys of platforms, unknown keys and values that are no
 * single words or numbers are not looked at.
 * @return 0, or -1 as field_check_text(), platform_read(), software_read() or network_open(). */
int job_check_value(const char *key, const char *value, struct err *err);

/** Decide what the scenario leaves open.  @return 0, or -1 with messages of resolved_build(). */
int job_resolve(struct job *job, const struct wish *wish, struct err *err);

/** Both; on failure @job is released. */
int job_open(struct job *job, const struct files *files, const char *path, const char *const *set,
             int32_t set_count, const struct draw *draw, const struct wish *wish, struct err *err);

/** Add a message with exit code @code at @key of the scenario of @job.  @return -1. */
int job_blame(const struct job *job, const char *key, int32_t code, struct err *err,
              const char *format, ...) __attribute__((format(printf, 5, 6)));

void job_release(struct job *job);

/** The number of phases. */
int32_t job_phases(const struct job *job);

/** What stands in place of a phase's number. */
enum {
    JOB_STRONG = -2,   /**< the baseline's devices at the last phase's global batch */
    JOB_BASELINE = -1, /**< the run that efficiency is relative to, at the local batch */
    JOB_LAST = 0,      /**< the last phase */
};

/** One schedule on one fabric: what a back end runs once.  Start from {0}. */
struct point {
    int32_t nodes, devices_per_node;
    struct grid grid;
    struct grid_choice
        choice;            /**< of the grid of a single torus2d; why is NULL where it was given */
    enum rank_order order; /**< of a cluster */
    int64_t batch;         /**< images per device; 0: not a training step */
    struct fabric *fabric; /**< owned */
    struct schedule *schedule; /**< owned, sealed */
    struct run run;            /**< points to the fabric and to the platform's device */
};

/** Images per device of a step: those of a batch are of as many devices as have it together. */
double point_images(const struct point *point);

/** Build the iteration of @phase (from 1), or of a baseline, into @point, zeroed but for a schedule
 * of it that is known.  Borrows from the resolved @job.
 * @return 0, or -1: no such phase (exit code 64). */
int job_point(const struct job *job, int32_t phase, struct point *point, struct err *err);

/** What a back end needs besides schedule and fabric: device, input, noise.  Borrows from @job. */
struct run job_run(const struct job *job);

/** Whether ranks on CPUs can exchange gradients as the job says.
 * @return 0, or -1: algorithm nccl, several channels, a limit of NCCL's (exit code 69). */
int job_check_mpi(const struct job *job, struct err *err);

/** Whether such ranks can run the network.
 * @return 0, or -1 (exit code 69): a layer that devices cannot train; a transformer, or groups of
 * channels, on a GPU. */
int job_check_network(const struct job *job, bool gpu, struct err *err);

/** Whether ranks that compute, on a GPU each if @gpu, can train as the job says.
 * @return 0, or -1 (exit code 69): as job_check_network(); an optimizer, or clipping, for
 * predictions or CPUs alone; of a sharded one lamb, or on CPUs masters that are not what is
 * gathered. */
int job_check_device(const struct job *job, bool gpu, struct err *err);

/** The schedules of a whole training run on real ranks, (phases) of them, which training_free()
 * releases.  The platform says nothing here but how kernels are merged.
 * @return NULL with a message where only predictions know what the resolved @job asks for: batch
 * norm over groups of devices, a layer that devices cannot train (exit code 69). */
struct schedule **job_training(const struct job *job, struct err *err);

/** Release the @schedule of all phases of @job; accepts NULL. */
void training_free(const struct job *job, struct schedule **schedule);

/** Which ranks take part in a single collective. */
struct placement {
    int32_t nodes;    /**< 0: as many as the grid needs */
    struct grid grid; /**< 0 x 0: of torus2d as grid_choose() says for `chosen_for`, else nearest to
                           a square */
    enum rank_order order;
    int64_t chosen_for;    /**< bytes that the grid is chosen for; 0: those of the all-reduce */
    struct memory *memory; /**< of who asks again; NULL: none */
};

/** Build one all-reduce of @bytes into zeroed @point.  Borrows from @platform.
 * @return 0, or -1: neither grid nor nodes given (exit code 64), a grid that does not fill nodes or
 * does not fit the platform, an algorithm that cannot run on it, an order of ranks that has no
 * effect there. */
int point_collective(struct point *point, const struct platform *platform,
                     struct placement placement, struct all_reduce how, int64_t bytes,
                     struct err *err);

/** nccl_use_text() of @point of @job. */
char *job_nccl_text(const struct job *job, const struct point *point);

void point_release(struct point *point);

/** Whether back ends answer both alike: equal schedules on equal fabrics of one platform. */
bool point_equal(const struct point *a, const struct point *b);

/** An evaluation's time over that of its forward passes: above 1 where images are JPEG files. */
double job_evaluation_factor(const struct scenario *scenario);

/** Seconds of all @evaluations of the validation set, split over the devices of @point: forward
 * passes at the local batch, without communication, times job_evaluation_factor(). */
double job_evaluation(const struct job *job, const struct point *point, int64_t evaluations);

/** Whether rows and columns mean something: to torus2d, where another order of ranks follows them,
 * and on a @platform (NULL: this machine) whose links do. */
bool grid_matters(enum algorithm algorithm, enum rank_order order, const struct platform *platform);

/** Parse "64x32", the value of @option ("--grid"), as columns x rows; nodes x devices are written
 * alike.  @return 0, or -1 with exit code 64. */
int grid_parse(const char *option, const char *text, struct grid *grid, struct err *err);
