#pragma once

/** @file
 * A profile beside the prediction of its job, by kinds of work that both know, and the device as
 * the profile shows it.
 */

#include "app/import/import.h"
#include "core/schedule/schedule.h"

/** A kind of work. */
enum work {
    WORK_CONVOLUTION,
    WORK_LINEAR,
    WORK_POINTWISE, /**< batch norm, ReLU, additions: frameworks merge them differently */
    WORK_POOL,
    WORK_LOSS,
    WORK_OPTIMIZER,
    WORK_OTHER, /**< computation that nothing else is */
    WORK_COPY,
    WORK_COMMUNICATION,
    WORK_COUNT
};

/** "convolutions", "matrix products" and so on, in the order of enum work. */
extern const char *const work_names[WORK_COUNT];

/** A part of a name, in any case, that tells the kind. */
struct hint {
    const char *part;
    enum work work;
};

/** The rows of the CSV files, of which the first whose part occurs counts; end with part NULL. */
extern const struct hint known_operations[], known_kernels[];

/** The kind of the device's event @name, launched by the operation @op of PyTorch (NULL: not
 * known).  Source: operations of torch 2's profiler, kernels of cuDNN, cuBLAS and NCCL as they
 * appear in its traces; names are recognised by parts. */
enum work work_of_event(const char *name, const char *op);

/** The kind of @step. */
enum work work_of_step(const struct step *step);

/** The kind of the compute step whose @op and @layer (or NULL) our own traces name. */
enum work work_of_words(const char *op, const char *layer);

/** One piece of work on a device. */
struct work_span {
    double begin, end; /**< [s] */
    enum work work;
};

/** What spans add up to. */
struct work_sum {
    double busy[WORK_COUNT]; /**< sums of their durations, of communication what all its spans
                                  together cover [s] */
    double exposed;          /**< of communication, while nothing is computed [s] */
};

/** Sort @span (count) by begin and add it up. */
struct work_sum work_add_up(struct work_span *span, int64_t count);

/** What is known of a profile. */
struct profile {
    struct work_sum sum;
    double seconds;       /**< of all steps of one rank */
    int64_t steps;        /**< of one rank, at least 1 */
    double spread;        /**< standard deviation of all steps, relative; of one: 0 */
    double convolutions;  /**< of one device, that its operations name, forward; 0: it names none */
    bool operations;      /**< whether it names convolutions or matrix products at all */
    bool own;             /**< whether foretrain wrote it */
    const char *schedule; /**< the hash that our own traces have, or NULL; borrowed */
};

/** Compare what the steps of @profile add up to with one step of the last phase of @request->job in
 * closed form and without noise, by kinds of work. A profile shows kernels, and what starts them in
 * the gaps; our own traces show steps with both: a table for people and "kinds" in the result. With
 * @request->to also write a device file whose classes of steps take as long as in the profile.
 * Warns by name of a profile that is not of the job's device, network or schedule.
 * @return 0, or -1: the job's messages, a kind faster than the device can be (exit code 65), the
 * messages of file_write(). */
int import_compare_job(struct import *import, const struct import_request *request,
                       const struct profile *profile, struct err *err);
