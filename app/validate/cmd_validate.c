#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/cli/command.h"
#include "app/predict/task.h"
#include "app/predict/uncertainty.h"
#include "app/process/child.h"
#include "app/validate/validate.h"
#include "app/validate/validate_run.h"
#include "config.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/unit.h"
#include "core/report/timeline.h"

enum {
    STEPS_USUAL = 10,     /* measured */
    TRACED_RANKS_ALL = 64 /* up to this number, all are traced in the prediction */
};

/* Both sides, and their origin. */
struct trial {
    struct validate_request request; /* the user's, with more --set; its list is owned */
    char *lab_set;                   /* the one that names the lab; owned, or NULL */
    int32_t ranks;                   /* 0: there is no job */
    struct job job;
    struct task task; /* of the phase that is compared */
    struct platform *lab;
    struct cabling cabling;
    struct trace predicted_file, measured;
    const struct trace *predicted;
    char *warning; /* of the back end; or NULL */
    struct validate_notes notes;
    struct validation validation;
};

/* ---- what is asked for ---- */

static int check_options(const struct validate_request *request, struct err *err)
{
    bool job = request->head.argument.count > 0;
    if (!job && !(request->predicted && request->measured))
        return err_add_code(err, 64, "a JOB is needed, or --predicted and --measured");
    if (!job && (request->trace || request->predict.set.count))
        return err_add_code(err, 64, "--trace and --set need a JOB");
    if (request->predicted && !request->lab && request->predict.order != RANK_ORDER_ROW)
        return err_add_code(err, 64, "--order has no effect without a prediction or --lab");
    return 0;
}

static int read_tolerance(struct trial *trial, struct err *err)
{
    const char *text = trial->request.tolerance;
    AUTORELEASE(err) struct err found = {0};
    trial->validation.tolerance = 0.1;
    bool good =
        !text || (unit_parse(UNIT_FRACTION, text, &trial->validation.tolerance, &found) == 0 &&
                  trial->validation.tolerance > 0);
    return good ? 0
                : err_add_code(err, 64, "--tolerance: expected a share such as 5 %%, got '%s'",
                               text);
}

static int copy_request(struct trial *trial, const struct validate_request *request,
                        struct err *err)
{
    trial->request = *request;
    trial->request.predict.set = (struct option_list){0};
    option_list_add_all(&trial->request.predict.set, &request->predict.set);
    for (int32_t i = 0; request->lab && i < request->predict.set.count; i++)
        if (!scenario_takes(request->predict.set.item[i]))
            return err_add_code(err, 64,
                                "--set %s would change the prediction and not the lab: write a "
                                "platform file for --lab",
                                request->predict.set.item[i]);
    if (request->lab) {
        trial->lab_set = base_format("cluster.platform=%s", request->lab);
        option_list_add(&trial->request.predict.set, trial->lab_set);
    }
    return read_tolerance(trial, err);
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
    struct wish wish = choose_ranks(trial);
    if (job_resolve(&trial->job, &wish, err))
        return -1;
    trial->ranks = grid_ranks(trial->job.resolved.cluster.grid);
    if (!request->measured && !request->compute.started && trial->ranks > REQUEST_RANKS_MOST)
        return err_add_code(
            err, 64, "%s is for %d devices: give the number of ranks to start here with -n N", path,
            trial->ranks);
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
    AUTOFREE double *step = uncertainty_draw(&trial->task, 1, 0, &doubts);
    struct interval likely = uncertainty_interval(step, doubts.draws);
    trial->validation.likely = likely;
    return 0;
}

/* ---- the measurement ---- */

static int open_lab(struct trial *trial, struct err *err)
{
    if (!trial->request.lab)
        return 0;
    trial->lab = platform_read(trial->request.lab, err);
    return !trial->lab || cabling_read(trial->lab, &trial->cabling, err) ||
                   lab_check(&trial->cabling, err)
               ? -1
               : 0;
}

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
                : err_add_code(
                      err, 65,
                      "%d ranks on this one machine run another schedule than the one predicted "
                      "for %d nodes: predict for 1 node (--set cluster.nodes=1), or use --lab",
                      trial->ranks, trial->task.point.nodes);
}

