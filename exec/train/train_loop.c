#include "exec/train/train_loop.h"

#include <signal.h>

#include "exec/step/half.h"
#include "exec/step/rate.h"

/* ---- parts ---- */

/* Whether the steps of this phase form the norm of all gradients with other stages and parts. */
static bool loop_has_joint_norms(const struct loop *loop)
{
    const struct schedule *schedule = loop->job->schedule[loop->phase];
    return part_is_split(&loop->part) && schedule_find(schedule, ROLE_NORMS) >= 0;
}

/* Whether there are parameters and momentum beside the device's, which has all between two pauses.
 */
static void keep_weights(struct loop *loop, bool there)
{
    weights_keep(&loop->weights, &loop->layout, there);
    if (part_is_split(&loop->part))
        weights_keep(&loop->own, &loop->part.layout, there);
}

/* Of the whole network what this rank has. */
static void take_part(struct loop *loop)
{
    const struct part *part = &loop->part;
    part_copy(part, false, loop->weights.parameter, loop->own.parameter);
    for (int64_t i = 0; i < 1 + loop->layout.squares; i++)
        part_copy(part, false, loop->weights.momentum + i * loop->layout.parameters,
                  loop->own.momentum + i * part->layout.parameters);
}

/* ---- shards ---- */

/* The ranks that share the optimizer's work in this phase, which are the first replicas; others
 * repeat theirs.  Only if there is a shard. */
static int32_t loop_shards(const struct loop *loop)
{
    const struct schedule *schedule = loop->job->schedule[loop->phase];
    return grid_axis_size(schedule->grid, schedule_sharded(schedule));
}

/* Bytes of all gradients, with padding, and of parameters that are gathered. */
static int64_t loop_exchanged(const struct loop *loop)
{
    const struct scenario *scenario = loop->job->scenario;
    int64_t each = dtype_size((enum dtype)scenario->model.gradients);
    if (loop->shard)
        each += dtype_size((enum dtype)scenario->model.compute);
    return loop->packing.elements * each;
}

/* Whether each rank has its shard of the parameters in fp32, and of others a copy in the type of
 * the arithmetic. */
static bool gathers_copies(const struct loop *loop)
{
    const struct scenario *scenario = loop->job->scenario;
    return loop->shard && scenario->model.compute != scenario->model.master;
}

/* Of the parameters in loop->weights, the same on all ranks: of a shard rounded to the type in
 * which they are gathered. */
static uint64_t loop_hash(const struct loop *loop)
{
    int64_t count = loop->layout.parameters;
    AUTOFREE float *parameter = base_alloc(count, sizeof(*parameter));
    memcpy(parameter, loop->weights.parameter, (size_t)count * sizeof(*parameter));
    if (gathers_copies(loop))
        half_round((enum dtype)loop->job->scenario->model.compute, count, parameter);
    return base_hash(BASE_HASH_SEED, parameter, (size_t)count * sizeof(*parameter));
}

/* Between the order of @flat and the device's. */
static void turn(const struct loop *loop, bool back, float *flat)
{
    int64_t count = loop->layout.parameters;
    if (!loop->job->device_ops->turn)
        return;
    AUTOFREE float *before = base_alloc(count, sizeof(*before));
    memcpy(before, flat, (size_t)count * sizeof(*before));
    loop->job->device_ops->turn(loop->device, back, before, flat);
}

/* Into @whole of rank 0, the part of rank @first: of ranks that have it, @own of one, or of each
 * that has a shard that shard, whose last slice may go on behind the parameters. */
