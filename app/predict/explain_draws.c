#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "app/predict/draws.h"
#include "app/predict/explain.h"

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

/* An explanation whose draws are taken. */
struct drawing {
    struct explanation *centre;
    struct spending before[PAIR_COUNT]; /* of the centre in closed form */
    double ratio[PAIR_COUNT];           /* the back end's step over that of the closed form; 1 where
                                           every draw is the centre */
};

/* What draw @number of run @own spends. */
static void take(const struct drawing *d, const struct explanation *own,
                 const struct spending *const drawn[PAIR_COUNT], int32_t number)
{
    const struct explanation *e = d->centre;
    struct explained_draw *draw = &e->draw[number];
    struct split split[PAIR_COUNT];
    const struct breakdown *run = &drawn[RUN]->step, *baseline = &drawn[BASELINE]->step;
    double images = (double)own->task[RUN].point.batch / (double)own->task[BASELINE].point.batch;
    double said = images * own->task[BASELINE].step / own->task[RUN].step;
    for (int i = 0; i < PAIR_COUNT; i++)
        split[i] =
            (struct split){shares_of(e->split[i].row, d->before[i].row, drawn[i]->row),
                           shares_of(e->split[i].column, d->before[i].column, drawn[i]->column),
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
    step->exposed_tensor *= ratio;
    step->input_wait *= ratio;
    step->other *= ratio;
}

static void take_draws(const struct draw_loop *loop, const struct job *job,
                       const struct factors *factors, const int32_t *number, int32_t count)
{
    const struct drawing *d = loop->context;
    const struct explanation *own = (const struct explanation *)job;
    struct spending *drawn[PAIR_COUNT];
    for (int i = 0; i < PAIR_COUNT; i++) {
        drawn[i] = base_alloc(count, sizeof(*drawn[i]));
        uncertainty_spending(&own->task[i], factors, count, drawn[i]);
        for (int32_t k = 0; k < count; k++)
            scale(&drawn[i][k], d->ratio[i]);
    }
    for (int32_t k = 0; k < count; k++)
        take(d, own, (const struct spending *const[]){&drawn[RUN][k], &drawn[BASELINE][k]},
             number[k]);
    for (int i = 0; i < PAIR_COUNT; i++)
        free(drawn[i]);
}

static void close_closed(struct job *job)
{
    explanation_release((struct explanation *)job);
    free(job);
}

static struct job *open_closed(const struct draw_loop *loop, const struct draw *draw,
                               struct err *err)
{
    struct explanation *own = base_alloc(1, sizeof(*own));
    own->phase = ((const struct drawing *)loop->context)->centre->phase;
    if (!predict_open_job(&own->job, loop->centre->scenario.path, loop->options, draw, err) &&
        !explanation_build(own, loop->options, err) &&
        !task_run_all(own->task, PAIR_COUNT, BACKEND_ANALYTIC, loop->options, err))
        return &own->job;
    close_closed(&own->job);
    return NULL;
}

/* As in a prediction: steps are longer by as much as those of the centre are in the back end. */
static int find_ratios(const struct draw_loop *loop, struct err *err)
{
    struct drawing *d = loop->context;
    struct job *job = loop->open(loop, &draw_centre, err);
    if (!job)
        return -1;
    for (int i = 0; i < PAIR_COUNT; i++)
        d->ratio[i] = d->centre->task[i].step / ((struct explanation *)job)->task[i].step;
    loop->close(job);
    return 0;
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
    struct drawing d = {.centre = e, .ratio = {1, 1}};
    struct draw_loop loop = {.centre = &e->job,
                             .options = options,
                             .shared = all,
                             .open = open_closed,
                             .close = close_closed,
                             .take = take_draws,
                             .context = &d};
    if (uncertainty_is_unknown(platform_device(e->job.platform)))
        return 0;
    for (int i = 0; i < PAIR_COUNT; i++)
        uncertainty_spending(&e->task[i], &factors_none, 1, &d.before[i]);
    loop.count = draws_usual(&e->job);
    e->draw = base_alloc(loop.count, sizeof(*e->draw));
    int failed = (e->job.unknowns.count && find_ratios(&loop, err)) || draws_each(&loop, err);
    draw_loop_release(&loop);
    if (failed)
        return -1;
    for (int32_t k = 0; k < loop.count; k++)
        if (e->draw[k].batch > 0) /* it made a job */
            e->draw[e->draws++] = e->draw[k];
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
