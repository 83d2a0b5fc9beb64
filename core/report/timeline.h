#pragma once

/** @file
 * Traces for other people's viewers.
 */

#include "core/backend/trace.h"
#include "core/schedule/schedule.h"

/** One kind of file. */
typedef int timeline_writer(FILE *file, const struct schedule *schedule, const struct trace *trace,
                            struct err *err);

/** Let @write write the file @path, whole or not at all, compressed if its name ends in ".gz";
 * NULL: nothing.
 * @return 0, or -1: what @write says, it cannot be written (exit codes 73, 74). */
int timeline_write_file(const char *path, timeline_writer *write, const struct schedule *schedule,
                        const struct trace *trace, struct err *err);

/** Write @trace as trace_write() does.  @return 0: output errors stay with @file. */
int timeline_write_spans(FILE *file, const struct schedule *schedule, const struct trace *trace,
                         struct err *err);

/** Write @trace as timeline_write_kineto() does to the file @path, or, where @path is a directory
 * or ends in '/', as a file rank-N.json for each traced rank, as HTA wants it; NULL: nothing.
 * @return 0, or -1: as timeline_write_file(); the directory holds a file of a rank that @trace has
 * not (exit code 73). */
int timeline_write_kineto_at(const char *path, const struct schedule *schedule,
                             const struct trace *trace, struct err *err);

/** Write Chrome Trace JSON in the dialect of PyTorch's Kineto, which Perfetto and HTA read: one
 * process per traced rank, one thread per lane, microseconds, a ProfilerStep#N mark from the end of
 * a rank's previous iteration to the end of this one.  Collectives have names like
 * "nccl:all_reduce" and input "Memcpy ...", by which those tools recognise communication and
 * copies.  A collective has bytes as elements (dtype "Byte"), like the schedule.  Arrows lead along
 * the dependencies of each bucket.  The rank in "distributedInfo" is the first traced one.
 * @return 0, or -1: @trace is of another schedule (exit code 70).  Output errors stay with @file.
 */
int timeline_write_kineto(FILE *file, const struct schedule *schedule, const struct trace *trace,
                          struct err *err);

/** Write one Chrome Trace with the last iteration of @predicted and @iteration of @measured, both
 * from the end of the iteration before: processes "predicted rank 0", "measured rank 0",
 * "predicted rank 1" and so on, one below the other.
 * @return 0, or -1: a trace of another schedule (exit code 70).  Output errors stay with @file. */
int timeline_write_comparison(FILE *file, const struct schedule *schedule,
                              const struct trace *predicted, const struct trace *measured,
                              int32_t iteration, struct err *err);
