/** @file
 * Really trains the toy network and checks what must hold on any number of ranks: the loss falls,
 * it is the loss of one rank when all ranks see the same data, its first step is the one the
 * gradient promises, and the trace obeys the schedule.
 *
 * Usage: train_check COLUMNS ROWS, on COLUMNS * ROWS ranks.
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/iteration.h"
#include "exec/cpu/device_naive.h"
#include "exec/exec.h"
#include "exec/walk.h"
#include "models/networks.h"

enum { BATCH = 4, ITERATIONS = 12, IMAGE = 12, CLASSES = 10, BUCKET = 20000 };

static bool failed;

static void check(bool holds, const char *what)
{
    if (!holds)
        printf("does not hold: %s\n", what);
    failed |= !holds;
}

static struct schedule *build_schedule(const struct model *model, struct grid grid)
{
    struct scenario scenario = {
        .allreduce = {.algorithm = ALGORITHM_TORUS2D,
                      .bucket = BUCKET,
                      .overlap = OVERLAP_BACKWARD},
        .input = {.prefetch = 2},
    };
    struct iteration iteration = {
        .model = model, .scenario = &scenario, .grid = grid, .devices_per_node = 1, .batch = BATCH};
    return iteration_build(&iteration);
}

static struct exec_job describe(const struct model *model, const struct schedule *schedule)
{
    return (struct exec_job){.model = model,
                             .schedule = schedule,
                             .batch = BATCH,
                             .iterations = ITERATIONS,
                             .seed = 42,
                             .learning_rate = 0.05,
                             .momentum = 0.9,
                             .weight_decay = 1e-4};
}

/* Train this rank alone, without communication. */
static void train_alone(const struct exec_job *job, double *loss, double *gradient_square)
{
    struct err err = {0};
    struct trace trace = {0};
    struct schedule *schedule = build_schedule(job->model, (struct grid){1, 1});
    struct device_job device_job = {.model = job->model,
                                    .batch = job->batch,
                                    .slots = walk_depth(schedule),
                                    .iterations = job->iterations,
                                    .ranks = 1,
                                    .seed = job->seed,
                                    .data_seed = base_hash(job->seed, NULL, 0),
                                    .learning_rate = job->learning_rate,
                                    .momentum = job->momentum,
                                    .weight_decay = job->weight_decay};
    struct walk walk = {
        .schedule = schedule, .iterations = job->iterations, .device_ops = &device_naive_ops};
    check(!walk.device_ops->open(&walk.device, &device_job, &err), "the device runs the toy");
    walk_run(&walk, &trace);
    for (int32_t i = 0; i < job->iterations; i++)
        loss[i] = walk.device_ops->loss(walk.device, i);
    const float *gradient = walk.device_ops->gradients(walk.device);
    *gradient_square = 0;
    for (int64_t i = 0; i < model_parameters(job->model); i++)
        *gradient_square += (double)gradient[i] * (double)gradient[i];
    walk.device_ops->close(walk.device);
    schedule_free(schedule);
    trace_release(&trace);
}

/* Plain descent by a small rate r lowers the loss by r |g|^2, up to the curvature: 1 %. */
static void check_gradient(const struct exec_job *like)
{
    double before[2], after[2], square, ignored;
    struct exec_job job = *like;
    job.learning_rate = 1e-5;
    job.momentum = job.weight_decay = 0;
    job.iterations = 1;
    train_alone(&job, before, &square);
    job.iterations = 2;
    train_alone(&job, after, &ignored);
    double ratio = (after[0] - after[1]) / (job.learning_rate * square);
    check(before[0] == after[0], "the same seed gives the same loss");
    check(fabs(ratio - 1) < 0.01, "the first step lowers the loss as the gradient says");
}

/* Where the spans of a rank and iteration begin, the spans being sorted by nobody. */
static const struct span **find_spans(const struct schedule *schedule, const struct trace *trace)
{
    int64_t count = (int64_t)ITERATIONS * trace->ranks * schedule->step_count;
    const struct span **found = base_alloc(count, sizeof(struct span *));
    check(trace->span_count == count, "as many spans as steps, iterations and ranks");
    for (int64_t i = 0; i < trace->span_count; i++) {
        const struct span *s = &trace->span[i];
        int64_t at =
            ((int64_t)s->rank * ITERATIONS + s->iteration) * schedule->step_count + s->step;
        check(!found[at], "a step runs once per iteration and rank");
        found[at] = s;
    }
    return found;
}

