#include "app/cli/command.h"
#include "app/cli/csv.h"
#include "app/cli/sizes.h"
#include "app/job/job.h"
#include "app/show/show.h"
#include "app/show/show_collective.h"
#include "core/convergence/convergence.h"

struct show_model_request {
    struct request head;
    int32_t image, sequence; /* [pixels], [tokens] */
    bool yaml;
};

struct show_job_request {
    struct request head;
    struct option_list set;
    int32_t phase; /* from 1; 0: the last */
    bool baseline;
};

struct show_platform_request {
    struct request head;
    bool assumed; /* always false for a device */
};

struct show_collective_request {
    struct request head;
    int32_t algorithm; /* enum algorithm */
    int32_t ranks;     /* -1: not given */
    const char *grid, *platform, *bytes, *motion;
    bool text;
};

struct show_convergence_request {
    struct request head;
    struct show_convergence what;
};

static int show_curves(const void *record, struct text *out, struct err *err)
{
    const struct show_convergence_request *request = record;
    struct show_convergence what = request->what;
    what.json = request->head.json;
    if (show_convergence_check(&what, err))
        return -1;
    if (what.json || !csv_is_answer(&request->head))
        show_convergence(&what, out);
    return csv_write(&request->head, show_convergence_rows(&what), NULL, out, err);
}

static int show_network(const void *record, struct text *out, struct err *err)
{
    const struct show_model_request *request = record;
    return show_model(request->head.argument.item[0], request->image, request->sequence,
                      request->yaml        ? SHOW_MODEL_YAML
                      : request->head.json ? SHOW_MODEL_JSON
                                           : SHOW_MODEL_TABLE,
                      out, err);
}

static int show_scenario(const void *record, struct text *out, struct err *err)
{
    const struct show_job_request *request = record;
    const char *path = request->head.argument.item[0];
    bool platform = false; /* is changed, and checked for that reason */
    for (int32_t i = 0; i < request->set.count; i++)
        platform = platform || !scenario_takes(request->set.item[i]);
    AUTORELEASE(job) struct job job = {0};
    if (platform &&
        job_read(&job, NULL, path, request->set.item, request->set.count, &draw_centre, err))
        return -1;
    return scenario_explain(out, path, request->set.item, request->set.count, err);
}

static int show_schedule(const void *record, struct text *out, struct err *err)
{
    const struct show_job_request *request = record;
    AUTORELEASE(job) struct job job = {0};
    if (job_open(&job, NULL, request->head.argument.item[0], request->set.item, request->set.count,
                 &draw_centre, &(struct wish){.ignore_memory = true}, err))
        return -1;
    AUTORELEASE(point) struct point point = {0};
    int failed = job_point(&job, request->baseline ? JOB_BASELINE : request->phase, &point, err);
    if (!failed && request->head.json)
        schedule_print_json(out, point.schedule);
    else if (!failed)
        schedule_print(out, point.schedule);
    return failed;
}

static int show_job(const void *record, struct text *out, struct err *err)
{
    const struct show_job_request *request = record;
    AUTORELEASE(job) struct job job = {0};
    if (job_open(&job, NULL, request->head.argument.item[0], request->set.item, request->set.count,
                 &draw_centre, &(struct wish){.ignore_memory = true}, err))
        return -1;
    resolved_print(out, &job.resolved,
                   grid_matters(job.resolved.algorithm, job.resolved.order, job.platform));
    return 0;
}

static void print_assumed(void *context, const struct quantity *quantity, enum unit unit)
{
    struct text *out = context;
    if (quantity->provenance != PROVENANCE_ASSUMED)
        return;
    text_add(out, "%s = %s (%s)\n", quantity->path, unit_text(unit, quantity->value),
             quantity->source ? quantity->source : "no source");
}

static int show_platform(const void *record, struct text *out, struct err *err)
{
    const struct show_platform_request *request = record;
    struct unknowns unknowns = {0};
    AUTORELEASE(platform)
    struct platform *platform =
        platform_read_changed(NULL, request->head.argument.item[0], NULL, 0, &unknowns, err);
    unknowns_release(&unknowns);
    if (!platform)
        return -1;
    if (request->head.json)
        platform_print_json(out, platform);
    else if (request->assumed)
        platform_each_quantity(platform, print_assumed, out);
    else
        platform_print(out, platform);
    return 0;
}

