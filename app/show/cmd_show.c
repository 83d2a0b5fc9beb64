#include "app/cli/command.h"

#include "app/cli/measure_list.h"
#include "app/job/job.h"
#include "core/base/columns.h"
#include "core/convergence/convergence.h"
#include "models/networks.h"

enum { IMAGENET_CLASSES = 1000 };

/* What all of them are asked for; one's own options are as by default in the others. */
struct show_request {
    struct request head;
    int32_t image, sequence; /* [pixels], [tokens] */
    bool yaml;

    struct texts set;
    int32_t phase; /* from 1; 0: the last */
    bool baseline;

    bool assumed;

    int32_t recipe;  /* an index in convergence_recipes; -1: all */
    int32_t batch;   /* only this global batch; 0: all of the curves, and powers of two between */
    bool accuracies; /* what others reached, and as text or CSV nothing else */
    const char *points; /* measured ones instead of recipes, "32:3.5,64:4,...": batch and epochs;
                             several of one batch are runs; NULL: none */
};

static void print_text(struct text *out, const struct model *model)
{
    struct shape in = model->input;
    AUTOFREE char *size = model->image ? base_format("%d pixels", model->image)
                                       : base_format("%dx%dx%d", in.channels, in.height, in.width);
    text_add(out, "%-28s %-12s %-16s %12s %14s %14s %14s\n", "layer", "kind", "output",
             "parameters", "forward", "backward-data", "backward-filter");
    for (int32_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layer[i];
        AUTOFREE char *shape =
            base_format("%dx%dx%d", layer->out.channels, layer->out.height, layer->out.width);
        text_add(out, "%-28s %-12s %-16s %12lld %14lld %14lld %14lld\n", layer->name,
                 layer_op_names[layer->op], shape, (long long)layer->parameters,
                 (long long)layer_flops(layer, PASS_FORWARD),
                 (long long)layer_flops(layer, PASS_BACKWARD_DATA),
                 (long long)layer_flops(layer, PASS_BACKWARD_FILTER));
    }
    text_add(out, "%-58s %12lld %14lld %14lld %14lld\n", "sum", (long long)model_parameters(model),
             (long long)model_flops(model, PASS_FORWARD),
             (long long)model_flops(model, PASS_BACKWARD_DATA),
             (long long)model_flops(model, PASS_BACKWARD_FILTER));
    text_add(out,
             "\n%s at %s: %d layers, %d tensors, %lld parameters, %lld multiply-adds "
             "forward.\nColumns are FLOP per image; one multiply-add is two.\n",
             model->name, size, model->layer_count, model->tensor_count,
             (long long)model_parameters(model), (long long)model_flops(model, PASS_FORWARD) / 2);
}

/* ---- for programs ---- */

struct shown_flops {
    int64_t forward, backward_data, backward_filter;
};

struct shown_layer {
    const struct layer *layer;
    const char *input[LAYER_INPUTS];
    const char *const *inputs;
    int32_t input_count;
    struct shown_flops flops;
};

struct shown_model {
    const char *name;
    int64_t parameters;
    int32_t image, tensors;
    struct shown_flops flops;
    struct shown_layer *layer; /* (layers) owned */
    int32_t layers;
};

COLUMNS(flops_columns, NULL, struct shown_flops)
{
    COLUMN("forward", forward, .help = "FLOP of an image forward");
    COLUMN("backward_data", backward_data, .help = "FLOP of an image for gradients of values");
    COLUMN("backward_filter", backward_filter,
           .help = "FLOP of an image for gradients of parameters");
}

COLUMNS(shape_columns, NULL, struct layer)
{
    COLUMN("name", name, .help = "of the layer");
    COLUMN("kind", op, .words = layer_op_names, .help = "of the layer");
    COLUMN("channels", out.channels, .help = "of its output");
    COLUMN("height", out.height, .help = "of its output");
    COLUMN("width", out.width, .help = "of its output");
    COLUMN("parameters", parameters, .help = "weights and biases");
}

COLUMNS(layer_columns, NULL, struct shown_layer)
{
    COLUMN_MEMBERS(layer, &shape_columns);
    COLUMN_ITEMS("inputs", inputs, input_count, .help = "names of layers, or input");
    COLUMN_OBJECT("flops", flops, &flops_columns);
}

COLUMNS(model_columns, "model/2", struct shown_model)
{
    COLUMN("name", name, .help = "of the network");
    COLUMN("image", image, .zero = true, .help = "side of an image; null: not a square image");
    COLUMN("parameters", parameters, .help = "weights and biases");
    COLUMN("tensors", tensors, .help = "tensors of parameters");
    COLUMN_OBJECT("flops", flops, &flops_columns);
    COLUMN_ITEMS("layers", layer, layers, .table = &layer_columns);
}

