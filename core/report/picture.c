#include "core/report/picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend/floor.h"

/* Steps of a lane that follow each other. */
struct piece {
    int32_t rank;
    enum lane lane;
    const char *what, *name;
    int32_t bucket, micro; /* -1: none */
    double begin, end;
};

struct pieces {
    struct piece *item; /* (count) owned */
    int32_t count;
    double joined; /* compute that is no further apart is one piece, whatever waits for it [s];
                      negative: what a bucket waits for ends one */
    bool absorb;   /* what is shorter than @joined, too */
    bool stages;   /* one rank of each, and what it computes */
};

static int compare(const void *a, const void *b)
{
    const struct piece *p = a, *q = b;
    if (p->rank != q->rank)
        return p->rank < q->rank ? -1 : 1;
    if (p->lane != q->lane)
        return p->lane < q->lane ? -1 : 1;
    return (p->begin > q->begin) - (p->begin < q->begin);
}

/* (step_count) the bucket whose first collective waits for each compute step, or -1; the caller
 * frees it. */
static int32_t *find_buckets(const struct schedule *schedule)
{
    int32_t *bucket = base_alloc(schedule->step_count, sizeof(*bucket));
    for (int32_t i = 0; i < schedule->step_count; i++)
        bucket[i] = -1;
    for (int32_t i = 0; i < schedule->step_count; i++) {
        const struct step *step = &schedule->step[i];
        for (int32_t d = step->dep_begin; d < step->dep_end && step->kind == STEP_COLLECTIVE; d++)
            if (schedule->dep[d].distance == 0 &&
                schedule->step[schedule->dep[d].step].kind == STEP_COMPUTE)
                bucket[schedule->dep[d].step] = step->collective.bucket;
    }
    return bucket;
}

static const char *what_of(const struct step *step)
{
    if (step->kind == STEP_COLLECTIVE)
        return axis_names[step->collective.axis];
    if (step->kind == STEP_INPUT)
        return "input";
    if (step->kind == STEP_REPEAT)
        return "repeat";
    if (step->compute.op == COMPUTE_OPTIMIZER)
        return "optimizer";
    return step->compute.op == COMPUTE_FORWARD || step->compute.op == COMPUTE_LOSS ? "forward"
                                                                                   : "backward";
}

/* The index of @rank in @taken (*@count), where it is put unless it is no rank for the picture: -1.
 */
static int32_t take_rank(const struct schedule *schedule, int32_t ranks, int32_t rank,
                         int32_t *taken, int32_t *count)
{
    bool stages = schedule_stages(schedule) > 1;
    for (int32_t k = 0; k < *count; k++)
        if (taken[k] == rank)
            return k;
        else if (stages && schedule_stage(schedule, taken[k]) == schedule_stage(schedule, rank))
            return -1;
    if (*count == ranks)
        return -1;
    taken[*count] = rank;
    return (*count)++;
}

/* All spans of the first @ranks traced ranks in the last iteration, not yet joined. */
static void collect(struct pieces *all, const struct schedule *schedule, const struct trace *trace,
                    const int32_t *bucket, int32_t ranks)
{
    double to = trace->iteration_end[trace->iterations - 1], from = to - trace_step_time(trace);
    int32_t taken[PICTURE_STAGES], count = 0;
    for (int64_t i = 0; i < trace->span_count; i++) {
        const struct span *span = &trace->span[i];
        const struct step *step = &schedule->step[span->step];
        if (span->end <= from || span->begin >= to || span->end <= span->begin ||
            (all->stages && step->lane != LANE_COMPUTE) ||
            take_rank(schedule, ranks, span->rank, taken, &count) < 0)
            continue;
        bool collective = step->kind == STEP_COLLECTIVE;
        bool micro = all->stages && step->kind == STEP_COMPUTE;
        all->item = base_room(all->item, all->count, sizeof(*all->item));
        all->item[all->count++] = (struct piece){
            span->rank,
            step->lane,
            what_of(step),
            collective ? step->name : what_of(step),
            collective ? step->collective.bucket : bucket[span->step],
            micro && step->compute.op != COMPUTE_OPTIMIZER ? step->compute.micro : -1,
            fmax(0, span->begin - from),
            fmin(to, span->end) - from};
    }
    if (all->count)
        qsort(all->item, (size_t)all->count, sizeof(*all->item), compare);
}

static bool repeats(const struct piece *piece)
{
    return !strcmp(piece->what, "repeat");
}

/* What is computed again is drawn as the backward pass that needs it, and what is shorter than the
 * gaps that are closed, where too much is left, as what is before it. */
