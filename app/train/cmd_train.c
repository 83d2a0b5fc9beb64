#include "app/cli/command.h"
#include "app/job/job.h"
#include "app/process/cores.h"
#include "app/process/launch.h"
#include "app/train/train_answers.h"
#include "app/train/train_request.h"
#include "core/base/claim.h"
#include "core/base/file.h"
#include "core/schedule/memory.h"
#include "core/schedule/optimizer.h"
#include "exec/checkpoint/checkpoint.h"

/* How far the workspace is known. */
enum workspace_kind { WORKSPACE_EXACT, WORKSPACE_AT_MOST, WORKSPACE_NOT_COUNTED };

/* The answer; borrows from the job.  Numbers are bytes unless noted otherwise. */
struct train_memory {
    struct memory_plan plan;
    int64_t batch, micro;          /* samples of a rank in the largest phase, and at once */
    const char *inputs;            /* what they are called */
    int32_t choice;                /* enum device_choice */
    int32_t threads;               /* of the workspace; 0: it does not depend on them */
    enum workspace_kind workspace; /* of plan.workspace */
    const struct device *device;   /* of the job's platform */
    int64_t total;                 /* of the plan */
    const char *device_name;       /* of `device` */
    int64_t device_bytes;          /* its memory */
    bool fits_kind;                /* the ranks compute on a device of this kind: a GPU, or
                                        none */
    int64_t largest;               /* images at once that fit into it; -1 without fits_kind */
};

/* The answer of a dry run.  Everything is borrowed. */
struct dry_run_answer {
    const char *sha256, *network, *device;
    int32_t ranks;
    struct train_memory memory;
    const char *const *command; /* (words) that would be run */
    int32_t words;
};

static const char *const workspace_words[] = {"exact", "at most", "not counted"};

/* --- asking foretrain-exec --- */

enum { ASKED = 2 }; /* batches, for the fixed part and the part per image */

static bool read_answer(const struct launch *launch, int64_t bytes[ASKED])
{
    AUTORELEASE(err) struct err err = {0};
    AUTORELEASE(json) struct json *json = launch_read_json(launch, &err);
    const struct json *rows = json_get(json, "workspaces");
    bool good = json_count_items(rows) == ASKED;
    for (int64_t i = 0; good && i < ASKED; i++)
        good = json_as_integer(json_get(json_item(rows, i), "bytes"), &bytes[i]);
    return good;
}

static void add_words(struct launch *launch, const struct train_request *request, int32_t threads,
                      int64_t micro)
{
    texts_add(&launch->words, "workspace");
    texts_add(&launch->words, "%s", request->head.argument.item[0]);
    for (int32_t i = 0; i < request->set.count; i++) {
        texts_add(&launch->words, "--set");
        texts_add(&launch->words, "%s", request->set.item[i]);
    }
    texts_add(&launch->words, "--device=%s", device_words[request->compute.device]);
    texts_add(&launch->words, "--threads=%d", threads);
    texts_add(&launch->words, "--batch=%lld,%lld", (long long)micro, 2 * (long long)micro);
}

/* The workspace for @micro images at once, and for twice as many.
 * @return whether there is an answer; else the exit code of foretrain-exec in @code. */
static bool ask(const struct train_request *request, int32_t threads, int64_t micro,
                int64_t bytes[ASKED], int *code)
{
    AUTORELEASE(err) struct err err = {0};
    AUTORELEASE(launch) struct launch launch = {0};
    *code = -1;
    if (!launch_keep(&launch, false, &err) && !launch_begin(&launch, 1, &err)) {
        add_words(&launch, request, threads, micro);
        *code = launch_run(&launch, &err);
        if (*code < 0)
            *code = err.exit_code;
    }
    /* a missing foretrain-exec is reported when the command line is made */
    return *code == 0 && read_answer(&launch, bytes);
}

/* --- counting --- */

static void find_batch(struct train_memory *memory, const struct plan *plan)
{
    for (int32_t i = 0; i < plan->phase_count; i++)
        if (memory->batch < plan->phase[i].batch_per_device) {
            memory->batch = plan->phase[i].batch_per_device;
            memory->micro = plan->phase[i].micro_batch;
        }
}

