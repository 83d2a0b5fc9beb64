#include "core/report/exchanges.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/unit.h"

/* The part of the iteration in question. */
struct window {
    const struct schedule *schedule;
    const struct trace *trace;
    int32_t rank; /* that ends the iteration */
    double from, to;
};

static struct window last_iteration(const struct schedule *schedule, const struct trace *trace)
{
    double to = trace->iteration_end[trace->iterations - 1];
    struct window w = {schedule, trace, -1, to - trace_step_time(trace), to};
    double latest = 0;
    for (int64_t i = 0; i < trace->span_count; i++) {
        const struct span *span = &trace->span[i];
        if (span->iteration == trace->iterations - 1 && (w.rank < 0 || latest < span->end)) {
            w.rank = span->rank;
            latest = span->end;
        }
    }
    return w;
}

/* What hides a collective: compute hides all, and a column's hides a row's. */
static bool hides(const struct step *step, const struct step *hidden)
{
    return step->lane == LANE_COMPUTE || (step->lane == LANE_COLUMN && hidden->lane == LANE_ROW);
}

static int compare(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* The length of @span that no span of @sorted (@count, by begin) hides. */
static double uncovered(const struct window *w, const struct span *span, const struct span *sorted,
                        int64_t count)
{
    double at = span->begin < w->from ? w->from : span->begin, left = 0;
    double end = span->end < w->to ? span->end : w->to;
    for (int64_t i = 0; i < count && at < end; i++) {
        if (!hides(&w->schedule->step[sorted[i].step], &w->schedule->step[span->step]))
            continue;
        if (sorted[i].begin > at)
            left += (sorted[i].begin < end ? sorted[i].begin : end) - at;
        if (sorted[i].end > at)
            at = sorted[i].end;
    }
    return at < end ? left + end - at : left;
}

/* The spans of the rank that lie in the iteration; the caller frees them. */
static struct span *collect(const struct window *w, int64_t *count)
{
    struct span *own = base_alloc(w->trace->span_count, sizeof(*own));
    *count = 0;
    for (int64_t i = 0; i < w->trace->span_count; i++) {
        const struct span *span = &w->trace->span[i];
        if (span->rank == w->rank && span->end > w->from && span->begin < w->to)
            own[(*count)++] = *span;
    }
    qsort(own, (size_t)*count, sizeof(*own), compare);
    return own;
}

/* When what @step needs of its own iteration had ended. */
static double ready_at(const struct window *w, const struct span *own, int64_t count,
                       const struct step *step, int32_t iteration)
{
    double ready = w->from;
    for (int32_t d = step->dep_begin; d < step->dep_end; d++)
        for (int64_t i = 0; i < count; i++)
            if (own[i].step == w->schedule->dep[d].step && own[i].end > ready &&
                own[i].iteration == iteration - w->schedule->dep[d].distance)
                ready = own[i].end;
    return ready;
}

struct report_exchanges exchanges_of(const struct schedule *schedule, const struct trace *trace)
{
    struct window w = last_iteration(schedule, trace);
    int64_t count;
    struct span *own = collect(&w, &count);
    struct report_exchanges list = {base_alloc(count, sizeof(struct report_exchange)), 0};
    for (int64_t i = 0; i < count; i++) {
        const struct step *step = &schedule->step[own[i].step];
        if (step->kind == STEP_COLLECTIVE)
            list.exchange[list.count++] = (struct report_exchange){
                .step = step,
                .ready = ready_at(&w, own, count, step, own[i].iteration) - w.from,
                .begin = own[i].begin - w.from,
                .end = own[i].end - w.from,
                .exposed = uncovered(&w, &own[i], own, count)};
    }
    free(own);
    return list;
}

static void print_seconds(struct text *out, double seconds)
{
    struct text quantity = {0};
    unit_print(&quantity, UNIT_SECONDS, seconds);
    text_add(out, "%12s", quantity.data);
    text_release(&quantity);
}

void exchanges_print(struct text *out, const struct report_exchanges *list)
{
    text_add(out, "\n  %-28s%8s%14s%12s%12s%12s%12s\n", "all-reduce", "bucket", "bytes", "ready",
             "begin", "end", "exposed");
    for (int32_t i = 0; i < list->count; i++) {
        const struct report_exchange *e = &list->exchange[i];
        text_add(out, "  %-28s%8" PRId32 "%14" PRId64, e->step->name, e->step->collective.bucket,
                 e->step->collective.bytes);
        print_seconds(out, e->ready);
        print_seconds(out, e->begin);
        print_seconds(out, e->end);
        print_seconds(out, e->exposed);
        text_add(out, "\n");
    }
}

struct json *exchanges_json(const struct report_exchanges *list)
{
    struct json *array = json_new_array();
    for (int32_t i = 0; i < list->count; i++) {
        const struct report_exchange *e = &list->exchange[i];
        struct json *json = json_new_object();
        json_put_text(json, "name", e->step->name);
        json_put_integer(json, "bucket", e->step->collective.bucket);
        json_put_text(json, "axis", axis_name(e->step->collective.axis));
        json_put_integer(json, "bytes", e->step->collective.bytes);
        json_put_real(json, "ready_s", e->ready);
        json_put_real(json, "begin_s", e->begin);
        json_put_real(json, "end_s", e->end);
        json_put_real(json, "exposed_s", e->exposed);
        json_append(array, json);
    }
    return array;
}

int exchanges_write_csv(FILE *file, const struct schedule *schedule, const struct trace *trace,
                        struct err *err)
{
    struct report_exchanges list = exchanges_of(schedule, trace);
    fprintf(file, "name,bucket,axis,bytes,ready_s,begin_s,end_s,exposed_s\r\n");
    for (int32_t i = 0; i < list.count; i++) {
        const struct report_exchange *e = &list.exchange[i];
        fprintf(file, "\"%s\",%" PRId32 ",%s,%" PRId64 ",%.9g,%.9g,%.9g,%.9g\r\n", e->step->name,
                e->step->collective.bucket, axis_name(e->step->collective.axis),
                e->step->collective.bytes, e->ready, e->begin, e->end, e->exposed);
    }
    free(list.exchange);
    if (fflush(file) || ferror(file))
        return err_add_code(err, 74, "cannot write the all-reduces: %s", strerror(errno));
    return 0;
}
