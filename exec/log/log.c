#include "exec/log/log.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "exec/log/log_line.h"
#include "exec/log/log_rows.h"
#include "exec/log/mllog.h"

/* What a line of steps.csv says. */
struct step_record {
    struct log_step step;
    double unix_s, images_per_s;
    const char *run;
};

/* What a line of evaluations.csv says. */
struct evaluation_record {
    struct log_evaluation evaluation;
    double unix_s;
    const char *run;
};

struct log {
    bool files; /* false: only the line */
    const char *run;
    const struct plan *plan;
    int64_t total_steps;
    double epoch; /* of the last step */
    struct log_file csv, jsonl, evaluations;
    struct mllog mllog;
    struct log_line line;
    struct text text; /* of a line being made */
    double flushed_s;
};

#define IN_STEP(member)       offsetof(struct step_record, member)
#define IN_EVALUATION(member) offsetof(struct evaluation_record, member)

static const struct log_row step_rows[] = {
    {"step", LOG_INTEGER, IN_STEP(step.step)},
    {"unix_s", LOG_TIME, IN_STEP(unix_s)},
    {"epoch", LOG_REAL, IN_STEP(step.epoch)},
    {"global_batch", LOG_INTEGER, IN_STEP(step.global_batch)},
    {"loss", LOG_REAL, IN_STEP(step.loss)},
    {"learning_rate", LOG_REAL, IN_STEP(step.learning_rate)},
    {"weight_decay", LOG_REAL, IN_STEP(step.weight_decay)},
    {"loss_scale", LOG_REAL, IN_STEP(step.loss_scale)},
    {"gradient_norm", LOG_REAL, IN_STEP(step.gradient_norm)},
    {"skipped", LOG_BOOLEAN, IN_STEP(step.skipped)},
    {"seconds", LOG_REAL, IN_STEP(step.seconds)},
    {"input_wait_s", LOG_REAL, IN_STEP(step.input_wait_s)},
    {"exposed_communication_s", LOG_REAL, IN_STEP(step.exposed_communication_s)},
    {"images_per_s", LOG_REAL, IN_STEP(images_per_s)},
    {"run", LOG_WORD, IN_STEP(run)},
    {NULL, LOG_REAL, 0},
};

static const struct log_row evaluation_rows[] = {
    {"step", LOG_INTEGER, IN_EVALUATION(evaluation.step)},
    {"unix_s", LOG_TIME, IN_EVALUATION(unix_s)},
    {"epoch", LOG_REAL, IN_EVALUATION(evaluation.epoch)},
    {"loss", LOG_REAL, IN_EVALUATION(evaluation.loss)},
    {"top1", LOG_REAL, IN_EVALUATION(evaluation.top1)},
    {"top5", LOG_REAL, IN_EVALUATION(evaluation.top5)},
    {"images", LOG_INTEGER, IN_EVALUATION(evaluation.images)},
    {"seconds", LOG_REAL, IN_EVALUATION(evaluation.seconds)},
    {"run", LOG_WORD, IN_EVALUATION(run)},
    {NULL, LOG_REAL, 0},
};

/* The epoch of the run after @step steps. */
static double epoch_of(const struct plan *plan, int64_t step)
{
    double epoch = 0;
    for (int32_t i = 0; i < plan->phase_count && step > 0; i++) {
        const struct phase *phase = &plan->phase[i];
        int64_t part = step < phase->steps ? step : phase->steps;
        epoch += phase->epochs * (double)part / (double)phase->steps;
        step -= part;
    }
    return epoch;
}

