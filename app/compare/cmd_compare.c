#include "app/cli/command.h"
#include "app/cli/csv.h"
#include "app/compare/compare.h"
#include "app/process/child.h"

struct compare_request {
    struct request head;
    struct predict_options predict;
    struct option_list own[COMPARE_MOST]; /* assignments to one job */
    struct option_list prices;
    const char *report;
};

static int check_own(const struct compare_request *request, struct err *err)
{
    int32_t jobs = request->head.argument.count;
    for (int32_t i = jobs; i < COMPARE_MOST; i++)
        if (request->own[i].count)
            return err_add_code(err, 64, "--set-%c: there are only %d jobs", 'a' + i, jobs);
    return 0;
}

static int compare(const void *record, struct text *out, struct err *err)
{
    const struct compare_request *request = record;
    AUTORELEASE(comparison) struct comparison comparison = {0};
    int failed = check_own(request, err) || tariffs_read(&comparison.tariffs, request->prices.item,
                                                         request->prices.count, err);
    for (int32_t i = 0; i < request->head.argument.count && !failed; i++)
        comparison_add(&comparison, request->head.argument.item[i], &request->predict,
                       &request->own[i]);
    failed = failed || comparison_make(&comparison, err);
    if (!failed) {
        AUTORELEASE(json) struct json *json = comparison_json(&comparison);
        if (request->head.json)
            json_print(out, json);
        else if (!csv_is_answer(&request->head))
            comparison_print(out, &comparison);
        failed = csv_write(&request->head, json_share(json_get(json, "jobs")), NULL, out, err) ||
                 (request->report && comparison_page(request->report, &comparison, err));
    }
    return failed ? -1 : 0;
}

#define AT(member) offsetof(struct compare_request, member)
#define ROW_OWN(name, job, index)                                                                  \
    OPTION_ROW(name, 0, OPTION_TEXTS, AT(own[index]), "KEY=VALUE", NULL,                           \
               "Override one key of the " job " job alone, after --set; may be repeated")

static const struct option options[] = {ROW_SET_SHORT(AT(predict.set)),
                                        ROW_SET_PLATFORM(AT(predict.set)),
                                        ROW_OWN("set-a", "first", 0),
                                        ROW_OWN("set-b", "second", 1),
                                        ROW_OWN("set-c", "third", 2),
                                        ROW_OWN("set-d", "fourth", 3),
                                        OPTION_ROW("prices", 0, OPTION_TEXTS, AT(prices),
                                                   "[PLATFORM=|JOB=]NAME", NULL,
                                                   "A name in prices/ or a file, of all jobs, of "
                                                   "those on a platform or of A, B, C or D; may be "
                                                   "repeated: adds cost, energy and carbon"),
                                        ROW_BACKEND(AT(predict.backend)),
                                        ROW_GRAIN(AT(predict.grain)),
                                        ROW_NOISE(AT(predict.noise)),
                                        ROW_IGNORE_MEMORY(AT(predict.ignore_memory)),
                                        ROW_REPORT(AT(report)),
                                        ROW_JSON,
                                        ROW_CSV("the figures of each job"),
                                        ROW_LAST};

static const struct compare_request defaults = {.predict = {PREDICT_COMMAND}};

const struct command command_compare = {
    .name = "compare",
    .heading = "decide",
    .synopsis = "JOB JOB [JOB [JOB]] [options]",
    .help = "jobs beside each other: which is faster, by how much, how surely and why",
    .examples =
        "foretrain compare job.yaml job.yaml --set-b cluster.nodes=64 --prices example-h100\n"
        "foretrain compare a.yaml b.yaml --json",
    RECORD(options, struct compare_request, &defaults),
    TAKES(2, COMPARE_MOST),
    .jobs = true,
    ANSWERS(&compare_columns),
    .run = compare,
};