static void describe_layer(struct shown_layer *shown, const struct model *model,
                           const struct layer *layer)
{
    shown->layer = layer;
    shown->inputs = shown->input;
    shown->input_count = layer->input_count;
    for (int32_t i = 0; i < layer->input_count; i++)
        shown->input[i] = layer->input[i] < 0 ? "input" : model->layer[layer->input[i]].name;
    shown->flops = (struct shown_flops){layer_flops(layer, PASS_FORWARD),
                                        layer_flops(layer, PASS_BACKWARD_DATA),
                                        layer_flops(layer, PASS_BACKWARD_FILTER)};
}

static void print_json(struct text *out, const struct model *model)
{
    AUTOFREE struct shown_layer *layer = base_alloc(model->layer_count, sizeof(*layer));
    for (int32_t i = 0; i < model->layer_count; i++)
        describe_layer(&layer[i], model, &model->layer[i]);
    answer_print(
        out, &model_columns,
        &(struct shown_model){
            .name = model->name,
            .parameters = model_parameters(model),
            .image = model->image,
            .tensors = model->tensor_count,
            .flops = {model_flops(model, PASS_FORWARD), model_flops(model, PASS_BACKWARD_DATA),
                      model_flops(model, PASS_BACKWARD_FILTER)},
            .layer = layer,
            .layers = model->layer_count,
        });
}

static int refuse_job(const char *path, struct err *err)
{
    AUTORELEASE(job) struct job job = {0};
    AUTORELEASE(err) struct err ignored = {0};
    if (job_read(&job, NULL, path, NULL, 0, &draw_centre, &ignored))
        return 0;
    const char *network = job.scenario.model.network;
    return err_usage(err, "%s is a job; 'foretrain show model %s' shows its network", path,
                     network);
}

/* ---- foretrain show convergence ---- */

/* A line of the first table. */
struct line {
    const char *recipe;
    double target;
    int64_t batch;
    struct convergence_need need;
    struct interval likely; /* of the epochs */
    double formula;         /* of reference points; NAN: for other recipes */
    char from[32];          /* "17 runs", "published", "between points", "beyond points" */
    const char *source;     /* of the point; NULL: not a point */
};

/* ---- measured points ---- */

static const char measured[] = "measured";

/* One run of "32:3.5,64:4"; moves @text behind it.  Returns whether it is one. */
static bool read_run(const char **text, int64_t *batch, double *epochs)
{
    char *end;
    *batch = strtoll(*text, &end, 10);
    if (end == *text || *end != ':' || *batch < 1)
        return false;
    *text = end + 1;
    *epochs = strtod(*text, &end);
    if (end == *text || (*end && *end != ',') || !(*epochs > 0 && *epochs < 1e6))
        return false;
    *text = end + (*end == ',' && end[1]);
    return true;
}

ORDER_BY(compare_points, struct convergence_point, batch)

/* The runs of each batch as a point, smaller batches first. */
static bool read_points(const char *text, struct convergence *curve)
{
    double sum[CONVERGENCE_POINTS] = {0}, squares[CONVERGENCE_POINTS] = {0}, epochs;
    int32_t runs[CONVERGENCE_POINTS] = {0}, i;
    int64_t batch;
    while (*text) {
        if (!read_run(&text, &batch, &epochs))
            return false;
        for (i = 0; i < curve->count && curve->point[i].batch != batch;)
            i++;
        if (i == CONVERGENCE_POINTS)
            return false;
        curve->count += i == curve->count;
        curve->point[i].batch = batch;
        sum[i] += epochs;
        squares[i] += epochs * epochs;
        runs[i]++;
    }
    for (i = 0; i < curve->count; i++) {
        double mean = curve->point[i].epochs = sum[i] / runs[i];
        curve->point[i].spread =
            runs[i] > 1 ? sqrt(fmax(0, squares[i] - runs[i] * mean * mean) / (runs[i] - 1)) : 0;
    }
    if (curve->count < 3)
        return false;
    qsort(curve->point, (size_t)curve->count, sizeof(*curve->point), compare_points);
    curve->fit = convergence_fit_to(curve->point, curve->count);
    return true;
}

/* ---- lines ---- */

static const struct convergence_row *find_point(const char *recipe, int64_t batch)
{
    const struct convergence_row *row = convergence_rows;
    while (row->recipe && (strcmp(row->recipe, recipe) != 0 || row->batch != batch))
        row++;
    return row->recipe ? row : NULL;
}