static void collect_part(const struct loop *loop, int32_t first, float *own, float *whole)
{
    const struct train_job *job = loop->job;
    const struct schedule *schedule = job->schedule[loop->phase];
    AUTORELEASE(part)
    struct part part = part_build(&loop->layout, job->split ? job->split : job->model,
                                  job->scenario, schedule, first);
    AUTORELEASE(packing)
    struct packing packing = packing_build(
        schedule, part.stage, (enum dtype)job->scenario->model.gradients, job->comm_ops->alignment);
    int64_t count = part.layout.parameters;
    int32_t shards = loop->shard ? loop_shards(loop) : 1;
    int32_t slices = loop->shard ? packing.buckets : 1;
    struct slice all = {0, count};
    AUTOFREE float *flat = base_alloc(count + packing.elements, sizeof(*flat));
    AUTOFREE float *mine = base_alloc(count + packing.elements, sizeof(*mine));
    int64_t bytes = 0;
    AUTOFREE void *gathered = NULL;
    if (loop->replica < shards &&
        grid_axis_rank(schedule->grid, AXIS_WORLD, loop->world.rank, 0) == first) {
        const struct slice *slice = loop->shard ? loop->shard : &all;
        memcpy(flat, own, (size_t)count * sizeof(*own));
        turn(loop, false, flat);
        slice_pack(slice, slices, flat, mine);
        bytes = slice_elements(slice, slices) * (int64_t)sizeof(*mine);
    }
    const float *next = world_gather(mine, bytes, &gathered) > 0 ? gathered : NULL;
    for (int32_t i = 0; next && i < shards; i++) {
        AUTOFREE struct slice *shard =
            packing_shard(&packing, schedule, grid_axis_rank(schedule->grid, AXIS_WORLD, first, i));
        slice_unpack(shard ? shard : &all, slices, next, flat);
        next += slice_elements(shard ? shard : &all, slices);
    }
    if (next) {
        turn(loop, true, flat);
        part_copy(&part, true, whole, flat);
    }
}

/* All parts of what @own is a part of. */
static void collect(const struct loop *loop, float *own, float *whole)
{
    struct grid grid = loop->job->schedule[loop->phase]->grid;
    for (int32_t rank = 0; rank < loop->world.ranks; rank++)
        if (grid_axis_index(grid, AXIS_WORLD, rank) == 0)
            collect_part(loop, rank, own, whole);
}

void loop_collect(struct loop *loop)
{
    bool split = part_is_split(&loop->part);
    if (!loop->shard && !split)
        return;
    for (int64_t i = 0; i < 1 + loop->layout.squares; i++) {
        float *whole = loop->weights.momentum + i * loop->layout.parameters;
        collect(loop, split ? loop->own.momentum + i * loop->part.layout.parameters : whole, whole);
    }
    if (gathers_copies(loop) && !split) /* else loop_average() has */
        collect(loop, loop->weights.parameter, loop->weights.parameter);
}

/* ---- stragglers ---- */

RELEASE(straggler, it->wait)

/* A rank that holds up the others. */
struct straggling {
    int32_t rank;           /* -1: none */
    double wait_s, seconds; /* that the others waited longer than it, on average, and of how many */
};

static struct straggling find_straggler(const struct straggler *straggler, int32_t ranks)
{
    struct straggling found = {.rank = 0, .seconds = straggler->seconds};
    double sum = 0;
    for (int32_t rank = 0; rank < ranks; rank++) {
        sum += straggler->wait[rank];
        if (straggler->wait[rank] < straggler->wait[found.rank])
            found.rank = rank;
    }
    double own = straggler->wait[found.rank];
    found.wait_s = (sum - own) / (ranks - 1) - own;
    if (found.wait_s < 1 || found.wait_s < straggler->seconds / 5)
        found.rank = -1;
    return found;
}

/* Add that this rank waited for @wait_s for all-reduces in steps of @seconds; on all ranks
 * together. A rank is named when the others have waited for it for a second and for a fifth of the
 * time: our choices.  After ten seconds counting begins anew. */
