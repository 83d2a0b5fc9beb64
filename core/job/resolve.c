#include "core/job/resolve.h"

#include "core/backend/analytic.h"
#include "core/schedule/iteration.h"
#include "core/schedule/memory.h"
#include "core/schedule/optimizer.h"
#include "core/schedule/pipeline.h"

/* Of one all-reduce by the closed form. */
static double seconds_on(const struct grid_question *q, struct fabric *fabric, struct grid grid)
{
    struct err err = {0};
    AUTORELEASE(trace) struct trace trace = {0};
    struct run run = {.fabric = fabric, .device = &q->platform->device, .iterations = 1};
    struct schedule *schedule = schedule_new(grid);
    schedule->column_algorithm = q->column_algorithm;
    schedule_add_all_reduce(schedule, ALGORITHM_TORUS2D, 0, 0, q->bytes, -1);
    int failed =
        schedule_seal(schedule, &err) || backend_analytic.run(&run, schedule, &trace, &err);
    assert(!failed);
    (void)failed;
    double seconds = trace_step_time(&trace);
    schedule_free(schedule);
    return seconds;
}

/* Negative: the platform has no such nodes. */
static double grid_seconds(const struct grid_question *q, struct grid grid)
{
    const int64_t parts[] = {q->nodes, q->devices_per_node, q->order, q->column_algorithm,
                             q->bytes, grid.columns,        grid.rows};
    uint64_t what = base_hash(platform_hash(q->platform), parts, sizeof(parts));
    double seconds;
    if (memory_find(q->memory, what, &seconds))
        return seconds;
    AUTORELEASE(err) struct err err = {0};
    struct fabric *fabric = platform_fabric(q->platform, q->nodes, q->devices_per_node, grid, &err);
    if (!fabric)
        return -1;
    fabric_set_order(fabric, grid, q->order);
    seconds = seconds_on(q, fabric, grid);
    memory_keep(q->memory, what, seconds);
    fabric_free(fabric);
    return seconds;
}

static struct grid_choice nearest(const struct platform *platform, int32_t ranks)
{
    return (struct grid_choice){.grid = platform_grid(platform, ranks),
                                .why = platform_dimensions(platform) == 3 ? "nearest to a cube"
                                                                          : "nearest to a square"};
}

struct grid_choice grid_choose(const struct grid_question *q)
{
    bool rows = q->order == RANK_ORDER_ROW;
    struct grid_choice square = nearest(q->platform, q->nodes * q->devices_per_node);
    struct grid_choice node = {
        .grid = {rows ? q->devices_per_node : q->nodes, rows ? q->nodes : q->devices_per_node},
        .why = rows ? "a row is a node" : "a column is a node"};
    if (q->column_algorithm == ALGORITHM_NCCL)
        return node;
    if (!q->platform->nodes || q->devices_per_node == 1)
        return square;
    if (node.grid.columns == square.grid.columns)
        return node;
    node.seconds = square.other_seconds = grid_seconds(q, node.grid);
    square.seconds = node.other_seconds = grid_seconds(q, square.grid);
    node.other = square.grid;
    if (node.seconds < 0)
        return (struct grid_choice){.grid = square.grid, .why = square.why};
    square.other = node.grid;
    return node.seconds <= square.seconds ? node : square;
}

char *grid_choice_text(const struct grid_choice *choice)
{
    struct text text = {0};
    text_add(&text, "grid %d x %d: %s", choice->grid.columns, choice->grid.rows, choice->why);
    if (choice->other.columns)
        text_add(&text, "; %d x %d takes %.3g times as long", choice->other.columns,
                 choice->other.rows, choice->other_seconds / choice->seconds);
    return text.data;
}

enum { EXIT_USAGE = 64, EXIT_DATA = 65, EXIT_UNAVAILABLE = 69 };

/* What every decision needs. */
struct question {
    const struct scenario *scenario;
    const struct platform *platform;
    const struct model *model;
    const struct wish *wish;
    struct err *err;
    int faults;
};

/* A fault that another room found in the value of @key; NULL: in a wish of the command line. */
static void blame_found(struct question *q, const char *key, struct err *found)
{
    scenario_blame(q->scenario, key, found, q->err);
    q->faults++;
}

/* The exit code for ranks that do not fit: the command line's fault if it has their number. */
static int32_t ranks_code(const struct question *q)
{
    return q->wish->nodes ? EXIT_USAGE : EXIT_DATA;
}

/* A fault with a message of its own. */
__attribute__((format(printf, 4, 5))) static void blame(struct question *q, int32_t exit_code,
                                                        const char *key, const char *format, ...)
{
    va_list list;
    struct err found = {0};
    va_start(list, format);
    AUTOFREE char *text = base_format_list(format, list);
    va_end(list);
    err_add_code(&found, exit_code, "%s", text);
    blame_found(q, key, &found);
}

int64_t extent_devices(struct extent extent)
{
    return (int64_t)extent.nodes * extent.devices_per_node;
}

int64_t extent_replicas(struct extent extent)
{
    return extent_devices(extent) / grid_axis_size(extent.grid, AXIS_TENSOR) /
           grid_axis_size(extent.grid, AXIS_PIPELINE) / grid_axis_size(extent.grid, AXIS_CONTEXT);
}

/* ---- nodes and devices ---- */

int64_t cluster_devices_per_node(const struct scenario *scenario, const struct platform *platform)
{
    int64_t given = scenario->cluster.devices_per_node;
    return given ? given : platform_devices_per_node(platform);
}

struct wish wish_for_ranks(int64_t ranks, int64_t room)
{
    int64_t each = ranks < room ? ranks : room;
    while (ranks % each)
        each--;
    return (struct wish){.nodes = ranks / each, .devices_per_node = each};
}

