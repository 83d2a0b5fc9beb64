#include "app/predict/explain.h"

#include "app/predict/draws.h"

enum { RUN = EXPLAIN_RUN, BASELINE = EXPLAIN_BASELINE, PAIR_COUNT };

const char *const cause_names[CAUSE_COUNT] = {
    [CAUSE_NOISE] = "jitter and slow ranks",
    [CAUSE_INPUT] = "input",
    [CAUSE_SLOWED_COMPUTE] = "compute beside communication",
    [CAUSE_SLOWED_COMMUNICATION] = "communication beside compute",
    [CAUSE_LAUNCH] = "launching collectives",
    [CAUSE_ROW_LATENCY] = "latency of the row exchange",
    [CAUSE_ROW_BYTES] = "bytes of the row exchange",
    [CAUSE_COLUMN_LATENCY] = "latency of the column all-reduce",
    [CAUSE_COLUMN_BYTES] = "bytes of the column all-reduce",
    [CAUSE_WORLD_LATENCY] = "latency of the all-reduce",
    [CAUSE_WORLD_BYTES] = "bytes of the all-reduce",
    [CAUSE_TENSOR] = "exchange inside of layers",
    [CAUSE_CONTEXT] = "exchange of keys and values",
    [CAUSE_EXPERT] = "positions on their way to experts",
    [CAUSE_BUBBLE] = "waiting for other stages",
    [CAUSE_BATCH] = "smaller local batch",
    [CAUSE_OTHER] = "optimizer and other",
    [CAUSE_LEFT_OUT] = "no cause in the model",
};

/* --- running --- */

/* Fill in the run and the baseline of @explanation, whose job is open and whose phase is set.
 * @return 0, or -1 with a message; release them with explanation_release(). */
static int explanation_build(struct explanation *e, const struct predict_options *options,
                             struct err *err)
{
    if (task_build(&e->task[RUN], &e->job, e->phase, options, err))
        return -1;
    return task_build(&e->task[BASELINE], &e->job, JOB_BASELINE, options, err);
}

static int run_pair(struct explanation *e, const struct predict_options *options, struct err *err)
{
    enum backend_choice backend = task_backend(options, &e->warning);
    if (explanation_build(e, options, err) ||
        task_run_all(e->task, PAIR_COUNT, backend, options, err))
        return -1;
    return 0;
}

/* --- causes --- */

/* A wait of @all, whose latency and bytes go to @parts. */
static void spend_wait(double all, const struct wait_share *share, double parts[2],
                       double seconds[CAUSE_COUNT])
{
    double slowed = all * share->slowed, launch = all * share->launch;
    seconds[CAUSE_SLOWED_COMMUNICATION] += slowed;
    seconds[CAUSE_LAUNCH] += launch;
    parts[0] = all * share->latency;
    parts[1] = all - parts[0] - slowed - launch;
}

/* Where one step goes [s]: adds up to its time with noise. */
static void spend(const struct explanation *e, const struct spending *spending,
                  double seconds[CAUSE_COUNT])
{
    bool torus = e->job.scenario.allreduce.algorithm == ALGORITHM_TORUS2D;
    enum cause_kind row = torus ? CAUSE_ROW_LATENCY : CAUSE_WORLD_LATENCY;
    const struct breakdown *step = &spending->step;
    memset(seconds, 0, CAUSE_COUNT * sizeof(*seconds));
    seconds[CAUSE_NOISE] = step->slower;
    seconds[CAUSE_INPUT] = step->input_wait;
    seconds[CAUSE_SLOWED_COMPUTE] = step->slowed;
    spend_wait(step->exposed_row, &spending->row, &seconds[row], seconds);
    spend_wait(step->exposed_column, &spending->column, &seconds[CAUSE_COLUMN_LATENCY], seconds);
    seconds[CAUSE_TENSOR] = step->exposed_tensor;
    seconds[CAUSE_CONTEXT] = step->exposed_context;
    seconds[CAUSE_EXPERT] = step->exposed_expert;
    seconds[CAUSE_BUBBLE] = step->bubble;
    seconds[CAUSE_BATCH] = step->compute;
    seconds[CAUSE_OTHER] = step->other;
    seconds[CAUSE_LEFT_OUT] = spending->left_out;
}

/* The link that limits @axis in the run, or where it has no such axis in the baseline. */
static const char *limiting_link(const struct explanation *e, enum axis axis)
{
    for (int i = 0; i < PAIR_COUNT; i++) {
        const struct point *point = &e->task[i].point;
        int32_t tier = report_bottleneck(point->fabric, point->schedule, axis, NULL);
        if (tier >= 0)
            return point->fabric->tier_name[tier];
    }
    return NULL;
}

/* The causes of a run that spends @run, while its baseline spends @baseline. */
static void explanation_causes(const struct explanation *e, const struct spending *run,
                               const struct spending *baseline, struct cause cause[CAUSE_COUNT])
{
    const struct interval none = {NAN, NAN};
    double of_run[CAUSE_COUNT], of_baseline[CAUSE_COUNT], time = run->step.time;
    double images = (double)e->task[RUN].point.batch / (double)e->task[BASELINE].point.batch;
    spend(e, run, of_run);
    spend(e, baseline, of_baseline);
    for (int i = 0; i < CAUSE_COUNT; i++) {
        double seconds = breakdown_difference(of_run[i], images * of_baseline[i], time);
        cause[i] = (struct cause){cause_names[i], NULL, seconds, 100 * seconds / time, none, none};
    }
}

