#include "app/predict/predict.h"

#include "app/predict/assumption.h"
#include "app/predict/uncertainty.h"
#include "core/backend/floor.h"
#include "core/report/exchanges.h"

enum { WAIT_PERCENT = 10 /* from here on the sentence says what a step waits for */ };

static double images_per_s(const struct task *task)
{
    return (double)grid_replicas(task->point.grid) * (double)task->point.batch / task->step;
}

/* Whether the wait on @axis is mostly for collectives with more latency than time of bytes. */
static bool waits_for_latency(const struct task *task, enum axis axis)
{
    const struct schedule *schedule = task->point.schedule;
    AUTORELEASE(exchanges)
    struct report_exchanges list = exchanges_of(&task->point.run, schedule, task->quiet);
    double all = 0, latency = 0;
    for (int32_t i = 0; i < list.count; i++) {
        int32_t id = (int32_t)(list.exchange[i].step - schedule->step);
        if (list.exchange[i].exposed <= 0 || schedule->step[id].collective.axis != axis)
            continue;
        double seconds = floor_latency(&task->point.run, schedule, id);
        all += list.exchange[i].exposed;
        if (seconds >= floor_collective(task->point.fabric, schedule, id).seconds)
            latency += list.exchange[i].exposed;
    }
    return 2 * latency > all;
}

/* What a collective of the last phase waits for, in words. */
static char *describe_wait(const struct prediction *prediction)
{
    const struct task *last = prediction_last(prediction);
    const struct breakdown *step = &prediction->result.step;
    bool torus = prediction->job.scenario.allreduce.algorithm == ALGORITHM_TORUS2D;
    bool column = step->exposed_column > step->exposed_row;
    enum axis axis = !torus ? AXIS_WORLD : column ? AXIS_COLUMN : AXIS_ROW;
    AUTORELEASE(text) struct text beside = {0};
    int32_t tier = report_bottleneck(last->point.fabric, last->point.schedule, axis, &beside);
    if (breakdown_inside(step) > fmax(step->exposed_row, step->exposed_column))
        return base_copy(step->exposed_tensor >= fmax(step->exposed_context, step->exposed_expert)
                             ? "the exchange inside of layers"
                         : step->exposed_context > step->exposed_expert
                             ? "the exchange of keys and values"
                             : "positions on their way to experts");
    const char *which = !torus ? "all-reduce" : column ? "column all-reduce" : "row exchange";
    if (tier < 0)
        return base_format("the %s", which);
    if (waits_for_latency(last, axis))
        return base_format("the latency of the %s", which);
    return base_format("the %s on the %s%s", which, last->point.fabric->tier_name[tier],
                       beside.data ? beside.data : "");
}

/* Whether a step lasts as long as its images take: then nothing else would shorten it. */
static bool input_decides(const struct task *last, const struct breakdown *step)
{
    double seconds = 0;
    for (int32_t id = 0; id < last->point.schedule->step_count; id++)
        if (last->point.schedule->step[id].kind == STEP_INPUT)
            seconds += run_local_seconds(&last->point.run, &last->point.schedule->step[id]);
    return seconds > 0.999 * step->time;
}

void prediction_find_bound(struct prediction *prediction)
{
    struct result *result = &prediction->result;
    const struct breakdown *step = &result->step;
    AUTOFREE char *link = describe_wait(prediction);
    const struct {
        const char *name, *what;
        double percent;
    } wait[] = {
        {"communication", link, 100 * step->exposed_communication / step->time},
        {"input", model_inputs(prediction->job.model, 0), 100 * step->input_wait / step->time},
        {"slow devices", "the slowest device", 100 * step->slower / step->time},
        {"pipeline", "other stages", 100 * step->bubble / step->time},
    };
    double busy = 100 * (step->compute + step->slowed + step->other) / step->time;
    int most = 0;
    for (int i = 1; i < (int)ARRAY_SIZE(wait); i++)
        most = wait[most].percent < wait[i].percent ? i : most;
    bool starved =
        wait[1].percent >= WAIT_PERCENT && input_decides(prediction_last(prediction), step);
    most = starved ? 1 : most;
    bool bound = starved || wait[most].percent > busy;
    result->bound_by = base_copy(bound ? wait[most].name : "compute");
    if (wait[most].percent < WAIT_PERCENT)
        result->sentence = base_format("compute-bound: %.0f %% of each step waits for "
                                       "communication, %.0f %% for input",
                                       wait[0].percent, wait[1].percent);
    else
        result->sentence = base_format("%s: %.0f %% of each step waits for %s",
                                       !bound      ? "mostly compute"
                                       : most == 0 ? "communication-bound"
                                       : most == 1 ? "input-bound"
                                       : most == 3 ? "bound by its pipeline"
                                                   : "bound by slow devices",
                                       wait[most].percent, wait[most].what);
}

