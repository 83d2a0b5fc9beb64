#include "app/cli/command.h"
#include "app/measure/measure.h"
#include "app/page/html.h"
#include "app/predict/task.h"
#include "app/predict/uncertainty.h"
#include "app/process/child.h"
#include "app/validate/against.h"
#include "app/validate/validate_run.h"
#include "config.h"
#include "core/backend/trace.h"
#include "core/base/file.h"
#include "core/report/picture.h"
#include "core/report/report.h"
#include "core/report/timeline.h"
#include "core/schedule/schedule.h"

/* What a row is about. */
enum validate_group {
    VALIDATE_STEP,       /* the whole step, from the end of one iteration to the next one's */
    VALIDATE_KIND,       /* all steps of one kind, mean over the ranks */
    VALIDATE_LANE,       /* busy time of one lane, mean over the ranks */
    VALIDATE_PART,       /* a part of the step, on the rank that ends last: core/report/report.h */
    VALIDATE_COLLECTIVE, /* all of one name: from the entry of the last rank to the exit of the
                              last rank */
    VALIDATE_GROUP_COUNT
};

/* One predicted and measured time [s]. */
struct validate_row {
    enum validate_group group;
    const char *name;   /* "forward", "bucket 0 row reduce-scatter"; borrowed */
    double predicted_s; /* in the last iteration */
    double measured_s;  /* median over the iterations */
    double quartile_s;  /* the lower one, since disturbances can only lengthen */
    double error;       /* of the prediction, relative to the median, in a lab to the lower
                             quartile; NAN where either is 0 */
};

/* The verdict on the step time. */
enum validate_verdict {
    VALIDATE_PASS,      /* within the tolerance */
    VALIDATE_FAIL,      /* not */
    VALIDATE_DISTURBED, /* measured longer, but the lower quartile is within the tolerance, or
                             other processes had the processors.  In a lab: whenever they had,
                             unless the prediction is longer by more than the tolerance.  Repeat on
                             a quieter machine */
    VALIDATE_VERDICT_COUNT
};

/* The comparison. */
struct validation {
    double tolerance;         /* on the step's error, as a fraction */
    bool lab;                 /* measured in a lab: all other influences than its network only
                                   disturb */
    const char *error_of;     /* "median", in a lab "lower quartile" */
    int32_t iterations;       /* measured */
    double *time;             /* (iterations) the step times in their order [s]; owned */
    struct validate_row *row; /* (count) the first is the whole step; owned */
    int32_t count;
    double waiting_s;       /* predicted for waiting for slower ranks, beyond the trace [s] */
    double step_s;          /* predicted */
    struct interval likely; /* its 90 % interval [s]; NAN where there is none */
    bool inside;            /* the measured step is in it */
    bool busy;              /* other processes' share of the processors may have lengthened steps */
    enum validate_verdict verdict;
};

/* Both sides, and their origin. */
struct trial {
    struct validate_request request; /* the user's; borrows its list */
    int32_t ranks;                   /* 0: there is no job */
    struct job job;
    const char *platform; /* of the job, or NULL; borrowed */
    const char *device;   /* that was run; NULL: none was; borrowed */
    struct task task;     /* of the phase that is compared */
    struct trace predicted_file, measured;
    const struct trace *predicted;
    char *warning; /* of the back end; or NULL */
    struct validate_notes notes;
    struct validation validation;
};

/* ---- what can be compared ---- */

static int check_steps(const struct schedule *schedule, const struct trace *trace, const char *what,
                       struct err *err)
{
    for (int64_t i = 0; schedule && i < trace->span_count; i++)
        if (trace->span[i].step >= schedule->step_count)
            return err_add_code(err, 65, "the %s trace names step %d, but its schedule has %d",
                                what, trace->span[i].step, schedule->step_count);
    return 0;
}

/* Whether two traces can be compared: those of one schedule (@schedule's, unless that is NULL). */
static int validate_check(const struct schedule *schedule, const struct trace *predicted,
                          const struct trace *measured, struct err *err)
{
    uint64_t hash = schedule ? schedule_hash(schedule) : predicted->schedule_hash;
    if (predicted->schedule_hash != measured->schedule_hash)
        return err_add_code(
            err, 65,
            "the traces are of different schedules, %016" PRIx64 " predicted and %016" PRIx64
            " measured: only runs of the same job on the same number of ranks can be compared",
            predicted->schedule_hash, measured->schedule_hash);
    if (hash != predicted->schedule_hash)
        return err_add_code(
            err, 65, "the traces are of schedule %016" PRIx64 ", but the job's is %016" PRIx64,
            predicted->schedule_hash, hash);
    if (predicted->iterations < 1 || measured->iterations < 2)
        return err_add_code(err, 65,
                            "%d iterations are predicted and %d measured: there must be at least 1 "
                            "and 2 (--traced-steps of train)",
                            predicted->iterations, measured->iterations);
    return check_steps(schedule, predicted, "predicted", err) ||
           check_steps(schedule, measured, "measured", err);
}

