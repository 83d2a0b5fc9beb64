#include "app/job/job.h"

#include "core/backend/cost.h"
#include "core/backend/nccl_use.h"
#include "core/config/yaml.h"
#include "core/schedule/optimizer.h"
#include "core/schedule/trainable.h"
#include "models/networks.h"

const struct draw draw_centre = {0};

int job_blame(const struct job *job, const char *key, int32_t code, struct err *err,
              const char *format, ...)
{
    AUTORELEASE(err) struct err found = {0};
    va_list list;
    va_start(list, format);
    AUTOFREE char *text = base_format_list(format, list);
    va_end(list);
    err_add_code(&found, code, "%s", text);
    return scenario_blame(&job->scenario, key, &found, err);
}

/* Where the file is that @key calls @name.  The caller frees it. */
static char *path_at(const struct job *job, const char *key, const char *name)
{
    return job->files && job->files->alone ? base_copy(name)
                                           : scenario_path_at(&job->scenario, key, name);
}

/* Device files have the speed of ResNet-50; other networks need a profile or a measured device. */
static void assume_software(struct job *job)
{
    const struct device *device = job->platform ? &job->platform->device : NULL;
    if (device && !device_is_measured(device) &&
        device->math_efficiency.provenance != PROVENANCE_MEASURED && job->model &&
        !model_has_layout(job->model) && !job->scenario.cluster.software)
        job->scenario.cluster.software = base_copy(device_text_software(device));
}

static int apply_software(struct job *job, struct err *err)
{
    const char *name = job->scenario.cluster.software;
    if (!name)
        return 0;
    AUTOFREE char *path = path_at(job, "cluster.software", name);
    AUTORELEASE(err) struct err found = {0};
    job->software = software_read(job->files, path, &found);
    err_warn_all(err, &found);
    if (!job->software)
        return scenario_blame(&job->scenario, "cluster.software", &found, err);
    if (job->software && job->software->without_layout && !model_has_layout(job->model)) {
        struct software *named = job->software;
        job->software = software_read(job->files, named->without_layout, err);
        job->without_layout = true;
        software_free(named);
    }
    if (job->software && job->platform &&
        software_check_device(job->software, &job->platform->device, err))
        return -1;
    if (job->software && job->platform)
        software_apply(job->software, job->model && model_has_experts(job->model),
                       &job->platform->device);
    return 0;
}

static int place(struct job *job, struct err *err)
{
    int32_t placement = job->scenario.cluster.placement;
    if (placement == CLUSTER_AS_PLATFORM)
        return 0;
    job->platform->placement =
        placement == CLUSTER_SCATTERED ? PLACEMENT_SCATTERED : PLACEMENT_CONTIGUOUS;
    if (job->platform->tiers.count > 0)
        return 0;
    return job_blame(job, "cluster.placement", 65, err,
                     "no effect: no nodes of %s share uplinks (network.tiers)",
                     job->platform->name);
}

/* A profile decides what the device's software merges. */
static int check_overruled(const struct scenario *s, const char *const *set, int32_t set_count,
                           struct err *err)
{
    for (int32_t i = 0; s->cluster.software && i < set_count; i++)
        if (!strncmp(set[i], "device.fusion", strlen("device.fusion")))
            return err_add_code(err, 65,
                                "--set %s has no effect: software profile %s decides it; use "
                                "--set cluster.software=null",
                                set[i], s->cluster.software);
    return 0;
}

/* A file says its output, with which the scenario must agree; its images may have another size. */
static int adopt_sizes(struct job *job, struct err *err)
{
    struct scenario *s = &job->scenario;
    const struct model *model = job->model;
    int failed = 0;
    if (scenario_is_given(s, "model.classes") && s->model.classes != model->classes)
        failed = job_blame(job, "model.classes", 65, err, "%s has %d outputs", s->model.network,
                           model->classes);
    s->model.classes = model->classes;
    return failed;
}