static bool any_grain(const struct prediction *prediction, const char *grain)
{
    for (int32_t i = 0; i < prediction->task_count; i++)
        if (!strncmp(prediction->task[i].quiet->grain, grain, strlen(grain)))
            return true;
    return false;
}

static void list_warnings(struct prediction *prediction)
{
    struct result *result = &prediction->result;
    const struct task *last = prediction_last(prediction);
    if (uncertainty_is_unknown(&prediction->job.platform->device))
        texts_add(&result->warning, "device ideal: nothing of compute is known; no interval");
    if (any_grain(prediction, "coarse"))
        texts_add(
            &result->warning,
            "the coarse grain was used: up to 20 %% optimistic where collectives share links");
    if (any_grain(prediction, "smoothed"))
        texts_add(&result->assumption,
                  "smoothed grain: links that cannot be filled left out, small differences in "
                  "latency rounded up; --grain folded is exact");
    if (last->drawn)
        texts_add(&result->warning,
                  "a single random sample of the noise (seed %llu), not the expected value",
                  (unsigned long long)last->noise.seed);
}

static struct scaling scale(const struct prediction *prediction, int32_t baseline)
{
    const struct task *task = &prediction->task[baseline], *last = prediction_last(prediction);
    double batches = (double)last->point.batch / (double)task->point.batch;
    return (struct scaling){.efficiency = batches * task->step / last->step,
                            .likely = {NAN, NAN},
                            .devices = grid_ranks(task->point.grid),
                            .batch = task->point.batch,
                            .images_per_s = images_per_s(task)};
}

static void compare(struct prediction *prediction)
{
    struct result *result = &prediction->result;
    int32_t baseline = baseline_of(prediction);
    result->weak = scale(prediction, baseline);
    if (baseline + 1 < prediction->task_count)
        result->strong = scale(prediction, baseline + 1);
    result->step_likely = result->images_likely = result->train_likely =
        (struct interval){NAN, NAN};
    result->to_target = (struct to_target){NAN, {NAN, NAN}, NAN};
}

/* The time of @p if no step of it waited for a collective, or computed longer beside one, nor for a
 * sharded optimizer: how many share it follows from the algorithm. */
static double least_of(const struct prediction *p)
{
    bool sharded = p->job.scenario.parallel.sharding > 0;
    AUTOFREE double *step = base_alloc(p->task_count, sizeof(*step));
    for (int32_t i = 0; i < p->task_count; i++) {
        const struct task *task = &p->task[i];
        struct breakdown b = task_breakdown(task);
        double rest = b.exposed_communication + b.slowed + (sharded ? b.other : 0);
        step[i] = task->step - (i < job_phases(&p->job) ? rest : 0);
    }
    return prediction_seconds(p, step, 0);
}

/* What devices need for the FLOP of the network's layers at their peak in the type of the values,
 * as runs are published, over the step; of causal attention half of the products counts. */
static void find_use(struct prediction *prediction)
{
    struct result *result = &prediction->result;
    const struct model *model = prediction->job.model;
    const struct device *device = &prediction->job.platform->device;
    double all = 0, attention = 0;
    for (int32_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layer[i];
        double peak = device_peak(device, prediction->job.scenario.model.compute, PRODUCTS_COMPUTE,
                                  layer_kernel(layer));
        double least = 0;
        for (enum pass pass = 0; pass < PASS_COUNT; pass++)
            least += (double)layer_flops(layer, pass) / peak;
        all += least;
        attention += layer->op == LAYER_MATMUL && model_attends(model, i) ? least : 0;
    }
    double rate = result->images_per_s / (double)result->devices;
    result->use = all * rate;
    result->use_causal = (all - attention / 2) * rate;
}

