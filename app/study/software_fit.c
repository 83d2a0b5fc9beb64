#include "app/study/software_fit.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "app/job/job.h"
#include "core/backend/backend.h"
#include "core/backend/cost.h"
#include "core/config/field_write.h"
#include "core/network/nccl.h"
#include "core/scenario/scenario.h"
#include "core/schedule/iteration.h"
#include "models/networks.h"

/* The rings of a node, as its platform describes it. */
static int find_rings(struct run_measured *run, const struct job *job, struct err *err)
{
    struct grid grid = {.columns = run->devices_per_node, .rows = 1};
    if (run->devices_per_node < 2)
        return 0;
    struct fabric *fabric = platform_fabric(job->platform, 1, run->devices_per_node, grid, err);
    if (!fabric)
        return -1;
    run->nccl = fabric->nccl;
    fabric_free(fabric);
    return 0;
}

static int refuse(const struct job *job, const char *key, const char *text, struct err *err)
{
    struct err found = {0};
    err_add(&found, "%s", text);
    return scenario_blame(&job->scenario, key, &found, err);
}

static int take(struct run_measured *run, const struct job *job, struct err *err)
{
    const struct scenario *s = &job->scenario;
    const char *software = s->measured.software ? s->measured.software : s->cluster.software;
    if (!(s->measured.step > 0))
        return refuse(job, "training", "nothing was measured: a run says measured.step", err);
    if (!software)
        return refuse(job, "measured", "which software ran? say measured.software", err);
    const char *slash = strrchr(s->path, '/');
    *run = (struct run_measured){
        .file = base_copy(slash ? slash + 1 : s->path),
        .device = base_copy(platform_device(job->platform)->name),
        .software = base_copy(software),
        .nodes = job->resolved.cluster.nodes,
        .devices_per_node = job->resolved.cluster.devices_per_node,
        .batch = job->resolved.plan.phase[0].batch_per_device,
        .step = s->measured.step,
        .startup = scenario_is_given(s, "measured.startup") ? s->measured.startup : NAN,
        .doubtful = s->measured.doubtful,
    };
    return find_rings(run, job, err);
}

static int read_run(struct runs *runs, const char *path, struct err *err)
{
    AUTORELEASE(err) struct err warnings = {0};
    AUTORELEASE(job) struct job job = {0};
    if (job_open(&job, NULL, path, NULL, 0, NULL, &(struct wish){.ignore_memory = true},
                 &warnings)) {
        err_add_code(err, warnings.exit_code, "%.*s", (int)strlen(warnings.text) - 1,
                     warnings.text);
        return -1;
    }
    runs->run = base_room(runs->run, runs->count, sizeof(*runs->run));
    runs->run[runs->count] = (struct run_measured){0};
    return take(&runs->run[runs->count++], &job, err);
}

static int is_yaml(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot && dot > entry->d_name && !strcmp(dot, ".yaml");
}

int runs_read(struct runs *runs, const char *path, struct err *err)
{
    struct dirent **entry;
    int count = scandir(path, &entry, is_yaml, alphasort), failed = 0;
    if (count < 0)
        return err_add_code(err, 66, "cannot read folder %s: %s", path, strerror(errno));
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    AUTOFREE char *folder = base_format("%.*s", (int)length, path);
    const char *slash = strrchr(folder, '/');
    runs->folder = base_copy(slash ? slash + 1 : folder);
    for (int i = 0; i < count; i++) {
        AUTOFREE char *file = base_format("%s/%s", path, entry[i]->d_name);
        failed = failed || read_run(runs, file, err);
        free(entry[i]);
    }
    free(entry);
    if (!failed && !count)
        failed = err_add(err, "%s: error: there is no job in this folder", path);
    return failed ? -1 : 0;
}

void runs_release(struct runs *runs)
{
    for (int32_t i = 0; i < runs->count; i++) {
        free(runs->run[i].file);
        free(runs->run[i].device);
        free(runs->run[i].software);
    }
    free(runs->run);
    free(runs->folder);
    *runs = (struct runs){0};
}

/* ---- eras ---- */

