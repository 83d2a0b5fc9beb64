#include "exec/log/log.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/base.h"
#include "core/base/err.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/scenario/phase.h"
#include "core/scenario/scenario.h"
#include <stdbool.h>
#include <stdint.h>

/* One file. */
struct log_file {
    char *path;   /* owned */
    FILE *stream; /* appends, buffered */
    int error;    /* errno of the first fault, or 0 */
};

enum {
    MLLOG_BATCH_TOLD = -1, /* as global_batch: the previous run has already logged that of the
                                next step */
};

/* A log being written; members are private. */
struct mllog {
    struct log_file file;
    const char *run;                 /* borrowed */
    const struct scenario *scenario; /* borrowed */
    const struct plan *plan;         /* borrowed */
    int32_t ranks;
    double opened_unix_s; /* when the process began */
    int64_t global_batch; /* last logged; 0: none */
    bool started;
    bool in_block;
    double block_epoch; /* where the block began */
};

static void note_fault(struct log_file *file)
{
    if (file->error)
        return;
    file->error = errno ? errno : EIO;
    fprintf(stderr, "warning: %s cannot be written: %s; training continues without it\n",
            file->path, strerror(file->error));
}

/* Open @directory/@name for appending; it is made when missing.
 * @return 0, or -1 (exit code 73) with the system's reason. */
static int log_file_open(struct log_file *file, const char *directory, const char *name,
                         struct err *err)
{
    *file = (struct log_file){.path = base_format("%s/%s", directory, name)};
    file->stream = fopen(file->path, "ae");
    if (file->stream)
        return 0;
    err_add_code(err, 73, "%s: cannot be made: %s", file->path, strerror(errno));
    free(file->path);
    *file = (struct log_file){0};
    return -1;
}

/* Whether it is empty. */
static bool log_file_is_empty(const struct log_file *file)
{
    struct stat found;
    return stat(file->path, &found) != 0 || found.st_size == 0;
}

/* Truncate the file before its first line that is incomplete or lost according to @is_lost (with
 * @step). */
static void log_file_cut(struct log_file *file, bool (*is_lost)(const char *line, int64_t step),
                         int64_t step)
{
    FILE *old = fopen(file->path, "re");
    AUTOFREE char *line = NULL;
    size_t capacity = 0;
    off_t whole = 0;
    ssize_t length;
    while (old && (length = getline(&line, &capacity, old)) > 0) {
        if (line[length - 1] != '\n' || is_lost(line, step))
            break;
        whole += length;
    }
    if (!old || truncate(file->path, whole) != 0)
        note_fault(file);
    if (old)
        fclose(old);
}

/* Append @size bytes. */
static void log_file_put(struct log_file *file, const void *data, int64_t size)
{
    if (!file->error && fwrite(data, 1, (size_t)size, file->stream) != (size_t)size)
        note_fault(file);
}

/* Append @text and empty it. */
static void log_file_take(struct log_file *file, struct text *text)
{
    log_file_put(file, text->data, text->length);
    text->length = 0;
}

/* Pass the buffer to the system. */
static void log_file_flush(struct log_file *file)
{
    if (!file->error && file->stream && fflush(file->stream) != 0)
        note_fault(file);
}

/* Flush, close and release; accepts a zeroed struct.  @return 0, or -1 (exit code 74): a write
 * failed since it was opened. */
static int log_file_close(struct log_file *file, struct err *err)
{
    log_file_flush(file);
    if (file->stream && fclose(file->stream) != 0)
        note_fault(file);
    int failed = file->error ? err_add_code(err, 74, "%s: cannot be written: %s; it ends too early",
                                            file->path, strerror(file->error))
                             : 0;
    free(file->path);
    *file = (struct log_file){0};
    return failed;
}

#define POINT "POINT_IN_TIME"
#define START "INTERVAL_START"
#define END   "INTERVAL_END"

