#include "core/report/report.h"

#include "core/backend/floor.h"

int32_t report_bottleneck(const struct fabric *fabric, const struct schedule *schedule,
                          enum axis axis, struct text *beside)
{
    const double twice = 0.5; /* as fast, the busiest would wait for that one */
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        if (step->kind != STEP_COLLECTIVE || step->collective.axis != axis ||
            grid_axis_size(schedule->grid, axis) < 2)
            continue;
        struct floor floor = floor_collective(fabric, schedule, id);
        if (beside && floor.next >= 0 && floor.beside > twice)
            text_add(beside, " (%s is %.0f %% as busy)", fabric->tier_name[floor.next],
                     100 * floor.beside);
        return floor.tier;
    }
    return -1;
}

/* The parts of a step are differences, which are rounded: @slack [s] below 0 is 0. */
static int check_number(const char *name, double value, double slack, struct err *err)
{
    if (isfinite(value) && value >= -slack)
        return 0;
    return err_add_code(
        err, 70,
        "the prediction's %s came out as %g: please report this job as a fault of foretrain", name,
        value);
}

static int check_interval(const char *name, struct interval likely, struct err *err)
{
    if (isnan(likely.low) && isnan(likely.high))
        return 0;
    return check_number(name, likely.low, 0, err) ||
           check_number(name, likely.high - likely.low, 1e-9 * likely.high, err);
}

int result_check(const struct result *result, struct err *err)
{
    const struct breakdown *step = &result->step;
    double slack = 1e-9 * step->time;
    for (int32_t i = 0; i < result->plan.phase_count; i++)
        if (check_number("step of a phase", result->phase_step_time[i], 0, err) ||
            check_number("number of steps", (double)result->plan.phase[i].steps, 0, err))
            return -1;
    return check_number("step", step->time, 0, err) ||
                   check_number("compute", step->compute, slack, err) ||
                   check_number("compute beside collectives", step->slowed, slack, err) ||
                   check_number("wait for slower ranks", step->slower, slack, err) ||
                   check_number("exposed communication", step->exposed_communication, slack, err) ||
                   check_number("input wait", step->input_wait, slack, err) ||
                   check_number("bubble", step->bubble, slack, err) ||
                   check_number("rest of the step", step->other, slack, err) ||
                   check_number("throughput", result->images_per_s, 0, err) ||
                   check_number("scaling efficiency", result->weak.efficiency, 0, err) ||
                   check_number("strong scaling efficiency", result->strong.efficiency, 0, err) ||
                   check_number("evaluation", result->evaluation_s, 0, err) ||
                   check_number("time to train", result->time_to_train_s, 0, err) ||
                   check_interval("interval of the step", result->step_likely, err) ||
                   check_interval("interval of the throughput", result->images_likely, err) ||
                   check_interval("interval of the efficiency", result->weak.likely, err) ||
                   check_interval("interval of the time to train", result->train_likely, err)
               ? -1
               : 0;
}

const char *result_speed(const struct result *result)
{
    return result->images_unit == UNIT_SAMPLES_PER_SECOND ? "samples_per_s" : "images_per_s";
}

/* ---- for programs ---- */

struct shown_phase {
    struct phase phase;
    double step;
};

/* A result without what does not matter to its job, and what follows from it. */
struct shown {
    struct result result;
    const struct report_exchange *exchange; /* (exchanges) */
    int32_t exchanges;
    double samples_per_s; /* or images_per_s; the other is NAN */
    struct interval samples_likely;
    double tokens_per_s;  /* NAN: of pictures */
    double tokens_each;   /* of a device */
    struct scaling first; /* what a scenario that fixes the global batch asks for first */
    const char *scaling, *recipe;
    struct shown_phase *phase; /* (phases) owned */
    int32_t phases;
    struct toll_answer failures;
    double target; /* NAN: the job has epochs */
};

COLUMNS(phase_columns, NULL, struct shown_phase)
{
    COLUMN("epochs", phase.epochs, .help = "passes over the training data");
    COLUMN("batch_per_device", phase.batch_per_device,
           .help = "images or samples per device and step");
    COLUMN("devices", phase.devices, .help = "devices that take part");
    COLUMN("global_batch", phase.global_batch, .help = "images or samples per step");
    COLUMN("steps", phase.steps, .help = "training steps");
    COLUMN("step_s", step, .help = "time of one training step");
}

