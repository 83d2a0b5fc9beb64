#include "core/platform/software.h"

#include "core/scenario/scenario.h"

#define ROW(...) FIELD_ROW(__VA_ARGS__)
#define DEVIATION(key, record, member, meaning)                                                    \
    ROW(key, record, member, "0", meaning, .kind = FIELD_REAL, .unit = UNIT_FRACTION,              \
        .minimum = 0, .maximum = 10)

#define BESIDE(key, member, meaning, measure)                                                      \
    ROW(key, software, member, "", meaning, .kind = FIELD_QUANTITY, .unit = measure, .minimum = 0, \
        .maximum = 1)

/* The keys of a fit, in a list and for the rest, of which the rest may lack @needed. */
#define FIT_ROWS(at, record, member, needed)                                                       \
    ROW(at "fusion", record, member fusion, "",                                                    \
        "which operations are merged into one kernel; as the device file says when not given",     \
        .kind = FIELD_TEXT, .words = fusion_names),                                                \
        ROW(at "small_batch", record, member small_batch, "0",                                     \
            "images per device up to which another network is trained, merged less",               \
            .kind = FIELD_INTEGER, .minimum = 0, .maximum = 1e6),                                  \
        ROW(at "small_fusion", record, member small_fusion, "",                                    \
            "which operations are merged there", .kind = FIELD_TEXT, .words = fusion_names),       \
        ROW(at "efficiency", record, member efficiency, needed,                                    \
            "the part of the peak and of the memory bandwidth that kernels reach",                 \
            .kind = FIELD_QUANTITY, .unit = UNIT_FRACTION, .minimum = 1e-3, .maximum = 1),         \
        ROW(at "kernel_overhead", record, member kernel_overhead, needed,                          \
            "added to every kernel: launch, ramp-up, tail", .kind = FIELD_QUANTITY,                \
            .unit = UNIT_SECONDS, .minimum = 0, .maximum = 1),                                     \
        DEVIATION(at "efficiency_sd", record, member efficiency_sd,                                \
                  "relative standard deviation of the efficiency"),                                \
        DEVIATION(at "overhead_sd", record, member overhead_sd,                                    \
                  "relative standard deviation of the overhead"),                                  \
        ROW(at "correlation", record, member correlation, "0",                                     \
            "of the errors of efficiency and overhead", .kind = FIELD_REAL, .minimum = -1,         \
            .maximum = 1),                                                                         \
        DEVIATION(at "residual", record, member residual,                                          \
                  "relative standard deviation of a run about the fit"),                           \
        ROW(at "rows", record, member rows, "0", "runs it was fitted to", .kind = FIELD_INTEGER,   \
            .minimum = 0, .maximum = 1e9)

static const struct field fit_rows[] = {
    ROW("device", software_efficiency, device, NULL,
        "a file of platforms/devices without .yaml; with * at its end all that begin so and have "
        "no fit of their own",
        .kind = FIELD_TEXT),
    FIT_ROWS("", software_efficiency, , NULL),
};
static const struct field_table fit_table =
    FIELD_TABLE("fit", fit_rows, struct software_efficiency);

static const char *const kind_types[] = {"all", "fp32", "fp16", "bf16", NULL};
static_assert(ARRAY_SIZE(kind_types) == DTYPE_COUNT + 2, "one per type, and one for all");

static const char *const loss_names[] = {"fused", "unfused", NULL};

static const char *const tf32_names[] = {"none", "convolutions", "all", NULL};
static_assert(ARRAY_SIZE(tf32_names) == TF32_COUNT + 1, "a word each");

#define RATE(key, member, missing, meaning)                                                        \
    ROW(key, software_kind, member, missing, meaning, .kind = FIELD_REAL, .unit = UNIT_FRACTION,   \
        .minimum = 1e-3, .maximum = 10)

