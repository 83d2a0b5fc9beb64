#include "exec/train/train.h"

#include <fcntl.h>

#include "core/schedule/optimizer.h"
#include "exec/checkpoint/run_directory.h"
#include "exec/step/graph.h"
#include "exec/train/train_loop.h"

/* ---- what all ranks must agree on ---- */

static int check_ranks(const struct train_job *job, struct err *err)
{
    struct grid grid = job->schedule[0]->grid;
    int32_t ranks = world_self().ranks;
    if (grid_ranks(grid) == ranks)
        return 0;
    return err_usage(err, "the grid of %d x %d needs %d ranks, but %d were started: use -n %d",
                     grid.columns, grid.rows, grid_ranks(grid), ranks, grid_ranks(grid));
}

static int check_transport(const struct train_job *job, struct err *err)
{
    for (int32_t i = 0; job->comm_ops->check && i < job->plan->phase_count; i++)
        if (job->comm_ops->check(job->schedule[i], err))
            return -1;
    return 0;
}

static int check_exchange(const struct loop *loop, struct err *err)
{
    const struct train_job *job = loop->job;
    enum dtype payload = (enum dtype)job->scenario->model.gradients;
    int64_t gradients = loop->part.layout.parameters;
    struct packing packing = packing_build(job->schedule[0], loop->part.stage, payload, 0);
    int64_t exchanged = packing.exchanged;
    packing_release(&packing);
    if (loop->replicas == 1 || exchanged == gradients)
        return 0;
    return err_add_code(err, 69,
                        "the buckets hold %" PRId64 " whole %s numbers, but %s has %" PRId64
                        " gradients: allreduce.bucket must be a multiple of %d bytes",
                        exchanged, dtype_names[payload], job->model->name, gradients,
                        dtype_size(payload));
}

/* ---- opening and closing ---- */

static int open_data(struct loop *loop, struct err *err)
{
    const struct scenario *scenario = loop->job->scenario;
    struct dataset_spec spec = train_dataset_spec(scenario, loop->job->model);
    if (loop->job->device_ops->rehearses)
        return 0;
    loop->train = dataset_open(&spec, SPLIT_TRAIN, err);
    if (loop->train && scenario->training.evaluate_every > 0)
        loop->validation = dataset_open(&spec, SPLIT_VALIDATION, err);
    return err->count ? -1 : 0;
}

static void open_weights(struct loop *loop)
{
    const struct train_job *job = loop->job;
    struct grid grid = job->schedule[0]->grid;
    loop->layout = layout_build(job->model);
    loop->layout.squares = optimizer_cost(job->scenario).state > 1;
    loop->part = part_build(&loop->layout, job->split ? job->split : job->model, job->scenario,
                            job->schedule[0], loop->world.rank);
    loop->replica = grid_axis_index(grid, AXIS_WORLD, loop->world.rank);
    loop->replicas = grid_axis_size(grid, AXIS_WORLD);
    if (part_is_split(&loop->part))
        loop->own = weights_new(&loop->part.layout, 0);
    loop->weights = weights_new(&loop->layout, loop->world.ranks > 1 ? loop->world.ranks : 0);
    loop->own_statistics = base_alloc(loop->layout.statistic_count, sizeof(float));
}

static void start_anew(struct loop *loop)
{
    const struct scenario *scenario = loop->job->scenario;
    if (!loop->job->device_ops->rehearses)
        layout_initialise(&loop->layout, (uint64_t)scenario->seed, true, loop->weights.parameter,
                          loop->weights.statistics);
    memcpy(loop->own_statistics, loop->weights.statistics,
           (size_t)loop->layout.statistic_count * sizeof(float));
    loop->scale = loss_scale_init(scenario);
    loop->progress = (struct progress){.seed = scenario->seed,
                                       .image = (int32_t)scenario->model.image,
                                       .classes = (int32_t)scenario->model.classes,
                                       .top1 = -1,
                                       .top5 = -1};
}

