#include "app/cli/command.h"
#include "app/cli/measure_list.h"
#include "app/job/job.h"
#include "app/new/new.h"
#include "core/base/file.h"
#include "core/config/field_write.h"
#include "core/convergence/convergence.h"
#include "core/platform/platform.h"
#include "core/platform/software.h"
#include "core/scenario/scenario.h"
#include "core/schedule/model.h"
#include "models/networks.h"

/* Those of enum dtype, and what only products are computed in. */
static const char *const peak_names[] = {"fp32", "fp16", "bf16", "fp8", "fp4", NULL};
enum { PEAK_COUNT = ARRAY_SIZE(peak_names) - 1 };
static_assert(PEAK_COUNT == DTYPE_COUNT + 2, "a name each");

/* What the data sheet says. */
struct sheet {
    const struct new_request *request;
    double peak[PEAK_COUNT]; /* [FLOP/s]; 0: not given */
    double memory, bandwidth;
    struct new_inside inside;
    int32_t capability;
    struct text *out;
};

/* "bf16=2250T": the unit may be left out. */
static int read_peak(struct sheet *sheet, const char *given, struct err *err)
{
    AUTOFREE char *text = base_copy(given);
    char *number = strchr(text, '=');
    if (number)
        *number++ = '\0';
    int32_t dtype = base_find_word(text, peak_names);
    if (dtype >= 0 && sheet->peak[dtype] > 0)
        return err_usage(err, "--peak: %s is given twice, again as '%s'", text, given);
    AUTOFREE char *whole =
        number ? base_format("%s%s", number, strchr(number, '/') ? "" : "FLOP/s") : NULL;
    AUTORELEASE(err) struct err found = {0};
    if (dtype < 0 || !whole || unit_parse(UNIT_FLOPS, whole, &sheet->peak[dtype], &found) ||
        sheet->peak[dtype] < 1)
        return err_usage(err,
                         "--peak: expected fp32, fp16, bf16, fp8 or fp4 with its FLOP/s without "
                         "sparsity, as in bf16=2250T, got '%s'",
                         given);
    return 0;
}

/* "180GB@8TB/s". */
static int read_memory(struct sheet *sheet, struct err *err)
{
    AUTOFREE char *text = base_copy(sheet->request->memory);
    char *rate = text ? strchr(text, '@') : NULL;
    if (rate)
        *rate++ = '\0';
    AUTORELEASE(err) struct err found = {0};
    if (!rate || unit_parse(UNIT_BYTES, text, &sheet->memory, &found) ||
        unit_parse(UNIT_BYTES_PER_SECOND, rate, &sheet->bandwidth, &found) || sheet->memory < 1 ||
        sheet->bandwidth < 1)
        return err_usage(
            err, "a device needs --memory with its size and bandwidth, as in 180GB@8TB/s%s%s",
            text ? ", got " : "", text ? sheet->request->memory : "");
    return 0;
}

static int read_sheet(struct sheet *sheet, struct err *err)
{
    const struct new_request *request = sheet->request;
    for (int32_t i = 0; i < request->peak.count; i++)
        if (read_peak(sheet, request->peak.item[i], err))
            return -1;
    if (sheet->peak[DTYPE_FP32] + sheet->peak[DTYPE_FP16] + sheet->peak[DTYPE_BF16] == 0)
        return err_usage(err, "a device needs --peak of 16 or 32 bits, as in: foretrain new device "
                              "b200 --peak bf16=2250T --memory 180GB@8TB/s --nvlink 900GB/s");
    AUTOFREE char *nvlink = request->nvlink ? base_format("nvlink:%s", request->nvlink) : NULL;
    const char *inside = nvlink ? nvlink : request->inside;
    return read_memory(sheet, err) || (inside && new_read_inside(&sheet->inside, inside, err)) ? -1
                                                                                               : 0;
}

static void add_number(const struct sheet *sheet, int32_t indent, const char *key, enum unit unit,
                       double value)
{
    field_write_quantity(sheet->out, indent, key, PROVENANCE_DATASHEET, 0,
                         "given to foretrain new: its data sheet", "%s", unit_text(unit, value));
}

/* A sheet that has one of the types of 16 bits has the same for the other; of fp32 a GPU with
 * matrix units has about a sixteenth, as an A100 and an H100. */
