#include "app/study/published_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int published_predict(struct published_answer *answer, const struct published_row *row,
                      const char *directory, const struct predict_options *options, struct err *err)
{
    struct err refusal = {0};
    char *scenario = base_format("%s/%d.yaml", directory, row->line);
    char *platform = base_format("%s/%d-platform.yaml", directory, row->line);
    int failed = 0;
    *answer = (struct published_answer){.row = row, .measured = NAN, .train = NAN};
    if (published_map(&answer->job, row, platform, &refusal))
        refuse(answer, &refusal);
    else {
        answer->measured = measured(row, &answer->job);
        failed = file_write(scenario, &answer->job.scenario, NULL, err) ||
                 (answer->job.platform.length &&
                  file_write(platform, &answer->job.platform, NULL, err)) ||
                 predict(answer, scenario, options, err);
    }
    free(scenario);
    free(platform);
    return failed ? -1 : 0;
}

void published_answer_release(struct published_answer *answer)
{
    published_job_release(&answer->job);
    free(answer->refusal);
    *answer = (struct published_answer){0};
}
