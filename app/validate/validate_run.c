#include "app/validate/validate_run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "app/measure/measure.h"
#include "app/process/child.h"
#include "app/process/launch.h"
#include "app/process/processors.h"
#include "core/base/json.h"
#include "exec/measure/timing.h"

static int read_spans(FILE *file, const char *name, struct trace *trace, struct err *err)
{
    struct err found = {0};
    if (trace_read(file, trace, &found))
        err_add_code(err, 65, "%s: not the spans of a run: %s", name, found.text);
    err_release(&found);
    fclose(file);
    return err->count ? -1 : 0;
}

int validate_read_spans(const char *path, struct trace *trace, struct err *err)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return err_add_code(err, 66, "cannot read %s: %s", path, strerror(errno));
    return read_spans(file, path, trace, err);
}

/* The words of foretrain-exec, but for --spans. */
static void add_words(struct launch *launch, const struct validate_run *run)
{
    const struct request *request = run->request;
    launch_add(launch, "train");
    launch_add(launch, "%s", request->argument.item[0]);
    for (int32_t i = 0; i < request->set.count; i++)
        launch_add(launch, "--set=%s", request->set.item[i]);
    launch_add(launch, "--steps=%d", run->steps + VALIDATE_EXTRA_STEPS);
    launch_add(launch, "--traced-steps=%d", run->steps + 1);
    launch_add(launch, "--device=%s", device_words[request->device]);
    launch_add(launch, "--timeout=%d", request->timeout);
    /* As many as the device was measured with, unless the user says otherwise. */
    int32_t threads = request->threads;
    if (!threads && request->device != DEVICE_REPLAY)
        threads = (int32_t)run->point->run.device->measured.threads;
    if (threads)
        launch_add(launch, "--threads=%d", threads);
    launch_add(launch, "--json");
    launch_add(launch, "--quiet");
}

/* @return the exit code, or -1 with a message. */
static int run_here(const struct validate_run *run, int spans, int output, struct err *err)
{
    struct launch launch = {.output = output};
    if (launch_begin(&launch, grid_ranks(run->point->grid), err))
        return -1;
    add_words(&launch, run);
    launch_add(&launch, "--spans=/proc/%d/fd/%d", getpid(), spans);
    char *line = launch_line(&launch);
    fprintf(stderr, "%s\n", line);
    int code = launch_run(&launch, err);
    free(line);
    launch_release(&launch);
    return code;
}

/* The same in the lab, whose files go with it.  mpirun warns of its own races while it starts: only
 * a failure is worth its talk. */
static int run_in_lab(const struct validate_run *run, int spans, int output,
                      struct validate_notes *notes, struct err *err)
{
    struct launch launch = {0};
    struct lab_result result = {0};
    struct text line = {0};
    char *program = child_program("foretrain-exec");
    if (!program)
        return err_add_code(err, 69, "foretrain-exec was not found; 'foretrain env' says why");
    launch_add(&launch, "%s", program);
    add_words(&launch, run);
    char *words = launch_line(&launch);
    text_add(&line, "printf '");
    measure_list_hosts(&line, run->lab, run->point);
    text_add(
        &line,
        "' >\"$TMPDIR/ranks\" && mpirun --mca rmaps seq --hostfile \"$TMPDIR/ranks\" -n %d %s "
        "--spans=\"$TMPDIR/spans\" 2>\"$TMPDIR/talk\" || "
        "{ code=$?; cat \"$TMPDIR/talk\" >&2; exit $code; }; cat \"$TMPDIR/spans\" >/dev/fd/%d",
        grid_ranks(run->point->grid), words, spans);
    char shell[] = "/bin/sh", flag[] = "-c";
    char *const command[] = {shell, flag, line.data, NULL};
    int failed = lab_run(run->lab, command, output, &result, err);
    notes->drops = result.drops;
    notes->retransmits = result.retransmits;
    text_release(&line);
    free(words);
    free(program);
    launch_release(&launch);
    return failed ? -1 : result.exit_code;
}

static void take(const struct json *json, const char *key, double *value)
{
    if (!json_as_real(json_get(json, key), value))
        *value = -1;
}

static void read_notes(int output, struct validate_notes *notes)
{
    struct text text = {0};
    struct err err = {0};
    char part[4096];
    lseek(output, 0, SEEK_SET);
    for (ssize_t got; (got = read(output, part, sizeof(part))) > 0;)
        text_append(&text, part, got);
    struct json *json =
        text.data ? json_read("foretrain-exec", text.data, text.length, &err) : NULL;
    take(json, "late_s", &notes->late_s);
    take(json, "latest_s", &notes->latest_s);
    take(json, "trace_error_s", &notes->clock_s);
    json_free(json);
    text_release(&text);
    err_release(&err);
}

static int run_exec(const struct validate_run *run, int spans, struct validate_notes *notes,
                    struct err *err)
{
    int output = memfd_create("answer", MFD_CLOEXEC);
    if (output < 0)
        return err_add_code(err, 71, "cannot start foretrain-exec: %s", strerror(errno));
    struct processors before = processors_now();
    int code =
        run->lab ? run_in_lab(run, spans, output, notes, err) : run_here(run, spans, output, err);
    struct processors after = processors_now();
    struct processors_share share = processors_between(&before, &after);
    notes->steal = share.steal;
    notes->foreign = share.foreign;
    notes->idle = share.idle;
    if (code > 0)
        err->exit_code = code;
    read_notes(output, notes);
    close(output);
    return code ? -1 : 0;
}

bool validate_was_disturbed(const struct validate_notes *notes)
{
    bool held_up = notes->foreign > TIMING_FOREIGN_LIMIT && notes->idle < TIMING_FREE_LIMIT;
    return notes->steal > TIMING_STEAL_LIMIT || held_up || notes->drops > 0;
}

/* The spans are a file in memory that children inherit, and so nothing is left of them, however
 * this process ends. */
int validate_measure(const struct validate_run *run, struct trace *trace,
                     struct validate_notes *notes, struct err *err)
{
    int spans = memfd_create("spans", 0);
    if (spans < 0)
        return err_add_code(err, 71, "cannot start foretrain-exec: %s", strerror(errno));
    if (run_exec(run, spans, notes, err)) {
        close(spans);
        return -1;
    }
    lseek(spans, 0, SEEK_SET);
    return read_spans(fdopen(spans, "r"), "foretrain-exec", trace, err);
}