static struct straggling add_waiting(struct straggler *straggler, double wait_s, double seconds)
{
    struct exec_world world = world_self();
    if (world.ranks == 1)
        return (struct straggling){.rank = -1};
    int32_t count = world.ranks + 1;
    AUTOFREE double *now = base_alloc(count, sizeof(*now));
    now[world.rank] = wait_s;
    now[world.ranks] = seconds / world.ranks;
    world_sum(now, count);
    if (!straggler->wait)
        straggler->wait = base_alloc(world.ranks, sizeof(*straggler->wait));
    for (int32_t rank = 0; rank < world.ranks; rank++)
        straggler->wait[rank] += now[rank];
    straggler->seconds += now[world.ranks];
    struct straggling found = find_straggler(straggler, world.ranks);
    if (found.rank >= 0 || straggler->seconds > 10)
        straggler_release(straggler);
    return found;
}

/* ---- divergence ---- */

#define DIVERGED                                                                                   \
    "training has diverged, and no checkpoint is written; resume an older one, or start again, "   \
    "with a smaller training.learning_rate.base"

/* All ranks find the same; one reports it. */
static bool tells(const struct loop *loop, struct err *err)
{
    err_exit(err, 70);
    return loop->world.rank == 0;
}

int loop_check_divergence(const struct loop *loop, struct err *err)
{
    const struct loss_scale *scale = &loop->scale;
    if (!loop->diverged)
        return 0;
    if (!tells(loop, err))
        return -1;
    if (scale->in_a_row < LOSS_SCALE_SKIP_LIMIT)
        return err_add_code(err, 70,
                            "step %" PRId64 ": the gradients were infinite or NaN, in fp32 and "
                            "with a fixed loss scale (%g): " DIVERGED,
                            loop->diverged, scale->value);
    return err_add_code(err, 70,
                        "step %" PRId64 ": the gradients were infinite or NaN for %d steps in a "
                        "row (loss scale %g): " DIVERGED,
                        loop->diverged, LOSS_SCALE_SKIP_LIMIT, scale->value);
}

static bool are_finite(const float *value, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(value[i]))
            return false;
    return true;
}

int loop_check_finite(const struct loop *loop, struct err *err)
{
    bool split = part_is_split(&loop->part);
    const struct weights *weights = split ? &loop->own : &loop->weights;
    const struct layout *layout = split ? &loop->part.layout : &loop->layout;
    int64_t infinite = !are_finite(weights->parameter, layout->parameters) ||
                       !are_finite(weights->momentum, layout_moments(layout)) ||
                       !are_finite(weights->statistics, layout->statistic_count);
    if (split)
        world_max(&infinite, 1);
    if (!infinite)
        return 0;
    if (!tells(loop, err))
        return -1;
    return err_add_code(err, 70,
                        "step %" PRId64 ": weights, momentum or statistics of batch norm are "
                        "infinite or NaN: " DIVERGED,
                        loop->progress.step);
}

int loop_check_end(const struct loop *loop, struct err *err)
{
    const struct loss_scale *scale = &loop->scale;
    if (scale->in_a_row < 2 || loop->result->interrupted)
        return 0;
    if (!tells(loop, err))
        return -1;
    return err_add_code(err, 70,
                        "the last %" PRId64 " steps were skipped, since their gradients "
                        "overflowed (loss scale now %g): they trained nothing; the weights are "
                        "those of the last good step",
                        scale->in_a_row, scale->value);
}

/* ---- the loop ---- */

static volatile sig_atomic_t asked_to_stop;

static void ask_to_stop(int number)
{
    asked_to_stop = 1;
}

void loop_catch_signals(void)
{
    struct sigaction action = {.sa_handler = ask_to_stop, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGURG, &action, NULL); /* no effect on ranks that are not there yet */
}

static double epoch_of(const struct loop *loop, int64_t position)
{
    return (double)position / (double)loop->job->scenario->training.train_images;
}

static struct rate rate_of(const struct loop *loop, int64_t position)
{
    return rate_at(loop->job->scenario, loop->job->plan, epoch_of(loop, position),
                   loop->counts.global_batch);
}

/* ---- batches ---- */