/* Tokens of a sample: what the job says, else all positions. */
static int adopt_tokens(struct job *job, struct err *err)
{
    struct scenario *s = &job->scenario;
    if (model_reads_pictures(job->model)) {
        const char *key = s->model.tokens ? "model.tokens" : NULL;
        for (int32_t i = 0; i < s->training.phase.count; i++)
            if (((struct scenario_phase *)s->training.phase.item)[i].tokens > 0)
                key = "training.phases";
        return key ? job_blame(job, key, 65, err, "%s reads pictures, which have no tokens",
                               s->model.network)
                   : 0;
    }
    int64_t positions = shape_elements(job->model->input);
    if (s->model.tokens > positions)
        return job_blame(job, "model.tokens", 65, err, "a sample has %lld positions",
                         (long long)positions);
    scenario_set_tokens(s, s->model.tokens ? s->model.tokens : positions);
    return 0;
}

/* The network of one of the ranks that share each layer or sequence. */
static int split_network(struct job *job, struct transformer *keys, struct err *err)
{
    const struct scenario *s = &job->scenario;
    AUTORELEASE(err) struct err found = {0};
    job->part = job->model;
    bool tensor = s->parallel.tensor > 1, context = s->parallel.context > 1;
    if (!tensor && !context && s->parallel.expert < 2)
        return 0;
    keys->tensor = s->parallel.tensor;
    keys->context = s->parallel.context;
    keys->expert = s->parallel.expert;
    keys->whole = s->parallel.expert_tensor == 1;
    keys->imbalance = s->parallel.imbalance;
    keys->sorted = s->parallel.expert_by == EXPERT_NODES;
    keys->pads = s->parallel.expert_by == EXPERT_COPIES && s->model.products;
    keys->apart = s->parallel.sequence;
    if (!network_is_transformer(s->model.network))
        err_add(&found, "%s of %s are not split, only those of built-in transformers",
                tensor    ? "layers"
                : context ? "sequences"
                          : "experts",
                s->model.network);
    else
        job->part = network_open(job->files, s->model.network, job->model->image,
                                 (int32_t)s->model.classes, keys, &found);
    const char *key = tensor ? "parallel.tensor" : context ? "parallel.context" : "parallel.expert";
    return found.count ? scenario_blame(s, key, &found, err) : 0;
}

static int read_network(struct job *job, struct err *err)
{
    const struct scenario *s = &job->scenario;
    bool is_file = network_is_file(s->model.network);
    bool own = !scenario_is_given(s, "model.image");
    AUTORELEASE(err) struct err found = {0};
    AUTOFREE char *path = path_at(job, "model.network", s->model.network);
    struct transformer keys = s->model.transformer;
    if (!s->model.padded)
        keys.sequence = s->model.tokens;
    job->model =
        network_open(job->files, is_file ? path : s->model.network,
                     own ? 0 : (int32_t)s->model.image, (int32_t)s->model.classes, &keys, &found);
    err_warn_all(err, &found);
    if (!job->model)
        return scenario_blame(s, "model.network", &found, err);
    job->scenario.model.image = job->model->image;
    if (!model_reads_pictures(job->model) && !is_file)
        job->scenario.model.classes = job->model->classes;
    return adopt_tokens(job, err) || (is_file && adopt_sizes(job, err)) ||
           split_network(job, &keys, err);
}

int job_read(struct job *job, const struct files *files, const char *path, const char *const *set,
             int32_t set_count, const struct draw *draw, struct err *err)
{
    *job = (struct job){.files = files};
    if (draw)
        job->unknowns =
            (struct unknowns){.quantile = draw->quantile, .quantile_count = draw->count};
    struct unknowns *unknowns = draw ? &job->unknowns : NULL;
    if (scenario_read(&job->scenario, files, path, set, set_count, unknowns, err)) {
        unknowns_release(&job->unknowns);
        return -1;
    }
    const struct scenario *s = &job->scenario;
    AUTORELEASE(err) struct err found = {0};
    AUTOFREE char *platform = path_at(job, "cluster.platform", s->cluster.platform);
    job->platform = platform_read_changed(files, platform, set, set_count, unknowns, &found);
    err_warn_all(err, &found);
    if (!job->platform)
        scenario_blame(s, "cluster.platform", &found, err);
    else if (strpbrk(s->cluster.platform, "/.")) /* one's own, not a cluster that is */
        platform_continue(job->platform, s->cluster.nodes);
    int failed = read_network(job, err);
    assume_software(job);
    if (!failed && !check_overruled(s, set, set_count, err) && !apply_software(job, err) &&
        job->platform && job->model && !place(job, err))
        return 0;
    job_release(job);
    return -1;
}

