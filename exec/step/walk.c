#include "exec/step/walk.h"

#include "exec/world/world.h"

struct walker {
    struct walk walk;
    int32_t depth;
    int32_t stage;
    int32_t first_forward, last_backward, optimizer; /* steps */
    int32_t scores;                                  /* the last layer */
    struct stream *stream[LANE_COUNT];               /* NULL: it runs no steps */
    struct event *origin, *gathered;
    struct event **begin, **end;  /* (depth, steps) */
    struct event **first, **last; /* (depth) around an iteration launched whole */
    bool *whole;                  /* (depth) the iteration was */
    double previous_end;          /* of the iteration finished last */
    double exposed_comm;          /* of the last one whose steps were issued one by one */
    double before, after;         /* when the origin was recorded */
};

int32_t walk_depth(const struct schedule *schedule)
{
    int32_t longest = 1;
    for (int32_t i = 0; i < schedule->dep_count; i++)
        if (longest < schedule->dep[i].distance)
            longest = schedule->dep[i].distance;
    return longest + 1;
}

static struct event *event_of(const struct walker *walker, struct event **events, int32_t iteration,
                              int32_t step)
{
    return events[iteration % walker->depth * walker->walk.schedule->step_count + step];
}

/* The lane on which this rank runs @step; LANE_COUNT: it does not. */
static enum lane lane_of(const struct walker *walker, const struct step *step)
{
    return step_lane(step, walker->stage);
}

/* The step of this rank that has @role, or -1. */
static int32_t step_with(const struct walker *walker, enum step_role role)
{
    const struct schedule *schedule = walker->walk.schedule;
    for (int32_t id = 0; id < schedule->step_count; id++)
        if (schedule->step[id].role == role && schedule->step[id].stage == walker->stage)
            return id;
    return -1;
}

/* The iteration of the first stage has a step with that role; others begin with what they receive.
 */
static int32_t first_forward(const struct walker *walker)
{
    const struct step *step = walker->walk.schedule->step;
    int32_t id = step_with(walker, ROLE_FIRST_FORWARD);
    if (id >= 0)
        return id;
    for (id = 0; step[id].kind != STEP_COMPUTE || step[id].stage != walker->stage;)
        id++;
    return id;
}

static void open_lanes(struct walker *walker)
{
    const struct schedule *schedule = walker->walk.schedule;
    for (int32_t id = 0; id < schedule->step_count; id++) {
        enum lane lane = lane_of(walker, &schedule->step[id]);
        if (lane < LANE_COUNT && !walker->stream[lane])
            walker->stream[lane] = walker->walk.device_ops->streams->stream_new();
        if (schedule->step[id].kind == STEP_COMPUTE)
            walker->scores = schedule->step[id].compute.layer > walker->scores
                                 ? schedule->step[id].compute.layer
                                 : walker->scores;
    }
    walker->first_forward = first_forward(walker);
    walker->last_backward = step_with(walker, ROLE_LAST_BACKWARD);
    walker->optimizer = step_with(walker, ROLE_OPTIMIZER);
    assert(walker->last_backward >= 0 && walker->optimizer >= 0);
}

struct walker *walker_new(const struct walk *walk)
{
    assert(walk->schedule->sealed);
    const struct device_ops *ops = walk->device_ops;
    int32_t depth = walk_depth(walk->schedule);
    int64_t events = (int64_t)depth * walk->schedule->step_count;
    struct walker *walker = base_alloc(1, sizeof(*walker));
    *walker = (struct walker){.walk = *walk, .depth = depth, .origin = ops->streams->event_new()};
    walker->gathered = ops->streams->event_new();
    walker->begin = base_alloc(events, sizeof(struct event *));
    walker->end = base_alloc(events, sizeof(struct event *));
    for (int64_t i = 0; i < events; i++) {
        walker->begin[i] = ops->streams->event_new();
        walker->end[i] = ops->streams->event_new();
    }
    walker->first = base_alloc(depth, sizeof(struct event *));
    walker->last = base_alloc(depth, sizeof(struct event *));
    walker->whole = base_alloc(depth, sizeof(bool));
    for (int32_t i = 0; i < depth; i++) {
        walker->first[i] = ops->streams->event_new();
        walker->last[i] = ops->streams->event_new();
    }
    walker->stage = schedule_stage(walk->schedule, walk->rank);
    open_lanes(walker);
    walker->before = world_now();
    ops->streams->record(walker->stream[LANE_COMPUTE], walker->origin);
    ops->streams->synchronize(walker->origin);
    walker->after = world_now();
    return walker;
}