struct dataset_spec train_dataset_spec(const struct scenario *scenario, const struct model *model)
{
    return (struct dataset_spec){
        .source = (enum dataset_source)scenario->training.data.source,
        .path = scenario->training.data.path,
        .validation_path = scenario->training.data.validation_path,
        .image = (int32_t)scenario->model.image,
        .sequence = model_reads_pictures(model) ? 0 : model->input.width,
        .classes = (int32_t)scenario->model.classes,
        .seed = (uint64_t)scenario->seed,
        .train_images = scenario->training.train_images,
        .validation_images = scenario->training.validation_images,
        .augment = scenario->training.data.augment,
        .strict = scenario->training.data.strict,
    };
}

/* Whether the device crops the pictures of the training data. */
static bool takes_pictures(const struct loop *loop)
{
    return loop->train && loop->job->device_ops->crops && dataset_has_pictures(loop->train);
}

static void open_input(struct loop *loop)
{
    const struct scenario *scenario = loop->job->scenario;
    bool reads = loop->part.stage == 0 || loop->part.stage == loop->part.stages - 1;
    if (!loop->train || !reads)
        return;
    int64_t workers = scenario->input.workers;
    struct input_job job = {
        .rank = loop->replica,
        .ranks = loop->replicas,
        .local = (int32_t)loop->counts.batch_per_device,
        .threads = (int32_t)(workers > 0 ? workers : 1),
        .prefetch = (int32_t)scenario->input.prefetch,
        .seed = (uint64_t)scenario->seed,
        .position = loop->source.position,
        .augment = loop->source.augment,
        .pictures = takes_pictures(loop),
    };
    loop->source.input = input_new(loop->train, &job);
}

static void close_input(struct loop *loop)
{
    if (!loop->source.input)
        return;
    loop->source.replaced += input_report(loop->source.input).replaced;
    input_free(loop->source.input);
    loop->source.input = NULL;
}

/* Whether a batch is augmented follows from its place in the stream, not from the time of the
 * request.  Where that changes, batches read ahead have the old setting. */
static struct input *input_of_next(struct loop *loop)
{
    bool augment = rate_of(loop, loop->source.position).augment;
    if (augment != loop->source.augment) {
        loop->source.augment = augment;
        close_input(loop);
        open_input(loop);
    }
    loop->source.position += loop->counts.global_batch;
    return loop->source.input;
}

static void next_batch(void *context, float *images, int32_t *label)
{
    input_next(input_of_next(context), images, label);
}

static void next_pictures(void *context, uint8_t *pixels, struct crop *crop, int32_t *label)
{
    input_next_pictures(input_of_next(context), pixels, crop, label);
}

static void close_source(struct loop *loop)
{
    close_input(loop);
    loop->result->skipped_images += loop->source.replaced;
    loop->source.replaced = 0;
}

static struct device_source source_of(struct loop *loop)
{
    bool noise = loop->job->device_ops->makes_noise &&
                 loop->job->scenario->training.data.source == SOURCE_SYNTHETIC;
    struct device_source source = {.next = noise ? NULL : next_batch, .context = loop};
    if (takes_pictures(loop)) {
        source.next_pictures = next_pictures;
        source.tint = tint_imagenet;
    }
    return source;
}

/* ---- a phase ---- */

/* The trace starts when the first rank began, by the clock of rank 0: no time is negative. */
static void align_clocks(struct loop *loop)
{
    struct clock_offset offset = clock_compare();
    double error, origin = walker_origin(loop->walker, &error) + offset.seconds;
    int64_t nanoseconds = -(int64_t)(1e9 * origin);
    world_max(&nanoseconds, 1);
    loop->shift = fmax(origin + 1e-9 * (double)nanoseconds, 0);
    loop->result->trace_error_s = error + offset.error;
}

/* The place of the gradients from now on, or no longer. */
static void attach_gradients(struct loop *loop, bool here)
{
    const struct train_job *job = loop->job;
    if (!loop->comm || !job->comm_ops->attach)
        return;
    void *data = here ? job->device_ops->gradients(loop->device) : NULL;
    job->comm_ops->attach(loop->comm, data, here ? loop_exchanged(loop) : 0);
}