static void find_cluster(struct question *q, struct extent *extent)
{
    bool wished = q->wish->nodes > 0;
    int64_t nodes = wished ? q->wish->nodes : q->scenario->cluster.nodes;
    int64_t each =
        wished ? q->wish->devices_per_node : cluster_devices_per_node(q->scenario, q->platform);
    if (nodes * each > SCENARIO_DEVICE_LIMIT)
        blame(q, ranks_code(q), wished ? NULL : "cluster.nodes",
              "%lld nodes with %lld devices each are more than %d devices", (long long)nodes,
              (long long)each, SCENARIO_DEVICE_LIMIT);
    else
        *extent = (struct extent){.nodes = (int32_t)nodes, .devices_per_node = (int32_t)each};
}

/* Nodes of a baseline whose parts are on several: at least @nodes, all stages, sequences and
 * experts a whole number of times, and so many that its passes of the last phase's batch can be
 * walked quickly, if the @cluster has them. */
static int64_t enough_nodes(const struct question *q, struct extent cluster, int64_t nodes,
                            int64_t each)
{
    const struct scenario *s = q->scenario;
    const struct scenario_phase *last =
        (const struct scenario_phase *)s->training.phase.item + s->training.phase.count - 1;
    int64_t parts = scenario_parts(s), experts = scenario_expert_ranks(s), whole = 1;
    int64_t stages = s->parallel.pipeline > 1 ? s->parallel.pipeline : 1;
    while (whole * each % parts || whole * each / stages % experts)
        whole++;
    nodes = (nodes + whole - 1) / whole * whole;
    while (!q->wish->repeat && last->global_batch && 2 * nodes <= cluster.nodes) {
        int64_t batch = last->global_batch * parts / (nodes * each);
        int64_t passes = batch > 0 ? batch / phase_micro_batch(s, batch) : 1;
        if (passes * q->model->layer_count <= RESOLVED_BASELINE_PASSES_MOST)
            break;
        nodes *= 2;
    }
    return nodes;
}

static void find_baseline(struct question *q, struct extent cluster, struct extent *extent)
{
    int64_t nodes = q->scenario->baseline.nodes;
    int64_t each = q->scenario->baseline.devices_per_node;
    each = each ? each : cluster.devices_per_node;
    int64_t tensor = scenario_tensor(q->scenario);
    bool apart = scenario_parts(q->scenario) > tensor || tensor > each;
    nodes =
        apart || q->scenario->parallel.expert > 1 ? enough_nodes(q, cluster, nodes, each) : nodes;
    if (nodes * each > SCENARIO_DEVICE_LIMIT) {
        blame(q, EXIT_DATA, "baseline.nodes",
              "%lld nodes with %lld devices each are more than %d devices", (long long)nodes,
              (long long)each, SCENARIO_DEVICE_LIMIT);
        return;
    }
    *extent = (struct extent){.nodes = (int32_t)nodes, .devices_per_node = (int32_t)each};
}

/* Whether the platform has room for @extent, which @where ("cluster") asks for, or, if NULL, the
 * command line: 0, or -1. */
static int check_room(struct question *q, const char *where, struct extent extent)
{
    struct err found = {0};
    if (!platform_check_extent(q->platform, extent.nodes, extent.devices_per_node, extent.grid,
                               &found))
        return 0;
    bool each = extent.devices_per_node > platform_devices_per_node(q->platform);
    AUTOFREE char *key =
        where ? base_format("%s.%s", where, each ? "devices_per_node" : "nodes") : NULL;
    found.exit_code = where ? EXIT_DATA : EXIT_USAGE;
    blame_found(q, key, &found);
    return -1;
}

/* ---- the grid ---- */

static int64_t gradient_bytes(const struct scenario *s, const struct model *model)
{
    return model_parameters(model) * dtype_size((enum dtype)s->model.gradients);
}

/* The side of it that an assignment changed, else the grid. */
static const char *grid_key(const struct question *q)
{
    static const char *const side[] = {"allreduce.grid.columns", "allreduce.grid.rows"};
    for (int32_t i = 0; i < 2; i++)
        if (scenario_is_assigned(q->scenario, side[i]))
            return side[i];
    return "allreduce.grid";
}

/* Bytes of the largest all-reduce. */
static int64_t exchanged_bytes(const struct question *q, const struct resolved *resolved)
{
    int64_t all = gradient_bytes(q->scenario, q->model);
    return resolved->bucket < all ? resolved->bucket : all;
}

/* @grid of replicas, with those that have one batch together. */
static struct grid shared_grid(const struct question *q, struct grid grid)
{
    grid.tensor = (int32_t)q->scenario->parallel.tensor;
    grid.context = (int32_t)q->scenario->parallel.context;
    grid.expert = (int32_t)q->scenario->parallel.expert;
    grid.whole = q->scenario->parallel.expert_tensor == 1;
    grid.pipeline = (int32_t)q->scenario->parallel.pipeline;
    return grid;
}

/* The grid of @extent where none is given. */
static struct grid_choice choose_grid(const struct question *q, const struct resolved *resolved,
                                      struct extent extent)
{
    int32_t parts = (int32_t)scenario_parts(q->scenario), devices = (int32_t)extent_devices(extent);
    if (resolved->algorithm != ALGORITHM_TORUS2D || parts > 1) {
        struct grid_choice choice = nearest(q->platform, devices / parts);
        choice.grid = shared_grid(q, choice.grid);
        return choice;
    }
    return grid_choose(&(struct grid_question){
        .platform = q->platform,
        .nodes = extent.nodes,
        .devices_per_node = extent.devices_per_node,
        .order = resolved->order,
        .column_algorithm = resolved->column_algorithm,
        .bytes = exchanged_bytes(q, resolved),
        .memory = q->wish->memory,
    });
}