static void add_peaks(const struct sheet *sheet)
{
    const double *peak = sheet->peak;
    double half = peak[DTYPE_BF16] > 0 ? peak[DTYPE_BF16] : peak[DTYPE_FP16];
    text_add(sheet->out, "peak:    # without sparsity\n");
    if (peak[DTYPE_FP32] > 0)
        add_number(sheet, 2, "fp32", UNIT_FLOPS, peak[DTYPE_FP32]);
    else
        field_write_quantity(sheet->out, 2, "fp32", PROVENANCE_ASSUMED, 0,
                             "a sixteenth of 16 bits, as of A100 and H100; --peak fp32 was not "
                             "given",
                             "%s", unit_text(UNIT_FLOPS, half / 16));
    if (peak[DTYPE_FP16] > 0)
        add_number(sheet, 2, "fp16", UNIT_FLOPS, peak[DTYPE_FP16]);
    else if (half > 0 && sheet->capability)
        field_write_quantity(sheet->out, 2, "fp16", PROVENANCE_ASSUMED, 0,
                             "as bf16, as on all of NVIDIA's; --peak fp16 was not given", "%s",
                             unit_text(UNIT_FLOPS, half));
    for (int32_t i = DTYPE_BF16; i < PEAK_COUNT; i++)
        if (peak[i] > 0)
            add_number(sheet, 2, peak_names[i], UNIT_FLOPS, peak[i]);
}

/* NVIDIA's of the generation whose links are as fast. */
static int32_t find_capability(const struct sheet *sheet)
{
    double links =
        sheet->inside.links == LINKS_NVLINK && !sheet->inside.mesh ? sheet->inside.bandwidth : 0;
    return sheet->request->capability ? sheet->request->capability
           : links >= 900e9           ? 100
           : links >= 450e9           ? 90
           : links >= 300e9           ? 80
           : links > 0                ? 70
                                      : 0;
}

static void add_links(const struct sheet *sheet)
{
    const struct new_request *request = sheet->request;
    const struct new_inside *inside = &sheet->inside;
    int64_t pcie = request->pcie ? request->pcie : inside->pcie;
    if (sheet->capability)
        text_add(sheet->out, "compute_capability: %d%s\n", sheet->capability,
                 request->capability ? "" : "    # assumed: by the rate of NVLink");
    else
        text_add(sheet->out,
                 "# compute_capability: 120    # of a device with CUDA: 10 * major + minor; "
                 "without it no NCCL and no software profile\n");
    if (pcie)
        text_add(sheet->out, "pcie: %lld\n", (long long)pcie);
    else
        text_add(sheet->out, "# pcie: 5    # generation of its slot of 16 lanes\n");
    if (inside->links == LINKS_NONE)
        return;
    text_add(sheet->out, "links:    # one way; data sheets of NVLink count both\n  kind: %s\n%s",
             device_links_names[inside->links], inside->mesh ? "  mesh: true\n" : "");
    add_number(sheet, 2, "bandwidth", UNIT_BYTES_PER_SECOND, inside->bandwidth);
}

/* Append a device with the numbers of its data sheet. */
static int new_device(const struct new_request *request, struct text *out, struct err *err)
{
    struct sheet sheet = {.request = request, .out = out};
    if (read_sheet(&sheet, err))
        return -1;
    const char *name = request->head.argument.item[0];
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (name[strspn(name, letters)])
        return err_usage(err,
                         "'%s' is no name for a device: expected letters, digits, '.', '_' and "
                         "'-', as in b200-sxm-180gb",
                         name);
    sheet.capability = find_capability(&sheet);
    text_add(out, "# Written by foretrain new device from the numbers of a data sheet; man 5 "
                  "foretrain-platform has all keys.\n");
    field_write_line(out, 0, "name", name);
    AUTOFREE char *description = base_format("%s, from its data sheet", name);
    field_write_line(out, 0, "description", description);
    text_add(out, "\n");
    add_peaks(&sheet);
    add_number(&sheet, 0, "memory_bandwidth", UNIT_BYTES_PER_SECOND, sheet.bandwidth);
    add_number(&sheet, 0, "memory", UNIT_BYTES, sheet.memory);
    add_links(&sheet);
    text_add(out,
             "\n# No data sheet has these: they are as of the devices with runs, with a wide "
             "interval, or as of\n# cluster.software.  'foretrain import trace' and 'calibrate' "
             "measure them.\n"
             "# math_efficiency: 69 %%\n# memory_efficiency: 69 %%\n# kernel_overhead: 7.1 us\n"
             "# fusion: %s    # none, bn-relu, stats, mainloop or ideal\n",
             sheet.capability >= 90 ? "mainloop" : "stats");
    return 0;
}

/* That of mixed precision; bf16 of text, and where units for matrices make it worth while. */
static enum dtype type_for(const struct device *device, bool text)
{
    const struct quantity *peak = device->peak;
    bool half = peak[DTYPE_FP16].value > 0;
    bool brain = peak[DTYPE_BF16].value > 3 * peak[DTYPE_FP32].value;
    return brain && (text || !half) ? DTYPE_BF16 : half ? DTYPE_FP16 : DTYPE_FP32;
}