void walker_free(struct walker *walker)
{
    if (!walker)
        return;
    const struct device_ops *ops = walker->walk.device_ops;
    int64_t events = (int64_t)walker->depth * walker->walk.schedule->step_count;
    for (int32_t lane = 0; lane < LANE_COUNT; lane++)
        if (walker->stream[lane])
            ops->streams->stream_free(walker->stream[lane]);
    for (int64_t i = 0; i < events; i++) {
        ops->streams->event_free(walker->begin[i]);
        ops->streams->event_free(walker->end[i]);
    }
    for (int32_t i = 0; i < walker->depth; i++) {
        ops->streams->event_free(walker->first[i]);
        ops->streams->event_free(walker->last[i]);
    }
    ops->streams->event_free(walker->origin);
    ops->streams->event_free(walker->gathered);
    free(walker->begin);
    free(walker->end);
    free(walker->first);
    free(walker->last);
    free(walker->whole);
    free(walker);
}

double walker_origin(const struct walker *walker, double *error)
{
    const struct stream_ops *streams = walker->walk.device_ops->streams;
    *error = streams->when ? 0 : (walker->after - walker->before) / 2;
    return streams->when ? streams->when(walker->origin) : (walker->before + walker->after) / 2;
}

struct stream *walker_stream(struct walker *walker)
{
    return walker->stream[LANE_COMPUTE];
}

/* Of gradients of weights that two stages have. */
static bool moves_gradients(const struct step *step)
{
    return step->collective.content == CONTENT_GRADIENTS ||
           (step->collective.content == CONTENT_ACTIVATIONS && step->collective.micro < 0);
}

/* The type in which what @step moves travels; sums of a softmax are those of its scores. */
static enum dtype payload_of(const struct walker *walker, const struct step *step)
{
    enum collective_content content = step->collective.content;
    bool sums = content == CONTENT_ACTIVATIONS && step->collective.layer == walker->scores;
    if (moves_gradients(step) || content == CONTENT_BLOCKS)
        return walker->walk.payload;
    return content == CONTENT_NORMS || content == CONTENT_STEPS || sums ? DTYPE_FP32
                                                                        : walker->walk.gathered;
}

/* Numbers that @step moves, but of buckets. */
static int64_t exchanged(const struct walker *walker, const struct step *step)
{
    return moves_gradients(step) ? walker->walk.shared.elements
                                 : step->collective.bytes / dtype_size(payload_of(walker, step));
}

/* What one stage sends and another receives. */
static void issue_send(struct walker *walker, const struct step *step, struct stream *stream)
{
    const struct walk *walk = &walker->walk;
    bool receives = step->collective.to == walker->stage;
    walk->comm_ops->send(walk->comm, stream, receives ? step->stage : step->collective.to, receives,
                         step->collective.back, exchanged(walker, step), payload_of(walker, step),
                         walk->device_ops->activation(walk->device, step, receives));
}

