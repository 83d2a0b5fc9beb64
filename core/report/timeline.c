#include "core/report/timeline.h"

#include "core/base/file.h"
#include "core/base/gzip.h"
#include "core/collective/grid.h"

/* Check that @trace is of @schedule.  @return 0, or -1 (exit code 70). */
static int timeline_check(const struct schedule *schedule, const struct trace *trace,
                          struct err *err)
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

static int by_rank_and_iteration(const void *left, const void *right)
{
    const struct span *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->iteration != b->iteration)
        return a->iteration < b->iteration ? -1 : 1;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->step - b->step;
}

/* The spans of @trace by rank, iteration and time; the caller frees them. */
static struct span *timeline_sort(const struct trace *trace)
{
    struct span *span = base_alloc(trace->span_count, sizeof(*span));
    if (trace->span_count > 0)
        memcpy(span, trace->span, (size_t)trace->span_count * sizeof(*span));
    qsort(span, (size_t)trace->span_count, sizeof(*span), by_rank_and_iteration);
    return span;
}

/* Write @name; what would end it becomes '_'. */
static void timeline_put_name(FILE *file, const char *name)
{
    for (; *name; name++)
        putc(*name == '"' || *name == '\\' || (unsigned char)*name < ' ' ? '_' : *name, file);
}

/* ---- Kineto ---- */

enum {
    RANKS_SHOWN = 8, /* members of a process group that are spelled out */
};

/* The least time that Chrome's format tells apart in viewers [s]. */
#define TICK 1e-9

static const char *nccl_name(enum collective_op op)
{
    static const char *const name[] = {"all_reduce", "reduce_scatter", "all_gather", "send",
                                       "all_to_all"};
    static_assert(ARRAY_SIZE(name) == COLLECTIVE_OP_COUNT, "a name per operation");
    return name[op];
}

static void put_group(FILE *file, struct grid grid, enum axis axis, int32_t rank)
{
    int32_t size = grid_axis_size(grid, axis);
    fprintf(file, "\"Process Group Ranks\": \"[");
    for (int32_t i = 0; i < size && i < RANKS_SHOWN; i++)
        fprintf(file, "%s%d", i ? ", " : "", grid_axis_rank(grid, axis, rank, i));
    fprintf(file, "%s]\"", size > RANKS_SHOWN ? ", ..." : "");
}

static void put_collective_args(FILE *file, struct grid grid, const struct step *step, int32_t rank)
{
    enum collective_op op = step->collective.op;
    int32_t size = grid_axis_size(grid, step->collective.axis);
    int64_t bytes = step->collective.bytes, block = (bytes + size - 1) / size;
    fprintf(file,
            ", \"Collective name\": \"%s\", \"In msg nelems\": %" PRId64
            ", \"Out msg nelems\": %" PRId64
            ", \"Group size\": %d, \"dtype\": \"Byte\", \"In split size\": \"[]\", \"Out split "
            "size\": \"[]\", \"Process Group Name\": \"%s\", ",
            nccl_name(op), op == COLLECTIVE_ALL_GATHER ? block : bytes,
            op == COLLECTIVE_REDUCE_SCATTER ? block : bytes, size,
            axis_names[step->collective.axis]);
    put_group(file, grid, step->collective.axis, rank);
    fprintf(file, ", \"step\": \"");
    timeline_put_name(file, step->name);
    fprintf(file, "\"");
}

static void put_event_name(FILE *file, const struct step *step)
{
    if (step->kind == STEP_COLLECTIVE) {
        fprintf(file, "nccl:%s", nccl_name(step->collective.op));
        return;
    }
    if (step->kind == STEP_INPUT)
        fprintf(file, "Memcpy HtoD ");
    timeline_put_name(file, step->name);
}

/* How the ranks of one trace are shown. */
struct view {
    const char *prefix;     /* of "rank 0" */
    int32_t stride, offset; /* rank r is process r * stride + offset */
    int64_t arrows;         /* so far */
};

static int32_t process_of(const struct view *view, int32_t rank)
{
    return rank * view->stride + view->offset;
}

static void put_event(FILE *file, const struct schedule *schedule, const struct view *view,
                      const struct span *span, int64_t correlation)
{
    const struct step *step = &schedule->step[span->step];
    fprintf(file, ",\n{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"",
            step->kind == STEP_INPUT ? "gpu_memcpy" : "kernel");
    put_event_name(file, step);
    fprintf(file,
            "\", \"pid\": %d, \"tid\": %d, \"ts\": %.6f, \"dur\": %.6f, \"args\": {\"device\": %d, "
            "\"stream\": %d, \"correlation\": %" PRId64 ", \"step id\": %d, \"iteration\": %d",
            process_of(view, span->rank), step->lane, span->begin * 1e6,
            (span->end - span->begin) * 1e6, process_of(view, span->rank), step->lane, correlation,
            span->step, span->iteration);
    if (step->kind == STEP_COMPUTE) {
        fprintf(file, ", \"op\": \"%s\"", compute_op_names[step->compute.op]);
        if (step->compute.layer >= 0)
            fprintf(file, ", \"layer\": \"%s\"", layer_op_names[step->compute.layer_op]);
    }
    if (step->kind == STEP_COLLECTIVE)
        put_collective_args(file, schedule->grid, step, span->rank);
    fprintf(file, "}}");
}

