#include "app/explore/finding.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/explore/crew.h"

enum {
    REASON = 500,            /* of bytes: a row stays one line that people can read */
    WARNING = CREW_LINE / 8, /* a character may take six in JSON */
};

const char *const finding_status_names[] = {"", "ok", "refused", "failed", NULL};

#define DESCRIBED struct finding
static const struct answer_column finding_rows[] = {
    COLUMN_MEMBERS(figures, &figures_columns),
    COLUMN("simulated_over_closed_form", ratio, .null = true,
           .help = "simulated step over that in closed form; null: not both"),
    COLUMN("backend", backend, .words = backend_words,
           .help = "analytic or sim: where the numbers come from"),
    COLUMN("status", status, .words = finding_status_names,
           .help = "ok, refused (such a job cannot be) or failed"),
    COLUMN("reason", reason, .null = true,
           .help = "of a refusal or failure; of an ok point: why it was not simulated as it should "
                   "have been"),
};
const struct answer_columns finding_columns = COLUMNS(NULL, finding_rows);

static const struct answer_column whole_rows[] = {
    COLUMN("code", code, .help = "exit code that predict would have"),
    COLUMN_ROWS(&finding_columns),
    COLUMN_MEMBERS(figures, &figures_basis_columns),
};
static const struct answer_columns whole_columns = COLUMNS(NULL, whole_rows);
#undef DESCRIBED

struct json *finding_json(const struct finding *finding)
{
    struct json *json = json_new_object();
    answer_put(json, &whole_columns, finding);
    return json;
}

bool finding_read(struct finding *finding, const struct json *json)
{
    return answer_read(&whole_columns, json, finding) && finding->status != FINDING_NONE;
}

/* Zeroed @finding becomes one that failed; of the messages of @err the first line stays. */
static void fail(struct finding *finding, enum backend_choice backend, struct err *err)
{
    const char *reason = err->text ? err_reason(err) : "no reason is known";
    finding->figures = figures_none();
    finding->ratio = NAN;
    finding->backend = (int32_t)backend;
    finding->code = err->exit_code ? err->exit_code : 70;
    finding->status = finding->code >= 64 && finding->code < 70 ? FINDING_REFUSED : FINDING_FAILED;
    finding->reason = strndup(reason, REASON);
}

void finding_release(struct finding *finding)
{
    free(finding->reason);
    *finding = (struct finding){0};
}

/* ---- in a worker ---- */

/* Many on their way through the crew. */
struct round {
    const struct findings *what;
    int64_t count, done;
    double begun;
    bool shown; /* a line on the terminal */
};

static void say(struct text *lines, struct json *json)
{
    json_print_line(lines, json, 17);
    text_add(lines, "\n");
    json_free(json);
}

static struct finding predict(const struct findings *what, const struct predict_options *options,
                              struct err *warnings)
{
    AUTORELEASE(prediction) struct prediction prediction = {0};
    AUTORELEASE(err) struct err err = {0};
    struct finding finding = {.status = FINDING_OK, .backend = what->backend, .ratio = NAN};
    if (prediction_screen(&prediction, what->job, options, what->backend, what->draws, &err)) {
        fail(&finding, what->backend, &err);
    } else {
        finding.figures = figures_of(&prediction, what->prices);
        price_check_device(what->prices, platform_device(prediction.job.platform)->name, &err);
    }
    err_warn_all(warnings, &err);
    return finding;
}

static void work(void *context, int64_t index, struct text *lines)
{
    const struct findings *what = ((const struct round *)context)->what;
    struct predict_options options = *what->options;
    AUTORELEASE(err) struct err warnings = {0};
    options.set = what->set(what->context, index);
    AUTORELEASE(finding) struct finding finding = predict(what, &options, &warnings);
    for (const char *line = warnings.warning; line && *line; line += strcspn(line, "\n") + 1) {
        int length = (int)strcspn(line, "\n");
        AUTOFREE char *text = base_format("%.*s", length < WARNING ? length : WARNING, line);
        struct json *json = json_new_object();
        json_put_text(json, "warning", text);
        say(lines, json);
    }
    struct json *json = finding_json(&finding);
    json_put_integer(json, "index", index);
    say(lines, json);
    option_list_release(&options.set);
}

/* ---- here ---- */

static int take_line(struct round *round, const char *line, int64_t length, struct err *err)
{
    const struct findings *what = round->what;
    AUTORELEASE(json) struct json *json = json_read("a worker", line, length, err);
    const char *warning = json_as_text(json_get(json, "warning"));
    struct finding finding = {0};
    int64_t index = 0;
    if (!json)
        return -1;
    if (warning) {
        if (what->warnings)
            err_warn(what->warnings, "%s", warning);
        return 0;
    }
    json_as_integer(json_get(json, "index"), &index);
    finding_read(&finding, json);
    round->done++;
    return what->take(what->context, index, finding, false, err);
}

static int take(void *context, const char *lines, int64_t length, struct err *err)
{
    for (int64_t at = 0; at < length;) {
        int64_t end = (int64_t)strcspn(lines + at, "\n");
        if (take_line(context, lines + at, end, err))
            return -1;
        at += end + 1;
    }
    return 0;
}

static int lose(void *context, int64_t index, const char *how, struct err *err)
{
    const struct findings *what = ((const struct round *)context)->what;
    AUTORELEASE(err) struct err why = {0};
    struct finding finding = {0};
    err_add_code(&why, 70, "the process that predicted it did not end well: %s", how);
    fail(&finding, what->backend, &why);
    return what->take(what->context, index, finding, true, err);
}

static void clear_line(struct round *round)
{
    if (round->shown)
        fputs("\r\033[K", stderr);
    round->shown = false;
}

static void tick(void *context)
{
    struct round *round = context;
    double passed = base_seconds(CLOCK_MONOTONIC) - round->begun;
    if (passed < 2 || !isatty(STDERR_FILENO))
        return;
    clear_line(round);
    round->shown = true;
    fprintf(stderr, "%s %lld of %lld %s",
            round->what->backend == BACKEND_SIM ? "simulating" : "predicting",
            (long long)round->done, (long long)round->count, round->what->noun);
    if (round->done)
        fprintf(stderr, ": about %.0f s left",
                passed * (double)(round->count - round->done) / (double)round->done);
}

int findings_find(const struct findings *findings, int64_t count, struct err *err)
{
    struct round round = {findings, count, 0, base_seconds(CLOCK_MONOTONIC), false};
    int32_t workers = findings->workers;
    if (count == 0)
        return 0;
    if (findings->backend == BACKEND_SIM) /* each has processes of its own, two at a time */
        workers = (workers + 1) / 2;
    int failed = crew_run(&(struct crew){.workers = count < workers ? (int32_t)count : workers,
                                         .context = &round,
                                         .work = work,
                                         .take = take,
                                         .lose = lose,
                                         .tick = tick},
                          count, err);
    clear_line(&round);
    return failed;
}
