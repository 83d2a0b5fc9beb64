#include <sys/ioctl.h>

#include "app/answer/predict_page.h"
#include "app/cli/command.h"
#include "app/process/child.h"
#include "core/price/price.h"
#include "core/report/gantt.h"
#include "core/report/timeline.h"

struct predict_request {
    struct request head;
    struct predict_options predict;
    const char *trace, *spans, *report, *prices;
    double published; /* NAN: nothing is */
    bool brief, assumptions;
    bool step;     /* nothing but the step, as `show step` */
    int32_t width; /* [columns]; 0: the terminal's */
};

static int32_t find_width(const struct predict_request *request)
{
    struct winsize size;
    if (request->width)
        return request->width;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_col < GANTT_WIDTH_LEAST)
        return GANTT_WIDTH;
    return size.ws_col;
}

/* The time of a step has the wait that is expected for slower ranks, the picture has not. */
static void print_step(struct text *out, const struct result *result,
                       const struct report_exchanges *list, int32_t width)
{
    text_add(out, "%s on %s: last phase, rank %d, which %s; back end %s, grain %s\n",
             result->scenario->model.network, result->platform, list->rank,
             schedule_stages(list->schedule) > 1 ? "computes most" : "ends last", result->backend,
             result->grain);
    if (result->step.slower > 1e-3 * result->step.time)
        text_add(out, "not drawn: waiting for slower ranks, %s\n",
                 unit_text(UNIT_SECONDS, result->step.slower));
    text_add(out, "\n");
    gantt_print(out, list, width);
}

static int print(struct text *out, const struct predict_request *request,
                 struct prediction *prediction, struct err *err)
{
    const struct task *last = prediction_last(prediction);
    AUTORELEASE(exchanges)
    struct report_exchanges list =
        exchanges_of(&last->point.run, last->point.schedule, last->quiet);
    if (request->head.json || request->report || request->brief)
        prediction_add_warnings(prediction, err);
    if (request->head.json) {
        AUTORELEASE(json) struct json *json = prediction_json(prediction);
        json_print(out, json);
    } else if (request->step && !csv_is_answer(&request->head)) {
        print_step(out, &prediction->result, &list, find_width(request));
    } else if (!csv_is_answer(&request->head)) {
        result_print(out, &prediction->result,
                     request->brief         ? REPORT_BRIEF
                     : request->assumptions ? REPORT_WHOLE
                                            : REPORT_USUAL);
    }
    const struct predict_page page = {prediction, request->head.argument.item[0], &request->predict,
                                      &list, request->published};
    return csv_write(&request->head, answer_list(&exchange_columns, list.exchange, list.count),
                     &exchange_columns, out, err) ||
           (request->report && predict_page(request->report, &page, err));
}

static int predict(const void *record, struct text *out, struct err *err)
{
    const struct predict_request *request = record;
    if (request->predict.iterations != PREDICT_CHOOSE && request->predict.iterations < 1)
        return err_add_code(err, 64, "--iterations: at least 1");
    if (request->width && request->width < GANTT_WIDTH_LEAST)
        return err_add_code(err, 64, "--width: at least %d", GANTT_WIDTH_LEAST);
    AUTORELEASE(prediction) struct prediction prediction = {0};
    AUTORELEASE(price) struct price_file prices = {0};
    AUTORELEASE(texts) struct texts set = {0};
    struct predict_options options = request->predict;
    if (request->prices && price_read(&prices, request->prices, err))
        return -1;
    options.set = set = predict_set(&request->predict, request->prices ? &prices : NULL);
    if (prediction_make(&prediction, request->head.argument.item[0], &options, err))
        return -1;
    if (request->prices) {
        price_check_device(&prices, prediction.job.platform->device.name, err);
        struct usage usage = prediction_usage(&prediction);
        prediction.result.bill = price_bill(&prices, &usage);
    }
    const struct task *last = prediction_last(&prediction);
    const struct schedule *schedule = last->point.schedule;
    int failed =
        print(out, request, &prediction, err) ||
        timeline_write_kineto_at(request->trace, schedule, task_trace(last), err) ||
        timeline_write_file(request->spans, timeline_write_spans, schedule, task_trace(last), err);
    return failed ? -1 : 0;
}

#define AT(member) offsetof(struct predict_request, member)

/* How a step is predicted. */
#define ROWS_STEP                                                                                  \
    ROW_SET_ALL(AT(predict.set)), ROWS_BACKEND(predict), ROW_ORDER(AT(predict.order)),             \
        ROW_ITERATIONS(AT(predict.iterations)), ROW_TRACED_RANKS(AT(predict.traced_ranks)),        \
        ROW_JSON

static const struct option options[] = {
    ROWS_STEP,
    ROW_PRICES(AT(prices)),
    OPTION_ROW("trace", 't', OPTION_OUTPUT, AT(trace), "FILE|DIR/", NULL,
               "Write the last phase's steps as Chrome/Kineto JSON: FILE, FILE.gz, or a file for "
               "each rank in DIR/",
               .holds = "rank-*.json"),
    ROW_SPANS(AT(spans)),
    ROW_REPORT(AT(report)),
    OPTION_ROW("published", 0, OPTION_REAL, AT(published), "SHARE", NULL,
               "A scaling efficiency that somebody measured, to draw beside the curve: 91.6%",
               "report", .unit = UNIT_FRACTION, .example = "a share such as 91.6%",
               .most = 2 /* more than any cluster has: "91" is 91 times */),
    ROW_CSV("when each all-reduce of the last phase's step is ready, begins, ends and is exposed"),
    OPTION_ROW("brief", 0, OPTION_FLAG, AT(brief),
               .help = "Print the answer alone: 12 lines, and the bill"),
    OPTION_ROW("assumptions", 0, OPTION_FLAG, AT(assumptions),
               .help = "Print assumptions with their reasons", .bars = "brief"),
    ROW_LAST};

static const struct option step_options[] = {
    ROWS_STEP, ROW_CSV("when each all-reduce is ready, begins, ends and is exposed"),
    OPTION_ROW("width", 'w', OPTION_INTEGER, AT(width), "COLUMNS", NULL,
               "Of the picture (default: the terminal's, else 80)"),
    ROW_LAST};

static const struct predict_request defaults = {.predict = {PREDICT_COMMAND}, .published = NAN};
static const struct predict_request step_defaults = {.predict = {PREDICT_COMMAND}, .step = true};

const struct command command_predict = {
    .name = "predict",
    .heading = "start here",
    .synopsis = "JOB [options]",
    .help = "step time, images/s, scaling efficiency, time to train and what bounds them",
    .examples = "foretrain predict experiments/01_sony_abci/v1-1088.yaml\n"
                "foretrain predict job.yaml --set cluster.nodes=512 --json\n"
                "foretrain predict job.yaml --prices example-h100\n"
                "foretrain predict job.yaml --trace trace.json    (open in ui.perfetto.dev)",
    RECORD(options, struct predict_request, &defaults),
    TAKES(1, 1),
    .jobs = true,
    ANSWERS(&result_columns),
    .run = predict,
};

const struct command command_show_step = {
    .name = "step",
    .synopsis = "JOB [options]",
    .help = "one training step in time: what is computed, which bucket waits, what is exposed",
    .examples = "foretrain show step experiments/01_sony_abci/v1-1088.yaml",
    RECORD(step_options, struct predict_request, &step_defaults),
    TAKES(1, 1),
    .jobs = true,
    ANSWERS(&result_columns),
    .run = predict,
};
