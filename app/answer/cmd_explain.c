#include "app/cli/command.h"
#include "app/predict/explain.h"
#include "app/process/child.h"

/* Runs A and B, and the answer: the causes of A's loss, or of B's larger loss. */
struct answer {
    struct explanation run[2];
    int32_t count;
    struct cause cause[CAUSE_COUNT];
    const struct cause *column[3]; /* (columns) of the table: A, B, B - A */
    int32_t columns;
    double points;        /* their sum */
    struct interval lost; /* 90 % of its draws */
    char *sentence;       /* owned */
};

struct explain_request {
    struct request head;
    struct predict_options predict;
    int32_t phase; /* from 1; 0: the last */
};

static const char *const run_names[] = {"A", "B"};

static struct cause add_up(const struct cause *cause)
{
    struct cause sum = {0};
    for (int i = 0; i < CAUSE_COUNT; i++) {
        sum.seconds += cause[i].seconds;
        sum.points += cause[i].points;
    }
    return sum;
}

/* Below the table's precision: rounding of equal times does not get a row. */
static bool is_nothing(const struct cause *cause)
{
    return fabs(cause->points) < 0.005;
}

/* The sentence.  The caller frees it. */
static char *tell(const struct answer *answer)
{
    int worst = 0;
    for (int i = 1; i < CAUSE_COUNT; i++)
        worst = answer->cause[worst].points < answer->cause[i].points ? i : worst;
    const struct cause *cause = &answer->cause[worst];
    const char *who = answer->count == 1 ? "A loses" : "B loses";
    const char *than = answer->count == 1 ? "against its baseline" : "more than A";
    if (is_nothing(cause) || answer->points <= 0)
        return base_format("%s nothing %s", who, than);
    return base_format("%s %.1f points of efficiency %s, %.1f of them to %s%s%s", who,
                       answer->points, than, cause->points, cause->name,
                       cause->link ? " on the " : "", cause->link ? cause->link : "");
}

static void conclude(struct answer *answer)
{
    const struct explanation *a = &answer->run[0], *b = &answer->run[1];
    for (int i = 0; i < CAUSE_COUNT; i++)
        answer->cause[i] =
            answer->count == 1 ? a->cause[i] : explanation_difference(a, b, (enum cause_kind)i);
    for (int32_t i = 0; i < 2 && answer->count == 2; i++)
        answer->column[answer->columns++] = answer->run[i].cause;
    answer->column[answer->columns++] = answer->cause;
    struct interval gained = a->efficiency_likely;
    if (answer->count == 2)
        explanation_difference_likely(a, b, answer->cause, &gained);
    double whole = answer->count == 1 ? 100 : 0;
    answer->points = add_up(answer->cause).points;
    answer->lost = (struct interval){whole - 100 * gained.high, whole - 100 * gained.low};
    answer->sentence = tell(answer);
}

/* --- text --- */

static const char *const column_names[] = {"A", "B", "B - A"};

/* Draws do not get a row for less than a twentieth of a point. */
static bool is_hidden(const struct cause *cause)
{
    struct interval likely = cause->points_likely;
    return is_nothing(cause) && !(likely.low <= -0.05) && !(likely.high >= 0.05);
}

static void print_cell(struct text *out, const struct cause *cause)
{
    text_add(out, "%13s%8.2f", unit_text(UNIT_SECONDS, is_nothing(cause) ? 0 : cause->seconds),
             is_nothing(cause) ? 0 : cause->points);
}

/* Without the sign of a zero. */
static double rounded(double points)
{
    return round(100 * points) / 100 + 0.0;
}

/* Of the points of the last column; nothing without draws. */
static void print_likely(struct text *out, struct interval likely)
{
    if (!isnan(likely.low))
        text_add(out, "%10.2f to %.2f", rounded(likely.low), rounded(likely.high));
}

static void print_row(struct text *out, const struct answer *answer, int cause)
{
    bool nothing = true;
    for (int32_t i = 0; i < answer->columns; i++)
        nothing = nothing && is_hidden(&answer->column[i][cause]);
    if (nothing)
        return;
    const char *link = answer->cause[cause].link;
    text_add(out, "  %-33s%-13s", cause_names[cause], link ? link : "");
    for (int32_t i = 0; i < answer->columns; i++)
        print_cell(out, &answer->column[i][cause]);
    print_likely(out, answer->cause[cause].points_likely);
    text_add(out, "\n");
}

