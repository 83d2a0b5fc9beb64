#include "app/explore/finding.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum {
    LINE = 4000,        /* a pipe takes 4096 at once: lines of two workers never mix */
    REASON = 500,       /* of bytes: a row stays one line that people can read */
    WARNING = LINE / 8, /* a character may take six in JSON */
};

/* What all processes see. */
struct shared {
    atomic_llong next;    /* that nobody has */
    atomic_llong doing[]; /* (workers) -1: nothing */
};

/* Workers on their way through all jobs. */
struct shift {
    const struct findings *what;
    int64_t count, done;
    int32_t workers;
    struct shared *shared;
    pid_t *pid;        /* (workers) 0: none */
    int input;         /* where answers come from */
    struct text early; /* of a line whose end has not come */
    double begun, ticked;
    bool shown; /* a line on the terminal */
};

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
    interrupted = 1;
}

static const char *const finding_status_names[] = {"", "ok", "refused", "failed", NULL};

SHARED_COLUMNS(finding_columns, NULL, struct finding)
{
    COLUMN_MEMBERS(figures, &figures_columns);
    COLUMN("simulated_over_closed_form", ratio, .null = true,
           .help = "simulated step over that in closed form; null: not both");
    COLUMN("backend", backend, .words = backend_words,
           .help = "analytic or sim: where the numbers come from");
    COLUMN("status", status, .words = finding_status_names,
           .help = "ok, refused (such a job cannot be) or failed");
    COLUMN("reason", reason, .null = true,
           .help = "of a refusal or failure; of an ok point: why it was not simulated as it should "
                   "have been");
}

COLUMNS(whole_columns, NULL, struct finding)
{
    COLUMN("code", code, .help = "exit code that predict would have");
    COLUMN_ROWS(&finding_columns);
    COLUMN_MEMBERS(figures, &figures_basis_columns);
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

RELEASE(finding, it->reason)

/* ---- in a worker ---- */

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
        price_check_device(what->prices, prediction.job.platform->device.name, &err);
    }
    err_warn_all(warnings, &err);
    return finding;
}

/* Append lines of at most LINE characters each. */
static void work(const struct findings *what, int64_t index, struct text *lines)
{
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
    struct json *json = json_new_object();
    answer_put(json, &whole_columns, &finding);
    json_put_integer(json, "index", index);
    say(lines, json);
    texts_release(&options.set);
}

static void send(int output, const struct text *lines)
{
    for (int64_t at = 0; at < lines->length;) {
        const char *line = lines->data + at;
        size_t length = strcspn(line, "\n") + 1;
        if (write(output, line, length) != (ssize_t)length)
            _exit(74);
        at += (int64_t)length;
    }
}

/* Only the child returns from fork() to here and it never comes back. */
static _Noreturn void become(const struct shift *shift, int32_t worker, int output, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(71);
    signal(SIGINT, SIG_IGN); /* the parent ends workers */
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (!getenv("FORETRAIN_DEBUG"))
        dup2(nothing, STDERR_FILENO); /* simulations talk there, and several at a time */
    dup2(nothing, STDOUT_FILENO);
    close(shift->input);
    for (;;) {
        int64_t index = atomic_fetch_add(&shift->shared->next, 1);
        if (index >= shift->count)
            _exit(0);
        atomic_store(&shift->shared->doing[worker], index);
        AUTORELEASE(text) struct text lines = {0};
        work(shift->what, index, &lines);
        send(output, &lines);
        atomic_store(&shift->shared->doing[worker], -1);
    }
}

/* ---- here ---- */

static int start(struct shift *shift, struct err *err)
{
    int ends[2];
    pid_t parent = getpid();
    if (pipe2(ends, O_CLOEXEC))
        return err_add_code(err, 71, "cannot start a worker: %s", strerror(errno));
    shift->input = ends[0];
    fflush(NULL); /* a child must not print what this process has buffered */
    int failed = 0;
    for (int32_t i = 0; i < shift->workers && !failed; i++) {
        atomic_store(&shift->shared->doing[i], -1);
        shift->pid[i] = fork();
        if (!shift->pid[i])
            become(shift, i, ends[1], parent);
        if (shift->pid[i] < 0) {
            shift->pid[i] = 0;
            failed = i ? 0 : err_add_code(err, 71, "cannot start a worker: %s", strerror(errno));
            break;
        }
    }
    close(ends[1]);
    return failed;
}

static int take_line(struct shift *shift, const char *line, int64_t length, struct err *err)
{
    const struct findings *what = shift->what;
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
    answer_read(&whole_columns, json, &finding);
    shift->done++;
    what->take(what->context, index, finding);
    return 0;
}