/* ---- seconds of every step ---- */

/* One step of one iteration, over the ranks. */
struct occurrence {
    double sum, last_begin, last_end;
    int32_t ranks;
};

/* A trace, step by step. */
struct joined {
    const struct schedule *schedule;
    const struct trace *trace;
    struct occurrence *at; /* (iterations, steps) */
};

static struct joined join(const struct schedule *schedule, const struct trace *trace)
{
    struct joined joined = {schedule, trace, NULL};
    joined.at = base_alloc((int64_t)trace->iterations * schedule->step_count, sizeof(*joined.at));
    for (int64_t i = 0; i < trace->span_count; i++) {
        const struct span *span = &trace->span[i];
        struct occurrence *at =
            &joined.at[(int64_t)span->iteration * schedule->step_count + span->step];
        bool first = at->ranks++ == 0;
        at->sum += span->end - span->begin;
        at->last_begin = first ? span->begin : fmax(at->last_begin, span->begin);
        at->last_end = first ? span->end : fmax(at->last_end, span->end);
    }
    return joined;
}

/* While ranks wait for each other in a collective, nothing is exchanged. */
static double step_seconds(const struct joined *joined, int32_t iteration, int32_t step)
{
    const struct occurrence *at =
        &joined->at[(int64_t)iteration * joined->schedule->step_count + step];
    if (at->ranks == 0)
        return 0;
    if (joined->schedule->step[step].kind == STEP_COLLECTIVE)
        return at->last_end - at->last_begin;
    return at->sum / at->ranks;
}

/* ---- rows ---- */

enum kind { KIND_FORWARD, KIND_LOSS, KIND_BACKWARD, KIND_OPTIMIZER, KIND_INPUT, KIND_COUNT };

static const char *const kind_names[] = {"forward", "loss", "backward", "optimizer", "input"};
static_assert(ARRAY_SIZE(kind_names) == KIND_COUNT, "a name each");

/* Of what is computed. */
static const enum kind kinds[] = {KIND_FORWARD, KIND_LOSS, KIND_BACKWARD, KIND_BACKWARD,
                                  KIND_OPTIMIZER};
static_assert(ARRAY_SIZE(kinds) == COMPUTE_OP_COUNT, "a kind each");

/* The parts of a step, from its breakdown. */
enum part { PART_COMPUTE, PART_DATA, PART_LAYERS, PART_STAGES, PART_INPUT, PART_OTHER, PART_COUNT };

static const char *const part_names[] = {"computing",         "waiting for gradients, parameters",
                                         "waiting in layers", "waiting for stages (bubble)",
                                         "waiting for input", "optimizer, and idle"};
static_assert(ARRAY_SIZE(part_names) == PART_COUNT, "a name each");

/* What a row is the sum of. */
struct subject {
    enum validate_group group;
    int32_t index; /* a kind, a lane, a part, or the first step of a name */
};

static bool belongs(const struct subject *subject, const struct schedule *schedule, int32_t id)
{
    const struct step *step = &schedule->step[id];
    switch (subject->group) {
    case VALIDATE_KIND:
        return step->kind != STEP_COLLECTIVE &&
               subject->index ==
                   (int32_t)(step->kind == STEP_COMPUTE ? kinds[step->compute.op] : KIND_INPUT);
    case VALIDATE_LANE:
        return (int32_t)step->lane == subject->index;
    case VALIDATE_COLLECTIVE:
        return strcmp(step->name, schedule->step[subject->index].name) == 0;
    default:
        return false;
    }
}

/* A trace that ends with @iteration gives its breakdown. */
static double part_seconds(const struct joined *joined, int32_t iteration, enum part part)
{
    struct trace until = *joined->trace;
    until.iterations = iteration + 1;
    struct breakdown step =
        report_breakdown(joined->schedule, (struct slowdown){0}, &until, trace_step_time(&until));
    const double seconds[PART_COUNT] = {
        step.compute,
        step.exposed_row + step.exposed_column,
        breakdown_inside(&step),
        step.bubble,
        step.input_wait,
        step.other,
    };
    return seconds[part];
}