static const struct field kind_rows[] = {
    ROW("kernel", software_kind, kernel, NULL, "the kind of kernels", .kind = FIELD_WORD,
        .words = kernel_names),
    ROW("precision", software_kind, dtype, "all",
        "type of the arithmetic; all: of types without an entry", .kind = FIELD_WORD,
        .words = kind_types),
    ROW("device", software_kind, device, "",
        "of this device, or with * at the end of those whose names begin so, of several the last; "
        "of devices without an entry when not given",
        .kind = FIELD_TEXT),
    RATE("math", math, "",
         "what they reach of the device's sustained peak, over the fit's efficiency; that of the "
         "data sheet's peak when not given"),
    RATE("memory", memory, "100 %", "what they reach of the bandwidth, over the fit's efficiency"),
    DEVIATION("spread", software_kind, spread,
              "relative standard deviation of both, of networks and devices that were left out"),
    DEVIATION("share", software_kind, share,
              "their part of the roofline's time in the runs of the fits"),
};
static const struct field_table kind_table = FIELD_TABLE("kind", kind_rows, struct software_kind);

static const char *const overlap_words[] = {"none", "backward", NULL};
static_assert(ARRAY_SIZE(overlap_words) == OVERLAP_COUNT + 1, "one word per overlap");

static const struct field software_rows[] = {
    ROW("version", software, version, NULL, "of this format", .kind = FIELD_INTEGER, .minimum = 1,
        .maximum = 1),
    ROW("name", software, name, NULL, "the file's name without .yaml", .kind = FIELD_TEXT),
    ROW("description", software, description, NULL, "one line for people", .kind = FIELD_TEXT),
    ROW("nccl", software, nccl, "", "version of NCCL, 100 * major + minor", .kind = FIELD_INTEGER,
        .minimum = 200, .maximum = 999),
    ROW("groups", software, groups, "1", "all-reduces per step at scale", .kind = FIELD_INTEGER,
        .minimum = 1, .maximum = 10000),
    ROW("overlap", software, overlap, "none", "whether they run during the backward pass",
        .kind = FIELD_WORD, .words = overlap_words),
    ROW("gradients", software, gradients, "fp16",
        "type in which gradients travel, for information: model.precision.gradients decides",
        .kind = FIELD_WORD, .words = dtype_names),
    ROW("jitter", software, jitter, "",
        "coefficient of variation of a device's step time; as the device file says when not given",
        .kind = FIELD_QUANTITY, .unit = UNIT_FRACTION, .minimum = 0, .maximum = 1),
    BESIDE("compute_slowdown", compute_slowdown,
           "how much longer a device computes while a collective of it is in flight; as the "
           "device file says when not given, like the next two",
           UNIT_FRACTION),
    BESIDE("communication_slowdown", communication_slowdown,
           "how much longer a collective takes while its device computes", UNIT_FRACTION),
    BESIDE("launch", launch,
           "what the host takes to launch a kernel: a step takes at least that for each of its "
           "kernels",
           UNIT_SECONDS),
    BESIDE("experts_launch", experts_launch,
           "the same of networks with experts, whose numbers of positions the host waits for",
           UNIT_SECONDS),
    BESIDE("collective_launch", collective_launch,
           "what the host takes to launch a collective, before its first message", UNIT_SECONDS),
    ROW("startup", software, startup, "",
        "on one node before the first step runs at full speed, for information: training.startup "
        "decides",
        .kind = FIELD_QUANTITY, .unit = UNIT_SECONDS, .minimum = 0, .maximum = 1e9),
    ROW("kinds.source", software, kinds_source, "", "from which networks the rates are known",
        .kind = FIELD_TEXT),
    DEVIATION("kinds.residual", software, kinds_residual,
              "relative standard deviation of other networks about what their kinds say"),
    DEVIATION("kinds.node", software, kinds_node,
              "the same of several devices of a node, where the rates come from single ones"),
    ROW("kinds.experts", software, experts, "",
        "what networks with experts, whose kernels the rates are not from, reach of them",
        .kind = FIELD_QUANTITY, .unit = UNIT_FRACTION, .minimum = 1e-3, .maximum = 1),
    ROW("kinds.rates", software, kinds, "",
        "what each kind of kernels reaches; others, and all when not given, as the fit says",
        .kind = FIELD_LIST, .table = &kind_table),
    ROW("attention", software, merges.attention, "unfused",
        "fused: one kernel, which keeps the weights of all positions; flash: which does not",
        .kind = FIELD_WORD, .words = attention_names),
    ROW("epilogues", software, merges.epilogues, "false",
        "whether activations, dropout and adds of transformers are part of the kernel before them",
        .kind = FIELD_BOOLEAN),
    ROW("parts_of_sends", software, merges.sends, "false",
        "whether devices that share layers and have whole values send the next stage a part each",
        .kind = FIELD_BOOLEAN),
    ROW("tensor_overlap", software, merges.exchanges, "false",
        "whether exchanges of devices that share layers and sequences run beside products, but for "
        "one part of as many as there are devices",
        .kind = FIELD_BOOLEAN),
    ROW("experts_apart", software, merges.experts, "false",
        "whether the product of each expert is a kernel of its own, not one for all of a device",
        .kind = FIELD_BOOLEAN),
    ROW("early_stop", software, merges.early_stop, "false",
        "whether layers that are computed again end once all that backward reads is there, before "
        "the last product of a block (PyTorch's set_checkpoint_early_stop)",
        .kind = FIELD_BOOLEAN),
    ROW("whole_sums", software, merges.whole, "false",
        "whether devices that have a shard of the optimizer each sum whole gradients (all-reduce), "
        "not each its shard",
        .kind = FIELD_BOOLEAN),
    ROW("loss", software, loss, "fused",
        "fused: the loss reads the scores, writes and reads probabilities; unfused: in fp32, an "
        "operation at a time",
        .kind = FIELD_WORD, .words = loss_names),
    ROW("memory.turned", software, merges.turned, "false",
        "whether queries and keys stay for backward as they are before positions turn them, too",
        .kind = FIELD_BOOLEAN),
    ROW("memory.ahead", software, merges.ahead, "0",
        "values that ranks which share layers sum, held at most because the host is ahead of the "
        "device",
        .kind = FIELD_INTEGER, .maximum = 1024),
    ROW("memory.busy", software, merges.busy, "0",
        "FLOP for each of them from which on the device takes longer than the host",
        .kind = FIELD_REAL, .maximum = 1e18),
    ROW("memory.copies", software, merges.copies, "false",
        "whether gradients of a micro-batch are in the type of the arithmetic until all are added "
        "to those that are exchanged",
        .kind = FIELD_BOOLEAN),
    DEVIATION("memory.reserve", software, merges.reserve,
              "what the allocator holds beyond the values, over these"),
    DEVIATION("memory.spread", software, memory_sd,
              "relative standard deviation of the memory in use about what is predicted"),
    ROW("tf32", software, tf32, "none",
        "what it computes in tf32 where a job says fp32 and the device has peak.tf32",
        .kind = FIELD_WORD, .words = tf32_names),
    ROW("without_layout", software, without_layout, "",
        "the profile of networks whose multiply-adds are mostly none of convolutions, by its name; "
        "this one when not given",
        .kind = FIELD_TEXT),
    ROW("fits", software, fits, "", "one per device", .kind = FIELD_LIST, .table = &fit_table),
    FIT_ROWS("fallback.", software, rest., ""),
};
const struct field_table software_table = FIELD_TABLE("software", software_rows, struct software);