static int check_name(const char *key, const char *value, struct err *err)
{
    bool known = true;
    AUTORELEASE(unknowns) struct unknowns unknowns = {0};
    if (!strcmp(key, "cluster.platform")) {
        AUTORELEASE(platform)
        struct platform *platform = platform_read_changed(NULL, value, NULL, 0, &unknowns, err);
        known = platform;
    } else if (!strcmp(key, "cluster.software")) {
        struct software *software = software_read(NULL, value, err);
        known = software;
        software_free(software);
    } else if (!strcmp(key, "model.network") && !network_is_file(value)) {
        known = network_is_known(value, err);
    }
    return known ? 0 : -1;
}

int job_check_value(const char *key, const char *value, struct err *err)
{
    AUTOFREE char *text = base_format("value: %s\n", value);
    AUTORELEASE(err) struct err later = {0}; /* what is no YAML is refused where it is set */
    AUTORELEASE(yaml) struct document *document = yaml_read_text(key, text, &later);
    const struct node *node = document ? node_get(yaml_root(document), "value") : NULL;
    bool word = node && node->kind == NODE_SCALAR && node->text[0] && strcmp(node->text, "null") &&
                strcmp(node->text, "~");
    int failed = word && (field_check_text(&scenario_table, key, node->text, err) ||
                          check_name(key, node->text, err));
    return failed ? -1 : 0;
}

int job_resolve(struct job *job, const struct wish *wish, struct err *err)
{
    return resolved_build(&job->resolved, &job->scenario, job->platform, job->software, job->part,
                          wish, err);
}

int job_open(struct job *job, const struct files *files, const char *path, const char *const *set,
             int32_t set_count, const struct draw *draw, const struct wish *wish, struct err *err)
{
    if (job_read(job, files, path, set, set_count, draw, err))
        return -1;
    if (!job_resolve(job, wish, err))
        return 0;
    job_release(job);
    return -1;
}

void job_release(struct job *job)
{
    resolved_release(&job->resolved);
    if (job->part != job->model)
        model_free(job->part);
    model_free(job->model);
    platform_free(job->platform);
    software_free(job->software);
    scenario_release(&job->scenario);
    unknowns_release(&job->unknowns);
    *job = (struct job){0};
}

int32_t job_phases(const struct job *job)
{
    return job->scenario.training.phase.count;
}

/* An iteration in which @micro of the @batch images pass through the network at once. */
static struct iteration describe(const struct job *job, struct extent extent, int64_t batch,
                                 int64_t micro)
{
    return (struct iteration){
        .model = job->part,
        .scenario = &job->scenario,
        .fusion = device_fusion(&job->platform->device, micro),
        .merges = job->platform->device.merges,
        .grid = extent.grid,
        .devices_per_node = grid_axis_nodes(extent.grid, AXIS_WORLD, extent.devices_per_node).each,
        .batch = batch,
        .micro_batch = micro,
        .bucket = job->resolved.bucket,
        .column_algorithm = job->resolved.column_algorithm,
        .repeat = job->resolved.repeat,
    };
}

static int attach_fabric(struct point *point, const struct platform *platform, struct err *err)
{
    point->fabric =
        platform_fabric(platform, point->nodes, point->devices_per_node, point->grid, err);
    point->run = (struct run){
        .fabric = point->fabric,
        .device = &platform->device,
        .iterations = 1,
    };
    return point->fabric ? 0 : -1;
}

/* Extra time of compute steps on nodes of which so many devices compute. */
static double extra_time(const struct job *job, int32_t devices_per_node)
{
    double contention = platform_contention(job->platform, devices_per_node);
    return (1 + contention) / job->scenario.cluster.speed - 1;
}