/* What tables of many jobs have, too. */
static void sum_up(struct prediction *prediction)
{
    struct result *result = &prediction->result;
    const struct job *job = &prediction->job;
    const struct task *last = prediction_last(prediction);
    const struct device *device = &job->platform->device;
    if (grid_matters(job->resolved.algorithm, job->resolved.order, job->platform))
        result->grid = last->point.grid;
    result->nodes = last->point.nodes;
    result->devices = grid_ranks(last->point.grid);
    result->step = task_breakdown(last);
    result->images_per_s = images_per_s(last);
    result->memory = prediction_memory(prediction, job_phases(job) - 1);
    result->memory_total = memory_total(&result->memory);
    result->device_memory = (int64_t)device->memory.value;
    result->fits = device->memory_sd > 0
                       ? erfc(log((double)result->memory_total / device->memory.value) /
                              (sqrt(2) * device->memory_sd)) /
                             2
                       : NAN;
    find_use(prediction);
    compare(prediction);
    prediction->least = least_of(prediction);
}

/* ---- what is one of several ---- */

enum { CHOICES_MOST = 16 /* together: each is a prediction of its own */ };

/* The means of @into, which are of @count jobs, become those with @one, too. */
static void blend(struct prediction *into, const struct prediction *one, int32_t count)
{
    struct result *a = &into->result;
    const struct result *b = &one->result;
    const struct {
        double *mean;
        double value;
    } parts[] = {
        {&a->images_per_s, b->images_per_s},
        {&a->weak.efficiency, b->weak.efficiency},
        {&a->weak.images_per_s, b->weak.images_per_s},
        {&a->strong.efficiency, b->strong.efficiency},
        {&a->strong.images_per_s, b->strong.images_per_s},
        {&a->evaluation_s, b->evaluation_s},
        {&a->startup_s, b->startup_s},
        {&a->time_to_train_s, b->time_to_train_s},
        {&a->toll.work, b->toll.work},
        {&a->toll.total, b->toll.total},
        {&into->least, one->least},
    };
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        *parts[i].mean += (parts[i].value - *parts[i].mean) / (count + 1);
    breakdown_add(&a->step, &b->step, &a->step, count + 1);
    for (int32_t i = 0; i < a->plan.phase_count; i++)
        a->phase_step_time[i] += (b->phase_step_time[i] - a->phase_step_time[i]) / (count + 1);
}

/* How many jobs the lists of @unknowns make; 1: none, or too many. */
static int32_t count_choices(const struct unknowns *unknowns)
{
    int64_t all = 1;
    for (int32_t i = 0; i < unknowns->count && all <= CHOICES_MOST; i++)
        all *= unknowns->item[i].listed ? unknowns->item[i].choices : 1;
    return all <= CHOICES_MOST ? (int32_t)all : 1;
}

/* A job that is one of several, all equally likely, is what they are in the mean.  The first is
 * that of @prediction; those that cannot be are left out. */
static void expect(struct prediction *prediction, const char *path,
                   const struct predict_options *options, enum backend_choice backend)
{
    const struct unknowns *unknowns = &prediction->job.unknowns;
    int32_t made = 1, all = count_choices(unknowns);
    for (int32_t k = 1; k < all; k++) {
        AUTORELEASE(prediction) struct prediction other = {0};
        AUTORELEASE(err) struct err ignored = {0};
        double quantile[UNKNOWN_LIMIT];
        for (int32_t i = 0, rest = k; i < unknowns->count; i++) {
            const struct unknown *input = &unknowns->item[i];
            quantile[i] = input->listed ? (rest % input->choices + 0.5) / input->choices : NAN;
            rest /= input->listed ? input->choices : 1;
        }
        const struct draw draw = {quantile, (int32_t)unknowns->count};
        if (prediction_open(&other, path, options, &draw, &ignored) ||
            prediction_run(&other, backend, options, &ignored) || failing_find(&other, &ignored))
            continue;
        sum_up(&other);
        blend(prediction, &other, made++);
    }
    if (made > 1)
        texts_add(
            &prediction->result.assumption,
            "numbers are means of %d jobs: what is one of several is each of them, equally likely",
            made);
}