/* The fit for @device among the first @count, or NULL. */
static const struct software_efficiency *find(const struct software *software, int32_t count,
                                              const char *device)
{
    const struct software_efficiency *fit = software->fits.item;
    for (int32_t i = 0; i < count; i++)
        if (!strcmp(fit[i].device, device))
            return &fit[i];
    return NULL;
}

static int check_pattern(const struct node *root, const char *list, int32_t i, const char *device,
                         struct err *err)
{
    const char *star = device ? strchr(device, '*') : NULL;
    AUTOFREE char *path = base_format("%s.%d.device", list, i);
    return star && star[1] ? origin_error(&field_origin(root, path)->origin, err,
                                          "'%s' has a * that is not at its end", device)
                           : 0;
}

static int check(const struct software *software, const struct node *root, struct err *err)
{
    const struct software_efficiency *fit = software->fits.item;
    const struct software_kind *kind = software->kinds.item;
    int result = 0;
    for (int32_t i = 0; i < software->fits.count && !result; i++)
        result = check_pattern(root, "fits", i, fit[i].device, err);
    for (int32_t i = 0; i < software->kinds.count && !result; i++)
        result = check_pattern(root, "kinds.rates", i, kind[i].device, err);
    for (int32_t i = 1; i < software->fits.count; i++) {
        if (!find(software, i, fit[i].device))
            continue;
        AUTOFREE char *path = base_format("fits.%d.device", i);
        result = origin_error(&field_origin(root, path)->origin, err, "a second fit for '%s'",
                              fit[i].device);
    }
    for (int32_t i = 1; i < software->kinds.count; i++)
        for (int32_t k = 0; k < i; k++) {
            if (kind[i].kernel != kind[k].kernel || kind[i].dtype != kind[k].dtype ||
                strcmp(kind[i].device ? kind[i].device : "", kind[k].device ? kind[k].device : ""))
                continue;
            AUTOFREE char *path = base_format("kinds.rates.%d.kernel", i);
            result = origin_error(&field_origin(root, path)->origin, err, "a second rate for '%s'",
                                  kernel_names[kind[i].kernel]);
        }
    return result;
}

