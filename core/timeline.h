#pragma once

/** @file
 * Traces for other people's viewers.
 */

#include <stdio.h>

#include "core/schedule.h"
#include "core/trace.h"

/** Write Chrome Trace JSON in the dialect of PyTorch's Kineto, which Perfetto and HTA read: one
 * process per rank, one thread per lane, microseconds.  Collectives are named "nccl:all_reduce" and
 * alike, which is how those tools tell communication from computation.
 * @return 0, or -1: output error (exit code 74). */
int timeline_write_kineto(FILE *file, const struct schedule *schedule, const struct trace *trace,
                          struct err *err);

/** Write a Paje trace (ViTE, pj_dump): a container per rank and lane, a state per step.
 * @return 0, or -1: output error (exit code 74). */
int timeline_write_paje(FILE *file, const struct schedule *schedule, const struct trace *trace,
                        struct err *err);