bool log_is_name(const char *name)
{
    static const char *const names[] = {"steps.csv", "evaluations.csv", "steps.jsonl", "mllog.txt"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static void close_files(struct log *log, const char *status, struct err *err)
{
    log_file_close(&log->csv, err);
    log_file_close(&log->evaluations, err);
    log_file_close(&log->jsonl, err);
    if (log->mllog.file.path)
        mllog_close(&log->mllog, log->epoch, status, err);
}

static int open_files(struct log *log, const char *directory, const struct scenario *scenario,
                      int32_t ranks, struct err *err)
{
    return file_make_directory(directory, err) ||
                   log_file_open(&log->csv, directory, "steps.csv", err) ||
                   log_file_open(&log->evaluations, directory, "evaluations.csv", err) ||
                   log_file_open(&log->jsonl, directory, "steps.jsonl", err) ||
                   mllog_open(&log->mllog, directory, log->run, scenario, log->plan, ranks, err)
               ? -1
               : 0;
}

int log_open(struct log **log, const char *directory, const char *run, bool progress,
             const struct scenario *scenario, const struct plan *plan, int64_t total_steps,
             int32_t ranks, struct err *err)
{
    struct log *opened = base_alloc(1, sizeof(*opened));
    opened->run = run;
    opened->plan = plan;
    opened->total_steps = total_steps;
    opened->files = directory != NULL;
    opened->line = log_line_new(progress, plan, total_steps);
    if (directory && open_files(opened, directory, scenario, ranks, err)) {
        close_files(opened, "aborted", &(struct err){0});
        free(opened);
        return -1;
    }
    *log = opened;
    return 0;
}

static bool csv_is_lost(const char *line, int64_t step)
{
    char *end;
    int64_t found = strtoll(line, &end, 10);
    return end != line && found > step; /* the header has no number */
}

static bool json_is_lost(const char *line, int64_t step)
{
    static const char key[] = "\"step\": ";
    const char *place = strstr(line, key);
    return place && csv_is_lost(place + strlen(key), step);
}

static void start_rows(struct log *log, struct log_file *file, const struct log_row *rows,
                       int64_t step)
{
    log_file_cut(file, rows ? csv_is_lost : json_is_lost, step);
    if (rows && log_file_is_empty(file)) {
        log_rows_header(&log->text, rows);
        log_file_take(file, &log->text);
    }
}

static void flush(struct log *log)
{
    log_file_flush(&log->csv);
    log_file_flush(&log->evaluations);
    log_file_flush(&log->jsonl);
    log_file_flush(&log->mllog.file);
    log->flushed_s = base_seconds(CLOCK_MONOTONIC);
}

void log_start(struct log *log, int64_t step)
{
    log->epoch = epoch_of(log->plan, step);
    log->line.first_step = log->line.last.step = step;
    if (!log->files)
        return;
    start_rows(log, &log->csv, step_rows, step);
    start_rows(log, &log->evaluations, evaluation_rows, step);
    start_rows(log, &log->jsonl, NULL, step);
    mllog_start(&log->mllog, step, log->epoch);
    flush(log);
}

void log_step(struct log *log, const struct log_step *step)
{
    double now_s = base_seconds(CLOCK_MONOTONIC);
    log->epoch = step->epoch;
    log_line_step(&log->line, step, now_s);
    if (!log->files)
        return;
    struct step_record record = {
        .step = *step,
        .unix_s = base_seconds(CLOCK_REALTIME),
        .run = log->run,
        .images_per_s = step->seconds > 0 ? (double)step->global_batch / step->seconds : NAN};
    log_rows_csv(&log->text, step_rows, &record);
    log_file_take(&log->csv, &log->text);
    log_rows_json(&log->text, step_rows, &record, "step");
    log_file_take(&log->jsonl, &log->text);
    mllog_batch(&log->mllog, step->global_batch);
    if (now_s + step->seconds - log->flushed_s >= 1) /* the next step may come too late */
        flush(log);
}

void log_evaluation(struct log *log, const struct log_evaluation *evaluation)
{
    struct evaluation_record record = {
        .evaluation = *evaluation, .unix_s = base_seconds(CLOCK_REALTIME), .run = log->run};
    log->line.top1 = evaluation->top1;
    log_line_say(&log->line,
                 "evaluation at epoch %.2f: top-1 %.2f %%, top-5 %.2f %%, loss %.4f (%" PRId64
                 " images in %.1f s)",
                 evaluation->epoch, 100 * evaluation->top1, 100 * evaluation->top5,
                 evaluation->loss, evaluation->images, evaluation->seconds);
    if (!log->files)
        return;
    log_rows_csv(&log->text, evaluation_rows, &record);
    log_file_take(&log->evaluations, &log->text);
    log_rows_json(&log->text, evaluation_rows, &record, "evaluation");
    log_file_take(&log->jsonl, &log->text);
    mllog_evaluation(&log->mllog, evaluation->epoch, evaluation->top1, evaluation->seconds,
                     evaluation->step < log->total_steps);
    flush(log);
}

/* Releases @line. */
static void take_line(struct log *log, struct json *line)
{
    json_put_text(line, "run", log->run);
    json_print_line(&log->text, line, 9);
    text_append(&log->text, "\n", 1);
    log_file_take(&log->jsonl, &log->text);
    json_free(line);
    flush(log);
}

void log_checkpoint(struct log *log, int64_t step, const char *path)
{
    log_line_say(&log->line, "checkpoint %s", path);
    if (!log->files)
        return;
    struct json *line = json_new_object();
    json_put_text(line, "event", "checkpoint");
    json_put_integer(line, "step", step);
    json_put_text(line, "path", path);
    take_line(log, line);
}

void log_straggler(struct log *log, int64_t step, int32_t rank, const char *who, double wait_s,
                   double seconds)
{
    bool on = log->line.on;
    log->line.on = true; /* no matter of progress */
    log_line_say(&log->line, "%s holds up the others: they waited %.1f s of %.1f s for it", who,
                 wait_s, seconds);
    log->line.on = on;
    if (!log->files)
        return;
    struct json *line = json_new_object();
    json_put_text(line, "event", "straggler");
    json_put_integer(line, "step", step);
    json_put_integer(line, "rank", rank);
    json_put_real(line, "wait_s", wait_s);
    json_put_real(line, "seconds", seconds);
    take_line(log, line);
}

int log_close(struct log *log, const char *status, struct err *err)
{
    int32_t before = err->count;
    log_line_close(&log->line);
    if (log->files)
        close_files(log, status, err);
    text_release(&log->text);
    free(log);
    return err->count > before ? -1 : 0;
}
