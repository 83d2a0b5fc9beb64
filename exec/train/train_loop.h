#pragma once

/** @file
 * Inner side of train.h: a run in progress, and the operations between and during steps.
 */

#include "exec/input/input.h"
#include "exec/log/log.h"
#include "exec/step/comm.h"
#include "exec/step/optimizer.h"
#include "exec/step/packing.h"
#include "exec/step/walk.h"
#include "exec/train/train.h"
#include "exec/world/world.h"

/** How long the ranks have waited since one was last named, the same on all.  Start from {0}. */
struct straggler {
    double *wait;   /**< (ranks) owned; NULL: nothing was added yet [s] */
    double seconds; /**< of these steps */
};

void straggler_release(struct straggler *straggler);

enum {
    LOOP_IN_FLIGHT = 16,  /**< iterations issued ahead, at most */
    LOOP_SYNC_STEPS = 64, /**< finished steps that are not reported yet */
    LOOP_RATES = 1 << 20, /**< iterations whose rates a device gets when it is opened, at most: 8 MB
                             of its memory */
};

/** A finished step, until it is reported. */
struct loop_step {
    struct update update;
    struct outcome outcome;
    struct walk_times times;
    double seconds; /**< since the step before was over */
};

/** A run in progress on one rank.  Start from {0}. */
struct loop {
    const struct train_job *job;
    struct train_result *result;
    struct exec_world world;
    struct layout layout;
    struct part part;   /**< of the network that this rank trains, in its first phase's grid */
    struct weights own; /**< of a part that is not the whole, as `weights` without statistics */
    int32_t replica,
        replicas;           /**< ranks that have the same part, and this one's place among them */
    struct weights weights; /**< owned; as of the last loop_average(), statistics averaged; without
                                 parameters and momentum while loop_run() runs */
    float *own_statistics;  /**< owned; of this rank alone, as of that call */
    struct dataset *train, *validation; /**< validation may be NULL */
    struct comm_state *comm;            /**< NULL on one rank */
    struct log *log;                    /**< rank 0 only */
    int folder;                         /**< the job's directory, open; rank 0 only */
    char *directory;                    /**< where it is now; owned; as the job names it at first */
    struct progress progress;
    struct loss_scale scale;
    struct straggler straggler;

    int32_t phase;          /**< being trained */
    struct phase counts;    /**< of it */
    struct packing packing; /**< of its schedule's buckets */
    struct slice *shard;    /**< (packing.buckets) that this rank updates; owned; NULL: all */
    struct slice shared;    /**< see device_job */
    void *gradients;        /**< the transport's memory for them, or NULL */
    int32_t in_flight;      /**< iterations issued ahead, at most */
    struct device_state *device;
    struct walker *walker;
    /** Only for the thread on which the device requests batches, while it is open. */
    struct {
        struct input *input;
        bool augment;     /**< as the input does */
        int64_t position; /**< of the next requested batch: perhaps ahead of the iterations */
        int64_t replaced; /**< images, by inputs that were closed */
    } source;
    int32_t issued, over; /**< iterations of this walker */

    struct loop_step step[LOOP_SYNC_STEPS]; /**< finished, not yet reported: a ring by iteration */
    int32_t told;                           /**< reported iterations of this walker */
    double previous_end;                    /**< of the last iteration */
    int32_t sync_steps;                     /**< between two reports, the same on all ranks */
    double shift;                           /**< from the walker's clock to the trace's */
    bool stop;                              /**< agreed, after a request to any rank */
    int64_t diverged;                       /**< the step that showed divergence; 0: none */
    int64_t suspected;                      /**< the same on this rank, before all know of it */
};

/** Open device, walker and input for phase @index at the loop's position; the phase ends when the
 * stream has reached @end.  @return 0, or -1: a network or type that the device cannot run. */
int loop_open_phase(struct loop *loop, int32_t index, int64_t end, struct err *err);

/** Close them; loop_average() must have copied the weights before. */
void loop_close_phase(struct loop *loop);

/** Train @steps steps, or fewer when all ranks agree to stop. */
void loop_run(struct loop *loop, int64_t steps);

/** With nothing in flight: copy the device's state into loop->weights, statistics averaged over all
 * ranks; where each rank has a part, parameters of all of them.  The device's own do not change.
 * @return 0, or -1 (exit code 70) on all ranks: the weights of two ranks differ. */
int loop_average(struct loop *loop, struct err *err);

/** After loop_average(), on all ranks together: collect the momentum that is sharded or of parts,
 * and parameters of which ranks have copies, in loop->weights of rank 0. */
void loop_collect(struct loop *loop);

/** Give the device the averaged statistics, for evaluation, or its own again. */
void loop_use_statistics(struct loop *loop, bool averaged);

/** Check that training can continue.  @return 0, or -1 (exit code 70) on all ranks, with a message
 * on rank 0: a step overflowed without remedy, or too many in a row did. */
int loop_check_divergence(const struct loop *loop, struct err *err);

/** Check that loop->weights are finite, after loop_average().  @return 0, or -1 (exit code 70) on
 * all ranks: infinite or NaN; no checkpoint may be written. */
int loop_check_finite(const struct loop *loop, struct err *err);

/** Check, after the last checkpoint, that the run ends with steps that were not skipped.
 * @return 0, or -1 (exit code 70) on all ranks, with a message on rank 0: the last steps, more than
 * one, were all skipped, and no signal ended the run. */
int loop_check_end(const struct loop *loop, struct err *err);

/** Score the images of @dataset that are this rank's on @device and count on all ranks together;
 * @probability (this rank's images, classes), if not NULL, is added to instead of counting.
 * @chunk images go through the device at once. */
struct evaluation evaluate_images(const struct train_job *job, struct device_state *device,
                                  struct stream *stream, const struct dataset *dataset,
                                  int32_t chunk, float *probability);

/** evaluate_images() of a whole network with @weights on a new device, where ranks train parts. */
struct evaluation evaluate_whole(const struct train_job *job, const struct weights *weights,
                                 const struct dataset *dataset);

/** What @scenario says of the data that @model reads. */
struct dataset_spec train_dataset_spec(const struct scenario *scenario, const struct model *model);

/** From now on SIGTERM, SIGUSR1 and SIGURG request a stop at the next step that all ranks agree on.
 */
void loop_catch_signals(void);
