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

/** Give @prediction->result, which is complete otherwise, its intervals and doubts; it ran with
 * @options on @backend in @cpu seconds of CPU time.  @draws (at least 20): the intervals alone,
 * from so many draws, none of them simulated; 0: all, from the usual number.
 * @return 0, or -1 with a message: no draw makes a job, the simulator fails. */
int likely_find(struct prediction *prediction, const struct predict_options *options, int32_t draws,
                enum backend_choice backend, double cpu, struct err *err);