static double seconds_of(const struct joined *joined, int32_t iteration,
                         const struct subject *subject)
{
    double seconds = 0;
    if (subject->group == VALIDATE_PART)
        return part_seconds(joined, iteration, (enum part)subject->index);
    for (int32_t id = 0; id < joined->schedule->step_count; id++)
        if (belongs(subject, joined->schedule, id))
            seconds += step_seconds(joined, iteration, id);
    return subject->group == VALIDATE_COLLECTIVE ? seconds
                                                 : seconds / schedule_stages(joined->schedule);
}

/* Sorts @value (@count). */
static void conclude(struct validate_row *row, bool lab, double *value, int32_t count)
{
    row->measured_s = base_quantile(value, count, 0.5);
    row->quartile_s = base_quantile(value, count, 0.25);
    double counts = lab ? row->quartile_s : row->measured_s;
    row->error = row->predicted_s > 0 && counts > 0 ? row->predicted_s / counts - 1 : NAN;
}

static struct validate_row *add_row(struct validation *validation, enum validate_group group,
                                    const char *name)
{
    struct validate_row *row = &BASE_NEXT(validation->row, validation->count);
    *row = (struct validate_row){.group = group, .name = name};
    return row;
}

static void add_step(struct validation *validation, const struct trace *predicted,
                     const struct trace *measured)
{
    struct validate_row *row = add_row(validation, VALIDATE_STEP, "step");
    int32_t count = validation->iterations;
    AUTOFREE double *sorted = base_alloc(count, sizeof(*sorted));
    row->predicted_s = trace_step_time(predicted) + validation->waiting_s;
    validation->time = base_alloc(count, sizeof(*validation->time));
    for (int32_t i = 0; i < count; i++)
        sorted[i] = validation->time[i] =
            measured->iteration_end[i + 1] - measured->iteration_end[i];
    conclude(row, validation->lab, sorted, count);
}

/* Rows with no time on either side are left out. */
static void add_subject(struct validation *validation, const struct joined *predicted,
                        const struct joined *measured, struct subject subject, const char *name)
{
    int32_t count = measured->trace->iterations - 1;
    AUTOFREE double *time = base_alloc(count, sizeof(*time));
    double sum = 0, expected = seconds_of(predicted, predicted->trace->iterations - 1, &subject);
    for (int32_t i = 0; i < count; i++)
        sum += time[i] = seconds_of(measured, i + 1, &subject);
    if (sum > 0 || expected > 0) {
        struct validate_row *row = add_row(validation, subject.group, name);
        row->predicted_s = expected;
        conclude(row, validation->lab, time, count);
    }
}

/* Micro-batches repeat what they exchange under one name. */
static bool is_first(const struct schedule *schedule, int32_t id)
{
    int32_t same = 0;
    while (strcmp(schedule->step[same].name, schedule->step[id].name) != 0)
        same++;
    return same == id;
}

static void add_subjects(struct validation *validation, const struct schedule *schedule,
                         const struct trace *predicted, const struct trace *measured)
{
    struct joined expected = join(schedule, predicted), found = join(schedule, measured);
    for (int32_t i = 0; i < KIND_COUNT; i++)
        add_subject(validation, &expected, &found, (struct subject){VALIDATE_KIND, i},
                    kind_names[i]);
    for (int32_t i = 0; i < LANE_COUNT; i++)
        if (schedule_lane(schedule, (enum lane)i))
            add_subject(validation, &expected, &found, (struct subject){VALIDATE_LANE, i},
                        schedule_lane(schedule, (enum lane)i));
    for (int32_t i = 0; i < PART_COUNT; i++)
        add_subject(validation, &expected, &found, (struct subject){VALIDATE_PART, i},
                    part_names[i]);
    for (int32_t i = 0; i < schedule->step_count; i++)
        if (schedule->step[i].kind == STEP_COLLECTIVE && is_first(schedule, i))
            add_subject(validation, &expected, &found, (struct subject){VALIDATE_COLLECTIVE, i},
                        schedule->step[i].name);
    free(expected.at);
    free(found.at);
}

static enum validate_verdict judge(const struct validation *validation)
{
    const struct validate_row *step = validation->row;
    double at_quartile = fabs(step->predicted_s / step->quartile_s - 1);
    if (validation->lab && validation->busy && step->error <= validation->tolerance)
        return VALIDATE_DISTURBED;
    if (fabs(step->error) <= validation->tolerance)
        return VALIDATE_PASS;
    if (step->error < 0 && (validation->busy || at_quartile <= validation->tolerance))
        return VALIDATE_DISTURBED;
    return VALIDATE_FAIL;
}

/* Compare two checked traces into @validation, whose tolerance, lab, likely and busy are filled.
 * Without a @schedule, from which names are borrowed, there is only the row of the whole step. */