/* How devices share a language model that does not fit one of them. */
struct share {
    int32_t sharding, tensor, expert, pipeline;
    int32_t columns; /* of a torus, over which it is sharded; 0: as they are */
    enum recompute recompute;
};

static void add_share(struct text *out, const struct share *share)
{
    text_add(out, "# The first mesh that fits%s; foretrain plan searches all.\n",
             share->expert > 1 ? ": experts in a node, then stages, then experts over nodes" : "");
    text_add(out, "parallel: {sharding: %d, recompute: %s", share->sharding,
             recompute_names[share->recompute]);
    if (share->tensor > 1)
        text_add(out, ", tensor: %d, sequence: true", share->tensor);
    if (share->expert > 1)
        text_add(out, ", expert: %d%s", share->expert,
                 share->tensor > 1 ? ", expert_tensor: 1" : "");
    if (share->pipeline > 1)
        text_add(out, ", pipeline: %d", share->pipeline);
    text_add(out, "}\n");
}

static void add_model(struct text *out, const struct new_request *request,
                      const struct measure_network *network, const struct model *model,
                      enum dtype compute, enum dtype gradients)
{
    bool file = network_is_file(network->name); /* says its own size */
    AUTOFREE char *name = file ? new_reference(request, network->name) : base_copy(network->name);
    text_add(out, "model:\n  network: ");
    field_write_text(out, name);
    text_add(out, "    # foretrain list networks\n");
    if (!model_reads_pictures(model) && !file)
        text_add(out, "  sequence: %lld\n", (long long)shape_elements(model->input));
    else if (network->image && !file)
        text_add(out, "  image: %d\n", network->image);
    if (network->image && network->image <= 32 && !file)
        text_add(out, "  classes: %d\n", network->classes);
    text_add(out, "  precision: {compute: %s, gradients: %s}\n", dtype_names[compute],
             dtype_names[gradients]);
}

static const char round_prefix[] = "mlperf-";

static bool is_round(const char *software)
{
    return software && !strncmp(software, round_prefix, strlen(round_prefix));
}

/* The recipe of @network that ended at the accuracy @text, that of @software's round or the first,
 * or NULL with a message. */
static const char *find_recipe(const char *text, const char *network, const char *software,
                               struct err *err)
{
    if (strcmp(network, "resnet50")) {
        err_usage(err,
                  "--target %s: published runs are of resnet50, not %s; give the epochs of yours, "
                  "or its points (training.recipe.points)",
                  text, network);
        return NULL;
    }
    AUTORELEASE(err) struct err why = {0};
    double target = 0;
    if (unit_parse(UNIT_FRACTION, text, &target, &why)) {
        err_usage(err, "--target: %s", err_reason(&why));
        return NULL;
    }
    const char *recipe = NULL;
    for (const struct convergence_row *row = convergence_rows; row->recipe; row++)
        if (fabs(row->target - target) < 1e-9 &&
            (!recipe ||
             (is_round(software) && !strcmp(software + strlen(round_prefix), row->recipe))))
            recipe = row->recipe;
    if (recipe)
        return recipe;
    if (target > 1) {
        err_usage(err, "--target %s: an accuracy is at most 100 %%; did you mean '%s%%'?", text,
                  text);
        return NULL;
    }
    err_usage(err,
              "--target %s: no published runs ended there; foretrain show convergence lists those "
              "there are, and training.recipe.points takes points of your own",
              text);
    return NULL;
}

/* What a GPU may run that is not tuned as MLPerf's submissions are; and language models, where
 * their attention is in one kernel, from A100 on. */
static const char any_software[] = "pytorch", text_software[] = "pytorch-flash",
                  mesh_software[] = "megatron-core";

/* Goyal et al., arXiv 1706.02677: 90 epochs of SGD with warm-up reached 76.3 % with 8192 images a
 * step, and (recalled) as much with 256. */
static const struct {
    double accuracy;
    int64_t least, most;
    int epochs;
} sgd = {0.763, 256, 8192, 90};

/* Whether the epochs are those of SGD: no software of MLPerf, whose runs had LARS, may be there,
 * and SGD reached the target with such a batch. */
static bool takes_sgd(const struct new_request *request, const struct software *software,
                      int64_t global_batch)
{
    AUTORELEASE(err) struct err ignored = {0};
    double target = 1;
    return !(software && is_round(software->name)) &&
           !unit_parse(UNIT_FRACTION, request->target, &target, &ignored) &&
           target <= sgd.accuracy && global_batch <= sgd.most;
}