/* As many ranks as wrote it continue with their own statistics, others with the average. */
static int read_resumed(struct loop *loop, struct err *err)
{
    const char *path = loop->job->resume;
    struct weights weights = loop->weights;
    int64_t count = loop->layout.statistic_count;
    if (checkpoint_read_progress(path, &loop->progress, err))
        return -1;
    bool same = loop->progress.ranks == loop->world.ranks && loop->world.ranks > 1;
    weights.rank_statistics =
        same ? base_alloc(loop->world.ranks * count, sizeof(*weights.rank_statistics)) : NULL;
    int failed = checkpoint_read(path, &loop->layout, &loop->progress, &weights, err);
    memcpy(loop->own_statistics,
           same ? weights.rank_statistics + loop->world.rank * count : weights.statistics,
           (size_t)count * sizeof(float));
    free(weights.rank_statistics);
    if (loop->job->scenario->training.loss_scale.dynamic) /* a fixed one is the job's */
        loop->scale.value = loop->progress.loss_scale;
    loop->scale.good_steps = loop->progress.good_steps;
    loop->scale.skipped = loop->progress.skipped_steps;
    return failed;
}

static int open_start(struct loop *loop, struct err *err)
{
    start_anew(loop);
    if (loop->job->resume && read_resumed(loop, err))
        return -1;
    snprintf(loop->progress.run, sizeof(loop->progress.run), "%s",
             loop->job->run_id ? loop->job->run_id : "");
    snprintf(loop->progress.network, sizeof(loop->progress.network), "%s", loop->job->model->name);
    memcpy(loop->progress.scenario_sha256, loop->job->scenario->sha256,
           sizeof(loop->progress.scenario_sha256));
    loop->progress.job = loop->job->values;
    loop->progress.seed = loop->job->scenario->seed;
    loop->progress.ranks = loop->world.ranks;
    return 0;
}

static int64_t total_steps(const struct plan *plan)
{
    int64_t steps = 0;
    for (int32_t i = 0; i < plan->phase_count; i++)
        steps += plan->phase[i].steps;
    return steps;
}

static int open_log(struct loop *loop, struct err *err)
{
    const struct train_job *job = loop->job;
    if (loop->world.rank != 0)
        return 0;
    const char *samples = job->progress ? model_inputs(job->model, 2) : NULL;
    int64_t tokens = model_reads_pictures(job->model) ? 1 : shape_elements(job->model->input);
    if (log_open(&loop->log, job->directory, loop->progress.run, samples, tokens, job->plan,
                 total_steps(job->plan), err))
        return -1;
    log_start(loop->log, loop->progress.step);
    loop->folder = job->directory ? open(job->directory, O_PATH | O_CLOEXEC) : -1;
    return 0;
}

static int open_loop(struct loop *loop, struct err *err)
{
    open_weights(loop);
    int failed = check_ranks(loop->job, err) || check_transport(loop->job, err) ||
                 check_exchange(loop, err) || open_data(loop, err) || open_start(loop, err) ||
                 open_log(loop, err);
    if (world_agree(failed, err))
        return -1;
    if (loop->world.ranks > 1)
        loop->comm = loop->job->comm_ops->open(loop->job->schedule[0]->grid,
                                               (int32_t)loop->job->scenario->allreduce.ctas);
    return 0;
}

static void close_loop(struct loop *loop)
{
    if (loop->comm)
        loop->job->comm_ops->close(loop->comm);
    dataset_close(loop->train);
    dataset_close(loop->validation);
    weights_release(&loop->weights);
    weights_release(&loop->own);
    part_release(&loop->part);
    free(loop->own_statistics);
    straggler_release(&loop->straggler);
    layout_release(&loop->layout);
    if (loop->folder >= 0)
        close(loop->folder);
    free(loop->directory);
}

/* ---- boundaries ---- */

