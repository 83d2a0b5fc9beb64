#include "core/report/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/base.h"
#include "core/base/file.h"
#include "core/base/gzip.h"
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

static int write_compressed(FILE *file, timeline_writer *write, const struct schedule *schedule,
                            const struct trace *trace, struct err *err)
{
    struct text text = {0};
    size_t length = 0;
    FILE *memory = open_memstream(&text.data, &length);
    int failed = memory ? write(memory, schedule, trace, err)
                        : err_add_code(err, 71, "no memory for a trace: %s", strerror(errno));
    if (memory && (fflush(memory) | fclose(memory)))
        failed = err_add_code(err, 71, "no memory for a trace: %s", strerror(errno));
    text.length = (int64_t)length;
    if (!failed)
        gzip_write(file, &text);
    free(text.data);
    return failed;
}

int timeline_write_file(const char *path, timeline_writer *write, const struct schedule *schedule,
                        const struct trace *trace, struct err *err)
{
    struct file_fresh file;
    if (!path)
        return 0;
    if (file_fresh_open(&file, path, err))
        return -1;
    bool failed = gzip_named(path) ? write_compressed(file.stream, write, schedule, trace, err)
                                   : write(file.stream, schedule, trace, err);
    return file_fresh_close(&file, failed, NULL, err);
}

int timeline_write_spans(FILE *file, const struct schedule *schedule, const struct trace *trace,
                         struct err *err)
{
    AUTORELEASE(err) struct err unnamed = {0};
    trace_write(file, trace, &unnamed); /* an error stays with the file, and gets its name there */
    return 0;
}

static bool is_of_a_rank(const char *name)
{
    int32_t rank, end = 0;
    return sscanf(name, "rank-%9d.json%n", &rank, &end) == 1 && end > 0 && !name[end];
}

/* Whether the ranks @trace tells of include the one of file @name. */
static bool has_rank_of(const struct trace *trace, const char *name)
{
    int32_t rank = (int32_t)strtol(name + strlen("rank-"), NULL, 10);
    for (int64_t i = 0; i < trace->span_count; i++)
        if (trace->span[i].rank == rank)
            return true;
    return false;
}

static int check_directory(const char *path, const struct trace *trace, struct err *err)
{
    char **name;
    int failed = 0;
    int64_t count = file_list(path, is_of_a_rank, &name);
    for (int64_t i = 0; i < count && !failed; i++)
        if (!has_rank_of(trace, name[i]))
            failed = err_add_code(err, 73,
                                  "%s holds %s, of a rank that is not in this trace: name an empty "
                                  "directory",
                                  path, name[i]);
    file_list_free(name, count);
    return failed;
}

static int write_rank(const char *path, const struct schedule *schedule, const struct trace *trace,
                      int32_t rank, struct err *err)
{
    struct trace one = *trace;
    AUTORELEASE(text) struct text name = {0};
    one.span = NULL;
    one.span_count = 0;
    for (int64_t i = 0; i < trace->span_count; i++)
        if (trace->span[i].rank == rank)
            trace_add(&one, trace->span[i]);
    text_add(&name, "%s/rank-%d.json", path, rank);
    int failed = timeline_write_file(name.data, timeline_write_kineto, schedule, &one, err);
    free(one.span);
    return failed;
}

static int write_ranks(const char *path, const struct schedule *schedule, const struct trace *trace,
                       struct err *err)
{
    if (file_make_directory(path, err) || check_directory(path, trace, err))
        return -1;
    AUTOFREE struct span *span = timeline_sort(trace);
    int failed = 0;
    for (int64_t i = 0; i < trace->span_count && !failed; i++)
        if (i == 0 || span[i].rank != span[i - 1].rank)
            failed = write_rank(path, schedule, trace, span[i].rank, err);
    return failed;
}

int timeline_write_kineto_at(const char *path, const struct schedule *schedule,
                             const struct trace *trace, struct err *err)
{
    if (path && file_is_directory(path))
        return write_ranks(path, schedule, trace, err);
    return timeline_write_file(path, timeline_write_kineto, schedule, trace, err);
}
