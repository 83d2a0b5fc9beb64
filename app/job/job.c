#include "app/job/job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/schedule/iteration.h"
#include "models/networks.h"

static int64_t cluster_devices(const struct job *job)
{
    const struct scenario *s = &job->scenario;
    return s->cluster.nodes * (s->cluster.devices_per_node
                                   ? s->cluster.devices_per_node
                                   : platform_devices_per_node(job->platform));
}

/* The part of the cluster a point uses: {0, 0} nodes and devices are never valid results. */
static void place(const struct job *job, int32_t phase, struct point *point)
{
    const struct scenario *s = &job->scenario;
    bool baseline = phase == JOB_BASELINE;
    int64_t devices = s->cluster.devices_per_node ? s->cluster.devices_per_node
                                                  : platform_devices_per_node(job->platform);
    if (baseline && s->baseline.devices_per_node)
        devices = s->baseline.devices_per_node;
    point->devices_per_node = (int32_t)devices;
    point->nodes = (int32_t)(baseline ? s->baseline.nodes : s->cluster.nodes);
    if (s->allreduce.columns && !baseline) {
        point->grid.columns = (int32_t)s->allreduce.columns;
        point->grid.rows = (int32_t)s->allreduce.rows;
        return;
    }
    point->grid = grid_nearest_square(point->nodes * point->devices_per_node);
    point->grid_chosen =
        s->allreduce.algorithm == ALGORITHM_TORUS2D || !platform_nodes(job->platform);
}

static int check_grid(const struct job *job, struct err *err)
{
    struct point point = {0};
    place(job, JOB_LAST, &point);
    int64_t devices = (int64_t)point.nodes * point.devices_per_node;
    int64_t places = (int64_t)point.grid.columns * point.grid.rows;
    if (places == devices)
        return 0;
    struct grid near = grid_nearest_square((int32_t)devices);
    struct err found = {0};
    err_add(&found,
            "grid %d x %d has %lld places but %d nodes of %s with %d devices each "
            "have %lld devices; %d x %d would fit",
            point.grid.columns, point.grid.rows, (long long)places, point.nodes,
            platform_name(job->platform), point.devices_per_node, (long long)devices, near.columns,
            near.rows);
    return scenario_blame(&job->scenario, "allreduce.grid", &found, err);
}

int job_check_batches(const struct job *job, int64_t devices, struct err *err)
{
    const struct scenario_phase *phase = job->scenario.training.phase.item;
    int64_t micro = job->scenario.training.micro_batch;
    struct err found = {0};
    for (int32_t i = 0; i < job_phases(job) && !found.count; i++) {
        int64_t batch = phase_batch(&phase[i], devices);
        if (phase[i].global_batch % devices)
            err_add(&found, "%lld images cannot be shared out evenly to %lld devices",
                    (long long)phase[i].global_batch, (long long)devices);
        else if (micro > 0 && batch > micro && batch % micro)
            err_add(&found, "%lld images per device are no multiple of training.micro_batch: %lld",
                    (long long)batch, (long long)micro);
    }
    return found.count ? scenario_blame(&job->scenario, "training.phases", &found, err) : 0;
}

/* Whether the platform has what the scenario asks of it. */
static int check_platform(const struct job *job, struct err *err)
{
    struct err found = {0};
    if (platform_check_dtype(job->platform, (enum dtype)job->scenario.model.compute, &found))
        return scenario_blame(&job->scenario, "model.precision.compute", &found, err);
    if (job->scenario.allreduce.algorithm == ALGORITHM_NCCL &&
        platform_check_nccl(job->platform, err))
        return -1;
    struct point point = {0};
    place(job, JOB_LAST, &point);
    struct fabric *fabric =
        platform_fabric(job->platform, point.nodes, point.devices_per_node, point.grid, &found);
    fabric_free(fabric);
    return fabric ? 0 : scenario_blame(&job->scenario, "cluster.nodes", &found, err);
}

