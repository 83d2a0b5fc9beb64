#pragma once

/** @file
 * The device that rehearses: each step takes the seconds that were predicted for it, and nothing is
 * computed, so a cluster's training step can be walked over a real network before its devices are
 * there.
 *
 * A step begins when its lane is free and what it waits for has happened, and ends its predicted
 * seconds later (core/backend/backend.h: run_local_seconds(), times the noise drawn for this rank
 * and iteration).  The thread sleeps until then.  Waking late does not make later steps late: the
 * next one begins when this one should have ended.
 *
 * Gradients are exchanged for real, and it is checked that they were: before backward one number in
 * REPLAY_PROBE_STRIDE is set to 1, and after the all-reduces it must be the number of ranks.  Else
 * the job ends with exit code 70.  What stages and ranks that share layers exchange has no value.
 */

#include "exec/step/device.h"

enum {
    REPLAY_PROBE_STRIDE = 16384, /**< gradients between two that are checked */
    REPLAY_PROBE_RANKS = 256     /**< with more ranks nothing is checked: the largest up to which
                                      bf16 holds every whole number */
};

/** "replay". */
extern const struct device_ops device_replay_ops;
