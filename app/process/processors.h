#pragma once

/** @file
 * Who had this machine's processors while something was measured.
 */

/** Counters since the machine started [s of one processor]. */
struct processors {
    double all;   /**< of all processors together */
    double steal; /**< taken by the host of a virtual machine */
    double busy;  /**< of all processes, and of the kernel for them */
    double own;   /**< of this process's children that were waited for, and theirs */
};

/** Read them; all 0 where the system does not tell. */
struct processors processors_now(void);

/** What others had between two readings, as parts of all. */
struct processors_share {
    double steal;   /**< the host */
    double foreign; /**< processes that are not this one's children, and what the kernel did on
                         nobody's account, as for packets that arrived while all slept */
    double idle;    /**< nobody */
};

/** Compare two readings. */
struct processors_share processors_between(const struct processors *before,
                                           const struct processors *after);