static void add_recipe(struct text *out, const struct new_request *request,
                       const struct software *software, const char *recipe, int64_t global_batch)
{
    text_add(out, "  target: ");
    field_write_text(out, request->target);
    struct convergence curve = convergence_of(recipe);
    bool outside = convergence_is_outside(&curve, global_batch);
    if (takes_sgd(request, software, global_batch)) {
        text_add(out,
                 "\n  # SGD as in arXiv 1706.02677, which ended at 76.3 %%; fewer with LARS:\n"
                 "  # {recipe: %s, optimizer: {name: lars}}\n"
                 "  recipe: {points: [{batch: %lld, epochs: %d}, {batch: %lld, epochs: %d}]}\n",
                 recipe, (long long)sgd.least, sgd.epochs, (long long)sgd.most, sgd.epochs);
        outside = global_batch < sgd.least;
    } else
        text_add(out, "\n  recipe: %s    # epochs of its runs; foretrain show convergence\n%s",
                 recipe,
                 convergence_is_lars(recipe)
                     ? "  optimizer: {name: lars}    # as in those runs; SGD took 90 epochs\n"
                     : "");
    if (outside)
        text_add(out, "  extrapolate: true    # no run of the recipe had %lld images a step\n",
                 (long long)global_batch);
}

static bool is_text(const struct measure_network *network)
{
    return network_is_transformer(network->name) && !network->image;
}

/* What text is trained with; pictures learn with SGD, which needs no word. */
static void add_optimizer(struct text *out, const char *network)
{
    bool bert = !strncmp(network, "bert-", 5) && !strstr(network, "squad");
    text_add(out, "  optimizer: {name: %s, clip: 1}    # as usual for such a network%s\n",
             bert ? "lamb" : "adamw",
             bert ? ": arXiv 1904.00962; with small batches adamw" : "; lamb, adafactor, ...");
}

/* How long a text model is trained. */
static void add_tokens(struct text *out, const struct new_request *request,
                       const struct measure_network *network, const struct model *model, bool parts)
{
    text_add(out,
             "training:\n  phases:    # 20 tokens a parameter: yours to decide\n"
             "    - {tokens: %.4g, batch_per_device: %d%s}\n",
             20 * (double)model_parameters(model), request->batch, parts ? ", micro_batch: 1" : "");
    add_optimizer(out, network->name);
}

static void add_training(struct text *out, const struct new_request *request,
                         const struct measure_network *network, const struct software *software,
                         const char *recipe, int64_t global_batch)
{
    text_add(out, network->image > 32 ? "training:\n  dataset: imagenet\n"
                  : network->image    ? "training:\n  dataset: {train_images: 50000, "
                                        "validation_images: 10000}    # CIFAR-10\n"
                                      : "training:\n  dataset: {train_images: 1000000}    # an "
                                        "example\n");
    if (recipe)
        add_recipe(out, request, software, recipe, global_batch);
    text_add(out, network->image ? "  evaluate_every: 4 epochs\n  phases:" : "  phases:");
    if (recipe)
        text_add(out, "\n    - {batch_per_device: %d}\n", request->batch);
    else
        text_add(out,
                 "    # epochs are yours to decide: a larger global batch needs more of them\n"
                 "    - {epochs: 90, batch_per_device: %d}\n",
                 request->batch);
}

/* Layers and stages are shared by Megatron Core as often as by PyTorch's own means. */
static void add_cluster(struct text *out, const struct new_request *request,
                        const struct software *software, const struct share *share)
{
    bool mesh = share && (share->tensor > 1 || share->expert > 1 || share->pipeline > 1);
    AUTOFREE char *platform = new_reference(request, request->platform);
    text_add(out, "cluster:\n  platform: ");
    field_write_text(out, platform);
    text_add(out, "\n  nodes: %d\n", request->nodes);
    if (request->shared)
        text_add(out, "  placement: {one_of: [contiguous, scattered]}    # which nodes it gets\n");
    if (!software)
        return;
    text_add(out, "  software: ");
    if (request->software) {
        AUTOFREE char *name = new_reference(request, request->software);
        field_write_text(out, name);
    } else if (software->nccl && strcmp(software->name, any_software) &&
               strcmp(software->name, text_software))
        text_add(out, "{one_of: [%s, %s]}", software->name, any_software);
    else if (mesh && !strcmp(software->name, text_software))
        text_add(out, "{one_of: [%s, %s]}", software->name, mesh_software);
    else
        text_add(out, "%s", software->name);
    text_add(out, "    # how fast kernels are; foretrain list software\n");
}

/* @bytes 0: parts of them; @largest: of one tensor; @cards: a ring alone would leave cards of a
 * node idle. */
