#include "app/cli/command.h"
#include "app/cli/measure_list.h"
#include "app/train/exec_job.h"
#include "app/train/machine.h"
#include "core/schedule/iteration.h"
#include "core/schedule/optimizer.h"
#include "core/schedule/trainable.h"
#include "exec/step/layout.h"
#include "exec/step/walk.h"
#include "exec/world/world.h"
#include "models/networks.h"

/* The time of each step of a real training iteration on a device, alone or while other ranks
 * compute, and of copies of its memory.
 *
 * The iteration runs as in training (exec/step/walk.h), on images of noise, without any exchange.
 * A step begins at the end of the previous one, so that the steps add up to the iteration, but for
 * what is between two iterations.  A result is the median over the faster half of the iterations.
 * If the device supports it (device_ops.busy), it is the CPU time of the computing thread: a
 * process that takes the processor away adds nothing.  Its effect on caches and memory does add,
 * and increases the spread.  Each rank measures its own device; all begin together. */

enum {
    WARM_UP = 2,
    COPIES = 4 /* 16 KiB to 64 MiB: of caches and beyond them */
};

struct exec_measure_request {
    struct request head;
    struct machine_options machine;
};

/* One network at one batch. */
struct trial {
    const struct machine_options *options;
    const struct device_ops *ops;
    double seconds; /* after which STEPS_REPEATS_LEAST iterations are enough; 0: no limit */
    const struct measure_network *network;
    int32_t batch;
    struct scenario scenario;
    struct model *model;
    struct schedule *schedule; /* an iteration of one rank without exchanges */

    struct device_state *device;
    struct walker *walker;
    float *image;    /* (batch, height, width, channels) noise */
    double *busy;    /* (steps, repeats), and what follows; owned */
    double *whole;   /* (repeats) sum of them */
    double *wall;    /* (repeats) */
    double *input;   /* (repeats) */
    double *between; /* (repeats) before them */
    int64_t pixels;

    struct machine_trial *result; /* borrowed */
};

/* The device's fusion, as in its platform file. */
static enum fusion fusion_of(const struct machine_options *options)
{
    if (options->compute.device == DEVICE_CUDA)
        return FUSION_STATS; /* sums come with the convolution where a plan has them */
    return options->compute.device == DEVICE_CPU_NAIVE ? FUSION_NONE : FUSION_BN_RELU;
}

static int open_trial(struct trial *trial, struct err *err)
{
    const char *dtype = dtype_names[trial->options->dtype];
    AUTOFREE char *text = base_format(
        "version: 1\n"
        "model: {%s, precision: "
        "{compute: %s, gradients: fp32}}\n"
        "cluster: {platform: measured, nodes: 1, devices_per_node: 1}\n"
        "training:\n"
        "  dataset: {source: procedural, train_images: %d, "
        "validation_images: 1}\n"
        "  phases: [{epochs: 1, batch_per_device: %d}]\n"
        "  optimizer: {name: %s}\n"
        "  learning_rate: {base: 1e-4}\n",
        trial->network->keys, dtype, trial->batch, trial->batch, trial->network->optimizer);
    int failed = scenario_read_text(&trial->scenario, "measured", text, err);
    if (failed)
        return -1;
    const struct scenario *s = &trial->scenario;
    struct transformer keys = s->model.transformer;
    trial->model = network_open(NULL, s->model.network, trial->network->image,
                                (int32_t)s->model.classes, &keys, err);
    if (!trial->model || model_check_training(trial->model, trial->network->name, err))
        return -1;
    struct iteration iteration = {.model = trial->model,
                                  .scenario = &trial->scenario,
                                  .fusion = fusion_of(trial->options),
                                  .grid = {1, 1},
                                  .devices_per_node = 1,
                                  .batch = trial->batch,
                                  .micro_batch = trial->batch};
    trial->schedule = iteration_build(&iteration);
    return 0;
}

static void close_trial(struct trial *trial)
{
    free(trial->image);
    free(trial->busy);
    schedule_free(trial->schedule);
    model_free(trial->model);
    scenario_release(&trial->scenario);
}

