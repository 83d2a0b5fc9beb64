#include "app/import/import.h"

#include "app/predict/predict.h"
#include "app/predict/uncertainty.h"

enum { DRAWS = 240, TRIES = 40 };

/* The job, with devices of @speed unless that is 0, in closed form. */
static int predict(struct prediction *prediction, const char *job, double speed, int32_t draws,
                   struct err *err)
{
    struct predict_options options = {PREDICT_DEFAULTS, .alone = true};
    if (speed > 0)
        texts_add(&options.set, "cluster.speed=%.17g", speed);
    int failed = prediction_screen(prediction, job, &options, BACKEND_ANALYTIC, draws, err);
    texts_release(&options.set);
    return failed;
}

/* Whether the run can have been this job; @seconds is a step of it. */
static int check_run(const struct import *import, const struct prediction *p, double *seconds,
                     struct err *err)
{
    const struct import_steps *steps = &import->steps;
    const struct result *result = &p->result;
    const struct phase *last = &result->plan.phase[result->plan.phase_count - 1];
    double tokens = (double)(last->global_batch * p->job.scenario.model.tokens);
    const struct scenario *s = &p->job.scenario;
    const struct {
        const char *what;
        int64_t ran, here;
    } fact[] = {{"devices", steps->devices, result->devices},
                {"samples a step", steps->batch, last->global_batch},
                {"devices to a layer", steps->tensor, scenario_tensor(s)},
                {"stages", steps->pipeline, s->parallel.pipeline > 1 ? s->parallel.pipeline : 1}};
    for (size_t i = 0; i < ARRAY_SIZE(fact); i++)
        if (fact[i].ran && fact[i].ran != fact[i].here)
            return err_add(err, "%s: of %lld %s, but the job has %lld: give the one that ran",
                           import->file, (long long)fact[i].ran, fact[i].what,
                           (long long)fact[i].here);
    if (!(steps->seconds > 0) && !(tokens > 0))
        return err_add(err, "%s: of tokens, but the job reads none", import->file);
    *seconds = steps->seconds > 0 ? steps->seconds : tokens / result->devices / steps->tokens;
    return 0;
}

/* From *@speed, where a step takes @time: the line through the last two steps over 1 / speed, the
 * first through 0, or the middle of what is left. */
static int find_speed(const char *job, double time, double seconds, double *speed, struct err *err)
{
    double at = 1 / *speed, low = 0.1, high = 100, before = 0, then = 0;
    for (int i = 0; i < TRIES && fabs(time / seconds - 1) > 1e-4; i++) {
        AUTORELEASE(prediction) struct prediction p = {0};
        double next = at + (seconds - time) * (at - before) / (time - then);
        *(time < seconds ? &low : &high) = at;
        before = at;
        then = time;
        at = next > low && next < high ? next : sqrt(low * high);
        if (predict(&p, job, 1 / at, 0, err))
            return -1;
        time = p.result.step.time;
    }
    *speed = 1 / at;
    if (fabs(time / seconds - 1) > 1e-4)
        return err_add(err,
                       "no speed of devices from 1 %% to 1000 %% makes a step take %s, %.4g %% "
                       "makes it %s: another job, or another network?",
                       unit_text(UNIT_SECONDS, seconds), 100 * *speed,
                       unit_text(UNIT_SECONDS, time));
    return 0;
}

int import_log(struct import *import, const struct import_request *request, struct err *err)
{
    AUTORELEASE(prediction) struct prediction p = {0};
    struct import_result *result = &import->result;
    double seconds = 0;
    import->no_platform = true;
    if (!request->job)
        return err_usage(err, "--job says which job ran");
    if (import_draft(import, request, err) || predict(&p, request->job, 0, DRAWS, err) ||
        check_run(import, &p, &seconds, err))
        return -1;
    const struct range step = {p.result.step_likely.low, p.result.step.time,
                               p.result.step_likely.high};
    result->speed = p.job.scenario.cluster.speed;
    if (find_speed(request->job, step.value, seconds, &result->speed, err))
        return -1;
    result->steps = import->steps.count;
    result->speed_spread =
        fmin(1, fmax(import->steps.spread, uncertainty_tolerance(PROVENANCE_MEASURED)));
    result->work[result->works++] = (struct import_work){"step", seconds, step.value};
    text_add(&import->comparison, "step %s, ", unit_text(UNIT_SECONDS, seconds));
    text_add(&import->comparison, "predicted %s", unit_text(UNIT_SECONDS, step.value));
    text_add(&import->comparison, " (%s to ", unit_text(UNIT_SECONDS, step.low));
    text_add(&import->comparison, "%s): %.1f %% too %s\n", unit_text(UNIT_SECONDS, step.high),
             100 * fabs(step.value / seconds - 1), step.value > seconds ? "long" : "short");
    if (seconds < step.low || seconds > step.high)
        import_warn(import,
                    "outside of the 90 %% interval: did another job run, or on other devices?");
    text_add(&import->comparison,
             "equal with --set cluster.speed=%.4g --set cluster.speed_spread=%.2g\n", result->speed,
             result->speed_spread);
    return 0;
}