static void add_exchange(struct text *out, const char *algorithm, const struct software *software,
                         int64_t bytes, int64_t largest, bool cards)
{
    int64_t usual = (cards ? 25 : 16) << 20;
    text_add(out, "allreduce:\n  algorithm: %s    # foretrain list algorithms\n", algorithm);
    if (!software) {
        text_add(out, "%s  bucket: ", cards ? "  channels: all    # a ring by each device\n" : "");
        if (largest > usual)
            text_add(out, "%lld B    # of the largest gradient: PyTorch cuts none\n",
                     (long long)largest);
        else
            text_add(out, cards ? "25 MiB    # as of PyTorch\n" : "16 MiB\n");
        text_add(out, "  overlap: backward\n");
        return;
    }
    if (software->groups > 1 && bytes)
        text_add(out, "  bucket: %lld B\n", (long long)(bytes / software->groups + 1));
    text_add(out, "  overlap: %s    # under %s, which makes %lld all-reduce%s a step\n",
             software->overlap == OVERLAP_NONE ? "none" : "backward", software->name,
             (long long)software->groups, base_plural(software->groups));
}

/* What a draft is made of. */
struct wanted {
    const struct new_request *request;
    const struct platform *platform;
    const struct measure_network *network;
    const struct model *model;
    const struct software *software; /* NULL: none */
};

static int add_job(const struct wanted *wanted, const struct share *share, struct text *out,
                   struct err *err)
{
    const struct new_request *request = wanted->request;
    const struct platform *platform = wanted->platform;
    const struct measure_network *network = wanted->network;
    const struct model *model = wanted->model;
    const struct software *software = wanted->software;
    int32_t devices = platform_devices_per_node(platform);
    struct grid grid = platform_grid(platform, request->nodes * devices);
    const char *recipe = request->target
                             ? find_recipe(request->target, network->name, request->software, err)
                             : NULL;
    if (request->shared && !platform->tiers.count)
        return err_usage(err, "--shared has no effect: no nodes of %s share uplinks",
                         platform->name);
    if (platform_check_extent(platform, request->nodes, devices, grid, err) ||
        (request->target && !recipe))
        return -1;
    bool text = is_text(network);
    enum dtype compute = type_for(&platform->device, text);
    enum dtype gradients =
        software && compute != DTYPE_FP32 ? (enum dtype)software->gradients : compute;
    AUTORELEASE(err) struct err lacking = {0};
    bool nccl = !platform_check_nccl(platform, &lacking);
    const char *algorithm = nccl ? "nccl" : platform->nodes ? "ring" : "torus2d";
    text_add(out,
             "# A training job, written by foretrain new job; man 5 foretrain-scenario has all "
             "keys.\nversion: 1\n");
    add_model(out, request, network, model, compute, gradients);
    if (share)
        add_share(out, share);
    add_cluster(out, request, software, share);
    if (!software && platform->device.links.kind == LINKS_XGMI)
        text_add(out,
                 "  # No software is fitted to this device: kernels are as its file says, and no "
                 "host limits their launches.\n");
    if (text)
        add_tokens(out, request, network, model, share);
    else
        add_training(out, request, network, software, recipe,
                     (int64_t)request->batch * request->nodes * devices);
    if (software && network->image > 32 && software_startup(software, request->nodes) > 0)
        text_add(out,
                 "  startup: %.3g s    # beyond steps and evaluations; assumed as on one node, the "
                 "first reading of the images shared by the nodes\n",
                 software_startup(software, request->nodes));
    enum device_links links = (enum device_links)platform->device.links.kind;
    int64_t largest = 0;
    for (int32_t i = 0; i < model->tensor_count; i++)
        if (model->tensor[i].elements > largest)
            largest = model->tensor[i].elements;
    add_exchange(out, algorithm, software && software->nccl ? software : NULL,
                 share ? 0 : model_parameters(model) * dtype_size(gradients),
                 largest * dtype_size(gradients),
                 !nccl && !share && request->nodes > 1 &&
                     (links == LINKS_XGMI || links == LINKS_ROCE || links == LINKS_NEURON));
    if (share && share->columns > 1)
        text_add(out, "  grid: {columns: %d, rows: %d}    # a row shares the weights\n",
                 share->columns, request->nodes / share->columns);
    if (network->image > 32)
        text_add(out,
                 "# input: {workers: 16, rate: 130 images/s}    # of each device: example values; "
                 "without input, images are always ready\n");
    return 0;
}

/* That of the request, else the newest of MLPerf, whose network is a ResNet, else what any GPU may
 * run.
 * @return 0, with *@software NULL for other devices, or -1. */
