#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "app/predict/explain.h"
#include "app/predict/likely.h"
#include "app/predict/uncertainty.h"

enum { RUN = EXPLAIN_RUN, BASELINE = EXPLAIN_BASELINE, PAIR_COUNT };

/* The share that the explanation says, as the closed form moves it. */
static double share_of(double centre, double before, double after)
{
    return fmin(fmax(centre + after - before, 0), 1);
}

static struct wait_share shares_of(struct wait_share centre, struct wait_share before,
                                   struct wait_share after)
{
    struct wait_share share = {
        .slowed = share_of(centre.slowed, before.slowed, after.slowed),
        .launch = share_of(centre.launch, before.launch, after.launch),
        .latency = share_of(centre.latency, before.latency, after.latency),
    };
    share.launch = fmin(share.launch, 1 - share.slowed);
    share.latency = fmin(share.latency, 1 - share.slowed - share.launch);
    return share;
}

/* Append to @e what draw @number of run @own spends; @before: its centre in closed form. */
static void take(struct explanation *e, const struct explanation *own,
                 const struct spending before[PAIR_COUNT],
                 const struct spending *const drawn[PAIR_COUNT], int32_t number)
{
    struct explained_draw *draw = &e->draw[e->draws++];
    struct split split[PAIR_COUNT];
    const struct breakdown *run = &drawn[RUN]->step, *baseline = &drawn[BASELINE]->step;
    double images = (double)own->task[RUN].point.batch / (double)own->task[BASELINE].point.batch;
    double said = images * own->task[BASELINE].step / own->task[RUN].step;
    for (int i = 0; i < PAIR_COUNT; i++)
        split[i] = (struct split){shares_of(e->split[i].row, before[i].row, drawn[i]->row),
                                  shares_of(e->split[i].column, before[i].column, drawn[i]->column),
                                  drawn[i]->left_out};
    draw->number = number;
    draw->batch = (double)own->task[RUN].point.batch;
    draw->efficiency = fmin(images * baseline->time / run->time, fmax(1, said));
    explanation_causes(own, run, baseline, split, draw->cause);
    double sum = 0;
    for (int i = 0; i < CAUSE_COUNT; i++)
        sum += draw->cause[i].seconds;
    assert(fabs(sum - (run->time - images * baseline->time)) <= 1e-9 * run->time);
}

static void draw_known(struct explanation *e, const struct spending before[PAIR_COUNT])
{
    struct uncertainty u = uncertainty_of(&e->job);
    AUTOFREE struct factors *factors = uncertainty_factors(&u);
    struct spending *drawn[PAIR_COUNT];
    e->draw = base_alloc(u.draws, sizeof(*e->draw));
    for (int i = 0; i < PAIR_COUNT; i++) {
        drawn[i] = base_alloc(u.draws, sizeof(*drawn[i]));
        uncertainty_spending(&e->task[i], factors, u.draws, drawn[i]);
    }
    for (int32_t k = 0; k < u.draws; k++)
        take(e, e, before, (const struct spending *const[]){&drawn[RUN][k], &drawn[BASELINE][k]},
             k);
    for (int i = 0; i < PAIR_COUNT; i++)
        free(drawn[i]);
}

/* ---- unknown inputs ---- */

static void scale(struct spending *spending, double ratio)
{
    struct breakdown *step = &spending->step;
    spending->left_out *= ratio;
    step->time *= ratio;
    step->compute *= ratio;
    step->slowed *= ratio;
    step->slower *= ratio;
    step->exposed_communication *= ratio;
    step->exposed_row *= ratio;
    step->exposed_column *= ratio;
    step->input_wait *= ratio;
    step->other *= ratio;
}

/* The job of @e with its unknown inputs as in @draw, in closed form, into zeroed @own. */
static int run_other(const struct explanation *e, const struct predict_options *options,
                     const struct draw *draw, struct explanation *own, struct err *err)
{
    struct wish wish = request_wish(options);
    own->phase = e->phase;
    return job_open(&own->job, e->job.scenario.path, options->set.item, options->set.count, draw,
                    &wish, err) ||
           explanation_build(own, options, err) ||
           task_run_all(own->task, PAIR_COUNT, BACKEND_ANALYTIC, options, err);
}