static void validate_compare(const struct schedule *schedule, const struct trace *predicted,
                             const struct trace *measured, struct validation *validation)
{
    validation->iterations = measured->iterations - 1;
    add_step(validation, predicted, measured);
    if (schedule)
        add_subjects(validation, schedule, predicted, measured);
    validation->step_s = validation->row->predicted_s;
    validation->error_of = validation->lab ? "lower quartile" : "median";
    validation->inside = validation->likely.low <= validation->row->measured_s &&
                         validation->row->measured_s <= validation->likely.high;
    validation->verdict = judge(validation);
}

/* The measured iteration whose step time is nearest to the median. */
static int32_t validate_typical(const struct validation *validation)
{
    double median = validation->row->measured_s, *time = validation->time;
    int32_t best = 0;
    for (int32_t i = 1; i < validation->iterations; i++)
        if (fabs(time[i] - median) < fabs(time[best] - median))
            best = i;
    return best + 1;
}

static const char *const groups[] = {"step", "kind", "lane", "part", "collective"};
static_assert(ARRAY_SIZE(groups) == VALIDATE_GROUP_COUNT, "one name per group");

static const char *const verdicts[] = {"pass", "fail", "disturbed"};
static_assert(ARRAY_SIZE(verdicts) == VALIDATE_VERDICT_COUNT, "one name per verdict");

COLUMNS(row_columns, NULL, struct validate_row)
{
    COLUMN("group", group, .words = groups, .help = "step, kind, lane, part or collective");
    COLUMN("name", name, .help = "what took the time");
    COLUMN("predicted_s", predicted_s, .help = "predicted time in one step");
    COLUMN("measured_s", measured_s, .help = "median over the steps");
    COLUMN("lower_quartile_s", quartile_s, .help = "lower quartile over the steps");
    COLUMN("error", error, .null = true,
           .help = "of the prediction, relative to what error_of says; null: either took no time");
}

COLUMNS(comparison_columns, NULL, struct validation)
{
    COLUMN("measured_steps", iterations, .help = "training steps behind each median");
    COLUMN_ITEMS("step_times_s", time, iterations, .help = "each measured step, in their order");
    COLUMN("error_of", error_of, .help = "what errors are relative to: median, or lower quartile");
    COLUMN("step_s", step_s, LIKELY(likely), .help = "predicted time of a training step");
    COLUMN("inside_interval", inside, .help = "the measured step is in the predicted interval");
    COLUMN("tolerance", tolerance, .help = "on the step's error, as a fraction");
    COLUMN("verdict", verdict, .words = verdicts,
           .help = "on the step time: pass, fail or disturbed");
    COLUMN_ITEMS("rows", row, count, .table = &row_columns);
}

COLUMNS(trace_columns, NULL, struct trace)
{
    COLUMN("schedule_hash", schedule_hash, .help = "of the schedule of both sides");
    COLUMN("backend", backend, .help = "of the prediction: analytic or sim");
    COLUMN("grain", grain, .help = "of the prediction, as in a result");
}

COLUMNS(note_columns, NULL, struct validate_notes)
{
    COLUMN("late_s", late_s, .negative = true,
           .help = "how late device replay ended its steps, mean; null: another device");
    COLUMN("latest_s", latest_s, .negative = true, .help = "how late the latest step ended");
    COLUMN("trace_error_s", clock_s, .negative = true,
           .help = "how far the clocks of two ranks may be apart");
    COLUMN("steal", steal, .negative = true,
           .help = "part of the processors' time that the host had meanwhile");
    COLUMN("foreign", foreign, .negative = true,
           .help = "part of it that other processes of this machine had");
    COLUMN("idle", idle, .negative = true, .help = "part of it that nobody had");
}

COLUMNS(validation_columns, "validation/2", struct trial)
{
    COLUMN("scenario_sha256", job.scenario.sha256, .zero = true,
           .help = "of the scenario's text and the overrides; null: no job");
    COLUMN("platform", platform, .null = true, .help = "platform of the prediction; null: no job");
    COLUMN_MEMBERS(predicted, &trace_columns);
    COLUMN("device", device, .null = true,
           .help = "device that was run: cpu, cpu-naive, cuda or replay; null: none was");
    COLUMN("lab", validation.lab, .help = "it ran in the platform's lab");
    COLUMN("ranks", measured.ranks, .help = "ranks that were measured");
    COLUMN_MEMBERS(validation, &comparison_columns);
    COLUMN_MEMBERS(notes, &note_columns);
}