static struct line describe(const char *recipe, const struct convergence *curve, int64_t batch)
{
    const double ninety = 1.645; /* standard deviations of a normal distribution */
    const struct convergence_row *point = find_point(recipe, batch);
    struct line line = {.recipe = recipe,
                        .target = curve->target,
                        .batch = batch,
                        .need = convergence_epochs(curve, batch),
                        .formula = strncmp(recipe, "rcp-", 4) && recipe != measured
                                       ? NAN
                                       : curve->fit.epochs * (1 + (double)batch / curve->fit.batch),
                        .source = point ? point->source : NULL};
    line.likely.low = line.need.epochs - ninety * line.need.spread;
    line.likely.high = line.need.epochs + ninety * line.need.spread;
    if (point && point->runs)
        snprintf(line.from, sizeof(line.from), "%lld runs", (long long)point->runs);
    else
        snprintf(line.from, sizeof(line.from), "%s",
                 point                                  ? "published"
                 : convergence_is_outside(curve, batch) ? "beyond points"
                                                        : "between points");
    return line;
}

/* The smallest batch above @batch that is a point, or a power of two behind the first; 0: none. */
static int64_t next_batch(const struct convergence *curve, int64_t batch)
{
    int64_t power = 1;
    int32_t i = 0;
    while (i < curve->count && curve->point[i].batch <= batch)
        i++;
    while (power <= batch)
        power *= 2;
    if (i == curve->count)
        return 0;
    return batch && power < curve->point[i].batch ? power : curve->point[i].batch;
}

/* All that is answered. */
struct answer {
    struct line *line; /* owned */
    int32_t lines;
    struct convergence_fit fit;
    double extra; /* evaluations */
    const struct convergence_accuracy *accuracy;
    int32_t accuracies;
};

static int make_answer(struct answer *answer, const struct show_request *what, struct err *err)
{
    struct convergence points = {.count = 0};
    *answer = (struct answer){.extra = CONVERGENCE_EXTRA, .accuracy = convergence_accuracies};
    if (what->points && !read_points(what->points, &points))
        return err_usage(err, "--points '%s': must be BATCH:EPOCHS,... with 3 to %d batches",
                         what->points, CONVERGENCE_POINTS);
    answer->fit = what->points ? points.fit : convergence_fit();
    while (convergence_accuracies[answer->accuracies].work)
        answer->accuracies++;
    for (int32_t i = 0; i < points.count; i++) {
        struct line line = describe(measured, &points, points.point[i].batch);
        snprintf(line.from, sizeof(line.from), "measured");
        BASE_NEXT(answer->line, answer->lines) = line;
    }
    for (int32_t r = 0; convergence_recipes[r] && !what->accuracies && !what->points; r++) {
        if (what->recipe >= 0 && what->recipe != r)
            continue;
        struct convergence curve = convergence_of(convergence_recipes[r]);
        int64_t batch = what->batch ? what->batch : next_batch(&curve, 0);
        for (; batch; batch = what->batch ? 0 : next_batch(&curve, batch))
            BASE_NEXT(answer->line, answer->lines) =
                describe(convergence_recipes[r], &curve, batch);
    }
    return 0;
}

/* ---- for programs ---- */

COLUMNS(line_columns, NULL, struct line)
{
    COLUMN("recipe", recipe, .help = "name of the published runs, or measured");
    COLUMN("target", target, .zero = true,
           .help = "top-1 accuracy at which they ended; null: of --points");
    COLUMN("batch", batch, .help = "images per step of all devices");
    COLUMN("epochs", need.epochs, LIKELY(likely), .help = "mean number that a run needs");
    COLUMN("epochs_spread", need.spread, .help = "standard deviation, of runs and of the curve");
    COLUMN("formula_epochs", formula, .null = true,
           .help = "the epochs by the formula; null: not a reference recipe");
    COLUMN("from", from, .help = "runs behind a point, or where the batch lies between points");
    COLUMN("source", source, .null = true, .help = "of a point; null: not a point");
}

COLUMNS(accuracy_columns, NULL, struct convergence_accuracy)
{
    COLUMN("work", work, .help = "who reached it");
    COLUMN("batch", batch, .zero = true, .help = "images per step; null: not known");
    COLUMN("batch_end", batch_end, .zero = true, .help = "images per step at the end, if it grew");
    COLUMN("epochs", epochs, .zero = true, .help = "of the run; null: not known");
    COLUMN("accuracy", accuracy, .help = "top-1, a fraction");
    COLUMN("note", note, .null = true, .help = "what was special");
    COLUMN("source", source, .help = "publication");
}

