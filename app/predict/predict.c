#include "app/predict/predict.h"

#include <math.h>
#include <string.h>

#include "app/predict/assumption.h"
#include "app/predict/failing.h"
#include "app/predict/likely.h"
#include "app/predict/uncertainty.h"
#include "core/backend/floor.h"
#include "core/report/exchanges.h"

enum { WAIT_PERCENT = 10 /* from here on the sentence says what a step waits for */ };

static double images_per_s(const struct task *task)
{
    return (double)grid_ranks(task->point.grid) * (double)task->point.batch / task->step;
}

/* Whether most of the wait on @axis is for collectives whose latencies take longer than their bytes
 * over any link. */
static bool waits_for_latency(const struct task *task, enum axis axis)
{
    const struct schedule *schedule = task->point.schedule;
    AUTORELEASE(exchanges) struct report_exchanges list = exchanges_of(schedule, task->quiet);
    double all = 0, latency = 0;
    for (int32_t i = 0; i < list.count; i++) {
        int32_t id = (int32_t)(list.exchange[i].step - schedule->step);
        if (list.exchange[i].exposed <= 0 || schedule->step[id].collective.axis != axis)
            continue;
        double seconds = floor_latency(&task->point.run, schedule, id);
        all += list.exchange[i].exposed;
        if (seconds >= floor_collective(task->point.fabric, schedule, id).seconds)
            latency += list.exchange[i].exposed;
    }
    return 2 * latency > all;
}

/* What a collective of the last phase waits for, in words. */
static char *describe_wait(const struct prediction *prediction)
{
    const struct task *last = prediction_last(prediction);
    const struct breakdown *step = &prediction->result.step;
    bool torus = prediction->job.scenario.allreduce.algorithm == ALGORITHM_TORUS2D;
    bool column = step->exposed_column > step->exposed_row;
    enum axis axis = !torus ? AXIS_WORLD : column ? AXIS_COLUMN : AXIS_ROW;
    int32_t tier = report_bottleneck(last->point.fabric, last->point.schedule, axis);
    const char *which = !torus ? "all-reduce" : column ? "column all-reduce" : "row exchange";
    if (tier < 0)
        return base_format("the %s", which);
    if (waits_for_latency(last, axis))
        return base_format("the latency of the %s", which);
    return base_format("the %s on the %s", which, last->point.fabric->tier_name[tier]);
}

/* Whether a step lasts as long as its images take: then nothing else would shorten it. */
static bool input_decides(const struct task *last, const struct breakdown *step)
{
    double seconds = 0;
    for (int32_t id = 0; id < last->point.schedule->step_count; id++)
        if (last->point.schedule->step[id].kind == STEP_INPUT)
            seconds += run_local_seconds(&last->point.run, &last->point.schedule->step[id]);
    return seconds > 0.999 * step->time;
}

/* What a step spends most time on decides, and is named with what it waits for. */
static void find_bound(struct prediction *prediction)
{
    struct result *result = &prediction->result;
    const struct breakdown *step = &result->step;
    AUTOFREE char *link = describe_wait(prediction);
    const struct {
        const char *name, *what;
        double percent;
    } wait[] = {
        {"communication", link, 100 * step->exposed_communication / step->time},
        {"input", result->images_unit == UNIT_IMAGES_PER_SECOND ? "images" : "samples",
         100 * step->input_wait / step->time},
        {"slow devices", "the slowest device", 100 * step->slower / step->time},
    };
    double busy = 100 * (step->compute + step->slowed + step->other) / step->time;
    int most = 0;
    for (int i = 1; i < 3; i++)
        most = wait[most].percent < wait[i].percent ? i : most;
    bool starved =
        wait[1].percent >= WAIT_PERCENT && input_decides(prediction_last(prediction), step);
    most = starved ? 1 : most;
    bool bound = starved || wait[most].percent > busy;
    result->bound_by = base_copy(bound ? wait[most].name : "compute");
    if (wait[most].percent < WAIT_PERCENT)
        result->sentence = base_format("compute-bound: %.0f %% of each step waits for "
                                       "communication, %.0f %% for input",
                                       wait[0].percent, wait[1].percent);
    else
        result->sentence = base_format("%s: %.0f %% of each step waits for %s",
                                       !bound      ? "mostly compute"
                                       : most == 0 ? "communication-bound"
                                       : most == 1 ? "input-bound"
                                                   : "bound by slow devices",
                                       wait[most].percent, wait[most].what);
}