/* One line; takes ownership of @value and @metadata, which may be NULL. */
static void put_line(struct mllog *log, double unix_s, const char *type, const char *key,
                     struct json *value, struct json *metadata)
{
    AUTORELEASE(json) struct json *line = json_new_object();
    AUTORELEASE(text) struct text text = {0};
    json_put_text(line, "namespace", "");
    json_put_integer(line, "time_ms", (int64_t)(unix_s * 1e3));
    json_put_text(line, "event_type", type);
    json_put_text(line, "key", key);
    if (value)
        json_put(line, "value", value);
    else
        json_put_text(line, "value", NULL);
    json_put(line, "metadata", metadata ? metadata : json_new_object());
    text_add(&text, ":::MLLOG ");
    json_print_line(&text, line, 9);
    text_append(&text, "\n", 1);
    log_file_take(&log->file, &text);
}

static void put_real(struct mllog *log, const char *key, double value)
{
    put_line(log, base_seconds(CLOCK_REALTIME), POINT, key, json_new_real(value), NULL);
}

static void put_integer(struct mllog *log, const char *key, int64_t value)
{
    put_line(log, base_seconds(CLOCK_REALTIME), POINT, key, json_new_integer(value), NULL);
}

static void put_text(struct mllog *log, const char *key, const char *value)
{
    put_line(log, base_seconds(CLOCK_REALTIME), POINT, key, json_new_text(value), NULL);
}

/* MLPerf counts epochs in whole numbers.  An epoch ends within a step, so a number within one step
 * of a whole number is rounded; evaluations of foretrain may be elsewhere. */
static void put_epochs(const struct mllog *log, struct json *metadata, const char *key,
                       double epochs)
{
    double batch = (double)(log->global_batch > 0 ? log->global_batch : 1);
    double step = batch / (double)log->scenario->training.train_images;
    if (fabs(epochs - rint(epochs)) <= step && rint(epochs) > 0)
        json_put_integer(metadata, key, (int64_t)rint(epochs));
    else
        json_put_real(metadata, key, epochs);
}

static struct json *epoch_metadata(const struct mllog *log, double epoch)
{
    struct json *metadata = json_new_object();
    put_epochs(log, metadata, "epoch_num", epoch);
    return metadata;
}

/* first_epoch_num counts from 1: the epoch of the block's first step. */
static struct json *block_metadata(const struct mllog *log)
{
    struct json *metadata = json_new_object();
    double every = log->scenario->training.evaluate_every, end = log->plan->epochs;
    if (every > 0) /* a resumed run may begin anywhere */
        end = fmin(end, (floor(log->block_epoch / every * (1 + 1e-12)) + 1) * every);
    json_put_integer(metadata, "first_epoch_num", (int64_t)floor(log->block_epoch) + 1);
    put_epochs(log, metadata, "epoch_count", end - log->block_epoch);
    return metadata;
}

static void begin_block(struct mllog *log, double epoch)
{
    log->in_block = true;
    log->block_epoch = epoch;
    put_line(log, base_seconds(CLOCK_REALTIME), START, "block_start", NULL, block_metadata(log));
}

static void end_block(struct mllog *log, double unix_s)
{
    struct json *metadata = json_new_object();
    if (log->in_block) {
        json_put_integer(metadata, "first_epoch_num", (int64_t)floor(log->block_epoch) + 1);
        put_line(log, unix_s, END, "block_stop", NULL, metadata);
    } else {
        json_free(metadata);
    }
    log->in_block = false;
}

/* ---- the job ---- */

static void put_submission(struct mllog *log)
{
    const struct scenario *s = log->scenario;
    bool resnet = strncmp(s->model.network, "resnet50", 8) == 0;
    put_text(log, "submission_benchmark", resnet ? "resnet" : s->model.network);
    put_text(log, "submission_division", "open");
    put_text(log, "submission_org", "none: a run of foretrain, not a submission");
    put_text(log, "submission_platform", s->cluster.platform);
    put_text(log, "submission_status", "research");
}