static void issue_collective(struct walker *walker, int32_t id, struct stream *stream,
                             int64_t number)
{
    const struct walk *walk = &walker->walk;
    const struct step *step = &walk->schedule->step[id];
    enum collective_content content = step->collective.content;
    struct slice slice = {.offset = content == CONTENT_NORMS ? walker->stage : 0};
    if (content == CONTENT_GRADIENTS || content == CONTENT_PARAMETERS) {
        slice = walk->packing->bucket[step->collective.bucket];
        if (step->collective.axis == AXIS_COLUMN)
            slice = packing_block(slice, walk->schedule->grid, AXIS_ROW, walk->rank);
    } else {
        slice.elements = exchanged(walker, step);
    }
    struct collective collective = schedule_collective(walk->schedule, id);
    collective.elements = slice.elements;
    if (walk->comm_ops->note)
        walk->comm_ops->note(stream, number, step->collective.bucket);
    enum dtype payload = payload_of(walker, step);
    int32_t size =
        walk->device_ops->exchanges_payload ? dtype_size(payload) : (int32_t)sizeof(float);
    char *data = content == CONTENT_GRADIENTS ? walk->device_ops->gradients(walk->device)
                 : content == CONTENT_ACTIVATIONS || content == CONTENT_BLOCKS
                     ? walk->device_ops->activation(walk->device, step, false)
                     : walk->device_ops->shared(walk->device, content);
    bool settles = content == CONTENT_GRADIENTS || content == CONTENT_BLOCKS;
    if (content == CONTENT_BLOCKS && walk->device_ops->settle)
        walk->device_ops->settle(walk->device, stream, step, (struct slice){0});
    walk->comm_ops->issue(walk->comm, stream, step->collective.axis, &collective, payload,
                          data + slice.offset * size);
    if (settles && walk->device_ops->settle)
        walk->device_ops->settle(walk->device, stream, step, slice);
}

void walker_gather(struct walker *walker, int64_t number)
{
    const struct schedule *schedule = walker->walk.schedule;
    const struct stream_ops *streams = walker->walk.device_ops->streams;
    struct stream *stream = walker->stream[LANE_ROW];
    int32_t left = INT32_MAX; /* buckets: the last is the first, and passes repeat them */
    if (schedule_sharded(schedule) == AXIS_COUNT)
        return;
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        if (step->kind != STEP_COLLECTIVE || lane_of(walker, step) == LANE_COUNT ||
            step->collective.content != CONTENT_PARAMETERS || step->collective.bucket >= left)
            continue;
        left = step->collective.bucket;
        issue_collective(walker, id, stream, number);
    }
    streams->record(stream, walker->gathered);
    streams->synchronize(walker->gathered);
}

/* What happens once @step of @iteration is over. */
static struct event *over(const struct walker *walker, int32_t iteration, int32_t step)
{
    int32_t slot = iteration % walker->depth;
    bool input = walker->walk.schedule->step[step].kind == STEP_INPUT;
    if (walker->whole[slot] && !input)
        return walker->last[slot];
    return event_of(walker, walker->end, iteration, step);
}

static void wait_for_dependencies(struct walker *walker, const struct step *step,
                                  struct stream *stream, int32_t iteration)
{
    const struct walk *walk = &walker->walk;
    for (int32_t i = step->dep_begin; i < step->dep_end; i++) {
        struct dep dep = walk->schedule->dep[i];
        bool elsewhere = lane_of(walker, &walk->schedule->step[dep.step]) == LANE_COUNT;
        if (dep.distance > iteration || elsewhere)
            continue;
        walk->device_ops->streams->wait(stream, over(walker, iteration - dep.distance, dep.step));
    }
}

static void issue_work(struct walker *walker, int32_t id, int32_t iteration, int64_t number)
{
    const struct walk *walk = &walker->walk;
    const struct step *step = &walk->schedule->step[id];
    struct stream *stream = walker->stream[lane_of(walker, step)];
    walk->device_ops->streams->record(stream, event_of(walker, walker->begin, iteration, id));
    if (step->kind == STEP_COLLECTIVE && step->collective.op == COLLECTIVE_SEND)
        issue_send(walker, step, stream);
    else if (step->kind == STEP_COLLECTIVE)
        issue_collective(walker, id, stream, number);
    else
        walk->device_ops->issue(walk->device, stream, step, iteration);
    walk->device_ops->streams->record(stream, event_of(walker, walker->end, iteration, id));
}

static void issue_steps(struct walker *walker, int32_t iteration, int64_t number)
{
    const struct schedule *schedule = walker->walk.schedule;
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        enum lane lane = lane_of(walker, step);
        if (lane == LANE_COUNT)
            continue;
        wait_for_dependencies(walker, step, walker->stream[lane], iteration);
        issue_work(walker, id, iteration, number);
    }
}

/* ---- an iteration launched whole ---- */

