#pragma once

/** @file
 * The steps of training iterations that `foretrain-exec measure` times, and `calibrate` reads.
 */

#include "app/cli/request.h"
#include "app/process/processors.h"

/** One measured step. */
struct machine_step {
    char *name;               /**< owned */
    int32_t op, layer, dtype; /**< as in struct device_class */
    char *shape;              /**< owned */
    int64_t amount, flops, bytes;
    int32_t kernels;
    double time_s; /**< median over the faster half of the iterations; of some, their mean */
    double spread; /**< between the quartiles of all, relative to the median */
    double flops_per_s, bytes_per_s, roofline; /**< that it reaches, and part of; by device_fit */
};

/** One network at one batch. */
struct machine_trial {
    char *network; /**< owned */
    int32_t image; /**< [pixels] */
    int64_t batch;
    struct machine_step *step; /**< (steps) of the quickest round; owned */
    int32_t steps;
    int32_t iterations;
    double time_s;     /**< of the iteration, the sum of its steps, mean over the ranks; in the
                            fastest round, as all below */
    double second_s;   /**< in the second-fastest round; INFINITY: there was none */
    double wall_s;     /**< the same by the clock, median of all iterations */
    double spread;     /**< as of a step, but of whole iterations; the largest of the ranks */
    double waited;     /**< fraction of wall time without a processor; the largest, too */
    double input_s;    /**< of the input step, by the clock; 0: there is none */
    double between_s;  /**< from an iteration's last step to the next one's first, by the clock: the
                            shortest, as other processes only lengthen it */
    double by_classes; /**< of the iteration, by the efficiencies that are fitted */
};

/** One copy of memory. */
struct machine_copy {
    int64_t bytes;
    double time_s; /**< in the round that was quickest */
};

/** What ranks add that train together: see struct training_cost. */
struct machine_together {
    double jitter, launch, between; /**< all 0: not measured */
};

/** All measurements.  Start from {0}; release with machine_release(). */
struct machine {
    struct machine_trial *trial; /**< (trials) batch by batch; owned */
    int32_t trials, threads, rounds;
    struct machine_copy *copy; /**< (copies) by size; none if the device cannot time them; owned */
    int32_t copies;
    int32_t device; /**< index in device_words */
    int32_t ranks;  /**< that measured at once */
    int32_t fusion; /**< enum fusion: how the device merges operations */
    double apart;   /**< the largest of second_s / time_s - 1; INFINITY: there was one round */
    struct machine_together together;
    struct processors_share share; /**< other processes' share of the processors, mean over the
                                        rounds */
};

/** What foretrain-exec answers of one round, and parts of it that the user is answered, too. */
extern const struct answer_columns machine_columns, machine_copy_columns, machine_trial_columns;

void machine_release(struct machine *machine);
