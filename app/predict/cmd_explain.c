#include <math.h>

#include "app/cli/command.h"
#include "app/cli/csv.h"
#include "app/predict/explain.h"
#include "config.h"

/* Runs A and B, and the answer: the causes of A's loss, or of B's larger loss. */
struct answer {
    struct explanation run[2];
    int32_t count;
    struct cause cause[CAUSE_COUNT];
    struct interval lost; /* 90 % of the draws of the sum of the points */
};

struct explain_request {
    struct request head;
    struct predict_options predict;
    int32_t phase; /* from 1; 0: the last */
};

static const char *const run_names[] = {"A", "B"};

static void conclude(struct answer *answer)
{
    const struct explanation *a = &answer->run[0], *b = &answer->run[1];
    for (int i = 0; i < CAUSE_COUNT; i++)
        answer->cause[i] =
            answer->count == 1 ? a->cause[i] : explanation_difference(a, b, (enum cause_kind)i);
    struct interval gained = a->efficiency_likely;
    if (answer->count == 2)
        explanation_difference_likely(a, b, answer->cause, &gained);
    double whole = answer->count == 1 ? 100 : 0;
    answer->lost = (struct interval){whole - 100 * gained.high, whole - 100 * gained.low};
}

static struct cause add_up(const struct cause *cause)
{
    struct cause sum = {0};
    for (int i = 0; i < CAUSE_COUNT; i++) {
        sum.seconds += cause[i].seconds;
        sum.points += cause[i].points;
    }
    return sum;
}

/* --- text --- */

/* The columns of the table: the causes of each run, then of the answer when that is neither. */
struct columns {
    const struct cause *cause[3];
    int32_t count;
};

static const char *const column_names[] = {"A", "B", "B - A"};

static struct columns list_columns(const struct answer *answer)
{
    if (answer->count == 1)
        return (struct columns){.cause = {answer->cause}, .count = 1};
    return (struct columns){
        .cause = {answer->run[0].cause, answer->run[1].cause, answer->cause},
        .count = 3,
    };
}

/* Below the table's precision: rounding of equal times does not get a row. */
static bool is_nothing(const struct cause *cause)
{
    return fabs(cause->points) < 0.005;
}

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
    struct columns columns = list_columns(answer);
    bool nothing = true;
    for (int32_t i = 0; i < columns.count; i++)
        nothing = nothing && is_hidden(&columns.cause[i][cause]);
    if (nothing)
        return;
    const char *link = answer->cause[cause].link;
    text_add(out, "  %-33s%-13s", cause_names[cause], link ? link : "");
    for (int32_t i = 0; i < columns.count; i++)
        print_cell(out, &columns.cause[i][cause]);
    print_likely(out, answer->cause[cause].points_likely);
    text_add(out, "\n");
}

static void print_table(struct text *out, const struct answer *answer)
{
    struct columns columns = list_columns(answer);
    text_add(out, "\n  %-33s%-13s", "cause", "link");
    for (int32_t i = 0; i < columns.count; i++)
        text_add(out, "%13s%8s", column_names[i], "points");
    text_add(out, "%s\n", isnan(answer->lost.low) ? "" : "     90 % interval");
    for (int cause = 0; cause < CAUSE_COUNT; cause++)
        print_row(out, answer, cause);
    text_add(out, "  %-33s%-13s", "sum", "");
    for (int32_t i = 0; i < columns.count; i++) {
        struct cause sum = add_up(columns.cause[i]);
        print_cell(out, &sum);
    }
    print_likely(out, answer->lost);
    text_add(out, "\n");
}

static void print_run(struct text *out, const char *name, const struct explanation *e)
{
    const struct point *run = &e->task[0].point, *baseline = &e->task[1].point;
    const struct trace *trace = task_trace(&e->task[0]);
    const char *what = model_reads_pictures(e->job.model) ? "images" : "samples";
    text_add(out, "%s: %s\n", name, scenario_name(&e->job.scenario));
    text_add(out, "   %s on %s, phase %d: %d devices with %lld %s each, %s a step\n",
             e->job.scenario.model.network, platform_name(e->job.platform), e->phase,
             run->fabric->ranks, (long long)run->batch, what,
             unit_text(UNIT_SECONDS, e->task[0].step));
    text_add(out, "   efficiency %s", unit_text(UNIT_FRACTION, e->efficiency));
    if (!isnan(e->efficiency_likely.low))
        text_add(out, " (90 %% interval %s to %s)",
                 unit_text(UNIT_FRACTION, e->efficiency_likely.low),
                 unit_text(UNIT_FRACTION, e->efficiency_likely.high));
    text_add(out, " of %d device%s with %lld %s each (back end %s, grain %s)\n",
             baseline->fabric->ranks, base_plural(baseline->fabric->ranks),
             (long long)baseline->batch, what, trace->backend, trace->grain);
}

/* Times are compared for equal numbers of images. */
static void print_scale(struct text *out, const struct answer *answer)
{
    const struct point *a = &answer->run[0].task[0].point, *b = &answer->run[1].task[0].point;
    if (answer->count == 2 && a->batch != b->batch)
        text_add(out,
                 "\nthe times of B - A are for the %lld %s of B: those of A count %.3g times\n",
                 (long long)b->batch,
                 model_reads_pictures(answer->run[1].job.model) ? "images" : "samples",
                 (double)b->batch / (double)a->batch);
}