/* @image: workspace of each further image. */
static int ask_workspace(struct train_memory *memory, const struct train_request *request,
                         int32_t ranks, int64_t *image, struct err *err)
{
    int64_t bytes[ASKED];
    int code;
    int32_t share = cores_available() / ranks; /* which ranks of this machine have equally */
    memory->threads = request->compute.threads > 0 ? request->compute.threads
                      : share > 1                  ? share
                                                   : 1;
    if (ask(request, memory->threads, memory->micro, bytes, &code)) {
        memory->workspace = WORKSPACE_EXACT;
        memory->plan.workspace = bytes[0];
        *image = bytes[1] > bytes[0] ? (bytes[1] - bytes[0]) / memory->micro : 0;
    }
    if (code != 69 && code <= 128)
        return 0;
    return err_exit(err, code); /* a run would fail too; or the user stopped it */
}

/* Fill @memory for each of @ranks ranks on this machine.  For oneDNN, foretrain-exec reports the
 * workspace, which is left out where it does not answer; -1: it has reported that no run can be. */
static int train_memory_find(struct train_memory *memory, const struct job *job,
                             const struct train_request *request, int32_t ranks, struct err *err)
{
    const struct device *device = &job->platform->device;
    bool platform_gpu = device->compute_capability > 0;
    bool gpu = request->compute.device == DEVICE_REPLAY ? platform_gpu
                                                        : request->compute.device == DEVICE_CUDA;
    struct scenario scenario = job->scenario; /* its texts stay the job's */
    int64_t image = 0;
    if (!gpu &&
        request->compute.device != DEVICE_REPLAY) /* rounds on the way into products and messages */
        scenario.model.compute = scenario.model.gradients = DTYPE_FP32;
    *memory = (struct train_memory){.choice = request->compute.device,
                                    .inputs = model_inputs(job->model, 0),
                                    .device = device,
                                    .workspace = WORKSPACE_NOT_COUNTED,
                                    .fits_kind = gpu == platform_gpu};
    find_batch(memory, &job->resolved.plan);
    const struct memory_case of = {
        job->part, &scenario, device->merges, job->resolved.shards, memory->batch, memory->micro};
    memory->plan = memory_plan(&of);
    if (scenario.model.compute != job->scenario.model.compute && of.shards > 1) /* masters beside */
        memory->plan.weights += optimizer_shard(job->part, &scenario, of.shards) *
                                dtype_size((enum dtype)scenario.model.master);
    if (gpu) {
        memory->workspace = WORKSPACE_AT_MOST;
        memory->plan.workspace = MEMORY_WORKSPACE_LIMIT;
    }
    if (request->compute.device == DEVICE_CPU && ask_workspace(memory, request, ranks, &image, err))
        return -1;
    memory->largest = -1;
    memory->total = memory_total(&memory->plan);
    memory->device_name = device->name;
    memory->device_bytes = (int64_t)device->memory.value;
    if (memory->fits_kind)
        memory->largest = memory_largest_batch(&of, memory->plan.workspace - image * memory->micro,
                                               image, (int64_t)device->memory.value);
    return 0;
}

/* --- telling --- */

/* Decimal units of bytes. */
static const struct scale {
    const char *name;
    double bytes;
} scales[] = {{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}};

/* The largest unit of which there is one. */
static const struct scale *scale_for(int64_t bytes)
{
    const struct scale *scale = scales;
    while (scale < scales + 3 && (double)bytes >= scale[1].bytes)
        scale++;
    return scale;
}

/* One unit for all rows of the sum: a workspace may be far larger than the arrays, which must stay
 * readable, and all must fit their column. */
static const struct scale *common_scale(const struct memory_plan *plan)
{
    const struct scale *scale = scale_for(memory_total(plan) - plan->workspace);
    while (scale < scales + 3 && (double)plan->workspace >= 1e5 * scale->bytes)
        scale++;
    return scale;
}

static void print_row(struct text *out, const struct scale *scale, const char *what, int64_t bytes,
                      const char *note)
{
    text_add(out, "  %-16s%9.3f %s%s%s\n", what, (double)bytes / scale->bytes, scale->name,
             *note ? "   " : "", note);
}

