#include "core/report/picture.h"

#include "core/backend/floor.h"

/* Steps of a lane that follow each other. */
struct piece {
    int32_t rank;
    enum lane lane;
    const char *what, *name;
    int32_t bucket, micro; /* -1: none, or several */
    int32_t times;         /* how often a repeat runs what is before it; 0: no repeat, or several */
    double begin, end, busy;
};

struct pieces {
    struct piece *item; /* (count) owned */
    int32_t count;
    bool passes;   /* a pass of a micro-batch is one piece */
    bool stages;   /* one rank of each, and what it computes */
    double joined; /* of passes: what is no further apart [s] */
    bool absorb;   /* and what is shorter than that, with whatever is before it */
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

/* (step_count) the bucket whose first collective waits for each compute step, or -1; owned. */
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

/* What is computed again is part of the backward pass that needs it. */
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
    size_t length = strlen(step->name);
    bool again = length > 6 && !strcmp(step->name + length - 6, " again");
    bool forward = step->compute.op == COMPUTE_FORWARD || step->compute.op == COMPUTE_LOSS;
    return forward && !again ? "forward" : "backward";
}

/* The micro-batch of @step, or -1. */
static int32_t micro_of(const struct step *step)
{
    if (step->kind == STEP_COMPUTE && step->compute.op != COMPUTE_OPTIMIZER)
        return step->compute.micro;
    bool inside = step->kind == STEP_COLLECTIVE && step->collective.content == CONTENT_ACTIVATIONS;
    return inside ? step->collective.micro : -1;
}

/* The index of @rank in @taken (*@count), which it joins; -1: no rank for the picture. */
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
        const char *what = what_of(step), *name = what;
        int32_t number = bucket[span->step];
        if (step->kind == STEP_COLLECTIVE) {
            name = step->name;
            number = step->collective.bucket;
        }
        double begin = fmax(0, span->begin - from), end = fmin(to, span->end) - from;
        int32_t micro = micro_of(step), times = step->kind == STEP_REPEAT ? step->repeat.times : 0;
        BASE_NEXT(all->item, all->count) = (struct piece){
            span->rank, step->lane, what, name, number, micro, times, begin, end, end - begin};
    }
    if (all->count)
        qsort(all->item, (size_t)all->count, sizeof(*all->item), compare);
}

static bool joins(const struct pieces *all, const struct piece *a, const struct piece *b)
{
    if (a->rank != b->rank || a->lane != b->lane)
        return false;
    bool near = b->begin - a->end <= all->joined;
    if (all->absorb && near && b->end - b->begin <= all->joined)
        return true;
    if (a->micro != b->micro || a->what != b->what || a->times)
        return false;
    if (all->passes)
        return near || (!all->stages && a->micro >= 0);
    return a->lane == LANE_COMPUTE && a->bucket < 0 && b->begin - a->end <= 1e-6;
}

static void join(struct pieces *all)
{
    int32_t count = 0;
    for (int32_t i = 0; i < all->count; i++) {
        struct piece *last = count ? &all->item[count - 1] : NULL, *next = &all->item[i];
        if (!last || !joins(all, last, next)) {
            all->item[count++] = *next;
            continue;
        }
        last->what = last->what == next->what ? last->what : "repeat";
        last->name = all->passes ? last->what : last->name;
        last->end = next->end;
        last->busy += next->busy;
        last->bucket = all->passes ? -1 : next->bucket;
        last->micro = last->micro == next->micro ? last->micro : -1;
        last->times = 0;
    }
    all->count = count;
}

/* Append @piece, so much later. */
static void append(struct pieces *all, struct piece piece, double seconds, int32_t micros)
{
    piece.begin += seconds;
    piece.end += seconds;
    piece.micro += piece.micro < 0 ? 0 : micros;
    BASE_NEXT(all->item, all->count) = piece;
}

/* Put what each repeat repeats in its place, of @micros micro-batches each time, unless that is too
 * much.  @return whether it was not. */
static bool expand(struct pieces *all, int32_t micros)
{
    struct pieces full = *all;
    int32_t later = 0;
    full.item = NULL;
    full.count = 0;
    for (int32_t i = 0; i < all->count && full.count <= PICTURE_PIECES; i++) {
        const struct piece *p = &all->item[i];
        int32_t first = i;
        if (i == 0 || p[-1].rank != p->rank || p[-1].lane != p->lane)
            later = 0;
        double period = p->times > 0 ? (p->end - p->begin) / p->times : 0;
        while (p->times > 0 && first > 0 && p[first - 1 - i].rank == p->rank &&
               p[first - 1 - i].lane == p->lane &&
               p[first - 1 - i].begin + p[first - 1 - i].end > 2 * (p->begin - period))
            first--;
        for (int32_t k = 1; k <= p->times; k++)
            for (int32_t j = first; j < i; j++)
                append(&full, all->item[j], k * period, k * micros);
        if (first == i)
            append(&full, *p, 0, later);
        later += p->times * micros;
    }
    bool fits = full.count <= PICTURE_PIECES;
    free(fits ? all->item : full.item);
    if (fits)
        *all = full;
    return fits;
}

/* As many ranks as fit; if one is too many, whole passes, then longer pieces. */
static struct pieces gather(const struct schedule *schedule, const struct trace *trace,
                            const int32_t *bucket)
{
    int32_t stages = schedule_stages(schedule);
    struct pieces all = {.stages = stages > 1};
    for (int32_t ranks = all.stages ? 0 : PICTURE_RANKS; ranks > 0; ranks--) {
        all.count = 0;
        collect(&all, schedule, trace, bucket, ranks);
        join(&all);
        if (expand(&all, stages))
            return all;
    }
    if (all.stages)
        collect(&all, schedule, trace, bucket, PICTURE_STAGES);
    all.passes = true;
    all.joined = (all.stages ? 2e-3 : 1e-4) * trace_step_time(trace);
    join(&all);
    if (expand(&all, stages))
        return all;
    for (; all.count > PICTURE_PIECES; all.joined *= 4) {
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
    bool several = false;
    for (int32_t i = 0; i < all.count; i++)
        several = several || all.item[i].micro > 0;
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
        if (several && piece->micro >= 0)
            json_put_integer(row, "micro_batch", piece->micro);
        if (piece->times > 0)
            json_put_integer(row, "times", piece->times);
        json_put_real(row, "begin_s", piece->begin);
        json_put_real(row, "end_s", piece->end);
        json_put_real(row, "busy_s", piece->busy);
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