/* How much longer a step takes than its kernels, since the host launches them one by one. */
static double wait_for_host(const struct run *run, const struct schedule *schedule)
{
    double host = cost_host(run->device, schedule), seconds = 0;
    for (int32_t id = 0; host > 0 && id < schedule->step_count; id++)
        if (schedule->step[id].kind == STEP_COMPUTE)
            seconds += step_runs(&schedule->step[id]) * run_local_seconds(run, &schedule->step[id]);
    return host > seconds ? (1 + run->contention) * host / seconds - 1 : run->contention;
}

/* [images/s] of a worker: what it decodes, or its share of what the storage delivers to all. */
static double input_rate(const struct job *job, int64_t devices)
{
    const struct scenario *s = &job->scenario;
    if (!(s->input.storage > 0))
        return s->input.rate;
    double readers = (double)(devices * s->input.workers);
    return fmin(s->input.rate, s->input.storage / s->input.image_bytes / readers);
}

struct run job_run(const struct job *job)
{
    const struct scenario *s = &job->scenario;
    return (struct run){
        .device = &job->platform->device,
        .iterations = 1,
        .noise = job->resolved.noise,
        .contention = extra_time(job, job->resolved.cluster.devices_per_node),
        .input_workers = s->input.workers,
        .input_rate = input_rate(job, extent_devices(job->resolved.cluster)),
    };
}

/* All that the fabric of @point depends on, but for what NCCL would know. */
static uint64_t identify(const struct job *job, const struct point *point)
{
    const int64_t parts[] = {point->nodes, point->devices_per_node, point->order};
    uint64_t hash = base_hash(platform_hash(job->platform), &point->grid, sizeof(point->grid));
    return base_hash(hash, parts, sizeof(parts));
}

/* Lay ranks and links of @extent out for @point. */
static int lay_out(const struct job *job, struct extent extent, struct point *point,
                   struct err *err)
{
    point->nodes = extent.nodes;
    point->devices_per_node = extent.devices_per_node;
    point->grid = extent.grid;
    point->order = job->resolved.order;
    if (attach_fabric(point, job->platform, err))
        return -1;
    if (point->order != RANK_ORDER_ROW)
        fabric_set_order(point->fabric, point->grid, point->order);
    if (point->fabric->nccl.version && job->resolved.nccl)
        point->fabric->nccl.version = job->resolved.nccl;
    return 0;
}

double point_images(const struct point *point)
{
    return (double)point->batch * grid_replicas(point->grid) / grid_ranks(point->grid);
}

int job_point(const struct job *job, int32_t phase, struct point *point, struct err *err)
{
    if (phase > job_phases(job))
        return err_usage(err, "there is no phase %d: %s has %d", phase, job->scenario.path,
                         job_phases(job));
    int32_t index = (phase > 0 ? phase : job_phases(job)) - 1;
    struct extent extent = phase < 0 ? job->resolved.baseline : job->resolved.phase[index];
    struct phase counts = job->resolved.plan.phase[index];
    if (phase == JOB_STRONG) {
        counts.batch_per_device = (counts.global_batch - 1) / extent_replicas(extent) + 1;
        int64_t turns = job->scenario.parallel.chunks > 1 ? extent.grid.pipeline : 1;
        int64_t micro = job->scenario.training.micro_batch; /* whole ones, of chunks whole rounds */
        turns *= micro > 0 && counts.batch_per_device > micro ? micro
                 : turns > 1                                  ? counts.micro_batch
                                                              : 1;
        counts.batch_per_device = (counts.batch_per_device + turns - 1) / turns * turns;
        counts.micro_batch = phase_micro_batch(&job->scenario, counts.batch_per_device);
        if (job->resolved.most_images)
            counts.micro_batch =
                resolved_fitting_part(counts.micro_batch, job->resolved.most_images);
    }
    if (lay_out(job, extent, point, err))
        return -1;
    struct fabric *fabric = point->fabric;
    struct iteration iteration = describe(job, extent, counts.batch_per_device, counts.micro_batch);
    point->batch = counts.batch_per_device;
    if (!point->schedule)
        point->schedule = iteration_build(&iteration);
    point->schedule->mesh = fabric->mesh;
    point->run = job_run(job);
    point->run.fabric = fabric;
    point->run.layout = identify(job, point);
    point->run.grid = extent.grid;
    point->run.contention = extra_time(job, point->devices_per_node);
    point->run.contention = wait_for_host(&point->run, point->schedule);
    point->run.input_rate = input_rate(job, extent_devices(extent));
    return 0;
}

