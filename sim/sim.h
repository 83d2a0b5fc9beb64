#pragma once

/** @file
 * The simulator: a schedule on a fabric, message by message, with contention, on SimGrid.
 *
 * SimGrid keeps one engine per process: backend_sim runs once per process, and SimGrid may abort
 * the process.  foretrain therefore starts foretrain-sim as a child.
 *
 * The choice of GRAIN_AUTO: without noise, folded, which is exact; with noise, full, because ranks
 * with random times differ.  If that needs more than SIM_MESSAGE_LIMIT messages: with noise,
 * folded, where every rank computes as long as the slowest is expected to.  If that is still too
 * much, or more than SIM_MESSAGE_LIMIT_UNLIKE where all ranks differ: smoothed, with as many rounds
 * merged into one as the limit requires.  The trace names the choice ("smoothed/3": three rounds in
 * one); a folded run in which all ranks differ is a full run and named so.  GRAIN_COARSE is used
 * only when named.
 */

#include "core/backend/backend.h"

/** The name is "sim". */
extern const struct backend backend_sim;

enum {
    /** Messages of a run up to which GRAIN_AUTO simulates each one; about half a second. */
    SIM_MESSAGE_LIMIT = 150000,
    /** The same where no two ranks are alike, which smoothing changes most; about two seconds. */
    SIM_MESSAGE_LIMIT_UNLIKE = 500000,
};