static double spread(double *value, int32_t count)
{
    double middle = base_quantile(value, count, 0.5);
    return middle > 0
               ? (base_quantile(value, count, 0.75) - base_quantile(value, count, 0.25)) / middle
               : 0;
}

/* --- running --- */

static void next_batch(void *context, float *images, int32_t *label)
{
    const struct trial *t = context;
    memcpy(images, t->image, (size_t)t->pixels * sizeof(*images));
    for (int32_t i = 0; i < t->batch; i++)
        label[i] = i % t->model->classes;
}

static void write_weights(const struct trial *t)
{
    AUTORELEASE(layout) struct layout layout = layout_build(t->model);
    layout.squares = optimizer_cost(&t->scenario).state > 1;
    AUTORELEASE(weights) struct weights weights = weights_new(&layout, 0);
    layout_initialise(&layout, 1, false, weights.parameter, weights.statistics);
    t->ops->write(t->device, &weights);
}

static int open_device(struct trial *t, struct err *err)
{
    struct device_job device_job = {
        .model = t->model,
        .scenario = &t->scenario,
        .batch = t->batch,
        .micro_batches = 1,
        .slots = walk_depth(t->schedule),
        .ranks = 1,
        .threads = exec_job_threads(&t->options->compute),
    };
    t->pixels = t->batch * shape_elements(t->model->layer[0].in);
    if (!t->ops->makes_noise) { /* else no image has to come from the host's memory */
        device_job.source = (struct device_source){.next = next_batch, .context = t};
        t->image = base_alloc(t->pixels, sizeof(*t->image));
    }
    for (int64_t i = 0; t->image && i < t->pixels; i++)
        t->image[i] = model_reads_pictures(t->model) ? (float)base_normal(1, 0, (uint64_t)i, 0)
                                                     : (float)(i % t->model->classes);
    return t->ops->open(&t->device, &device_job, err);
}

static void issue(const struct trial *t, int32_t iteration)
{
    struct update update = {.learning_rate = 1e-4, .weight_decay = 1e-4, .loss_scale = 1};
    t->ops->prepare(t->device, iteration, &update);
    walker_issue(t->walker, iteration, iteration + 1);
}

static void note(struct trial *t, int32_t iteration)
{
    const struct schedule *schedule = t->schedule;
    int32_t at = iteration - WARM_UP, count = t->options->repeats;
    AUTORELEASE(trace) struct trace trace = {0};
    struct walk_times times = walker_finish(t->walker, iteration, at >= 0 ? &trace : NULL);
    if (at >= 0)
        t->between[at] = times.input_wait_s; /* images are there at once */
    for (int32_t id = 0; at >= 0 && id < schedule->step_count; id++) {
        if (schedule->step[id].lane != LANE_COMPUTE)
            continue;
        struct walk_step step = walker_step(t->walker, iteration, id);
        t->busy[id * count + at] = step.busy;
        t->whole[at] += step.busy;
        t->wall[at] += step.seconds;
    }
    for (int64_t i = 0; i < trace.span_count; i++)
        if (schedule->step[trace.span[i].step].kind == STEP_INPUT)
            t->input[at] = trace.span[i].end - trace.span[i].begin;
}

static bool any_rank(bool mine)
{
    int64_t any = mine;
    world_max(&any, 1);
    return any;
}

/* As in training, the next iteration is always issued before one ends. */
static void walk(struct trial *t)
{
    int32_t all = WARM_UP + t->options->repeats;
    struct walk walk = {
        .schedule = t->schedule, .device_ops = t->ops, .device = t->device, .single = INT32_MAX};
    t->walker = walker_new(&walk);
    world_barrier();
    double end = base_seconds(CLOCK_MONOTONIC) + t->seconds;
    issue(t, 0);
    for (int32_t i = 0; i < all; i++) {
        if (i + 1 < all)
            issue(t, i + 1);
        bool enough = t->seconds > 0 && i + 2 < all && i + 2 >= WARM_UP + STEPS_REPEATS_LEAST;
        if (enough && any_rank(base_seconds(CLOCK_MONOTONIC) > end)) /* two are on their way */
            all = i + 2;
        note(t, i);
    }
    t->result->iterations = all - WARM_UP;
    walker_free(t->walker);
}

