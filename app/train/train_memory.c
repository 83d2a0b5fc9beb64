#include "app/train/train_memory.h"

#include <stdio.h>
#include <unistd.h>

#include "app/process/cores.h"
#include "app/process/launch.h"
static const char *const workspace_words[] = {"exact", "at most", "not counted"};

/* --- asking foretrain-exec --- */

enum { ASKED = 2 }; /* batches, for the fixed part and the part per image */

static bool read_answer(int output, int64_t bytes[ASKED])
{
    AUTORELEASE(text) struct text text = launch_read(output);
    AUTORELEASE(err) struct err err = {0};
    AUTORELEASE(json)
    struct json *json =
        text.data ? json_read("foretrain-exec", text.data, text.length, &err) : NULL;
    const struct json *rows = json_get(json, "workspaces");
    bool good = json_count_items(rows) == ASKED;
    for (int64_t i = 0; good && i < ASKED; i++)
        good = json_as_integer(json_get(json_item(rows, i), "bytes"), &bytes[i]);
    return good;
}

static void add_words(struct launch *launch, const struct train_request *request, int32_t threads,
                      int64_t micro)
{
    launch_add(launch, "workspace");
    launch_add(launch, "%s", request->head.argument.item[0]);
    for (int32_t i = 0; i < request->set.count; i++) {
        launch_add(launch, "--set");
        launch_add(launch, "%s", request->set.item[i]);
    }
    launch_add(launch, "--device=%s", device_words[request->compute.device]);
    launch_add(launch, "--threads=%d", threads);
    launch_add(launch, "--batch=%lld,%lld", (long long)micro, 2 * (long long)micro);
}

/* The workspace for @micro images at once, and for twice as many.
 * @return whether there is an answer; else the exit code of foretrain-exec in @code. */
static bool ask(const struct train_request *request, int32_t threads, int64_t micro,
                int64_t bytes[ASKED], int *code)
{
    AUTORELEASE(err) struct err err = {0};
    AUTORELEASE(launch) struct launch launch = {.output = launch_file(&err)};
    *code = -1;
    if (launch.output >= 0 && launch_begin(&launch, 1, &err) == 0) {
        add_words(&launch, request, threads, micro);
        *code = launch_run(&launch, &err);
        if (*code < 0)
            *code = err.exit_code;
    }
    bool good = *code == 0 && read_answer(launch.output, bytes);
    if (launch.output >= 0)
        close(launch.output);
    /* a missing foretrain-exec is reported when the command line is made */
    return good;
}

/* --- counting --- */

/* Ranks of this machine share its cores equally, unless --threads is given. */
static int32_t threads_of(const struct train_request *request, int32_t ranks)
{
    int32_t share = cores_available() / ranks;
    return request->compute.threads > 0 ? request->compute.threads : share > 1 ? share : 1;
}

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
    memory->threads = threads_of(request, ranks);
    if (ask(request, memory->threads, memory->micro, bytes, &code)) {
        memory->workspace = WORKSPACE_EXACT;
        memory->plan.workspace = bytes[0];
        *image = bytes[1] > bytes[0] ? (bytes[1] - bytes[0]) / memory->micro : 0;
    }
    if (code != 69 && code <= 128)
        return 0;
    return err_exit(err, code); /* a run would fail too; or the user stopped it */
}

