#pragma once

/** @file
 * The uncertainty of a prediction: an interval from the uncertainty of its inputs.
 *
 * Monte Carlo over the closed form.  Each draw scales every compute step by an efficiency and a
 * kernel overhead drawn together (their fit correlates them), by the fit's residual between
 * machines, and by the slowest of all ranks.  It scales the bytes of every collective by a
 * bandwidth drawn once and its latency by a hop drawn once, and computes the schedule again.  Tasks
 * drawn together share all random numbers, so that what is uncertain in both cancels where they are
 * compared.  Seeded: the same inputs give the same interval.
 */

#include "app/predict/task.h"
#include "core/report/report.h"

/** Uncertain inputs: standard deviations of logarithms unless noted otherwise. */
struct uncertainty {
    double efficiency;  /**< of the fraction of the roofline that kernels reach */
    double overhead;    /**< of the time added per kernel */
    double kinds;       /**< of other kinds of kernels than those of the fit: deviations */
    double correlation; /**< of the two, -1 ... 1 */
    double residual;    /**< of a machine's compute time about the fit */
    double freedom;     /**< degrees of freedom of Student's t that it follows; 0: a normal one */
    double jitter;      /**< of the coefficient of variation in task.noise */
    double network;     /**< of the bandwidth of collectives */
    double inside;      /**< of those inside of a node: of NCCL's number, or of the node's links */
    double hop;         /**< of the latency of their messages */
    struct slowdown slowdown; /**< of what compute and collectives lose beside each other */
    double launch;            /**< of the time to launch a collective */
    double host;              /**< of the time to launch a kernel */
    double model;  /**< of effects missing in the model, on the whole step of several nodes */
    int32_t draws; /**< at least 20 */
    uint64_t seed;
};

/** Standard deviation of a number from there, relative. */
double uncertainty_tolerance(enum provenance provenance);

/** The uncertainties of a job: of its software's fit, or of the device file's own numbers; of its
 * platform's links; of effects that models calibrated on one node miss. */
struct uncertainty uncertainty_of(const struct job *job);

/** What one draw multiplies. */
enum factor {
    FACTOR_EFFICIENCY,             /**< the fraction of the roofline that kernels reach */
    FACTOR_KINDS,                  /**< the same of another network than those of the fit: one
                                        deviation */
    FACTOR_OVERHEAD,               /**< the time added per kernel */
    FACTOR_RESIDUAL,               /**< compute of a machine */
    FACTOR_NETWORK,                /**< the time that bytes of collectives take */
    FACTOR_HOP,                    /**< the latency of their messages */
    FACTOR_COMPUTE_SLOWDOWN,       /**< what compute loses beside collectives, at most 1 */
    FACTOR_COMMUNICATION_SLOWDOWN, /**< and they beside it */
    FACTOR_LAUNCH,                 /**< the time to launch a collective */
    FACTOR_HOST,                   /**< the time to launch a kernel, where the host is the limit */
    FACTOR_MODEL,                  /**< the whole step of several nodes */
    FACTOR_TAIL,   /**< the same, at least 1: a node, the fabric or storage slower than usual */
    FACTOR_JITTER, /**< the coefficient of variation of noise */
    FACTOR_COUNT
};

/** For people. */
extern const char *const factor_names[FACTOR_COUNT];

/** One draw of everything. */
struct factors {
    double of[FACTOR_COUNT];
    double alone;  /**< the tail of one node */
    double inside; /**< FACTOR_NETWORK for collectives inside of a node */
};

/** All draws; the k-th ones of two jobs share their random numbers, unless only one of them has
 * degrees of freedom, which another fit has.  (draws), which the caller frees. */
struct factors *uncertainty_factors(const struct uncertainty *uncertainty);

/** Where the step of @task, which has run, goes in one draw. */
struct spending {
    struct breakdown step; /**< its time is what uncertainty_steps() says */
    struct wait_share row; /**< or of all */
    struct wait_share column;
    double left_out; /**< what the step has beyond its parts: effects that the model leaves
                          out, something slower than usual [s] */
};

/** Everything as it is. */
extern const struct factors factors_none;

/** Into @spending (@count) where the step of @task goes with each of @factors (@count): what the
 * back end says, and the difference that a draw makes in closed form. */
void uncertainty_spending(const struct task *task, const struct factors *factors, int32_t count,
                          struct spending *spending);

/** The power to which FACTOR_KINDS of a draw changes the speed of @task's kernels. */
double uncertainty_kinds(const struct task *task);

/** The step of each @task (@tasks), which have run as one array, with each of @factors (@count)
 * into @seconds (tasks, count); of equal ones once. */
void uncertainty_steps(const struct task *task, int32_t tasks, const struct factors *factors,
                       int32_t count, double *seconds);

/** Whether nothing of the time that @device computes for is known: it is `ideal`, out of the way by
 * design, which imports name where they know none. */
bool uncertainty_is_unknown(const struct device *device);

/** The interval of the step of @task, which has run; NAN if uncertainty_is_unknown(). */
struct interval uncertainty_likely(const struct task *task, const struct uncertainty *uncertainty);

/** The 5th and 95th percentiles of @sample (@count, which is sorted here); NAN if it is NULL. */
struct interval uncertainty_interval(double *sample, int32_t count);

/** Standard deviation of the logarithm of @quantity; 0: an unknown input, drawn apart. */
double uncertainty_quantity(const struct quantity *quantity);
