#include "app/study/published_run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "app/predict/prediction.h"
#include "app/predict/uncertainty.h"
#include "app/study/published_facts.h"
#include "core/base/file.h"

/* Until Horovod 0.21 brought one kernel for all (HOROVOD_BATCH_D2D_MEMCOPIES), each tensor was
 * copied into the fusion buffer and out again by its own launch; nothing hides the copies of the
 * last all-reduce. */
static double fusion_copies(const struct published_answer *answer, const struct prediction *p)
{
    bool one_by_one = published_round(answer->row->round) < 1.0 && answer->job.devices > 1;
    return one_by_one ? 2.0 * p->job.model->tensor_count / answer->job.groups *
                            platform_device(p->job.platform)->kernel_overhead.value
                      : 0;
}

static void conclude(struct published_answer *answer, const struct prediction *prediction)
{
    const struct task *last = prediction_last(prediction);
    const struct result *result = &prediction->result;
    double extra = fusion_copies(answer, prediction);
    struct uncertainty u = uncertainty_of(&prediction->job);
    double *step = uncertainty_draw(last, 1, extra, &u);
    snprintf(answer->backend, sizeof(answer->backend), "%s", result->backend);
    snprintf(answer->grain, sizeof(answer->grain), "%s", result->grain);
    answer->predicted =
        result->step.time + extra * noise_expected_slowest(&last->noise, answer->job.devices);
    answer->likely = uncertainty_interval(step, u.draws);
    free(step);
    answer->exposed = result->step.exposed_communication;
    answer->startup = result->startup_s;
    answer->evaluation = result->evaluation_s;
    if (answer->row->epochs > 0)
        answer->train = answer->row->epochs * answer->job.steps_per_epoch * answer->predicted +
                        result->evaluation_s + result->startup_s;
}

static int predict(struct published_answer *answer, const char *path,
                   const struct predict_options *options, struct err *err)
{
    struct predict_options single = *options;
    single.grain = GRAIN_SMOOTHED;
    struct prediction prediction = {0};
    int failed = prediction_make(&prediction, path, &single, err);
    if (!failed)
        conclude(answer, &prediction);
    prediction_release(&prediction);
    return failed;
}

/* Seconds of a step: from the row, else from its images per second, over all steps of an epoch;
 * NAN: it has neither. */
static double measured(const struct published_row *row, const struct published_job *job)
{
    double rate = isnan(row->rate) ? row->device_rate * job->devices : row->rate;
    double of_rate = rate > 0 ? PUBLISHED_EPOCH / rate / job->steps_per_epoch : NAN;
    return isnan(row->step_ms) ? of_rate : 1e-3 * row->step_ms;
}

/* Keeps the first line. */
static void refuse(struct published_answer *answer, struct err *refusal)
{
    answer->refusal = base_format("%.*s", (int)strcspn(refusal->text, "\n"), refusal->text);
    err_release(refusal);
}

/* A file of one row: kept in @directory, or in memory, which ends with the process. */
struct row_file {
    char *path;
    int memory; /* -1: it is kept */
};

static struct row_file open_file(const char *directory, int32_t line, const char *ending,
                                 struct err *err)
{
    if (directory)
        return (struct row_file){base_format("%s/%d%s.yaml", directory, line, ending), -1};
    int memory = memfd_create("published", MFD_CLOEXEC);
    if (memory < 0)
        err_add_code(err, 71, "cannot make a file in memory: %s", strerror(errno));
    return (struct row_file){base_format("/proc/%d/fd/%d", (int)getpid(), memory), memory};
}

static void close_file(struct row_file *file)
{
    if (file->memory >= 0)
        close(file->memory);
    free(file->path);
}

int published_predict(struct published_answer *answer, const struct published_row *row,
                      const char *directory, const struct predict_options *options, struct err *err)
{
    struct err refusal = {0};
    struct row_file scenario = open_file(directory, row->line, "", err);
    struct row_file platform = open_file(directory, row->line, "-platform", err);
    int failed = err->count > 0;
    *answer = (struct published_answer){.row = row, .measured = NAN, .train = NAN};
    if (!failed && published_map(&answer->job, row, platform.path, &refusal)) {
        refuse(answer, &refusal);
    } else if (!failed) {
        answer->measured = measured(row, &answer->job);
        failed = file_write(scenario.path, &answer->job.scenario, NULL, err) ||
                 (answer->job.platform.length &&
                  file_write(platform.path, &answer->job.platform, NULL, err)) ||
                 predict(answer, scenario.path, options, err);
    }
    close_file(&scenario);
    close_file(&platform);
    return failed ? -1 : 0;
}

void published_answer_release(struct published_answer *answer)
{
    published_job_release(&answer->job);
    free(answer->refusal);
    *answer = (struct published_answer){0};
}