COLUMNS(convergence_columns, "convergence/2", struct answer)
{
    COLUMN_ITEMS("epochs", line, lines, .table = &line_columns);
    COLUMN("formula.epochs", fit.epochs, .help = "E0 of E0 (1 + batch / Bc)");
    COLUMN("formula.batch", fit.batch, .help = "Bc of E0 (1 + batch / Bc)");
    COLUMN("formula.median", fit.median, .help = "median of errors at points left out of the fit");
    COLUMN("formula.largest", fit.largest, .help = "largest of these errors");
    COLUMN("formula.rms", fit.rms, .help = "root mean square of these errors");
    COLUMN("further_evaluations", extra,
           .help = "evaluations of a run beyond that at the end of its schedule, mean");
    COLUMN_ITEMS("accuracies", accuracy, accuracies, .table = &accuracy_columns);
}

static void print_formula(struct text *out, const struct convergence_fit *fit, bool own)
{
    if (!own)
        text_add(out,
                 "\nepochs: mean of runs of resnet50 on imagenet; 90 %% lie between from and to.  "
                 "A run ends at an\nevaluation: predictions add %g evaluations in the mean.",
                 CONVERGENCE_EXTRA);
    text_add(out,
             "\nformula: %.3g (1 + batch / %.3g), fitted to the points%s; one that is left out is "
             "missed by %.1f %% in the\nmedian, %.1f %% at most, %.1f %% root mean square.\n",
             fit->epochs, fit->batch, own ? "" : " of rcp-nvidia and rcp-google", 100 * fit->median,
             100 * fit->largest, 100 * fit->rms);
}

/* As text accuracies only where nothing is chosen. */
static int show_curves(const void *record, struct text *out, struct err *err)
{
    const struct show_request *what = record;
    bool all = what->recipe < 0 && !what->batch && !what->points;
    bool text = !what->head.json && !csv_is_answer(&what->head);
    struct answer answer;
    if (make_answer(&answer, what, err))
        return -1;
    struct json *lines = answer_list(&line_columns, answer.line, answer.lines);
    struct json *reached = answer_list(&accuracy_columns, answer.accuracy, answer.accuracies);
    if (what->head.json)
        answer_print(out, &convergence_columns, &answer);
    if (text && !what->accuracies) {
        columns_print(
            out, "recipe, target: top-1, batch, epochs~, formula_epochs: formula, from: known by",
            lines);
        print_formula(out, &answer.fit, what->points);
        text_add(out, all ? "\n" : "");
    }
    if (text && (what->accuracies || all))
        columns_print(out, "work, batch, batch_end: to, epochs, accuracy: top-1, note, source",
                      reached);
    free(answer.line);
    json_free(what->accuracies ? lines : reached);
    return csv_write(&what->head, what->accuracies ? reached : lines, NULL, out, err);
}

static int show_network(const void *record, struct text *out, struct err *err)
{
    const struct show_request *request = record;
    const char *name = request->head.argument.item[0];
    const struct transformer keys = {.sequence = request->sequence};
    if (network_is_file(name) && refuse_job(name, err))
        return -1;
    struct model *model = network_open(NULL, name, request->image, IMAGENET_CLASSES, &keys, err);
    if (!model)
        return -1;
    if (request->yaml)
        network_print(out, model);
    else if (request->head.json)
        print_json(out, model);
    else
        print_text(out, model);
    model_free(model);
    return 0;
}

static int show_scenario(const void *record, struct text *out, struct err *err)
{
    const struct show_request *request = record;
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
    const struct show_request *request = record;
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
    const struct show_request *request = record;
    AUTORELEASE(job) struct job job = {0};
    if (job_open(&job, NULL, request->head.argument.item[0], request->set.item, request->set.count,
                 &draw_centre, &(struct wish){.repeat = true, .ignore_memory = true}, err))
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
    const struct show_request *request = record;
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
    const struct show_request *request = record;
    AUTORELEASE(device) struct device device = {0};
    if (device_read(&device, request->head.argument.item[0], err))
        return -1;
    if (request->head.json)
        device_print_json(out, &device);
    else
        device_print(out, &device);
    return 0;
}

#define AT(member) offsetof(struct show_request, member)

