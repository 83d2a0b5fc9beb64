#pragma once

/** @file
 * Ranks on GPUs exchange gradients by NCCL.
 *
 * One communicator for the job; where the grid has several rows and several columns also one for
 * this rank's row and one for its column, split from it.  A row is made of consecutive ranks
 * (core/collective/grid.h), and launchers fill one machine after the other: so a row is within a
 * machine, on NVLink, if the ranks of a machine are a multiple of the columns.  If they are not,
 * rank 0 reports it on stderr.
 *
 * Everything happens in place in the flat gradients.  A reduce-scatter leaves rank i of a row with
 * the sum of block i, of elements / columns numbers, which begin on 128 bytes: buckets are packed
 * that way (exec/step/packing.h), and a bucket that the columns do not divide is our mistake.
 * A sharded optimizer stops there; its parameters are gathered in place behind the gradients, and
 * its norms are an all-reduce of all ranks, which gives all of them the same bits.
 * Sums are formed in the type in which numbers travel; the device divides those of fp16 by about
 * the root of the ranks before, and by the rest in the optimizer.  NCCL's means (ncclAvg) would
 * divide by all ranks of the communicator before, and lose numbers that are 16 times larger where
 * 256 ranks add.
 *
 * The gradients lie in memory of ncclMemAlloc(), which is registered with every communicator: NCCL
 * then works in it without copies, within a machine also in the switch (NVLS), and needs fewer
 * thread blocks.  Where NCCL has no such memory on a rank, all ranks take cudaMalloc()'s, which is
 * registered too, and rank 0 reports it on stderr.
 * Source: NCCL's User Guide, "User Buffer Registration".
 *
 * With algorithm nccl, NCCL chooses how to run an all-reduce of all ranks; for ring and double-tree
 * NCCL_ALGO demands rings or double binary trees, and torus2d is our three steps.  Other algorithms
 * are refused.  Rows and columns may be busy at once, so their order on the GPU is that of issue
 * (NCCL_LAUNCH_ORDER_IMPLICIT, NCCL 2.26).  Variables that the user has set are not changed.
 *
 * Communicators do not block: a thread watches them, and a failure of NCCL ends the job with exit
 * code 71 and a message that names rank, step and bucket.  All of it may be captured in a graph.
 * That is tried when they are opened; if it is refused on any rank, ranks go on with communicators
 * that block, and rank 0 reports it on stderr.
 *
 * A limit of thread blocks (allreduce.ctas) is that of the job's communicator, from which the
 * others are split with the same configuration.  Blocks that NCCL takes are missing to the kernels
 * beside it, and fewer move less: no prediction knows either.
 *
 * Where a machine has more ranks than GPUs, several ranks share one, for tests: NCCL up to 2.29
 * refuses two ranks of one host on one GPU, so each gets its own NCCL_HOSTID, and they communicate
 * over sockets.
 */

#include "exec/step/comm.h"

/** Transport "nccl", for streams of exec/cuda/runtime/stream_cuda.h. */
extern const struct comm_ops comm_nccl_ops;