static void print_workspace(struct text *out, const struct scale *scale,
                            const struct train_memory *memory)
{
    char note[64] = "at most, of convolutions";
    if (memory->workspace == WORKSPACE_NOT_COUNTED) {
        text_add(out, "  %-16s%s\n", "workspace", "  not counted");
        return;
    }
    if (memory->workspace == WORKSPACE_EXACT)
        snprintf(note, sizeof(note), "of oneDNN, %d thread%s", memory->threads,
                 memory->threads == 1 ? "" : "s");
    print_row(out, scale, "workspace", memory->plan.workspace, note);
}

static const char *together_note(const struct train_memory *memory)
{
    if (memory->choice == DEVICE_REPLAY)
        return "on the job's device: a rehearsal takes hardly any";
    if (memory->workspace == WORKSPACE_NOT_COUNTED)
        return "without the workspace";
    return memory->workspace == WORKSPACE_AT_MOST ? "at most" : "";
}

static void print_device(struct text *out, const struct train_memory *memory)
{
    const struct device *device = memory->device;
    AUTOFREE char *note =
        base_format("%s%s", device->name,
                    memory->fits_kind               ? ""
                    : memory->choice == DEVICE_CUDA ? ": the job's platform has no GPU"
                                                    : ": for GPUs see --device cuda");
    int64_t bytes = (int64_t)device->memory.value;
    print_row(out, scale_for(bytes), "device", bytes, note);
    if (!memory->fits_kind)
        return;
    text_add(out, "  %-16s%5lld %.*s at once", "largest batch", (long long)memory->largest,
             (int)strlen(memory->inputs) - (memory->largest == 1), memory->inputs);
    if (memory->largest == 0)
        text_add(out, ": the network does not fit\n");
    else if (memory->largest < memory->micro)
        text_add(out, ": %lld do not fit, see training.micro_batch\n", (long long)memory->micro);
    else
        text_add(out, "\n");
}

/* Append a table for people. */
static void train_memory_print(struct text *out, const struct train_memory *memory)
{
    const struct memory_plan *plan = &memory->plan;
    const struct scale *scale = common_scale(plan);
    text_add(out, "memory of one rank, %lld %s of which %lld at once\n", (long long)memory->batch,
             memory->inputs, (long long)memory->micro);
    print_row(out, scale, "weights", plan->weights, "");
    print_row(out, scale, "gradients", plan->gradients, "");
    print_row(out, scale, "momentum", plan->momentum, "");
    print_row(out, scale, "activations", plan->activations, "");
    print_row(out, scale, memory->inputs, plan->input, "");
    print_workspace(out, scale, memory);
    print_row(out, scale, "together", memory_total(plan), together_note(memory));
    print_device(out, memory);
}

COLUMNS(dry_run_columns, "dry-run/3", struct dry_run_answer)
{
    COLUMN("scenario_sha256", sha256, .help = "of the scenario's text and the overrides");
    COLUMN("network", network, .help = "network that would be trained");
    COLUMN("device", device, .help = "that ranks would compute on: cpu, cpu-naive, cuda or replay");
    COLUMN("ranks", ranks, .help = "ranks that would be started");
    COLUMN("memory.batch", memory.batch, .help = "samples of one rank, in the phase that has most");
    COLUMN("memory.micro_batch", memory.micro, .help = "samples that pass the network at once");
    COLUMN("memory.weights_bytes", memory.plan.weights, .help = "masters, and the copy in use");
    COLUMN("memory.gradients_bytes", memory.plan.gradients, .help = "of the weights");
    COLUMN("memory.momentum_bytes", memory.plan.momentum, .help = "of the optimizer");
    COLUMN("memory.activations_bytes", memory.plan.activations,
           .help = "at most: values of all layers for backward, and the gradients of two");
    COLUMN("memory.images_bytes", memory.plan.input, .help = "samples read ahead and in use");
    COLUMN("memory.workspace", memory.workspace, .words = workspace_words,
           .help = "what workspace_bytes is: exact (of oneDNN on this machine), at most (of "
                   "convolutions on a GPU; engines that need more are not used) or not counted");
    COLUMN("memory.workspace_bytes", memory.plan.workspace,
           .help = "of libraries, beside the arrays; 0 when not counted");
    COLUMN("memory.total_bytes", memory.total, .help = "activations_bytes and all others");
    COLUMN("platform_device.name", memory.device_name, .help = "device of the job's platform");
    COLUMN("platform_device.memory_bytes", memory.device_bytes, .help = "memory of this device");
    COLUMN("platform_device.largest_batch", memory.largest, .negative = true,
           .help = "images at once that fit into it; null where ranks would compute on another "
                   "kind of device");
    COLUMN_ITEMS("command", command, words, .help = "words of the command that would be run");
}