static void refuse_grid(struct question *q, int32_t devices)
{
    int64_t columns = q->scenario->allreduce.columns, rows = q->scenario->allreduce.rows;
    struct grid fits = platform_grid(q->platform, devices);
    if (devices % columns == 0)
        fits = (struct grid){.columns = (int32_t)columns, .rows = devices / (int32_t)columns};
    if (q->wish->nodes)
        blame(q, ranks_code(q), grid_key(q),
              "the grid of %lld x %lld needs %lld ranks, not %d; use -n %lld, or --set "
              "allreduce.grid.columns=%d --set allreduce.grid.rows=%d",
              (long long)columns, (long long)rows, (long long)(columns * rows), devices,
              (long long)(columns * rows), fits.columns, fits.rows);
    else
        blame(q, ranks_code(q), grid_key(q),
              "grid %lld x %lld has %lld places but there are %d devices; {columns: %d, rows: %d} "
              "would fit",
              (long long)columns, (long long)rows, (long long)(columns * rows), devices,
              fits.columns, fits.rows);
}

static void find_grid(struct question *q, struct resolved *resolved)
{
    int64_t columns = q->scenario->allreduce.columns, rows = q->scenario->allreduce.rows;
    int64_t devices = extent_devices(resolved->cluster) / scenario_parts(q->scenario);
    resolved->baseline.grid = choose_grid(q, resolved, resolved->baseline).grid;
    if (columns && columns * rows != devices) {
        refuse_grid(q, (int32_t)devices);
    } else if (columns) {
        resolved->cluster.grid =
            shared_grid(q, (struct grid){.columns = (int32_t)columns, .rows = (int32_t)rows});
    } else {
        resolved->choice = choose_grid(q, resolved, resolved->cluster);
        resolved->cluster.grid = resolved->choice.grid;
        if (resolved->algorithm != ALGORITHM_TORUS2D && q->platform->nodes)
            resolved->choice.why = NULL;
    }
}

/* ---- what the platform and the network allow ---- */

/* Statistics are exchanged over the links of a node, and by layers that have some. */
static void check_norm(struct question *q, struct extent cluster)
{
    int64_t group = q->scenario->training.norm_group;
    bool any = false;
    for (int32_t i = 0; i < q->model->layer_count; i++)
        any = any || q->model->layer[i].op == LAYER_BATCH_NORM;
    if (group > 1 && !any)
        blame(q, EXIT_DATA, "training.batch_norm.group", "no effect: %s has no batch norm",
              q->scenario->model.network);
    else if (cluster.devices_per_node % group)
        blame(q, EXIT_DATA, "training.batch_norm.group",
              "groups of %lld devices do not fill a node of %d: a group lies within one node",
              (long long)group, cluster.devices_per_node);
}

static void check_parts(struct question *q, const struct resolved *resolved)
{
    struct err found = {0};
    if (platform_check_dtype(q->platform, (enum dtype)q->scenario->model.compute, &found))
        blame_found(q, "model.precision.compute", &found);
    enum products products = (enum products)q->scenario->model.products;
    if (products && q->wish->real)
        blame(q, EXIT_DATA, "model.precision.products",
              "model.precision.products is for predictions: devices compute in "
              "model.precision.compute");
    else if (products && q->platform->device.peak_products[products].value == 0)
        blame(q, EXIT_DATA, "model.precision.products",
              "device %s has no %s arithmetic, or its file does not say peak.%s",
              q->platform->device.name, product_names[products], product_names[products]);
    bool columns =
        resolved->algorithm == ALGORITHM_TORUS2D && resolved->column_algorithm == ALGORITHM_NCCL;
    if ((columns || resolved->algorithm == ALGORITHM_NCCL) &&
        platform_check_nccl(q->platform, q->err))
        q->faults++;
    if (columns && (resolved->cluster.grid.columns != resolved->cluster.devices_per_node ||
                    resolved->order != RANK_ORDER_ROW))
        blame(q, ranks_code(q), "allreduce.column_algorithm",
              "NCCL's columns take one rank of each node: a row must be a node of %d, with ranks "
              "in the order of rows",
              resolved->cluster.devices_per_node);
}

/* Each ring enters and leaves a node by a device of its own. */
static void check_channels(struct question *q, const struct resolved *resolved)
{
    int32_t each = resolved->cluster.devices_per_node;
    if (resolved->channels > each)
        blame(q, ranks_code(q), "allreduce.channels",
              "%d rings need as many devices in a node, which has %d; all is one for each",
              resolved->channels, each);
}

static void check_chunk(struct question *q, const struct resolved *resolved)
{
    int64_t chunk = (int64_t)q->scenario->allreduce.chunk;
    int64_t bytes = exchanged_bytes(q, resolved);
    if (chunk && bytes > chunk * CHUNK_LIMIT)
        blame(q, EXIT_DATA, "allreduce.chunk",
              "a bucket of %lld B has more than %d chunks; use at least %lld B", (long long)bytes,
              CHUNK_LIMIT, (long long)((bytes + CHUNK_LIMIT - 1) / CHUNK_LIMIT));
}

/* Each is a step of the schedule, which a back end walks one by one. */
static void check_bucket(struct question *q, const struct resolved *resolved)
{
    int64_t all = gradient_bytes(q->scenario, q->model);
    if (resolved->all_reduces > RESOLVED_ALL_REDUCES_MOST)
        blame(q, EXIT_DATA, "allreduce.bucket",
              "%lld all-reduces a step are more than %d; use at least %lld B",
              (long long)resolved->all_reduces, RESOLVED_ALL_REDUCES_MOST,
              (long long)((all - 1) / RESOLVED_ALL_REDUCES_MOST + 1));
}

