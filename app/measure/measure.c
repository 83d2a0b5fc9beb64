#include "app/measure/measure.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/process/child.h"
#include "core/base/json.h"

/* --- starting --- */

void measure_list_hosts(struct text *out, const struct network *lab, const struct point *point)
{
    for (int32_t rank = 0; rank < grid_ranks(point->grid); rank++) {
        char name[LAB_NAME_LIMIT];
        int32_t place = grid_place(point->grid, point->order, rank);
        int32_t node = place / point->devices_per_node, device = place % point->devices_per_node;
        lab_host_name(lab, node * lab->nics + lab->nic_of[device], name);
        text_add(out, "%s\\n", name);
    }
}

/* A shell line that starts the ranks; the caller frees it.  NULL with a message. */
static char *command_line(const struct request *request, const struct point *point,
                          const struct network *lab, const struct sizes *sizes, struct err *err)
{
    struct text line = {0};
    char *program = child_program("foretrain-exec");
    if (!program) {
        err_add_code(err, 69, "foretrain-exec was not found; 'foretrain env' says why");
        return NULL;
    }
    if (lab) {
        text_add(&line, "printf '");
        measure_list_hosts(&line, lab, point);
        text_add(&line, "' >\"$TMPDIR/ranks\" && mpirun --mca rmaps seq --hostfile "
                        "\"$TMPDIR/ranks\"");
    } else {
        text_add(&line, "exec mpirun --oversubscribe --bind-to none");
    }
    text_add(&line,
             " -n %d '%s' collective --grid %dx%d --algorithm %s --group %d --repeats %d"
             " --gradients %s",
             grid_ranks(point->grid), program, point->grid.columns, point->grid.rows,
             algorithm_names[request->algorithm], point->devices_per_node, request->repeats,
             dtype_names[request->gradients]);
    if (request->pairs)
        text_add(&line, " --pairs");
    for (int32_t i = 0; i < sizes->count; i++)
        text_add(&line, "%s%lldB", i ? "," : " --bytes ", (long long)sizes->item[i]);
    if (lab) /* mpirun warns of its own races while it starts: only a failure is worth its talk */
        text_add(&line,
                 " 2>\"$TMPDIR/talk\" || { code=$?; cat \"$TMPDIR/talk\" >&2; exit $code; }");
    free(program);
    return line.data;
}

/* @return the exit code, or -1. */
static int run_here(char *const *command, int output, struct err *err)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
        setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
        dup2(output, STDOUT_FILENO);
        execv(command[0], command);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid < 0)
        return err_add_code(err, 69, "cannot start mpirun: %s", strerror(errno));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* @return 0 with what foretrain-exec printed in @output, or -1. */
static int run(char *line, const struct network *lab, int output, struct lab_result *result,
               struct err *err)
{
    char shell[] = "/bin/sh", flag[] = "-c";
    char *const command[] = {shell, flag, line, NULL};
    int failed = 0;
    if (lab)
        failed = lab_run(lab, command, output, result, err);
    else
        result->exit_code = run_here(command, output, err);
    if (failed || result->exit_code < 0)
        return -1;
    if (result->exit_code == 127)
        return err_add_code(err, 69, "mpirun (package openmpi-bin) was not found");
    if (result->exit_code)
        return err_add_code(
            err, result->exit_code >= 64 && result->exit_code < 79 ? result->exit_code : 70,
            "foretrain-exec failed with exit code %d; by hand: %s", result->exit_code, line);
    return 0;
}

/* --- reading --- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double measure_quantile(const double *value, int32_t count, double share)
{
    double at = share * (count - 1);
    int32_t below = (int32_t)at;
    if (below + 1 >= count)
        return value[count - 1];
    return value[below] + (at - below) * (value[below + 1] - value[below]);
}

/* One run as foretrain-exec tells it. */
struct told {
    double time_s, steal, foreign;
    int64_t retransmits;
    bool disturbed;
};

static bool read_run(const struct json *json, struct told *told)
{
    int64_t disturbed = 0;
    if (!json_as_real(json_get(json, "time_s"), &told->time_s) ||
        !json_as_real(json_get(json, "steal"), &told->steal) ||
        !json_as_real(json_get(json, "foreign"), &told->foreign) ||
        !json_as_integer(json_get(json, "retransmits"), &told->retransmits) ||
        !json_as_integer(json_get(json, "disturbed"), &disturbed))
        return false;
    told->disturbed = disturbed != 0;
    return true;
}