static int count_steps(const struct trial *trial, int32_t *steps, struct err *err)
{
    int64_t there = trial->job.resolved.plan.phase[0].steps - VALIDATE_EXTRA_STEPS;
    *steps = trial->request.steps ? trial->request.steps : STEPS_USUAL;
    if (there < 1)
        return err_add_code(err, 64, "%s: phase 1 has %lld steps, and at least %d are needed",
                            trial->request.head.argument.item[0],
                            (long long)there + VALIDATE_EXTRA_STEPS, VALIDATE_EXTRA_STEPS + 1);
    if (*steps > there)
        *steps = (int32_t)there;
    return 0;
}

static int measure(struct trial *trial, struct err *err)
{
    struct validate_run run = {.request = &trial->request,
                               .point = &trial->task.point,
                               .lab = trial->lab ? &trial->cabling : NULL};
    if (trial->request.measured)
        return 0;
    if (run.lab && trial->request.compute.device != DEVICE_REPLAY &&
        !strcmp(platform_device(trial->lab)->name, "ideal"))
        fprintf(stderr,
                "the device of %s computes in no time, and these ranks do not: --device "
                "replay takes the time that is predicted\n",
                platform_name(trial->lab));
    return count_steps(trial, &run.steps, err) ||
                   validate_measure(&run, &trial->measured, &trial->notes, err)
               ? -1
               : 0;
}

/* Without a job there are two files and nothing else. */
static int gather(struct trial *trial, struct err *err)
{
    const char *measured = trial->request.measured;
    bool job = trial->request.head.argument.count > 0;
    if (measured && validate_read_spans(measured, &trial->measured, err))
        return -1;
    if (job && (read_job(trial, err) || open_lab(trial, err) || find_task(trial, err)))
        return -1;
    if (job && !measured && !trial->lab && check_schedule(trial, err))
        return -1;
    return predict(trial, err) || measure(trial, err) ? -1 : 0;
}

/* ---- the answer ---- */

static void print_people(struct text *out, const struct trial *trial)
{
    const struct trace *predicted = trial->predicted;
    if (trial->ranks)
        text_add(out, "%s on %s: %d %s, %s\n", trial->job.model->name,
                 platform_name(trial->job.platform), trial->ranks,
                 trial->ranks > 1 ? "ranks" : "rank",
                 trial->request.measured ? trial->request.measured
                 : trial->lab            ? "measured in its lab"
                                         : "measured on this machine");
    text_add(out, "predicted by %s, %s; measured by %s, %s; schedule %016" PRIx64 "\n\n",
             predicted->backend, predicted->grain, trial->measured.backend, trial->measured.grain,
             predicted->schedule_hash);
    validation_print(out, &trial->validation);
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
    if (trial->lab)
        text_add(out, "the lab lost %lld packets and sent %lld TCP segments again\n",
                 (long long)trial->notes.drops, (long long)trial->notes.retransmits);
    if (trial->warning)
        text_add(out, "warning: %s\n", trial->warning);
}

static struct json *trial_json(const struct trial *trial)
{
    bool runs = trial->ranks && !trial->request.measured;
    return answer_json(&validation_columns,
                       &(struct validation_answer){
                           .sha256 = trial->ranks ? trial->job.scenario.sha256 : NULL,
                           .platform = trial->ranks ? platform_name(trial->job.platform) : NULL,
                           .predicted = trial->predicted,
                           .device = runs ? device_words[trial->request.compute.device] : NULL,
                           .lab = trial->lab != NULL,
                           .ranks = trial->measured.ranks,
                           .validation = &trial->validation,
                           .notes = &trial->notes,
                       });
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
                                  &trial->measured, validate_typical(&trial->measured), err) != 0;
    return file_fresh_close(&file, failed, NULL, err);
}