static void conclude(struct prediction *prediction)
{
    struct result *result = &prediction->result;
    const struct task *last = prediction_last(prediction);
    result->scenario = &prediction->job.scenario;
    result->platform = base_copy(prediction->job.platform->name);
    memcpy(result->sha256, result->scenario->sha256, sizeof(result->sha256));
    result->schedule_hash = schedule_hash(last->point.schedule);
    result->platform_hash = platform_hash(prediction->job.platform);
    memcpy(result->backend, task_trace(last)->backend, sizeof(result->backend));
    memcpy(result->grain, task_trace(last)->grain, sizeof(result->grain));
    result->nccl = job_nccl_text(&prediction->job, &last->point);
    prediction_find_bound(prediction);
    assumption_list(prediction);
    list_warnings(prediction);
}

int prediction_make(struct prediction *prediction, const char *path,
                    const struct predict_options *options, struct err *err)
{
    struct result *result = &prediction->result;
    if (prediction_open(prediction, path, options, &draw_centre, err))
        return -1;
    char *warning;
    enum backend_choice backend = task_backend(options, &warning);
    texts_take(&result->warning, warning);
    double before = prediction_children_seconds();
    if (prediction_run(prediction, backend, options, err) || failing_find(prediction, err))
        return -1;
    sum_up(prediction);
    expect(prediction, path, options, backend);
    conclude(prediction);
    if (likely_find(prediction, options, 0, backend, prediction_children_seconds() - before, err))
        return -1;
    return result_check(result, err);
}

int prediction_screen(struct prediction *prediction, const char *path,
                      const struct predict_options *options, enum backend_choice backend,
                      int32_t draws, struct err *err)
{
    if (prediction_open(prediction, path, options, &draw_centre, err) ||
        prediction_run(prediction, backend, options, err) || failing_find(prediction, err))
        return -1;
    sum_up(prediction);
    expect(prediction, path, options, backend);
    if (draws && likely_find(prediction, options, draws, BACKEND_ANALYTIC, 0, err))
        return -1;
    return result_check(&prediction->result, err);
}

/* ---- figures ---- */

SHARED_COLUMNS(figures_columns, NULL, struct figures)
{
    COLUMN("step_s", step, .null = true,
           .help = "one training step of the last phase; null, as all numbers, without an answer");
    COLUMN("images_per_s", images_per_s, .null = true,
           .help = "of all devices, in the last phase; null where the input is no picture");
    COLUMN("samples_per_s", samples_per_s, .null = true,
           .help = "of all devices, where the input is no picture; else null");
    COLUMN("scaling_efficiency", efficiency, .null = true, .help = "as in a result");
    COLUMN("time_to_train_s", usage.seconds, .null = true,
           .help = "to the target, or of all epochs");
    COLUMN("epochs", epochs, .null = true, .help = "of all phases; to a target those expected");
    COLUMN("batch_known", batch, .words = batch_known_words,
           .help = "whether a published run with so many images a step converged");
    COLUMN("nccl_version", nccl.version, .zero = true,
           .help = "100 * major + minor of the NCCL whose model is used; null: the job uses none");
    COLUMN("nccl", nccl.way, .words = nccl_way_words, .zero = true,
           .help = "algorithm and protocol that its model chooses for the largest bucket");
    COLUMN("device_hours", device_hours, .null = true, .help = "of all devices of each phase");
    COLUMN("cost", bill.cost, .null = true,
           .help = "at the prices of --prices, in their currency; null without them");
    COLUMN("energy_kwh", bill.energy, .null = true, .help = "at the power of --prices");
    COLUMN("carbon_kg", bill.carbon, .null = true,
           .help = "CO2 equivalent of that energy, at the carbon of --prices");
}