static void put_thread(FILE *file, int32_t process, int32_t thread, const char *name)
{
    fprintf(file,
            ",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %d, \"tid\": %d, \"args\": "
            "{\"name\": \"%s\"}},\n{\"ph\": \"M\", \"name\": \"thread_sort_index\", \"pid\": %d, "
            "\"tid\": %d, \"args\": {\"sort_index\": %d}}",
            process, thread, name, process, thread, thread);
}

static void put_process(FILE *file, const struct schedule *schedule, const struct view *view,
                        int32_t rank)
{
    int32_t process = process_of(view, rank);
    fprintf(file,
            ",\n{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %d, \"args\": {\"name\": "
            "\"%srank %d\"}}",
            process, view->prefix, rank);
    for (int32_t lane = 0; lane < LANE_COUNT; lane++)
        if (schedule_lane(schedule, lane))
            put_thread(file, process, lane, schedule_lane(schedule, lane));
    put_thread(file, process, schedule_lanes(schedule), "iterations"); /* below the lanes */
}

static void put_arrow_end(FILE *file, const struct schedule *schedule, const struct view *view,
                          const struct span *span, const char *end, double time, int64_t id)
{
    fprintf(
        file,
        ",\n{\"ph\": \"%s\", \"id\": %" PRId64
        ", \"cat\": \"dependency\", \"name\": \"bucket\", \"pid\": %d, \"tid\": %d, \"ts\": %.6f}",
        end, id, process_of(view, span->rank), schedule->step[span->step].lane, time * 1e6);
}

/* From what a bucket waits for to its collectives, and on to what waits for them, in the spans of
 * one rank and iteration. A viewer looks for the span at the time of each end. */
static void put_arrows(FILE *file, const struct schedule *schedule, struct view *view,
                       const struct span *span, int64_t count)
{
    AUTOFREE const struct span **of = base_alloc(schedule->step_count, sizeof(*of));
    for (int64_t i = 0; i < count; i++)
        of[span[i].step] = &span[i];
    for (int64_t i = 0; i < count; i++) {
        const struct step *step = &schedule->step[span[i].step];
        for (int32_t k = step->dep_begin; k < step->dep_end; k++) {
            const struct dep *dep = &schedule->dep[k];
            const struct span *from = dep->distance == 0 ? of[dep->step] : NULL;
            if (!from || (step->kind != STEP_COLLECTIVE &&
                          schedule->step[dep->step].kind != STEP_COLLECTIVE))
                continue;
            double inside = fmax(from->end - TICK, from->begin);
            put_arrow_end(file, schedule, view, from, "s", inside, view->arrows);
            put_arrow_end(file, schedule, view, &span[i], "f\", \"bp\": \"e", span[i].begin,
                          view->arrows++);
        }
    }
}

static void put_mark(FILE *file, int32_t thread, const struct view *view, const struct span *span,
                     double begin, double end)
{
    fprintf(file,
            ",\n{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#%d\", "
            "\"pid\": %d, \"tid\": %d, \"ts\": %.6f, \"dur\": %.6f, \"args\": {}}",
            span->iteration, process_of(view, span->rank), thread, begin * 1e6,
            (end - begin) * 1e6);
}

/* When the first of @span of its rank begins that is no input; else the first. */
static double first_work(const struct schedule *schedule, const struct span *span, int64_t count)
{
    for (int64_t i = 0; i < count && span[i].rank == span->rank; i++)
        if (schedule->step[span[i].step].kind != STEP_INPUT)
            return span[i].begin;
    return span->begin;
}

/* Input for later iterations runs early, so a mark spans the time from one iteration's last end to
 * the next one's: marks of a rank tile its time without overlap.  The first begins with the work,
 * not with images that were fetched before. */
static void put_marks_and_events(FILE *file, const struct schedule *schedule, struct view *view,
                                 const struct span *span, int64_t count)
{
    double begin = 0, end = 0;
    int64_t first = 0; /* span of the rank and iteration */
    for (int64_t i = 0; i < count; i++) {
        const struct span *next = i + 1 < count ? &span[i + 1] : NULL;
        if (i == 0 || span[i].rank != span[i - 1].rank) {
            put_process(file, schedule, view, span[i].rank);
            begin = end = first_work(schedule, span + i, count - i);
        }
        put_event(file, schedule, view, &span[i], i);
        if (end < span[i].end)
            end = span[i].end;
        if (!next || next->rank != span[i].rank || next->iteration != span[i].iteration) {
            put_arrows(file, schedule, view, span + first, i + 1 - first);
            put_mark(file, schedule_lanes(schedule), view, &span[i], begin, end);
            begin = end;
            first = i + 1;
        }
    }
}