/* One draw that is a job of its own; those that are none are left out. */
static void draw_other(struct explanation *e, const struct predict_options *options,
                       const struct draw *draw, int32_t number, const double ratio[PAIR_COUNT],
                       const struct spending before[PAIR_COUNT])
{
    AUTORELEASE(err) struct err why = {0};
    AUTORELEASE(explanation) struct explanation own = {0};
    if (!run_other(e, options, draw, &own, &why)) {
        struct uncertainty u = uncertainty_of(&own.job);
        AUTOFREE struct factors *factors = uncertainty_factors(&u);
        struct spending drawn[PAIR_COUNT];
        for (int i = 0; i < PAIR_COUNT; i++) {
            uncertainty_spending(&own.task[i], &factors[number], 1, &drawn[i]);
            scale(&drawn[i], ratio[i]);
        }
        take(e, &own, before, (const struct spending *const[]){&drawn[RUN], &drawn[BASELINE]},
             number);
    }
}

/* As in a prediction: steps are longer by as much as those of the centre are in the back end. */
static int draw_unknown(struct explanation *e, const struct predict_options *options,
                        const struct unknowns *all, const struct spending before[PAIR_COUNT],
                        struct err *err)
{
    struct explanation closed = {0};
    double ratio[PAIR_COUNT];
    int failed = run_other(e, options, &draw_centre, &closed, err);
    for (int i = 0; i < PAIR_COUNT && !failed; i++)
        ratio[i] = e->task[i].step / closed.task[i].step;
    explanation_release(&closed);
    if (failed)
        return -1;
    int32_t inputs = (int32_t)e->job.unknowns.count;
    AUTOFREE double *quantile = likely_quantiles(&e->job.unknowns, all, LIKELY_UNKNOWN_DRAWS);
    e->draw = base_alloc(LIKELY_UNKNOWN_DRAWS, sizeof(*e->draw));
    for (int32_t k = 0; k < LIKELY_UNKNOWN_DRAWS; k++) {
        struct draw draw = {quantile + (int64_t)k * inputs, inputs};
        draw_other(e, options, &draw, k, ratio, before);
    }
    if (e->draws >= 20)
        return 0;
    return err_add_code(err, 65,
                        "%s: of %d draws of the unknown inputs only %d make a job; foretrain "
                        "predict says why",
                        scenario_name(&e->job.scenario), LIKELY_UNKNOWN_DRAWS, e->draws);
}

/* ---- intervals ---- */

/* The interval of the double at @member of each draw. */
static struct interval interval_at(const struct explained_draw *draw, int32_t count, size_t member)
{
    AUTOFREE double *value = base_alloc(count, sizeof(*value));
    for (int32_t k = 0; k < count; k++)
        value[k] = *(const double *)(const void *)((const char *)&draw[k] + member);
    struct interval likely = uncertainty_interval(count ? value : NULL, count);
    return likely;
}

static void find_intervals(const struct explained_draw *draw, int32_t count,
                           struct cause cause[CAUSE_COUNT], struct interval *efficiency)
{
    for (int i = 0; i < CAUSE_COUNT; i++) {
        size_t at = offsetof(struct explained_draw, cause) + (size_t)i * sizeof(struct cause);
        cause[i].seconds_likely = interval_at(draw, count, at + offsetof(struct cause, seconds));
        cause[i].points_likely = interval_at(draw, count, at + offsetof(struct cause, points));
    }
    *efficiency = interval_at(draw, count, offsetof(struct explained_draw, efficiency));
}

int explanation_draw(struct explanation *e, const struct predict_options *options,
                     const struct unknowns *all, struct err *err)
{
    struct spending before[PAIR_COUNT];
    if (uncertainty_is_unknown(platform_device(e->job.platform)))
        return 0;
    for (int i = 0; i < PAIR_COUNT; i++)
        uncertainty_spending(&e->task[i], &factors_none, 1, &before[i]);
    if (!e->job.unknowns.count)
        draw_known(e, before);
    else if (draw_unknown(e, options, all, before, err))
        return -1;
    find_intervals(e->draw, e->draws, e->cause, &e->efficiency_likely);
    return 0;
}

void explanation_difference_likely(const struct explanation *a, const struct explanation *b,
                                   struct cause cause[CAUSE_COUNT], struct interval *efficiency)
{
    AUTOFREE struct explained_draw *both = base_alloc(a->draws + 1, sizeof(*both));
    int32_t count = 0;
    for (int32_t i = 0, k = 0; i < a->draws && k < b->draws;) {
        const struct explained_draw *less = &a->draw[i], *more = &b->draw[k];
        i += less->number <= more->number;
        k += more->number <= less->number;
        if (less->number != more->number)
            continue;
        double images = more->batch / less->batch;
        both[count].efficiency = more->efficiency - less->efficiency;
        for (int c = 0; c < CAUSE_COUNT; c++) {
            both[count].cause[c].seconds = more->cause[c].seconds - images * less->cause[c].seconds;
            both[count].cause[c].points = more->cause[c].points - less->cause[c].points;
        }
        count++;
    }
    find_intervals(both, count, cause, efficiency);
}
