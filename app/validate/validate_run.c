#include "app/validate/validate_run.h"

#include "app/measure/measure.h"
#include "app/process/launch.h"
#include "app/process/processors.h"
#include "core/base/claim.h"
#include "exec/measure/timing.h"

int validate_read_spans(const char *path, struct trace *trace, struct err *err)
{
    FILE *file = claim_input(path, err) ? NULL : fopen(path, "r");
    if (err->count)
        return -1;
    if (!file)
        return err_add_code(err, 66, "cannot read %s: %s", path, strerror(errno));
    int failed = trace_read(file, path, trace, err);
    fclose(file);
    return failed;
}

/* The words of foretrain-exec, but for --spans. */
static void add_words(struct launch *launch, const struct validate_run *run)
{
    const struct validate_request *request = run->request;
    texts_add(&launch->words, "train");
    texts_add(&launch->words, "%s", request->head.argument.item[0]);
    for (int32_t i = 0; i < request->predict.set.count; i++)
        texts_add(&launch->words, "--set=%s", request->predict.set.item[i]);
    texts_add(&launch->words, "--steps=%d", run->steps + VALIDATE_EXTRA_STEPS);
    texts_add(&launch->words, "--traced-steps=%d", run->steps + 1);
    texts_add(&launch->words, "--device=%s", device_words[request->compute.device]);
    texts_add(&launch->words, "--timeout=%d", request->timeout);
    /* The number with which the device was measured, unless the user gives one. */
    int32_t threads = request->compute.threads;
    if (!threads && request->compute.device != DEVICE_REPLAY)
        threads = (int32_t)run->point->run.device->measured.threads;
    if (threads)
        texts_add(&launch->words, "--threads=%d", threads);
    texts_add(&launch->words, "--json");
    texts_add(&launch->words, "--quiet");
}

static void take(const struct json *json, const char *key, double *value)
{
    if (!json_as_real(json_get(json, key), value))
        *value = -1;
}

static void read_notes(const struct launch *launch, struct validate_notes *notes)
{
    AUTORELEASE(err) struct err err = {0};
    AUTORELEASE(json) struct json *json = launch_read_json(launch, &err);
    take(json, "late_s", &notes->late_s);
    take(json, "latest_s", &notes->latest_s);
    take(json, "trace_error_s", &notes->clock_s);
}

static int run_exec(const struct validate_run *run, int spans, struct validate_notes *notes,
                    struct err *err)
{
    AUTOFREE char *hosts = NULL;
    if (measure_hosts(run->point, &hosts, err))
        return -1;
    AUTORELEASE(launch) struct launch launch = {.hosts = hosts};
    if (launch_keep(&launch, false, err) ||
        launch_begin(&launch, grid_ranks(run->point->grid), err))
        return -1;
    add_words(&launch, run);
    texts_add(&launch.words, "--spans=/proc/%d/fd/%d", getpid(), spans);
    AUTOFREE char *line = run->quiet ? NULL : launch_line(&launch);
    if (line)
        fprintf(stderr, "%s\n", line);
    struct processors before = processors_now();
    int code = launch_run(&launch, err);
    struct processors after = processors_now();
    struct processors_share share = processors_between(&before, &after);
    notes->steal = share.steal;
    notes->foreign = share.foreign;
    notes->idle = share.idle;
    read_notes(&launch, notes);
    return code > 0 ? err_exit(err, code) : code;
}

bool validate_was_disturbed(const struct validate_notes *notes)
{
    bool held_up = notes->foreign > TIMING_FOREIGN_LIMIT && notes->idle < TIMING_FREE_LIMIT;
    return notes->steal > TIMING_STEAL_LIMIT || held_up;
}

/* The spans are a file in memory that rank 0 finds in /proc, so nothing is left of them after this
 * process ends in any way. */
int validate_measure(const struct validate_run *run, struct trace *trace,
                     struct validate_notes *notes, struct err *err)
{
    int spans = launch_file(err);
    FILE *file = spans < 0 ? NULL : fdopen(spans, "r");
    if (spans >= 0 && !file)
        err_add_code(err, 71, "cannot read spans: %s", strerror(errno));
    int failed =
        !file || run_exec(run, spans, notes, err) || trace_read(file, "foretrain-exec", trace, err);
    if (file)
        fclose(file);
    else if (spans >= 0)
        close(spans);
    return failed ? -1 : 0;
}