/* Only dependencies on steps of the same graph are captured. */
static void capture_steps(struct walker *walker, int32_t iteration, int64_t number)
{
    const struct walk *walk = &walker->walk;
    const struct schedule *schedule = walk->schedule;
    walk->device_ops->capture->begin(walk->device, walker->stream, iteration);
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        if (step->kind == STEP_INPUT)
            continue;
        for (int32_t i = step->dep_begin; i < step->dep_end; i++) {
            struct dep dep = schedule->dep[i];
            if (dep.distance == 0 && schedule->step[dep.step].kind != STEP_INPUT)
                walk->device_ops->streams->wait(walker->stream[step->lane],
                                                event_of(walker, walker->end, iteration, dep.step));
        }
        issue_work(walker, id, iteration, number);
    }
    walk->device_ops->capture->end(walk->device, walker->stream, iteration);
}

/* Input steps are issued as usual; the rest waits for them and for its dependencies in earlier
 * iterations, and is one launch. */
static void issue_whole(struct walker *walker, int32_t iteration, int64_t number)
{
    const struct walk *walk = &walker->walk;
    const struct schedule *schedule = walk->schedule;
    struct stream *compute = walker->stream[LANE_COMPUTE];
    int32_t slot = iteration % walker->depth;
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        bool input = step->kind == STEP_INPUT;
        for (int32_t i = step->dep_begin; i < step->dep_end; i++) {
            struct dep dep = schedule->dep[i];
            bool outside = dep.distance > 0 || schedule->step[dep.step].kind == STEP_INPUT;
            if (outside && dep.distance <= iteration)
                walk->device_ops->streams->wait(input ? walker->stream[step->lane] : compute,
                                                over(walker, iteration - dep.distance, dep.step));
        }
        if (input)
            issue_work(walker, id, iteration, number);
    }
    if (walk->comm && walk->comm_ops->note)
        walk->comm_ops->note(compute, number, -1);
    walker->whole[slot] = true;
    walk->device_ops->streams->record(compute, walker->first[slot]);
    if (!walk->device_ops->capture->launch(walk->device, compute, iteration)) {
        capture_steps(walker, iteration, number);
        walk->device_ops->capture->launch(walk->device, compute, iteration);
    }
    walk->device_ops->streams->record(compute, walker->last[slot]);
}

void walker_issue(struct walker *walker, int32_t iteration, int64_t number)
{
    if (walker->walk.device_ops->capture && iteration >= walker->walk.single)
        issue_whole(walker, iteration, number);
    else
        issue_steps(walker, iteration, number);
}

/* ---- times ---- */

static double begin_of(const struct walker *walker, int32_t iteration, int32_t step)
{
    return walker->walk.device_ops->streams->seconds(
        walker->origin, event_of(walker, walker->begin, iteration, step));
}

static double end_of(const struct walker *walker, int32_t iteration, int32_t step)
{
    return walker->walk.device_ops->streams->seconds(
        walker->origin, event_of(walker, walker->end, iteration, step));
}

static void add_spans(const struct walker *walker, int32_t iteration, struct trace *trace)
{
    int32_t number = trace->iterations;
    for (int32_t id = 0; id < walker->walk.schedule->step_count; id++) {
        if (lane_of(walker, &walker->walk.schedule->step[id]) == LANE_COUNT)
            continue;
        struct span span = {.iteration = number,
                            .rank = walker->walk.rank,
                            .step = id,
                            .begin = begin_of(walker, iteration, id),
                            .end = end_of(walker, iteration, id)};
        trace_add(trace, span);
        trace_finish(trace, number, span.end);
    }
}

struct walk_step walker_step(const struct walker *walker, int32_t iteration, int32_t step)
{
    const struct device_ops *ops = walker->walk.device_ops;
    int32_t before = step - 1;
    while (before >= 0 && lane_of(walker, &walker->walk.schedule->step[before]) != LANE_COMPUTE)
        before--;
    struct event *from = before < 0 ? event_of(walker, walker->begin, iteration, step)
                                    : event_of(walker, walker->end, iteration, before);
    struct event *to = event_of(walker, walker->end, iteration, step);
    struct walk_step taken = {.seconds = ops->streams->seconds(from, to)};
    taken.busy = ops->measure ? ops->measure->busy(from, to) : taken.seconds;
    return taken;
}