static void check_order(struct question *q)
{
    struct err found = {0};
    if (q->scenario->allreduce.channels > 0 && q->wish->order != RANK_ORDER_ROW)
        blame(q, EXIT_USAGE, NULL, "--order has no effect on several rings: they go by nodes");
    if (resolved_check_order(q->platform, q->scenario->allreduce.algorithm, q->wish->order, &found))
        blame_found(q, NULL, &found);
}

int resolved_check_order(const struct platform *platform, enum algorithm algorithm,
                         enum rank_order order, struct err *err)
{
    if (order == RANK_ORDER_ROW)
        return 0;
    if (!platform->nodes)
        return err_add_code(err, EXIT_USAGE,
                            "--order has no effect on %s: its links are those of the grid",
                            platform->name);
    if (algorithm == ALGORITHM_HIERARCHICAL || algorithm == ALGORITHM_NCCL)
        return err_add_code(err, EXIT_USAGE,
                            "--order has no effect on algorithm %s: it goes by nodes",
                            algorithm_names[algorithm]);
    return 0;
}

/* ---- nodes of phases ---- */

/* A phase with nodes of its own keeps the columns of a grid that is given. */
static struct extent phase_extent(struct question *q, const struct resolved *resolved,
                                  int32_t index)
{
    const struct scenario_phase *phase =
        (const struct scenario_phase *)q->scenario->training.phase.item + index;
    struct extent extent = resolved->cluster;
    if (!phase->nodes)
        return extent;
    AUTOFREE char *key = base_format("training.phases.%d.nodes", index);
    int64_t devices = phase->nodes * extent.devices_per_node / scenario_parts(q->scenario);
    extent.nodes = (int32_t)phase->nodes;
    if (q->wish->real)
        blame(q, EXIT_UNAVAILABLE, key,
              "phases with nodes of their own are for predictions: a training run keeps its ranks; "
              "train the phases one after the other, each from the checkpoint of the one before");
    else if (devices > SCENARIO_DEVICE_LIMIT)
        blame(q, EXIT_DATA, key, "%lld devices are more than %d", (long long)devices,
              SCENARIO_DEVICE_LIMIT);
    else if (!q->scenario->allreduce.columns)
        extent.grid = choose_grid(q, resolved, extent).grid;
    else if (devices % q->scenario->allreduce.columns)
        blame(q, EXIT_DATA, key, "its %lld devices do not fill %lld columns of the grid",
              (long long)devices, (long long)q->scenario->allreduce.columns);
    else
        extent.grid.rows = (int32_t)(devices / extent.grid.columns);
    struct err found = {0};
    if (!q->faults && platform_check_extent(q->platform, extent.nodes, extent.devices_per_node,
                                            extent.grid, &found))
        blame_found(q, key, &found);
    return extent;
}

/* Find the devices of each phase. */
static void resolving_find_phases(struct question *q, struct resolved *resolved)
{
    int32_t count = q->scenario->training.phase.count;
    resolved->phase = base_alloc(count, sizeof(*resolved->phase));
    for (int32_t i = 0; i < count; i++)
        resolved->phase[i] = phase_extent(q, resolved, i);
}

/* ---- batches ---- */

static void refuse_uneven(struct question *q, const char *key, int64_t batch, int64_t devices)
{
    int64_t parts = scenario_parts(q->scenario), passes = phase_passes(q->scenario);
    int64_t multiple = phase_multiple(q->scenario, (batch + devices - 1) / devices);
    int64_t each = devices * multiple, below = batch / each * each, above = below + each;
    AUTOFREE char *groups =
        parts > 1 ? base_format("groups of %lld ", (long long)parts) : base_copy("");
    AUTOFREE char *in = multiple == 1
                            ? base_copy("")
                            : base_format(passes > 1 ? " in %lld passes" : " in parts of %lld",
                                          (long long)multiple);
    AUTOFREE char *way = below ? base_format("round: down beside it trains %lld, round: up %lld",
                                             (long long)below, (long long)above)
                               : base_format("use at least %lld", (long long)above);
    blame(q, ranks_code(q), key, "%lld %s %s %lld %sdevices%s; %s", (long long)batch,
          model_inputs(q->model, batch),
          below ? "cannot be divided evenly among" : "are fewer than the", (long long)devices,
          groups, in, way);
}

/* Images that a device may take at once so that FLOP of a layer and bytes of all fit 64 bits. */
static double most_at_once(const struct model *model)
{
    double flops = 1, elements = 1;
    for (int32_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layer[i];
        double work = 6 * (double)layer_multiply_adds(layer) + 3 * (double)layer->flops;
        flops = fmax(flops, work);
        elements += (double)shape_elements(layer->in) + (double)shape_elements(layer->out) +
                    (double)layer->elements;
    }
    return fmin(9e18 / flops, 9e18 / 64 / elements);
}

