#pragma once

/** @file
 * A back end runs a sealed schedule on a fabric and reports when each step ran.
 *
 * It may read everything it is given and may write only the trace.
 */

#include "core/backend/noise.h"
#include "core/backend/trace.h"
#include "core/network/fabric.h"
#include "core/platform/platform.h"
#include "core/schedule/schedule.h"

/** The back ends that predict: the index in backend_words. */
enum backend_choice { BACKEND_ANALYTIC, BACKEND_SIM, BACKEND_CHOICE_COUNT };

/** "analytic", "sim", NULL-terminated. */
extern const char *const backend_words[];

/** How detailed the simulation is. */
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

/** Times that runs of alike jobs ask for again: of collectives in closed form, and of the slowest
 * rank.  Start from {0}; nothing in it needs releasing. */
struct memory {
    struct {
        uint64_t what; /**< a hash of all that the value depends on; 0: nothing is kept here */
        double value;
    } item[8192];
};

/** Whether @memory (NULL: none) has the value of @what, which goes into @value. */
bool memory_find(const struct memory *memory, uint64_t what, double *value);

/** Keep @value in @memory, unless that is NULL, perhaps in place of another. */
void memory_keep(struct memory *memory, uint64_t what, double value);

/** Everything a back end needs besides the schedule.  All pointers are borrowed. */
struct run {
    const struct fabric *fabric;
    const struct device *device;
    int32_t iterations; /**< at least 1 */
    enum grain grain;
    struct noise noise;
    double
        contention; /**< extra time of compute steps, as a fraction, because other devices of the
                         node compute at the same time; less where devices are said to be faster */
    int64_t input_workers;
    double input_rate;    /**< [images/s] per worker */
    int32_t traced_ranks; /**< keep spans of at most this many ranks: first, last, evenly between;
                               0: all */

    struct grid grid;      /**< of the schedules, of whose axes NCCL sums each apart; {0}: all ranks
                                are one axis */
    uint64_t layout;       /**< equal for equal fabrics only; 0: not known */
    struct memory *memory; /**< used for collectives where `layout` is known; NULL: none */
};

/** One way to execute a schedule. */
struct backend {
    const char *name; /**< the word of --backend */

    /** Run @schedule as @run says and fill zeroed @trace.
     * @return 0, or -1 with a message and the trace released. */
    int (*run)(const struct run *run, const struct schedule *schedule, struct trace *trace,
               struct err *err);
};

enum { RUN_SPANS_MOST = 1 << 25 /**< steps that a trace holds: 1 GiB.  Our choice */ };

/** Whether a back end that predicts can run @schedule as @run says.
 * @return 0, or -1: ALGORITHM_MPI (exit code 69), more than RUN_SPANS_MOST steps to record (64). */
int backend_check(const struct run *run, const struct schedule *schedule, struct err *err);

/** Seconds of a compute or input step on a rank without noise. */
double run_local_seconds(const struct run *run, const struct step *step);

/** What a rank sends and receives of collective @step.  On a torus whose devices use all links at
 * once that is one of as many rings, which have equal parts of the vector and take turns on the
 * dimensions: they are alike, so one stands for all, and only its links are loaded.  Of a sharded
 * optimizer, whose shards are a row's, each phase has the links of its own dimensions alone.
 * Source: DeepMind, How to Scale Your Model (2025, recalled), on all-gathers over several axes.
 * In a node with a mesh it is one of fabric_rings(), and what goes all to all goes to all at once.
 */
struct collective backend_collective(const struct fabric *fabric, const struct schedule *schedule,
                                     int32_t step);

/** A collective step by ALGORITHM_NCCL: what fabric->nccl would choose, on an axis of some
 * ranks what nccl_part() of it would.  Starts on all of them together. */
struct nccl_choice run_nccl(const struct run *run, const struct step *step);
