#pragma once

/** @file
 * Meshes of a job on some nodes: all that the job, the network and the platform allow, each with
 * the least that a step takes with it, so that only those that promise something are predicted.
 *
 * That least time has nothing of what depends on how steps fall together: of each stage the time of
 * its layers for all micro-batches, computing alone, with what ranks that share a layer exchange
 * forward; before it the first micro-batch on its way through the stages before, and behind it the
 * last one on its way back.  Of what a task exchanges forward the longest is left out, which the
 * next task may hide.  So no prediction in closed form is shorter.
 */

#include "app/job/job.h"
#include "app/plan/candidate.h"

/** In place of the values of an axis: all that can be, or what the job has. */
extern const char mesh_open[];

/** One of them. */
struct mesh {
    int64_t part[MESH_PARTS];
    int32_t job;  /**< of struct meshes */
    double least; /**< of a step of the last phase [s] */
};

/** How many came to what. */
struct mesh_tally {
    int64_t considered;
    int64_t divided;   /**< heads, blocks, devices or samples cannot be shared so */
    int64_t memory;    /**< do not fit the memory of a device */
    int64_t slower;    /**< take at least longer than the best */
    int64_t predicted; /**< all others */
};

/** One of them as a picture has it. */
struct layout {
    const char *platform;
    int64_t nodes;
    double memory; /**< that a device needs [bytes] */
    double step;   /**< predicted, or the least that it takes [s] */
    bool fits, predicted;
};

enum { LAYOUTS_MOST = 700 /**< of some nodes: those whose step may be the shortest */ };

/** All of them.  Start from {0}; release with meshes_release(). */
struct meshes {
    struct job *job; /**< (jobs) one for each number of devices that share layers; owned */
    int32_t jobs;
    struct mesh *item; /**< (count) the least first; owned */
    int64_t count;
    struct passes *passes; /**< (passes_count) owned */
    int32_t passes_count;
    int64_t devices;
    struct mesh_tally tally; /**< but for those that are slower or predicted */
};

/** Whether a plan of @job searches meshes where it is not @asked to: its network is a transformer
 * and `parallel` says something. */
bool meshes_wanted(const struct job *job, bool asked);

/** Fill @meshes with those of @question on the nodes of @like, a candidate without a mesh, with
 * values of @axes, which has all decisions.
 * @return 0, or -1: the job cannot be with any of them. */
int meshes_find(struct meshes *meshes, const struct question *question,
                const struct candidate *like, const struct axes *axes, struct err *err);

/** Whether @mesh, an item of @meshes, makes a job that fits the memory; counts it if not. */
bool mesh_fits(struct meshes *meshes, const struct mesh *mesh);

/** Fill @layout with memory and least step of @mesh.  @return 0, or -1: it makes no job. */
int mesh_layout(const struct meshes *meshes, const struct mesh *mesh, struct layout *layout);

/** Where none fits: the one that needs the least memory, and how much; the caller frees it. */
char *meshes_nearest(const struct meshes *meshes);

void meshes_release(struct meshes *meshes);
