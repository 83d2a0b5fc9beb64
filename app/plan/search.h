#pragma once

/** @file
 * The search for the cheapest way to run a job within a time or a budget.
 *
 * Every platform, number of nodes and batch is predicted in closed form with one algorithm and
 * bucket.  The time without waiting for communication bounds that of all other algorithms and
 * buckets, so only those that could be the best or on the front are predicted, too: on the values
 * of the axes the search finds what brute force finds.  Where values are of the plan's own choice,
 * those between them are tried around the best.  Then the best, the next best and the front are
 * predicted again, on the simulator where there is one, until they stay.
 *
 * A batch that no published run converged with is chosen only where no other makes a job.  Where no
 * run of the network is known and the user names no batches, all plans have the job's images a
 * step.
 *
 * Of a transformer whose job says something of `parallel`, all meshes that its samples a step allow
 * are searched on each platform and number of nodes, those with the least possible step first
 * (app/plan/mesh.h), until none of the others can be among the MESHES_KEPT best.  Algorithm, bucket
 * and nodes then are the job's where the user gives none.
 *
 * A plan keeps a limit if the upper end of its 90 % interval does: the 95th percentile, so one run
 * in 20 is later.
 */

#include "app/plan/mesh.h"
#include "core/price/price.h"

/** What a plan on the front may be worse by, in time, cost and energy, than one that is not:
 * without it the front would be a list of equals.  Our choice. */
#define PLAN_NEAR 0.1

/** By how much other algorithms and buckets must promise to be better in one of them to be tried,
 * but for the best plan.  Our choice. */
#define PLAN_MISSED 0.02

enum { MESHES_KEPT = 5 /**< of the nodes of the best plan, which are shown.  Our choice */ };

/** Prices that differ by less are equal.  Our choice. */
#define PLAN_EQUAL 0.005

/** An uncertain input at one of its ends, all else in the middle. */
struct swing {
    double time, high; /**< of the best plan, which stays as it is, and the upper end of the
                            interval [s]; NAN: such a job cannot be */
    double price;      /**< its cost, or device-hours */
    int64_t best;      /**< the candidate that would be the best */
    char *name;        /**< its name; owned */
    bool kept;         /**< that one keeps the limits */
};

/** An uncertain input of the best plan. */
struct doubtful {
    char *input;            /**< a key or a few words; owned */
    char *range;            /**< what is said of it, or between which values the ends are; owned */
    struct swing low, high; /**< at the ends of its 90 % interval, or of what is said of it */
    bool changes;           /**< another plan would be the best at one of the ends */
};

/** How many candidates came to what. */
struct tally {
    int64_t refused, simulated, beyond;
    int64_t first; /**< that makes no job */
};

/** What nodes, batch and all else are chosen by. */
enum aim { AIM_COST, AIM_DEVICE_HOURS, AIM_TIME };

/** "cost", "device-hours", "time". */
extern const char *const aim_names[];

/** A search.  Start from {0} with what is asked; release with search_release(). */
struct search {
    struct question question;          /**< what the user asks */
    struct job job;                    /**< as it is */
    const char *given[DECISION_COUNT]; /**< values as an axis has them, or NULL: of our choice */
    double within;                     /**< [s]; INFINITY: any time; only meshes need no limit */
    double budget;              /**< of cost, or without prices device-hours; INFINITY: any */
    const struct texts *prices; /**< "FILE" or "PLATFORM=FILE" */
    struct tariffs tariffs;     /**< owned */
    enum aim aim;               /**< what the plan is the least of, within the limits */
    const char *currency;       /**< of cost; NULL: budget and front count device-hours; borrowed */
    struct axes axes;           /**< in the order of enum decision */
    int64_t nodes, context;     /**< of the job, which meshes take where none are given */
    bool experts;               /**< the network has some, which meshes may share */
    struct mesh_tally mesh_tally;
    struct tally tally;
    bool draws;            /**< whether layouts are asked for */
    struct layout *layout; /**< (layouts) of all nodes; owned */
    int64_t layouts;
    int32_t *size;          /**< (platforms) their nodes; owned */
    int32_t *devices;       /**< (platforms) of one of these nodes; owned */
    int64_t images;         /**< a step of every plan, where no run says which batch converges; 0:
                                 batches are searched */
    struct candidate *list; /**< (count) owned */
    int64_t count;
    struct group *group; /**< (group_count) owned */
    int64_t group_count;
    int64_t best, next; /**< -1: none; next: the best on another platform or, without
                             one, on another number of nodes */
    int64_t *front;     /**< (front_count) the fastest first; owned */
    int64_t front_count;
    struct doubtful *doubt; /**< (doubt_count) that moves most first; owned */
    int32_t doubt_count;
};

/** Search.
 * @return 0, or -1 with a message: axes_read(), platforms or prices that are not found, prices of
 * some platforms only or in two currencies, a key that --set gives, too (exit code 64), no job at
 * all (the exit code of the first candidate), candidates_predict(). */
int search_make(struct search *search, struct err *err);

/** Fill search->doubt, of a plan with a best candidate.  @return 0, or -1 with a message. */
int search_doubt(struct search *search, struct err *err);

/** Whether @a is better than @b: a plan that keeps the limits than one that does not; of two that
 * do, the one with less of what is aimed for; of two that do not, the one that misses by less. */
bool search_better(const struct search *search, const struct candidate *a,
                   const struct candidate *b);

/** Whether candidate @i, which has a mesh, is on the nodes of the best. */
bool search_beside(const struct search *search, int64_t i);

/** Whether @candidate keeps the limits. */
bool search_keeps(const struct search *search, const struct candidate *candidate);

/** Its cost or device-hours, of which the front has few, bounded by those of time and prices. */
struct range search_price(const struct search *search, const struct candidate *candidate);

/** Whether no published run converged with its batch. */
bool search_beyond(const struct candidate *candidate);

void search_release(struct search *search);