static int find_software(const struct new_request *request, const struct platform *platform,
                         const struct measure_network *network, struct software **software,
                         struct err *err)
{
    const struct device *device = &platform->device;
    bool residual = !strncmp(network->name, "resnet", 6) && !network_is_file(network->name);
    AUTOFREE char *name = request->software ? base_copy(request->software)
                          : residual        ? platform_newest_software(device->name)
                                            : NULL;
    if (!name && device_is_measured(device))
        return 0;
    if (!name && device->compute_capability)
        name = base_copy(!is_text(network) || device->compute_capability < 80 ? any_software
                         : strncmp(network->name, "bert-", 5)                 ? text_software
                                                                              : "pytorch-mlperf");
    else if (!name && is_text(network))
        name = base_copy(device_text_software(device));
    *software = name ? software_read(NULL, name, err) : NULL;
    return name && (!*software || software_check_device(*software, device, err)) ? -1 : 0;
}

/* A draft under the name that it will have. */
struct draft {
    const char *name;
    struct text text;
};

static char *read_draft(void *context, const char *name, size_t *length)
{
    const struct draft *draft = context;
    *length = (size_t)draft->text.length;
    return strcmp(name, draft->name) == 0 ? base_copy(draft->text.data) : NULL;
}

/* 0 if @text is a job, whose memory its devices have; @err NULL: no matter why not. */
static int check_draft(const struct new_request *request, struct text text, struct err *err)
{
    AUTORELEASE(job) struct job job = {0};
    AUTORELEASE(err) struct err ignored = {0};
    struct draft draft = {request->to ? request->to : "./draft.yaml", text};
    struct files files = {.read = read_draft, .context = &draft};
    struct wish wish = {.repeat = true, .ignore_memory = !err};
    int failed =
        job_open(&job, &files, draft.name, NULL, 0, &draw_centre, &wish, err ? err : &ignored);
    return failed || job.resolved.plan.phase[0].micro_batch > job.resolved.most_images ? -1 : 0;
}

/* Append the job with @share if it fits: with all values kept before some computed again. */
static int add_fitting(const struct wanted *wanted, struct share share, struct text *out)
{
    static const enum recompute order[] = {RECOMPUTE_FULL, RECOMPUTE_NONE, RECOMPUTE_SELECTIVE};
    AUTORELEASE(text) struct text best = {0};
    for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
        AUTORELEASE(text) struct text draft = {0};
        AUTORELEASE(err) struct err ignored = {0};
        share.recompute = order[i];
        bool fits = !add_job(wanted, &share, &draft, &ignored) &&
                    !check_draft(wanted->request, draft, NULL);
        if (!fits && i == 0)
            return -1;
        if (!fits)
            continue;
        text_release(&best);
        text_append(&best, draft.data, draft.length);
        if (i > 0)
            break;
    }
    text_append(out, best.data, best.length);
    return 0;
}

/* Append the job with the first mesh that fits: few devices with a batch together before many, all
 * values kept before some computed again, and the optimizer sharded before the weights too.
 * Devices of a node share experts, if there are any, in place of layers, and more of them where
 * stages alone do not help; layers, too, where nothing else fits.  Source: Megatron-LM,
 * core/transformer/moe/README.md (recalled): experts rather than tensors in parallel, both inside
 * of NVLink's reach, and pipelines beyond. */
static int add_shared(const struct wanted *wanted, struct text *out)
{
    int32_t each = platform_devices_per_node(wanted->platform);
    int32_t all = each * wanted->request->nodes;
    bool torus = !wanted->platform->nodes, own = model_has_experts(wanted->model) && !torus;
    int32_t most = torus ? 1 : each & -each;
    /* layers whole, then shared, with the optimizer sharded; the same with all sharded */
    for (int32_t turn = own ? 0 : 1; turn < 4; turn += own ? 1 : 2)
        for (int32_t parts = turn > 1 && own ? most : 1; parts <= all; parts *= 2) {
            int32_t inside = parts < most ? parts : most;
            for (int32_t some = inside; some <= (own ? parts : inside); some *= 2) {
                struct share share = {.sharding = turn < 2 ? 1 : 3,
                                      .tensor = turn % 2 ? inside : 1,
                                      .expert = own ? some : 1,
                                      .pipeline = torus ? 1 : parts / some,
                                      .columns = torus ? parts : 0};
                if (!add_fitting(wanted, share, out))
                    return 0;
            }
        }
    return -1;
}

/* Append the job; of a language model that fits no device alone with a mesh. */
static int add_any(const struct wanted *wanted, struct text *out, struct err *err)
{
    AUTORELEASE(text) struct text draft = {0};
    if (add_job(wanted, NULL, &draft, err))
        return -1;
    if (is_text(wanted->network) && check_draft(wanted->request, draft, NULL) &&
        !add_shared(wanted, out))
        return 0;
    text_append(out, draft.data, draft.length);
    return check_draft(wanted->request, draft, err);
}