static void check_phase(struct question *q, int32_t index, int64_t devices)
{
    const struct scenario *s = q->scenario;
    const struct scenario_phase *phase =
        (const struct scenario_phase *)s->training.phase.item + index;
    AUTOFREE char *key = base_format("training.phases.%d.%s", index,
                                     phase->global_batch ? "global_batch" : "batch_per_device");
    int64_t batch = phase_batch(s, phase, devices), micro = s->training.micro_batch;
    int64_t layers = q->model->layer_count;
    int64_t most = q->wish->repeat ? INT32_MAX / 2 : RESOLVED_PASSES_MOST / layers;
    if (batch == 0 || (phase->global_batch && phase->round == ROUND_EXACT &&
                       phase->global_batch != batch * devices))
        refuse_uneven(q, key, phase->global_batch, devices);
    else if (batch * devices > s->training.train_images)
        blame(q, phase->global_batch ? EXIT_DATA : ranks_code(q), key,
              "a step would take %lld %s, more than the %lld of an epoch",
              (long long)(batch * devices), model_inputs(q->model, 0),
              (long long)s->training.train_images);
    else if ((double)phase_micro_batch(s, batch) > most_at_once(q->model))
        blame(q, EXIT_DATA, key,
              "%lld %s of %s at once count beyond 64 bits; training.micro_batch divides them",
              (long long)phase_micro_batch(s, batch), model_inputs(q->model, 0), q->model->name);
    else if (micro > 0 && batch > micro && batch % micro)
        blame(q, EXIT_DATA, key, "%lld %s per device are no multiple of training.micro_batch: %lld",
              (long long)batch, model_inputs(q->model, batch), (long long)micro);
    else if (phase_micro_batch(s, batch) * most < batch)
        blame(q, EXIT_DATA, key,
              "%lld %s per device in parts of %lld are more than %lld parts, of %lld layers each; "
              "use parts of at least %lld",
              (long long)batch, model_inputs(q->model, batch),
              (long long)phase_micro_batch(s, batch), (long long)most, (long long)layers,
              (long long)((batch - 1) / most + 1));
    else if (s->parallel.chunks > 1 && batch / phase_micro_batch(s, batch) % s->parallel.pipeline)
        blame(q, EXIT_DATA, "parallel.chunks",
              "%lld micro-batches are no multiple of the %lld stages, which take turns with so "
              "many of a chunk; without chunks any number can be",
              (long long)(batch / phase_micro_batch(s, batch)), (long long)s->parallel.pipeline);
}

/* What is done every so many epochs is done between two steps. */
static void check_interval(struct question *q, const char *key, double epochs,
                           const struct resolved *resolved)
{
    const struct scenario_phase *phase = q->scenario->training.phase.item;
    int64_t images = 0;
    for (int32_t i = 0; i < q->scenario->training.phase.count; i++) {
        int64_t devices = extent_replicas(resolved->phase[i]);
        int64_t global = phase_batch(q->scenario, &phase[i], devices) * devices;
        images = global > images ? global : images;
    }
    double step = (double)images / (double)q->scenario->training.train_images;
    if (epochs > 0 && epochs < step * (1 - 1e-9))
        blame(q, EXIT_DATA, key, "%g epochs are less than one step, which takes %.6g epochs",
              epochs, step);
}

/* ---- the target ---- */

/* Batches are those of published runs, and the last phase has a part in it. */
static void check_target(struct question *q, int64_t devices)
{
    const struct scenario *s = q->scenario;
    if (s->training.target > 0 && q->wish->real)
        blame(q, EXIT_UNAVAILABLE, "training.target",
              "a target is for predictions; to train, give the last phase's epochs in its place: "
              "'foretrain predict' says how many it takes");
    if (!(s->training.target > 0) || q->faults)
        return;
    struct convergence curve = scenario_convergence(s);
    AUTORELEASE(plan) struct plan plan = plan_build(s, devices);
    for (int32_t i = 0; i < plan.phase_count && !s->training.extrapolate; i++) {
        const struct phase *phase = &plan.phase[i];
        bool given = ((const struct scenario_phase *)s->training.phase.item)[i].global_batch;
        AUTOFREE char *key =
            base_format("training.phases.%d.%s", i, given ? "global_batch" : "batch_per_device");
        if (convergence_is_outside(&curve, phase->global_batch))
            blame(q, ranks_code(q), key,
                  "%lld images a step are outside of what the recipe knows, %lld to %lld; to go on "
                  "by E0 (1 + B / Bc): training.extrapolate: true",
                  (long long)phase->global_batch, (long long)curve.point[0].batch,
                  (long long)curve.point[curve.count - 1].batch);
    }
    if (plan_progress(&plan, 0) >= 1)
        blame(q, EXIT_DATA, "training.target",
              "the phases before the last one already reach the target: %.0f %% of the way",
              100 * plan_progress(&plan, 0));
}

/* ---- memory ---- */

int64_t resolved_fitting_part(int64_t batch, int64_t most)
{
    int64_t parts = (batch - 1) / most + 1;
    while (batch % parts)
        parts++;
    return batch / parts;
}

/* ---- all phases ---- */

/* Check batches and target of all phases. */
static void resolving_check_phases(struct question *q, const struct resolved *resolved)
{
    for (int32_t i = 0; i < q->scenario->training.phase.count; i++)
        check_phase(q, i, extent_replicas(resolved->phase[i]));
    check_interval(q, "training.evaluate_every", q->scenario->training.evaluate_every, resolved);
    check_interval(q, "training.checkpoint.every", q->scenario->training.checkpoint.every,
                   resolved);
    check_target(q, extent_devices(resolved->cluster));
}

/* ---- all together ---- */

/* The fewest of all phases: the most memory. */
static int32_t find_shards(const struct question *q, const struct resolved *resolved)
{
    int32_t shards = iteration_shards(q->scenario, resolved->cluster.grid);
    for (int32_t i = 0; i < q->scenario->training.phase.count; i++) {
        int32_t here = iteration_shards(q->scenario, resolved->phase[i].grid);
        shards = here < shards ? here : shards;
    }
    return shards;
}

/* Micro-batches of a step, in the phase that has most. */
static int64_t find_micros(const struct question *q, const struct resolved *resolved)
{
    const struct scenario_phase *phase = q->scenario->training.phase.item;
    int64_t most = 1;
    for (int32_t i = 0; i < q->scenario->training.phase.count; i++) {
        int64_t batch = phase_batch(q->scenario, &phase[i], extent_replicas(resolved->phase[i]));
        int64_t here = batch > 0 ? batch / phase_micro_batch(q->scenario, batch) : 1;
        most = here > most ? here : most;
    }
    return most;
}

