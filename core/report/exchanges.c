#include "core/report/exchanges.h"

#include "core/report/breakdown.h"

/* The last iteration, without its spans. */
static struct report_exchanges last_iteration(const struct schedule *schedule,
                                              const struct trace *trace)
{
    double to = trace->iteration_end[trace->iterations - 1];
    return (struct report_exchanges){.schedule = schedule,
                                     .trace = trace,
                                     .rank = breakdown_rank(schedule, trace),
                                     .from = to - trace_step_time(trace),
                                     .to = to};
}

/* What hides a collective: compute hides all, and a layer's hides a
 * bucket's, and a column's a row's. */
static bool hides(const struct step *step, const struct step *hidden)
{
    bool row = hidden->lane == LANE_ROW, column = hidden->lane == LANE_COLUMN;
    return step->lane == LANE_COMPUTE || (step->lane == LANE_TENSOR && (row || column)) ||
           (step->lane == LANE_COLUMN && row);
}

ORDER_BY(compare, struct span, begin)

double exchanges_exposed(const struct report_exchanges *list, const struct span *span)
{
    const struct span *other = list->span;
    const struct step *step = list->schedule->step;
    double at = span->begin < list->from ? list->from : span->begin, left = 0;
    double end = span->end < list->to ? span->end : list->to;
    int64_t first = 0, behind = list->span_count; /* all before @first end by @at */
    while (first < behind) {
        int64_t middle = (first + behind) / 2;
        *(list->reach[middle] > at ? &behind : &first) = middle + (list->reach[middle] <= at);
    }
    for (int64_t i = first; i < list->span_count && at < end && other[i].begin < end; i++) {
        if (!hides(&step[other[i].step], &step[span->step]))
            continue;
        if (other[i].begin > at)
            left += (other[i].begin < end ? other[i].begin : end) - at;
        if (other[i].end > at)
            at = other[i].end;
    }
    return at < end ? left + end - at : left;
}

static void collect(struct report_exchanges *list, const struct trace *trace)
{
    list->span = base_alloc(trace->span_count, sizeof(*list->span));
    for (int64_t i = 0; i < trace->span_count; i++) {
        const struct span *span = &trace->span[i];
        if (span->rank == list->rank && span->end > list->from && span->begin < list->to)
            list->span[list->span_count++] = *span;
    }
    qsort(list->span, (size_t)list->span_count, sizeof(*list->span), compare);
    list->reach = base_alloc(list->span_count, sizeof(*list->reach));
    for (int64_t i = 0; i < list->span_count; i++)
        list->reach[i] = fmax(list->span[i].end, i > 0 ? list->reach[i - 1] : 0);
}

/* When what @span needs had ended. */
static double ready_at(const struct report_exchanges *list, const struct span *span)
{
    const struct step *step = &list->schedule->step[span->step];
    double ready = list->from;
    for (int32_t d = step->dep_begin; d < step->dep_end; d++)
        for (int64_t i = 0; i < list->span_count && list->span[i].begin <= span->begin; i++) {
            const struct dep *dep = &list->schedule->dep[d];
            const struct span *needed = &list->span[i];
            if (needed->step == dep->step && needed->end > ready &&
                needed->iteration == span->iteration - dep->distance)
                ready = needed->end;
        }
    return ready;
}

struct report_exchanges exchanges_of(const struct run *run, const struct schedule *schedule,
                                     const struct trace *trace)
{
    struct report_exchanges list = last_iteration(schedule, trace);
    collect(&list, trace);
    list.exchange = base_alloc(list.span_count, sizeof(*list.exchange));
    for (int64_t i = 0; i < list.span_count; i++) {
        const struct span *span = &list.span[i];
        const struct step *step = &schedule->step[span->step];
        if (step->kind == STEP_COLLECTIVE && step->lane < LANE_SEND)
            list.exchange[list.count++] = (struct report_exchange){
                .step = step,
                .way = nccl_way(run, step),
                .ready = ready_at(&list, span) - list.from,
                .begin = span->begin - list.from,
                .end = span->end - list.from,
                .exposed = step_runs(step) * exchanges_exposed(&list, span)};
    }
    return list;
}

void exchanges_release(struct report_exchanges *list)
{
    free(list->span);
    free(list->reach);
    free(list->exchange);
    *list = (struct report_exchanges){0};
}

COLUMNS(step_columns, NULL, struct step)
{
    COLUMN("name", name, .help = "a collective, or a part of one, of the last phase's step");
    COLUMN("bucket", collective.bucket, .help = "bucket of gradients, from 0");
    COLUMN("axis", collective.axis, .words = axis_names,
           .help = "row, column, world or tensor: which ranks take part");
    COLUMN("bytes", collective.bytes, .help = "full vector on one rank");
}

SHARED_COLUMNS(exchange_columns, NULL, struct report_exchange)
{
    COLUMN_MEMBERS(step, &step_columns);
    COLUMN("ready_s", ready, .help = "since the step began: all that it needs is there");
    COLUMN("begin_s", begin, .help = "since the step began: it begins");
    COLUMN("end_s", end, .help = "since the step began: it ends");
    COLUMN("exposed_s", exposed,
           .help = "part of all runs that nothing hides; together step.exposed_communication_s");
    COLUMN("nccl", way, .words = nccl_way_words, .zero = true,
           .help = "algorithm and protocol that NCCL's model chooses; null: not by NCCL");
}