/* NCCL: as shipped in that month's NGC container (recalled; 2.21 is in the logs of v4.0).
 *
 * The rest: NVIDIA's configurations in mlcommons/training_results_v0.6 ... v4.0 and those of Dell
 * and HPE: MXNET_HOROVOD_NUM_GROUPS, MXNET_EXPERIMENTAL_ENABLE_CUDA_GRAPH, MXNET_ENABLE_CUDA_GRAPHS
 * and NETWORK.  resnet-v1b-fl merges normalize, add and ReLU; -normconv-fl (v0.6, 208 images),
 * -dbar-fl (v0.7, V100, 208) and -stats-fl (A100, 408; 204 from v1.0) have statistics in the
 * convolution. Small batches train resnet-v1b-fl: 65 in v0.6; 45, 65 and 204 in v0.7; 15, 16 and
 * 128 later.
 *
 * H100 trains it with 16 and 50 images, too.  Assumed: its on-chip memory (50 MB of L2, as much in
 * the multiprocessors) then holds what batch norm reads twice, so that the memory traffic is that
 * of -mainloop-fl, which reads everything once. */
/* What overlap and launches cost NNL, whose run was on one node with 192 images, where all-reduces
 * are short.  The geometric mean of two ends, with a spread that puts 90 % between them; neither is
 * from a run on several nodes.  The runs of the other profiles are of whole nodes with their
 * all-reduces, and NVIDIA's later tables and CUDA graphs leave no launch out. */
static const char nnl_overlap[] =
    "compute_slowdown: {value: 10 %, spread: 84 %, source: \"between 2 of 80 "
    "multiprocessors, the fewest that NCCL holds (Jeaugey on github.com/NVIDIA/nccl, June 2022), "
    "and 40 %, "
    "the most measured in nodes of 4 A100, H100, MI210 or MI250, where 18.9 % is the "
    "mean (Lee et al., arXiv 2507.03114)\", kind: assumed}\n"
    "communication_slowdown: {value: 5.5 %, spread: 103 %, source: \"between 1 %, "
    "assumed where messages wait for a network card, and 30 %, as Galvatron measured "
    "inside a node (README of its overlap test)\", kind: assumed}\n"
    "collective_launch: {value: 11.5 us, spread: 34 %, source: \"between 6.6 us, "
    "NCCL's own base latency of a ring by LL (src/graph/tuning.cc), and 20 us, a "
    "launch on V100 in NVIDIA's blog (Understanding the Visualization of Overhead "
    "and Latency in NVIDIA Nsight Systems)\", kind: assumed}\n";

/* PyTorch's weights stay in fp32 under autocast, and so do the gradients that
 * DistributedDataParallel sums, in buckets of 25 MiB (pages of torch.amp and
 * DistributedDataParallel).
 *
 * v0.5 and v0.6 start all-reduces during the backward pass, whose batch norm is a persistent
 * kernel: little or nothing of them progresses before its end (groups_of() of
 * experiments/published_mlperf.py).
 */