static bool is_adaptive(const struct mllog *log)
{
    return log->scenario->training.optimizer > OPTIMIZER_LARS;
}

/* A key of the optimizer: "lars_opt_momentum", "sgd_opt_momentum", "opt_adamw_beta_1". */
static void put_option(struct mllog *log, const char *name, struct json *value)
{
    const char *optimizer = optimizer_names[log->scenario->training.optimizer];
    AUTOFREE char *key = base_format(is_adaptive(log) ? "opt_%s_%s" : "%s_opt_%s", optimizer, name);
    put_line(log, base_seconds(CLOCK_REALTIME), POINT, key, value, NULL);
}

static double peak_rate(const struct mllog *log)
{
    const struct scenario *s = log->scenario;
    double batches = s->training.learning_rate.base_batch
                         ? (double)log->plan->phase[0].global_batch /
                               (double)s->training.learning_rate.base_batch
                         : 1;
    return s->training.learning_rate.base * batches;
}

static int64_t decay_steps(const struct mllog *log)
{
    int64_t steps = 0;
    for (int32_t i = 0; i < log->plan->phase_count; i++)
        steps += log->plan->phase[i].steps;
    const struct phase *first = &log->plan->phase[0];
    double warmup = log->scenario->training.warmup_epochs / first->epochs * (double)first->steps;
    return steps - (int64_t)rint(warmup);
}

static void put_optimizer(struct mllog *log)
{
    const struct scenario *s = log->scenario;
    bool lars = s->training.optimizer == OPTIMIZER_LARS;
    put_text(log, "opt_name", optimizer_names[s->training.optimizer]);
    put_option(log, "base_learning_rate", json_new_real(peak_rate(log)));
    put_option(log, is_adaptive(log) ? "beta_1" : "momentum", json_new_real(s->training.momentum));
    if (is_adaptive(log))
        put_option(log, "beta_2", json_new_real(s->training.beta2));
    put_option(log, "weight_decay", json_new_real(s->training.weight_decay));
    if (s->training.learning_rate.decay == DECAY_POLYNOMIAL &&
        s->training.learning_rate.cycles == 1 && s->training.collapse.epochs == 0) {
        put_option(log, "end_learning_rate",
                   json_new_real(s->training.learning_rate.final * peak_rate(log)));
        put_option(log, "learning_rate_decay_poly_power",
                   json_new_real(s->training.learning_rate.power));
        put_option(log, "learning_rate_decay_steps", json_new_integer(decay_steps(log)));
    }
    if (lars) {
        put_real(log, "lars_epsilon", 0);
        put_real(log, "lars_opt_learning_rate_warmup_epochs", s->training.warmup_epochs);
        return;
    }
    const struct phase *first = &log->plan->phase[0];
    put_real(log, "opt_learning_rate_warmup_epochs", s->training.warmup_epochs);
    put_integer(log, "model_bn_span", first->micro_batch * s->training.norm_group);
}

/* Log the global batch of a step, if it has changed. */
static void mllog_batch(struct mllog *log, int64_t global_batch)
{
    if (global_batch != log->global_batch && log->global_batch != MLLOG_BATCH_TOLD)
        put_integer(log, "global_batch_size", global_batch);
    log->global_batch = global_batch;
}

static void put_job(struct mllog *log)
{
    const struct scenario *s = log->scenario;
    const struct phase *first = &log->plan->phase[0];
    put_integer(log, "seed", s->seed);
    mllog_batch(log, first->global_batch);
    put_integer(log, "gradient_accumulation_steps", first->batch_per_device / first->micro_batch);
    put_optimizer(log);
    put_integer(log, "train_samples", s->training.train_images);
    put_integer(log, "eval_samples", s->training.validation_images);
}

/* ---- the run ---- */

/* Open @directory/mllog.txt for run @run of @plan on @ranks; all pointers are borrowed until it is
 * closed.
 * @return 0, or -1 (exit code 73). */
