#include "tests/core/trial.h"

#include <dirent.h>

#include "core/backend/analytic.h"
#include "models/networks.h"
#include "tests/core/own.h"

/* --- a step --- */

struct trial trial_new(struct platform *platform, int32_t nodes)
{
    int32_t devices = platform_devices_per_node(platform);
    int32_t columns = devices > 1 ? devices : nodes % 2 ? nodes : 2;
    return (struct trial){
        .platform = platform,
        .nodes = nodes,
        .devices = devices,
        .grid = {.columns = columns, .rows = nodes * devices / columns},
        .network = "resnet50",
        .compute = platform->device.peak[DTYPE_FP16].value > 0 ? DTYPE_FP16 : DTYPE_FP32,
        .gradients = DTYPE_FP16,
        .overlap = OVERLAP_BACKWARD,
        .batch = 32,
        .bucket = 8000000,
    };
}

bool trial_can_run(const struct trial *trial)
{
    struct err err = {0};
    bool able = trial->algorithm != ALGORITHM_NCCL || !platform_check_nccl(trial->platform, &err);
    err_release(&err);
    able = able && trial->algorithm != ALGORITHM_MPI; /* which nobody can predict */
    return able && trial->nodes * trial->devices > 1;
}

/* Networks are built once. */
static const struct model *model_of(const char *network)
{
    static struct {
        const char *name;
        struct model *model;
    } known[8];
    struct err err = {0};
    size_t i = 0;
    while (known[i].name && strcmp(known[i].name, network) != 0)
        i++;
    if (!known[i].name) {
        known[i].name = network;
        known[i].model = network_build(network, 224, 1000, &err);
    }
    return known[i].model;
}

static struct schedule *build(const struct trial *trial)
{
    const struct device *device = &trial->platform->device;
    struct scenario scenario = {
        .model = {.compute = (int32_t)trial->compute,
                  .gradients = (int32_t)trial->gradients,
                  .master = DTYPE_FP32},
        .training = {.optimizer = OPTIMIZER_LARS},
        .parallel = {.sharding = trial->sharded},
        .allreduce = {.algorithm = (int32_t)trial->algorithm,
                      .channels = trial->channels ? CHANNEL_LIMIT : 0,
                      .overlap = (int32_t)trial->overlap},
    };
    struct iteration iteration = {
        .model = model_of(trial->network),
        .scenario = &scenario,
        .fusion = device_fusion(device, trial->batch),
        .grid = trial->grid,
        .devices_per_node = trial->devices,
        .batch = trial->batch,
        .micro_batch = trial->batch,
        .bucket = trial->bucket,
    };
    return iteration_build(&iteration);
}

/* All that build() reads, as text; the caller frees it. */
static char *job_of(const struct trial *trial)
{
    return base_format("%s %d %d %d %d %d %d %d %d %d %d %" PRId64 " %" PRId64, trial->network,
                       trial->algorithm, trial->sharded, trial->channels, trial->overlap,
                       trial->compute, trial->gradients, trial->devices, trial->grid.columns,
                       trial->grid.rows, device_fusion(&trial->platform->device, trial->batch),
                       trial->batch, trial->bucket);
}

const struct schedule *trial_schedule(const struct trial *trial)
{
    static struct schedule *schedule;
    static char *built;
    char *job = job_of(trial);
    if (!built || strcmp(job, built) != 0) {
        schedule_free(schedule);
        schedule = build(trial);
    }
    free(built);
    built = job;
    return schedule;
}

struct fabric *trial_fabric(const struct trial *trial)
{
    struct err err = {0};
    struct fabric *fabric =
        platform_fabric(trial->platform, trial->nodes, trial->devices, trial->grid, &err);
    assert_ok(fabric, err);
    if (trial->nccl && fabric->nccl.version)
        fabric->nccl.version = trial->nccl;
    return fabric;
}

struct run trial_run(const struct trial *trial, const struct fabric *fabric)
{
    return (struct run){
        .fabric = fabric,
        .device = &trial->platform->device,
        .iterations = 1,
        .noise = trial->noise,
        .contention = platform_contention(trial->platform, trial->devices),
    };
}