static char *answer_of(const struct json *all)
{
    const struct json *step = json_item(json_get(all, "rows"), 0);
    double error = html_number(step, "error", -1);
    struct text out = {0};
    text_add(&out,
             "A step was predicted to take %s and took %s in the median of %.0f: the prediction is "
             "%.1f %% too %s. Verdict with a tolerance of %g %%: %s.",
             unit_text(UNIT_SECONDS, html_number(step, "predicted_s", -1)),
             unit_text(UNIT_SECONDS, html_number(step, "measured_s", -1)),
             html_number(all, "measured_steps", -1), 100 * fabs(error),
             error > 0 ? "long" : "short", 100 * html_number(all, "tolerance", -1),
             html_word(all, "verdict"));
    return out.data;
}

static const char row_words[] =
    "group: of, name: what, predicted_s, measured_s, lower_quartile_s, error";

/* Each measured step, with the interval that was predicted for all. */
static struct json *step_rows(const struct json *all)
{
    const struct json *times = json_get(all, "step_times_s");
    struct json *rows = json_new_array();
    for (int64_t i = 0; i < json_count_items(times); i++) {
        struct json *row = json_append_object(rows);
        json_put_integer(row, "step", i + 1);
        json_put_real(row, "measured_s", html_number(all, "step_times_s", i));
        json_put_real(row, "predicted_s", html_number(all, "step_s", -1));
        json_put_real(row, "predicted_s_low", html_number(all, "step_s_low", -1));
        json_put_real(row, "predicted_s_high", html_number(all, "step_s_high", -1));
    }
    return rows;
}

static const char lane_words[] = "rank, lane, name: what, begin_s: begins, end_s: ends";

/* Write @all, what `validate --json` prints and picture_lanes() of both, as a page to @file. */
static int validation_page(const char *file, const struct json *all, struct err *err)
{
    static const struct page_part parts[] = {
        {.heading = "Where do both differ?",
         .words = "What takes less than 1 % of the step is in the table alone.",
         .picture = "rows",
         .rows = "rows",
         .caption = "predicted and measured times of one step",
         .columns = row_words},
        {.heading = "When does what run?",
         .words = "One step as it was predicted; below, of those that really ran, the one whose "
                  "time is nearest to the median. Play both at once: the axis is the same.",
         .picture = "predicted_lanes",
         .rows = "predicted_lanes",
         .caption = "what the lanes were predicted to do",
         .columns = lane_words},
        {.picture = "measured_lanes",
         .rows = "measured_lanes",
         .caption = "what the lanes did",
         .columns = lane_words}};
    struct page page = {0};
    AUTORELEASE(json) struct json *steps = step_rows(all);
    AUTOFREE char *answer = answer_of(all);
    AUTOFREE char *title =
        base_format("Predicted and measured: %.0f rank%s of %s", html_number(all, "ranks", -1),
                    base_plural((int64_t)html_number(all, "ranks", -1)),
                    *html_word(all, "platform") ? html_word(all, "platform") : "a run");
    html_answer(&page, title, answer);
    double foreign = html_number(all, "foreign", -1);
    if (isfinite(foreign))
        html_add(&page.body,
                 "<p>Meanwhile other processes had %.0f&#160;%% of this machine's processors, the "
                 "host %.0f&#160;%%.</p>\n",
                 100 * foreign, 100 * html_number(all, "steal", -1));
    html_add(&page.body,
             "<p class=\"small\">Predicted by back end %s, grain %s; schedule %s; errors are "
             "relative to the %s.</p>\n",
             html_word(all, "backend"), html_word(all, "grain"), html_word(all, "schedule_hash"),
             html_word(all, "error_of"));
    html_section(&page, "Every measured step");
    html_picture(&page, "measured", -1);
    html_table(&page, "steps", "measured steps", steps, "step, measured_s, predicted_s~", true);
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        html_part(&page, all, &parts[i]);
    return html_write(&page, file, title, all, err);
}

enum {
    STEPS_USUAL = 10,     /* measured */
    TRACED_RANKS_ALL = 64 /* up to this number, all are traced in the prediction */
};

/* ---- what is asked for ---- */

static int check_options(const struct validate_request *request, struct err *err)
{
    bool job = request->head.argument.count > 0;
    if (request->against && (job || request->head.given.count > 1 + request->head.json))
        return err_usage(err, "--against FILE.csv works alone, or with --json");
    if (!job && !request->against && !(request->predicted && request->measured))
        return err_usage(err, "a JOB is needed, or --against, or --predicted and --measured");
    if (!job && (request->trace || request->predict.set.count))
        return err_usage(err, "--trace and --set need a JOB");
    if (request->predicted && !measure_in_lab() && request->predict.order != RANK_ORDER_ROW)
        return err_usage(err, "--order has no effect without a prediction");
    return 0;
}

/* The ranks are those of the measured file, placed as in the job; or the user's, which fill nodes
 * of the platform; or the job's. */