/* Weights that two stages use have a bucket of their own where ranks have shards. */
static struct slice find_shared(const struct loop *loop)
{
    const struct part *part = &loop->part;
    const struct schedule *schedule = loop->job->schedule[loop->phase];
    if (part->shared < 0)
        return (struct slice){0};
    struct slice all = {part->layout.layer[part->shared],
                        layer_weights(&part->model->layer[part->shared])};
    return loop->shard
               ? packing_block(all, schedule->grid, schedule_sharded(schedule), loop->world.rank)
               : all;
}

static void take_buckets(struct loop *loop)
{
    const struct train_job *job = loop->job;
    enum dtype payload = (enum dtype)job->scenario->model.gradients;
    assert(job->comm_ops->alignment == 0 || job->device_ops->pads);
    loop->packing = packing_build(job->schedule[loop->phase], loop->part.stage, payload,
                                  job->comm_ops->alignment);
    loop->shard = packing_shard(&loop->packing, job->schedule[loop->phase], loop->world.rank);
    loop->shared = find_shared(loop);
    if (loop->comm && job->comm_ops->allocate)
        loop->gradients = job->comm_ops->allocate(loop->comm, loop_exchanged(loop));
}

static void drop_buckets(struct loop *loop)
{
    if (loop->gradients)
        loop->job->comm_ops->release(loop->comm, loop->gradients);
    loop->gradients = NULL;
    packing_release(&loop->packing);
    free(loop->shard);
    loop->shard = NULL;
}

/* Those of the iterations until @end, which follow from their positions: a step that overflows
 * advances in the stream like all others.  The caller frees them. */
static struct rate *rates_until(const struct loop *loop, int64_t end, int32_t *count)
{
    int64_t begin = loop->progress.position, batch = loop->counts.global_batch;
    int64_t steps = (end - begin + batch - 1) / batch;
    *count = (int32_t)(steps < LOOP_RATES ? steps : LOOP_RATES);
    struct rate *rate = base_alloc(*count, sizeof(*rate));
    for (int32_t i = 0; i < *count; i++)
        rate[i] = rate_of(loop, begin + i * batch);
    return rate;
}

static int open_device(struct loop *loop, int32_t slots, int64_t end, struct err *err)
{
    const struct train_job *job = loop->job;
    int32_t rate_count;
    AUTOFREE struct rate *rate = rates_until(loop, end, &rate_count);
    const struct phase *counts = &loop->counts;
    const struct schedule *schedule = job->schedule[loop->phase];
    struct device_job device_job = {
        .model = loop->part.model,
        .part = &loop->part,
        .shared = loop->shared,
        .flights = part_flights(schedule, loop->part.model->layer_count),
        .joint_norms = loop_has_joint_norms(loop),
        .scenario = job->scenario,
        .source = source_of(loop),
        .batch = (int32_t)counts->batch_per_device,
        .micro_batches = (int32_t)(counts->batch_per_device / counts->micro_batch),
        .slots = slots,
        .ranks = loop->replicas,
        .rank = loop->world.rank,
        .replica = loop->replica,
        .shard = loop->shard,
        .shards = loop->packing.buckets,
        .repeats = loop->shard && loop->replica >= loop_shards(loop),
        .padded = loop->packing.elements,
        .gradients = loop->gradients,
        .updates = loop->progress.step - loop->scale.skipped,
        .attention = job->attention,
        .threads = job->threads,
        .tunes = job->tunes,
        .rate = rate,
        .rate_count = rate_count,
        .run = job->run,
        .time_scale = job->time_scale,
    };
    return job->device_ops->open(&loop->device, &device_job, err);
}

