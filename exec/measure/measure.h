#pragma once

/** @file
 * The time of each step of a real training iteration on a device, alone or while other ranks
 * compute, and of copies of its memory.
 *
 * The iteration runs as in training (exec/step/walk.h), on images of noise, without any exchange.
 * A step begins at the end of the previous one, so that the steps add up to the iteration, but for
 * what is between two iterations.  A result is the median over the faster half of the iterations.
 * If the device supports it (device_ops.busy), it is the CPU time of the computing thread: a
 * process that takes the processor away adds nothing.  Its effect on caches and memory does add,
 * and increases the spread.
 *
 * All ranks of the job call these functions together, after world_start(), and each measures its
 * own device; the ranks begin together.
 */

#include "core/schedule/schedule.h"
#include "exec/step/device.h"

enum { MEASURE_LEAST = 4 /**< iterations: quartiles need them */ };

/** What to measure.  All pointers are borrowed. */
struct measure_job {
    const struct model *model;
    const struct scenario *scenario;
    const struct schedule *schedule; /**< sealed; an iteration of one rank without exchanges */
    const struct device_ops *device_ops;
    int32_t batch;      /**< images of it */
    int32_t threads;    /**< to compute with */
    int32_t iterations; /**< to measure, at least MEASURE_LEAST; two more warm up */
    double seconds;     /**< after which MEASURE_LEAST are enough; 0: no limit */
};

/** One step. */
struct measure_step {
    double time_s; /**< median over the faster half of the iterations */
    double spread; /**< between the quartiles of all, relative to the median */
};

/** The answer.  Release with measure_release(). */
struct measure_result {
    struct measure_step *step; /**< (schedule->step_count) zero for steps of other lanes; owned */
    double time_s;             /**< of the whole iteration: the sum, mean over the ranks */
    double wall_s;             /**< the same by the clock, median of all iterations */
    double spread;             /**< as of a step, but of whole iterations; the largest of the
                                    ranks */
    double waited;             /**< fraction of wall time without a processor; the largest too */
    double input_s;            /**< of the input step, by the clock; 0: there is none */
    double between_s;          /**< from an iteration's last step to the next one's first, by the
                                    clock: the shortest, as other processes only lengthen it */
    int32_t iterations;        /**< that were measured */
};

/** One copy from memory to memory, which reads and writes its bytes. */
struct measure_copy {
    int64_t bytes;
    double time_s; /**< the fastest of several, mean over the ranks */
};

enum { MEASURE_COPIES = 4 /**< 16 KiB, 256 KiB, 4 MiB and 64 MiB: of caches and beyond them */ };

/** Time copies by the computing thread of a device of @ops, on all ranks at once, into @copy
 * (MEASURE_COPIES).
 * @return how many there are: 0 if the device does not support it. */
int32_t measure_copies(const struct device_ops *ops, struct measure_copy *copy);

/** Measure into zeroed @result.
 * @return 0, or -1 on all ranks: a network or type the device cannot run (exit code 69). */
int measure_run(const struct measure_job *job, struct measure_result *result, struct err *err);

void measure_release(struct measure_result *result);
