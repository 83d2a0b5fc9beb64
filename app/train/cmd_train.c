#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/cli/command.h"
#include "app/job/job.h"
#include "app/process/launch.h"
#include "app/train/train_answers.h"
#include "app/train/train_memory.h"
#include "app/train/train_page.h"
#include "core/base/claim.h"
#include "exec/checkpoint/checkpoint.h"

/* The child gets the user's words, but for the options that it does not have. */
static void add_options(struct launch *launch, const struct option_list *given)
{
    static const char *const own[] = {"--ranks=", "--report=", "--dry-run"};
    for (int32_t i = 0; i < given->count; i++) {
        bool passed = true;
        for (size_t k = 0; k < ARRAY_SIZE(own); k++)
            passed = passed && strncmp(given->item[i], own[k], strlen(own[k])) != 0;
        if (passed)
            launch_add(launch, "%s", given->item[i]);
    }
}

/* Check the job here first: one message, before any rank is started. */
static int check(const struct train_request *request, struct job *job, struct dry_run_answer *dry,
                 struct err *err)
{
    struct wish wish = {0};
    const struct option_list *set = &request->set;
    if (request->compute.started) /* all on this machine */
        wish = wish_for_ranks(request->compute.started, request->compute.started);
    wish.real = true;
    if (train_request_check(request, err) ||
        job_read(job, NULL, request->head.argument.item[0], set->item, set->count, NULL, err))
        return -1;
    const char *images = job->scenario.training.data.path;
    const char *more = job->scenario.training.data.validation_path;
    int failed = (images && claim_input_all(images, err)) || (more && claim_input_all(more, err)) ||
                 job_resolve(job, &wish, err);
    *dry = (struct dry_run_answer){.sha256 = job->scenario.sha256,
                                   .network = job->model->name,
                                   .device = device_words[request->compute.device],
                                   .ranks = grid_ranks(job->resolved.cluster.grid)};
    if (!failed && !request->compute.started && dry->ranks > REQUEST_RANKS_MOST)
        failed = err_add_code(err, 64,
                              "%s is for %d devices: give the number of ranks to start here with "
                              "-n N, or start foretrain-exec with your cluster's mpirun or srun",
                              job->scenario.path, dry->ranks);
    if (!failed && strcmp(device_words[request->compute.device], "cuda") != 0)
        failed = job_check_mpi(job, err);
    if (!failed && request->compute.device != DEVICE_REPLAY)
        failed = job_check_shards(job, request->compute.device == DEVICE_CUDA, err);
    struct schedule **schedule = failed ? NULL : job_training(job, err);
    failed = failed || !schedule;
    if (!failed && request->dry_run)
        failed = train_memory_find(&dry->memory, job, request, dry->ranks, err);
    training_free(job, schedule);
    return failed ? -1 : 0;
}

/* mpirun and the ranks have reported the failure; add how to continue. */
static void advise(const struct train_request *request, int code)
{
    AUTORELEASE(text) struct text line = {0}, notes = {0};
    bool own = code == 0 || (code >= 64 && code <= 75);
    AUTOFREE char *last =
        own || !request->directory ? NULL : checkpoint_latest(request->directory, NULL, &notes);
    text_add(&line, "foretrain train ");
    text_add_word(&line, request->head.argument.item[0]);
    if (last) {
        text_add(&line, " ... --out ");
        text_add_word(&line, request->directory);
        text_add(&line, " --resume ");
        text_add_word(&line, request->directory);
        fprintf(stderr,
                "training ended with exit code %d; continue from the last checkpoint with: %s\n",
                code, line.data);
    }
}

/* What would be run, and if @dry the memory that it takes. */
static void tell(struct text *out, bool json, struct dry_run_answer *dry,
                 const struct launch *launch)
{
    if (dry && json) {
        dry->command = (const char *const *)launch->argument;
        dry->words = launch->count;
        answer_print(out, &dry_run_columns, dry);
        return;
    }
    AUTOFREE char *line = launch_line(launch);
    if (dry)
        train_memory_print(out, &dry->memory);
    text_add(out, "%s\n", line);
}

enum { STOPPED = 75 /* exit code of a run with a checkpoint */ };