int train_memory_find(struct train_memory *memory, const struct job *job,
                      const struct train_request *request, int32_t ranks, struct err *err)
{
    const struct device *device = platform_device(job->platform);
    bool platform_gpu = device->compute_capability > 0;
    bool gpu = request->compute.device == DEVICE_REPLAY ? platform_gpu
                                                        : request->compute.device == DEVICE_CUDA;
    struct scenario scenario = job->scenario; /* its texts stay the job's */
    int64_t image = 0;
    if (!gpu &&
        request->compute.device != DEVICE_REPLAY) /* rounds on the way into products and messages */
        scenario.model.compute = scenario.model.gradients = DTYPE_FP32;
    *memory = (struct train_memory){.choice = request->compute.device,
                                    .device = device,
                                    .workspace = WORKSPACE_NOT_COUNTED,
                                    .fits_kind = gpu == platform_gpu};
    find_batch(memory, &job->resolved.plan);
    memory->plan =
        memory_plan(job->model, &scenario, job->resolved.shards, memory->batch, memory->micro);
    if (gpu) {
        memory->workspace = WORKSPACE_AT_MOST;
        memory->plan.workspace = MEMORY_WORKSPACE_LIMIT;
    } else {
        memory->plan.applied = 0;
    }
    if (request->compute.device == DEVICE_CPU && ask_workspace(memory, request, ranks, &image, err))
        return -1;
    memory->largest = -1;
    memory->activations_least = memory->plan.activations - memory->plan.applied;
    memory->total = memory_total(&memory->plan);
    memory->device_name = device->name;
    memory->device_bytes = (int64_t)device->memory.value;
    if (memory->fits_kind)
        memory->largest = memory_largest_batch(job->model, &scenario, job->resolved.shards,
                                               memory->plan.workspace - image * memory->micro,
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

static void print_activations(struct text *out, const struct scale *scale,
                              const struct memory_plan *plan)
{
    char note[96] = "";
    if (plan->applied)
        snprintf(note, sizeof(note), "at most; %.3f %s where convolutions apply batch norm",
                 (double)(plan->activations - plan->applied) / scale->bytes, scale->name);
    print_row(out, scale, "activations", plan->activations, note);
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
    text_add(out, "  %-16s%5lld image%s at once", "largest batch", (long long)memory->largest,
             memory->largest == 1 ? "" : "s");
    if (memory->largest == 0)
        text_add(out, ": the network does not fit\n");
    else if (memory->largest < memory->micro)
        text_add(out, ": %lld do not fit, see training.micro_batch\n", (long long)memory->micro);
    else
        text_add(out, "\n");
}

void train_memory_print(struct text *out, const struct train_memory *memory)
{
    const struct memory_plan *plan = &memory->plan;
    const struct scale *scale = common_scale(plan);
    text_add(out, "memory of one rank, %lld images of which %lld at once\n",
             (long long)memory->batch, (long long)memory->micro);
    print_row(out, scale, "weights", plan->weights, "");
    print_row(out, scale, "gradients", plan->gradients, "");
    print_row(out, scale, "momentum", plan->momentum, "");
    print_activations(out, scale, plan);
    print_row(out, scale, "images", plan->input, "");
    print_workspace(out, scale, memory);
    print_row(out, scale, "together", memory_total(plan), together_note(memory));
    print_device(out, memory);
}

#define DESCRIBED struct dry_run_answer
static const struct answer_column dry_run_rows[] = {
    COLUMN("scenario_sha256", sha256, .help = "of the scenario's text and the overrides"),
    COLUMN("network", network, .help = "network that would be trained"),
    COLUMN("device", device,
           .help = "that each rank would compute on: cpu, cpu-naive, cuda or replay"),
    COLUMN("ranks", ranks, .help = "ranks that would be started"),
    COLUMN("memory.batch", memory.batch, .help = "images of one rank, in the phase that has most"),
    COLUMN("memory.micro_batch", memory.micro,
           .help = "images that pass through the network at once"),
    COLUMN("memory.weights_bytes", memory.plan.weights,
           .help = "masters, and the copy to compute with"),
    COLUMN("memory.gradients_bytes", memory.plan.gradients, .help = "of the weights"),
    COLUMN("memory.momentum_bytes", memory.plan.momentum, .help = "of the optimizer"),
    COLUMN("memory.activations_bytes", memory.plan.activations,
           .help = "at most: values of all layers for backward, and the gradients of two"),
    COLUMN("memory.activations_least_bytes", memory.activations_least,
           .help = "activations_bytes where every batch norm that a GPU's convolutions can apply "
                   "as they read is applied, and so not written; which are, its clock decides"),
    COLUMN("memory.images_bytes", memory.plan.input, .help = "images read ahead and in use"),
    COLUMN("memory.workspace", memory.workspace, .words = workspace_words,
           .help = "what workspace_bytes is: exact (of oneDNN on this machine), at most (of "
                   "convolutions on a GPU; engines that need more are not used) or not counted"),
    COLUMN("memory.workspace_bytes", memory.plan.workspace,
           .help = "of libraries, beside the arrays; 0 when not counted"),
    COLUMN("memory.total_bytes", memory.total, .help = "activations_bytes and all others"),
    COLUMN("platform_device.name", memory.device_name, .help = "device of the job's platform"),
    COLUMN("platform_device.memory_bytes", memory.device_bytes, .help = "memory of this device"),
    COLUMN("platform_device.largest_batch", memory.largest, .negative = true,
           .help = "images at once that fit into it; null where ranks would compute on another "
                   "kind of device"),
    COLUMN_ITEMS("command", command, words, .help = "words of the command that would be run"),
};
const struct answer_columns dry_run_columns = COLUMNS("dry-run/2", dry_run_rows);