COLUMNS(step_columns, NULL, struct breakdown)
{
    COLUMN("compute_s", compute,
           .help = "forward, loss and backward of a device that nothing slows down");
    COLUMN("exposed_communication_s", exposed_communication, .help = "waiting for a collective");
    COLUMN("exposed_row_s", exposed_row, .null = true,
           .help = "waiting for a collective of a row; null if the job has no rows");
    COLUMN("exposed_column_s", exposed_column, .null = true,
           .help = "waiting for a collective of a column; null if the job has no rows");
    COLUMN("exposed_tensor_s", exposed_tensor, .absent = true,
           .help = "waiting for what devices that share layers exchange, if any do");
    COLUMN("exposed_context_s", exposed_context, .absent = true,
           .help = "waiting for keys and values of others that share sequences, if any do");
    COLUMN("exposed_expert_s", exposed_expert, .absent = true,
           .help = "waiting for positions on their way to experts and back, if devices share some");
    COLUMN("slowed_s", slowed, .help = "computing longer beside a collective");
    COLUMN("slower_ranks_s", slower, .help = "waiting for the slowest device to compute");
    COLUMN("input_wait_s", input_wait, .help = "waiting for input");
    COLUMN("bubble_s", bubble, .absent = true,
           .help = "of the stage that computes most, waiting for others, if there is a pipeline");
    COLUMN("other_s", other, .help = "optimizer and the rest");
}

COLUMNS(memory_columns, NULL, struct result)
{
    COLUMN("weights_bytes", memory.weights,
           .help = "of a device in the last phase: masters, and the copy to compute with");
    COLUMN("gradients_bytes", memory.gradients, .help = "of the weights");
    COLUMN("optimizer_bytes", memory.momentum, .help = "state of the optimizer");
    COLUMN("activations_bytes", memory.activations,
           .help = "values that backward reads, and the gradients of two");
    COLUMN("loss_bytes", memory.loss, .help = "scores of words and gradients in fp32");
    COLUMN("input_bytes", memory.input, .help = "batches read ahead and in use");
    COLUMN("workspace_bytes", memory.workspace, .help = "of libraries, at most");
    COLUMN("reserve_bytes", memory.reserve,
           .help = "that the allocator holds beyond all these, where the software's is known");
    COLUMN("total_bytes", memory_total,
           .help = "together, without libraries' code and buffers of communication");
    COLUMN("first_stage_bytes", memory.first,
           .help =
               "together, of a device of the first stage; total_bytes is of that which needs most");
    COLUMN("device_bytes", device_memory, .help = "memory of the device");
    COLUMN("fits", fits, .null = true,
           .help = "the probability that the device has enough, by the spread of the software");
}

