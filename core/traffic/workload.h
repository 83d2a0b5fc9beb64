#pragma once

/** @file
 * What the simulator runs: classes of ranks, the messages between them over links, and how long
 * each local step takes.  It knows no network, no device and no platform any more.
 *
 * foretrain-sim reads it as one document of JSON, whose keys follow from workload_columns, and
 * answers with a trace.
 *
 * The choice of GRAIN_AUTO: without noise, folded, which is exact; with noise, full, because ranks
 * with random times differ.  If that needs more than WORKLOAD_MESSAGES messages: with noise,
 * folded, where every rank computes as long as the slowest is expected to.  If that is still too
 * much, or more than WORKLOAD_MESSAGES_UNLIKE where all ranks differ: smoothed, with as many
 * rounds merged into one as the limit requires.  The trace names the choice ("smoothed/3": three
 * rounds in one); a folded run in which all ranks differ is a full run and named so.  GRAIN_COARSE
 * is used only when named.
 */

#include "core/backend/backend.h"
#include "core/backend/lanes.h"
#include "core/traffic/fold.h"

enum {
    /** Messages of a run up to which GRAIN_AUTO simulates each one. */
    WORKLOAD_MESSAGES = 150000,
    /** Such messages where no two ranks are alike, which smoothing changes most. */
    WORKLOAD_MESSAGES_UNLIKE = 500000,
};

/** What equal steps have in common. */
struct workload_step {
    int32_t lane;    /**< enum lane */
    int32_t stage;   /**< whose ranks run it */
    int32_t to;      /**< the stage that receives what it sends, or -1 */
    int32_t since;   /**< the step behind which what it repeats begins, or -1 */
    int32_t again;   /**< how often it repeats that */
    int32_t program; /**< index of its first channel, or -1 */
    double seconds;  /**< of a local step, or of a collective without a program, which begins on all
                          ranks together [s] */
    double bytes;    /**< of a collective */
    int32_t deps;    /**< what it waits for: so many of `dep` */
    int32_t dep;     /**< the first of them */
};

/** A run.  Start from {0}; release with workload_release(). */
struct workload {
    char *grain;            /**< as a trace names it */
    uint64_t schedule_hash; /**< of the schedule that it came from */
    int32_t ranks;          /**< of the job */
    int32_t iterations;
    int32_t traced;         /**< keep spans of at most this many classes; 0: all */
    int64_t messages;       /**< of all iterations */
    double launch;          /**< of each collective, by the host [s] */
    double eager;           /**< see struct fabric [bytes] */
    struct slowdown beside; /**< of compute and communication beside each other */
    struct noise noise;
    double slowest;         /**< factor of all ranks' compute; 0: each class has the noise of its
                                 member */
    struct traffic traffic; /**< of the classes */
    int32_t *member;        /**< (classes) the rank that represents each */
    int32_t classes;
    int32_t stages; /**< of a pipeline, of equally many ranks one after the other */

    struct workload_step *kind; /**< (kinds) */
    int32_t kinds;
    int32_t *step; /**< (steps) its kind, in the order of the schedule */
    int32_t steps;
    struct dep *dep; /**< (deps) whose step is by how many it is before the one that waits */
    int32_t deps;
};

/** Its keys. */
extern const struct answer_columns workload_columns;

/** Make zeroed @workload the run of @schedule as @run says.
 * @return 0, or -1 with the messages of backend_check(). */
int workload_build(struct workload *workload, const struct run *run,
                   const struct schedule *schedule, struct err *err);

/** Append it as JSON, on one line. */
void workload_write(struct text *out, const struct workload *workload);

/** Step @id. */
static inline const struct workload_step *workload_step(const struct workload *workload, int32_t id)
{
    return &workload->kind[workload->step[id]];
}

/** The lane on which ranks of @stage run @step; LANE_COUNT: they do not. */
enum lane workload_lane(const struct workload_step *step, int32_t stage);

/** The stage of @class. */
int32_t workload_stage(const struct workload *workload, int32_t class);

/** Both: append the run of @schedule as @run says.  @return as workload_build(). */
int workload_describe(struct text *out, const struct run *run, const struct schedule *schedule,
                      struct err *err);

/** Read what workload_write() wrote, @text of @length called @name, into zeroed @workload.
 * @return 0, or -1 (exit code 65): no JSON, no such document, a class, link, round, program or step
 * that does not exist; @workload is to be released in any case. */
int workload_read(struct workload *workload, const char *name, const char *text, int64_t length,
                  struct err *err);

void workload_release(struct workload *workload);
