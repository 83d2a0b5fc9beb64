#include "exec/log/log.h"

#include "core/base/file.h"
#include "core/scenario/phase.h"
#include "core/scenario/scenario.h"

/* One file. */
struct log_file {
    char *path;   /* owned */
    FILE *stream; /* appends, buffered */
    int error;    /* errno of the first fault, or 0 */
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

/* The heading has no number. */
static bool is_lost(const char *line, int64_t step)
{
    char *end;
    int64_t found = strtoll(line, &end, 10);
    return end != line && found > step;
}

/* Truncate the file before its first line that is incomplete or of a step after @step.
 * @return whether it is empty now. */
static bool log_file_cut(struct log_file *file, int64_t step)
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
    return whole == 0;
}

/* Append @text and empty it. */
static void log_file_take(struct log_file *file, struct text *text)
{
    size_t size = (size_t)text->length;
    if (!file->error && fwrite(text->data, 1, size, file->stream) != size)
        note_fault(file);
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

/* ---- lines of CSV ---- */

/* A value of a line. */
struct log_value {
    const char *name; /* of its column */
    double value;
    int32_t decimals; /* DIGITS: none are fixed */
};

enum { DIGITS = -1 }; /* 9 of them */

/* Append @values, up to one without a name, and @run; without @run the names of the columns, which
 * are the first line.  Not finite numbers are "nan", "inf" and "-inf". */
static void print_values(struct text *out, const struct log_value *values, const char *run)
{
    for (const struct log_value *value = values; value->name; value++)
        if (!run)
            text_add(out, "%s,", value->name);
        else if (isnan(value->value))
            text_add(out, "nan,"); /* without its sign */
        else if (value->decimals == DIGITS)
            text_add(out, "%.9g,", value->value);
        else
            text_add(out, "%.*f,", value->decimals, value->value);
    text_add(out, "%s\n", run ? run : "run");
}

/* ---- the line for people on stderr ---- */

/* The line, and the data collected for it since it was last printed. */
struct log_line {
    bool on, terminal;
    const char *samples;     /**< what they are called, borrowed */
    int64_t tokens;          /**< of a sample */
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

/* Append "12.3 images/s" or "1.5 samples/s, 384 tokens/s". */
static void log_pace(struct text *out, int32_t digits, double pace, const char *samples,
                     int64_t tokens)
{
    text_add(out, "%.*f %s/s", digits, pace, samples);
    if (tokens > 1)
        text_add(out, ", %.0f tokens/s", pace * (double)tokens);
}

static void print(struct log_line *line)
{
    AUTORELEASE(text) struct text text = {0};
    const struct log_step *last = &line->last;
    double pace = line->seconds > 0 ? (double)line->images / line->seconds : 0;
    text_add(&text, "step %" PRId64 "/%" PRId64 "  epoch %.2f/%g  mean loss %.4f", last->step,
             line->total_steps, last->epoch, line->plan->epochs,
             line->losses ? line->loss / (double)line->losses : last->loss);
    if (line->top1 >= 0)
        text_add(&text, "  top-1 %.2f %%", 100 * line->top1);
    text_add(&text, "  ");
    log_pace(&text, pace < 100 ? 1 : 0, pace, line->samples, line->tokens);
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
    text_add(&text, ": ");
    log_pace(&text, 1, line->all_seconds > 0 ? (double)line->all_images / line->all_seconds : 0,
             line->samples, line->tokens);
    fprintf(stderr, "%" PRId64 " steps in %s\n", line->last.step - line->first_step, text.data);
}

/* ---- log ---- */

struct log {
    bool files; /* false: only the line */
    const char *run;
    struct log_file steps, evaluations;
    struct log_line line;
    struct text text; /* of a line being made */
    double flushed_s;
};

bool log_is_name(const char *name)
{
    return !strcmp(name, "steps.csv") || !strcmp(name, "evaluations.csv");
}

static void close_files(struct log *log, struct err *err)
{
    log_file_close(&log->steps, err);
    log_file_close(&log->evaluations, err);
}

static int open_files(struct log *log, const char *directory, struct err *err)
{
    return file_make_directory(directory, err) ||
                   log_file_open(&log->steps, directory, "steps.csv", err) ||
                   log_file_open(&log->evaluations, directory, "evaluations.csv", err)
               ? -1
               : 0;
}

int log_open(struct log **log, const char *directory, const char *run, const char *samples,
             int64_t tokens, const struct plan *plan, int64_t total_steps, struct err *err)
{
    struct log *opened = base_alloc(1, sizeof(*opened));
    opened->run = run;
    opened->files = directory != NULL;
    opened->line = (struct log_line){.on = samples != NULL,
                                     .samples = samples,
                                     .tokens = tokens,
                                     .terminal = isatty(STDERR_FILENO) != 0,
                                     .plan = plan,
                                     .total_steps = total_steps,
                                     .printed_s = -INFINITY,
                                     .top1 = -1};
    if (directory && open_files(opened, directory, err)) {
        close_files(opened, &(struct err){0});
        free(opened);
        return -1;
    }
    *log = opened;
    return 0;
}

/* Append a line to steps.csv, with @run NULL the first one. */
static void put_step(struct log *log, const struct log_step *step, const char *run)
{
    const struct log_value values[] = {
        {"step", (double)step->step, 0},
        {"unix_s", base_seconds(CLOCK_REALTIME), 3},
        {"epoch", step->epoch, DIGITS},
        {"global_batch", (double)step->global_batch, 0},
        {"loss", step->loss, DIGITS},
        {"learning_rate", step->learning_rate, DIGITS},
        {"weight_decay", step->weight_decay, DIGITS},
        {"loss_scale", step->loss_scale, DIGITS},
        {"gradient_norm", step->gradient_norm, DIGITS},
        {"skipped", step->skipped, 0},
        {"seconds", step->seconds, DIGITS},
        {"input_wait_s", step->input_wait_s, DIGITS},
        {"exposed_communication_s", step->exposed_communication_s, DIGITS},
        {"images_per_s", step->seconds > 0 ? (double)step->global_batch / step->seconds : NAN,
         DIGITS},
        {0}};
    print_values(&log->text, values, run);
    log_file_take(&log->steps, &log->text);
}

/* The same to evaluations.csv. */
static void put_evaluation(struct log *log, const struct log_evaluation *evaluation,
                           const char *run)
{
    const struct log_value values[] = {{"step", (double)evaluation->step, 0},
                                       {"unix_s", base_seconds(CLOCK_REALTIME), 3},
                                       {"epoch", evaluation->epoch, DIGITS},
                                       {"loss", evaluation->loss, DIGITS},
                                       {"top1", evaluation->top1, DIGITS},
                                       {"top5", evaluation->top5, DIGITS},
                                       {"images", (double)evaluation->images, 0},
                                       {"seconds", evaluation->seconds, DIGITS},
                                       {0}};
    print_values(&log->text, values, run);
    log_file_take(&log->evaluations, &log->text);
}

static void flush(struct log *log)
{
    log_file_flush(&log->steps);
    log_file_flush(&log->evaluations);
    log->flushed_s = base_seconds(CLOCK_MONOTONIC);
}

void log_start(struct log *log, int64_t step)
{
    log->line.first_step = log->line.last.step = step;
    if (!log->files)
        return;
    if (log_file_cut(&log->steps, step))
        put_step(log, &(struct log_step){0}, NULL);
    if (log_file_cut(&log->evaluations, step))
        put_evaluation(log, &(struct log_evaluation){0}, NULL);
    flush(log);
}

void log_step(struct log *log, const struct log_step *step)
{
    double now_s = base_seconds(CLOCK_MONOTONIC);
    log_line_step(&log->line, step, now_s);
    if (!log->files)
        return;
    put_step(log, step, log->run);
    if (now_s + step->seconds - log->flushed_s >= 1) /* the next step may come too late */
        flush(log);
}

void log_evaluation(struct log *log, const struct log_evaluation *evaluation)
{
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
    put_evaluation(log, evaluation, log->run);
    flush(log);
}

void log_checkpoint(struct log *log, const char *path)
{
    log_line_say(&log->line, "checkpoint %s", path);
}

void log_straggler(struct log *log, const char *who, double wait_s, double seconds)
{
    bool on = log->line.on;
    log->line.on = true; /* no matter of progress */
    log_line_say(&log->line, "%s holds up the others: they waited %.1f s of %.1f s for it", who,
                 wait_s, seconds);
    log->line.on = on;
}

int log_close(struct log *log, struct err *err)
{
    int32_t before = err->count;
    log_line_close(&log->line);
    if (log->files)
        close_files(log, err);
    text_release(&log->text);
    free(log);
    return err->count > before ? -1 : 0;
}