/* The child gets the user's words, but for the options that it does not have. */
static void add_options(struct launch *launch, const struct texts *given)
{
    static const char *const own[] = {"--ranks=", "--dry-run"};
    for (int32_t i = 0; i < given->count; i++) {
        bool passed = true;
        for (size_t k = 0; k < ARRAY_SIZE(own); k++)
            passed = passed && strncmp(given->item[i], own[k], strlen(own[k])) != 0;
        if (passed)
            texts_add(&launch->words, "%s", given->item[i]);
    }
}

/* Check the job here first: one message, before any rank is started. */
static int check(const struct train_request *request, struct job *job, struct dry_run_answer *dry,
                 struct err *err)
{
    struct wish wish = {0};
    const struct texts *set = &request->set;
    if (request->compute.started) /* all on this machine */
        wish = wish_for_ranks(request->compute.started, request->compute.started);
    wish.real = true;
    if (train_request_check(request, err) ||
        job_read(job, NULL, request->head.argument.item[0], set->item, set->count, NULL, err))
        return -1;
    const char *images = job->scenario.training.data.path;
    const char *more = job->scenario.training.data.validation_path;
    int failed = (images && claim_input_all(images, err)) || (more && claim_input_all(more, err)) ||
                 job_resolve(job, &wish, err);
    *dry = (struct dry_run_answer){.sha256 = job->scenario.sha256,
                                   .network = job->model->name,
                                   .device = device_words[request->compute.device],
                                   .ranks = grid_ranks(job->resolved.cluster.grid)};
    if (!failed && !request->compute.started && dry->ranks > REQUEST_RANKS_MOST)
        failed = err_usage(err,
                           "%s is for %d devices: give the number of ranks to start here with -n "
                           "N, or start foretrain-exec with your cluster's mpirun or srun",
                           job->scenario.path, dry->ranks);
    if (!failed && strcmp(device_words[request->compute.device], "cuda") != 0)
        failed = job_check_mpi(job, err);
    if (!failed && request->compute.device != DEVICE_REPLAY)
        failed = job_check_device(job, request->compute.device == DEVICE_CUDA, err);
    struct schedule **schedule = failed ? NULL : job_training(job, err);
    failed = failed || !schedule;
    if (!failed && request->dry_run)
        failed = train_memory_find(&dry->memory, job, request, dry->ranks, err);
    training_free(job, schedule);
    return failed ? -1 : 0;
}

/* mpirun and the ranks have reported the failure; add how to continue. */
static void advise(const struct train_request *request, int code)
{
    AUTORELEASE(text) struct text line = {0}, notes = {0};
    bool own = code == 0 || (code >= 64 && code <= 75);
    AUTOFREE char *last =
        own || !request->directory ? NULL : checkpoint_latest(request->directory, NULL, &notes);
    text_add(&line, "foretrain train ");
    text_add_word(&line, request->head.argument.item[0]);
    if (last) {
        text_add(&line, " ... --out ");
        text_add_word(&line, request->directory);
        text_add(&line, " --resume ");
        text_add_word(&line, request->directory);
        fprintf(stderr,
                "training ended with exit code %d; continue from the last checkpoint with: %s\n",
                code, line.data);
    }
}

