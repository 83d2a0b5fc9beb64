#include "exec/walk.h"

#include <assert.h>
#include <stdlib.h>

/* Where the gradients of each bucket lie in the packed buffer. */
struct slice {
    int64_t offset, elements;
};

struct walker {
    const struct walk *walk;
    int32_t depth;
    struct stream *stream[LANE_COUNT];
    struct event *origin;
    struct event **begin, **end; /* (depth, steps) */
    struct slice *bucket;
};

int32_t walk_depth(const struct schedule *schedule)
{
    int32_t longest = 1;
    for (int32_t i = 0; i < schedule->dep_count; i++)
        if (longest < schedule->dep[i].distance)
            longest = schedule->dep[i].distance;
    return longest + 1;
}

static int32_t bucket_count(const struct schedule *schedule)
{
    int32_t count = 0;
    for (int32_t i = 0; i < schedule->step_count; i++) {
        const struct step *step = &schedule->step[i];
        if (step->kind == STEP_COLLECTIVE && count <= step->collective.bucket)
            count = step->collective.bucket + 1;
    }
    return count;
}

/* Buckets are packed one after the other.  Of the three steps of a torus all-reduce the column's
 * works on a part: the longest one tells the size. */
static struct slice *lay_out_buckets(const struct schedule *schedule)
{
    int32_t count = bucket_count(schedule);
    struct slice *bucket = base_alloc(count, sizeof(*bucket));
    for (int32_t i = 0; i < schedule->step_count; i++) {
        const struct step *step = &schedule->step[i];
        if (step->kind != STEP_COLLECTIVE)
            continue;
        int64_t elements = step->collective.bytes / (int64_t)sizeof(float);
        if (bucket[step->collective.bucket].elements < elements)
            bucket[step->collective.bucket].elements = elements;
    }
    for (int32_t i = 1; i < count; i++)
        bucket[i].offset = bucket[i - 1].offset + bucket[i - 1].elements;
    return bucket;
}

int64_t walk_exchanged(const struct schedule *schedule)
{
    int32_t count = bucket_count(schedule);
    struct slice *bucket = lay_out_buckets(schedule);
    int64_t elements = count > 0 ? bucket[count - 1].offset + bucket[count - 1].elements : 0;
    free(bucket);
    return elements;
}

/* What a row's reduce-scatter has left on this rank. */
static struct slice row_block(const struct walk *walk, struct slice bucket)
{
    struct grid grid = walk->schedule->grid;
    int64_t index = grid_axis_index(grid, AXIS_ROW, walk->rank);
    int64_t even = bucket.elements / grid.columns, longer = bucket.elements % grid.columns;
    return (struct slice){bucket.offset + index * even + (index < longer ? index : longer),
                          even + (index < longer)};
}

static struct event **event_slot(struct walker *walker, struct event **events, int32_t iteration,
                                 int32_t step)
{
    return &events[iteration % walker->depth * walker->walk->schedule->step_count + step];
}

static void open_walker(struct walker *walker, const struct walk *walk)
{
    const struct device_ops *ops = walk->device_ops;
    int32_t depth = walk_depth(walk->schedule);
    int64_t events = (int64_t)depth * walk->schedule->step_count;
    *walker = (struct walker){.walk = walk, .depth = depth, .origin = ops->event_new()};
    walker->begin = base_alloc(events, sizeof(struct event *));
    walker->end = base_alloc(events, sizeof(struct event *));
    walker->bucket = lay_out_buckets(walk->schedule);
    for (int64_t i = 0; i < events; i++) {
        walker->begin[i] = ops->event_new();
        walker->end[i] = ops->event_new();
    }
    for (int32_t lane = 0; lane < LANE_COUNT; lane++)
        walker->stream[lane] = ops->stream_new();
}

static void close_walker(struct walker *walker)
{
    const struct device_ops *ops = walker->walk->device_ops;
    int64_t events = (int64_t)walker->depth * walker->walk->schedule->step_count;
    for (int32_t lane = 0; lane < LANE_COUNT; lane++)
        ops->stream_free(walker->stream[lane]);
    for (int64_t i = 0; i < events; i++) {
        ops->event_free(walker->begin[i]);
        ops->event_free(walker->end[i]);
    }
    ops->event_free(walker->origin);
    free(walker->begin);
    free(walker->end);
    free(walker->bucket);
}

static void issue_collective(struct walker *walker, int32_t id, struct stream *stream)
{
    const struct walk *walk = walker->walk;
    const struct step *step = &walk->schedule->step[id];
    struct slice slice = walker->bucket[step->collective.bucket];
    if (step->collective.axis == AXIS_COLUMN)
        slice = row_block(walk, slice);
    struct collective collective = schedule_collective(walk->schedule, id);
    collective.elements = slice.elements;
    walk->comm_ops->issue(walk->comm, stream, step->collective.axis, &collective,
                          walk->device_ops->gradients(walk->device) + slice.offset);
}

static void wait_for_dependencies(struct walker *walker, const struct step *step, int32_t iteration)
{
    const struct walk *walk = walker->walk;
    for (int32_t i = step->dep_begin; i < step->dep_end; i++) {
        struct dep dep = walk->schedule->dep[i];
        if (dep.distance > iteration)
            continue;
        walk->device_ops->wait(
            walker->stream[step->lane],
            *event_slot(walker, walker->end, iteration - dep.distance, dep.step));
    }
}

static void issue_step(struct walker *walker, int32_t id, int32_t iteration)
{
    const struct walk *walk = walker->walk;
    const struct step *step = &walk->schedule->step[id];
    struct stream *stream = walker->stream[step->lane];
    wait_for_dependencies(walker, step, iteration);
    walk->device_ops->record(stream, *event_slot(walker, walker->begin, iteration, id));
    if (step->kind == STEP_COLLECTIVE)
        issue_collective(walker, id, stream);
    else
        walk->device_ops->issue(walk->device, stream, step, iteration);
    walk->device_ops->record(stream, *event_slot(walker, walker->end, iteration, id));
}

static void collect(struct walker *walker, int32_t iteration, struct trace *trace)
{
    const struct device_ops *ops = walker->walk->device_ops;
    for (int32_t id = 0; id < walker->walk->schedule->step_count; id++) {
        struct event *begin = *event_slot(walker, walker->begin, iteration, id);
        struct event *end = *event_slot(walker, walker->end, iteration, id);
        ops->synchronize(end);
        trace_add(trace, (struct span){.iteration = iteration,
                                       .rank = walker->walk->rank,
                                       .step = id,
                                       .begin = ops->seconds(walker->origin, begin),
                                       .end = ops->seconds(walker->origin, end)});
    }
}

void walk_run(const struct walk *walk, struct trace *trace)
{
    struct walker walker;
    assert(walk->schedule->sealed);
    open_walker(&walker, walk);
    walk->device_ops->record(walker.stream[LANE_COMPUTE], walker.origin);
    walk->device_ops->synchronize(walker.origin);
    for (int32_t iteration = 0; iteration < walk->iterations + walker.depth; iteration++) {
        if (iteration >= walker.depth)
            collect(&walker, iteration - walker.depth, trace);
        for (int32_t id = 0; iteration < walk->iterations && id < walk->schedule->step_count; id++)
            issue_step(&walker, id, iteration);
    }
    close_walker(&walker);
}
