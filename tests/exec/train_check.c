/** @file
 * Really trains and checks what must hold on any number of ranks: the losses are those of one rank
 * with as many micro-batches, a second run gives the same bits, the loss falls, the gradient is the
 * one that finite differences promise, and the trace obeys the schedule.
 *
 * Usage: train_check COLUMNS ROWS [NETWORK], on COLUMNS * ROWS ranks.
 */

#include "exec/cpu/device_naive.h"
#include "exec/cpu/mpi/comm_mpi.h"
#include "exec/input/input.h"
#include "exec/step/walk.h"
#include "tests/exec/train_fixture.h"

enum { GLOBAL = 24, ITERATIONS = 8, TRACED = ITERATIONS - 2, CLASSES = 4 };

static const char *const text =
    "version: 1\n"
    "model: {network: %s, image: %d, classes: 4}\n"
    "cluster: {platform: none, nodes: 1, devices_per_node: 1}\n"
    "training:\n"
    "  dataset: {source: procedural, train_images: 96, validation_images: 10}\n"
    "  phases: [{epochs: 2, global_batch: 24}]\n"
    "  micro_batch: 2\n"
    "  evaluate_every: 2\n"
    "  learning_rate: {base: 0.02}\n"
    "allreduce: {algorithm: torus2d, bucket: 20 kB, overlap: backward}\n";

static void open_fixture(struct fixture *fixture, const char *network, struct grid grid)
{
    AUTOFREE char *job = base_format(text, network, strcmp(network, "toy") ? 32 : 16);
    fixture_open(fixture, job, grid, &device_naive_ops, &comm_mpi_ops);
    fixture->job.traced = ITERATIONS;
}

