#pragma once

/** @file
 * Intervals of a prediction, and which input makes them wide.
 *
 * Inputs that no file knows (core/config/unknown.h) are drawn together with everything else that is
 * uncertain.  Each draw is a job of its own in closed form, with a baseline of its own; its steps
 * are longer by as much as those of the centre are longer in the back end than in closed form.
 * Draws that make no job (a batch that does not fit, a grid that does not divide) are left out and
 * counted. Some draws are simulated, as far as time allows, to see what the closed form is worth.
 */

#include "app/predict/prediction.h"

enum {
    LIKELY_UNKNOWN_DRAWS = 240 /**< where each is a job of its own: 5 % of them are 12 */
};

/** Where in their ranges the unknown inputs @own of a job are in each of @draws draws, evenly over
 * all of them; @all: those of all jobs that are compared, which have equal numbers where their keys
 * are equal.  (draws, own->count), which the caller frees. */
double *likely_quantiles(const struct unknowns *own, const struct unknowns *all, int32_t draws);

/** Give @prediction->result, which is complete otherwise, its intervals and doubts: @path with
 * @options, whose centre ran on @backend in @cpu seconds of CPU time.  Without GSL there are none,
 * and a warning where inputs are unknown.
 * @return 0, or -1 with a message: no draw makes a job, the simulator fails. */
int likely_find(struct prediction *prediction, const char *path,
                const struct predict_options *options, enum backend_choice backend, double cpu,
                struct err *err);

/** The intervals alone, from only @draws (at least 20), none of them simulated.
 * @return as likely_find(). */
int likely_roughly(struct prediction *prediction, const char *path,
                   const struct predict_options *options, int32_t draws, struct err *err);