/* Take the whole lines among what came. */
static int take(struct shift *shift, struct err *err)
{
    struct text *early = &shift->early;
    int64_t at = 0;
    for (const char *end; early->length && (end = strchr(early->data + at, '\n'));) {
        if (take_line(shift, early->data + at, end - early->data - at, err))
            return -1;
        at = end + 1 - early->data;
    }
    if (at > 0)
        memmove(early->data, early->data + at, (size_t)(early->length - at) + 1);
    early->length -= at;
    return 0;
}

static void lose(const struct findings *what, int64_t index, const char *how)
{
    AUTORELEASE(err) struct err why = {0};
    struct finding finding = {0};
    err_add_code(&why, 70, "the process that predicted it failed: %s", how);
    fail(&finding, what->backend, &why);
    what->take(what->context, index, finding);
}

static void clear_line(struct shift *shift)
{
    if (shift->shown)
        fputs("\r\033[K", stderr);
    shift->shown = false;
}

static void tick(struct shift *shift)
{
    double passed = base_seconds(CLOCK_MONOTONIC) - shift->begun;
    if (passed < 2 || !isatty(STDERR_FILENO))
        return;
    clear_line(shift);
    shift->shown = true;
    fprintf(stderr, "%s %lld of %lld %s",
            shift->what->backend == BACKEND_SIM ? "simulating" : "predicting",
            (long long)shift->done, (long long)shift->count, shift->what->noun);
    if (shift->done)
        fprintf(stderr, ": about %.0f s left",
                passed * (double)(shift->count - shift->done) / (double)shift->done);
}

/* Until all workers have closed their end. */
static int listen_to_all(struct shift *shift, struct err *err)
{
    char buffer[65536];
    for (;;) {
        struct pollfd wait = {.fd = shift->input, .events = POLLIN};
        poll(&wait, 1, 1000);
        if (interrupted)
            return err_add_code(err, 128 + SIGINT, "interrupted");
        if (wait.revents) {
            ssize_t length = read(shift->input, buffer, sizeof(buffer));
            if (length == 0)
                return 0;
            text_append(&shift->early, buffer, length > 0 ? length : 0);
            if (take(shift, err))
                return -1;
        }
        if (base_seconds(CLOCK_MONOTONIC) - shift->ticked >= 1) {
            shift->ticked = base_seconds(CLOCK_MONOTONIC);
            tick(shift);
        }
    }
}

/* All workers to their end, by force if the shift has @failed. */
static void gather(struct shift *shift, bool failed)
{
    for (int32_t i = 0; i < shift->workers; i++) {
        int status = 0;
        if (!shift->pid[i])
            continue;
        if (failed)
            kill(shift->pid[i], SIGKILL);
        while (waitpid(shift->pid[i], &status, 0) < 0 && errno == EINTR)
            ;
        shift->pid[i] = 0;
        int64_t lost = atomic_load(&shift->shared->doing[i]);
        if (failed || lost < 0)
            continue;
        AUTOFREE char *how = WIFSIGNALED(status)
                                 ? base_format("it was ended by signal %d (%s)", WTERMSIG(status),
                                               strsignal(WTERMSIG(status)))
                                 : base_format("it ended with exit code %d", WEXITSTATUS(status));
        lose(shift->what, lost, how);
    }
}

static int work_all(struct shift *shift, struct err *err)
{
    while (atomic_load(&shift->shared->next) < shift->count) {
        int failed = start(shift, err) || listen_to_all(shift, err);
        gather(shift, failed);
        text_release(&shift->early); /* a torn line is its worker's, which is lost */
        if (shift->input >= 0)
            close(shift->input);
        shift->input = -1;
        if (failed)
            return -1;
    }
    return 0;
}

int findings_find(const struct findings *findings, int64_t count, struct err *err)
{
    int32_t workers = findings->workers;
    if (count == 0)
        return 0;
    if (findings->backend == BACKEND_SIM) /* each has processes of its own, two at a time */
        workers = (workers + 1) / 2;
    workers = count < workers ? (int32_t)count : workers;
    size_t size = sizeof(struct shared) + (size_t)workers * sizeof(atomic_llong);
    AUTOFREE pid_t *pid = base_alloc(workers, sizeof(*pid));
    struct shift shift = {
        .what = findings,
        .count = count,
        .workers = workers,
        .input = -1,
        .pid = pid,
        .begun = base_seconds(CLOCK_MONOTONIC),
        .shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
    if (shift.shared == MAP_FAILED)
        return err_add_code(err, 71, "cannot start workers: %s", strerror(errno));
    struct sigaction before, handle = {.sa_handler = interrupt};
    interrupted = 0;
    sigaction(SIGINT, NULL, &before);
    if (before.sa_handler != SIG_IGN)
        sigaction(SIGINT, &handle, NULL);
    int failed = work_all(&shift, err);
    sigaction(SIGINT, &before, NULL);
    munmap(shift.shared, size);
    clear_line(&shift);
    return failed;
}