char *job_nccl_text(const struct job *job, const struct point *point)
{
    return nccl_use_text(&point->run, point->schedule,
                         job->resolved.nccl ? job->software->name : NULL);
}

static struct grid choose_grid(struct placement placement, const struct platform *platform,
                               enum algorithm algorithm, struct point *point)
{
    if (algorithm != ALGORITHM_TORUS2D)
        return platform_grid(platform, point->nodes * point->devices_per_node);
    point->choice = grid_choose(&(struct grid_question){
        .platform = platform,
        .nodes = point->nodes,
        .devices_per_node = point->devices_per_node,
        .order = placement.order,
        .column_algorithm = ALGORITHM_RING,
        .bytes = placement.chosen_for,
        .memory = placement.memory,
    });
    return point->choice.grid;
}

/* Fill what the user left open; a grid smaller than one node uses a part of the node. */
static int complete(struct placement placement, const struct platform *platform,
                    enum algorithm algorithm, struct point *point, struct err *err)
{
    int32_t full = platform_devices_per_node(platform);
    point->devices_per_node = full;
    point->nodes = placement.nodes;
    point->grid = placement.grid;
    if (!placement.grid.columns) {
        if (!placement.nodes)
            return err_usage(err, "how many ranks? give --grid CxR or --nodes N");
        point->grid = choose_grid(placement, platform, algorithm, point);
        return 0;
    }
    int32_t ranks = grid_ranks(placement.grid);
    int32_t nodes = placement.nodes ? placement.nodes : ranks < full ? 1 : ranks / full;
    if (ranks % nodes || ranks / nodes > full || (!placement.nodes && ranks > full && ranks % full))
        return err_usage(err, "%d ranks do not fill %d nodes of %d devices", ranks, nodes, full);
    point->nodes = nodes;
    point->devices_per_node = ranks / nodes;
    return 0;
}

int point_collective(struct point *point, const struct platform *platform,
                     struct placement placement, struct all_reduce how, int64_t bytes,
                     struct err *err)
{
    if (how.algorithm == ALGORITHM_NCCL && platform_check_nccl(platform, err))
        return -1;
    if (!placement.chosen_for)
        placement.chosen_for = bytes;
    if (complete(placement, platform, how.algorithm, point, err) ||
        attach_fabric(point, platform, err) ||
        resolved_check_order(platform, how.algorithm, placement.order, err))
        return -1;
    if (how.channels > 0 && placement.order != RANK_ORDER_ROW)
        return err_usage(err, "--order has no effect on several rings: they go by nodes");
    point->order = placement.order;
    if (point->order != RANK_ORDER_ROW)
        fabric_set_order(point->fabric, point->grid, point->order);
    point->schedule =
        iteration_build_all_reduce(how, point->grid, point->devices_per_node, bytes, err);
    if (point->schedule)
        point->schedule->mesh = point->fabric->mesh;
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
           grid_equal(a->grid, b->grid) && a->order == b->order &&
           a->schedule->step_count == b->schedule->step_count &&
           schedule_hash(a->schedule) == schedule_hash(b->schedule);
}

/* Measured evaluations over their forward passes, which do not read the images: median of 180 runs
 * on one node, all of JPEG files.  Source:
 * experiments/published.py experiments/02_published_runs/single_node.csv; a test compares. */
#define EVALUATION_LONGER 2.4

