#pragma once

/** @file
 * NCCL in software: the calls that exec/cuda/nccl/comm_nccl.c makes, under their own names.  Ranks
 * are processes of one machine, which really exchange their numbers; the control plane
 * (exec/world/world.h) introduces them to each other.  Sums are formed in fp64, so those of small
 * whole numbers are exact.
 *
 * Every call is written down as text.  What goes on in the background takes a few questions of
 * ncclCommGetAsyncError(); the use of a communicator before that, of one that was destroyed, two
 * ranks that disagree, or communicators left over end the process with abort() and a message.
 */

#include <stddef.h>

#include <nccl.h>

/** What was called so far, one line each; places in memory count from @base.  Valid until the next
 * call.  Collectives are named with their members, count, type and places. */
const char *fake_nccl_log(void);

/** Forget what was called, and count places from @base from now on. */
void fake_nccl_base(const void *base);

/** Communicators all fail with @result from now on, in the background. */
void fake_nccl_break(ncclResult_t result);

/** From now on collectives of communicators that do not block are refused while captured. */
void fake_nccl_refuse_captures(void);

/** From now on ncclMemAlloc() fails. */
void fake_nccl_refuse_memory(void);

/** Communicators that were neither destroyed nor aborted. */
int fake_nccl_alive(void);
