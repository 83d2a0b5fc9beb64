#include "app/study/published_run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "app/predict/predict.h"
#include "app/predict/uncertainty.h"
#include "app/study/published_facts.h"
#include "core/base/file.h"

/* Until Horovod 0.21 brought one kernel for all (HOROVOD_BATCH_D2D_MEMCOPIES), each tensor was
 * copied into the fusion buffer and out again by its own launch; nothing hides the copies of the
 * last all-reduce. */
static double fusion_copies(const struct published_answer *answer, const struct prediction *p,
                            int32_t groups)
{
    bool one_by_one = published_round(answer->row->round) < 1.0 && answer->job.devices > 1;
    return one_by_one ? 2.0 * p->job.model->tensor_count / groups *
                            platform_device(p->job.platform)->kernel_overhead.value
                      : 0;
}

static void conclude(struct published_answer *answer, const struct prediction *prediction)
{
    const struct task *last = prediction_last(prediction);
    const struct result *result = &prediction->result;
    double extra = fusion_copies(answer, prediction, answer->job.groups);
    snprintf(answer->backend, sizeof(answer->backend), "%s", result->backend);
    snprintf(answer->grain, sizeof(answer->grain), "%s", result->grain);
    answer->step = result->step.time;
    answer->predicted =
        result->step.time + extra * noise_expected_slowest(&last->noise, answer->job.devices);
    answer->exposed = result->step.exposed_communication;
    answer->startup = result->startup_s;
    answer->evaluation = result->evaluation_s;
    if (answer->row->epochs > 0)
        answer->train = answer->row->epochs * answer->job.steps_per_epoch * answer->predicted +
                        result->evaluation_s + result->startup_s;
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
    answer->refusal = base_copy(err_reason(refusal));
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

/* ---- the interval ---- */

/* The draws of a row, each in one way to fill what the row leaves open. */
struct draws {
    struct uncertainty uncertainty;
    struct factors *factors; /* (uncertainty.draws) */
    double *step;            /* (uncertainty.draws) [s] */
    double ratio; /* the back end's step over that of the closed form, in the first way */
};

/* Those draws that fall to @way, whatever else is drawn in them. */
static void draw_way(struct draws *draws, const struct published_answer *answer, int32_t way,
                     int32_t groups, const struct prediction *p, double ratio)
{
    enum { SEED = 1, WAYS = 5 /* a stream of random numbers of their own */ };
    int32_t count = 0, all = draws->uncertainty.draws;
    AUTOFREE int32_t *own = base_alloc(all, sizeof(*own));
    AUTOFREE struct factors *factors = base_alloc(all, sizeof(*factors));
    AUTOFREE double *step = base_alloc(all, sizeof(*step));
    for (int32_t k = 0; k < all; k++)
        if ((int32_t)(base_uniform(SEED, (uint64_t)k, WAYS, 0) * answer->job.ways) == way) {
            factors[count] = draws->factors[k];
            own[count++] = k;
        }
    uncertainty_steps(prediction_last(p), fusion_copies(answer, p, groups), factors, count, step);
    for (int32_t i = 0; i < count; i++)
        draws->step[own[i]] = ratio * step[i];
}

/* The row in one way, in closed form. */
static int draw_other(struct draws *draws, const struct published_answer *answer, int32_t way,
                      const struct predict_options *options, struct err *err)
{
    struct published_job job;
    struct prediction p = {0};
    struct row_file scenario = open_file(NULL, 0, "", err), platform = open_file(NULL, 0, "", err);
    int failed = err->count > 0 || published_map(&job, answer->row, way, platform.path, err);
    if (!failed) {
        failed = file_write(scenario.path, &job.scenario, NULL, err) ||
                 (job.platform.length && file_write(platform.path, &job.platform, NULL, err)) ||
                 prediction_open(&p, scenario.path, options, &draw_centre, err) ||
                 prediction_run(&p, BACKEND_ANALYTIC, options, err);
        if (!failed && way == 0)
            draws->ratio = answer->step / prediction_last(&p)->step;
        else if (!failed)
            draw_way(draws, answer, way, job.groups, &p, draws->ratio);
        published_job_release(&job);
    }
    prediction_release(&p);
    close_file(&scenario);
    close_file(&platform);
    return failed ? -1 : 0;
}

/* Of the row that @first predicts in the first way. */
static int find_interval(struct published_answer *answer, const struct prediction *first,
                         const struct predict_options *options, struct err *err)
{
    int failed = 0;
    struct draws draws = {.uncertainty = uncertainty_of(&first->job), .ratio = 1};
    draws.factors = uncertainty_factors(&draws.uncertainty);
    draws.step = base_alloc(draws.uncertainty.draws, sizeof(*draws.step));
    draw_way(&draws, answer, 0, answer->job.groups, first, 1);
    for (int32_t way = 0; way < answer->job.ways && answer->job.ways > 1 && !failed; way++)
        failed = draw_other(&draws, answer, way, options, err);
    answer->likely = uncertainty_interval(draws.step, draws.uncertainty.draws);
    free(draws.factors);
    free(draws.step);
    return failed;
}

static int predict(struct published_answer *answer, const char *path,
                   const struct predict_options *options, struct err *err)
{
    struct predict_options single = *options;
    single.grain = GRAIN_SMOOTHED;
    AUTORELEASE(prediction) struct prediction prediction = {0};
    if (prediction_make(&prediction, path, &single, err))
        return -1;
    conclude(answer, &prediction);
    return find_interval(answer, &prediction, &single, err);
}

int published_predict(struct published_answer *answer, const struct published_row *row,
                      const char *directory, const struct predict_options *options, struct err *err)
{
    struct err refusal = {0};
    struct row_file scenario = open_file(directory, row->line, "", err);
    struct row_file platform = open_file(directory, row->line, "-platform", err);
    int failed = err->count > 0;
    *answer = (struct published_answer){.row = row, .measured = NAN, .train = NAN};
    if (!failed && published_map(&answer->job, row, 0, platform.path, &refusal)) {
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