double job_evaluation_factor(const struct scenario *scenario)
{
    enum dataset_source source = (enum dataset_source)scenario->training.data.source;
    return scenario->training.dataset || source_is_jpeg(source) ? EVALUATION_LONGER : 1;
}

double job_evaluation(const struct job *job, const struct point *point, int64_t evaluations)
{
    int64_t devices = grid_replicas(point->grid);
    int64_t images = (job->scenario.training.validation_images + devices - 1) / devices;
    if (!images || !evaluations)
        return 0.0;
    int64_t passes = (images + point->batch - 1) / point->batch;
    struct extent extent = {point->nodes, point->devices_per_node, point->grid};
    struct iteration iteration = describe(job, extent, (images + passes - 1) / passes,
                                          phase_micro_batch(&job->scenario, point->batch));
    struct schedule *forward = iteration_build_forward(&iteration);
    double lane[LANE_COUNT] = {0};
    double longest = 0.0;
    for (int32_t i = 0; i < forward->step_count; i++) {
        const struct step *step = &forward->step[i];
        if (step->kind != STEP_COLLECTIVE)
            lane[step->lane] += run_local_seconds(&point->run, step);
        longest = fmax(longest, lane[step->lane]);
    }
    longest /= grid_axis_size(point->grid, AXIS_PIPELINE); /* stages are alike, and all busy */
    schedule_free(forward);
    return job_evaluation_factor(&job->scenario) * (double)evaluations * (double)passes * longest;
}

bool grid_matters(enum algorithm algorithm, enum rank_order order, const struct platform *platform)
{
    return algorithm == ALGORITHM_TORUS2D || order != RANK_ORDER_ROW ||
           (platform && !platform->nodes);
}

int grid_parse(const char *option, const char *text, struct grid *grid, struct err *err)
{
    int columns, rows, length = 0;
    if (sscanf(text, "%9dx%9d%n", &columns, &rows, &length) != 2 || text[length] || columns < 1 ||
        rows < 1 || (int64_t)columns * rows > INT32_MAX)
        return err_usage(err, "%s: expected two whole numbers as in 64x32, got '%s'", option, text);
    *grid = (struct grid){.columns = columns, .rows = rows};
    return 0;
}

int job_check_mpi(const struct job *job, struct err *err)
{
    const struct scenario *s = &job->scenario;
    const char *why =
        s->allreduce.channels > 0 ? "several rings side by side are for predictions; ranks on CPUs "
                                    "run one: use --set allreduce.channels=1"
        : s->allreduce.algorithm == ALGORITHM_TORUS2D &&
                s->allreduce.column_algorithm == COLUMN_NCCL
            ? "NCCL in columns is a model, for predictions; ranks on CPUs exchange over MPI: use "
              "--set allreduce.column_algorithm=ring"
        : s->allreduce.ctas > 0 ? "allreduce.ctas limits NCCL, on GPUs; ranks on CPUs exchange "
                                  "over MPI: use --set allreduce.ctas=null"
        : s->allreduce.algorithm == ALGORITHM_NCCL
            ? "algorithm nccl is a model of NCCL, for predictions; ranks on CPUs exchange over "
              "MPI: use --set allreduce.algorithm=torus2d"
            : NULL;
    return why ? err_add_code(err, 69, "%s: %s", s->path, why) : 0;
}

static int check_shards(const struct job *job, bool gpu, struct err *err)
{
    const struct scenario *s = &job->scenario;
    if (gpu && s->parallel.sharding >= 2)
        return job_blame(job, "parallel.sharding", 69, err,
                         "GPUs train with whole weights and gradients: use --device cpu, or --set "
                         "parallel.sharding=1");
    return 0;
}

static int check_optimizer(const struct job *job, bool gpu, struct err *err)
{
    const struct scenario *s = &job->scenario;
    if (optimizer_is_trained(s, gpu))
        return 0;
    if (s->training.optimizer <= (gpu ? OPTIMIZER_LARS : OPTIMIZER_LAMB))
        return job_blame(job, "training.optimizer.clip", 69, err,
                         "clipping is for predictions and CPUs; GPUs train without: use --set "
                         "training.optimizer.clip=null");
    return job_blame(job, "training.optimizer.name", 69, err,
                     "optimizer %s is for predictions%s; %s: use --set training.optimizer.name=%s",
                     optimizer_names[s->training.optimizer], gpu ? " and CPUs" : "",
                     gpu ? "GPUs train with sgd and lars"
                         : "CPUs train with sgd, lars, adamw and lamb",
                     gpu ? "sgd" : "adamw");
}