static int show_device(const void *record, struct text *out, struct err *err)
{
    const struct show_platform_request *request = record;
    AUTORELEASE(device) struct device device = {0};
    if (device_read(&device, request->head.argument.item[0], err))
        return -1;
    if (request->head.json)
        device_print_json(out, &device);
    else
        device_print(out, &device);
    return 0;
}

/* Lay out the platform for @c, if one is named; of the hierarchical all-reduce its nodes are the
 * groups. */
static int lay_out(const struct show_collective_request *request, struct collective *c,
                   struct point *point, int64_t *bytes, struct err *err)
{
    if (!request->platform)
        return 0;
    if (chunk_read(bytes, request->bytes ? request->bytes : "100MB", err))
        return -1;
    struct platform *platform = platform_read(request->platform, err);
    int failed =
        !platform || point_collective(point, platform, (struct placement){.grid = c->grid},
                                      (struct all_reduce){.algorithm = c->algorithm}, *bytes, err);
    platform_free(platform);
    if (!failed && c->algorithm == ALGORITHM_HIERARCHICAL) {
        c->group = point->devices_per_node;
        c->grid = (struct grid){.columns = c->group, .rows = point->nodes};
    }
    return failed ? -1 : 0;
}

static void show_rounds(const struct show_collective_request *request, const struct collective *c,
                        const struct point *point, int64_t bytes, struct text *out)
{
    const char *many = base_plural(c->ranks);
    bool by_grid = c->algorithm == ALGORITHM_TORUS2D || c->algorithm == ALGORITHM_HIERARCHICAL;
    int32_t rounds = collective_rounds(c);
    text_add(out, "%s of %d element%s on %d rank%s by %s: %d round%s\n", collective_op_names[c->op],
             c->ranks, many, c->ranks, many, algorithm_names[c->algorithm], rounds,
             base_plural(rounds));
    if (by_grid && !request->grid && !request->platform)
        text_add(out, "grid %d x %d: nearest to a square, as no machine is named (--grid)\n",
                 c->grid.columns, c->grid.rows);
    else if (by_grid && !request->grid)
        text_add(out, "grid %d x %d\n", c->grid.columns, c->grid.rows);
    bool folded = c->ranks > SHOW_COLLECTIVE_RANKS;
    if (request->text)
        (folded ? folded_holdings : show_holdings)(out, c, point->fabric, bytes);
    else if (!request->motion)
        (folded ? folded_messages : show_messages)(out, c);
}

/* With one element per rank, blocks and elements are the same. */
static int show_collective(const void *record, struct text *out, struct err *err)
{
    const struct show_collective_request *request = record;
    struct grid grid = grid_nearest_square(request->ranks < 0 ? 4 : request->ranks);
    if (request->grid && grid_parse("--grid", request->grid, &grid, err))
        return -1;
    if (request->grid && request->ranks >= 0 && request->ranks != grid_ranks(grid))
        return err_add_code(err, 64, "--ranks %d: --grid %s has %d", request->ranks, request->grid,
                            grid_ranks(grid));
    int32_t ranks = grid_ranks(grid);
    if (ranks < 1 || ranks > SHOW_FOLDED_RANKS)
        return err_add_code(err, 64,
                            "%s: must be 1 to %d ranks; 'foretrain collective' times any number",
                            request->grid ? "--grid" : "--ranks", SHOW_FOLDED_RANKS);
    if (request->algorithm == ALGORITHM_MPI)
        return err_add_code(
            err, 64,
            "--algorithm: mpi has no rounds to show: they are known only to the MPI library");
    if (request->algorithm == ALGORITHM_NCCL)
        return err_add_code(err, 64,
                            "--algorithm: nccl has no rounds to show; 'foretrain collective "
                            "--json' shows its choice");
    struct collective c = {
        .op = COLLECTIVE_ALL_REDUCE,
        .algorithm = (enum algorithm)request->algorithm,
        .ranks = ranks,
        .group = grid.columns,
        .grid = grid,
        .elements = ranks,
    };
    AUTORELEASE(point) struct point point = {0};
    int64_t bytes = 0;
    int failed = lay_out(request, &c, &point, &bytes, err);
    if (!failed)
        show_rounds(request, &c, &point, bytes, out);
    if (!failed && request->motion)
        failed =
            show_motion(request->motion, &c, point.fabric ? point.devices_per_node : grid.columns,
                        point.fabric, bytes, err);
    if (!failed && request->motion)
        text_add(out, "written: %s\n", request->motion);
    return failed;
}