int timeline_write_kineto(FILE *file, const struct schedule *schedule, const struct trace *trace,
                          struct err *err)
{
    if (timeline_check(schedule, trace, err))
        return -1;
    struct view view = {"", 1, 0, 0};
    AUTOFREE struct span *span = timeline_sort(trace);
    /* HTA looks for the rank line by line with the pattern "rank":\s+(\d+). */
    fprintf(
        file,
        "{\n\"schemaVersion\": 1,\n\"distributedInfo\": {\n\"backend\": \"nccl\",\n"
        "\"rank\": %d,\n\"world_size\": %d\n},\n\"displayTimeUnit\": \"ms\",\n"
        "\"foretrain\": {\"backend\": \"%s\", \"grain\": \"%s\", \"schedule_hash\": \"%016" PRIx64
        "\"},\n\"traceEvents\": [\n"
        "{\"ph\": \"M\", \"name\": \"foretrain\", \"pid\": 0, \"args\": {}}",
        trace->span_count > 0 ? span[0].rank : 0, trace->ranks, trace->backend, trace->grain,
        trace->schedule_hash);
    put_marks_and_events(file, schedule, &view, span, trace->span_count);
    fprintf(file, "\n]\n}\n");
    return 0;
}

/* Only the spans of @iteration of @trace, with times from the end of the previous iteration. */
static struct trace cut_out(const struct trace *trace, int32_t iteration)
{
    struct trace cut = {.ranks = trace->ranks};
    double origin = iteration > 0 ? trace->iteration_end[iteration - 1] : 0;
    for (int64_t i = 0; i < trace->span_count; i++) {
        struct span span = trace->span[i];
        if (span.iteration != iteration)
            continue;
        span.begin -= origin;
        span.end -= origin;
        trace_add(&cut, span);
    }
    return cut;
}

/* Input that was read ahead begins before time 0; viewers prefer positive times. */
static double earliest(const struct trace *trace)
{
    double first = 0;
    for (int64_t i = 0; i < trace->span_count; i++)
        if (trace->span[i].begin < first)
            first = trace->span[i].begin;
    return first;
}

static void put_cut(FILE *file, const struct schedule *schedule, struct view *view,
                    struct trace *cut, double first)
{
    for (int64_t i = 0; i < cut->span_count; i++) {
        cut->span[i].begin -= first;
        cut->span[i].end -= first;
    }
    AUTOFREE struct span *span = timeline_sort(cut);
    put_marks_and_events(file, schedule, view, span, cut->span_count);
    trace_release(cut);
}

int timeline_write_comparison(FILE *file, const struct schedule *schedule,
                              const struct trace *predicted, const struct trace *measured,
                              int32_t iteration, struct err *err)
{
    assert(predicted->iterations > 0 && iteration < measured->iterations);
    if (timeline_check(schedule, predicted, err) || timeline_check(schedule, measured, err))
        return -1;
    struct trace above = cut_out(predicted, predicted->iterations - 1);
    struct trace below = cut_out(measured, iteration);
    double first = earliest(&above) < earliest(&below) ? earliest(&above) : earliest(&below);
    fprintf(file,
            "{\n\"schemaVersion\": 1,\n\"displayTimeUnit\": \"ms\",\n"
            "\"foretrain\": {\"predicted\": \"%s\", \"measured\": \"%s\", "
            "\"schedule_hash\": \"%016" PRIx64 "\"},\n\"traceEvents\": [\n"
            "{\"ph\": \"M\", \"name\": \"foretrain\", \"pid\": 0, \"args\": {}}",
            predicted->backend, measured->backend, predicted->schedule_hash);
    struct view view = {"predicted ", 2, 0, 0};
    put_cut(file, schedule, &view, &above, first);
    view.prefix = "measured ";
    view.offset = 1;
    put_cut(file, schedule, &view, &below, first);
    fprintf(file, "\n]\n}\n");
    return 0;
}

/* ---- files ---- */

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
    trace_write(file, trace, false, &unnamed); /* an error stays with the file, which names it */
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
    AUTORELEASE(texts) struct texts names = file_list(path, is_of_a_rank);
    for (int32_t i = 0; i < names.count; i++)
        if (!has_rank_of(trace, names.item[i]))
            return err_add_code(
                err, 73,
                "%s holds %s, of a rank that is not in this trace: name an empty directory", path,
                names.item[i]);
    return 0;
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