/* Whether what ranks exchange is read by nothing but its exchange. */
static bool reads_alone(const struct model *part)
{
    for (int32_t i = 0; i < part->layer_count; i++)
        if (part->layer[i].exchanged && part->layer[part->layer[i].input[0]].readers > 1)
            return false;
    return true;
}

/* What ranks that have parts of a network cannot do yet: a key, and why. */
static const char *part_fault(const struct job *job, bool gpu, const char **why)
{
    const struct scenario *s = &job->scenario;
    const char *key = s->parallel.pipeline > 1 ? "parallel.pipeline" : "parallel.tensor";
    *why = gpu ? "GPUs train whole networks, each on data of its own: use --device cpu"
           : !model_is_general(job->model) || model_reads_pictures(job->model)
               ? "ranks on CPUs train parts of transformers alone that read tokens"
           : s->parallel.sequence && job->platform->device.merges.exchanges
               ? "ranks on CPUs exchange blocks of positions whole, not beside products: use --set "
                 "parallel.sequence=false"
           : !reads_alone(job->part) ? "ranks on CPUs share layers behind norms that nothing else "
                                       "reads: use --set model.norm=layer"
           : s->model.gradients != DTYPE_FP32
               ? "ranks on CPUs sum the gradients of parts of a network in fp32: use --set "
                 "model.precision.gradients=fp32"
               : NULL;
    if (*why)
        return key;
    if (s->training.optimizer == OPTIMIZER_LARS) {
        *why = "ranks with parts of a network train with sgd, adamw and lamb";
        return "training.optimizer.name";
    }
    return NULL;
}

static int check_parts(const struct job *job, bool gpu, struct err *err)
{
    const char *why, *key = scenario_parts(&job->scenario) > 1 ? part_fault(job, gpu, &why) : NULL;
    return key ? job_blame(job, key, 69, err, "%s", why) : 0;
}

int job_check_network(const struct job *job, bool gpu, struct err *err)
{
    if (!gpu || !model_needs_cpu(job->model))
        return model_check_training(job->model, job->scenario.model.network, err);
    return job_blame(job, "model.network", 69, err,
                     "CPUs alone train %s: GPUs train convolutional networks without groups, "
                     "gates, ReLU6 and sums without a ReLU behind them; use --device cpu",
                     job->scenario.model.network);
}

int job_check_device(const struct job *job, bool gpu, struct err *err)
{
    return job_check_network(job, gpu, err) || check_optimizer(job, gpu, err) ||
           check_shards(job, gpu, err) || check_parts(job, gpu, err);
}

struct schedule **job_training(const struct job *job, struct err *err)
{
    const struct plan *plan = &job->resolved.plan;
    if (job->scenario.training.norm_group > 1) {
        err_add_code(err, 69,
                     "%s: batch norm over groups of devices is for predictions; each rank "
                     "normalises alone: use --set training.batch_norm.group=1",
                     job->scenario.path);
        return NULL;
    }
    if (model_check_training(job->model, job->scenario.model.network, err))
        return NULL;
    struct schedule **schedule = base_alloc(plan->phase_count, sizeof(*schedule));
    for (int32_t i = 0; i < plan->phase_count; i++) {
        struct iteration iteration =
            describe(job, job->resolved.cluster, plan->phase[i].batch_per_device,
                     plan->phase[i].micro_batch);
        schedule[i] = iteration_build(&iteration);
    }
    return schedule;
}

void training_free(const struct job *job, struct schedule **schedule)
{
    for (int32_t i = 0; schedule && i < job_phases(job); i++)
        schedule_free(schedule[i]);
    free(schedule);
}