static const struct option model_options[] = {
    ROW_IMAGE(offsetof(struct show_model_request, image)),
    OPTION_ROW("sequence", 0, OPTION_INTEGER, offsetof(struct show_model_request, sequence),
               "TOKENS", NULL, "Positions of a sample of a network that reads tokens"),
    OPTION_ROW("yaml", 0, OPTION_FLAG, offsetof(struct show_model_request, yaml),
               .help = "As a network file, which model.network of a job may name", .bars = "json"),
    ROW_JSON, ROW_LAST};
static const struct option schedule_options[] = {
    ROW_SET_SHORT(offsetof(struct show_job_request, set)),
    ROW_SET_PLATFORM(offsetof(struct show_job_request, set)),
    ROW_PHASE(offsetof(struct show_job_request, phase)),
    ROW_BASELINE(offsetof(struct show_job_request, baseline)),
    ROW_JSON,
    ROW_LAST};
static const struct option platform_options[] = {
    OPTION_ROW("assumed", 0, OPTION_FLAG, offsetof(struct show_platform_request, assumed),
               .help = "Only the numbers that are assumed"),
    ROW_JSON, ROW_LAST};
static const struct option device_options[] = {ROW_JSON, ROW_LAST};
static const struct option scenario_options[] = {
    ROW_SET_SHORT(offsetof(struct show_job_request, set)),
    ROW_SET_PLATFORM(offsetof(struct show_job_request, set)), ROW_LAST};
static const struct option collective_options[] = {
    ROW_ALGORITHM(offsetof(struct show_collective_request, algorithm)),
    OPTION_ROW("ranks", 0, OPTION_INTEGER, offsetof(struct show_collective_request, ranks), "N",
               NULL, "Ranks taking part (default: 4)"),
    ROW_GRID(offsetof(struct show_collective_request, grid)),
    OPTION_ROW("text", 0, OPTION_FLAG, offsetof(struct show_collective_request, text),
               .help = "Draw what each rank holds of each chunk, after every round"),
    OPTION_ROW("animate", 0, OPTION_OUTPUT, offsetof(struct show_collective_request, motion),
               "FILE", NULL,
               "Write a page that plays the rounds, beside those of other algorithms"),
    OPTION_ROW("platform", 0, OPTION_TEXT, offsetof(struct show_collective_request, platform),
               "NAME", NULL, "Also what each round moves and how long it takes there",
               "text|animate"),
    OPTION_ROW("bytes", 0, OPTION_TEXT, offsetof(struct show_collective_request, bytes), "SIZE",
               NULL, "Of the vector (default: 100MB)", "platform"),
    ROW_LAST};

static const struct option convergence_options[] = {
    OPTION_ROW("recipe", 0, OPTION_WORD, offsetof(struct show_convergence_request, what.recipe),
               NULL, convergence_recipes, "Only this one"),
    OPTION_ROW("batch", 0, OPTION_INTEGER, offsetof(struct show_convergence_request, what.batch),
               "N", NULL, "Only this global batch"),
    OPTION_ROW("points", 0, OPTION_TEXT, offsetof(struct show_convergence_request, what.points),
               "BATCH:EPOCHS,...", NULL, "Fit these, measured ones, instead",
               .bars = "recipe|batch"),
    OPTION_ROW("accuracies", 0, OPTION_FLAG,
               offsetof(struct show_convergence_request, what.accuracies),
               .help = "Only the accuracies that others reached", .bars = "recipe|batch|points"),
    ROW_CSV("the curves, or with --accuracies those,"),
    ROW_JSON,
    ROW_LAST};

