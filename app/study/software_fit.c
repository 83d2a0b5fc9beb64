#include "app/study/software_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/backend/backend.h"
#include "core/backend/cost.h"
#include "core/network/nccl.h"
#include "core/schedule/iteration.h"
#include "models/networks.h"

enum { NO_GROUP = -1 };

/* Data derived from the runs. */
struct work {
    struct software_fit *result;
    const struct model *model;
    struct device *device; /* (devices) in the order of their names */
    struct fit_row *row;   /* (rows) to fit */
    struct fit_row *left;  /* (checks) left out by family */
};

/* --- names --- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int32_t find_name(char *const *name, int32_t count, const char *wanted)
{
    for (int32_t i = 0; i < count; i++)
        if (!strcmp(name[i], wanted))
            return i;
    return -1;
}

/* Takes ownership of @wanted. */
static void add_name(char ***name, int32_t *count, char *wanted)
{
    if (find_name(*name, *count, wanted) >= 0) {
        free(wanted);
        return;
    }
    *name = base_room(*name, *count, sizeof(**name));
    (*name)[(*count)++] = wanted;
}

/* --- runs --- */

/* Whether @runs has a run of this device and software that is in no doubt. */
static bool has_trusted(const struct runs *runs, const struct run_measured *like)
{
    for (int32_t i = 0; i < runs->count; i++) {
        const struct run_measured *run = &runs->run[i];
        if (!run->doubtful && run->nodes == 1 && !strcmp(run->software, like->software) &&
            !strcmp(run->device, like->device))
            return true;
    }
    return false;
}

/* Whether a run is suitable for calibration.  A doubtful one is better than none. */
static bool is_usable(const struct runs *runs, const struct run_measured *run)
{
    return run->nodes == 1 && !(run->doubtful && has_trusted(runs, run));
}

/* Collects names of the runs; counts those left out. */
static void collect(struct software_fit *c, const struct runs *runs)
{
    for (int32_t i = 0; i < runs->count; i++) {
        const struct run_measured *run = &runs->run[i];
        bool usable = is_usable(runs, run);
        c->several += run->nodes > 1;
        c->doubtful += run->nodes == 1 && !usable;
        if (!usable)
            continue;
        add_name(&c->device, &c->devices, base_copy(run->device));
        add_name(&c->software, &c->softwares, base_copy(run->software));
    }
    if (c->devices) {
        qsort(c->device, (size_t)c->devices, sizeof(*c->device), compare_names);
        qsort(c->software, (size_t)c->softwares, sizeof(*c->software), compare_names);
    }
}

/* Time at the whole peak and bandwidth without overhead, and the number of kernels. */
static void add_compute(struct fit_row *row, const struct model *model, const struct device *device,
                        enum fusion fusion, int64_t batch)
{
    enum dtype dtype = device->peak[DTYPE_FP16].value > 0 ? DTYPE_FP16 : DTYPE_FP32;
    struct scenario scenario = {
        .model = {.compute = dtype, .gradients = dtype, .master = DTYPE_FP32},
        .training = {.optimizer = OPTIMIZER_LARS},
    };
    struct iteration iteration = {.model = model,
                                  .scenario = &scenario,
                                  .fusion = fusion,
                                  .grid = {1, 1},
                                  .devices_per_node = 1,
                                  .batch = batch,
                                  .micro_batch = batch};
    struct device ideal = *device;
    ideal.math_efficiency.value = ideal.memory_efficiency.value = 1;
    ideal.kernel_overhead.value = 0;
    ideal.classes.count = ideal.measured.steps.count = 0;
    struct schedule *schedule = iteration_build(&iteration);
    for (int32_t i = 0; i < schedule->step_count; i++) {
        const struct step *step = &schedule->step[i];
        if (step->kind != STEP_COMPUTE)
            continue;
        row->roof += cost_compute(&ideal, step);
        row->kernels += step->compute.kernels;
    }
    schedule_free(schedule);
}

/* The all-reduces within the node, one after the other. */
static double exchange_seconds(const struct run_measured *run, const struct software_era *era,
                               int64_t bytes)
{
    struct nccl_world world = run->nccl;
    if (!world.ranks)
        return 0;
    world.version = era->nccl;
    return era->groups * nccl_choose(&world, COLLECTIVE_ALL_REDUCE, bytes / era->groups).seconds;
}