static void print_table(struct text *out, const struct answer *answer)
{
    text_add(out, "\n  %-33s%-13s", "cause", "link");
    for (int32_t i = 0; i < answer->columns; i++)
        text_add(out, "%13s%8s", column_names[i], "points");
    text_add(out, "%s\n", isnan(answer->lost.low) ? "" : "     90 % interval");
    for (int cause = 0; cause < CAUSE_COUNT; cause++)
        print_row(out, answer, cause);
    text_add(out, "  %-33s%-13s", "sum", "");
    for (int32_t i = 0; i < answer->columns; i++) {
        struct cause sum = add_up(answer->column[i]);
        print_cell(out, &sum);
    }
    print_likely(out, answer->lost);
    text_add(out, "\n");
}

/* Links beside which others are as busy, which a faster link would not help. */
static void print_limits(struct text *out, const struct point *run)
{
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++) {
        AUTORELEASE(text) struct text beside = {0};
        int32_t tier = report_bottleneck(run->fabric, run->schedule, axis, &beside);
        if (beside.length)
            text_add(out, "   busiest in the %s exchange: %s%s\n", axis_names[axis],
                     run->fabric->tier_name[tier], beside.data);
    }
}

static void print_run(struct text *out, const char *name, const struct explanation *e)
{
    const struct point *run = &e->task[0].point, *baseline = &e->task[1].point;
    int32_t devices = e->devices[EXPLAIN_BASELINE];
    const char *what = model_inputs(e->job.model, 0);
    text_add(out, "%s: %s\n", name, e->scenario);
    text_add(out, "   %s on %s, phase %d: %d devices with %.0f %s in a step of %s\n",
             e->job.scenario.model.network, e->platform, e->phase, e->devices[EXPLAIN_RUN],
             point_images(run) * e->devices[EXPLAIN_RUN], what,
             unit_text(UNIT_SECONDS, e->task[0].step));
    text_add(out, "   efficiency %s", unit_text(UNIT_FRACTION, e->efficiency));
    if (!isnan(e->efficiency_likely.low))
        text_add(out, " (90 %% interval %s to %s)",
                 unit_text(UNIT_FRACTION, e->efficiency_likely.low),
                 unit_text(UNIT_FRACTION, e->efficiency_likely.high));
    text_add(out, " of %d device%s with %.0f (back end %s, grain %s)\n", devices,
             base_plural(devices), point_images(baseline) * devices, e->backend, e->grain);
    AUTOFREE char *nccl = job_nccl_text(&e->job, run);
    if (nccl)
        text_add(out, "   %s\n", nccl);
    print_limits(out, run);
}

/* Times are compared for equal numbers of images. */
static void print_scale(struct text *out, const struct answer *answer)
{
    const struct point *a = &answer->run[0].task[0].point, *b = &answer->run[1].task[0].point;
    if (answer->count == 2 && point_images(a) != point_images(b))
        text_add(out,
                 "\nthe times of B - A are for the %lld %s of B: those of A count %.3g times\n",
                 (long long)b->batch, model_inputs(answer->run[1].job.model, 0),
                 point_images(b) / point_images(a));
}

static void print_answer(struct text *out, const struct answer *answer)
{
    for (int32_t i = 0; i < answer->count; i++)
        print_run(out, run_names[i], &answer->run[i]);
    print_table(out, answer);
    print_scale(out, answer);
    text_add(out, "\n%s\n", answer->sentence);
    for (int32_t i = 0; i < answer->count; i++)
        if (answer->run[i].warning)
            text_add(out, "warning: %s: %s\n", run_names[i], answer->run[i].warning);
}

/* --- for programs --- */

COLUMNS(cause_columns, NULL, struct cause)
{
    COLUMN("name", name, .help = "what the lost time is spent on");
    COLUMN("link", link, .null = true, .help = "kind of link that limits it; null: none");
    COLUMN("seconds", seconds, LIKELY(seconds_likely),
           .help = "per step of the run, less the baseline's for as many images");
    COLUMN("points", points, LIKELY(points_likely),
           .help = "percent of the step, which are points of efficiency");
}

/* A line of the whole table. */
struct line {
    const char *column;
    struct cause cause;
};

COLUMNS(line_columns, NULL, struct line)
{
    COLUMN("column", column, .help = "A, B or B - A");
    COLUMN_MEMBERS(cause, &cause_columns);
}