static const struct option model_options[] = {
    ROW_IMAGE(AT(image)),
    OPTION_ROW("sequence", 0, OPTION_INTEGER, AT(sequence), "TOKENS", NULL,
               "Positions of a sample of a network that reads tokens"),
    OPTION_ROW("yaml", 0, OPTION_FLAG, AT(yaml),
               .help = "As a network file, which model.network of a job may name", .bars = "json"),
    ROW_JSON, ROW_LAST};
static const struct option schedule_options[] = {ROW_SET_ALL(AT(set)), ROW_PHASE(AT(phase)),
                                                 ROW_BASELINE(AT(baseline)), ROW_JSON, ROW_LAST};
static const struct option platform_options[] = {
    OPTION_ROW("assumed", 0, OPTION_FLAG, AT(assumed), .help = "Only the numbers that are assumed"),
    ROW_JSON, ROW_LAST};
static const struct option device_options[] = {ROW_JSON, ROW_LAST};
static const struct option scenario_options[] = {ROW_SET_ALL(AT(set)), ROW_LAST};
static const struct option convergence_options[] = {
    OPTION_ROW("recipe", 0, OPTION_WORD, AT(recipe), NULL, convergence_recipes, "Only this one"),
    OPTION_ROW("batch", 0, OPTION_INTEGER, AT(batch), "N", NULL, "Only this global batch"),
    OPTION_ROW("points", 0, OPTION_TEXT, AT(points), "BATCH:EPOCHS,...", NULL,
               "Fit these, measured ones, instead", .bars = "recipe|batch"),
    OPTION_ROW("accuracies", 0, OPTION_FLAG, AT(accuracies),
               .help = "Only the accuracies that others reached", .bars = "recipe|batch|points"),
    ROW_CSV("the curves, or with --accuracies those,"),
    ROW_JSON,
    ROW_LAST};

static const struct show_request defaults = {.recipe = -1};

static const struct command show_model_command = {
    ANSWERS(&model_columns),
    .name = "model",
    .synopsis = "NAME|FILE.yaml [options]",
    .help = "layers, parameters and FLOP of a network",
    .examples = "foretrain show model resnet50 --image 224\n"
                "foretrain show model resnet50 --yaml > mine.yaml",
    RECORD(model_options, struct show_request, NULL),
    TAKES(1, 1),
    .run = show_network,
};
static const struct command show_schedule_command = {
    ANSWERS(&schedule_columns),
    .name = "schedule",
    .synopsis = "JOB [options]",
    .help = "the steps that one rank runs in one iteration",
    .examples = "foretrain show schedule job.yaml --phase 1",
    RECORD(schedule_options, struct show_request, NULL),
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
    RECORD(platform_options, struct show_request, NULL),
    TAKES(1, 1),
    .run = show_platform,
};
static const struct command show_device_command = {
    ANSWERS(&device_columns),
    .name = "device",
    .synopsis = "NAME [options]",
    .help = "one kind of device, each number with its source",
    .examples = "foretrain show device h100-sxm5-80gb",
    RECORD(device_options, struct show_request, NULL),
    TAKES(1, 1),
    .run = show_device,
};
static const struct command show_scenario_command = {
    .name = "scenario",
    .synopsis = "JOB [options]",
    .help = "every value of a scenario and where it comes from",
    .examples = "foretrain show scenario job.yaml --set cluster.nodes=64",
    RECORD(scenario_options, struct show_request, NULL),
    TAKES(1, 1),
    .jobs = true,
    .run = show_scenario,
};
static const struct command show_job_command = {
    .name = "job",
    .synopsis = "JOB [options]",
    .help = "what is decided where the scenario leaves it open: devices, grid, batches, noise",
    .examples = "foretrain show job job.yaml",
    RECORD(scenario_options, struct show_request, NULL),
    TAKES(1, 1),
    .jobs = true,
    .run = show_job,
};
static const struct command show_convergence_command = {
    ANSWERS(&convergence_columns),
    .name = "convergence",
    .synopsis = "[options]",
    .help = "epochs to an accuracy against the global batch, and published accuracies",
    .examples = "foretrain show convergence --recipe rcp-nvidia\n"
                "foretrain show convergence --batch 16384",
    RECORD(convergence_options, struct show_request, &defaults),
    .run = show_curves,
};

static const struct command *const kinds[] = {
    &show_scenario_command,    &show_job_command,
    &show_model_command,       &show_schedule_command,
    &show_platform_command,    &show_device_command,
    &command_show_collective,  &command_show_step,
    &show_convergence_command, NULL,
};

const struct command command_show = {
    .name = "show",
    .heading = "look",
    .help = "the intermediate stages between scenario and result, as text",
    .sub = kinds,
};