static struct fit_row describe(const struct work *work, const struct run_measured *run)
{
    const struct software_fit *c = work->result;
    const struct software_era *era = software_era(run->software);
    const struct device *device = &work->device[find_name(c->device, c->devices, run->device)];
    int64_t gradients = (era->wide_gradients ? 4 : 2) * model_parameters(work->model);
    struct fit_row row = {
        .group = NO_GROUP,
        .kind = era->launch,
        .slowest = noise_expected_slowest(&(struct noise){.compute_cv = CALIBRATION_JITTER},
                                          run->devices_per_node),
        .fixed = exchange_seconds(run, era, gradients),
        .seconds = run->step,
    };
    add_compute(&row, work->model, device, software_fusion(era, device, run->batch), run->batch);
    return row;
}

static int32_t add_group(struct work *work, const char *device, const char *software)
{
    struct software_fit *c = work->result;
    for (int32_t i = 0; i < c->groups; i++)
        if (c->group[i].device == device && c->group[i].software == software)
            return i;
    int32_t index = find_name(c->device, c->devices, device);
    const struct software_era *era = software_era(software);
    const struct device *described = &work->device[index];
    c->group[c->groups] = (struct software_fit_group){
        .device = device,
        .software = software,
        .fusion = fusion_names[software_fusion(era, described, INT64_MAX)],
        .small_fusion = fusion_names[software_fusion(era, described, 1)],
        .small_batch = software_small_batch(era, described),
    };
    return c->groups++;
}

static void keep_excess(struct software_fit *c, const struct run_measured *run,
                        const char *software)
{
    if (!isnan(run->startup))
        c->excess[c->excesses++] = (struct software_fit_excess){software, run->startup};
}

/* Whether @device is of @family: its name begins so. */
static bool is_of(const char *device, const char *family)
{
    size_t length = strlen(family);
    return !strncasecmp(device, family, length) && strchr("-", device[length]);
}

static int describe_all(struct work *work, const struct runs *runs, const char *without,
                        struct err *err)
{
    struct software_fit *c = work->result;
    for (int32_t i = 0; i < runs->count; i++) {
        const struct run_measured *run = &runs->run[i];
        if (!is_usable(runs, run))
            continue;
        const char *device = c->device[find_name(c->device, c->devices, run->device)];
        const char *software = c->software[find_name(c->software, c->softwares, run->software)];
        keep_excess(c, run, software);
        struct fit_row row = describe(work, run);
        if (without && is_of(device, without)) {
            work->left[c->checks] = row;
            c->check[c->checks++] = (struct software_fit_check){run, 0, row.seconds};
            continue;
        }
        row.group = add_group(work, device, software);
        work->row[c->rows++] = row;
    }
    return c->rows ? 0 : err_add(err, "%s: no run on one node", c->folder);
}

/* --- what the fit says --- */

static double deviation(const struct fit *fit, int32_t i)
{
    return sqrt(fit->covariance[i * fit->parameters + i]);
}

/* A few rows of a group say little about their repeatability, so the spread of all rows is included
 * as one more row. */
static double group_residual(const struct work *work, int32_t group, double pooled)
{
    const struct software_fit_group *g = &work->result->group[group];
    double sum = pooled * pooled;
    for (int32_t i = 0; i < work->result->rows; i++) {
        const struct fit_row *row = &work->row[i];
        if (row->group != group)
            continue;
        double error = log(fit_predict(row, g->efficiency, g->overhead) / row->seconds);
        sum += error * error;
    }
    return sqrt(sum / g->rows);
}

static void conclude_group(struct work *work, const struct fit *fit, int32_t index)
{
    struct software_fit *c = work->result;
    struct software_fit_group *group = &c->group[index];
    int32_t overhead = c->groups + software_era(group->software)->launch;
    group->efficiency = exp(fit->parameter[index]);
    group->overhead = exp(fit->parameter[overhead]);
    group->efficiency_sd = deviation(fit, index);
    group->overhead_sd = deviation(fit, overhead);
    group->correlation = fit->covariance[index * fit->parameters + overhead] /
                         (group->efficiency_sd * group->overhead_sd);
    for (int32_t i = 0; i < c->rows; i++)
        group->rows += work->row[i].group == index;
    group->residual = group_residual(work, index, fit->residual);
}

static bool of_mlperf(const struct software_fit_group *group)
{
    return !strncmp(group->software, "mlperf-", 7);
}