/* The sentence.  The caller frees it. */
static char *tell(const struct answer *answer)
{
    int worst = 0;
    for (int i = 1; i < CAUSE_COUNT; i++)
        worst = answer->cause[worst].points < answer->cause[i].points ? i : worst;
    const struct cause *cause = &answer->cause[worst];
    double points = add_up(answer->cause).points;
    const char *who = answer->count == 1 ? "A loses" : "B loses";
    const char *than = answer->count == 1 ? "against its baseline" : "more than A";
    if (is_nothing(cause) || points <= 0)
        return base_format("%s nothing %s", who, than);
    return base_format("%s %.1f points of efficiency %s, %.1f of them to %s%s%s", who, points, than,
                       cause->points, cause_names[worst], cause->link ? " on the " : "",
                       cause->link ? cause->link : "");
}

static void print_answer(struct text *out, const struct answer *answer)
{
    for (int32_t i = 0; i < answer->count; i++)
        print_run(out, run_names[i], &answer->run[i]);
    print_table(out, answer);
    print_scale(out, answer);
    AUTOFREE char *sentence = tell(answer);
    text_add(out, "\n%s\n", sentence);
    for (int32_t i = 0; i < answer->count; i++)
        if (answer->run[i].warning)
            text_add(out, "warning: %s: %s\n", run_names[i], answer->run[i].warning);
}

/* --- JSON --- */

static void put_interval(struct json *json, const char *key, struct interval likely)
{
    json_put_interval(json, key, likely.low, likely.high);
}

/* Appended to @list; @column is "A", or NULL for none. */
static void add_causes(struct json *list, const struct cause *cause, const char *column)
{
    for (int i = 0; i < CAUSE_COUNT; i++) {
        struct json *json = json_append_object(list);
        if (column)
            json_put_text(json, "column", column);
        json_put_text(json, "name", cause_names[i]);
        json_put_text(json, "link", cause[i].link);
        json_put_real(json, "seconds", cause[i].seconds);
        json_put_real(json, "points", cause[i].points);
        put_interval(json, "seconds_interval", cause[i].seconds_likely);
        put_interval(json, "points_interval", cause[i].points_likely);
    }
}

static struct json *causes_json(const struct cause *cause)
{
    struct json *list = json_new_array();
    add_causes(list, cause, NULL);
    return list;
}

/* The whole table. */
static struct json *columns_json(const struct answer *answer)
{
    struct json *list = json_new_array();
    struct columns columns = list_columns(answer);
    for (int32_t i = 0; i < columns.count; i++)
        add_causes(list, columns.cause[i], column_names[i]);
    return list;
}

static struct json *run_json(const struct explanation *e)
{
    struct json *json = json_new_object();
    json_put_text(json, "scenario", scenario_name(&e->job.scenario));
    json_put_text(json, "platform", platform_name(e->job.platform));
    json_put_text(json, "backend", task_trace(&e->task[0])->backend);
    json_put_text(json, "grain", task_trace(&e->task[0])->grain);
    json_put_integer(json, "phase", e->phase);
    json_put_integer(json, "devices", e->task[0].point.fabric->ranks);
    json_put_integer(json, "batch_per_device", e->task[0].point.batch);
    json_put_real(json, "step_time_s", e->task[0].step);
    json_put_integer(json, "baseline_devices", e->task[1].point.fabric->ranks);
    json_put_integer(json, "baseline_batch_per_device", e->task[1].point.batch);
    json_put_real(json, "baseline_step_time_s", e->task[1].step);
    json_put_real(json, "efficiency", e->efficiency);
    put_interval(json, "efficiency_interval", e->efficiency_likely);
    json_put(json, "causes", causes_json(e->cause));
    json_put_text(json, "warning", e->warning);
    return json;
}

static void print_json(struct text *out, const struct answer *answer)
{
    struct json *json = json_new_object(), *runs = json_new_array();
    AUTOFREE char *sentence = tell(answer);
    for (int32_t i = 0; i < answer->count; i++)
        json_append(runs, run_json(&answer->run[i]));
    json_put_text(json, "schema", "foretrain/explain/1");
    json_put_text(json, "version", FORETRAIN_VERSION);
    json_put(json, "runs", runs);
    json_put(json, "causes", causes_json(answer->cause));
    json_put_real(json, "points", add_up(answer->cause).points);
    put_interval(json, "points_interval", answer->lost);
    json_put_text(json, "sentence", sentence);
    json_print(out, json);
    json_free(json);
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
            print_json(out, &answer);
        else if (!csv_is_answer(&request->head))
            print_answer(out, &answer);
        failed = csv_write(&request->head, columns_json(&answer), out, err);
    }
    for (int32_t i = 0; i < answer.count; i++)
        explanation_release(&answer.run[i]);
    return failed;
}

#define AT(member) offsetof(struct explain_request, member)

static const struct option options[] = {ROW_SET_SHORT(AT(predict.set)),
                                        ROW_SET_PLATFORM(AT(predict.set)),
                                        ROW_PHASE(AT(phase)),
                                        ROW_BACKEND(AT(predict.backend)),
                                        ROW_GRAIN(AT(predict.grain)),
                                        ROW_NOISE(AT(predict.noise)),
                                        ROW_IGNORE_MEMORY(AT(predict.ignore_memory)),
                                        ROW_JSON,
                                        ROW_CSV("the causes of each column"),
                                        ROW_LAST};

static const struct explain_request defaults = {.predict = {PREDICT_DEFAULTS}};

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
    .run = explain,
};