/* Of the run and of its baseline. */
#define SIDE(object, side)                                                                         \
    COLUMN(object "devices", devices[side], .help = "devices in use");                             \
    COLUMN(object "batch_per_device", task[side].point.batch, .help = "of each, or a group");      \
    COLUMN(object "step_s", task[side].step, .help = "one training step")

COLUMNS(run_columns, NULL, struct explanation)
{
    COLUMN("scenario", scenario, .help = "path of the job");
    COLUMN("platform", platform, .help = "name of its platform");
    COLUMN("backend", backend, .help = "analytic or sim");
    COLUMN("grain", grain, .help = "as in a result");
    COLUMN("phase", phase, .help = "phase that is explained, from 1");
    SIDE("", EXPLAIN_RUN);
    SIDE("baseline.", EXPLAIN_BASELINE);
    COLUMN("scaling_efficiency", efficiency, LIKELY(efficiency_likely),
           .help = "device time of an image in the baseline over that in the run");
    COLUMN("warning", warning, .null = true, .help = "about the back end; null: none");
    COLUMN_ARRAY("causes", cause, .table = &cause_columns);
}

COLUMNS(explain_columns, "explain/2", struct answer)
{
    COLUMN_ITEMS("runs", run, count, .table = &run_columns);
    COLUMN_ARRAY("causes", cause, .table = &cause_columns);
    COLUMN("points", points, LIKELY(lost),
           .help = "points of efficiency that the only run loses, or the second beyond the first");
    COLUMN("sentence", sentence, .help = "the largest cause in words");
}

static struct json *lines_json(const struct answer *answer)
{
    struct line line[3 * CAUSE_COUNT];
    for (int32_t i = 0; i < answer->columns * CAUSE_COUNT; i++)
        line[i] = (struct line){column_names[i / CAUSE_COUNT],
                                answer->column[i / CAUSE_COUNT][i % CAUSE_COUNT]};
    return answer_list(&line_columns, line, answer->columns * CAUSE_COUNT);
}

/* The unknown inputs of all runs have equal random numbers where their keys are equal. */
static int draw(struct answer *answer, const struct predict_options *options, struct err *err)
{
    AUTORELEASE(unknowns) struct unknowns all = {0};
    int failed = 0;
    for (int32_t i = 0; i < answer->count && !failed; i++)
        failed = unknowns_merge(&all, &answer->run[i].job.unknowns, err);
    for (int32_t i = 0; i < answer->count && !failed; i++)
        failed = explanation_draw(&answer->run[i], options, &all, err);
    return failed;
}

static int explain(const void *record, struct text *out, struct err *err)
{
    const struct explain_request *request = record;
    struct answer answer = {.count = request->head.argument.count};
    int failed = 0;
    for (int32_t i = 0; i < answer.count && !failed; i++)
        failed = explanation_make(&answer.run[i], request->head.argument.item[i], &request->predict,
                                  request->phase, err);
    if (!failed && !(failed = draw(&answer, &request->predict, err))) {
        conclude(&answer);
        if (request->head.json)
            answer_print(out, &explain_columns, &answer);
        else if (!csv_is_answer(&request->head))
            print_answer(out, &answer);
        failed = csv_write(&request->head, lines_json(&answer), NULL, out, err);
    }
    for (int32_t i = 0; i < answer.count; i++)
        explanation_release(&answer.run[i]);
    free(answer.sentence);
    return failed;
}

#define AT(member) offsetof(struct explain_request, member)

static const struct option options[] = {ROW_SET_ALL(AT(predict.set)),
                                        ROW_PHASE(AT(phase)),
                                        ROWS_BACKEND(predict),
                                        ROW_JSON,
                                        ROW_CSV("the causes of each column"),
                                        ROW_LAST};

static const struct explain_request defaults = {.predict = {PREDICT_COMMAND}};

const struct command command_explain = {
    .name = "explain",
    .synopsis = "JOB [JOB] [options]",
    .help = "where the efficiency goes: of a job, or what the second loses more than the first",
    .examples = "foretrain explain experiments/01_sony_abci/v1-3264.yaml\n"
                "foretrain explain experiments/01_sony_abci/v1-1088.yaml "
                "experiments/01_sony_abci/v1-3264.yaml",
    RECORD(options, struct explain_request, &defaults),
    TAKES(1, 2),
    .jobs = true,
    ANSWERS(&explain_columns),
    .run = explain,
};