/* The position of the phase in the stream of images. */
static int64_t phase_begin(const struct plan *plan, int32_t index)
{
    int64_t position = 0;
    for (int32_t i = 0; i < index; i++)
        position += plan->phase[i].steps * plan->phase[i].global_batch;
    return position;
}

/* Steps of @loop's phase until the stream has reached @position. */
static int64_t steps_to(const struct loop *loop, double position)
{
    double left = (position - (double)loop->progress.position) / (double)loop->counts.global_batch;
    return (int64_t)ceil(left - 1e-9);
}

/* The number of multiples of @every epochs up to @position. */
static int64_t multiples(const struct loop *loop, double every, int64_t position)
{
    if (every <= 0)
        return 0;
    double epoch = (double)position / (double)loop->job->scenario->training.train_images;
    return (int64_t)floor(epoch / every * (1 + 1e-12));
}

static double cycle_epochs(const struct loop *loop)
{
    return loop->job->plan->epochs / (double)loop->job->scenario->training.learning_rate.cycles;
}

static int64_t steps_to_multiple(const struct loop *loop, double every)
{
    if (every <= 0)
        return INT64_MAX;
    double images = (double)loop->job->scenario->training.train_images;
    double next = (double)(multiples(loop, every, loop->progress.position) + 1);
    return steps_to(loop, next * every * images);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t steps_to_boundary(const struct loop *loop)
{
    const struct scenario *scenario = loop->job->scenario;
    int64_t end = phase_begin(loop->job->plan, loop->phase + 1);
    int64_t steps = steps_to(loop, (double)end);
    if (loop->validation)
        steps = smaller(steps, steps_to_multiple(loop, scenario->training.evaluate_every));
    if (loop->job->directory) {
        steps = smaller(steps, steps_to_multiple(loop, scenario->training.checkpoint.every));
        steps = smaller(steps, steps_to_multiple(loop, cycle_epochs(loop)));
    }
    if (loop->job->steps)
        steps = smaller(steps, loop->job->steps - loop->result->steps);
    return steps;
}

static void evaluate(struct loop *loop)
{
    double begin = world_now();
    int32_t chunk = (int32_t)loop->counts.micro_batch;
    loop_use_statistics(loop, true);
    struct evaluation e =
        part_is_split(&loop->part)
            ? evaluate_whole(loop->job, &loop->weights, loop->validation)
            : evaluate_images(loop->job, loop->device, walker_stream(loop->walker),
                              loop->validation, chunk, NULL);
    loop_use_statistics(loop, false);
    loop->progress.top1 = (double)e.top1 / (double)e.images;
    loop->progress.top5 = (double)e.top5 / (double)e.images;
    loop->result->evaluation_loss = e.loss;
    int64_t images = e.images / target_count(loop->job->model);
    loop->result->skipped_images += dataset_count(loop->validation) - images;
    struct log_evaluation line = {.step = loop->progress.step,
                                  .epoch = loop->progress.epoch,
                                  .loss = e.loss,
                                  .top1 = loop->progress.top1,
                                  .top5 = loop->progress.top5,
                                  .images = images,
                                  .sequences = !model_reads_pictures(loop->job->model),
                                  .seconds = world_now() - begin};
    if (loop->log)
        log_evaluation(loop->log, &line);
}

/* Also where the directory has been moved to; its log files are open and move with it. */
static int write_here(struct loop *loop, const char *name, struct err *err)
{
    char *now = run_directory_follow(loop->folder, loop->directory);
    if (now && strcmp(now, loop->directory) != 0)
        fprintf(stderr, "%s has been moved; this run continues in %s\n", loop->directory, now);
    if (now) {
        free(loop->directory);
        loop->directory = now;
    }
    int32_t keep = (int32_t)loop->job->scenario->training.checkpoint.keep;
    int failed = checkpoint_write(loop->directory, name, keep, &loop->layout, &loop->progress,
                                  &loop->weights, err);
    if (!failed && !now)
        failed = err_add_code(err, 73,
                              "%s was removed during the run: log files and older checkpoints are "
                              "gone, and %s/%s is new",
                              loop->directory, loop->directory, name);
    return failed;
}

static int write_checkpoint(struct loop *loop, const char *name, struct err *err)
{
    struct train_result *result = loop->result;
    double begin = world_now();
    loop_collect(loop);
    int failed = loop->world.rank == 0 ? write_here(loop, name, err) : 0;
    snprintf(result->checkpoint, sizeof(result->checkpoint), "%s/%s", loop->directory, name);
    if (world_agree(failed, err))
        return -1;
    result->checkpoint_s += world_now() - begin;
    result->checkpoints++;
    if (loop->world.rank == 0)
        result->checkpoint_bytes = checkpoint_bytes(result->checkpoint);
    world_progress("checkpoint");
    if (loop->log)
        log_checkpoint(loop->log, result->checkpoint);
    return 0;
}

static int save(struct loop *loop, int64_t before, bool last, struct err *err)
{
    int64_t position = loop->progress.position;
    double every = loop->job->scenario->training.checkpoint.every;
    int64_t cycles = multiples(loop, cycle_epochs(loop), position);
    char name[32];
    if (!loop->job->directory || loop->job->device_ops->rehearses)
        return 0;
    if (cycles > multiples(loop, cycle_epochs(loop), before) &&
        loop->job->scenario->training.learning_rate.cycles > 1) {
        snprintf(name, sizeof(name), "snapshot-%d", (int)cycles);
        if (write_checkpoint(loop, name, err))
            return -1;
    }
    if (!last && multiples(loop, every, position) == multiples(loop, every, before))
        return 0;
    snprintf(name, sizeof(name), "ckpt-%06" PRId64, loop->progress.step);
    return write_checkpoint(loop, name, err);
}

/* All evaluations and checkpoints that are due at this point of the stream. */
static int pause_here(struct loop *loop, int64_t before, bool last, struct err *err)
{
    double every = loop->job->scenario->training.evaluate_every;
    bool due = multiples(loop, every, loop->progress.position) > multiples(loop, every, before);
    if (loop_average(loop, err) || loop_check_finite(loop, err))
        return -1;
    if (loop->validation && (due || (last && loop->result->finished)))
        evaluate(loop);
    return save(loop, before, last, err);
}

/* ---- the run ---- */

static void count_moved(struct loop *loop)
{
    const struct device_ops *ops = loop->job->device_ops;
    if (!ops->moved || loop->result->moved)
        return;
    const struct schedule *schedule = loop->job->schedule[loop->phase];
    int64_t *moved = base_alloc(schedule->step_count, sizeof(*moved));
    for (int32_t i = 0; i < schedule->step_count; i++)
        if (schedule->step[i].kind == STEP_COMPUTE)
            moved[i] = ops->moved(loop->device, &schedule->step[i]);
    loop->result->moved = moved;
    loop->result->moved_count = schedule->step_count;
}

static int run_phase(struct loop *loop, int32_t index, struct err *err)
{
    const struct train_job *job = loop->job;
    int64_t end = phase_begin(job->plan, index + 1);
    bool last = false;
    int failed = 0;
    if (world_agree(loop_open_phase(loop, index, end, err), err))
        return -1;
    count_moved(loop);
    while (!failed && !last && loop->progress.position < end) {
        int64_t before = loop->progress.position;
        loop_run(loop, steps_to_boundary(loop));
        loop->result->finished =
            loop->progress.position >= phase_begin(job->plan, job->plan->phase_count);
        last = loop->result->finished || loop->stop ||
               (job->steps && loop->result->steps >= job->steps);
        failed = loop_check_divergence(loop, err);
        if (!failed)
            failed = pause_here(loop, before, last, err);
    }
    loop->result->interrupted = loop->stop && !loop->result->finished;
    loop_close_phase(loop);
    return failed;
}

static int run_phases(struct loop *loop, struct err *err)
{
    const struct train_job *job = loop->job;
    int32_t index = 0;
    loop->result->finished =
        loop->progress.position >= phase_begin(job->plan, job->plan->phase_count);
    for (; index < job->plan->phase_count; index++) {
        bool done = loop->stop || (job->steps && loop->result->steps >= job->steps);
        if (done || loop->progress.position >= phase_begin(job->plan, index + 1))
            continue;
        if (loop->result->steps == 0)
            loop->result->traced_phase = index;
        if (run_phase(loop, index, err))
            return -1;
    }
    return 0;
}

/* Convert sums over the steps to the results of the header. */
static void conclude(struct loop *loop)
{
    struct train_result *result = loop->result;
    double *longest[] = {&result->input_wait_s, &result->exposed_communication_s,
                         &result->seconds,      &result->late_s,
                         &result->latest_s,     &result->trace_error_s,
                         &result->trace_cost_s};
    int64_t nanoseconds[ARRAY_SIZE(longest)];
    double images = (double)result->skipped_images;
    for (size_t i = 0; i < ARRAY_SIZE(longest); i++)
        nanoseconds[i] = (int64_t)(1e9 * *longest[i]);
    world_max(nanoseconds, ARRAY_SIZE(longest));
    world_sum(&images, 1);
    for (size_t i = 0; i < ARRAY_SIZE(longest); i++)
        *longest[i] = 1e-9 * (double)nanoseconds[i];
    result->skipped_images = (int64_t)images;
    result->late_s /= fmax((double)result->steps, 1);
    result->trace_error_s *= 2; /* of two ranks */
    result->images_per_s = result->seconds > 0 ? result->images_per_s / result->seconds : 0;
    result->progress = loop->progress;
    result->ranks = loop->world.ranks;
}

/* Append the spans of all ranks to the trace of rank 0. */
static void gather_trace(struct loop *loop)
{
    struct trace *mine = &loop->result->trace, all = {0};
    AUTOFREE void *spans = NULL;
    int64_t size = sizeof(struct span);
    if (!loop->job->traced)
        return;
    double messages = loop->comm ? (double)loop->job->comm_ops->messages(loop->comm) : 0;
    world_sum(&messages, 1);
    int64_t bytes = world_gather(mine->span, mine->span_count * size, &spans);
    for (int64_t i = 0; i < bytes / size; i++) {
        struct span span = ((const struct span *)spans)[i];
        trace_add(&all, span);
        trace_finish(&all, span.iteration, span.end);
    }
    trace_release(mine);
    all.messages = (int64_t)messages;
    all.ranks = all.entities = loop->world.ranks;
    all.schedule_hash = schedule_hash(loop->job->schedule[loop->result->traced_phase]);
    snprintf(all.backend, sizeof(all.backend), "exec");
    snprintf(all.grain, sizeof(all.grain), "real");
    *mine = all;
}

int train_run(const struct train_job *job, struct train_result *result, struct err *err)
{
    int64_t steps = total_steps(job->plan);
    struct loop loop = {.job = job,
                        .result = result,
                        .world = world_self(),
                        .folder = -1,
                        .directory = base_copy(job->directory)};
    result->evaluation_loss = -1;
    result->loss = base_alloc(steps + 1, sizeof(*result->loss));
    result->step_s = base_alloc(steps + 1, sizeof(*result->step_s));
    loop_catch_signals();
    int failed = open_loop(&loop, err);
    if (!failed) {
        world_heartbeat_start(job->timeout_s, job->directory ? "the last checkpoint is intact"
                                                             : "there is no checkpoint");
        failed = run_phases(&loop, err) || loop_check_end(&loop, err);
        world_heartbeat_stop();
        gather_trace(&loop);
        conclude(&loop);
    }
    if (loop.log && log_close(loop.log, err))
        failed = -1;
    close_loop(&loop);
    return world_agree(failed, err);
}

void train_result_release(struct train_result *result)
{
    free(result->loss);
    free(result->step_s);
    free(result->moved);
    trace_release(&result->trace);
    *result = (struct train_result){0};
}