/* Append a job, which exchanges gradients and starts as its software does. */
static int new_job(const struct new_request *request, struct text *out, struct err *err)
{
    if (!request->platform || request->nodes < 1 || request->batch < 1)
        return err_usage(err, "a job needs --platform NAME and --nodes N, as in: foretrain new job "
                              "--platform dgx-h100 --nodes 16");
    AUTORELEASE(measure_list) struct measure_list list = {0};
    AUTORELEASE(platform) struct platform *platform = NULL;
    int failed = measure_list_read(&list, request->network, NULL, err);
    if (!failed)
        platform = platform_read_for(request->platform, request->nodes, err);
    struct software *software = NULL;
    const struct measure_network *network = list.network;
    failed = failed || !platform || find_software(request, platform, network, &software, err);
    struct model *model =
        failed ? NULL
               : network_open(NULL, network->name, network->image, network->classes, NULL, err);
    struct wanted wanted = {request, platform, network, model, software};
    failed = !model || add_any(&wanted, out, err);
    model_free(model);
    software_free(software);
    return failed ? -1 : 0;
}

char *new_name(const struct new_request *request)
{
    if (!request->to)
        return base_copy("mine");
    const char *slash = strrchr(request->to, '/'), *name = slash ? slash + 1 : request->to;
    const char *dot = strrchr(name, '.');
    return base_format("%.*s", (int)(dot && dot > name ? (size_t)(dot - name) : strlen(name)),
                       name);
}

char *new_reference(const struct new_request *request, const char *name)
{
    bool elsewhere = request->to && strchr(request->to, '/');
    char *whole = elsewhere && strpbrk(name, "/.") ? realpath(name, NULL) : NULL;
    return whole ? whole : base_copy(name);
}

static int deliver(const struct new_request *request, struct text *text, const char *next,
                   int (*check)(const char *path, struct err *err), struct text *out,
                   struct err *err)
{
    if (!request->to) {
        text_append(out, text->data, text->length);
        return 0;
    }
    if (!request->overwrite && access(request->to, F_OK) == 0)
        return err_add_code(err, 73, "%s exists already; --overwrite replaces it", request->to);
    if (file_write(request->to, text, check, err))
        return -1;
    text_add(out, "written: %s\nnext: foretrain %s %s\n", request->to, next, request->to);
    return 0;
}

/* What each kind of draft is made and checked by, and what to do next. */
#define RUN(kind, check, next)                                                                     \
    static int run_##kind(const void *record, struct text *out, struct err *err)                   \
    {                                                                                              \
        AUTORELEASE(text) struct text text = {0};                                                  \
        int failed =                                                                               \
            new_##kind(record, &text, err) || deliver(record, &text, next, check, out, err);       \
        return failed ? -1 : 0;                                                                    \
    }
RUN(device, device_check_file, "show device")
RUN(platform, platform_check_file, "show platform")
RUN(job, NULL, "predict")

#define AT(member) offsetof(struct new_request, member)
#define ROW_TO                                                                                     \
    OPTION_ROW("to", 0, OPTION_OUTPUT, AT(to), "FILE.yaml", NULL,                                  \
               "The file to write (default: standard output)")
#define ROW_OVERWRITE                                                                              \
    OPTION_ROW("overwrite", 0, OPTION_FLAG, AT(overwrite),                                         \
               .help = "Replace the file if it exists", .needs = "to")
#define ROW_COUNT                                                                                  \
    OPTION_ROW("nodes", 'n', OPTION_INTEGER, AT(nodes), "N", NULL, "How many there are")

#define ROW_INSIDE(missing)                                                                        \
    OPTION_ROW("inside", 0, OPTION_TEXT, AT(inside), "KIND:RATE", NULL,                            \
               "What joins the devices of a node, one way: nvlink:900GB/s, xgmi:64GB/s@mesh, "     \
               "pcie5" missing)

static const struct option device_options[] = {
    OPTION_ROW(
        "peak", 0, OPTION_TEXTS, AT(peak), "TYPE=RATE", NULL,
        "FLOP/s of fp32, fp16, bf16, fp8 or fp4 without sparsity: bf16=2250T; may be repeated"),
    OPTION_ROW("memory", 0, OPTION_TEXT, AT(memory), "SIZE@RATE", NULL,
               "Size and bandwidth of its memory: 180GB@8TB/s"),
    OPTION_ROW("nvlink", 0, OPTION_TEXT, AT(nvlink), "RATE", NULL,
               "Of NVLink one way, half of what data sheets say: 900GB/s", .bars = "inside"),
    ROW_INSIDE(),
    OPTION_ROW("pcie", 0, OPTION_INTEGER, AT(pcie), "N", NULL,
               "Generation of its PCI Express slot of 16 lanes"),
    OPTION_ROW("compute-capability", 0, OPTION_INTEGER, AT(capability), "N", NULL,
               "Of CUDA, 10 * major + minor: 100 (default: by the rate of NVLink)"),
    ROW_TO,
    ROW_OVERWRITE,
    ROW_LAST};

