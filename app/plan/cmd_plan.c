#include <math.h>
#include <string.h>

#include "app/cli/command.h"
#include "app/cli/csv.h"
#include "app/plan/plan_report.h"
#include "app/process/child.h"
#include "app/process/cores.h"
#include "core/base/unit.h"

struct plan_request {
    struct request head;
    struct predict_options predict;
    const char *target, *within, *budget, *report;
    const char *given[DECISION_COUNT];
    struct option_list prices;
    int32_t workers; /* 0: the cores */
};

/* The limit @text of @option; @limit stays infinite without. */
static int read_limit(const char *option, const char *text, enum unit unit, const char *example,
                      double *limit, struct err *err)
{
    AUTORELEASE(err) struct err why = {0};
    *limit = INFINITY;
    if (!text)
        return 0;
    int failed = unit_parse(unit, text, limit, &why);
    char *reason = err_reason(&why), *end = strstr(reason, ", for example");
    if (end) /* 2 us is none here */
        *end = '\0';
    if (failed)
        err_add_code(err, 64, "%s: %s, as in %s \"%s\"", option, reason, option, example);
    else if (!(*limit > 0))
        failed = err_add_code(err, 64, "%s %s: nothing keeps it", option, text);
    return failed;
}

static int print(struct text *out, const struct plan_request *request, const struct search *search,
                 struct err *err)
{
    if (request->head.json) {
        AUTORELEASE(json) struct json *json = plan_json(search);
        json_print(out, json);
    } else if (!csv_is_answer(&request->head)) {
        plan_print(out, search);
    }
    return csv_write(&request->head, plan_rows(search), NULL, out, err) ||
                   (request->report && plan_page(request->report, search, err)) ||
                   plan_verdict(search, err)
               ? -1
               : 0;
}

static int run(const void *record, struct text *out, struct err *err)
{
    const struct plan_request *request = record;
    AUTORELEASE(search)
    struct search search = {
        .question = {.path = request->head.argument.item[0],
                     .options = &request->predict,
                     .target = request->target,
                     .workers = request->workers ? request->workers : cores_available()},
        .prices = &request->prices,
    };
    if (!request->within && !request->budget)
        return err_add_code(
            err, 64,
            "a plan needs a limit: --within \"10 min\" for the cheapest, or --budget "
            "500 for the fastest");
    for (int i = 0; i < DECISION_COUNT; i++)
        search.given[i] = request->given[i];
    int failed =
        read_limit("--within", request->within, UNIT_SECONDS, "10 min", &search.within, err) ||
        read_limit("--budget", request->budget, UNIT_NONE, "500", &search.budget, err) ||
        search_make(&search, err) || print(out, request, &search, err);
    return failed ? -1 : 0;
}

#define AT(member) offsetof(struct plan_request, member)
#define ROW_GIVEN(name, decision, argument, meaning)                                               \
    OPTION_ROW(name, 0, OPTION_TEXT, AT(given[decision]), argument, NULL, meaning)

static const struct option options[] = {
    OPTION_ROW("target", 0, OPTION_TEXT, AT(target), "ACCURACY", NULL,
               "Short for --set training.target=ACCURACY: 75.9 %"),
    OPTION_ROW("within", 0, OPTION_TEXT, AT(within), "TIME", NULL,
               "The deadline, 10 min or 2 h, which 95 of 100 runs must keep"),
    OPTION_ROW("budget", 0, OPTION_TEXT, AT(budget), "N", NULL,
               "What a run may cost at most, in the currency of the prices, or without prices in "
               "device-hours; without --within the fastest plan for it"),
    ROW_GIVEN(
        "platforms", DECISION_PLATFORM, "NAMES",
        "To choose from: dgx-h100,dgx-a100; all: every one of the library (default: the job's)"),
    ROW_GIVEN("nodes", DECISION_NODES, "NUMBERS",
              "To choose from: 4..64:x2, 32,48 (default: up to the platform's, and refined)"),
    ROW_GIVEN("batch", DECISION_BATCH, "NUMBERS",
              "Images per device in the last phase, to which other phases keep their ratio "
              "(default: 8..512:x2, and refined)"),
    ROW_GIVEN("algorithms", DECISION_ALGORITHM, "NAMES",
              "To choose from (default: nccl,torus2d,ring,hierarchical)"),
    ROW_GIVEN("buckets", DECISION_BUCKET, "SIZES", "To choose from (default: 4MiB..256MiB:x4)"),
    OPTION_ROW(
        "prices", 0, OPTION_TEXTS, AT(prices), "[PLATFORM=]NAME", NULL,
        "A name in prices/ or a file, of all platforms or of one: the plan is by cost; may be "
        "repeated (default: by device-hours)"),
    ROW_SET(AT(predict.set)),
    OPTION_ROW("backend", 'b', OPTION_WORD, AT(predict.backend), NULL, backend_words,
               "Closed form alone (default: closed form, then the simulator for the best plans)"),
    ROW_GRAIN(AT(predict.grain)),
    ROW_ORDER(AT(predict.order)),
    OPTION_ROW("jobs", 0, OPTION_INTEGER, AT(workers), "N", NULL,
               "Plans at a time (default: the cores of the machine)"),
    ROW_REPORT(AT(report)),
    ROW_JSON,
    ROW_CSV("best, next best and front"),
    ROW_LAST};

static const struct plan_request defaults = {.predict = {PREDICT_COMMAND}};

const struct command command_plan = {
    .name = "plan",
    .synopsis = "JOB --within TIME [options]",
    .help = "which platform, nodes, algorithm and batch meet a deadline for the least cost",
    .examples = "foretrain plan job.yaml --target \"75.9 %\" --within \"10 min\" --platforms "
                "dgx-h100,dgx-a100\n"
                "foretrain plan job.yaml --within 1h --platforms all --csv front.csv\n"
                "foretrain plan job.yaml --budget 500 --prices example-h100 --platforms dgx-h100",
    RECORD(options, struct plan_request, &defaults),
    TAKES(1, 1),
    .jobs = true,
    ANSWERS(&plan_columns),
    .run = run,
};