SHARED_COLUMNS(figures_basis_columns, NULL, struct figures)
{
    COLUMN("nodes", nodes, .help = "nodes in use");
    COLUMN("devices", devices, .help = "devices in use");
    COLUMN("columns", grid.columns, .help = "ranks in a row");
    COLUMN("rows", grid.rows, .help = "ranks in a column");
    COLUMN("mean_nodes", usage.nodes, .null = true, .help = "over the run");
    COLUMN("mean_devices", usage.devices, .null = true, .help = "over the run");
    COLUMN("least_s", least, .null = true, .help = "time if no step waited for communication");
    COLUMN("mfu", use, .null = true, .help = "of the devices' peak");
    COLUMN("tokens_per_s_per_device", tokens, .null = true, .help = "of the last phase");
    COLUMN("compute_s", parts.compute, .help = "of a step");
    COLUMN("slowed_s", parts.slowed, .help = "computing longer beside collectives");
    COLUMN("slower_ranks_s", parts.slower, .help = "waiting for slower devices");
    COLUMN("exposed_s", parts.exposed_communication, .help = "waiting for collectives");
    COLUMN("exposed_tensor_s", parts.exposed_tensor, .help = "of them inside of layers");
    COLUMN("bubble_s", parts.bubble, .help = "waiting for other stages");
    COLUMN("other_s", parts.other, .help = "optimizer and the rest");
}

static struct range range_of(double value, struct interval likely)
{
    return (struct range){likely.low, value, likely.high};
}

struct figures figures_none(void)
{
    const struct range none = {NAN, NAN, NAN};
    struct figures figures = {.step = none,
                              .images_per_s = none,
                              .samples_per_s = none,
                              .efficiency = none,
                              .batch = BATCH_NOT_KNOWN,
                              .use = NAN,
                              .tokens = NAN,
                              .epochs = NAN,
                              .usage = {NAN, NAN, none},
                              .least = NAN};
    figures_price(&figures, NULL);
    return figures;
}

void figures_price(struct figures *figures, const struct price_file *prices)
{
    const struct range seconds = figures->usage.seconds;
    double hours = figures->usage.devices / 3600;
    figures->device_hours =
        (struct range){hours * seconds.low, hours * seconds.value, hours * seconds.high};
    figures->bill = price_bill(prices, &figures->usage);
}

struct figures figures_of(const struct prediction *prediction, const struct price_file *prices)
{
    const struct result *result = &prediction->result;
    const struct scaling *scaling = result->strong.batch ? &result->strong : &result->weak;
    struct figures figures = figures_none();
    bool pictures = result->images_unit == UNIT_IMAGES_PER_SECOND;
    figures.nodes = result->nodes;
    figures.devices = result->devices;
    figures.grid = result->grid;
    figures.step = range_of(result->step.time, result->step_likely);
    *(pictures ? &figures.images_per_s : &figures.samples_per_s) =
        range_of(result->images_per_s, result->images_likely);
    if (!pictures) {
        figures.use = result->use;
        figures.tokens =
            result->images_per_s / result->devices * (double)prediction->job.scenario.model.tokens;
    }
    figures.parts = result->step;
    figures.efficiency = range_of(scaling->efficiency, scaling->likely);
    const struct point *last = &prediction_last(prediction)->point;
    figures.nccl = nccl_use_of(&last->run, last->schedule);
    figures.batch = (int32_t)batch_known(prediction);
    figures.epochs = result->plan.epochs;
    figures.usage = prediction_usage(prediction);
    figures.least = prediction->least;
    figures_price(&figures, prices);
    return figures;
}

void prediction_add_warnings(struct prediction *prediction, const struct err *err)
{
    struct result *result = &prediction->result;
    static const char mark[] = "warning: ";
    for (const char *line = err->warning; line && *line; line += strcspn(line, "\n") + 1) {
        char *text = base_format("%.*s", (int)strcspn(line, "\n"), line);
        char *word = strstr(text, mark);
        if (word)
            memmove(word, word + strlen(mark), strlen(word + strlen(mark)) + 1);
        texts_take(&result->warning, text);
    }
}

struct json *prediction_json(const struct prediction *prediction)
{
    const struct task *last = prediction_last(prediction);
    AUTORELEASE(exchanges)
    struct report_exchanges list =
        exchanges_of(&last->point.run, last->point.schedule, last->quiet);
    return result_json(&prediction->result, &list);
}