static const struct software_era eras[] = {
    {"mlperf-v0.5", "MXNet of NGC 18.11, MLPerf Training v0.5 (2018)", 203, LAUNCH_SINGLE, 20, 20,
     false, FUSION_BN_RELU, FUSION_BN_RELU, 0, NULL, false},
    {"mlperf-v0.6", "MXNet of NGC 19.05, MLPerf Training v0.6 (2019)", 204, LAUNCH_SINGLE, 20, 16,
     false, FUSION_STATS, FUSION_BN_RELU, 128, NULL, false},
    {"mlperf-v0.7", "MXNet of NGC 20.06, MLPerf Training v0.7 (2020)", 207, LAUNCH_GRAPH, 20, 1,
     false, FUSION_STATS, FUSION_STATS, 204, NULL, false},
    {"mlperf-v1.0", "MXNet of NGC 21.05, MLPerf Training v1.0 (2021)", 209, LAUNCH_GRAPH, 1, 1,
     false, FUSION_STATS, FUSION_IDEAL, 128, NULL, false},
    {"mlperf-v1.1", "MXNet of NGC 21.09, MLPerf Training v1.1 (2021)", 211, LAUNCH_GRAPH, 1, 1,
     false, FUSION_STATS, FUSION_IDEAL, 128, NULL, false},
    {"mlperf-v2.0", "MXNet of NGC 22.04, MLPerf Training v2.0 (2022)", 212, LAUNCH_GRAPH, 1, 1,
     false, FUSION_STATS, FUSION_IDEAL, 128, NULL, false},
    {"mlperf-v2.1", "MXNet of NGC 22.08, MLPerf Training v2.1 (2022)", 212, LAUNCH_GRAPH, 1, 1,
     false, FUSION_STATS, FUSION_IDEAL, 128, NULL, false},
    {"mlperf-v3.0", "MXNet of NGC 23.04, MLPerf Training v3.0 (2023)", 217, LAUNCH_GRAPH, 1, 1,
     false, FUSION_STATS, FUSION_IDEAL, 128, NULL, false},
    {"mlperf-v3.1", "MXNet of NGC 23.09, MLPerf Training v3.1 (2023)", 218, LAUNCH_GRAPH, 1, 1,
     false, FUSION_STATS, FUSION_IDEAL, 128, NULL, false},
    {"mlperf-v4.0", "MXNet of NGC 24.04, MLPerf Training v4.0 (2024)", 221, LAUNCH_GRAPH, 1, 1,
     false, FUSION_STATS, FUSION_IDEAL, 128, NULL, false},
    {"pytorch", "PyTorch with mixed precision and channels last, kernel by kernel", 221,
     LAUNCH_SINGLE, 4, 4, true, FUSION_NONE, FUSION_NONE, 0, NULL, true},
    {"pytorch-nchw", "PyTorch with mixed precision in its default layout, channels first", 221,
     LAUNCH_SINGLE, 4, 4, true, FUSION_NONE, FUSION_NONE, 0, NULL, true},
    {"nnl-2018", "Sony Neural Network Libraries, mixed precision (2018)", 203, LAUNCH_SINGLE, 13,
     13, true, FUSION_BN_RELU, FUSION_BN_RELU, 0, nnl_overlap, false},
    {NULL, "as calibrated", 221, LAUNCH_SINGLE, 1, 1, false, FUSION_IDEAL, FUSION_IDEAL, 0, NULL,
     false},
};

/* The images up to which it merges less on @device; 0: never. */
static int32_t software_small_batch(const struct software_era *era, const struct device *device)
{
    return device->compute_capability < 90 ? era->small_batch : 0;
}

static enum fusion least(enum fusion a, enum fusion b)
{
    return a < b ? a : b;
}

/* The fusion of @software on @device with @batch images. */
static enum fusion software_fusion(const struct software_era *era, const struct device *device,
                                   int64_t batch)
{
    enum fusion own = (enum fusion)device->fusion;
    enum fusion most =
        era->name && device->compute_capability == 70 ? era->volta : least(own, era->fusion);
    return batch <= software_small_batch(era, device) ? least(most, FUSION_BN_RELU) : most;
}

/* 1.1 of "mlperf-v1.1"; NAN: @software is no round of MLPerf. */
static double software_round(const char *software)
{
    double round;
    int end = 0;
    bool is_round = sscanf(software, "mlperf-v%lf%n", &round, &end) == 1 && !software[end];
    return is_round ? round : NAN;
}

/* The facts of @software; never NULL. */
static const struct software_era *software_era(const char *software)
{
    const struct software_era *era = eras;
    while (era->name && strcmp(era->name, software))
        era++;
    return era;
}

/* ---- the fit ---- */

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

/* Time at the whole peak and bandwidth, of which each kind of kernels reaches what the profile
 * @known says, without overhead, and the number of kernels. */