int loop_open_phase(struct loop *loop, int32_t index, int64_t end, struct err *err)
{
    const struct train_job *job = loop->job;
    loop->phase = index;
    loop->counts = job->plan->phase[index];
    int32_t slots = walk_depth(job->schedule[index]);
    loop->in_flight = slots < LOOP_IN_FLIGHT ? slots : LOOP_IN_FLIGHT;
    loop->issued = loop->over = loop->told = 0;
    take_buckets(loop);
    loop->source.position = loop->progress.position;
    loop->source.augment = rate_of(loop, loop->source.position).augment;
    open_input(loop);
    if (open_device(loop, slots, end, err)) {
        close_source(loop);
        drop_buckets(loop);
        return -1;
    }
    attach_gradients(loop, true);
    if (part_is_split(&loop->part))
        take_part(loop);
    job->device_ops->write(loop->device, part_is_split(&loop->part) ? &loop->own : &loop->weights);
    loop_use_statistics(loop, false);
    world_barrier();
    struct walk walk = {.schedule = job->schedule[index],
                        .rank = loop->world.rank,
                        .payload = (enum dtype)job->scenario->model.gradients,
                        .gathered = (enum dtype)job->scenario->model.compute,
                        .device_ops = job->device_ops,
                        .device = loop->device,
                        .comm_ops = job->comm_ops,
                        .comm = loop->comm,
                        .packing = &loop->packing,
                        .shared = loop->shared,
                        .single = 2 + (index == loop->result->traced_phase ? job->traced : 0)};
    loop->walker = walker_new(&walk);
    loop->previous_end = 0;
    if (job->traced && index == loop->result->traced_phase)
        align_clocks(loop);
    return 0;
}

void loop_close_phase(struct loop *loop)
{
    walker_free(loop->walker);
    loop->walker = NULL;
    attach_gradients(loop, false);
    loop->job->device_ops->close(loop->device);
    loop->device = NULL;
    close_source(loop);
    drop_buckets(loop);
}

/* ---- steps ---- */

static struct loop_step *step_of(struct loop *loop, int32_t iteration)
{
    return &loop->step[iteration % LOOP_SYNC_STEPS];
}

static void issue(struct loop *loop)
{
    int64_t ahead = (int64_t)(loop->issued - loop->told) * loop->counts.global_batch;
    struct rate rate = rate_of(loop, loop->progress.position + ahead);
    struct loop_step *step = step_of(loop, loop->issued);
    step->update = (struct update){.learning_rate = rate.learning_rate,
                                   .weight_decay = rate.weight_decay,
                                   .loss_scale = loop->scale.value};
    loop->job->device_ops->prepare(loop->device, loop->issued, &step->update);
    walker_issue(loop->walker, loop->issued, loop->progress.step + 1 + loop->issued - loop->told);
    loop->issued++;
}

static struct walk_times finish_walk(struct loop *loop)
{
    int64_t before = loop->result->steps + loop->over - loop->told;
    if (before < 2 || loop->phase != loop->result->traced_phase ||
        loop->result->trace.iterations >= loop->job->traced)
        return walker_finish(loop->walker, loop->over, NULL);
    struct trace *trace = &loop->result->trace;
    int64_t first = trace->span_count;
    struct walk_times times = walker_finish(loop->walker, loop->over, trace);
    double begin = world_now();
    for (int64_t i = first; i < trace->span_count; i++) {
        trace->span[i].begin += loop->shift;
        trace->span[i].end += loop->shift;
    }
    loop->result->trace_cost_s += times.trace_cost_s + world_now() - begin;
    return times;
}

static void finish(struct loop *loop)
{
    struct loop_step *step = step_of(loop, loop->over);
    step->times = finish_walk(loop);
    step->outcome = loop->job->device_ops->outcome(loop->device, loop->over);
    step->seconds = step->times.end - loop->previous_end;
    loop->previous_end = step->times.end;
    loop->over++;
    if (loss_scale_update(&loop->scale, step->outcome.overflow, loop->job->scenario) &&
        !loop->suspected)
        loop->suspected = loop->progress.step + loop->over - loop->told;
    if (!part_is_split(&loop->part))
        loop->diverged = loop->suspected; /* all ranks find the same */
    world_progress("step");
}