static bool any_grain(const struct prediction *prediction, const char *grain)
{
    for (int32_t i = 0; i < prediction->task_count; i++)
        if (!strncmp(prediction->task[i].quiet->grain, grain, strlen(grain)))
            return true;
    return false;
}

static void list_warnings(struct prediction *prediction)
{
    struct result *result = &prediction->result;
    const struct task *last = prediction_last(prediction);
    if (uncertainty_is_unknown(platform_device(prediction->job.platform)))
        result_add(&result->warning, &result->warning_count,
                   base_copy("device ideal: nothing of compute is known; no interval"));
    if (any_grain(prediction, "coarse"))
        result_add(&result->warning, &result->warning_count,
                   base_copy("the coarse grain was used: up to 20 % optimistic where collectives "
                             "share links"));
    if (any_grain(prediction, "smoothed"))
        result_add(&result->assumption, &result->assumption_count,
                   base_copy("smoothed grain: links that cannot be filled left out, small "
                             "differences in latency rounded up; --grain folded is exact"));
    if (last->drawn)
        result_add(&result->warning, &result->warning_count,
                   base_format("one draw of the noise, with seed %llu, not what is expected",
                               (unsigned long long)last->noise.seed));
}

static struct scaling scale(const struct prediction *prediction, int32_t baseline)
{
    const struct task *task = &prediction->task[baseline], *last = prediction_last(prediction);
    double batches = (double)last->point.batch / (double)task->point.batch;
    return (struct scaling){.efficiency = batches * task->step / last->step,
                            .likely = {NAN, NAN},
                            .devices = grid_ranks(task->point.grid),
                            .batch = task->point.batch,
                            .images_per_s = images_per_s(task)};
}

static void compare(struct prediction *prediction)
{
    struct result *result = &prediction->result;
    int32_t baseline = baseline_of(prediction);
    result->weak = scale(prediction, baseline);
    if (baseline + 1 < prediction->task_count)
        result->strong = scale(prediction, baseline + 1);
    result->step_likely = result->images_likely = result->train_likely =
        (struct interval){NAN, NAN};
    result->to_target = (struct to_target){NAN, {NAN, NAN}, NAN};
}

static void conclude(struct prediction *prediction)
{
    struct result *result = &prediction->result;
    const struct task *last = prediction_last(prediction);
    result->scenario = &prediction->job.scenario;
    result->platform = base_copy(platform_name(prediction->job.platform));
    memcpy(result->sha256, result->scenario->sha256, sizeof(result->sha256));
    result->schedule_hash = schedule_hash(last->point.schedule);
    result->platform_hash = platform_hash(prediction->job.platform);
    memcpy(result->backend, task_trace(last)->backend, sizeof(result->backend));
    memcpy(result->grain, task_trace(last)->grain, sizeof(result->grain));
    if (grid_matters(prediction->job.resolved.algorithm, prediction->job.resolved.order,
                     prediction->job.platform))
        result->grid = last->point.grid;
    result->nodes = last->point.nodes;
    result->devices = grid_ranks(last->point.grid);
    result->step = task_breakdown(last);
    result->images_per_s = images_per_s(last);
    compare(prediction);
    find_bound(prediction);
    assumption_list(prediction);
    list_warnings(prediction);
}

int prediction_make(struct prediction *prediction, const char *path,
                    const struct predict_options *options, struct err *err)
{
    struct result *result = &prediction->result;
    if (prediction_open(prediction, path, options, &draw_centre, err))
        return -1;
    char *warning;
    enum backend_choice backend = task_backend(options, &warning);
    if (warning)
        result_add(&result->warning, &result->warning_count, warning);
    double before = prediction_children_seconds();
    if (prediction_run(prediction, backend, options, err) || failing_find(prediction, err))
        return -1;
    conclude(prediction);
    if (likely_find(prediction, options, 0, backend, prediction_children_seconds() - before, err))
        return -1;
    return result_check(result, err);
}

int prediction_screen(struct prediction *prediction, const char *path,
                      const struct predict_options *options, enum backend_choice backend,
                      int32_t draws, struct err *err)
{
    if (prediction_open(prediction, path, options, &draw_centre, err) ||
        prediction_run(prediction, backend, options, err) || failing_find(prediction, err))
        return -1;
    struct result *result = &prediction->result;
    const struct task *last = prediction_last(prediction);
    result->step = task_breakdown(last);
    result->nodes = last->point.nodes;
    result->devices = grid_ranks(last->point.grid);
    result->images_per_s = images_per_s(last);
    compare(prediction);
    return likely_find(prediction, options, draws, BACKEND_ANALYTIC, 0, err) ||
                   result_check(result, err)
               ? -1
               : 0;
}