static bool joins(const struct pieces *all, const struct piece *a, const struct piece *b)
{
    bool again = all->joined >= 0 && ((repeats(a) && strcmp(b->what, "forward") != 0) ||
                                      (repeats(b) && strcmp(a->what, "forward") != 0));
    bool alike = a->micro == b->micro && (a->what == b->what || again);
    if (a->rank != b->rank || a->lane != b->lane)
        return false;
    if (all->joined >= 0)
        return b->begin - a->end <= all->joined &&
               (alike || (all->absorb && b->end - b->begin <= all->joined));
    if (!alike)
        return false;
    return a->lane == LANE_COMPUTE && a->bucket < 0 && b->begin - a->end <= 1e-6;
}

static void join(struct pieces *all)
{
    int32_t count = 0;
    for (int32_t i = 0; i < all->count; i++) {
        struct piece *last = count ? &all->item[count - 1] : NULL;
        if (!last || !joins(all, last, &all->item[i])) {
            all->item[count++] = all->item[i];
            continue;
        }
        if (repeats(last))
            last->what = all->item[i].what;
        last->end = all->item[i].end;
        last->bucket = all->joined < 0 ? all->item[i].bucket : -1;
    }
    all->count = count;
}

/* As many ranks as fit; if one is too many, its pieces grow. */
static struct pieces gather(const struct schedule *schedule, const struct trace *trace,
                            const int32_t *bucket)
{
    struct pieces all = {.joined = -1, .stages = schedule_stages(schedule) > 1};
    for (int32_t ranks = all.stages ? 0 : PICTURE_RANKS; ranks > 0; ranks--) {
        all.count = 0;
        collect(&all, schedule, trace, bucket, ranks);
        join(&all);
        if (all.count <= PICTURE_PIECES)
            return all;
    }
    if (all.stages)
        collect(&all, schedule, trace, bucket, PICTURE_STAGES);
    all.joined = (all.stages ? 2e-3 : 1e-4) * trace_step_time(trace);
    for (join(&all); all.count > PICTURE_PIECES; all.joined *= 4) {
        all.absorb = all.joined > 0.01 * trace_step_time(trace);
        join(&all);
    }
    return all;
}

struct json *picture_lanes(const struct schedule *schedule, const struct trace *trace)
{
    struct json *rows = json_new_array();
    AUTOFREE int32_t *bucket = find_buckets(schedule);
    struct pieces all = gather(schedule, trace, bucket);
    for (int32_t i = 0; i < all.count; i++) {
        const struct piece *piece = &all.item[i];
        struct json *row = json_append_object(rows);
        json_put_integer(row, "rank", piece->rank);
        AUTOFREE char *stage = base_format("stage %d", schedule_stage(schedule, piece->rank));
        json_put_text(row, "lane", all.stages ? stage : schedule_lane(schedule, piece->lane));
        json_put_text(row, "what", piece->what);
        json_put_text(row, "name", piece->name);
        json_put(row, "bucket",
                 piece->bucket < 0 ? json_new_text(NULL) : json_new_integer(piece->bucket));
        if (piece->micro >= 0)
            json_put_integer(row, "micro_batch", piece->micro);
        json_put_real(row, "begin_s", piece->begin);
        json_put_real(row, "end_s", piece->end);
    }
    free(all.item);
    return rows;
}

/* Nodes or groups of nodes with links of @tier, by what stands before the dot of their names. */
static int32_t count_places(const struct fabric *fabric, int32_t tier)
{
    char *last = NULL;
    int32_t count = 0;
    for (int32_t i = 0; fabric->nic_tier > 0 && i < fabric->link_count; i++) {
        if (fabric->link[i].tier != tier || tier < fabric->nic_tier)
            continue;
        char *name = fabric_link_name(fabric, i);
        name[strcspn(name, ".")] = '\0';
        count += !last || strcmp(last, name) != 0;
        free(last);
        last = name;
    }
    free(last);
    return count;
}

struct json *picture_links(const struct fabric *fabric, const struct schedule *schedule,
                           double step)
{
    struct json *rows = json_new_array();
    AUTOFREE double *load = floor_loads(fabric, schedule);
    int32_t busiest[FABRIC_TIER_LIMIT];
    memset(busiest, -1, sizeof(busiest));
    for (int32_t i = 0; i < fabric->link_count; i++) {
        int32_t *link = &busiest[fabric->link[i].tier];
        if (load[i] > 0 && (*link < 0 || load[*link] < load[i]))
            *link = i;
    }
    for (int32_t done = 0; done < fabric->tier_count; done++) {
        int32_t most = -1;
        for (int32_t tier = 0; tier < fabric->tier_count; tier++)
            if (busiest[tier] >= 0 && (most < 0 || load[busiest[most]] < load[busiest[tier]]))
                most = tier;
        if (most < 0)
            break;
        struct json *row = json_append_object(rows);
        json_put_text(row, "link", fabric->tier_name[most]);
        json_put_real(row, "bandwidth", fabric->link[busiest[most]].bandwidth);
        json_put_real(row, "busy_s", load[busiest[most]]);
        json_put_real(row, "share", load[busiest[most]] / step);
        json_put_integer(row, "places", count_places(fabric, most));
        busiest[most] = -1;
    }
    return rows;
}