/* Where the spans of a rank and iteration begin, the spans being sorted by nobody. */
static const struct span **find_spans(const struct schedule *schedule, const struct trace *trace)
{
    int64_t count = (int64_t)TRACED * trace->ranks * schedule->step_count;
    const struct span **found = base_alloc(count, sizeof(struct span *));
    check(trace->span_count == count, "as many spans as steps, iterations and ranks");
    for (int64_t i = 0; i < trace->span_count; i++) {
        const struct span *s = &trace->span[i];
        int64_t at = ((int64_t)s->rank * TRACED + s->iteration) * schedule->step_count + s->step;
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
        const struct span **mine = &found[(int64_t)s->rank * TRACED * steps];
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
    check(trace->iterations == TRACED && trace_step_time(trace) > 0, "all iterations ended");
    check((trace->messages > 0) == (ranks > 1), "messages were counted");
    check_order(schedule, trace);
}

/* Train; the losses of all ranks are the same numbers. */
static void train(const struct train_job *job, double loss[ITERATIONS], bool with_trace)
{
    HELD(err) err = {0};
    HELD(train_result) result = {0};
    check(!train_run(job, &result, &err), err.text ? err.text : "the job runs");
    check(result.steps == ITERATIONS && result.finished, "all steps were done");
    check(result.progress.top1 >= 0, "it was evaluated");
    for (int32_t i = 0; i < ITERATIONS && i < result.steps; i++)
        loss[i] = result.loss[i];
    if (world_self().rank == 0 && with_trace)
        check_trace(job->schedule[0], &result.trace, world_self().ranks);
}

/* All ranks' images pass through one device here, micro-batch by micro-batch, without MPI. */
static void next_images(void *context, float *images, int32_t *label)
{
    input_next(context, images, label);
}

static void open_alone(struct fixture *alone, struct device_state **device, struct input *input)
{
    struct err err = {0};
    struct device_job device_job = {.model = alone->model,
                                    .scenario = &alone->scenario,
                                    .source = {.next = next_images, .context = input},
                                    .batch = GLOBAL,
                                    .micro_batches = GLOBAL / 2,
                                    .slots = walk_depth(alone->schedule[0]),
                                    .ranks = 1,
                                    .threads = 1};
    HELD(layout) layout = layout_build(alone->model);
    HELD(weights) weights = weights_new(&layout, 0);
    layout_initialise(&layout, (uint64_t)alone->scenario.seed, true, weights.parameter,
                      weights.statistics);
    check(!device_naive_ops.open(device, &device_job, &err), "the device runs the network");
    device_naive_ops.write(*device, &weights);
}

/* The losses of one rank with @steps steps at @rate, and the squared norm of the last gradient. */
static void train_alone(const char *network, int32_t steps, double rate, double *loss,
                        double *square)
{
    HELD(fixture) alone = {0};
    struct err err = {0};
    struct device_state *device = NULL;
    open_fixture(&alone, network, (struct grid){.columns = 1, .rows = 1});
    struct dataset_spec spec = {.source = SOURCE_PROCEDURAL,
                                .image = alone.model->image,
                                .classes = CLASSES,
                                .seed = (uint64_t)alone.scenario.seed,
                                .train_images = 96,
                                .validation_images = 10};
    struct dataset *dataset = dataset_open(&spec, SPLIT_TRAIN, &err);
    struct input_job input_job = {.ranks = 1,
                                  .local = GLOBAL,
                                  .threads = 1,
                                  .prefetch = 2,
                                  .seed = (uint64_t)alone.scenario.seed,
                                  .augment = true};
    struct input *input = input_new(dataset, &input_job);
    open_alone(&alone, &device, input);
    struct walk walk = {
        .schedule = alone.schedule[0], .device_ops = &device_naive_ops, .device = device};
    struct walker *walker = walker_new(&walk);
    for (int32_t i = 0; i < steps; i++) {
        struct update update = {.learning_rate = rate, .weight_decay = 5e-5, .loss_scale = 1};
        device_naive_ops.prepare(device, i, &update);
        walker_issue(walker, i, i);
        walker_finish(walker, i, NULL);
        loss[i] = device_naive_ops.outcome(device, i).loss;
        *square = device_naive_ops.outcome(device, i).norm;
        *square *= *square;
    }
    walker_free(walker);
    input_free(input);
    device_naive_ops.close(device);
    dataset_close(dataset);
}

/* Sums are taken in another order, and training amplifies the difference. */
static void check_curves(const double *together, const double *alone, const double *again)
{
    for (int32_t i = 0; i < ITERATIONS; i++) {
        check(together[i] == again[i], "the same seed gives the same bits");
        check(fabs(together[i] - alone[i]) <= (i == 0 ? 1e-6 : 2e-3),
              "the losses are those of one rank");
    }
    check(together[ITERATIONS - 1] < together[0], "the loss falls");
}

static void check_refusal(struct fixture *fixture, const char *network)
{
    HELD(err) err = {0};
    HELD(train_result) result = {0};
    HELD(fixture) larger = {0};
    open_fixture(&larger, network, (struct grid){.columns = 12, .rows = 1});
    struct train_job job = fixture->job;
    job.schedule = (const struct schedule *const *)larger.schedule;
    check(train_run(&job, &result, &err) && err.exit_code == 64,
          "a grid of another size is refused");
}

int main(int argc, char **argv)
{
    double together[ITERATIONS] = {0}, again[ITERATIONS] = {0}, alone[ITERATIONS] = {0}, square;
    world_start(&argc, &argv);
    struct grid grid = {.columns = argc > 1 ? atoi(argv[1]) : 1,
                        .rows = argc > 2 ? atoi(argv[2]) : 1};
    const char *network = argc > 3 ? argv[3] : "toy";
    HELD(fixture) fixture = {0};
    open_fixture(&fixture, network, grid);
    world_heartbeat_start(1000, NULL); /* beside the other threads, as in a real run */
    train(&fixture.job, together, true);
    train(&fixture.job, again, false);
    train_alone(network, ITERATIONS, 0.02, alone, &square);
    check_curves(together, alone, again);
    check_refusal(&fixture, network);
    return ranks_end();
}
