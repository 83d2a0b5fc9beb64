#pragma once

/** @file
 * The training loop: runs phases of a schedule for real, with batch-size control, evaluations and
 * checkpoints between steps.
 *
 * Every rank of the job calls these functions together, after world_start().  The loop goes from
 * boundary to boundary (end of a phase, evaluation, checkpoint); at each the running statistics of
 * batch norm are averaged over the ranks, so that all ranks hold the same weights and statistics
 * and a resumed run continues with the same bits.
 */

#include "core/backend/trace.h"
#include "core/scenario/phase.h"
#include "core/schedule/schedule.h"
#include "exec/checkpoint/checkpoint.h"
#include "exec/input/dataset.h"
#include "exec/step/comm.h"
#include "exec/step/device.h"

/** The training job.  All pointers are borrowed. */
struct train_job {
    const struct scenario *scenario;
    const struct model *model;
    const struct model *split; /**< what one of the ranks that share layers has of it; NULL: all */
    const struct plan *plan;   /**< for all ranks */
    const struct schedule *const *schedule; /**< (plan->phase_count) sealed, one per phase */
    const struct device_ops *device_ops;
    const struct comm_ops *comm_ops;
    const char *directory; /**< for checkpoints and log files; NULL: none are written */
    const char *run_id;    /**< for checkpoints and log files of rank 0; NULL: none */
    const char *values;    /**< of the job, for checkpoints; NULL: none */
    const char *resume;    /**< a checkpoint; NULL: a new run */
    int32_t threads;       /**< for computing, per rank; at least 1 */
    bool tunes;            /**< a device that looks for its fastest kernels looks longer */
    int64_t steps;         /**< maximum in this call; 0: to the end */
    int32_t traced;        /**< steps of the first phase that are traced, after the first two of
                                the run; 0: none */
    double timeout_s;      /**< of the watchdog; 0: none */
    bool progress;         /**< a line for people on rank 0 */
    const struct run *run; /**< predicted seconds for a device that rehearses, which reads no
                                images, evaluates nothing and writes no checkpoints */
    double time_scale;     /**< factor on them */
    /** Of the software. */
    enum attention attention;
};

/** The result, the same on all ranks unless noted otherwise.  Start from {0}. */
struct train_result {
    struct progress progress;
    bool finished;    /**< the plan is done */
    bool interrupted; /**< by SIGTERM or SIGUSR1 */
    int64_t steps;    /**< done in this call */
    double loss_first, loss_last;
    double seconds;                 /**< of training steps, without evaluations and checkpoints */
    double images_per_s;            /**< over them, all ranks */
    double input_wait_s;            /**< of them, on the slowest rank */
    double exposed_communication_s; /**< of them, on the slowest rank */
    double late_s;   /**< how late a device that rehearses ended steps: mean, on the worst rank */
    double latest_s; /**< the same of the step that ended latest */
    double evaluation_loss; /**< of the last evaluation; negative: none */
    int64_t skipped_images; /**< unreadable images on all ranks, including those in batches read
                                 ahead by a device */
    int32_t ranks;
    double *loss;   /**< (steps) of each step; owned */
    double *step_s; /**< (steps) rank 0's time of each step; owned */
    int64_t *moved; /**< (steps of traced_phase's schedule) by device_ops.moved(), 0 for steps
                         that do not compute; owned; NULL: not known */
    int32_t moved_count;
    struct trace trace;        /**< of the traced steps, on rank 0, by the clock of rank 0 */
    int32_t traced_phase;      /**< the phase of its schedule */
    double trace_error_s;      /**< maximum difference of two ranks' clocks in it */
    double trace_cost_s;       /**< time to record it on the slowest rank */
    char checkpoint[PATH_MAX]; /**< path of the last one, or "" */
    int64_t checkpoints;       /**< written */
    double checkpoint_s; /**< that the ranks stood still while they were written, in all; the mean
                              is training.checkpoint.cost */
    int64_t checkpoint_bytes; /**< of the last one, on rank 0 */
};

/** Train.  @return 0, or -1 on all ranks, with a message on at least one: another number of ranks
 * than in the schedules' grid (exit code 64); a network or type that the device cannot run, an
 * algorithm that the transport cannot run (69); data or a checkpoint that cannot be read (65, 66);
 * a checkpoint or log file that cannot be written (73, 74); training that diverged, a run whose
 * last steps were all skipped, replicas that differ (70). */
int train_run(const struct train_job *job, struct train_result *result, struct err *err);

void train_result_release(struct train_result *result);

/** What an evaluation says. */
struct evaluation {
    int64_t images; /**< predictions for readable samples, each counted once: an image, or a
                       position of a sequence */
    int64_t top1, top5;
    double loss; /**< mean cross-entropy, without label smoothing */
};

/** Average the class probabilities of the checkpoints @path (count) over the validation images, on
 * all ranks together, with any number of ranks.  Of @job only scenario, model, device and threads
 * are used.
 * @return 0, or -1 as train_run(). */
int train_evaluate(const struct train_job *job, const char *const *path, int32_t count,
                   struct evaluation *evaluation, struct err *err);