static void add_compute(struct fit_row *row, const struct model *model, const struct device *device,
                        const struct software *known, enum fusion fusion, int64_t batch)
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
    if (known)
        software_rate(known, &ideal);
    struct schedule *schedule = iteration_build(&iteration);
    for (int32_t i = 0; i < schedule->step_count; i++) {
        const struct step *step = &schedule->step[i];
        if (step->kind != STEP_COMPUTE)
            continue;
        row->roof += cost_roof(&ideal, step);
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
    const struct software *known = c->known[find_name(c->software, c->softwares, run->software)];
    add_compute(&row, work->model, device, known, software_fusion(era, device, run->batch),
                run->batch);
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

/* Runs of one network do not tell its kinds of kernels apart: those of a profile that is there
 * stay.
 */
static int read_known(struct software_fit *c, struct err *err)
{
    c->known = base_alloc(c->softwares, sizeof(struct software *));
    for (int32_t i = 0; i < c->softwares; i++) {
        AUTORELEASE(err) struct err none = {0};
        AUTOFREE char *path = platform_find_software(c->software[i], &none);
        if (path && !(c->known[i] = software_read(NULL, path, err)))
            return -1;
    }
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
    int failed = read_devices(&work, err) || read_known(c, err) ||
                 describe_all(&work, runs, without, err) || fit_rows(&work, err);
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
    for (int32_t i = 0; i < c->softwares; i++) {
        free(c->software[i]);
        if (c->known)
            software_free(c->known[i]);
    }
    free(c->known);
    free(c->device);
    free(c->software);
    free(c->group);
    free(c->check);
    free(c->excess);
    free(c->folder);
    *c = (struct software_fit){0};
}

/* ---- start-up ---- */

/* Runs from which a software may take its start-up, the nearest first. */
enum kinship { SAME_SOFTWARE, SAME_ERA, ANY_SOFTWARE, KINSHIP_COUNT };

static const char *const kinship_names[KINSHIP_COUNT] = {"under it", "of its era", "of all rounds"};

static bool is_kin(const char *software, const char *other, enum kinship kinship)
{
    if (kinship == SAME_SOFTWARE)
        return !strcmp(software, other);
    return kinship == ANY_SOFTWARE || software_era(software)->launch == software_era(other)->launch;
}

static int32_t excesses_of(double *value, const struct software_fit *c, const char *software,
                           enum kinship kinship)
{
    int32_t count = 0;
    for (int32_t i = 0; i < c->excesses; i++)
        if (is_kin(software, c->excess[i].software, kinship))
            value[count++] = c->excess[i].seconds;
    return count;
}

bool software_fit_startup(const struct software_fit *c, const char *software,
                          struct software_fit_startup *startup)
{
    AUTOFREE double *value = base_alloc(c->excesses, sizeof(*value));
    int32_t count = 0;
    enum kinship kinship = SAME_SOFTWARE;
    if (!strncmp(software, "mlperf-", 7))
        while (!(count = excesses_of(value, c, software, kinship)) && kinship + 1 < KINSHIP_COUNT)
            kinship++;
    if (count)
        *startup = (struct software_fit_startup){fmax(0, base_median(value, count)), count,
                                                 kinship_names[kinship]};
    return count > 0;
}

/* ---- profiles ---- */

/* Change of an efficiency from one round to the next. */
static const double round_sd = 0.05;

/* Two that differ in the layout of pictures alone. */
static const char channels_last[] = "pytorch", channels_first[] = "pytorch-nchw";

/* An efficiency of the second over that of the first. */
struct layout {
    double ratio, sd; /* geometric mean, and deviation of the logarithm from device to device */
    int32_t devices;  /* that have both; 0: the ratio is not known */
};

/* Both numbers of one fit, with lines indented by @indent. */
static void add_numbers(struct text *out, int32_t indent, double efficiency, double overhead,
                        const char *source)
{
    field_write_quantity(out, indent, "efficiency", PROVENANCE_PUBLISHED, 0, source, "%.4g %%",
                         100 * efficiency);
    field_write_quantity(out, indent, "kernel_overhead", PROVENANCE_PUBLISHED, 0, source, "%.4g us",
                         1e6 * overhead);
}

static char *layout_source(const struct software_fit *c, const struct layout *layout)
{
    return base_format("as under %s; efficiency times the ratio of %s to it on %d device%s in %s",
                       channels_last, channels_first, layout->devices, base_plural(layout->devices),
                       c->folder);
}

/* @group for @software, which is in another @layout (NULL: in the same). */
static void add_group_fit(struct text *out, const struct software_fit *c,
                          const struct software_fit_group *group, const char *software,
                          const struct layout *layout)
{
    bool own = !strcmp(group->software, software);
    AUTOFREE char *source =
        own      ? base_format("foretrain calibrate device: %s, round %s, %d run%s on one node",
                               c->folder, software, group->rows, group->rows == 1 ? "" : "s")
        : layout ? layout_source(c, layout)
                 : base_format("as under %s, the nearest in %s", group->software, c->folder);
    text_add(out, "  - device: %s\n    fusion: %s\n", group->device, group->fusion);
    if (group->small_batch)
        text_add(out, "    small_batch: %d\n    small_fusion: %s\n", group->small_batch,
                 group->small_fusion);
    add_numbers(out, 4, group->efficiency * (layout ? layout->ratio : 1), group->overhead, source);
    double more = own ? 0 : layout ? layout->sd : round_sd;
    double sd = hypot(group->efficiency_sd, more);
    text_add(out,
             "    efficiency_sd: %.3g %%\n    overhead_sd: %.3g %%\n    correlation: %.3f\n"
             "    residual: %.3g %%\n    rows: %d\n",
             100 * sd, 100 * group->overhead_sd, group->correlation * group->efficiency_sd / sd,
             100 * group->residual, own ? group->rows : 0);
}

/* Under the software, else under MLPerf's of the nearest round if it is one of those, the later of
 * two. */
static const struct software_fit_group *nearest_group(const struct software_fit *c,
                                                      const char *device, const char *software)
{
    static const char prefix[] = "mlperf-";
    const size_t length = sizeof(prefix) - 1;
    const struct software_fit_group *best = NULL;
    double least = INFINITY;
    bool rounds = !strncmp(software, prefix, length);
    for (int32_t i = 0; i < c->groups; i++) {
        const struct software_fit_group *group = &c->group[i];
        bool own = !strcmp(group->software, software);
        bool other = rounds && !strncmp(group->software, prefix, length);
        if (strcmp(group->device, device) || !(own || other))
            continue;
        double distance =
            own ? 0 : fabs(software_round(group->software) - software_round(software));
        if (distance <= least) {
            least = distance;
            best = group;
        }
    }
    return best;
}

/* What pictures in @software's layout cost; nothing, if it is none of the two. */
static struct layout find_layout(const struct software_fit *c, const char *software)
{
    struct layout layout = {1, 0, 0};
    double sum = 0, squares = 0;
    for (int32_t i = 0; i < c->groups && !strcmp(software, channels_first); i++) {
        const struct software_fit_group *first = &c->group[i];
        const struct software_fit_group *last = nearest_group(c, first->device, channels_last);
        if (strcmp(first->software, channels_first) || !last)
            continue;
        double value = log(first->efficiency / last->efficiency);
        sum += value;
        squares += value * value;
        layout.devices++;
    }
    if (!layout.devices)
        return layout;
    double mean = sum / layout.devices;
    layout.ratio = exp(mean);
    /* Assumed of one device: twice the deviation reaches to no difference. */
    layout.sd = layout.devices > 1 ? sqrt(fmax(squares - sum * mean, 0) / (layout.devices - 1))
                                   : fabs(mean) / 2;
    return layout;
}

/* GeForce cards run above the clock of their data sheets: they say nothing of other devices. */
static bool is_geforce(const char *device)
{
    return !strncmp(device, "rtx-", 4);
}

/* What a device without runs is given: as the devices that have some under @software, if it is none
 * of MLPerf's and there are two or more, else as all of MLPerf's. */
static double fallback_efficiency(const struct software_fit *c, const char *software, bool *own)
{
    double product = 0;
    int32_t count = 0;
    for (int32_t i = 0; i < c->groups && strncmp(software, "mlperf-", 7); i++) {
        bool same = !strcmp(c->group[i].software, software) && !is_geforce(c->group[i].device);
        product += same ? log(c->group[i].efficiency) : 0;
        count += same;
    }
    *own = count > 1;
    return *own ? exp(product / count) : c->pool.efficiency;
}

static void add_fallback(struct text *out, const struct software_fit *c, const char *software,
                         const struct software_era *era, const struct layout *layout)
{
    bool own;
    const char *like = layout->devices ? channels_last : software;
    double efficiency = layout->ratio * fallback_efficiency(c, like, &own);
    AUTOFREE char *source =
        layout->devices
            ? layout_source(c, layout)
            : base_format("foretrain calibrate device: %s in %s",
                          own ? "mean of its devices" : "median of all devices", c->folder);
    text_add(out,
             "\n# Of a device without runs; as the device file says, where fusion is not given.\n"
             "fallback:\n");
    if (era->fusion == FUSION_NONE)
        text_add(out, "  fusion: %s\n", fusion_names[era->fusion]);
    add_numbers(out, 2, efficiency, c->pool.overhead[era->launch], source);
    text_add(out,
             "  efficiency_sd: %.3g %%\n  overhead_sd: %.3g %%\n  residual: %.3g %%\n  rows: 0\n",
             100 * hypot(c->pool.efficiency_sd, layout->sd), 100 * c->pool.overhead_sd[era->launch],
             100 * c->residual);
}

static void add_startup(struct text *out, const struct software_fit *c, const char *software)
{
    struct software_fit_startup startup;
    if (!software_fit_startup(c, software, &startup))
        return;
    AUTOFREE char *source =
        base_format("foretrain calibrate device: %s, median of %d run%s %s on one node: "
                    "all but epochs and evaluations",
                    c->folder, startup.runs, startup.runs == 1 ? "" : "s", startup.whence);
    field_write_quantity(out, 0, "startup", PROVENANCE_PUBLISHED, 0, source, "%.4g s",
                         startup.seconds);
}

static void add_rate(struct text *out, const char *key, double value)
{
    if (value > 0)
        text_add(out, ", %s: %.4g %%", key, 100 * value);
}

/* The kinds of kernels of the profile that is there. */
static void add_kinds(struct text *out, const struct software *known)
{
    if (!known)
        return;
    const struct quantity *launch = &known->launch;
    if (launch->path)
        field_write_quantity(out, 0, "launch", launch->provenance, launch->spread, launch->source,
                             "%.4g us", 1e6 * launch->value);
    if (known->tf32)
        field_write_line(out, 0, "tf32", tf32_names[known->tf32]);
    if (known->loss)
        field_write_line(out, 0, "loss", loss_names[known->loss]);
    if (!known->kinds.count)
        return;
    text_add(out, "kinds:\n  source: ");
    field_write_text(out, known->kinds_source ? known->kinds_source : "not given");
    text_add(out, "\n  residual: %.3g %%\n  rates:\n", 100 * known->kinds_residual);
    for (int32_t i = 0; i < known->kinds.count; i++) {
        const struct software_kind *kind = &((const struct software_kind *)known->kinds.item)[i];
        text_add(out, "    - {kernel: %s", kernel_names[kind->kernel]);
        if (kind->dtype)
            text_add(out, ", precision: %s", dtype_names[kind->dtype - 1]);
        add_rate(out, "math", kind->math);
        add_rate(out, "memory", kind->memory);
        add_rate(out, "spread", kind->spread);
        add_rate(out, "share", kind->share);
        text_add(out, "}\n");
    }
}

void software_fit_profile(struct text *out, const struct software_fit *c, const char *software)
{
    const struct software_era *era = software_era(software);
    const struct layout layout = find_layout(c, software);
    text_add(out, SOFTWARE_FIT_PROFILE " device --from ");
    field_write_text(out, c->folder);
    text_add(out, "\nversion: 1\n");
    field_write_line(out, 0, "name", software);
    field_write_line(out, 0, "description", era->description);
    text_add(out, "nccl: %d\ncuda_graphs: %s\ngroups: %d\noverlap: %s\n%s", era->nccl,
             era->launch == LAUNCH_GRAPH ? "true" : "false", era->groups_at_scale,
             era->overlap ? "backward" : "none", era->wide_gradients ? "gradients: fp32\n" : "");
    field_write_quantity(out, 0, "jitter", PROVENANCE_PUBLISHED, 0,
                         "NVIDIA DeepLearningExamples, MXNet ResNet-50: one device against eight, "
                         "V100 and A100",
                         "%.3g %%", 100 * CALIBRATION_JITTER);
    if (era->overlap_costs)
        text_add(out, "%s", era->overlap_costs);
    add_startup(out, c, software);
    if (layout.devices)
        field_write_line(out, 0, "without_layout", channels_last);
    for (int32_t i = 0; i < c->softwares; i++)
        if (!strcmp(c->software[i], software))
            add_kinds(out, c->known[i]);
    add_fallback(out, c, software, era, &layout);
    text_add(out, "\nfits:\n");
    for (int32_t i = 0; i < c->devices; i++) {
        const struct software_fit_group *group = nearest_group(c, c->device[i], software);
        if (group)
            add_group_fit(out, c, group, software, NULL);
        else if (layout.devices && (group = nearest_group(c, c->device[i], channels_last)))
            add_group_fit(out, c, group, software, &layout);
    }
}