static void find_reason(struct measured *measured, int32_t wanted)
{
    size_t room = sizeof(measured->reason);
    if (measured->clean < wanted)
        snprintf(measured->reason, room,
                 "%d of %d runs disturbed: other processes had %.0f %% of the processors, the "
                 "host %.0f %%",
                 measured->runs - measured->clean, measured->runs, 100.0 * measured->foreign,
                 100.0 * measured->steal);
    else if (measured->spread > MEASURE_SPREAD_LIMIT)
        snprintf(measured->reason, room, "quartiles %.0f %% apart", 100.0 * measured->spread);
    else if (measured->drops > 0)
        snprintf(measured->reason, room, "%lld packets dropped", (long long)measured->drops);
    measured->disturbed = measured->reason[0] != '\0';
}

static void sum_up(const struct told *told, int32_t wanted, struct measured *measured)
{
    double *time = base_alloc(measured->runs, sizeof(*time));
    int32_t count = 0;
    for (int32_t i = 0; i < measured->runs; i++) {
        measured->clean += !told[i].disturbed;
        measured->steal += told[i].steal / measured->runs;
        measured->foreign += told[i].foreign / measured->runs;
        measured->retransmits += told[i].retransmits;
    }
    for (int32_t i = 0; i < measured->runs; i++)
        if (!told[i].disturbed || measured->clean < wanted)
            time[count++] = told[i].time_s;
    qsort(time, (size_t)count, sizeof(*time), compare);
    measured->minimum_s = time[0];
    measured->maximum_s = time[count - 1];
    measured->time_s = measure_quantile(time, count, 0.25);
    measured->median_s = measure_quantile(time, count, 0.5);
    measured->spread =
        (measure_quantile(time, count, 0.75) - measured->time_s) / measured->median_s;
    free(time);
}

static bool read_size(const struct json *json, int64_t bytes, int32_t wanted, int64_t drops,
                      struct measured *measured)
{
    const struct json *samples = json_get(json, "samples");
    int64_t count = json_count_items(samples), told_bytes;
    if (count < 1 || count > INT32_MAX || !json_as_integer(json_get(json, "bytes"), &told_bytes) ||
        told_bytes != bytes)
        return false;
    struct told *told = base_alloc(count, sizeof(*told));
    bool good = true;
    for (int64_t i = 0; i < count && good; i++)
        good = read_run(json_item(samples, i), &told[i]);
    *measured = (struct measured){.runs = (int32_t)count, .drops = drops};
    if (good) {
        sum_up(told, wanted, measured);
        find_reason(measured, wanted);
    }
    free(told);
    return good;
}

static int read_answer(int output, const struct sizes *sizes, int32_t wanted, int64_t drops,
                       struct measured *measured, struct err *err)
{
    struct text text = {0};
    char part[4096];
    lseek(output, 0, SEEK_SET);
    for (ssize_t got; (got = read(output, part, sizeof(part))) > 0;)
        text_append(&text, part, got);
    struct json *json = text.data ? json_read("foretrain-exec", text.data, text.length, err) : NULL;
    const struct json *list = json_get(json, "sizes");
    bool good = json && json_count_items(list) == sizes->count;
    for (int32_t i = 0; i < sizes->count && good; i++)
        good = read_size(json_item(list, i), sizes->item[i], wanted, drops, &measured[i]);
    json_free(json);
    text_release(&text);
    if (!good && !err->count)
        err_add_code(err, 70, "foretrain-exec did not answer with its measurements");
    return good ? 0 : -1;
}

int measure_collective(const struct request *request, const struct point *point,
                       const struct network *lab, const struct sizes *sizes,
                       struct measured *measured, struct err *err)
{
    struct lab_result result = {0};
    char *line = command_line(request, point, lab, sizes, err);
    int output = line ? memfd_create("answer", 0) : -1;
    int failed = -1;
    if (line && output < 0)
        err_add_code(err, 69, "cannot start foretrain-exec: %s", strerror(errno));
    else if (line)
        failed = run(line, lab, output, &result, err) ||
                 read_answer(output, sizes, request->repeats, result.drops, measured, err);
    if (output >= 0)
        close(output);
    free(line);
    return failed ? -1 : 0;
}