/* What would be run, and if @dry the memory that it takes. */
static void tell(struct text *out, bool json, struct dry_run_answer *dry,
                 const struct launch *launch)
{
    if (dry && json) {
        dry->command = (const char *const *)launch->words.item;
        dry->words = launch->words.count;
        answer_print(out, &dry_run_columns, dry);
        return;
    }
    AUTOFREE char *line = launch_line(launch);
    if (dry)
        train_memory_print(out, &dry->memory);
    text_add(out, "%s\n", line);
}

enum { STOPPED = 75 /* exit code of a run with a checkpoint */ };

/* mpirun does not report that its output is lost, so the answer is kept, and printed here. */
static int run_ranks(struct launch *launch, struct text *out, struct err *err)
{
    AUTOFREE char *line = launch_line(launch);
    if (launch_keep(launch, false, err))
        return -1;
    fprintf(stderr, "%s\n", line);
    int code = launch_run(launch, err);
    AUTORELEASE(text) struct text answer = launch_read(launch->output);
    text_append(out, answer.data, answer.length);
    return code;
}

/* @dry: what a dry run prints beside the line, or NULL. */
static int start(const struct train_request *request, const char *command, int32_t ranks,
                 struct text *out, struct dry_run_answer *dry, struct err *err)
{
    AUTORELEASE(launch) struct launch launch = {.saves = strcmp(command, "train") == 0};
    if (launch_begin(&launch, ranks, err))
        return -1;
    texts_add(&launch.words, "%s", command);
    for (int32_t i = 0; i < request->head.argument.count; i++)
        texts_add(&launch.words, "%s", request->head.argument.item[i]);
    add_options(&launch, &request->head.given);
    int code = 0;
    if (request->dry_run) {
        tell(out, request->head.json, dry, &launch);
    } else {
        code = run_ranks(&launch, out, err);
        advise(request, code < 0 ? err->exit_code : code);
    }
    return code > 0 ? err_exit(err, code) : code;
}

static int train(const void *record, struct text *out, struct err *err)
{
    const struct train_request *request = record;
    AUTORELEASE(job) struct job job = {0};
    struct dry_run_answer dry = {0};
    int failed =
        check(request, &job, &dry, err) || start(request, "train", dry.ranks, out, &dry, err);
    return failed ? -1 : 0;
}

static int evaluate(const void *record, struct text *out, struct err *err)
{
    const struct train_request *request = record;
    return start(request, "evaluate", request->compute.started ? request->compute.started : 1, out,
                 NULL, err);
}

#define ROW_DRY_RUN                                                                                \
    OPTION_ROW("dry-run", 0, OPTION_FLAG, TRAIN_AT(dry_run),                                       \
               .help = "Print what would be run, and the memory it takes")

static const struct option train_options[] = {ROW_STARTED(TRAIN_AT(compute.started)), ROWS_TRAIN,
                                              ROW_DRY_RUN, ROW_LAST};

const struct command command_train = {
    .name = "train",
    .heading = "run",
    .synopsis = "JOB [options]",
    .help = "train for real on this machine: the same schedule that predict simulates",
    .examples = "foretrain train experiments/03_learning/procedural.yaml -n 2\n"
                "foretrain train job.yaml -n 4 --out run1\n"
                "foretrain train job.yaml -n 4 --out run1 --resume run1",
    RECORD(train_options, struct train_request, &train_defaults),
    TAKES(1, 1),
    .jobs = true,
    ANSWERS(&training_columns, &dry_run_columns),
    .run = train,
};

static const struct option evaluate_options[] = {ROW_STARTED(TRAIN_AT(compute.started)),
                                                 ROWS_EVALUATE, ROW_DRY_RUN, ROW_LAST};

const struct command command_evaluate = {
    .name = "evaluate",
    .synopsis = "PATH... [options]",
    .help = "top-1 and top-5 of checkpoints, or of the newest of runs",
    .examples = "foretrain evaluate run1\n"
                "foretrain evaluate run1/ckpt-000400 run2\n"
                "foretrain evaluate --ensemble run1/snapshot-1 run1/snapshot-2 run1/snapshot-3",
    RECORD(evaluate_options, struct train_request, &train_defaults),
    TAKES(1, 1000),
    ANSWERS(&evaluation_columns),
    .run = evaluate,
};
