#include <stdlib.h>

#include "app/cli/command.h"
#include "app/predict/prediction.h"
#include "core/report/exchanges.h"
#include "core/report/timeline.h"

struct predict_request {
    struct request head;
    struct predict_options predict;
    const char *trace, *paje, *spans, *csv;
    bool buckets;
};

static void print(struct text *out, const struct predict_request *request,
                  const struct prediction *prediction)
{
    const struct task *last = prediction_last(prediction);
    struct report_exchanges list = exchanges_of(last->point.schedule, last->quiet);
    if (request->head.json) {
        struct json *json = result_json(&prediction->result);
        json_put(json, "exchanges", exchanges_json(&list));
        json_print(out, json);
        json_free(json);
    } else {
        result_print(out, &prediction->result);
        if (request->buckets)
            exchanges_print(out, &list);
    }
    free(list.exchange);
}

static int predict(const void *record, struct text *out, struct err *err)
{
    const struct predict_request *request = record;
    if (request->predict.iterations != REQUEST_CHOOSE && request->predict.iterations < 1)
        return err_add_code(err, 64, "--iterations: at least 1");
    struct prediction prediction = {0};
    int failed =
        prediction_make(&prediction, request->head.argument.item[0], &request->predict, err);
    if (!failed) {
        const struct task *last = prediction_last(&prediction);
        print(out, request, &prediction);
        const struct schedule *schedule = last->point.schedule;
        failed = timeline_write_file(request->trace, timeline_write_kineto, schedule,
                                     task_trace(last), err) ||
                 timeline_write_file(request->paje, timeline_write_paje, schedule, task_trace(last),
                                     err) ||
                 timeline_write_file(request->spans, timeline_write_spans, schedule,
                                     task_trace(last), err) ||
                 timeline_write_file(request->csv, exchanges_write_csv, schedule, last->quiet, err);
    }
    prediction_release(&prediction);
    return failed ? -1 : 0;
}

#define AT(member) offsetof(struct predict_request, member)

static const struct option options[] = {
    ROW_SET_SHORT(AT(predict.set)),
    ROW_SET_PLATFORM(AT(predict.set)),
    ROW_BACKEND(AT(predict.backend)),
    ROW_GRAIN(AT(predict.grain)),
    ROW_NOISE(AT(predict.noise)),
    ROW_IGNORE_MEMORY(AT(predict.ignore_memory)),
    ROW_ORDER(AT(predict.order)),
    ROW_JSON,
    OPTION_ROW("trace", 't', OPTION_TEXT, AT(trace), "FILE", NULL,
               "Write the last phase's steps as Chrome/Kineto JSON"),
    OPTION_ROW("paje", 0, OPTION_TEXT, AT(paje), "FILE", NULL,
               "Write the last phase's steps as a Paje trace"),
    ROW_SPANS(AT(spans)),
    OPTION_ROW("buckets", 0, OPTION_FLAG, AT(buckets),
               .help =
                   "Print each all-reduce of the last phase's step: ready, begin, end, exposed"),
    OPTION_ROW("csv", 0, OPTION_TEXT, AT(csv), "FILE", NULL, "Write the same as CSV"),
    ROW_ITERATIONS(AT(predict.iterations)),
    ROW_TRACED_RANKS(AT(predict.traced_ranks)),
    ROW_LAST};

static const struct predict_request defaults = {.predict = {PREDICT_DEFAULTS}};

const struct command command_predict = {
    .name = "predict",
    .synopsis = "JOB [options]",
    .help = "step time, images/s, scaling efficiency, time to train and what bounds them",
    .examples = "foretrain predict experiments/01_sony_abci/v1-1088.yaml\n"
                "foretrain predict job.yaml --set cluster.nodes=512 --json\n"
                "foretrain predict job.yaml --trace trace.json    (open in ui.perfetto.dev)",
    RECORD(options, struct predict_request, &defaults),
    .minimum = 1,
    .maximum = 1,
    .jobs = true,
    .run = predict,
};