static int64_t find_most_images(const struct question *q, const struct resolved *resolved)
{
    const struct device *device = &q->platform->device;
    int64_t workspace = device->compute_capability > 0 ? memory_workspace(q->model) : 0;
    const struct memory_case of = {
        q->model, q->scenario, device->merges, resolved->shards, find_micros(q, resolved), 1};
    return memory_largest_batch(&of, workspace, 0, (int64_t)device->memory.value);
}

/* Whether @s may have that stage of sharding. */
static bool may_shard(const struct scenario *s, int32_t stage)
{
    enum algorithm algorithm = (enum algorithm)s->allreduce.algorithm;
    bool opens = algorithm == ALGORITHM_RING || algorithm == ALGORITHM_TORUS2D ||
                 algorithm == ALGORITHM_NCCL;
    return opens && !s->allreduce.channels && s->training.optimizer != OPTIMIZER_ADAFACTOR &&
           (stage < 2 || (s->parallel.pipeline < 2 && s->allreduce.overlap != OVERLAP_NONE));
}

/* Whether nothing but memory is wrong with the job @other, and a pass of one fits that. */
static bool would_fit(const struct question *q, const struct scenario *other)
{
    struct wish wish = *q->wish;
    struct resolved result;
    AUTORELEASE(err) struct err ignored = {0};
    wish.ignore_memory = true;
    if (resolved_build(&result, other, q->platform, NULL, q->model, &wish, &ignored))
        return false;
    bool fits = result.most_images > 0;
    resolved_release(&result);
    return fits;
}

/* What takes less memory, the most last. */
static const struct {
    int32_t sharding; /* 0: as it is */
    enum recompute recompute;
    const char *set;
} ways[] = {
    {0, RECOMPUTE_NONE, ""},
    {0, RECOMPUTE_SELECTIVE, " --set parallel.recompute=selective"},
    {1, RECOMPUTE_NONE, " --set parallel.sharding=1"},
    {0, RECOMPUTE_FULL, " --set parallel.recompute=full"},
    {1, RECOMPUTE_FULL, " --set parallel.sharding=1 --set parallel.recompute=full"},
    {3, RECOMPUTE_NONE, " --set parallel.sharding=3"},
    {3, RECOMPUTE_FULL, " --set parallel.sharding=3 --set parallel.recompute=full"},
};

/* The job with so many @stages and ways[@i], into @other.  @return whether that is open to it. */
static bool take_way(const struct question *q, int64_t stages, size_t i, struct scenario *other)
{
    *other = *q->scenario;
    int64_t own = other->parallel.sharding, sharding = ways[i].sharding;
    other->parallel.pipeline = stages;
    if ((stages > 1 && own > 1) || (int32_t)ways[i].recompute < other->parallel.recompute ||
        (sharding && (sharding <= own || !may_shard(other, (int32_t)sharding))))
        return false;
    other->parallel.sharding = sharding ? sharding : own;
    other->parallel.recompute = (int32_t)ways[i].recompute;
    return true;
}

/* The least that makes a pass of one fit the memory, as --set takes it, or NULL; owned.  As few
 * stages as will do. */
static char *find_way(const struct question *q)
{
    int64_t least = q->scenario->parallel.pipeline > 1 ? q->scenario->parallel.pipeline : 1;
    for (int64_t stages = least; stages <= q->model->layer_count; stages *= 2) {
        struct scenario other;
        size_t last = ARRAY_SIZE(ways) - 1, i = 0;
        while (last > 0 && !take_way(q, stages, last, &other))
            last--;
        if (!take_way(q, stages, last, &other) || !would_fit(q, &other))
            continue;
        while (i < last && !(take_way(q, stages, i, &other) && would_fit(q, &other)))
            i++;
        return stages > least
                   ? base_format(" --set parallel.pipeline=%" PRId64 "%s", stages, ways[i].set)
                   : base_copy(ways[i].set);
    }
    return NULL;
}

static void check_memory(struct question *q, int32_t index, int64_t devices,
                         const struct resolved *resolved)
{
    int64_t most = resolved->most_images;
    const struct scenario *s = q->scenario;
    const struct device *device = &q->platform->device;
    const struct scenario_phase *phase =
        (const struct scenario_phase *)s->training.phase.item + index;
    int64_t batch = phase_batch(s, phase, devices), micro = phase_micro_batch(s, batch);
    if (q->faults || micro <= most)
        return;
    AUTOFREE char *key = base_format("training.phases.%d.%s", index,
                                     phase->global_batch ? "global_batch" : "batch_per_device");
    int64_t part = most ? resolved_fitting_part(batch, most) : 0;
    AUTOFREE char *parts =
        most == 0 || 4 * part < most ? base_copy("")
        : phase_passes(s) == 1
            ? base_format("; in parts: training.%smicro_batch=%lld",
                          phase->micro_batch ? "phases[*]." : "", (long long)part)
        : phase->global_batch
            ? base_format("; in more passes: training.accumulate=%lld", (long long)(batch / part))
            : base_format("; in more passes: batch_per_device: %lld, training.accumulate: %lld",
                          (long long)part, (long long)(batch / part));
    AUTOFREE char *way = most == 0 ? find_way(q) : NULL;
    if (most == 0)
        blame(q, EXIT_DATA, key,
              "%s does not fit the %s of %s, even with one %s%s%s; 'foretrain predict "
              "--ignore-memory' predicts it all the same",
              q->model->name, unit_text(UNIT_BYTES, device->memory.value), device->name,
              model_inputs(q->model, 1),
              way ? "; it does with"
              : !q->platform->nodes
                  ? "; parallel.sharding=3 divides it over the columns of allreduce.grid"
              : scenario_tensor(s) < resolved->cluster.devices_per_node
                  ? "; a larger parallel.tensor or, of long sequences, parallel.context may help"
                  : "; more nodes may help, for more stages, or of long sequences parallel.context",
              way ? way : "");
    else
        blame(q, EXIT_DATA, key,
              "%lld %s at once do not fit the %s of %s, at most %lld do%s; 'foretrain predict "
              "--ignore-memory' predicts them all the same",
              (long long)micro, model_inputs(q->model, micro),
              unit_text(UNIT_BYTES, device->memory.value), device->name, (long long)most, parts);
}