SHARED_COLUMNS(result_columns, "result/2", struct shown)
{
    COLUMN("scenario_sha256", result.sha256, .help = "of the scenario's text and the overrides");
    COLUMN("schedule_hash", result.schedule_hash,
           .help = "of the last phase's schedule; traces carry the same");
    COLUMN("backend", result.backend, .help = "analytic or sim");
    COLUMN("grain", result.grain,
           .help = "closed-form, folded, full, smoothed (with /N: N rounds merged) or coarse");
    COLUMN("platform", result.platform, .help = "name of the platform");
    COLUMN("platform_hash", result.platform_hash,
           .help = "of every number of the platform and its device, and of the measured steps");
    COLUMN("nodes", result.nodes, .help = "nodes in use");
    COLUMN("devices", result.devices, .help = "devices in use");
    COLUMN("grid.columns", result.grid.columns, .zero = true,
           .help = "ranks in a row; null if the job has no rows");
    COLUMN("grid.rows", result.grid.rows, .zero = true, .help = "ranks in a column");
    COLUMN("step_s", result.step.time, LIKELY(result.step_likely),
           .help = "one training step of the last phase");
    COLUMN_OBJECT("step", result.step, &step_columns);
    COLUMN("images_per_s", result.images_per_s, LIKELY(result.images_likely), .absent = true,
           .help = "of all devices, in the last phase");
    COLUMN("samples_per_s", samples_per_s, LIKELY(samples_likely), .absent = true,
           .help = "in place of images_per_s, where the input is no picture");
    COLUMN("tokens_per_s", tokens_per_s, .absent = true,
           .help = "of samples without padding, where the input is no picture");
    COLUMN("tokens_per_s_per_device", tokens_each, .absent = true,
           .help = "tokens_per_s over devices");
    COLUMN("mfu", result.use, .absent = true,
           .help = "FLOP of forward and backward, with the products of full attention inside of "
                   "windows and documents, over the devices' peak in precision.compute, where the "
                   "input is no picture; what is computed again does not count");
    COLUMN("mfu_causal", result.use_causal, .absent = true,
           .help = "mfu with half of the products of attention");
    COLUMN_OBJECT("memory", result, &memory_columns);
    COLUMN("scaling_efficiency", first.efficiency, LIKELY(first.likely),
           .help = "images/s per device over the baseline's");
    COLUMN("baseline.devices", first.devices, .help = "devices of the baseline");
    COLUMN("baseline.batch_per_device", first.batch, .help = "images on each of them");
    COLUMN("baseline.images_per_s", first.images_per_s, .help = "of all devices of the baseline");
    COLUMN("scaling", scaling,
           .help = "what scaling_efficiency is: weak, at equal images per device, or strong, at an "
                   "equal global batch, if the last phase gives that");
    COLUMN("weak_scaling_efficiency", result.weak.efficiency, LIKELY(result.weak.likely),
           .help = "at equal images per device");
    COLUMN("strong_scaling_efficiency", result.strong.efficiency, LIKELY(result.strong.likely),
           .null = true, .help = "at an equal global batch; null if the last phase gives none");
    COLUMN("nccl", result.nccl, .null = true,
           .help = "version, algorithms and protocols of NCCL's model; null: the job uses none");
    COLUMN_ITEMS("exchanges", exchange, exchanges, .table = &exchange_columns);
    COLUMN_ITEMS("phases", phase, phases, .table = &phase_columns);
    COLUMN("epochs", result.plan.epochs, LIKELY(result.to_target.epochs),
           .help = "of all phases; to a target their mean");
    COLUMN("evaluation_s", result.evaluation_s, .help = "time of all evaluations");
    COLUMN("startup_s", result.startup_s,
           .help = "before the first step runs at full speed, as the scenario states it");
    COLUMN("time_to_train_s", result.time_to_train_s, LIKELY(result.train_likely),
           .help =
               "until the target, or the epochs, with all evaluations, checkpoints and failures");
    COLUMN_OBJECT("failures", failures, &toll_columns);
    COLUMN_MEMBERS(result.bill, &bill_columns);
    COLUMN_MEMBERS(result.doubts, &doubts_columns);
    COLUMN("target", target, .null = true,
           .help = "top-1 accuracy that ends the run; null if its epochs do");
    COLUMN("recipe", recipe, .null = true, .help = "recipe that the epochs to the target are of");
    COLUMN("time_to_train_median_s", result.to_target.median, .null = true,
           .help = "median of the draws, in some of which a device is slow");
    COLUMN("bound_by", result.bound_by,
           .help = "compute, communication, input, slow devices or pipeline");
    COLUMN("sentence", result.sentence, .help = "the answer in words");
    COLUMN_ITEMS("assumptions", result.assumption.item, result.assumption.count,
                 .help = "what nobody measured or published");
    COLUMN_ITEMS("warnings", result.warning.item, result.warning.count,
                 .help = "what makes the result doubtful, and the warnings about files");
}

static void leave_out(struct result *result)
{
    const struct interval none = {NAN, NAN};
    if (!result->grid.columns)
        result->step.exposed_row = result->step.exposed_column = NAN;
    double *part[] = {&result->step.exposed_tensor, &result->step.exposed_context,
                      &result->step.exposed_expert, &result->step.bubble};
    for (size_t i = 0; i < ARRAY_SIZE(part); i++)
        if (!(*part[i] > 0))
            *part[i] = NAN;
    if (!result->strong.batch)
        result->strong = (struct scaling){.efficiency = NAN, .likely = none};
    if (!result->bill.origin)
        result->bill = price_bill(NULL, NULL);
    if (!(result->scenario->training.target > 0))
        result->to_target = (struct to_target){.median = NAN, .epochs = none};
}

static void turn_into_samples(struct shown *shown)
{
    struct result *result = &shown->result;
    shown->samples_per_s = result->images_per_s;
    shown->samples_likely = result->images_likely;
    shown->tokens_per_s = NAN;
    if (result->images_unit == UNIT_SAMPLES_PER_SECOND) {
        shown->tokens_per_s = result->images_per_s * (double)result->scenario->model.tokens;
        result->images_per_s = NAN;
    } else {
        shown->samples_per_s = result->use = result->use_causal = NAN;
    }
    shown->tokens_each = shown->tokens_per_s / result->devices;
}

