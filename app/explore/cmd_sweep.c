#include <stdio.h>
#include <string.h>

#include "app/cli/command.h"
#include "app/cli/csv.h"
#include "app/explore/sweep_report.h"
#include "app/process/child.h"
#include "app/process/cores.h"
#include "core/base/claim.h"
#include "core/base/file.h"

struct sweep_request {
    struct request head;
    struct predict_options predict;
    struct option_list axis;
    int32_t workers; /* 0: the cores */
    const char *journal, *shard, *prices, *report;
};

static int read_shard(const char *text, struct shard *shard, struct err *err)
{
    int number, count, length = 0;
    if (!text)
        return 0;
    if (sscanf(text, "%9d/%9d%n", &number, &count, &length) != 2 || text[length] || number < 1 ||
        number > count)
        return err_add_code(err, 64,
                            "--shard: expected two whole numbers as in 2/8, the second of eight, "
                            "got '%s'",
                            text);
    *shard = (struct shard){number - 1, count};
    return 0;
}

static int print(struct text *out, const struct sweep_request *request, const struct sweep *sweep,
                 struct err *err)
{
    if (request->head.json) {
        AUTORELEASE(json) struct json *json = sweep_json(sweep);
        json_print(out, json);
    } else if (!csv_is_answer(&request->head)) {
        sweep_print(out, sweep);
    }
    return csv_write(&request->head, sweep_rows(sweep), NULL, out, err) ||
                   (request->report && sweep_page(request->report, sweep, err))
               ? -1
               : 0;
}

/* The table has all that the journal beside it has, unless points can still be put together with
 * those of other shards, or tried again. */
static int end_journal(struct sweep *sweep, struct err *err)
{
    bool needed = sweep->plan.shard.count;
    for (int64_t i = 0; i < sweep->axes.points; i++)
        needed |=
            sweep->found[i].status == FINDING_FAILED || sweep->checked[i].status == FINDING_FAILED;
    return needed ? 0 : journal_remove(&sweep->journal, err);
}

static int run(const void *record, struct text *out, struct err *err)
{
    const struct sweep_request *request = record;
    AUTORELEASE(sweep) struct sweep sweep = {0};
    AUTORELEASE(price) struct price_file prices = {0};
    AUTORELEASE(option_list) struct option_list set = {0};
    struct predict_options options = request->predict;
    struct sweep_plan plan = {
        .job = request->head.argument.item[0],
        .predict = &options,
        .workers = request->workers ? request->workers : cores_available(),
    };
    if (request->axis.count == 0)
        return err_add_code(err, 64,
                            "a sweep needs an axis, as in --scan cluster.nodes=8..1024:x2 or "
                            "--list allreduce.algorithm=nccl,torus2d");
    const char *csv = request->head.csv;
    bool table = csv && !csv_is_answer(&request->head) && !file_is_stream(csv);
    AUTOFREE char *beside = table ? base_format("%s.journal", csv) : NULL;
    plan.journal = request->journal ? request->journal : beside;
    if ((plan.journal == beside && claim_output("journal", beside, NULL, err)) ||
        read_shard(request->shard, &plan.shard, err) ||
        (request->prices && price_read(&prices, request->prices, err)))
        return -1;
    plan.prices = request->prices ? &prices : NULL;
    options.set = set = predict_set(&request->predict, plan.prices);
    int failed = sweep_run(&sweep, &plan, &request->axis, err) ||
                 print(out, request, &sweep, err) ||
                 (beside && beside == plan.journal && end_journal(&sweep, err)) ||
                 sweep_verdict(&sweep, err);
    return failed ? -1 : 0;
}

#define AT(member) offsetof(struct sweep_request, member)

static const struct option options[] = {
    OPTION_ROW(
        "scan", 0, OPTION_TEXTS, AT(axis), "KEY=RANGE", NULL,
        "An axis: 8..1024:x2 (times), 16..64:16 (plus), 1..5; 2us..16us:x2; may be repeated"),
    OPTION_ROW("list", 0, OPTION_TEXTS, AT(axis), "KEY=VALUES", NULL,
               "An axis: nccl,torus2d; may be repeated; keys as --set takes them"),
    ROW_SET_SHORT(AT(predict.set)),
    ROW_SET_PLATFORM(AT(predict.set)),
    OPTION_ROW("backend", 'b', OPTION_WORD, AT(predict.backend), NULL, backend_words,
               "Closed form alone, or every point simulated (default: closed form, then the "
               "simulator for the best points, their neighbours and 2 % of the others)"),
    ROW_GRAIN(AT(predict.grain)),
    ROW_ORDER(AT(predict.order)),
    ROW_IGNORE_MEMORY(AT(predict.ignore_memory)),
    OPTION_ROW("jobs", 0, OPTION_INTEGER, AT(workers), "N", NULL,
               "Points at a time (default: the cores of the machine)"),
    OPTION_ROW("journal", 0, OPTION_OUTPUT, AT(journal), "FILE", NULL,
               "Keep finished points there and go on from it (default: FILE.journal beside --csv "
               "FILE, until FILE is written)"),
    OPTION_ROW(
        "shard", 0, OPTION_TEXT, AT(shard), "I/N", NULL,
        "Only each N-th point, from the I-th on, in closed form; `merge` joins the CSV files"),
    ROW_PRICES(AT(prices)),
    ROW_REPORT(AT(report)),
    ROW_JSON,
    ROW_CSV("all points, a line each,"),
    ROW_LAST};

static const struct sweep_request defaults = {.predict = {PREDICT_COMMAND}};

const struct command command_sweep = {
    .name = "sweep",
    .synopsis = "JOB --scan KEY=RANGE [options]",
    .help = "many predictions: every combination of values, the best ones simulated",
    .examples = "foretrain sweep job.yaml --scan cluster.nodes=8..1024:x2 --list "
                "allreduce.algorithm=nccl,torus2d\n"
                "foretrain sweep job.yaml --list cluster.platform=dgx-h100,dgx-a100 --csv all.csv\n"
                "foretrain sweep job.yaml --scan cluster.nodes=1..512 --shard 1/4 --csv 1.csv",
    RECORD(options, struct sweep_request, &defaults),
    TAKES(1, 1),
    .jobs = true,
    ANSWERS(&sweep_columns),
    .run = run,
};