double trial_step(const struct trial *trial, const struct fabric *fabric)
{
    struct err err = {0};
    HELD(trace) trace = {0};
    struct run run = trial_run(trial, fabric);
    assert_ok(!backend_analytic.run(&run, trial_schedule(trial), &trace, &err), err);
    return trace_step_time(&trace);
}

double trial_seconds(const struct trial *trial)
{
    OWN(fabric) *fabric = trial_fabric(trial);
    return trial_step(trial, fabric);
}

void trial_print(struct text *out, const struct trial *trial)
{
    text_add(out, "%s by %s%s on %d nodes", trial->platform->name,
             algorithm_names[trial->algorithm],
             trial->channels  ? " of all devices"
             : trial->sharded ? ", sharded,"
                              : "",
             trial->nodes);
}

/* --- every platform --- */

static int is_platform(const struct dirent *entry)
{
    return strstr(entry->d_name, ".yaml") != NULL;
}

void trial_each_platform(void (*visit)(void *context, struct platform *platform), void *context)
{
    struct err err = {0};
    AUTOFREE char *folder = platform_directory(&err);
    AUTOFREE struct dirent **entry;
    int count = scandir(folder, &entry, is_platform, alphasort);
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        char *path = base_format("%s/%s", folder, entry[i]->d_name);
        struct platform *platform = platform_read(path, &err);
        assert_ok(platform, err);
        visit(context, platform);
        platform_free(platform);
        free(path);
        free(entry[i]);
    }
}

/* --- numbers --- */

static struct number *add(struct number_list *list, const char *path, enum unit unit)
{
    struct number *number = &BASE_NEXT(list->number, list->count);
    *number = (struct number){.unit = unit};
    snprintf(number->path, sizeof(number->path), "%s", path);
    return number;
}

/* The platform is not const for trial_numbers(), so neither are its quantities. */
static void add_quantity(void *context, const struct quantity *quantity, enum unit unit)
{
    add(context, quantity->path, unit)->value = &((struct quantity *)(size_t)quantity)->value;
}

/* The rails of a tier; 1 of other records. */
static int64_t rails_of(const struct field_table *table, const void *record)
{
    for (int32_t i = 0; i < table->count; i++)
        if (!strcmp(table->field[i].path, "rails"))
            return *(const int64_t *)((const char *)record + table->field[i].offset);
    return 1;
}

static void add_whole(struct number_list *list, const char *prefix, const struct field_table *table,
                      void *record)
{
    for (int32_t i = 0; i < table->count; i++) {
        const struct field *field = &table->field[i];
        void *member = (char *)record + field->offset;
        AUTOFREE char *path = base_format("%s%s", prefix, field->path);
        if (field->kind == FIELD_INTEGER && *(int64_t *)member != 0) {
            struct number *number = add(list, path, UNIT_NONE);
            number->count = member;
            number->part = strstr(path, ".uplinks") ? rails_of(table, record) : 1;
        } else if (field->kind == FIELD_LIST) {
            const struct field_list *items = member;
            for (int32_t k = 0; k < items->count; k++) {
                AUTOFREE char *item = base_format("%s[%d].", path, k);
                add_whole(list, item, field->table,
                          (char *)items->item + (size_t)k * field->table->size);
            }
        }
    }
}

struct number_list trial_numbers(struct platform *platform)
{
    struct number_list list = {0};
    platform_each_quantity(platform, add_quantity, &list);
    add_whole(&list, "", &platform_table, platform);
    add_whole(&list, "device.", &device_table, &platform->device);
    return list;
}

bool number_is_rate(const struct number *number)
{
    bool part = number->unit == UNIT_FRACTION && strcmp(number->path, "node.contention") != 0 &&
                !strstr(number->path, "_slowdown");
    return number->unit == UNIT_BYTES_PER_SECOND || number->unit == UNIT_FLOPS || part ||
           strstr(number->path, ".uplinks");
}

double number_scale(const struct number *number, double factor)
{
    double before = number->value ? *number->value : (double)*number->count;
    number_set(number, factor * before);
    return before;
}

void number_set(const struct number *number, double value)
{
    if (number->value) {
        *number->value = value;
    } else {
        int64_t parts = llround(value / (double)number->part);
        *number->count = number->part * (parts < 1 ? 1 : parts);
    }
}