static void add_target(struct shown *shown)
{
    const struct result *result = &shown->result;
    const char *recipe = result->scenario->training.recipe;
    double target = result->scenario->training.target;
    bool any = target > 0;
    shown->target = any ? target : NAN;
    shown->recipe = any && !recipe ? "own points" : recipe;
}

struct json *result_json(const struct result *result, const struct report_exchanges *exchanges)
{
    AUTOFREE struct shown_phase *phase = base_alloc(result->plan.phase_count, sizeof(*phase));
    struct shown shown = {.result = *result,
                          .exchange = exchanges->exchange,
                          .exchanges = exchanges->count,
                          .first = result->strong.batch ? result->strong : result->weak,
                          .scaling = result->strong.batch ? "strong" : "weak",
                          .phase = phase,
                          .phases = result->plan.phase_count,
                          .failures = toll_answer(&result->toll)};
    for (int32_t i = 0; i < result->plan.phase_count; i++)
        phase[i] = (struct shown_phase){result->plan.phase[i], result->phase_step_time[i]};
    leave_out(&shown.result);
    turn_into_samples(&shown);
    add_target(&shown);
    return answer_json(&result_columns, &shown);
}

static const char likely_row[] = "  90 % interval";

void report_row(struct text *out, const char *label, enum unit unit, double value, const char *note)
{
    text_add(out, "  %-24s%16s%s%s\n", label, unit_text(unit, value), *note ? "   " : "", note);
}

static void print_part(struct text *out, const char *label, double seconds, double whole)
{
    AUTOFREE char *share = base_format("%5.1f %%", 100 * seconds / whole);
    report_row(out, label, UNIT_SECONDS, seconds, share);
}

void report_interval(struct text *out, const char *label, enum unit unit, double value,
                     struct interval likely)
{
    if (!isnan(likely.low))
        text_add(out, "  %-24s%16s to %s\n", label,
                 unit_likely(unit, likely.low, value, likely.low, likely.high),
                 unit_likely(unit, likely.high, value, likely.low, likely.high));
}

/* A number and its interval. */
static void print_likely(struct text *out, const char *label, enum unit unit, double value,
                         struct interval likely, const char *note)
{
    text_add(out, "  %-24s%16s%s%s\n", label,
             unit_likely(unit, value, value, likely.low, likely.high), *note ? "   " : "", note);
    report_interval(out, likely_row, unit, value, likely);
}

static void print_step(struct text *out, const struct result *result)
{
    const struct breakdown *step = &result->step;
    print_likely(out, "step", UNIT_SECONDS, step->time, result->step_likely, "");
    print_part(out, "  compute", step->compute, step->time);
    if (step->slowed > 0)
        print_part(out, "  beside communication", step->slowed, step->time);
    if (step->slower > 0)
        print_part(out, "  slower ranks", step->slower, step->time);
    print_part(out, "  exposed communication", step->exposed_communication, step->time);
    if (step->exposed_row > 0 && step->exposed_column > 0) {
        print_part(out, "    in rows", step->exposed_row, step->time);
        print_part(out, "    in columns", step->exposed_column, step->time);
    }
    if (step->exposed_tensor > 0)
        print_part(out, "    inside of layers", step->exposed_tensor, step->time);
    if (step->exposed_context > 0)
        print_part(out, "    for keys and values", step->exposed_context, step->time);
    if (step->exposed_expert > 0)
        print_part(out, "    to and from experts", step->exposed_expert, step->time);
    print_part(out, "  input wait", step->input_wait, step->time);
    if (step->bubble > 0)
        print_part(out, "  bubble", step->bubble, step->time);
    print_part(out, "  optimizer and other", step->other, step->time);
}

static void print_scaling(struct text *out, const char *label, const char *kind,
                          const struct scaling *scaling, const struct result *result)
{
    AUTORELEASE(text) struct text note = {0};
    text_add(&note, "%s, of %" PRId32 " device%s with %s at %" PRId64 " a step", kind,
             scaling->devices, base_plural(scaling->devices),
             unit_text(result->images_unit, scaling->images_per_s),
             scaling->batch * scaling->devices / scenario_parts(result->scenario));
    print_likely(out, label, UNIT_FRACTION, scaling->efficiency, scaling->likely, note.data);
}