static int report(struct trial *trial, struct text *out, struct err *err)
{
    const struct validate_row *step = trial->validation.row;
    if (write_trace(trial, err))
        return -1;
    AUTORELEASE(json) struct json *json = trial_json(trial);
    if (trial->request.head.json)
        json_print(out, json);
    else
        print_people(out, trial);
    int failed = trial->request.report && validation_page(trial->request.report, json, err);
    if (failed)
        return -1;
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
                                ? "other programs used the processors or packets were lost"
                                : "half of the steps are slow and a quarter is not");
    default:
        return 0;
    }
}

static void release(struct trial *trial)
{
    validation_release(&trial->validation);
    trace_release(&trial->predicted_file);
    trace_release(&trial->measured);
    task_release(&trial->task);
    platform_free(trial->lab);
    job_release(&trial->job);
    option_list_release(&trial->request.predict.set);
    free(trial->lab_set);
    free(trial->warning);
}

static int validate(const void *record, struct text *out, struct err *err)
{
    const struct validate_request *request = record;
    struct trial trial = {.notes = {-1, -1, -1, -1, -1, -1, -1, -1}};
    if (check_options(request, err))
        return -1;
    int failed = copy_request(&trial, request, err) || gather(&trial, err) ||
                 validate_check(trial.task.point.schedule, trial.predicted, &trial.measured, err);
    if (!failed) {
        trial.validation.lab = trial.lab != NULL;
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
    ROW_LAB(AT(lab)),
    OPTION_ROW("steps", 0, OPTION_INTEGER, AT(steps), "N", NULL,
               "Training steps to measure (default: 10)"),
    ROW_ORDER(AT(predict.order)),
    ROW_DEVICE(AT(compute.device)),
    ROW_THREADS(AT(compute.threads)),
    ROW_TIMEOUT(AT(timeout)),
    ROW_BACKEND(AT(predict.backend)),
    ROW_GRAIN(AT(predict.grain)),
    ROW_NOISE(AT(predict.noise)),
    ROW_IGNORE_MEMORY(AT(predict.ignore_memory)),
    ROW_REPORT(AT(report)),
    ROW_JSON,
    OPTION_ROW("tolerance", 0, OPTION_TEXT, AT(tolerance), "SHARE", NULL,
               "What the step time may be off by, relative to the measured one (default: 10 %)"),
    OPTION_ROW("predicted", 0, OPTION_TEXT, AT(predicted), "FILE", NULL,
               "Spans of `predict --spans` instead of a prediction",
               .bars = "backend|grain|noise|ignore-memory"),
    OPTION_ROW("measured", 0, OPTION_TEXT, AT(measured), "FILE", NULL,
               "Spans of `train --spans` instead of a run",
               .bars = "lab|ranks|steps|threads|device|timeout"),
    OPTION_ROW("trace", 't', OPTION_OUTPUT, AT(trace), "FILE", NULL,
               "Write both, one below the other, as Chrome/Kineto JSON"),
    ROW_LAST};

static const struct validate_request defaults = {.predict = {PREDICT_COMMAND},
                                                 .timeout = REQUEST_TIMEOUT};

const struct command command_validate = {
    .name = "validate",
    .synopsis = "[JOB] [options]",
    .help = "predict and really run a few training steps, and compare them step by step",
    .examples =
        "foretrain validate job.yaml -n 2 --set cluster.platform=two-core\n"
        "foretrain validate job.yaml --lab platforms/lab/flat-4.yaml --device replay\n"
        "foretrain validate job.yaml --measured spans.txt    (of `foretrain-exec train --spans`)",
    RECORD(options, struct validate_request, &defaults),
    TAKES(0, 1),
    .jobs = true,
    ANSWERS(&validation_columns),
    .run = validate,
};