static int mllog_open(struct mllog *log, const char *directory, const char *run,
                      const struct scenario *scenario, const struct plan *plan, int32_t ranks,
                      struct err *err)
{
    *log = (struct mllog){.run = run,
                          .scenario = scenario,
                          .plan = plan,
                          .ranks = ranks,
                          .opened_unix_s = base_seconds(CLOCK_REALTIME)};
    return log_file_open(&log->file, directory, "mllog.txt", err);
}

static bool is_stop(const char *line, int64_t step)
{
    return strstr(line, "\"key\": \"run_stop\"") != NULL;
}

/* Log the job and its start at @epoch.  A run that continues after @step in a file with lines
 * removes its last run_stop and logs "foretrain_resumed" instead. */
static void mllog_start(struct mllog *log, int64_t step, double epoch)
{
    log_file_cut(&log->file, is_stop, step);
    log->started = true;
    if (step > 0 && !log_file_is_empty(&log->file)) {
        log->global_batch = MLLOG_BATCH_TOLD;
        put_integer(log, "foretrain_resumed", step);
    } else {
        put_line(log, log->opened_unix_s, POINT, "cache_clear", json_new_boolean(false), NULL);
        put_line(log, log->opened_unix_s, START, "init_start", NULL, NULL);
        put_submission(log);
        put_text(log, "foretrain_run", log->run);
        put_text(log, "foretrain_scenario_sha256", log->scenario->sha256);
        put_integer(log, "foretrain_ranks", log->ranks);
        put_job(log);
        put_line(log, base_seconds(CLOCK_REALTIME), END, "init_stop", NULL, NULL);
        put_line(log, base_seconds(CLOCK_REALTIME), START, "run_start", NULL, NULL);
    }
    begin_block(log, epoch);
    log_file_flush(&log->file);
}

/* Log an evaluation of @seconds that ends now; another block begins if there is @more to train.
 */
static void mllog_evaluation(struct mllog *log, double epoch, double accuracy, double seconds,
                             bool more)
{
    double end = base_seconds(CLOCK_REALTIME);
    put_line(log, end - seconds, START, "eval_start", NULL, epoch_metadata(log, epoch));
    put_line(log, end, POINT, "eval_accuracy", json_new_real(accuracy), epoch_metadata(log, epoch));
    put_line(log, end, END, "eval_stop", NULL, epoch_metadata(log, epoch));
    end_block(log, end);
    if (more)
        begin_block(log, epoch);
    log_file_flush(&log->file);
}

/* Log the end, with "success" or "aborted", and close.  @return 0, or -1 (exit code 74). */
static int mllog_close(struct mllog *log, double epoch, const char *status, struct err *err)
{
    if (log->started) {
        struct json *metadata = epoch_metadata(log, epoch);
        end_block(log, base_seconds(CLOCK_REALTIME));
        json_put_text(metadata, "status", status);
        put_line(log, base_seconds(CLOCK_REALTIME), END, "run_stop", NULL, metadata);
    }
    return log_file_close(&log->file, err);
}

/* ---- records as lines of CSV and of JSON, by one table of members ---- */

/* Type of a member. */
enum log_kind {
    LOG_INTEGER, /**< int64_t */
    LOG_REAL,    /**< double */
    LOG_TIME,    /**< double, seconds since 1970: written in whole milliseconds */
    LOG_BOOLEAN, /**< bool */
    LOG_WORD     /**< const char *, without quotes, commas and blanks */
};

/* One member; a table ends with name NULL. */
struct log_row {
    const char *name; /**< column and key */
    enum log_kind kind;
    size_t offset; /**< in the record */
};