/* Statistics are exchanged over the links of a node, and by layers that have some. */
static int check_norm(const struct job *job, struct err *err)
{
    const struct scenario *s = &job->scenario;
    struct point point = {0};
    struct err found = {0};
    bool any = false;
    place(job, JOB_LAST, &point);
    for (int32_t i = 0; i < job->model->layer_count; i++)
        any = any || job->model->layer[i].op == LAYER_BATCH_NORM;
    if (s->training.norm_group > 1 && !any)
        err_add(&found, "no effect: %s has no batch norm", s->model.network);
    else if (point.devices_per_node % s->training.norm_group)
        err_add(&found,
                "groups of %lld devices do not fill a node of %d: a group lies within one node",
                (long long)s->training.norm_group, point.devices_per_node);
    else
        return 0;
    return scenario_blame(s, "training.batch_norm.group", &found, err);
}

static int apply_software(struct job *job, struct err *err)
{
    const char *name = job->scenario.cluster.software;
    if (!name)
        return 0;
    job->software = software_read(name, err);
    if (job->software && job->platform)
        software_apply(job->software, platform_change_device(job->platform));
    return job->software ? 0 : -1;
}

int job_read(struct job *job, const char *path, const char *const *set, int32_t set_count,
             struct err *err)
{
    *job = (struct job){0};
    if (scenario_read(&job->scenario, path, set, set_count, err))
        return -1;
    const struct scenario *s = &job->scenario;
    struct err found = {0};
    job->platform = platform_read(s->cluster.platform, &found);
    if (!job->platform)
        scenario_blame(s, "cluster.platform", &found, err);
    job->model =
        network_build(s->model.network, (int32_t)s->model.image, (int32_t)s->model.classes, &found);
    if (!job->model)
        scenario_blame(s, "model.network", &found, err);
    int failed = apply_software(job, err);
    if (!failed && job->platform && job->model && !check_grid(job, err) && !check_norm(job, err) &&
        !check_platform(job, err))
        return 0;
    job_release(job);
    return -1;
}

void job_release(struct job *job)
{
    model_free(job->model);
    platform_free(job->platform);
    software_free(job->software);
    scenario_release(&job->scenario);
    *job = (struct job){0};
}

int32_t job_phases(const struct job *job)
{
    return job->scenario.training.phase.count;
}

static const struct scenario_phase *find_phase(const struct job *job, int32_t phase)
{
    const struct scenario_phase *all = job->scenario.training.phase.item;
    return &all[(phase > 0 ? phase : job_phases(job)) - 1];
}

static int64_t micro_batch(const struct scenario *scenario, int64_t batch)
{
    int64_t micro = scenario->training.micro_batch;
    return micro > 0 && micro < batch ? micro : batch;
}

static struct iteration describe(const struct job *job, const struct point *point)
{
    return (struct iteration){
        .model = job->model,
        .scenario = &job->scenario,
        .fusion = device_fusion(platform_device(job->platform),
                                micro_batch(&job->scenario, point->batch)),
        .grid = point->grid,
        .devices_per_node = point->devices_per_node,
        .batch = point->batch,
    };
}

static int attach_fabric(struct point *point, const struct platform *platform, struct err *err)
{
    point->fabric =
        platform_fabric(platform, point->nodes, point->devices_per_node, point->grid, err);
    point->run = (struct run){
        .fabric = point->fabric,
        .device = platform_device(platform),
        .iterations = 1,
    };
    return point->fabric ? 0 : -1;
}

struct run job_run(const struct job *job)
{
    const struct scenario *s = &job->scenario;
    struct run run = {
        .device = platform_device(job->platform),
        .iterations = 1,
        .noise = {.compute_cv = s->noise.compute_cv,
                  .straggler_fraction = s->noise.straggler_fraction,
                  .straggler_slowdown = s->noise.straggler_slowdown,
                  .seed = (uint64_t)s->seed},
        .input_workers = s->input.workers,
        .input_rate = s->input.rate,
    };
    struct point point = {0};
    place(job, JOB_LAST, &point);
    run.contention = platform_contention(job->platform, point.devices_per_node);
    if (job->software && run.noise.compute_cv == 0)
        run.noise.compute_cv = job->software->jitter.value;
    return run;
}