/* At least a tenth, since no run of the device is known. */
static void conclude_pool(struct software_fit *c, const struct fit *fit)
{
    const double smallest = 0.1, normal = 1.4826;
    AUTOFREE double *value = base_alloc(c->groups, sizeof(*value));
    int32_t count = 0;
    for (int32_t i = 0; i < c->groups; i++)
        if (of_mlperf(&c->group[i]))
            value[count++] = log(c->group[i].efficiency);
    for (int32_t i = 0; count == 0 && i < c->groups; i++)
        value[i] = log(c->group[i].efficiency);
    count = count ? count : c->groups;
    double middle = base_median(value, count);
    for (int32_t i = 0; i < count; i++)
        value[i] = fabs(value[i] - middle);
    c->pool.efficiency = exp(middle);
    c->pool.efficiency_sd = fmax(normal * base_median(value, count), smallest);
    for (int32_t i = 0; i < LAUNCH_COUNT; i++) {
        c->pool.overhead[i] = exp(fit->parameter[c->groups + i]);
        c->pool.overhead_sd[i] = deviation(fit, c->groups + i);
    }
}

static void conclude(struct work *work, const struct fit *fit)
{
    struct software_fit *c = work->result;
    AUTOFREE double *error = base_alloc(c->rows, sizeof(*error));
    c->residual = fit->residual;
    for (int32_t i = 0; i < c->groups; i++)
        conclude_group(work, fit, i);
    conclude_pool(c, fit);
    for (int32_t i = 0; i < c->rows; i++) {
        const struct fit_row *row = &work->row[i];
        const struct software_fit_group *group = &c->group[row->group];
        error[i] = fabs(fit_predict(row, group->efficiency, group->overhead) / row->seconds - 1);
    }
    c->median_error = base_median(error, c->rows);
    for (int32_t i = 0; i < c->checks; i++)
        c->check[i].predicted =
            fit_predict(&work->left[i], c->pool.efficiency, c->pool.overhead[work->left[i].kind]);
}

/* --- the whole --- */

static int compare_groups(const void *a, const void *b)
{
    const struct software_fit_group *x = a, *y = b;
    int order = strcmp(x->software, y->software);
    return order ? order : strcmp(x->device, y->device);
}

static int read_devices(struct work *work, struct err *err)
{
    for (int32_t i = 0; i < work->result->devices; i++)
        if (device_read(&work->device[i], work->result->device[i], err))
            return -1;
    return 0;
}

static int fit_rows(struct work *work, struct err *err)
{
    struct software_fit *c = work->result;
    struct fit_problem problem = {work->row, c->rows, c->groups, LAUNCH_COUNT};
    struct fit fit = {0};
    if (fit_solve(&fit, &problem, err))
        return -1;
    conclude(work, &fit);
    fit_release(&fit);
    qsort(c->group, (size_t)c->groups, sizeof(*c->group), compare_groups);
    return 0;
}

int software_fit_make(struct software_fit *c, const struct runs *runs, const char *without,
                      struct err *err)
{
    c->folder = base_copy(runs->folder);
    collect(c, runs);
    c->group = base_alloc(runs->count, sizeof(*c->group));
    c->check = base_alloc(runs->count, sizeof(*c->check));
    c->excess = base_alloc(runs->count, sizeof(*c->excess));
    struct model *model = network_build("resnet50", 224, 1000, err);
    struct work work = {
        .result = c,
        .model = model,
        .device = base_alloc(c->devices, sizeof(*work.device)),
        .row = base_alloc(runs->count, sizeof(*work.row)),
        .left = base_alloc(runs->count, sizeof(*work.left)),
    };
    int failed =
        read_devices(&work, err) || describe_all(&work, runs, without, err) || fit_rows(&work, err);
    for (int32_t i = 0; i < c->devices; i++)
        device_release(&work.device[i]);
    model_free(model);
    free(work.device);
    free(work.row);
    free(work.left);
    if (failed)
        software_fit_release(c);
    return failed ? -1 : 0;
}

void software_fit_release(struct software_fit *c)
{
    for (int32_t i = 0; i < c->devices; i++)
        free(c->device[i]);
    for (int32_t i = 0; i < c->softwares; i++)
        free(c->software[i]);
    free(c->device);
    free(c->software);
    free(c->group);
    free(c->check);
    free(c->excess);
    free(c->folder);
    *c = (struct software_fit){0};
}
