#include <assert.h>
#include <stdlib.h>

#include "core/base/base.h"
#include "core/report/timeline.h"
#include "core/report/timeline_write.h"

static int compare(double a, double b)
{
    return (a > b) - (a < b);
}

/* Source: Paje trace file format, Schnorr 2016: the events used, in its self-defining header. */
static const char paje_header[] =
    "%EventDef PajeDefineContainerType 0\n%  Alias string\n%  Type string\n%  Name string\n"
    "%EndEventDef\n"
    "%EventDef PajeDefineStateType 1\n%  Alias string\n%  Type string\n%  Name string\n"
    "%EndEventDef\n"
    "%EventDef PajeDefineEntityValue 2\n%  Alias string\n%  Type string\n%  Name string\n"
    "%  Color color\n%EndEventDef\n"
    "%EventDef PajeCreateContainer 3\n%  Time date\n%  Alias string\n%  Type string\n"
    "%  Container string\n%  Name string\n%EndEventDef\n"
    "%EventDef PajeDestroyContainer 4\n%  Time date\n%  Type string\n%  Name string\n"
    "%EndEventDef\n"
    "%EventDef PajePushState 5\n%  Time date\n%  Type string\n%  Container string\n"
    "%  Value string\n%EndEventDef\n"
    "%EventDef PajePopState 6\n%  Time date\n%  Type string\n%  Container string\n"
    "%EndEventDef\n"
    "0 RANK 0 \"rank\"\n0 LANE RANK \"lane\"\n1 STEP LANE \"step\"\n";

enum paje_event { PAJE_CREATE = 3, PAJE_DESTROY, PAJE_PUSH, PAJE_POP };

/* One end of a span. */
struct edge {
    double time;
    int64_t order; /* of equal times: a lane's spans follow each other */
    const struct span *span;
    enum paje_event event;
};

static int by_time(const void *left, const void *right)
{
    const struct edge *a = left, *b = right;
    if (a->time != b->time)
        return compare(a->time, b->time);
    return a->order < b->order ? -1 : 1;
}

static void put_paje_values(FILE *file, const struct schedule *schedule)
{
    static const char *const colour[] = {"0.30 0.55 0.85", "0.90 0.55 0.20", "0.40 0.70 0.40"};
    static_assert(ARRAY_SIZE(colour) == STEP_KIND_COUNT, "a colour per kind");
    for (int32_t i = 0; i < schedule->step_count; i++) {
        fprintf(file, "2 s%d STEP \"", i);
        timeline_put_name(file, schedule->step[i].name);
        fprintf(file, "\" \"%s\"\n", colour[schedule->step[i].kind]);
    }
}

static void put_paje_containers(FILE *file, const struct schedule *schedule,
                                const struct span *span, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        int32_t rank = span[i].rank;
        if (i > 0 && span[i - 1].rank == rank)
            continue;
        fprintf(file, "%d 0 r%d RANK 0 \"rank%d\"\n", PAJE_CREATE, rank, rank);
        for (int32_t lane = 0; lane < LANE_COUNT; lane++) {
            const char *name = schedule_lane(schedule, lane);
            fprintf(file, "%d 0 r%dl%d LANE r%d \"rank%d %s\"\n", PAJE_CREATE, rank, lane, rank,
                    rank, name ? name : "idle");
        }
    }
}

static void put_paje_ends(FILE *file, const struct span *span, int64_t count, double end)
{
    for (int64_t i = 0; i < count; i++) {
        int32_t rank = span[i].rank;
        if (i > 0 && span[i - 1].rank == rank)
            continue;
        for (int32_t lane = 0; lane < LANE_COUNT; lane++)
            fprintf(file, "%d %.12f LANE r%dl%d\n", PAJE_DESTROY, end, rank, lane);
        fprintf(file, "%d %.12f RANK r%d\n", PAJE_DESTROY, end, rank);
    }
}

static double put_paje_states(FILE *file, const struct schedule *schedule, const struct span *span,
                              int64_t count)
{
    AUTOFREE struct edge *edge = base_alloc(2 * count, sizeof(*edge));
    for (int64_t i = 0; i < count; i++) {
        edge[2 * i] = (struct edge){span[i].begin, 2 * i, &span[i], PAJE_PUSH};
        edge[2 * i + 1] = (struct edge){span[i].end, 2 * i + 1, &span[i], PAJE_POP};
    }
    qsort(edge, (size_t)(2 * count), sizeof(*edge), by_time);
    for (int64_t i = 0; i < 2 * count; i++) {
        const struct span *s = edge[i].span;
        fprintf(file, "%d %.12f STEP r%dl%d", edge[i].event, edge[i].time, s->rank,
                schedule->step[s->step].lane);
        if (edge[i].event == PAJE_PUSH)
            fprintf(file, " s%d", s->step);
        fprintf(file, "\n");
    }
    return count > 0 ? edge[2 * count - 1].time : 0;
}

int timeline_write_paje(FILE *file, const struct schedule *schedule, const struct trace *trace,
                        struct err *err)
{
    if (timeline_check(schedule, trace, err))
        return -1;
    AUTOFREE struct span *span = timeline_sort(trace);
    fputs(paje_header, file);
    put_paje_values(file, schedule);
    put_paje_containers(file, schedule, span, trace->span_count);
    double end = put_paje_states(file, schedule, span, trace->span_count);
    put_paje_ends(file, span, trace->span_count, end);
    return 0;
}