static struct wish choose_ranks(const struct trial *trial)
{
    const struct validate_request *request = &trial->request;
    const struct scenario *s = &trial->job.scenario;
    int64_t full = platform_devices_per_node(trial->job.platform);
    int64_t each = cluster_devices_per_node(s, trial->job.platform);
    int32_t ranks = request->measured ? trial->measured.ranks : request->compute.started;
    bool same = !ranks || ranks == s->cluster.nodes * each;
    struct wish wish = {0};
    if (!same)
        wish = wish_for_ranks(ranks, request->measured ? each : full);
    wish.order = (enum rank_order)request->predict.order;
    wish.ignore_memory = request->predict.ignore_memory;
    return wish;
}

static int read_job(struct trial *trial, struct err *err)
{
    const struct validate_request *request = &trial->request;
    const char *path = request->head.argument.item[0];
    if (job_read(&trial->job, NULL, path, request->predict.set.item, request->predict.set.count,
                 NULL, err))
        return -1;
    trial->platform = trial->job.platform->name;
    struct wish wish = choose_ranks(trial);
    if (job_resolve(&trial->job, &wish, err))
        return -1;
    trial->ranks = grid_ranks(trial->job.resolved.cluster.grid);
    if (!request->measured && !request->compute.started && trial->ranks > REQUEST_RANKS_MOST)
        return err_usage(err,
                         "%s is for %d devices: give the number of ranks to start here with -n N",
                         path, trial->ranks);
    if (request->predict.traced_ranks > 0 && trial->ranks <= TRACED_RANKS_ALL)
        trial->request.predict.traced_ranks = 0;
    return 0;
}

/* ---- the prediction ---- */

/* The measured phase, by its schedule; the first one if nothing is measured yet. */
static int find_task(struct trial *trial, struct err *err)
{
    for (int32_t phase = 1; phase <= job_phases(&trial->job); phase++) {
        if (task_build(&trial->task, &trial->job, phase, &trial->request.predict, err))
            return -1;
        if (!trial->request.measured ||
            schedule_hash(trial->task.point.schedule) == trial->measured.schedule_hash)
            return 0;
        task_release(&trial->task);
    }
    return err_add_code(
        err, 65, "%s is not a run of any phase of %s on %d ranks: its schedule is %016" PRIx64,
        trial->request.measured, trial->request.head.argument.item[0], trial->ranks,
        trial->measured.schedule_hash);
}

static int predict(struct trial *trial, struct err *err)
{
    trial->validation.likely = (struct interval){NAN, NAN};
    trial->predicted = &trial->predicted_file;
    if (trial->request.predicted)
        return validate_read_spans(trial->request.predicted, &trial->predicted_file, err);
    enum backend_choice backend = task_backend(&trial->request.predict, &trial->warning);
    if (task_run_all(&trial->task, 1, backend, &trial->request.predict, err))
        return -1;
    trial->predicted = task_trace(&trial->task);
    trial->validation.waiting_s = trial->task.step - trace_step_time(trial->predicted);
    struct uncertainty doubts = uncertainty_of(&trial->job);
    trial->validation.likely = uncertainty_likely(&trial->task, &doubts);
    return 0;
}

/* ---- the measurement ---- */

/* The schedule to run is known before: ranks of one machine are one group of the hierarchical
 * algorithm, and of batch norm, for any nodes of the prediction. */
static int check_schedule(const struct trial *trial, struct err *err)
{
    struct job real = trial->job; /* its parts stay the trial's */
    struct wish wish = wish_for_ranks(trial->ranks, trial->ranks);
    wish.real = true;
    if (job_check_mpi(&real, err) || job_resolve(&real, &wish, err))
        return -1;
    struct schedule **schedule = job_training(&real, err);
    bool same = schedule && schedule_hash(schedule[0]) == schedule_hash(trial->task.point.schedule);
    bool failed = !schedule;
    training_free(&real, schedule);
    resolved_release(&real.resolved);
    if (failed)
        return -1;
    return same ? 0
                : err_add_code(err, 65,
                               "%d ranks on this one machine run another schedule than the one "
                               "predicted for %d nodes: predict for 1 node (--set cluster.nodes=1)",
                               trial->ranks, trial->task.point.nodes);
}

static int count_steps(const struct trial *trial, int32_t *steps, struct err *err)
{
    int64_t there = trial->job.resolved.plan.phase[0].steps - VALIDATE_EXTRA_STEPS;
    *steps = trial->request.steps ? trial->request.steps : STEPS_USUAL;
    if (there < 1)
        return err_usage(err, "%s: phase 1 has %lld steps, and at least %d are needed",
                         trial->request.head.argument.item[0],
                         (long long)there + VALIDATE_EXTRA_STEPS, VALIDATE_EXTRA_STEPS + 1);
    if (*steps > there)
        *steps = (int32_t)there;
    return 0;
}

