#include "core/report/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/base/file.h"
#include "core/report/timeline_write.h"

int timeline_check(const struct schedule *schedule, const struct trace *trace, struct err *err)
{
    if (trace->schedule_hash != schedule_hash(schedule))
        return err_add_code(
            err, 70, "the trace is of another schedule: hash %016" PRIx64 ", not %016" PRIx64,
            trace->schedule_hash, schedule_hash(schedule));
    for (int64_t i = 0; i < trace->span_count; i++)
        if (trace->span[i].step >= schedule->step_count)
            return err_add_code(err, 70, "the trace names step %d of %d", trace->span[i].step,
                                schedule->step_count);
    return 0;
}

int timeline_finish(FILE *file, const char *what, struct err *err)
{
    if (fflush(file) || ferror(file))
        return err_add_code(err, 74, "cannot write the %s trace: %s", what, strerror(errno));
    return 0;
}

static int compare(double a, double b)
{
    return (a > b) - (a < b);
}

static int by_rank_and_iteration(const void *left, const void *right)
{
    const struct span *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->iteration != b->iteration)
        return a->iteration < b->iteration ? -1 : 1;
    if (a->begin != b->begin)
        return compare(a->begin, b->begin);
    return a->step - b->step;
}

struct span *timeline_sort(const struct trace *trace)
{
    struct span *span = base_alloc(trace->span_count, sizeof(*span));
    if (trace->span_count > 0)
        memcpy(span, trace->span, (size_t)trace->span_count * sizeof(*span));
    qsort(span, (size_t)trace->span_count, sizeof(*span), by_rank_and_iteration);
    return span;
}

/* Neither format can be broken by a name. */
void timeline_put_name(FILE *file, const char *name)
{
    for (; *name; name++)
        putc(*name == '"' || *name == '\\' || (unsigned char)*name < ' ' ? '_' : *name, file);
}

int timeline_write_file(const char *path, timeline_writer *write, const struct schedule *schedule,
                        const struct trace *trace, struct err *err)
{
    struct file_fresh file;
    if (!path)
        return 0;
    if (file_fresh_open(&file, path, err))
        return -1;
    bool failed = write(file.stream, schedule, trace, err) != 0;
    return file_fresh_close(&file, failed, NULL, err);
}

int timeline_write_spans(FILE *file, const struct schedule *schedule, const struct trace *trace,
                         struct err *err)
{
    (void)schedule;
    return trace_write(file, trace, err);
}