static void print_value(struct text *out, const struct log_row *row, const void *record, bool json)
{
    const void *member = (const char *)record + row->offset;
    if (row->kind == LOG_INTEGER) {
        text_add(out, "%" PRId64, *(const int64_t *)member);
        return;
    }
    if (row->kind == LOG_WORD) {
        text_add(out, json ? "\"%s\"" : "%s", *(const char *const *)member);
        return;
    }
    if (row->kind == LOG_BOOLEAN) {
        bool set = *(const bool *)member;
        text_add(out, "%s", json ? (set ? "true" : "false") : (set ? "1" : "0"));
        return;
    }
    double value = *(const double *)member;
    if (isfinite(value))
        text_add(out, row->kind == LOG_TIME ? "%.3f" : "%.9g", value);
    else if (json)
        text_add(out, "null");
    else
        text_add(out, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

/* Append the names as the first line of a CSV file. */
static void log_rows_header(struct text *out, const struct log_row *rows)
{
    for (const struct log_row *row = rows; row->name; row++)
        text_add(out, "%s%s", row == rows ? "" : ",", row->name);
    text_append(out, "\n", 1);
}

/* Append @record as a line of CSV: booleans are 0 and 1, numbers that are not finite "nan", "inf"
 * and "-inf". */
static void log_rows_csv(struct text *out, const struct log_row *rows, const void *record)
{
    for (const struct log_row *row = rows; row->name; row++) {
        if (row != rows)
            text_append(out, ",", 1);
        print_value(out, row, record, false);
    }
    text_append(out, "\n", 1);
}

/* Append @record as a line of JSON whose first member is "event": @event; numbers that are not
 * finite are null.  Other numbers have the same digits as in CSV: 9 of them. */
static void log_rows_json(struct text *out, const struct log_row *rows, const void *record,
                          const char *event)
{
    text_add(out, "{\"event\": \"%s\"", event);
    for (const struct log_row *row = rows; row->name; row++) {
        text_add(out, ", \"%s\": ", row->name);
        print_value(out, row, record, true);
    }
    text_append(out, "}\n", 2);
}

/* ---- log ---- */

/* ---- the line for people on stderr ---- */

/* The line, and the data collected for it since it was last printed. */
struct log_line {
    bool on, terminal;
    const struct plan *plan; /**< borrowed */
    int64_t total_steps;
    int64_t first_step; /**< of this process, from 0 */
    double printed_s;   /**< time of the last print, by the monotonic clock */
    double seconds;     /**< of the steps since then */
    int64_t images, steps, losses, skipped;
    double loss;          /**< sum over `losses` of those steps; skipped ones have none */
    double top1;          /**< of the last evaluation; negative: none */
    int64_t all_images;   /**< of this process */
    double all_seconds;   /**< of its steps */
    struct log_step last; /**< step */
};

#define CLEAR "\r\033[K" /* to the start of the line, and erase it */

enum { TERMINAL_S = 1, ELSEWHERE_S = 10 }; /* between two lines */

/* A line for a run of @plan up to @total_steps; on stderr when @on. */
static struct log_line log_line_new(bool on, const struct plan *plan, int64_t total_steps)
{
    return (struct log_line){.on = on,
                             .terminal = isatty(STDERR_FILENO) != 0,
                             .plan = plan,
                             .total_steps = total_steps,
                             .printed_s = -INFINITY,
                             .top1 = -1};
}

/* Append "3 h 12 min", "12 min 5 s", "42 s" or "1.5 s". */
static void log_line_duration(struct text *out, double seconds)
{
    double whole = rint(fmin(seconds, 1e15));
    int64_t s = (int64_t)whole;
    if (s >= 48 * 3600)
        text_add(out, "%" PRId64 " d %" PRId64 " h", s / 86400, s % 86400 / 3600);
    else if (s >= 3600)
        text_add(out, "%" PRId64 " h %" PRId64 " min", s / 3600, s % 3600 / 60);
    else if (s >= 60)
        text_add(out, "%" PRId64 " min %" PRId64 " s", s / 60, s % 60);
    else if (seconds >= 10)
        text_add(out, "%" PRId64 " s", s);
    else
        text_add(out, "%.1f s", seconds);
}

/* Images of the steps after @step up to the end of the run. */
static double images_left(const struct log_line *line, int64_t step)
{
    double images = 0;
    int64_t begin = 0;
    for (int32_t i = 0; i < line->plan->phase_count; i++) {
        const struct phase *phase = &line->plan->phase[i];
        int64_t end = begin + phase->steps;
        int64_t from = step > begin ? step : begin;
        int64_t to = line->total_steps < end ? line->total_steps : end;
        if (to > from)
            images += (double)(to - from) * (double)phase->global_batch;
        begin = end;
    }
    return images;
}

static void print(struct log_line *line)
{
    AUTORELEASE(text) struct text text = {0};
    const struct log_step *last = &line->last;
    double pace = line->seconds > 0 ? (double)line->images / line->seconds : 0;
    text_add(&text, "step %" PRId64 "/%" PRId64 "  epoch %.2f/%g  loss %.4f", last->step,
             line->total_steps, last->epoch, line->plan->epochs,
             line->losses ? line->loss / (double)line->losses : last->loss);
    if (line->top1 >= 0)
        text_add(&text, "  top-1 %.2f %%", 100 * line->top1);
    text_add(&text, "  %.*f images/s", pace < 100 ? 1 : 0, pace);
    if (line->skipped)
        text_add(&text, "  %" PRId64 " skipped", line->skipped);
    double left = images_left(line, last->step);
    if (pace > 0 && left > 0) {
        text_add(&text, "  ETA ");
        log_line_duration(&text, left / pace);
    }
    fprintf(stderr, line->terminal ? CLEAR "%s" : "%s\n", text.data);
    fflush(stderr);
    line->seconds = line->loss = 0;
    line->images = line->steps = line->losses = line->skipped = 0;
}

/* Collect @step, and print if it is time at @now_s. */
static void log_line_step(struct log_line *line, const struct log_step *step, double now_s)
{
    line->last = *step;
    line->seconds += step->seconds;
    line->images += step->global_batch;
    line->steps++;
    line->skipped += step->skipped;
    if (!step->skipped) {
        line->loss += step->loss;
        line->losses++;
    }
    line->all_seconds += step->seconds;
    line->all_images += step->global_batch;
    if (isinf(line->printed_s))
        line->printed_s = now_s - step->seconds;
    if (!line->on || now_s - line->printed_s < (line->terminal ? TERMINAL_S : ELSEWHERE_S))
        return;
    line->printed_s = now_s;
    print(line);
}

/* Print @text on a line of its own. */
static void log_line_say(struct log_line *line, const char *format, ...)
{
    va_list list;
    if (!line->on)
        return;
    if (line->terminal)
        fputs(CLEAR, stderr);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
}

/* Print the collected data and the pace of the whole run. */
static void log_line_close(struct log_line *line)
{
    AUTORELEASE(text) struct text text = {0};
    if (!line->on || line->all_images == 0)
        return;
    if (line->steps > 0)
        print(line);
    if (line->terminal)
        fputc('\n', stderr);
    log_line_duration(&text, line->all_seconds);
    fprintf(stderr, "%" PRId64 " steps in %s: %.1f images/s\n", line->last.step - line->first_step,
            text.data, line->all_seconds > 0 ? (double)line->all_images / line->all_seconds : 0);
}

/* ---- log ---- */

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
    AUTOFREE char *perplexity =
        evaluation->sequences ? base_format(", perplexity %.4g", exp(evaluation->loss)) : NULL;
    log->line.top1 = evaluation->top1;
    log_line_say(&log->line,
                 "evaluation at epoch %.2f: top-1 %.2f %%, top-5 %.2f %%, loss %.4f%s (%" PRId64
                 " %s in %.1f s)",
                 evaluation->epoch, 100 * evaluation->top1, 100 * evaluation->top5,
                 evaluation->loss, perplexity ? perplexity : "", evaluation->images,
                 evaluation->sequences ? "sequences" : "images", evaluation->seconds);
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