static int measure(struct trial *trial, struct err *err)
{
    struct validate_run run = {.request = &trial->request, .point = &trial->task.point};
    if (trial->request.measured)
        return 0;
    trial->device = device_words[trial->request.compute.device];
    if (measure_in_lab() && trial->request.compute.device != DEVICE_REPLAY &&
        !strcmp(trial->job.platform->device.name, "ideal"))
        fprintf(stderr,
                "the device of %s computes in no time, and these ranks do not: --device replay "
                "takes the time that is predicted\n",
                trial->platform);
    return count_steps(trial, &run.steps, err) ||
           validate_measure(&run, &trial->measured, &trial->notes, err);
}

/* Without a job there are two files and nothing else. */
static int gather(struct trial *trial, struct err *err)
{
    const char *measured = trial->request.measured;
    bool job = trial->request.head.argument.count > 0;
    if (measured && validate_read_spans(measured, &trial->measured, err))
        return -1;
    if (job && (read_job(trial, err) || find_task(trial, err)))
        return -1;
    if (job && !measured && !measure_in_lab() && check_schedule(trial, err))
        return -1;
    return predict(trial, err) || measure(trial, err) ? -1 : 0;
}

/* ---- the answer ---- */

static void print_people(struct text *out, const struct trial *trial, const struct json *all)
{
    const struct trace *predicted = trial->predicted;
    const struct validation *validation = &trial->validation;
    AUTOFREE char *answer = answer_of(all);
    if (trial->ranks)
        text_add(out, "%s on %s: %d %s, %s\n", trial->job.model->name, trial->platform,
                 trial->ranks, trial->ranks > 1 ? "ranks" : "rank",
                 trial->request.measured ? trial->request.measured
                 : measure_in_lab()      ? "measured in its lab"
                                         : "measured on this machine");
    text_add(out, "predicted by %s, %s; measured by %s, %s; schedule %016" PRIx64 "\n\n",
             predicted->backend, predicted->grain, trial->measured.backend, trial->measured.grain,
             predicted->schedule_hash);
    columns_print(out, row_words, json_get(all, "rows"));
    text_add(out, "\n%s  Errors are relative to the %s.\n", answer, validation->error_of);
    if (isfinite(validation->likely.low))
        text_add(out, "the prediction's 90 %% interval, %s to %s, %s the median\n",
                 unit_text(UNIT_SECONDS, validation->likely.low),
                 unit_text(UNIT_SECONDS, validation->likely.high),
                 validation->inside ? "holds" : "does not hold");
    if (trial->notes.late_s >= 0)
        text_add(out, "rehearsed: steps ended %s late on average, %s at most\n",
                 unit_text(UNIT_SECONDS, trial->notes.late_s),
                 unit_text(UNIT_SECONDS, trial->notes.latest_s));
    int32_t ranks = trial->task.point.devices_per_node;
    int32_t cores = trial->job.platform ? platform_cores(trial->job.platform, ranks) : 0;
    if (cores > 0)
        text_add(out, "%d ranks take turns on %d cores: to wait for one is measured as waiting\n",
                 ranks, cores);
    if (trial->notes.foreign >= 0)
        text_add(out,
                 "meanwhile other processes had %.0f %% of this machine's processors, the host "
                 "%.0f %%\n",
                 100 * trial->notes.foreign, 100 * trial->notes.steal);
    if (trial->warning)
        text_add(out, "warning: %s\n", trial->warning);
}

static int write_trace(const struct trial *trial, struct err *err)
{
    struct file_fresh file;
    if (!trial->request.trace)
        return 0;
    if (file_fresh_open(&file, trial->request.trace, err))
        return -1;
    bool failed =
        timeline_write_comparison(file.stream, trial->task.point.schedule, trial->predicted,
                                  &trial->measured, validate_typical(&trial->validation), err) != 0;
    return file_fresh_close(&file, failed, NULL, err);
}