static struct noise find_noise(const struct scenario *s, const struct device *device)
{
    bool given = scenario_is_given(s, "noise.compute_cv");
    return (struct noise){.compute_cv = given ? s->noise.compute_cv : device->jitter.value,
                          .straggler_fraction = s->noise.straggler_fraction,
                          .straggler_slowdown = s->noise.straggler_slowdown,
                          .seed = (uint64_t)s->seed};
}

static void count_cut(struct resolved *resolved, const struct scenario *s,
                      const struct model *model)
{
    int64_t all = gradient_bytes(s, model);
    resolved->tensors = model->tensor_count;
    if (all == 0)
        return;
    resolved->all_reduces = (all + resolved->bucket - 1) / resolved->bucket;
    for (int32_t i = 0; i < model->tensor_count; i++)
        resolved->cut += model->tensor[i].elements * dtype_size((enum dtype)s->model.gradients) >
                         resolved->bucket;
}

static void check_recompute(struct question *q)
{
    static const char *const parts[RECOMPUTE_COUNT] = {NULL, "norms of a transformer",
                                                       "latent attention", "attention", "blocks"};
    bool any = false;
    if (q->scenario->parallel.recompute == RECOMPUTE_NONE)
        return;
    for (int32_t i = 0; i < q->model->layer_count && !any; i++)
        any = memory_again(q->model, q->scenario, i) >= 0;
    if (q->wish->real)
        blame(q, EXIT_UNAVAILABLE, "parallel.recompute",
              "devices keep what backward reads; other words are for predictions: use --set "
              "parallel.recompute=none");
    else if (!any)
        blame(q, EXIT_DATA, "parallel.recompute", "no effect: %s has no %s", q->model->name,
              parts[q->scenario->parallel.recompute]);
}

/* Where not all positions are attended to. */
static void check_attention(struct question *q)
{
    static const char *const key[] = {"model.document", "model.window"};
    const struct scenario *s = q->scenario;
    bool ring = s->parallel.context > 1 && s->parallel.context_by == CONTEXT_RING;
    bool flash = q->platform->device.merges.attention == ATTENTION_FLASH, some = false;
    for (size_t i = 0; i < ARRAY_SIZE(key) && !q->wish->real && !flash; i++)
        if (scenario_is_given(s, key[i]))
            blame(q, EXIT_DATA, key[i],
                  "no effect: all scores are computed; use --set cluster.software=pytorch-flash");
    for (int32_t i = 0; i < q->model->layer_count; i++)
        some = some || (q->model->layer[i].op == LAYER_MATMUL && q->model->layer[i].flops);
    if (some && ring && !s->model.transformer.document)
        blame(q, EXIT_DATA, "parallel.context_by",
              "windows do not go around a ring: use --set parallel.context_by=all-gather");
}

/* Whether @devices that do @what together are whole nodes of @each, or equal parts of one. */
static void check_whole(struct question *q, const char *key, int64_t devices, int64_t each,
                        const char *what)
{
    if (devices % each && each % devices)
        blame(q, EXIT_DATA, key,
              "%lld devices %s are neither whole nodes of %lld nor equal parts of one",
              (long long)devices, what, (long long)each);
}

/* Those of a stage, and those that share a sequence or experts. */
static void check_stages(struct question *q, const struct resolved *resolved)
{
    const struct extent extent[] = {resolved->cluster, resolved->baseline};
    const struct scenario *s = q->scenario;
    int64_t parts = scenario_parts(s), stages = s->parallel.pipeline, slices = s->parallel.context;
    const char *const key[] = {stages > 1               ? "parallel.pipeline"
                               : slices > 1             ? "parallel.context"
                               : s->parallel.expert > 1 ? "parallel.expert"
                                                        : "parallel.tensor",
                               "baseline.nodes"};
    AUTORELEASE(pipeline) struct pipeline pipeline = {0};
    struct err found = {0};
    if (q->wish->real && (slices > 1 || s->parallel.expert > 1))
        blame(q, EXIT_UNAVAILABLE, slices > 1 ? "parallel.context" : "parallel.expert",
              "parallel.context and expert are for predictions: devices train on whole sequences, "
              "with all experts");
    if (pipeline_build(&pipeline, q->model, q->scenario, &found))
        blame_found(q, key[0], &found);
    for (size_t i = 0; i < ARRAY_SIZE(extent) && !q->faults; i++) {
        int64_t devices = extent_devices(extent[i]), each = extent[i].devices_per_node;
        if (devices % parts)
            blame(q, EXIT_DATA, key[i],
                  "%lld devices are no multiple of the %lld that have one batch together: "
                  "parallel.tensor times parallel.context times parallel.pipeline",
                  (long long)devices, (long long)parts);
        if (!q->faults && stages > 1 && !q->wish->real)
            check_whole(q, key[i], devices / stages, each, "of a stage");
        int64_t expert = s->parallel.expert, experts = scenario_expert_ranks(s);
        int64_t alike = devices / (stages > 1 ? stages : 1) * expert / experts;
        if (!q->faults && expert > 1 && alike % expert)
            blame(q, EXIT_DATA, i ? key[i] : "parallel.expert",
                  "%lld devices hold the same layers, and %lld that share their experts do not "
                  "divide them",
                  (long long)alike, (long long)expert);
        if (!q->faults && expert > 1)
            check_whole(q, i ? key[i] : "parallel.expert", experts, each, "that share experts");
        if (!q->faults && slices > 1)
            check_whole(q, i ? key[i] : "parallel.context", slices * scenario_tensor(s), each,
                        "that share a sequence");
    }
}

