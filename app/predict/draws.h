#pragma once

/** @file
 * The loop over draws of everything uncertain in a job.
 *
 * Inputs that no file knows (core/config/unknown.h) are drawn together with all else: each draw of
 * them is a job of its own in closed form.  Draws that choose the same from lists share one.
 */

#include "app/predict/uncertainty.h"

/** A job, and what is made of its draws.  Pointers are borrowed unless noted otherwise. */
struct draw_loop {
    const struct job *centre; /**< the job itself, with its unknown inputs in their centre */
    const struct predict_options *options;
    const struct unknowns *shared; /**< the unknown inputs of all jobs that are compared, which have
                                        equal random numbers where their keys are equal; NULL: of
                                        this job alone */
    int32_t count;                 /**< of draws, at least 20 */

    /** The job of @draw in closed form, as the first member of what was allocated for it; NULL with
     * a message: it is none. */
    struct job *(*open)(const struct draw_loop *loop, const struct draw *draw, struct err *err);
    void (*close)(struct job *job);
    /** Take the draws @number (@count, ascending) of @job, the centre or an open one, each with its
     * @factors. */
    void (*take)(const struct draw_loop *loop, const struct job *job, const struct factors *factors,
                 const int32_t *number, int32_t count);
    void *context; /**< for these */

    double *quantile;   /**< (count, unknown inputs of the centre) where draws are in their ranges;
                             owned; set by draws_each(), as what follows */
    int32_t impossible; /**< draws that make no job, which nobody takes */
    char *reason;       /**< why the first of them is none; owned */
};

/** How many draws a complete answer takes. */
int32_t draws_usual(const struct job *job);

/** Call @loop->take() with all its draws, in closed form, and those that share a job at once.
 * Without unknown inputs all share the centre.
 * @return 0, or -1 with a message: a choice or an end of a range with which there is never a job,
 * fewer than 20 draws make one. */
int draws_each(struct draw_loop *loop, struct err *err);

/** Draw @number of the unknown inputs; borrows from @loop. */
struct draw draws_at(const struct draw_loop *loop, int32_t number);

/** Whether draws @a and @b choose the same of lists, and nothing else is unknown. */
bool draws_same_job(const struct draw_loop *loop, int32_t a, int32_t b);

/** Release what draws_each() set. */
void draw_loop_release(struct draw_loop *loop);