static const struct show_convergence_request convergence_defaults = {.what.recipe = -1};
static const struct show_collective_request collective_defaults = {.algorithm = ALGORITHM_RING,
                                                                   .ranks = -1};

static const struct command show_model_command = {
    ANSWERS(&model_columns),
    .name = "model",
    .synopsis = "NAME|FILE.yaml [options]",
    .help = "layers, parameters and FLOP of a network",
    .examples = "foretrain show model resnet50 --image 224\n"
                "foretrain show model resnet50 --yaml > mine.yaml",
    RECORD(model_options, struct show_model_request, NULL),
    TAKES(1, 1),
    .run = show_network,
};
static const struct command show_schedule_command = {
    ANSWERS(&schedule_columns),
    .name = "schedule",
    .synopsis = "JOB [options]",
    .help = "the steps that one rank runs in one iteration",
    .examples = "foretrain show schedule job.yaml --phase 1",
    RECORD(schedule_options, struct show_job_request, NULL),
    TAKES(1, 1),
    .jobs = true,
    .run = show_schedule,
};
static const struct command show_platform_command = {
    ANSWERS(&platform_columns),
    .name = "platform",
    .synopsis = "NAME [options]",
    .help = "a cluster and its devices, each number with its source",
    .examples = "foretrain show platform abci --assumed",
    RECORD(platform_options, struct show_platform_request, NULL),
    TAKES(1, 1),
    .run = show_platform,
};
static const struct command show_device_command = {
    ANSWERS(&device_columns),
    .name = "device",
    .synopsis = "NAME [options]",
    .help = "one kind of device, each number with its source",
    .examples = "foretrain show device h100-sxm5-80gb",
    RECORD(device_options, struct show_platform_request, NULL),
    TAKES(1, 1),
    .run = show_device,
};
static const struct command show_scenario_command = {
    .name = "scenario",
    .synopsis = "JOB [options]",
    .help = "every value of a scenario and where it comes from",
    .examples = "foretrain show scenario job.yaml --set cluster.nodes=64",
    RECORD(scenario_options, struct show_job_request, NULL),
    TAKES(1, 1),
    .jobs = true,
    .run = show_scenario,
};
static const struct command show_job_command = {
    .name = "job",
    .synopsis = "JOB [options]",
    .help = "what is decided where the scenario leaves it open: devices, grid, batches, noise",
    .examples = "foretrain show job job.yaml",
    RECORD(scenario_options, struct show_job_request, NULL),
    TAKES(1, 1),
    .jobs = true,
    .run = show_job,
};
static const struct command show_collective_command = {
    .name = "collective",
    .synopsis = "[options]",
    .help = "who sends what to whom in each round of an all-reduce",
    .examples =
        "foretrain show collective --algorithm ring --ranks 4\n"
        "foretrain show collective --algorithm torus2d --grid 4x4 --text --platform torus-4x4",
    RECORD(collective_options, struct show_collective_request, &collective_defaults),
    .run = show_collective,
};

static const struct command show_convergence_command = {
    ANSWERS(&convergence_columns),
    .name = "convergence",
    .synopsis = "[options]",
    .help = "epochs to an accuracy against the global batch, and published accuracies",
    .examples = "foretrain show convergence --recipe rcp-nvidia\n"
                "foretrain show convergence --batch 16384",
    RECORD(convergence_options, struct show_convergence_request, &convergence_defaults),
    .run = show_curves,
};

static const struct command *const kinds[] = {
    &show_scenario_command,    &show_job_command,
    &show_model_command,       &show_schedule_command,
    &show_platform_command,    &show_device_command,
    &show_collective_command,  &command_show_step,
    &show_convergence_command, NULL,
};

const struct command command_show = {
    .name = "show",
    .heading = "look",
    .help = "what stands between the scenario and the result, as text",
    .sub = kinds,
};