/* Layers are shared inside of a node or by whole ones; ranks that train share them anywhere. */
static void check_parallel(struct question *q, const struct resolved *resolved)
{
    int64_t tensor = scenario_tensor(q->scenario), parts = scenario_parts(q->scenario);
    bool real = q->wish->real;
    const int32_t each[] = {real ? (int32_t)extent_devices(resolved->cluster)
                                 : resolved->cluster.devices_per_node,
                            resolved->baseline.devices_per_node};
    static const char *const key[] = {"parallel.tensor", "baseline.devices_per_node"};
    check_recompute(q);
    check_attention(q);
    bool experts = q->scenario->parallel.expert > 1;
    if (parts == 1 && !experts)
        return;
    if (parts > tensor || experts || (!real && (tensor > each[0] || tensor > each[1])))
        check_stages(q, resolved);
    for (size_t i = 0; i < (real ? 1 : ARRAY_SIZE(each)) && !q->faults; i++)
        if (each[i] % tensor && (real || tensor % each[i]))
            blame(q, EXIT_DATA, key[i],
                  "%lld devices that share layers do not fill a %s of %d; parallel.tensor must "
                  "divide that%s",
                  (long long)tensor, real ? "job" : "node", each[i],
                  real ? "" : ", or be a multiple of it");
    if (!q->faults && !real && !q->platform->nodes)
        blame(q, EXIT_DATA, tensor > 1 ? "parallel.tensor" : "parallel.pipeline",
              "devices of %s are not in nodes, which share layers or have a stage each",
              q->platform->name);
    if (resolved->order != RANK_ORDER_ROW)
        blame(q, EXIT_USAGE, NULL,
              "--order has no effect where devices share layers or have a stage each");
    if (resolved->algorithm == ALGORITHM_TORUS2D && resolved->column_algorithm == ALGORITHM_NCCL)
        blame(q, EXIT_DATA, tensor > 1 ? "parallel.tensor" : "parallel.pipeline",
              "NCCL's columns take one rank of each node, and all ranks train all layers; use "
              "allreduce.algorithm: nccl");
}

static void check_all(struct question *q, const struct resolved *resolved)
{
    resolving_check_phases(q, resolved);
    check_chunk(q, resolved);
    if (q->wish->real)
        return;
    check_norm(q, resolved->cluster);
    check_parts(q, resolved);
    check_channels(q, resolved);
    if (!check_room(q, q->wish->nodes ? NULL : "cluster", resolved->cluster))
        check_room(q, "baseline", resolved->baseline);
    check_order(q);
    if (!q->wish->ignore_memory)
        for (int32_t i = 0; i < q->scenario->training.phase.count; i++)
            check_memory(q, i, extent_replicas(resolved->phase[i]), resolved);
}

int resolved_build(struct resolved *resolved, const struct scenario *scenario,
                   const struct platform *platform, const struct software *software,
                   const struct model *model, const struct wish *wish, struct err *err)
{
    struct question q = {scenario, platform, model, wish, err, 0};
    *resolved = (struct resolved){
        .order = wish->order,
        .repeat = wish->repeat,
        .algorithm = (enum algorithm)scenario->allreduce.algorithm,
        .column_algorithm =
            column_algorithm((enum column_algorithm)scenario->allreduce.column_algorithm),
        .bucket = bucket_limit(model, scenario),
        .optimizer = optimizer_names[scenario->training.optimizer],
        .state = optimizer_state(model, scenario, 1) * dtype_size(scenario->model.master),
        .noise = find_noise(scenario, &platform->device),
        .nccl = software ? (int32_t)software->nccl : 0,
        .software = software ? software->name : NULL,
        .inputs = model_inputs(model, 0),
    };
    count_cut(resolved, scenario, model);
    find_cluster(&q, &resolved->cluster);
    resolved->channels =
        channel_count(scenario->allreduce.channels, resolved->cluster.devices_per_node);
    if (!q.faults)
        find_baseline(&q, resolved->cluster, &resolved->baseline);
    if (!q.faults)
        check_parallel(&q, resolved);
    if (!q.faults)
        find_grid(&q, resolved);
    if (!q.faults)
        resolving_find_phases(&q, resolved);
    if (!q.faults) {
        resolved->shards = find_shards(&q, resolved);
        resolved->sharding = (int32_t)scenario->parallel.sharding;
        resolved->most_images = find_most_images(&q, resolved);
        resolved->stages = resolved_stages(scenario, model, find_micros(&q, resolved));
        check_all(&q, resolved);
        check_bucket(&q, resolved); /* last: what fits no device has too many, too */
    }
    if (q.faults) {
        resolved_release(resolved);
        return -1;
    }
    resolved->plan = plan_build(scenario, grid_ranks(resolved->cluster.grid));
    return 0;
}

void resolved_release(struct resolved *resolved)
{
    plan_release(&resolved->plan);
    free(resolved->phase);
    free(resolved->stages);
    *resolved = (struct resolved){0};
}
