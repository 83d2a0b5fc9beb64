#pragma once

/** @file
 * The phases and the baseline of a job, run on a back end and summed up.
 */

#include "app/predict/task.h"
#include "core/report/report.h"

/** A prediction and all its inputs.  Start from {0}; release with prediction_release(). */
struct prediction {
    struct job job;
    struct task *task; /**< (task_count) the phases in order, the baseline, and if the scenario
                            fixes the global batch, the baseline's devices with that; owned */
    int32_t task_count;
    struct result result;
    double least;                  /**< the time if no step waited for communication [s] */
    const struct unknowns *shared; /**< the unknown inputs of all jobs that are compared, which have
                                        equal random numbers where their keys are equal; borrowed;
                                        NULL: of this job alone */
};

/** Open the job at @path with its unknown inputs as in @draw, and its tasks, which have not run.
 * @return 0, or -1 with a message. */
int prediction_open(struct prediction *prediction, const char *path,
                    const struct predict_options *options, const struct draw *draw,
                    struct err *err);

/** Run the tasks of an open @prediction on @backend and sum the phases up in its result, without
 * failures.
 * @return 0, or -1 with the message of the back end. */
int prediction_run(struct prediction *prediction, enum backend_choice backend,
                   const struct predict_options *options, struct err *err);

/** CPU time of child processes that have ended [s]. */
double prediction_children_seconds(void);

/** Which task is the baseline, before that of strong scaling, if there is one; where it was left
 * out, the last phase. */
int32_t baseline_of(const struct prediction *prediction);

/** Seconds of the whole run of @prediction, whose tasks have run: start-up, the steps of all phases
 * and the evaluations, without failures and checkpoints.  Its tasks take @step (tasks) [s], or what
 * they took if that is NULL; to a target it takes @epochs, or those of its plan if that is 0. */
double prediction_seconds(const struct prediction *prediction, const double *step, double epochs);

/** What @prediction, which is complete, takes of nodes and devices: in each phase those of the
 * phase, in start-up and evaluations those of the last.  The bounds of the time are its 90 %
 * interval. */
struct usage prediction_usage(const struct prediction *prediction);

/** The task of the last phase, to which step time, images/s and the sentence refer. */
const struct task *prediction_last(const struct prediction *prediction);

/** What phase @index takes of a device's memory. */
struct memory_plan prediction_memory(const struct prediction *prediction, int32_t index);

void prediction_release(struct prediction *prediction);

/* ---- failures ---- */

/* Failures of the nodes and the network that a job uses, and the checkpoints it goes on from.
 *
 * All of the time to train counts as work that a failure may undo, the start-up and evaluations
 * too.  Where phases take fewer nodes, the rate of failures is the mean over the time. */

/** Fill the toll of the result of @prediction, whose tasks have run, and make the time to train the
 * one that is expected with it.
 * @return 0, or -1: a platform with failures and no cost of a checkpoint, a restart without
 * failures, a run that never ends. */
int failing_find(struct prediction *prediction, struct err *err);

/** The time of draw @number of @prediction, which takes @work [s] without failures and checkpoints,
 * and @epochs (0: those of its plan) [s]. */
double failing_draw(const struct prediction *prediction, double work, double epochs,
                    int32_t number);

/** Whether @quantity is the platform's and moves the toll of @prediction. */
bool failing_depends_on(const struct prediction *prediction, const struct quantity *quantity);

/** Add what the toll of @prediction assumes to the assumptions of its result. */
void failing_assumptions(struct prediction *prediction);

/* ---- intervals ---- */

/* Intervals of a prediction, and which input makes them wide.
 *
 * Each draw (app/predict/draws.h) has a baseline of its own; its steps are longer by as much as
 * those of the centre are longer in the back end than in closed form.  Draws that make no job are
 * left out and counted.  Some are simulated, as far as time allows, to see what the closed form is
 * worth. */

/** Give @prediction->result, which is complete otherwise, its intervals and doubts; it ran with
 * @options on @backend in @cpu seconds of CPU time.  @draws (at least 20): the intervals alone,
 * from so many draws, none of them simulated; 0: all, from the usual number.
 * @return 0, or -1 with a message: no draw makes a job, the simulator fails. */
int likely_find(struct prediction *prediction, const struct predict_options *options, int32_t draws,
                enum backend_choice backend, double cpu, struct err *err);
