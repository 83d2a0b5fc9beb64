#pragma once

/** @file
 * Users of this machine's processors during a measurement.
 */

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
