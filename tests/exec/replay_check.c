/** @file
 * The device that rehearses, alone.
 *
 * Usage: replay_check
 *        replay_check unsummed
 *
 * Steps follow each other at the predicted distance although each wakes late, and begin when
 * another stream releases them.  With "unsummed" two ranks' gradients are said to be summed and are
 * not, which ends the job with exit code 70.
 */

#include "exec/cpu/replay.h"
#include "exec/world/world.h"
#include "models/networks.h"

enum { STEPS = 1000 };

static const struct device_ops *const ops = &device_replay_ops;

/* A device of which each step takes 1 ms. */
static struct device_state *open_device(const struct model *model, const struct run *run,
                                        int32_t ranks)
{
    struct device_state *state = NULL;
    struct err err = {0};
    struct device_job job = {
        .model = model, .slots = 2, .ranks = ranks, .run = run, .time_scale = 1};
    if (ops->open(&state, &job, &err))
        abort();
    ops->prepare(state, 0, &(struct update){0});
    return state;
}

static struct step make_step(enum compute_op op)
{
    return (struct step){.kind = STEP_COMPUTE,
                         .lane = LANE_COMPUTE,
                         .compute = {.op = op, .kernels = 1, .dtype = DTYPE_FP32}};
}

/* @return whether the steps after a wait for another stream ended on time: never early, and late by
 * less than the steps' own lateness would add up to. */
static int check_times(struct device_state *state)
{
    struct step step = make_step(COMPUTE_FORWARD), input = {.kind = STEP_INPUT, .lane = LANE_INPUT};
    struct stream *compute = ops->streams->stream_new(), *other = ops->streams->stream_new();
    struct event *origin = ops->streams->event_new(), *released = ops->streams->event_new(),
                 *end = ops->streams->event_new();
    ops->streams->record(compute, origin);
    ops->issue(state, compute, &step, 0);
    ops->streams->wait(compute, released); /* nothing: not recorded yet */
    ops->streams->synchronize(origin);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    ops->issue(state, other, &input, 0);
    ops->streams->record(other, released);
    ops->streams->wait(compute, released);
    for (int32_t i = 0; i < STEPS; i++)
        ops->issue(state, compute, &step, 0);
    ops->streams->record(compute, end);
    ops->streams->synchronize(end);
    double spent = ops->streams->seconds(released, end),
           before = ops->streams->seconds(origin, released);
    double late = ops->outcome(state, 0).late_s, latest = ops->outcome(state, 0).latest_s;
    printf("%d steps of 1 ms took %.3f ms, %.3f ms late on average, %.3f ms at most\n", STEPS,
           1e3 * spent, 1e3 * late, 1e3 * latest);
    ops->streams->stream_free(compute);
    ops->streams->stream_free(other);
    ops->streams->event_free(origin);
    ops->streams->event_free(released);
    ops->streams->event_free(end);
    return before >= 0.05 && spent >= 1e-3 * STEPS && late > 0 &&
                   spent <= 1e-3 * STEPS + latest + 1e-3
               ? 0
               : 1;
}

/* The all-reduce between the two never happens. */
static int check_unsummed(struct device_state *state)
{
    struct step loss = make_step(COMPUTE_LOSS), optimizer = make_step(COMPUTE_OPTIMIZER);
    struct stream *stream = ops->streams->stream_new();
    ops->issue(state, stream, &loss, 0);
    ops->issue(state, stream, &optimizer, 0);
    ops->streams->stream_free(stream);
    return 0;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    struct device device = {.memory_bandwidth.value = 1,
                            .memory_efficiency.value = 1,
                            .math_efficiency.value = 1,
                            .kernel_overhead.value = 1e-3};
    struct run run = {.device = &device, .iterations = 1};
    bool unsummed = argc > 1 && strcmp(argv[1], "unsummed") == 0;
    world_start(&argc, &argv);
    struct model *model = network_build("toy", 16, 10, &err);
    struct device_state *state = open_device(model, &run, unsummed ? 2 : 1);
    int status = unsummed ? check_unsummed(state) : check_times(state);
    ops->close(state);
    model_free(model);
    world_stop();
    return status;
}