static int report(struct trial *trial, struct text *out, struct err *err)
{
    const struct validate_row *step = trial->validation.row;
    if (write_trace(trial, err))
        return -1;
    AUTORELEASE(json) struct json *json = answer_json(&validation_columns, trial);
    if (trial->request.head.json)
        json_print(out, json);
    else
        print_people(out, trial, json);
    if (trial->request.report) {
        const struct schedule *schedule = trial->task.point.schedule;
        if (schedule) { /* there is a job */
            json_put(json, "predicted_lanes", picture_lanes(schedule, trial->predicted));
            struct trace typical = trial->measured;
            typical.iterations = 1 + validate_typical(&trial->validation);
            json_put(json, "measured_lanes", picture_lanes(schedule, &typical));
        }
        if (validation_page(trial->request.report, json, err))
            return -1;
    }
    switch (trial->validation.verdict) {
    case VALIDATE_FAIL:
        return err_add_code(err, 1,
                            "the step time is predicted %.1f %% %s than it was measured: outside "
                            "the tolerance of %g %%",
                            100 * fabs(step->error), step->error > 0 ? "longer" : "shorter",
                            100 * trial->validation.tolerance);
    case VALIDATE_DISTURBED:
        return err_add_code(err, 75,
                            "disturbed: %s, which may have lengthened steps; try again when fewer "
                            "other programs run",
                            trial->validation.busy
                                ? "other programs used the processors"
                                : "half of the steps are slow and a quarter is not");
    default:
        return 0;
    }
}

static void release(struct trial *trial)
{
    free(trial->validation.row);
    free(trial->validation.time);
    trace_release(&trial->predicted_file);
    trace_release(&trial->measured);
    task_release(&trial->task);
    job_release(&trial->job);
    free(trial->warning);
}

static int validate(const void *record, struct text *out, struct err *err)
{
    const struct validate_request *request = record;
    struct trial trial = {.request = *request,
                          .validation.tolerance = request->tolerance,
                          .notes = {-1, -1, -1, -1, -1, -1}};
    if (check_options(request, err))
        return -1;
    if (request->against)
        return against_score(request->against, request->head.json, out, err);
    int failed = gather(&trial, err) ||
                 validate_check(trial.task.point.schedule, trial.predicted, &trial.measured, err);
    if (!failed) {
        trial.validation.lab = !request->measured && measure_in_lab();
        trial.validation.busy = validate_was_disturbed(&trial.notes);
        validate_compare(trial.task.point.schedule, trial.predicted, &trial.measured,
                         &trial.validation);
        failed = report(&trial, out, err);
    }
    release(&trial);
    return failed ? -1 : 0;
}

#define AT(member) offsetof(struct validate_request, member)

static const struct option options[] = {
    ROW_STARTED(AT(compute.started)),
    ROW_SET(AT(predict.set)),
    OPTION_ROW("steps", 0, OPTION_INTEGER, AT(steps), "N", NULL,
               "Training steps to measure (default: 10)"),
    ROW_ORDER(AT(predict.order)),
    ROW_DEVICE(AT(compute.device)),
    ROW_THREADS(AT(compute.threads)),
    ROW_TIMEOUT(AT(timeout)),
    ROWS_BACKEND(predict),
    ROW_REPORT(AT(report)),
    ROW_JSON,
    OPTION_ROW("tolerance", 0, OPTION_REAL, AT(tolerance), "SHARE", NULL,
               "What the step time may be off by, relative to the measured one (default: 10 %)",
               .unit = UNIT_FRACTION, .example = "a share such as 5 %"),
    OPTION_ROW("predicted", 0, OPTION_TEXT, AT(predicted), "FILE", NULL,
               "Spans of `predict --spans` instead of a prediction",
               .bars = "backend|grain|noise|ignore-memory"),
    OPTION_ROW("measured", 0, OPTION_TEXT, AT(measured), "FILE", NULL,
               "Spans of `train --spans` instead of a run",
               .bars = "ranks|steps|threads|device|timeout"),
    OPTION_ROW("against", 0, OPTION_TEXT, AT(against), "FILE.csv", NULL,
               "Score kept predictions, such as those of `sweep --csv`, to which a column "
               "measured_s was added since"),
    OPTION_ROW("trace", 't', OPTION_OUTPUT, AT(trace), "FILE", NULL,
               "Write both, one below the other, as Chrome/Kineto JSON"),
    ROW_LAST};

static const struct validate_request defaults = {
    .predict = {PREDICT_COMMAND}, .timeout = REQUEST_TIMEOUT, .tolerance = 0.1};

const struct command command_validate = {
    .name = "validate",
    .synopsis = "[JOB] [options]",
    .help = "predict and really run a few training steps, and compare them step by step",
    .examples =
        "foretrain validate job.yaml -n 2 --set cluster.platform=two-core\n"
        "foretrain validate job.yaml --measured spans.txt    (of `foretrain-exec train --spans`)\n"
        "foretrain validate --against predictions.csv    (of `sweep --csv`, measured since)",
    RECORD(options, struct validate_request, &defaults),
    TAKES(0, 1),
    .jobs = true,
    ANSWERS(&validation_columns, &against_columns),
    .run = validate,
};