/* Epochs, time, where its uncertainty comes from, and where it goes. */
static void print_target(struct text *out, const struct result *result)
{
    const struct to_target *to = &result->to_target;
    double whole = result->time_to_train_s;
    AUTOFREE char *label = base_format("time to %g %%", 100 * result->scenario->training.target);
    struct interval likely = result->train_likely;
    print_likely(out, "epochs", UNIT_NONE, result->plan.epochs, to->epochs, "mean");
    text_add(out, "  %-24s%16s   mean epochs, %s\n", label,
             unit_likely(UNIT_SECONDS, whole, whole, likely.low, likely.high),
             isfinite(result->toll.failures.mtbf) && result->toll.any ? "failures as expected"
                                                                      : "no slow node");
    if (!isnan(to->median))
        text_add(out, "  %-24s%16s   of samples, some with a slow node\n", "  median",
                 unit_likely(UNIT_SECONDS, to->median, whole, likely.low, likely.high));
    report_interval(out, likely_row, UNIT_SECONDS, whole, likely);
    if (to->epochs_share > 0) /* above the noise of the draws */
        report_row(out, "  by the epochs", UNIT_FRACTION, to->epochs_share, "of its variance");
    print_part(out, "  steps", result->toll.work - result->evaluation_s - result->startup_s, whole);
    print_part(out, "  evaluation", result->evaluation_s, whole);
    print_part(out, "  start-up", result->startup_s, whole);
    toll_print(out, &result->toll);
}

static void print_memory(struct text *out, const struct result *result)
{
    const struct memory_plan *plan = &result->memory;
    const struct {
        const char *name;
        int64_t bytes;
    } part[] = {
        {"  weights", plan->weights},    {"  gradients", plan->gradients},
        {"  optimizer", plan->momentum}, {"  activations", plan->activations},
        {"  loss", plan->loss},          {"  input, workspace", plan->input + plan->workspace},
        {"  allocator", plan->reserve}};
    AUTOFREE char *of = base_format("of %s", unit_text(UNIT_BYTES, (double)result->device_memory));
    AUTOFREE char *sure = isnan(result->fits)
                              ? base_copy(of)
                              : base_format("%s: fits with %.0f %%", of, 100 * result->fits);
    report_row(out, "memory of a device", UNIT_BYTES, (double)result->memory_total, sure);
    for (size_t i = 0; i < ARRAY_SIZE(part) - !plan->reserve; i++)
        report_row(out, part[i].name, UNIT_BYTES, (double)part[i].bytes, "");
}

static void print_totals(struct text *out, const struct result *result)
{
    enum unit unit = result->images_unit;
    print_likely(out, "throughput", unit, result->images_per_s, result->images_likely, "");
    int64_t tokens = result->scenario->model.tokens;
    if (unit == UNIT_SAMPLES_PER_SECOND && tokens > 1) {
        double rate = result->images_per_s * (double)tokens;
        AUTOFREE char *each = base_format("tokens/s, %" PRId64 " a sample; %s a device", tokens,
                                          unit_text(UNIT_NONE, rate / result->devices));
        report_row(out, "  in tokens", UNIT_NONE, rate, each);
        AUTOFREE char *causal =
            base_format("of the peak in precision.compute (MFU), full attention; causal %s",
                        unit_text(UNIT_FRACTION, result->use_causal));
        report_row(out, "  in FLOP", UNIT_FRACTION, result->use, causal);
        print_memory(out, result);
    }
    if (result->strong.batch)
        print_scaling(out, "scaling efficiency", "strong", &result->strong, result);
    print_scaling(out, result->strong.batch ? "" : "scaling efficiency", "weak", &result->weak,
                  result);
    if (result->scenario->training.target > 0) {
        print_target(out, result);
        return;
    }
    report_row(out, "evaluation", UNIT_SECONDS, result->evaluation_s, "");
    report_row(out, "start-up", UNIT_SECONDS, result->startup_s, "");
    print_likely(out, "time to train", UNIT_SECONDS, result->time_to_train_s, result->train_likely,
                 "");
    toll_print(out, &result->toll);
}

static void print_phases(struct text *out, const struct result *result)
{
    text_add(out, "\n  %5s%9s%18s%14s%9s%14s\n", "phase", "epochs", "batch per device",
             "global batch", "steps", "step");
    for (int32_t i = 0; i < result->plan.phase_count; i++) {
        const struct phase *phase = &result->plan.phase[i];
        text_add(out, "  %5" PRId32 "%9.4g%18" PRId64 "%14" PRId64 "%9" PRId64 "%14s", i + 1,
                 phase->epochs, phase->batch_per_device, phase->global_batch, phase->steps,
                 unit_text(UNIT_SECONDS, result->phase_step_time[i]));
        if (phase->devices != result->devices)
            text_add(out, "   on %" PRId64 " devices", phase->devices);
        text_add(out, "\n");
    }
}