static const struct option platform_options[] = {
    ROW_COUNT,
    OPTION_ROW("gpus", 0, OPTION_TEXT, AT(gpus), "NxNAME", NULL,
               "Devices of a node, by a name of 'foretrain list devices' or a file: 8xh100"),
    OPTION_ROW("nics", 0, OPTION_TEXT, AT(nics), "NxRATE", NULL,
               "Network cards of a node: 8x400Gb/s"),
    ROW_INSIDE(" (default: as the device file says)"),
    OPTION_ROW("fabric", 0, OPTION_TEXT, AT(fabric), "KIND", NULL,
               "What the network is: infiniband, roce, efa, slingshot, omni-path or tcp (default: "
               "infiniband; below 56 Gb/s tcp)"),
    OPTION_ROW("leaves", 0, OPTION_INTEGER, AT(leaves), "N", NULL,
               "Leaf switches that share the nodes evenly (default: only the cards limit)"),
    OPTION_ROW("uplinks", 0, OPTION_INTEGER, AT(uplinks), "N", NULL,
               "Cables from each leaf to the spines, each as fast as a card (default: as many as "
               "cards)",
               "leaves"),
    ROW_TO,
    ROW_OVERWRITE,
    ROW_LAST};

static const struct option job_options[] = {
    ROW_PLATFORM(AT(platform)),
    ROW_COUNT,
    OPTION_ROW("network", 0, OPTION_TEXT, AT(network), "NAME", NULL,
               "One of 'foretrain list networks' (default: resnet50), or a file: ./mine.yaml"),
    OPTION_ROW("batch", 0, OPTION_INTEGER, AT(batch), "N", NULL,
               "Images per device and step (default: 32)"),
    OPTION_ROW("target", 0, OPTION_TEXT, AT(target), "ACCURACY", NULL,
               "End at this accuracy instead of after 90 epochs: 75.9 %"),
    OPTION_ROW("software", 0, OPTION_TEXT, AT(software), "NAME", NULL,
               "One of 'foretrain list software' (default, for GPUs: PyTorch, and of a ResNet also "
               "MLPerf's newest with runs on the device)"),
    OPTION_ROW("shared", 0, OPTION_FLAG, AT(shared),
               .help = "Other jobs are there, too: its nodes may be anywhere"),
    ROW_TO,
    ROW_OVERWRITE,
    ROW_LAST};

static const struct new_request defaults = {.network = "resnet50", .batch = 32};

static const struct command new_device_command = {
    .name = "device",
    .synopsis = "NAME --peak TYPE=RATE --memory SIZE@RATE [options]",
    .help = "a device file from the numbers of a data sheet",
    .examples = "foretrain new device b200 --peak bf16=2250T --memory 180GB@8TB/s --nvlink "
                "900GB/s --pcie 5 --to b200.yaml\n"
                "foretrain new platform --nodes 16 --gpus 8x./b200.yaml --nics 8x400Gb/s --to "
                "mine.yaml",
    RECORD(device_options, struct new_request, &defaults),
    TAKES(1, 1),
    .run = run_device,
};
static const struct command new_platform_command = {
    .name = "platform",
    .synopsis = "--nodes N --gpus NxNAME [--nics NxRATE] [options]",
    .help = "a platform file from a few numbers; what they leave open is assumed, and says so",
    .examples = "foretrain new platform --nodes 16 --gpus 8xh100 --nics 8x400Gb/s --leaves 4 "
                "--uplinks 16 --to mine.yaml",
    RECORD(platform_options, struct new_request, &defaults),
    .run = run_platform,
};
static const struct command new_job_command = {
    .name = "job",
    .synopsis = "--platform NAME --nodes N [options]",
    .help = "a job file for a platform",
    .examples = "foretrain new job --platform ./mine.yaml --nodes 16 --to job.yaml\n"
                "foretrain new job --platform dgx-h100 --nodes 16 --target 75.9% --to job.yaml\n"
                "foretrain new job --platform dgx-a100 --nodes 2 --software pytorch --to job.yaml",
    RECORD(job_options, struct new_request, &defaults),
    .run = run_job,
};

static const struct command *const kinds[] = {&new_device_command, &new_platform_command,
                                              &new_job_command, NULL};

const struct command command_new = {
    .name = "new",
    .help = "first drafts of a device, a platform and a job, to be completed by hand",
    .sub = kinds,
};