struct software *software_read(const struct files *files, const char *name, struct err *err)
{
    AUTOFREE char *path = files_find(files, platform_find_software, name, err);
    struct document *document =
        path ? yaml_read_file(files, path, platform_find_software, err) : NULL;
    if (!document)
        return NULL;
    struct software *software = base_alloc(1, sizeof(*software));
    const struct node *root = yaml_root(document);
    int failed = field_read(&software_table, root, software, err);
    if (!failed)
        failed = check(software, root, err);
    yaml_free(document);
    if (!failed)
        return software;
    software_free(software);
    return NULL;
}

void software_free(struct software *software)
{
    if (!software)
        return;
    field_release(&software_table, software);
    free(software);
}

int software_check_device(const struct software *software, const struct device *device,
                          struct err *err)
{
    if (device_is_measured(device))
        return err_add_code(err, 65,
                            "software %s would replace what was measured of device %s: use --set "
                            "cluster.software=null, and kernels are as fast as its file says",
                            software->name, device->name);
    if (!software->nccl || device->compute_capability || !strcmp(device->name, "ideal"))
        return 0;
    return err_add_code(err, 65,
                        "software %s was fitted on GPUs with CUDA, and device %s has no "
                        "'compute_capability': leave cluster.software out, and kernels are as "
                        "fast as the device file says",
                        software->name, device->name);
}

/* Whether @device is called @pattern, or begins with what is before its star. */
static bool is_called(const char *device, const char *pattern)
{
    size_t length = strcspn(pattern, "*");
    return pattern[length] ? !strncmp(pattern, device, length) : !strcmp(pattern, device);
}

const struct software_efficiency *software_find_fit(const struct software *software,
                                                    const char *device)
{
    const struct software_efficiency *fit = find(software, software->fits.count, device);
    const struct software_efficiency *all = software->fits.item;
    for (int32_t i = 0; i < software->fits.count && !fit; i++)
        if (is_called(device, all[i].device))
            fit = &all[i];
    return fit ? fit : &software->rest;
}