const char *const report_topics[] = {"network", "device", "input", "training", NULL};

int report_topic(const char *assumption)
{
    static const char *const begin[][4] = {
        {"node.", "network.", "transport."}, {"device."}, {"input", "no input"}, {""}};
    for (int topic = 0;; topic++)
        for (int i = 0; begin[topic][i]; i++)
            if (!strncmp(assumption, begin[topic][i], strlen(begin[topic][i])))
                return topic;
}

/* "key = value (reason)" without the reason, unless @whole. */
static void print_assumption(struct text *out, const char *name, const char *text, bool whole)
{
    const char *reason = strstr(text, " = ") ? strstr(text, " (") : NULL;
    int length = (int)(reason && !whole ? (size_t)(reason - text) : strlen(text));
    text_add(out, "  %-10s%.*s\n", name, length, text);
}

static void print_assumptions(struct text *out, const struct result *result, bool whole)
{
    if (result->assumption.count > 0)
        text_add(out, "\nassumptions%s\n", whole ? "" : " (with reasons: --assumptions)");
    for (int topic = 0; report_topics[topic]; topic++) {
        const char *name = report_topics[topic];
        for (int32_t i = 0; i < result->assumption.count; i++)
            if (report_topic(result->assumption.item[i]) == topic) {
                print_assumption(out, name, result->assumption.item[i], whole);
                name = "";
            }
    }
}

static void print_heading(struct text *out, const struct result *result)
{
    text_add(out, "%s on %s: %" PRId32 " device%s in %" PRId32 " node%s",
             result->scenario->model.network, result->platform, result->devices,
             base_plural(result->devices), result->nodes, base_plural(result->nodes));
    if (result->grid.columns)
        text_add(out, ", grid of %" PRId32 " column%s x %" PRId32 " row%s", result->grid.columns,
                 base_plural(result->grid.columns), result->grid.rows,
                 base_plural(result->grid.rows));
}

static void print_brief(struct text *out, const struct result *result)
{
    const struct scaling *first = result->strong.batch ? &result->strong : &result->weak;
    print_heading(out, result);
    text_add(out, "\n%s%s", result->nccl ? result->nccl : "", result->nccl ? "\n" : "");
    double whole = result->time_to_train_s, median = result->to_target.median;
    struct interval likely = result->train_likely;
    print_likely(out, "step", UNIT_SECONDS, result->step.time, result->step_likely, "");
    print_likely(out, "scaling efficiency", UNIT_FRACTION, first->efficiency, first->likely, "");
    text_add(out, "  %-24s%16s\n", "time to train",
             unit_likely(UNIT_SECONDS, whole, whole, likely.low, likely.high));
    if (result->scenario->training.target > 0 && !isnan(median))
        text_add(out, "  %-24s%16s\n", "  median",
                 unit_likely(UNIT_SECONDS, median, whole, likely.low, likely.high));
    report_interval(out, likely_row, UNIT_SECONDS, whole, likely);
    bill_print(out, &result->bill);
    text_add(out, "%s\n", result->sentence);
    doubts_print_brief(out, &result->doubts);
    text_add(out, "assumptions: %" PRId32 ", warnings: %" PRId32 "\n", result->assumption.count,
             result->warning.count);
}

void result_print(struct text *out, const struct result *result, enum report_length length)
{
    if (length == REPORT_BRIEF) {
        print_brief(out, result);
        return;
    }
    print_heading(out, result);
    text_add(out, "\nback end %s, grain %s, schedule %016" PRIx64 "\n%s%s\n", result->backend,
             result->grain, result->schedule_hash, result->nccl ? result->nccl : "",
             result->nccl ? "\n" : "");
    print_step(out, result);
    print_totals(out, result);
    bill_print(out, &result->bill);
    print_phases(out, result);
    text_add(out, "\n%s\n", result->sentence);
    doubts_print(out, &result->doubts);
    print_assumptions(out, result, length == REPORT_WHOLE);
    for (int32_t i = 0; i < result->warning.count; i++)
        text_add(out, "%s  %s\n", i ? "" : "\nwarnings\n", result->warning.item[i]);
}

void result_release(struct result *result)
{
    free(result->platform);
    free(result->nccl);
    free(result->phase_step_time);
    free(result->bound_by);
    free(result->sentence);
    texts_release(&result->assumption);
    texts_release(&result->warning);
    doubts_release(&result->doubts);
    *result = (struct result){0};
}