/* --- summing up --- */

static double mean_over_ranks(double value)
{
    world_sum(&value, 1);
    return value / world_self().ranks;
}

static double worst_over_ranks(double value)
{
    int64_t parts = (int64_t)(1e9 * value);
    world_max(&parts, 1);
    return 1e-9 * (double)parts;
}

/* The median of a step's times in the iterations that took no longer than @limit. */
static double quicker_half(const struct trial *t, const double *whole, const double *time,
                           double limit)
{
    int32_t count = 0;
    AUTOFREE double *value = base_alloc(t->result->iterations, sizeof(*value));
    for (int32_t i = 0; i < t->result->iterations; i++)
        if (whole[i] <= limit)
            value[count++] = time[i];
    return base_quantile(value, count, 0.5);
}

static void sum_up(struct trial *t)
{
    struct machine_trial *result = t->result;
    int32_t count = result->iterations, row = t->options->repeats;
    const struct schedule *schedule = t->schedule;
    AUTOFREE double *sorted = base_alloc(count, sizeof(*sorted));
    double busy = 0, wall = 0;
    memcpy(sorted, t->whole, (size_t)count * sizeof(*sorted));
    double limit = base_quantile(sorted, count, 0.5);
    result->step = base_alloc(schedule->step_count, sizeof(*result->step));
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        double *times = t->busy + id * row;
        if (step->lane != LANE_COMPUTE)
            continue;
        bool layer = step->compute.layer >= 0;
        result->step[result->steps++] =
            (struct machine_step){.name = base_copy(step->name),
                                  .op = step->compute.op,
                                  .layer = layer ? (int32_t)step->compute.layer_op : LAYER_OP_COUNT,
                                  .dtype = step->compute.dtype,
                                  .shape = base_copy(step->compute.shape),
                                  .amount = step->compute.amount,
                                  .flops = step->compute.flops,
                                  .bytes = step->compute.bytes,
                                  .kernels = step->compute.kernels,
                                  .time_s = quicker_half(t, t->whole, times, limit),
                                  .spread = spread(times, count)};
        result->time_s += result->step[result->steps - 1].time_s;
    }
    for (int32_t i = 0; i < count; i++) {
        busy += t->whole[i];
        wall += t->wall[i];
    }
    result->time_s = mean_over_ranks(result->time_s);
    result->wall_s = mean_over_ranks(base_quantile(t->wall, count, 0.5));
    result->spread = worst_over_ranks(spread(sorted, count));
    result->waited = worst_over_ranks(wall > busy ? 1 - busy / wall : 0);
    result->input_s = base_quantile(t->input, count, 0.5);
    result->between_s = mean_over_ranks(base_quantile(t->between, count, 0));
}

/* -1 on all ranks: a network or type the device cannot run (exit code 69). */
static int measure_steps(struct trial *t, struct err *err)
{
    int64_t steps = t->schedule->step_count, count = t->options->repeats;
    int64_t failed = open_device(t, err) != 0;
    world_max(&failed, 1);
    failed = failed || err->count;
    if (!failed) {
        t->busy = base_alloc((steps + 4) * count, sizeof(*t->busy));
        t->whole = t->busy + steps * count;
        t->wall = t->whole + count;
        t->input = t->wall + count;
        t->between = t->input + count;
        write_weights(t);
        walk(t);
        sum_up(t);
    }
    t->ops->close(t->device);
    return failed ? -1 : 0;
}

/* --- the answer --- */

/* Add the time per image of the least number of iterations, with those that warm up, to @least. */
static int run_trial(struct trial *trial, struct machine *machine, double *least, struct err *err)
{
    trial->result = &BASE_NEXT(machine->trial, machine->trials);
    *trial->result = (struct machine_trial){.network = base_copy(trial->network->name),
                                            .image = trial->network->image,
                                            .batch = trial->batch};
    int failed = open_trial(trial, err) || measure_steps(trial, err);
    *least += (STEPS_REPEATS_LEAST + 2) * trial->result->wall_s / trial->batch;
    close_trial(trial);
    return failed;
}