static void tell(struct loop *loop, const struct loop_step *step, double loss)
{
    struct train_result *result = loop->result;
    struct progress *progress = &loop->progress;
    progress->step++;
    progress->position += loop->counts.global_batch;
    progress->epoch = epoch_of(loop, progress->position);
    progress->loss = loss;
    result->loss[result->steps] = loss;
    result->step_s[result->steps] = step->seconds;
    result->loss_first = result->steps == 0 ? loss : result->loss_first;
    result->loss_last = loss;
    result->steps++;
    result->seconds += step->seconds;
    result->input_wait_s += step->times.input_wait_s;
    result->exposed_communication_s += step->times.exposed_communication_s;
    result->late_s += step->outcome.late_s; /* a sum, divided at the end, like the next but one */
    result->latest_s = fmax(result->latest_s, step->outcome.latest_s);
    result->images_per_s += (double)loop->counts.global_batch; /* divided at the end */
    if (!loop->log)
        return;
    struct log_step line = {.step = progress->step,
                            .global_batch = loop->counts.global_batch,
                            .epoch = progress->epoch,
                            .loss = loss,
                            .learning_rate = step->update.learning_rate,
                            .weight_decay = step->update.weight_decay,
                            .loss_scale = step->update.loss_scale,
                            .gradient_norm = step->outcome.norm,
                            .seconds = step->seconds,
                            .input_wait_s = step->times.input_wait_s,
                            .exposed_communication_s = step->times.exposed_communication_s,
                            .skipped = step->outcome.overflow};
    log_step(loop->log, &line);
}

/* Losses of finished steps are averaged over the ranks and reported, and ranks agree whether to
 * stop.  The slowest rank decides the time until the next report: about a quarter of a second.
 * Only the last stage of a pipeline has losses, and ranks that share layers have the same; norms
 * are of the part, unless steps have joined them. */
static void synchronise(struct loop *loop)
{
    double loss[2 * LOOP_SYNC_STEPS], longest = 1e-9, wait = 0, seconds = 0;
    int32_t count = loop->over - loop->told;
    bool joins = part_is_split(&loop->part) && !loop_has_joint_norms(loop);
    for (int32_t i = 0; i < count; i++) {
        const struct loop_step *step = step_of(loop, loop->told + i);
        loss[i] = loop->part.index == 0 ? step->outcome.loss / loop->replicas : 0;
        loss[count + i] = step->outcome.norm * step->outcome.norm / loop->replicas;
        longest = fmax(longest, step->seconds);
        wait += step->times.exposed_communication_s;
        seconds += step->seconds;
    }
    if (loop->world.ranks > 1)
        world_sum(loss, joins ? 2 * count : count);
    for (int32_t i = 0; i < count; i++, loop->told++) {
        struct loop_step *step = step_of(loop, loop->told);
        step->outcome.norm = joins ? sqrt(loss[count + i]) : step->outcome.norm;
        tell(loop, step, loss[i]);
    }
    struct straggling straggling = add_waiting(&loop->straggler, wait, seconds);
    AUTORELEASE(text) struct text who = {0};
    if (loop->log && straggling.rank >= 0) {
        world_describe(&who, straggling.rank);
        log_straggler(loop->log, who.data, straggling.wait_s, straggling.seconds);
    }
    int64_t agreed[] = {asked_to_stop, (int64_t)(1e9 * longest), loop->suspected};
    if (loop->world.ranks > 1)
        world_max(agreed, 3);
    loop->stop = agreed[0] != 0;
    loop->diverged = agreed[2];
    double steps = fmin(0.25e9 / (double)agreed[1], LOOP_SYNC_STEPS - LOOP_IN_FLIGHT);
    loop->sync_steps = steps < 1 ? 1 : (int32_t)steps;
}