int job_point(const struct job *job, int32_t phase, struct point *point, struct err *err)
{
    const struct scenario *s = &job->scenario;
    if (phase > job_phases(job))
        return err_add_code(err, 64, "there is no phase %d: %s has %d", phase, s->path,
                            job_phases(job));
    place(job, phase, point);
    point->batch = phase_batch(find_phase(job, phase), cluster_devices(job));
    if (attach_fabric(point, job->platform, err))
        return -1;
    struct iteration iteration = describe(job, point);
    point->schedule = iteration_build(&iteration);
    point->run = job_run(job);
    point->run.fabric = point->fabric;
    point->run.contention = platform_contention(job->platform, point->devices_per_node);
    if (point->fabric->nccl.version && job->software && job->software->nccl)
        point->fabric->nccl.version = (int32_t)job->software->nccl;
    return 0;
}

/* Fill what the user left open; a grid smaller than one node uses a part of the node. */
static int complete(struct placement placement, const struct platform *platform,
                    struct point *point, struct err *err)
{
    int32_t full = platform_devices_per_node(platform);
    point->devices_per_node = full;
    point->nodes = placement.nodes;
    point->grid = placement.grid;
    if (!placement.grid.columns) {
        if (!placement.nodes)
            return err_add_code(err, 64, "how many ranks? give --grid CxR or --nodes N");
        point->grid = grid_nearest_square(placement.nodes * full);
        point->grid_chosen = true;
        return 0;
    }
    int32_t ranks = grid_ranks(placement.grid);
    int32_t nodes = placement.nodes ? placement.nodes : ranks < full ? 1 : ranks / full;
    if (ranks % nodes || ranks / nodes > full || (!placement.nodes && ranks > full && ranks % full))
        return err_add_code(err, 64, "%d ranks do not fill %d nodes of %d devices", ranks, nodes,
                            full);
    point->nodes = nodes;
    point->devices_per_node = ranks / nodes;
    return 0;
}

/* Rows of a torus are its own; groups of the hierarchical algorithm are ranks side by side; NCCL
 * finds its own way. */
int point_set_order(struct point *point, const struct platform *platform, enum algorithm algorithm,
                    enum rank_order order, struct err *err)
{
    if (order == RANK_ORDER_ROW)
        return 0;
    if (!platform_nodes(platform))
        return err_add_code(err, 64, "--order has no effect on %s: its links are those of the grid",
                            platform_name(platform));
    if (algorithm == ALGORITHM_HIERARCHICAL || algorithm == ALGORITHM_NCCL)
        return err_add_code(err, 64, "--order has no effect on algorithm %s: it goes by nodes",
                            algorithm_names[algorithm]);
    point->order = order;
    fabric_set_order(point->fabric, point->grid, order);
    return 0;
}

int point_collective(struct point *point, const struct platform *platform,
                     struct placement placement, enum algorithm algorithm, int64_t bytes,
                     struct err *err)
{
    if (algorithm == ALGORITHM_NCCL && platform_check_nccl(platform, err))
        return -1;
    if (complete(placement, platform, point, err) || attach_fabric(point, platform, err) ||
        point_set_order(point, platform, algorithm, placement.order, err))
        return -1;
    point->schedule =
        iteration_build_all_reduce(algorithm, point->grid, point->devices_per_node, bytes, err);
    return point->schedule ? 0 : -1;
}

void point_release(struct point *point)
{
    schedule_free(point->schedule);
    fabric_free(point->fabric);
    *point = (struct point){0};
}

bool point_equal(const struct point *a, const struct point *b)
{
    return a->nodes == b->nodes && a->devices_per_node == b->devices_per_node &&
           a->grid.columns == b->grid.columns && a->grid.rows == b->grid.rows &&
           a->order == b->order && schedule_hash(a->schedule) == schedule_hash(b->schedule);
}