/* mpirun does not report that its output is lost, so the answer is kept, and printed here. */
static int run_ranks(struct launch *launch, struct text *out, struct err *err)
{
    AUTOFREE char *line = launch_line(launch);
    launch->output = launch_file(err);
    if (launch->output < 0)
        return -1;
    fprintf(stderr, "%s\n", line);
    int code = launch_run(launch, err);
    AUTORELEASE(text) struct text answer = launch_read(launch->output);
    text_append(out, answer.data, answer.length);
    close(launch->output);
    return code;
}

/* @dry: what a dry run prints beside the line, or NULL. */
static int start(const struct train_request *request, const char *command, int32_t ranks,
                 struct text *out, struct dry_run_answer *dry, struct err *err)
{
    AUTORELEASE(launch) struct launch launch = {.saves = strcmp(command, "train") == 0};
    if (launch_begin(&launch, ranks, err))
        return -1;
    launch_add(&launch, "%s", command);
    for (int32_t i = 0; i < request->head.argument.count; i++)
        launch_add(&launch, "%s", request->head.argument.item[i]);
    add_options(&launch, &request->head.given);
    int code = 0;
    if (request->dry_run) {
        tell(out, request->head.json, dry, &launch);
    } else {
        code = run_ranks(&launch, out, err);
        advise(request, code < 0 ? err->exit_code : code);
        if (request->report && (code == 0 || code == STOPPED) &&
            train_page(request->report, request->directory, request->head.argument.item[0], err))
            code = -1;
    }
    return code > 0 ? err_exit(err, code) : code;
}

static int train(const void *record, struct text *out, struct err *err)
{
    const struct train_request *request = record;
    AUTORELEASE(job) struct job job = {0};
    struct dry_run_answer dry = {0};
    int failed =
        check(request, &job, &dry, err) || start(request, "train", dry.ranks, out, &dry, err);
    return failed ? -1 : 0;
}

static int evaluate(const void *record, struct text *out, struct err *err)
{
    const struct train_request *request = record;
    return start(request, "evaluate", request->compute.started ? request->compute.started : 1, out,
                 NULL, err);
}

#define ROW_DRY_RUN                                                                                \
    OPTION_ROW("dry-run", 0, OPTION_FLAG, TRAIN_AT(dry_run),                                       \
               .help = "Print what would be run, and the memory it takes")

static const struct option train_options[] = {
    ROW_STARTED(TRAIN_AT(compute.started)), ROWS_TRAIN,
    ROW_REPORT(TRAIN_AT(report), .needs = "out", .bars = "dry-run"), ROW_DRY_RUN, ROW_LAST};

const struct command command_train = {
    .name = "train",
    .heading = "run",
    .synopsis = "JOB [options]",
    .help = "train for real on this machine: the same schedule that predict simulates",
    .examples = "foretrain train experiments/03_learning/procedural.yaml -n 2\n"
                "foretrain train job.yaml -n 4 --out run1\n"
                "foretrain train job.yaml -n 4 --out run1 --resume run1",
    RECORD(train_options, struct train_request, &train_defaults),
    TAKES(1, 1),
    .jobs = true,
    ANSWERS(&training_columns, &dry_run_columns),
    .run = train,
};

static const struct option evaluate_options[] = {ROW_STARTED(TRAIN_AT(compute.started)),
                                                 ROW_JOB,
                                                 ROW_ENSEMBLE,
                                                 ROW_SET(TRAIN_AT(set)),
                                                 ROW_JSON,
                                                 ROW_THREADS(TRAIN_AT(compute.threads)),
                                                 ROW_DEVICE(TRAIN_AT(compute.device)),
                                                 ROW_DRY_RUN,
                                                 ROW_LAST};

const struct command command_evaluate = {
    .name = "evaluate",
    .synopsis = "PATH... [options]",
    .help = "top-1 and top-5 of checkpoints, or of the newest of runs",
    .examples = "foretrain evaluate run1\n"
                "foretrain evaluate run1/ckpt-000400 run2\n"
                "foretrain evaluate --ensemble run1/snapshot-1 run1/snapshot-2 run1/snapshot-3",
    RECORD(evaluate_options, struct train_request, &train_defaults),
    TAKES(1, 1000),
    ANSWERS(&evaluation_columns),
    .run = evaluate,
};