/* How long the compute lane, free since @since, waited for parameters before @step. */
static double gather_wait(const struct walker *walker, int32_t iteration, int32_t step,
                          double since)
{
    const struct schedule *schedule = walker->walk.schedule;
    double wait = 0;
    for (int32_t i = schedule->step[step].dep_begin; i < schedule->step[step].dep_end; i++) {
        int32_t needed = schedule->dep[i].step;
        if (schedule->step[needed].kind == STEP_COLLECTIVE &&
            lane_of(walker, &schedule->step[needed]) < LANE_COUNT)
            wait = fmax(wait,
                        fmin(end_of(walker, iteration, needed), begin_of(walker, iteration, step)) -
                            since);
    }
    return wait;
}

/* Forward may wait for parameters of a sharded optimizer or for another stage, not only for input,
 * backward for another stage, and norms and moments are no wait. */
static void add_waits(const struct walker *walker, int32_t iteration, struct walk_times *times)
{
    const struct schedule *schedule = walker->walk.schedule;
    double first = gather_wait(walker, iteration, walker->first_forward, walker->previous_end);
    double before = end_of(walker, iteration, walker->first_forward);
    times->input_wait_s -= first;
    times->exposed_communication_s += first;
    for (int32_t id = walker->last_backward + 1; id < walker->optimizer; id++)
        if (lane_of(walker, &schedule->step[id]) == LANE_COMPUTE)
            times->exposed_communication_s -=
                end_of(walker, iteration, id) - begin_of(walker, iteration, id);
    for (int32_t id = walker->first_forward + 1; id < walker->last_backward; id++) {
        if (lane_of(walker, &schedule->step[id]) != LANE_COMPUTE)
            continue;
        times->exposed_communication_s += gather_wait(walker, iteration, id, before);
        before = end_of(walker, iteration, id);
    }
}

static struct walk_times measure(struct walker *walker, int32_t iteration)
{
    struct walk_times times = {.begin = begin_of(walker, iteration, walker->first_forward),
                               .end = end_of(walker, iteration, walker->optimizer)};
    times.exposed_communication_s = begin_of(walker, iteration, walker->optimizer) -
                                    end_of(walker, iteration, walker->last_backward);
    times.input_wait_s = times.begin - walker->previous_end;
    add_waits(walker, iteration, &times);
    walker->previous_end = times.end;
    walker->exposed_comm = times.exposed_communication_s;
    return times;
}

static struct walk_times finish_whole(struct walker *walker, int32_t iteration)
{
    const struct walk *walk = &walker->walk;
    int32_t slot = iteration % walker->depth;
    walk->device_ops->streams->synchronize(walker->last[slot]);
    struct walk_times times = {
        .begin = walk->device_ops->streams->seconds(walker->origin, walker->first[slot]),
        .end = walk->device_ops->streams->seconds(walker->origin, walker->last[slot]),
        .exposed_communication_s = walker->exposed_comm,
    };
    times.input_wait_s = times.begin - walker->previous_end;
    walker->previous_end = times.end;
    return times;
}

struct walk_times walker_finish(struct walker *walker, int32_t iteration, struct trace *trace)
{
    const struct schedule *schedule = walker->walk.schedule;
    if (walker->whole[iteration % walker->depth])
        return finish_whole(walker, iteration);
    /* Wait for the last step first: waiting step by step would wake this thread once per step, on a
     * core that is computing. */
    for (int32_t id = schedule->step_count - 1; id >= 0; id--)
        if (lane_of(walker, &schedule->step[id]) < LANE_COUNT)
            walker->walk.device_ops->streams->synchronize(
                event_of(walker, walker->end, iteration, id));
    double begin = world_now();
    if (trace)
        add_spans(walker, iteration, trace);
    struct walk_times times = measure(walker, iteration);
    times.trace_cost_s = trace ? world_now() - begin : 0;
    return times;
}
