#include "app/cli/command.h"
#include "app/cli/measure_list.h"
#include "app/train/exec_command.h"
#include "app/train/exec_job.h"
#include "core/schedule/iteration.h"
#include "core/schedule/trainable.h"
#include "exec/measure/measure.h"
#include "exec/world/world.h"
#include "models/networks.h"

struct exec_measure_request {
    struct request head;
    struct machine_options machine;
};

/* One network at one batch. */
struct trial {
    const struct measure_network *network;
    int32_t batch;
    struct scenario scenario;
    struct model *model;
    struct schedule *schedule;
    struct measure_result result;
};

/* The device's fusion, as in its platform file. */
static enum fusion fusion_of(const struct machine_options *options)
{
    if (options->compute.device == DEVICE_CUDA)
        return FUSION_STATS; /* sums come with the convolution where a plan has them */
    return options->compute.device == DEVICE_CPU_NAIVE ? FUSION_NONE : FUSION_BN_RELU;
}

static int open_trial(struct trial *trial, const struct machine_options *options, struct err *err)
{
    const char *dtype = dtype_names[options->dtype];
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
                                  .fusion = fusion_of(options),
                                  .grid = {1, 1},
                                  .devices_per_node = 1,
                                  .batch = trial->batch,
                                  .micro_batch = trial->batch};
    trial->schedule = iteration_build(&iteration);
    return 0;
}

static void close_trial(struct trial *trial)
{
    measure_release(&trial->result);
    schedule_free(trial->schedule);
    model_free(trial->model);
    scenario_release(&trial->scenario);
}

static struct json *step_json(const struct step *step, const struct measure_step *measured)
{
    struct json *row = json_new_object();
    bool layer = step->compute.layer >= 0;
    json_put_text(row, "name", step->name);
    json_put_text(row, "op", compute_op_names[step->compute.op]);
    json_put_text(row, "layer",
                  layer_op_names[layer ? (int32_t)step->compute.layer_op : LAYER_OP_COUNT]);
    json_put_text(row, "shape", step->compute.shape);
    json_put_text(row, "dtype", dtype_names[step->compute.dtype]);
    json_put_integer(row, "amount", step->compute.amount);
    json_put_integer(row, "flops", step->compute.flops);
    json_put_integer(row, "bytes", step->compute.bytes);
    json_put_integer(row, "kernels", step->compute.kernels);
    json_put_real(row, "time_s", measured->time_s);
    json_put_real(row, "spread", measured->spread);
    return row;
}

static struct json *trial_json(const struct trial *trial)
{
    struct json *row = json_new_object();
    json_put_text(row, "network", trial->network->name);
    json_put_integer(row, "image", trial->network->image);
    json_put_integer(row, "batch", trial->batch);
    json_put_real(row, "time_s", trial->result.time_s);
    json_put_real(row, "wall_s", trial->result.wall_s);
    json_put_real(row, "spread", trial->result.spread);
    json_put_real(row, "waited", trial->result.waited);
    json_put_real(row, "input_s", trial->result.input_s);
    json_put_real(row, "between_s", trial->result.between_s);
    json_put_integer(row, "iterations", trial->result.iterations);
    struct json *steps = json_put_array(row, "steps");
    for (int32_t id = 0; id < trial->schedule->step_count; id++)
        if (trial->schedule->step[id].kind == STEP_COMPUTE)
            json_append(steps, step_json(&trial->schedule->step[id], &trial->result.step[id]));
    return row;
}

/* Add the time per image of the least number of iterations, with those that warm up, to @least. */
static int run_trial(struct trial *trial, const struct machine_options *options, double seconds,
                     const struct device_ops *ops, struct json *rows, double *least,
                     struct err *err)
{
    int failed = open_trial(trial, options, err);
    if (!failed) {
        struct measure_job job = {.model = trial->model,
                                  .scenario = &trial->scenario,
                                  .schedule = trial->schedule,
                                  .device_ops = ops,
                                  .batch = trial->batch,
                                  .threads = exec_job_threads(&options->compute),
                                  .iterations = options->repeats,
                                  .seconds = seconds};
        failed = measure_run(&job, &trial->result, err);
    }
    if (!failed && rows)
        json_append(rows, trial_json(trial));
    *least += (MEASURE_LEAST + 2) * trial->result.wall_s / trial->batch;
    close_trial(trial);
    return failed;
}