static void find_causes(struct explanation *e)
{
    double images = (double)e->task[RUN].point.batch / (double)e->task[BASELINE].point.batch;
    struct spending spending[PAIR_COUNT];
    for (int i = 0; i < PAIR_COUNT; i++) {
        uncertainty_spending(&e->task[i], &factors_none, 1, &spending[i]);
        spending[i].step = task_breakdown(&e->task[i]);
    }
    explanation_causes(e, &spending[RUN], &spending[BASELINE], e->cause);
    e->efficiency = images * e->task[BASELINE].step / e->task[RUN].step;
    e->efficiency_likely = (struct interval){NAN, NAN};
    e->cause[CAUSE_ROW_BYTES].link = limiting_link(e, AXIS_ROW);
    e->cause[CAUSE_COLUMN_BYTES].link = limiting_link(e, AXIS_COLUMN);
    e->cause[CAUSE_WORLD_BYTES].link = limiting_link(e, AXIS_WORLD);
}

int explanation_make(struct explanation *explanation, const char *path,
                     const struct predict_options *options, int32_t phase, struct err *err)
{
    if (predict_open_job(&explanation->job, path, options, &draw_centre, err))
        return -1;
    explanation->phase = phase ? phase : job_phases(&explanation->job);
    if (run_pair(explanation, options, err))
        return -1;
    find_causes(explanation);
    explanation->scenario = scenario_name(&explanation->job.scenario);
    explanation->platform = explanation->job.platform->name;
    explanation->backend = task_trace(&explanation->task[RUN])->backend;
    explanation->grain = task_trace(&explanation->task[RUN])->grain;
    for (int i = 0; i < PAIR_COUNT; i++)
        explanation->devices[i] = explanation->task[i].point.fabric->ranks;
    return 0;
}

struct cause explanation_difference(const struct explanation *a, const struct explanation *b,
                                    enum cause_kind cause)
{
    double images = point_images(&b->task[RUN].point) / point_images(&a->task[RUN].point);
    const struct cause *less = &a->cause[cause], *more = &b->cause[cause];
    return (struct cause){
        .name = cause_names[cause],
        .link = more->link ? more->link : less->link,
        .seconds = breakdown_difference(more->seconds, images * less->seconds, b->task[RUN].step),
        .points = more->points - less->points,
        .seconds_likely = {NAN, NAN},
        .points_likely = {NAN, NAN},
    };
}

void explanation_release(struct explanation *explanation)
{
    for (int i = 0; i < 2; i++)
        task_release(&explanation->task[i]);
    job_release(&explanation->job);
    free(explanation->warning);
    free(explanation->draw);
    *explanation = (struct explanation){0};
}

/* An explanation whose draws are taken. */
struct drawing {
    struct explanation *centre;
    double ratio[PAIR_COUNT]; /* the back end's step over that of the closed form; 1 where every
                                 draw is the centre */
};

/* What draw @number of run @own spends. */
static void take(const struct drawing *d, const struct explanation *own,
                 const struct spending *const drawn[PAIR_COUNT], int32_t number)
{
    const struct explanation *e = d->centre;
    struct explained_draw *draw = &e->draw[number];
    const struct breakdown *run = &drawn[RUN]->step, *baseline = &drawn[BASELINE]->step;
    double images = (double)own->task[RUN].point.batch / (double)own->task[BASELINE].point.batch;
    double said = images * own->task[BASELINE].step / own->task[RUN].step;
    draw->number = number;
    draw->images = point_images(&own->task[RUN].point);
    draw->efficiency = fmin(images * baseline->time / run->time, fmax(1, said));
    explanation_causes(own, drawn[RUN], drawn[BASELINE], draw->cause);
    double sum = 0;
    for (int i = 0; i < CAUSE_COUNT; i++)
        sum += draw->cause[i].seconds;
    assert(fabs(sum - (run->time - images * baseline->time)) <= 1e-9 * run->time);
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
        for (int32_t k = 0; k < count; k++) {
            drawn[i][k].left_out *= d->ratio[i];
            breakdown_scale(&drawn[i][k].step, d->ratio[i]);
        }
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
    return uncertainty_interval(count ? value : NULL, count);
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
    if (uncertainty_is_unknown(&e->job.platform->device))
        return 0;
    loop.count = draws_usual(&e->job);
    e->draw = base_alloc(loop.count, sizeof(*e->draw));
    int failed = (e->job.unknowns.count && find_ratios(&loop, err)) || draws_each(&loop, err);
    draw_loop_release(&loop);
    if (failed)
        return -1;
    for (int32_t k = 0; k < loop.count; k++)
        if (e->draw[k].images > 0) /* it made a job */
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
        double images = more->images / less->images;
        both[count].efficiency = more->efficiency - less->efficiency;
        for (int c = 0; c < CAUSE_COUNT; c++) {
            both[count].cause[c].seconds = more->cause[c].seconds - images * less->cause[c].seconds;
            both[count].cause[c].points = more->cause[c].points - less->cause[c].points;
        }
        count++;
    }
    find_intervals(both, count, cause, efficiency);
}
