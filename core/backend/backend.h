#pragma once

/** @file
 * A back end runs a sealed schedule on a fabric and reports when each step ran.
 *
 * It may read everything it is given and may write only the trace.
 */

#include <stdint.h>

#include "core/backend/trace.h"
#include "core/base/err.h"
#include "core/network/fabric.h"
#include "core/platform/platform.h"
#include "core/schedule/schedule.h"

/** How finely the simulator looks. */
enum grain {
    GRAIN_AUTO,     /**< folded where it is exact and helps, else full where small, else coarse */
    GRAIN_FOLDED,   /**< one member of each symmetry class; exact */
    GRAIN_FULL,     /**< every rank and message */
    GRAIN_SMOOTHED, /**< folded after leaving out links that cannot be filled and small
                         differences in latency; close to exact */
    GRAIN_COARSE,   /**< one flow per collective and peer; optimistic under contention */
    GRAIN_COUNT
};

/** "auto", "folded", "full", "smoothed", "coarse", NULL-terminated. */
extern const char *const grain_names[];

/** Random slowness. */
struct noise {
    double compute_cv;         /**< coefficient of variation of a rank's compute time per step */
    double straggler_fraction; /**< of ranks that are slow */
    double straggler_slowdown; /**< 0.5: they take 1.5 times as long */
    uint64_t seed;
};

/** Everything a back end needs besides the schedule.  All pointers are borrowed. */
struct run {
    const struct fabric *fabric;
    const struct device *device;
    int32_t iterations; /**< at least 1 */
    enum grain grain;
    struct noise noise;
    double contention; /**< compute steps take so much longer, as a part: other devices of the node
                            compute at the same time */
    int64_t input_workers;
    double input_rate;    /**< [images/s] per worker */
    int32_t traced_ranks; /**< spans are kept for at most this many ranks: first, last, evenly
                               between; 0: all */
};

/** One way to execute a schedule. */
struct backend {
    const char *name; /**< the word of --backend */

    /** Run @schedule as @run says and fill zeroed @trace.
     * @return 0, or -1 with a message and the trace released. */
    int (*run)(const struct run *run, const struct schedule *schedule, struct trace *trace,
               struct err *err);
};

/** Closed form: max-plus over lanes; a collective takes analytic_collective(), or its floor where
 * shared links make that longer; noise by expectation (every rank computes as long as the slowest
 * is expected to, see noise_expected_slowest()).  Usually early, but no bound: it adds up the
 * slowest rank of each collective, where ranks that run apart may catch up.  Traces rank 0,
 * which stands for all. */
extern const struct backend backend_analytic;

/** Seconds of one collective with every route alone on its links: the max-plus recurrence over
 * ranks and rounds, started together.  A message starts when its sender and its receiver have
 * entered the round, and takes the latency of its route and its bytes over the narrowest link. */
double analytic_collective(const struct fabric *fabric, const struct schedule *schedule,
                           int32_t step);

/** Whether a back end that predicts can run @schedule.
 * @return 0, or -1 (exit code 69): an all-reduce by ALGORITHM_MPI. */
int backend_check(const struct schedule *schedule, struct err *err);

/** Seconds of a compute or input step on a rank without noise. */
double run_local_seconds(const struct run *run, const struct step *step);

/** Seconds of a collective step by ALGORITHM_NCCL: what fabric->nccl would choose.  Starts on all
 * ranks together. */
double run_nccl_seconds(const struct run *run, const struct step *step);

/** What no noise makes faster than: the smallest noise_factor(). */
#define NOISE_FACTOR_MINIMUM 0.1

/** How much longer compute takes on @rank in @iteration: 1 without noise.  Lognormal with mean 1,
 * times 1 + slowdown on the ranks drawn as stragglers.  Depends only on the seed, the rank and the
 * iteration. */
double noise_factor(const struct noise *noise, int32_t rank, int32_t iteration);

/** The expected factor of the slowest of @ranks ranks, for which all wait.  Which ranks are
 * stragglers is known from the seed; the expected maximum of n normals is
 * Phi^-1((n - 0.375) / (n + 0.25)).  Source: Blom, Statistical Estimates and Transformed
 * Beta-Variables, 1958. */
double noise_expected_slowest(const struct noise *noise, int32_t ranks);
