#include "app/cli/command.h"
#include "app/predict/prediction.h"
#include "core/report/timeline.h"

static void print(struct text *out, const struct result *result, bool as_json)
{
    if (!as_json) {
        result_print(out, result);
        return;
    }
    struct json *json = result_json(result);
    json_print(out, json);
    json_free(json);
}

static int predict(const struct request *request, struct text *out, struct err *err)
{
    if (request->iterations != REQUEST_CHOOSE && request->iterations < 1)
        return err_add_code(err, 64, "--iterations: at least 1");
    struct prediction prediction = {0};
    int failed = prediction_make(&prediction, request, err);
    if (!failed) {
        const struct task *last = prediction_last(&prediction);
        print(out, &prediction.result, request->json);
        const struct schedule *schedule = last->point.schedule;
        failed =
            timeline_write_file(request->trace, timeline_write_kineto, schedule, last->trace,
                                err) ||
            timeline_write_file(request->paje, timeline_write_paje, schedule, last->trace, err) ||
            timeline_write_file(request->spans, timeline_write_spans, schedule, last->trace, err);
    }
    prediction_release(&prediction);
    return failed ? -1 : 0;
}

static const struct option *const options[] = {
    &option_set_row,        &option_backend_row,      &option_grain_row, &option_order_row,
    &option_json_row,       &option_trace_row,        &option_paje_row,  &option_spans_row,
    &option_iterations_row, &option_traced_ranks_row, &option_help_row,  NULL,
};

const struct command command_predict = {
    .name = "predict",
    .synopsis = "JOB [options]",
    .help = "step time, images/s, scaling efficiency, time to train and what bounds them",
    .examples = "foretrain predict experiments/01_sony_abci/v1-1088.yaml\n"
                "foretrain predict job.yaml --set cluster.nodes=512 --json\n"
                "foretrain predict job.yaml --trace trace.json    (open in ui.perfetto.dev)",
    .options = options,
    .minimum = 1,
    .maximum = 1,
    .run = predict,
};