double software_startup(const struct software *software, int32_t nodes)
{
    return software->startup.path ? 0.6 + software->startup.value / nodes : 0;
}

/* The path stays, since lists of numbers use it.  What the user assigned stays, too. */
static void replace(struct quantity *quantity, const struct quantity *by)
{
    if (!by->path || (quantity->source && !strcmp(quantity->source, "--set")))
        return;
    free(quantity->source);
    quantity->source = base_copy(by->source);
    quantity->value = by->value;
    quantity->spread = by->spread;
    quantity->provenance = by->provenance;
    if (!quantity->path)
        quantity->path = base_format("device.%s", by->path);
}

static void scale(struct quantity *quantity, const struct quantity *by)
{
    if (quantity->source && !strcmp(quantity->source, "--set"))
        return;
    char *source = base_format("%s; with experts %.4g %% of it: %s", quantity->source,
                               100 * by->value, by->source);
    free(quantity->source);
    quantity->source = source;
    quantity->value *= by->value;
}

static int32_t find_fusion(const char *word, int32_t fallback)
{
    for (int32_t i = 0; word && fusion_names[i]; i++)
        if (!strcmp(fusion_names[i], word))
            return i;
    return fallback;
}

/* A kind without an entry of its type has the one for all, or the fit's own efficiency.  Of entries
 * of one type, that of the device counts. */
static void software_rate(const struct software *software, struct device *device)
{
    const struct software_kind *kind = software->kinds.item;
    device->rated = software->kinds.count > 0 || software->tf32;
    device->other_networks = software->kinds_residual;
    device->whole_nodes = software->kinds_node;
    for (int32_t k = 0; k < KERNEL_COUNT; k++) {
        device->tf32[k] =
            k == KERNEL_GEMM ? software->tf32 == TF32_ALL : software->tf32 && k <= KERNEL_GROUPED;
        device->doubt[k] = (struct kind_doubt){0};
        for (int32_t d = 0; d < DTYPE_COUNT; d++)
            device->rate[d][k] = (struct kind_rate){0, 1};
    }
    for (int32_t order = 0; order < 4; order++)
        for (int32_t i = 0; i < software->kinds.count; i++) {
            const struct software_kind *from = &kind[i];
            bool own = order >= 2, named = order % 2;
            if (named != (from->device != NULL) ||
                (named && !is_called(device->name, from->device)))
                continue;
            if (!from->dtype && !own)
                device->doubt[from->kernel] = (struct kind_doubt){from->spread, from->share};
            for (int32_t d = 0; d < DTYPE_COUNT; d++)
                if (from->dtype == (own ? d + 1 : 0))
                    device->rate[d][from->kernel] = (struct kind_rate){from->math, from->memory};
        }
}

void software_apply(const struct software *software, bool experts, struct device *device)
{
    const struct software_efficiency *fit = software_find_fit(software, device->name);
    replace(&device->math_efficiency, &fit->efficiency);
    replace(&device->memory_efficiency, &fit->efficiency);
    replace(&device->kernel_overhead, &fit->kernel_overhead);
    replace(&device->compute_slowdown, &software->compute_slowdown);
    replace(&device->communication_slowdown, &software->communication_slowdown);
    replace(&device->launch, &software->launch);
    replace(&device->experts_launch, &software->experts_launch);
    replace(&device->collective_launch, &software->collective_launch);
    replace(&device->jitter, &software->jitter);
    device->fusion = find_fusion(fit->fusion, device->fusion);
    device->small_fusion = find_fusion(fit->small_fusion, device->fusion);
    device->small_batch = fit->small_batch;
    device->merges = software->merges;
    device->merges.passes = software->loss == LOSS_UNFUSED;
    device->memory_sd = software->memory_sd;
    software_rate(software, device);
    if (!experts || !software->experts.path)
        return;
    scale(&device->math_efficiency, &software->experts);
    scale(&device->memory_efficiency, &software->experts);
    device->with_experts = software->experts.spread;
}