static void drain(struct loop *loop)
{
    while (loop->over < loop->issued)
        finish(loop);
    if (loop->told < loop->over)
        synchronise(loop);
    walker_gather(loop->walker, loop->progress.step);
}

void loop_run(struct loop *loop, int64_t steps)
{
    keep_weights(loop, false);
    if (loop->sync_steps == 0)
        loop->sync_steps = 1;
    for (int64_t i = 0; i < steps && !loop->stop && !loop->diverged; i++) {
        if (loop->issued - loop->over == loop->in_flight)
            finish(loop);
        if (loop->over - loop->told >= loop->sync_steps)
            synchronise(loop);
        if (!loop->stop && !loop->diverged)
            issue(loop);
    }
    drain(loop);
}

/* ---- between steps ---- */

/* Whether this rank has other parameters than those that were collected of its part. */
static bool differs(const struct loop *loop)
{
    int64_t count = loop->part.layout.parameters;
    AUTOFREE float *same = base_alloc(count, sizeof(*same));
    part_copy(&loop->part, false, loop->weights.parameter, same);
    enum dtype compute = (enum dtype)loop->job->scenario->model.compute;
    for (int32_t i = 0; i < 2 && gathers_copies(loop); i++)
        half_round(compute, count, i ? same : loop->own.parameter);
    return memcmp(same, loop->own.parameter, (size_t)count * sizeof(*same)) != 0;
}

static int check_replicas(const struct loop *loop, struct err *err)
{
    if (loop->world.ranks == 1)
        return 0;
    uint64_t hash = part_is_split(&loop->part) ? differs(loop) : loop_hash(loop) >> 2;
    int64_t extremes[] = {(int64_t)hash, -(int64_t)hash};
    world_max(extremes, 2);
    if (extremes[0] == -extremes[1])
        return 0;
    return err_add_code(err, 70,
                        "step %lld: the weights of the ranks differ; no checkpoint of them is "
                        "written, the last one is intact",
                        (long long)loop->progress.step);
}

/* The statistics of all ranks on rank 0, and their average on all.  The device keeps its own, so
 * the time and number of these calls do not matter. */
static void average_statistics(struct loop *loop)
{
    int64_t count = loop->layout.statistic_count, bytes = count * (int64_t)sizeof(float);
    AUTOFREE void *all = NULL;
    struct weights own = {.statistics = loop->own_statistics};
    loop->job->device_ops->read(loop->device, &own);
    AUTOFREE double *sum = base_alloc(count, sizeof(*sum));
    for (int64_t i = 0; i < count; i++)
        sum[i] = loop->own_statistics[i];
    world_sum(sum, (int32_t)count);
    for (int64_t i = 0; i < count; i++)
        loop->weights.statistics[i] = (float)(sum[i] / loop->world.ranks);
    if (world_gather(loop->own_statistics, bytes, &all) > 0)
        memcpy(loop->weights.rank_statistics, all, (size_t)(bytes * loop->world.ranks));
}

int loop_average(struct loop *loop, struct err *err)
{
    bool split = part_is_split(&loop->part);
    keep_weights(loop, true);
    loop->job->device_ops->read(loop->device, split ? &loop->own : &loop->weights);
    if (split) {
        collect(loop, loop->own.parameter, loop->weights.parameter);
        world_broadcast(loop->weights.parameter, loop->layout.parameters * (int64_t)sizeof(float),
                        0);
    }
    if (loop->world.ranks > 1 && loop->layout.statistic_count > 0)
        average_statistics(loop);
    loop->progress.loss_scale = loop->scale.value;
    loop->progress.good_steps = loop->scale.good_steps;
    loop->progress.skipped_steps = loop->scale.skipped;
    return check_replicas(loop, err);
}

void loop_use_statistics(struct loop *loop, bool averaged)
{
    struct weights weights = {.statistics =
                                  averaged ? loop->weights.statistics : loop->own_statistics};
    if (loop->world.ranks > 1)
        loop->job->device_ops->write(loop->device, &weights);
}