/* Every rank calls this; only rank 0 has @rows. */
static void add_copies(const struct device_ops *ops, struct json *rows)
{
    struct measure_copy copy[MEASURE_COPIES];
    int32_t count = measure_copies(ops, copy);
    for (int32_t i = 0; i < count && rows; i++) {
        struct json *row = json_append_object(rows);
        json_put_integer(row, "bytes", copy[i].bytes);
        json_put_real(row, "time_s", copy[i].time_s);
    }
}

/* Whether a batch whose iterations take @seconds at least would end too late, on any rank. */
static bool is_too_long(const struct machine_options *options, double begin, double seconds)
{
    int64_t late = options->most && world_now() - begin + seconds > 1e-3 * options->most;
    world_max(&late, 1);
    return late;
}

static int run_all(const struct machine_options *options, const struct measure_list *list,
                   struct json *rows, struct json *copies, struct err *err)
{
    const struct device_ops *ops = exec_job_device(options->compute.device, err);
    if (!ops)
        return -1;
    if (ops->rehearses)
        return err_add_code(err, 64, "--device replay computes nothing to measure");
    double seconds = 1e-3 * options->limit / (list->networks * list->batches);
    double begin = world_now(), least = 0; /* of an image, through all networks */
    for (int32_t b = 0; b < list->batches; b++) {
        if (b && is_too_long(options, begin, least * (double)list->batch[b]))
            break;
        least = 0;
        for (int32_t n = 0; n < list->networks; n++) {
            struct trial trial = {.network = &list->network[n], .batch = (int32_t)list->batch[b]};
            if (run_trial(&trial, options, seconds, ops, rows, &least, err))
                return -1;
        }
    }
    add_copies(ops, copies);
    return 0;
}

static int measure(const void *record, struct text *out, struct err *err)
{
    const struct machine_options *options = &((const struct exec_measure_request *)record)->machine;
    AUTORELEASE(measure_list) struct measure_list list = {0};
    int32_t threads = exec_job_threads(&options->compute); /* all ranks agree on it */
    struct json *rows = world_self().rank ? NULL : json_new_array();
    struct json *copies = rows ? json_new_array() : NULL;
    int failed = options->repeats < MEASURE_LEAST
                     ? err_add_code(err, 64, "--repeats: expected at least %d", MEASURE_LEAST)
                     : 0;
    if (!failed)
        failed = measure_list_read(&list, options->networks ? options->networks : "resnet20",
                                   options->batches ? options->batches : "32", err) ||
                 run_all(options, &list, rows, copies, err);
    if (rows) {
        AUTORELEASE(json) struct json *json = json_new_object();
        json_put_text(json, "schema", "foretrain/exec-measure/1");
        json_put_text(json, "device", device_words[options->compute.device]);
        json_put_text(json, "fusion", fusion_names[fusion_of(options)]);
        json_put_integer(json, "threads", threads);
        json_put_integer(json, "ranks", world_self().ranks);
        json_put(json, "trials", rows);
        json_put(json, "copies", copies);
        if (!failed)
            json_print(out, json);
    }
    return failed ? -1 : 0;
}

#define AT(member) offsetof(struct exec_measure_request, member)

static const struct option table[] = {
    ROW_NETWORKS(AT(machine.networks)),
    ROW_BATCHES(AT(machine.batches)),
    ROW_THREADS(AT(machine.compute.threads)),
    ROW_REPEATS(AT(machine.repeats)),
    OPTION_ROW("limit", 0, OPTION_INTEGER, AT(machine.limit), "MS", NULL,
               "Fewer repeats, 4 at least, where they would take "
               "longer together"),
    OPTION_ROW("most", 0, OPTION_INTEGER, AT(machine.most), "MS", NULL,
               "Leave out batches, but not the first, that "
               "would end later"),
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