double job_evaluation(const struct job *job, const struct point *point, int64_t evaluations)
{
    int64_t devices = grid_ranks(point->grid);
    int64_t images = (job->scenario.training.validation_images + devices - 1) / devices;
    if (!images || !evaluations)
        return 0.0;
    int64_t passes = (images + point->batch - 1) / point->batch;
    struct iteration iteration = describe(job, point);
    iteration.batch = (images + passes - 1) / passes;
    struct schedule *forward = iteration_build_forward(&iteration);
    double lane[LANE_COUNT] = {0};
    double longest = 0.0;
    for (int32_t i = 0; i < forward->step_count; i++) {
        const struct step *step = &forward->step[i];
        lane[step->lane] += run_local_seconds(&point->run, step);
        longest = fmax(longest, lane[step->lane]);
    }
    schedule_free(forward);
    return (double)evaluations * (double)passes * longest;
}

int grid_parse(const char *text, struct grid *grid, struct err *err)
{
    int columns, rows, length = 0;
    if (sscanf(text, "%dx%d%n", &columns, &rows, &length) != 2 || text[length] || columns < 1 ||
        rows < 1 || (int64_t)columns * rows > INT32_MAX)
        return err_add_code(err, 64, "--grid: expected columns x rows as in 64x32, got '%s'", text);
    *grid = (struct grid){.columns = columns, .rows = rows};
    return 0;
}

/* The job's grid counts when it is for these ranks; another one is an error, not a hint. */
static int choose_grid(const struct scenario *s, int32_t ranks, struct grid *grid, struct err *err)
{
    *grid = grid_nearest_square(ranks);
    if (!s->allreduce.columns)
        return 0;
    grid->columns = (int32_t)s->allreduce.columns;
    grid->rows = (int32_t)s->allreduce.rows;
    if (grid_ranks(*grid) == ranks)
        return 0;
    struct grid near = grid_nearest_square(ranks);
    return err_add_code(err, 64,
                        "%s: the grid of %d x %d needs %d ranks, not %d; use -n %d, or --set "
                        "allreduce.grid.columns=%d --set allreduce.grid.rows=%d",
                        s->path, grid->columns, grid->rows, grid_ranks(*grid), ranks,
                        grid_ranks(*grid), near.columns, near.rows);
}

int job_check_mpi(const struct job *job, struct err *err)
{
    const struct scenario *s = &job->scenario;
    if (s->allreduce.algorithm != ALGORITHM_NCCL)
        return 0;
    return err_add_code(err, 69,
                        "%s: algorithm nccl is a model of NCCL, for predictions; ranks on CPUs "
                        "exchange over MPI: use --set allreduce.algorithm=torus2d",
                        s->path);
}

int job_training(const struct job *job, int32_t ranks, int32_t local, struct training *training,
                 struct err *err)
{
    const struct scenario *s = &job->scenario;
    if (choose_grid(s, ranks, &training->grid, err) || job_check_batches(job, ranks, err)) {
        err->exit_code = 64;
        return -1;
    }
    if (s->training.norm_group > 1)
        return err_add_code(err, 69,
                            "%s: batch norm over groups of devices is for predictions; each rank "
                            "normalises alone: use --set training.batch_norm.group=1",
                            s->path);
    if (s->allreduce.algorithm == ALGORITHM_HIERARCHICAL && ranks % local)
        return err_add_code(err, 64, "%s: hierarchical needs as many ranks on each machine",
                            s->path);
    training->plan = plan_build(s, ranks);
    training->schedule = base_alloc(training->plan.phase_count, sizeof(*training->schedule));
    for (int32_t i = 0; i < training->plan.phase_count; i++) {
        struct point point = {.grid = training->grid,
                              .devices_per_node = local,
                              .batch = training->plan.phase[i].batch_per_device};
        struct iteration iteration = describe(job, &point);
        training->schedule[i] = iteration_build(&iteration);
    }
    return 0;
}

void training_release(struct training *training)
{
    for (int32_t i = 0; training->schedule && i < training->plan.phase_count; i++)
        schedule_free(training->schedule[i]);
    free(training->schedule);
    plan_release(&training->plan);
    *training = (struct training){0};
}
