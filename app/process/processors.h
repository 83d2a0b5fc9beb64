#pragma once

/** @file
 * Users of this machine's processors: others during a measurement, and ranks of the same job.
 */

#include <stdint.h>

/** Counters since the machine started [s of one processor]. */
struct processors {
    double all;   /**< of all processors together */
    double steal; /**< taken by the host of a virtual machine */
    double busy;  /**< of all processes, and of the kernel for them */
    double own;   /**< of this process's children after their end, and of theirs */
};

/** Read them; all 0 if the system does not have them. */
struct processors processors_now(void);

/** Shares of others between two readings, as fractions of all. */
struct processors_share {
    double steal;   /**< the host */
    double foreign; /**< processes that are not this one's children, and unaccounted work of the
                         kernel, such as for packets that arrive while all processes sleep */
    double idle;    /**< nobody */
};

/** Compare two readings. */
struct processors_share processors_between(const struct processors *before,
                                           const struct processors *after);

/** The ranks on node @node (from 0) of @list, which Slurm writes as "2(x3),1": 2 on each of three
 * nodes, then 1; 0: the list is no such list, or shorter.
 * Source: srun(1) of Slurm 23.02, SLURM_STEP_TASKS_PER_NODE. */
int32_t processors_slurm_tasks(const char *list, int32_t node);

/** Ranks of this job on this machine, by the environment of mpirun or srun; without it 1. */
int32_t processors_ranks(void);