static void check_order(const struct schedule *schedule, const struct trace *trace)
{
    const struct span **found = find_spans(schedule, trace);
    int32_t steps = schedule->step_count;
    for (int64_t i = 0; i < trace->span_count; i++) {
        const struct span *s = &trace->span[i];
        const struct step *step = &schedule->step[s->step];
        const struct span **mine = &found[(int64_t)s->rank * ITERATIONS * steps];
        check(s->begin <= s->end, "a step ends after it begins");
        for (int32_t d = step->dep_begin; d < step->dep_end; d++) {
            int32_t iteration = s->iteration - schedule->dep[d].distance;
            if (iteration >= 0)
                check(mine[iteration * steps + schedule->dep[d].step]->end <= s->begin,
                      "a step begins after its dependencies");
        }
        for (int32_t other = 0; other < s->step; other++)
            if (schedule->step[other].lane == step->lane)
                check(mine[s->iteration * steps + other]->end <= s->begin,
                      "steps of a lane follow each other");
    }
    free(found);
}

static void check_trace(const struct schedule *schedule, const struct trace *trace, int32_t ranks)
{
    check(trace->schedule_hash == schedule_hash(schedule), "the trace names its schedule");
    check(trace->ranks == ranks && trace->entities == ranks, "all ranks were walked");
    check(trace->iterations == ITERATIONS && trace_step_time(trace) > 0, "all iterations ended");
    check((trace->messages > 0) == (ranks > 1), "messages were counted");
    check_order(schedule, trace);
}

static void train_together(struct exec_job job, struct exec_world world, double loss[ITERATIONS],
                           bool with_trace)
{
    struct err err = {0};
    struct trace trace = {0};
    struct exec_result result = {0};
    check(!exec_run(&job, &trace, &result, &err), "the job runs");
    for (int32_t i = 0; world.rank == 0 && i < ITERATIONS; i++)
        loss[i] = result.loss[i];
    if (world.rank == 0 && with_trace)
        check_trace(job.schedule, &trace, world.ranks);
    trace_release(&trace);
    exec_result_release(&result);
}

/* Sums of 2 or 4 equal numbers are exact in fp32, so there the curves must be equal; thirds are
 * rounded, and training amplifies that. */
static void check_training(const struct exec_job *job, struct exec_world world)
{
    double together[ITERATIONS], alone[ITERATIONS], square;
    bool exact = (world.ranks & (world.ranks - 1)) == 0;
    struct exec_job same = *job;
    same.same_data = true;
    train_together(*job, world, together, true);
    if (world.rank == 0)
        check(together[ITERATIONS - 1] < 0.5 * together[0],
              "different data: the loss falls by half");
    train_alone(job, alone, &square);
    if (world.rank == 0 && world.ranks > 1)
        check(together[0] != alone[0], "ranks have different data");
    train_together(same, world, together, false);
    for (int32_t i = 0; world.rank == 0 && i < ITERATIONS; i++)
        check(fabs(together[i] - alone[i]) <= (exact ? 0 : 1e-3),
              "equal data: the loss is that of one rank");
}

static void check_refusals(const struct exec_job *job)
{
    struct err err = {0};
    struct trace trace = {0};
    struct exec_result result = {0};
    struct exec_job wrong = *job;
    struct schedule *larger = build_schedule(job->model, (struct grid){7, 1});
    wrong.schedule = larger;
    check(exec_run(&wrong, &trace, &result, &err) && err.exit_code == 64,
          "a grid of another size is refused");
    err_release(&err);
    wrong.schedule = job->schedule;
    struct model *branched = network_build("resnet18", 32, CLASSES, &err);
    wrong.model = branched;
    check(exec_run(&wrong, &trace, &result, &err) && err.exit_code == 69,
          "a network with branches is refused");
    err_release(&err);
    model_free(branched);
    schedule_free(larger);
}

int main(int argc, char **argv)
{
    struct exec_world world = exec_start(&argc, &argv);
    struct err err = {0};
    struct grid grid = {argc > 1 ? atoi(argv[1]) : 1, argc > 2 ? atoi(argv[2]) : 1};
    struct model *model = network_build("toy", IMAGE, CLASSES, &err);
    struct schedule *schedule = build_schedule(model, grid);
    struct exec_job job = describe(model, schedule);
    check_gradient(&job);
    check_training(&job, world);
    check_refusals(&job);
    schedule_free(schedule);
    model_free(model);
    int32_t first = exec_first_failure(failed);
    exec_stop();
    return first >= 0;
}