/* Every rank calls this, where @ops can time copies. */
static void add_copies(const struct device_ops *ops, struct machine *machine)
{
    machine->copy = base_alloc(COPIES, sizeof(*machine->copy));
    for (; machine->copies < COPIES && ops->measure; machine->copies++) {
        int64_t bytes = (int64_t)16384 << 4 * machine->copies;
        world_barrier();
        machine->copy[machine->copies] =
            (struct machine_copy){bytes, mean_over_ranks(ops->measure->copy(bytes))};
    }
}

static int run_all(const struct machine_options *options, const struct measure_list *list,
                   struct machine *machine, struct err *err)
{
    const struct device_ops *ops = exec_job_device(options->compute.device, err);
    if (!ops)
        return -1;
    if (ops->rehearses)
        return err_usage(err, "--device replay computes nothing to measure");
    double seconds = 1e-3 * options->limit / (list->networks * list->batches);
    double begin = world_now(), least = 0; /* of an image, through all networks */
    for (int32_t b = 0; b < list->batches; b++) {
        double at_least = least * (double)list->batch[b];
        bool late = options->most && world_now() - begin + at_least > 1e-3 * options->most;
        if (b && any_rank(late))
            break;
        least = 0;
        for (int32_t n = 0; n < list->networks; n++) {
            struct trial trial = {.options = options,
                                  .ops = ops,
                                  .seconds = seconds,
                                  .network = &list->network[n],
                                  .batch = (int32_t)list->batch[b]};
            if (run_trial(&trial, machine, &least, err))
                return -1;
        }
    }
    add_copies(ops, machine);
    return 0;
}

static int measure(const void *record, struct text *out, struct err *err)
{
    const struct machine_options *options = &((const struct exec_measure_request *)record)->machine;
    AUTORELEASE(measure_list) struct measure_list list = {0};
    int32_t threads = exec_job_threads(&options->compute); /* all ranks agree on it */
    AUTORELEASE(machine)
    struct machine machine = {.device = options->compute.device,
                              .fusion = fusion_of(options),
                              .threads = threads,
                              .ranks = world_self().ranks};
    int failed = options->repeats < STEPS_REPEATS_LEAST
                     ? err_usage(err, "--repeats: expected at least %d", STEPS_REPEATS_LEAST)
                     : 0;
    if (!failed)
        failed = measure_list_read(&list, options->networks ? options->networks : "resnet20",
                                   options->batches ? options->batches : "32", err) ||
                 run_all(options, &list, &machine, err);
    if (!failed && world_self().rank == 0)
        answer_print(out, &machine_columns, &machine);
    return failed ? -1 : 0;
}

#define AT(member) offsetof(struct exec_measure_request, member)

static const struct option table[] = {
    ROW_NETWORKS(AT(machine.networks)),
    ROW_BATCHES(AT(machine.batches)),
    ROW_THREADS(AT(machine.compute.threads)),
    ROW_REPEATS(AT(machine.repeats)),
    OPTION_ROW("limit", 0, OPTION_INTEGER, AT(machine.limit), "MS", NULL,
               "Fewer repeats, 4 at least, where they would take longer together"),
    OPTION_ROW("most", 0, OPTION_INTEGER, AT(machine.most), "MS", NULL,
               "Leave out batches, but not the first, that would end later"),
    ROW_DEVICE(AT(machine.compute.device)),
    ROW_DTYPE(AT(machine.dtype)),
    ROW_LAST};

static const struct exec_measure_request defaults = {.machine = {.repeats = REQUEST_REPEATS}};

const struct command exec_measure = {
    .name = "measure",
    .synopsis = "[options]",
    .help = "time every step of training iterations and copies of memory, and print one JSON "
            "object; several ranks measure at once",
    .examples = "foretrain-exec measure --networks resnet20,resnet50@64 --batch 8,32 --threads 1",
    RECORD(table, struct exec_measure_request, &defaults),
    .run = measure,
};
