#include "app/predict/draws.h"
#include "app/predict/prediction.h"
#include "app/predict/share.h"

enum {
    CONTROL_DRAWS = 12, /* to simulate at most */
    EPOCHS_SEED = 1,
};

/* CPU time for them [s]. */
#define CONTROL_SECONDS 20.0

/* What was drawn and what came of it: a row for each unknown input, each factor and the epochs if
 * there is a target, then for each outcome, and for the work. */
struct sample {
    int32_t inputs, unknown; /* rows of all inputs, and of the unknown ones among them */
    int32_t draws, count;    /* those that made a job, to which rows are cut at the end */
    double *row;             /* (inputs + OUTCOME_COUNT + 1, draws) */
    int32_t *number;         /* (draws) from 1, 0 where there is no job; cut, (count) from 0 */
};

static struct sample sample_new(int32_t unknown, bool target, int32_t draws)
{
    int32_t inputs = unknown + FACTOR_COUNT + target;
    return (struct sample){
        .inputs = inputs,
        .unknown = unknown,
        .draws = draws,
        .row = base_alloc((int64_t)(inputs + OUTCOME_COUNT + 1) * draws, sizeof(double)),
        .number = base_alloc(draws, sizeof(int32_t)),
    };
}

static double *input_row(const struct sample *sample, int32_t input)
{
    return sample->row + (int64_t)input * sample->draws;
}

/* OUTCOME_COUNT: time to train without failures [s]. */
static double *outcome_row(const struct sample *sample, int32_t outcome)
{
    return input_row(sample, sample->inputs + outcome);
}

/* Leave out the draws that made no job. */
static void cut(struct sample *sample)
{
    for (int32_t k = 0; k < sample->draws; k++) {
        if (!sample->number[k])
            continue;
        for (int32_t i = 0; i < sample->inputs + OUTCOME_COUNT + 1; i++)
            input_row(sample, i)[sample->count] = input_row(sample, i)[k];
        sample->number[sample->count++] = k;
    }
}

/* More devices are no faster than one, unless they are in the prediction itself. */
static double efficiency(const struct prediction *p, int32_t baseline, const double *step)
{
    const struct task *base = &p->task[baseline], *last = prediction_last(p);
    double batches = (double)last->point.batch / (double)base->point.batch;
    double predicted = batches * base->step / last->step;
    return fmin(batches * step[baseline] / step[last - p->task], fmax(1, predicted));
}

/* The epochs of draw @number, which are drawn apart from all else; 0: there is no target. */
static double draw_epochs(const struct prediction *p, int32_t number)
{
    const struct scenario *scenario = &p->job.scenario;
    if (!(scenario->training.target > 0))
        return 0;
    return plan_end(&p->result.plan, scenario->training.evaluate_every,
                    base_normal(EPOCHS_SEED, (uint64_t)number, 0, 0),
                    base_uniform(EPOCHS_SEED, (uint64_t)number, 1, 0));
}

/* What draw @number of @p comes to, if its tasks take @step. */
static void take_outcome(struct sample *sample, const struct prediction *p, const double *step,
                         int32_t number)
{
    double epochs = draw_epochs(p, number), outcome[OUTCOME_COUNT + 1];
    const struct task *last = prediction_last(p);
    int32_t baseline = baseline_of(p);
    double time = step[last - p->task], replicas = grid_replicas(last->point.grid);
    double work = prediction_seconds(p, step, epochs);
    outcome[OUTCOME_STEP] = time;
    outcome[OUTCOME_IMAGES] = replicas * (double)last->point.batch / time;
    outcome[OUTCOME_WEAK] = efficiency(p, baseline, step);
    outcome[OUTCOME_STRONG] =
        baseline + 1 < p->task_count ? efficiency(p, baseline + 1, step) : NAN;
    outcome[OUTCOME_TRAIN] = failing_draw(p, work, epochs, number);
    outcome[OUTCOME_COUNT] = work;
    for (int32_t i = 0; i <= OUTCOME_COUNT; i++)
        outcome_row(sample, i)[number] = outcome[i];
    if (epochs > 0)
        input_row(sample, sample->inputs - 1)[number] = epochs;
    sample->number[number] = number + 1;
}

/* ---- draws ---- */

/* A prediction whose draws are taken. */
struct drawing {
    struct prediction *centre;
    struct sample sample;
    double *ratio; /* (tasks of the centre) the back end's step over that of the closed form; NULL:
                      every draw is the centre */
};

/* How much longer task @i of @p is than in closed form: as that of the centre which is like it. */
static double ratio_of(const struct drawing *d, const struct prediction *p, int32_t i)
{
    int32_t own = job_phases(&p->job), base = job_phases(&d->centre->job);
    int32_t like = i < base ? i : base - 1;
    if (i >= own)
        like = base + (i - own) < d->centre->task_count ? base + i - own : base;
    return d->ratio ? d->ratio[like] : 1;
}

static struct job *open_closed(const struct draw_loop *loop, const struct draw *draw,
                               struct err *err)
{
    const struct drawing *d = loop->context;
    struct prediction *p = base_alloc(1, sizeof(*p));
    if (!prediction_open(p, d->centre->job.scenario.path, loop->options, draw, err) &&
        !prediction_run(p, BACKEND_ANALYTIC, loop->options, err) && !failing_find(p, err))
        return &p->job;
    prediction_release(p);
    free(p);
    return NULL;
}

static void close_closed(struct job *job)
{
    prediction_release((struct prediction *)job);
    free(job);
}

static void take_draws(const struct draw_loop *loop, const struct job *job,
                       const struct factors *factors, const int32_t *number, int32_t count)
{
    struct drawing *d = loop->context;
    const struct prediction *p = (const struct prediction *)job;
    AUTOFREE double *all = base_alloc((int64_t)p->task_count * count, sizeof(*all));
    AUTOFREE double *step = base_alloc(p->task_count, sizeof(*step));
    uncertainty_steps(p->task, p->task_count, factors, count, all);
    for (int32_t k = 0; k < count; k++) {
        for (int32_t i = 0; i < p->task_count; i++)
            step[i] = all[(int64_t)i * count + k] * ratio_of(d, p, i);
        for (int32_t i = 0; i < d->sample.unknown; i++)
            input_row(&d->sample, i)[number[k]] = draws_at(loop, number[k]).quantile[i];
        for (int32_t i = 0; i < FACTOR_COUNT; i++)
            input_row(&d->sample, d->sample.unknown + i)[number[k]] = factors[k].of[i];
        take_outcome(&d->sample, p, step, number[k]);
    }
}

/* How much longer the steps of the centre are than in closed form. */
static int find_ratios(const struct draw_loop *loop, struct err *err)
{
    struct drawing *d = loop->context;
    struct job *job = loop->open(loop, &draw_centre, err);
    if (!job)
        return -1;
    d->ratio = base_alloc(d->centre->task_count, sizeof(*d->ratio));
    for (int32_t i = 0; i < d->centre->task_count; i++)
        d->ratio[i] = d->centre->task[i].step / ((struct prediction *)job)->task[i].step;
    loop->close(job);
    return 0;
}

/* A draw on the simulator, over what the closed form with the centre's ratio has. */
static int control_one(const struct draw_loop *loop, int32_t number, double *ratio, struct err *err)
{
    AUTORELEASE(prediction) struct prediction simulated = {0};
    struct draw draw = draws_at(loop, number);
    struct predict_options options = *loop->options;
    struct job *job = loop->open(loop, &draw, err);
    options.alone = true;
    int failed = !job || prediction_open(&simulated, job->scenario.path, &options, &draw, err) ||
                 prediction_run(&simulated, BACKEND_SIM, &options, err);
    if (!failed) {
        const struct prediction *closed = (const struct prediction *)job;
        int32_t last = job_phases(&closed->job) - 1;
        *ratio = simulated.task[last].step /
                 (closed->task[last].step * ratio_of(loop->context, closed, last));
    }
    if (job)
        loop->close(job);
    return failed;
}

static int control(const struct draw_loop *loop, double cpu, struct doubts *doubts, struct err *err)
{
    const struct sample *sample = &((const struct drawing *)loop->context)->sample;
    double affordable = CONTROL_SECONDS / fmax(cpu, 1e-3), begin = prediction_children_seconds();
    int32_t count = (int32_t)fmin(affordable, CONTROL_DRAWS), number[CONTROL_DRAWS];
    doubts->control = (struct interval){INFINITY, 0};
    for (int32_t i = 0; i < count && prediction_children_seconds() - begin < CONTROL_SECONDS; i++) {
        double ratio;
        int32_t same = 0;
        number[i] = sample->number[i]; /* the first are spread evenly; every twentieth is not */
        while (same < i && !draws_same_job(loop, number[same], number[i]))
            same++;
        if (same < i)
            continue;
        if (control_one(loop, number[i], &ratio, err))
            return -1;
        doubts->control.low = fmin(doubts->control.low, ratio);
        doubts->control.high = fmax(doubts->control.high, ratio);
        doubts->simulated++;
    }
    return 0;
}

/* ---- results ---- */

/* The interval of @value (@count), and its median if asked for. */
static struct interval interval_of_values(const double *value, int32_t count, double *median)
{
    AUTOFREE double *copy = base_alloc(count, sizeof(*copy));
    memcpy(copy, value, (size_t)count * sizeof(*copy));
    struct interval likely = uncertainty_interval(copy, count); /* sorts */
    if (median)
        *median = (copy[(count - 1) / 2] + copy[count / 2]) / 2;
    return likely;
}

static struct interval interval_of(const struct sample *sample, int32_t outcome)
{
    if (isnan(outcome_row(sample, outcome)[0]))
        return (struct interval){NAN, NAN};
    return interval_of_values(outcome_row(sample, outcome), sample->count, NULL);
}

static void find_shares(const struct sample *sample, const struct unknowns *unknowns,
                        struct doubts *doubts)
{
    doubts->unknown = (int32_t)unknowns->count;
    doubts->count = sample->inputs;
    doubts->item = base_alloc(sample->inputs, sizeof(*doubts->item));
    double noise = share_noise(sample->count, sample->inputs);
    for (int32_t i = 0; i < sample->inputs; i++) {
        struct doubt *doubt = &doubts->item[i];
        bool known = i >= doubts->unknown, factor = i < doubts->unknown + FACTOR_COUNT;
        doubt->key = base_copy(!known   ? unknowns->item[i].key
                               : factor ? factor_names[i - doubts->unknown]
                                        : "epochs to the target");
        doubt->range = known ? NULL : base_copy(unknowns->item[i].range);
        for (int32_t k = 0; k < OUTCOME_COUNT; k++) {
            const double *outcome = outcome_row(sample, k);
            double share = share_of(input_row(sample, i), outcome, sample->count);
            doubt->share[k] = isnan(outcome[0]) ? NAN : share <= noise ? 0 : share;
        }
    }
    for (int32_t k = 0; k < OUTCOME_COUNT; k++) { /* together at most all; more is noise, as are
                                                     parts of a percent */
        double sum = 0;
        for (int32_t i = 0; i < sample->inputs; i++)
            sum += doubts->item[i].share[k];
        for (int32_t i = 0; i < sample->inputs; i++)
            doubts->item[i].share[k] = round(100 * doubts->item[i].share[k] / fmax(1, sum)) / 100;
    }
}

static double *copy_row(const struct sample *sample, int32_t outcome)
{
    double *copy = base_alloc(sample->count, sizeof(*copy));
    memcpy(copy, outcome_row(sample, outcome), (size_t)sample->count * sizeof(*copy));
    return copy;
}

static void conclude(struct result *result, const struct sample *sample)
{
    const double *train = outcome_row(sample, OUTCOME_TRAIN);
    result->step_likely = interval_of(sample, OUTCOME_STEP);
    result->images_likely = interval_of(sample, OUTCOME_IMAGES);
    result->weak.likely = interval_of(sample, OUTCOME_WEAK);
    result->strong.likely = interval_of(sample, OUTCOME_STRONG);
    result->train_likely = interval_of(sample, OUTCOME_TRAIN);
    result->toll.work_likely = interval_of(sample, OUTCOME_COUNT);
    result->doubts.seconds = copy_row(sample, OUTCOME_TRAIN);
    result->doubts.step = copy_row(sample, OUTCOME_STEP);
    int32_t last = sample->inputs - 1;
    if (last < sample->unknown + FACTOR_COUNT)
        return;
    interval_of_values(train, sample->count, &result->to_target.median);
    result->to_target.epochs = interval_of_values(input_row(sample, last), sample->count, NULL);
    if (result->doubts.item)
        result->to_target.epochs_share = result->doubts.item[last].share[OUTCOME_TRAIN];
}

int likely_find(struct prediction *prediction, const struct predict_options *options, int32_t draws,
                enum backend_choice backend, double cpu, struct err *err)
{
    const struct job *job = &prediction->job;
    struct doubts *doubts = &prediction->result.doubts;
    if (uncertainty_is_unknown(&job->platform->device))
        return 0;
    struct draw_loop loop = {.centre = job,
                             .options = options,
                             .shared = prediction->shared,
                             .count = draws ? draws : draws_usual(job),
                             .open = open_closed,
                             .close = close_closed,
                             .take = take_draws};
    struct drawing d = {.centre = prediction,
                        .sample = sample_new((int32_t)job->unknowns.count,
                                             job->scenario.training.target > 0, loop.count)};
    loop.context = &d;
    int failed = (job->unknowns.count && find_ratios(&loop, err)) || draws_each(&loop, err);
    cut(&d.sample);
    doubts->draws = d.sample.count;
    doubts->impossible = loop.impossible;
    doubts->reason = base_copy(loop.reason);
    if (!failed && !draws && job->unknowns.count && backend == BACKEND_SIM)
        failed = control(&loop, cpu, doubts, err);
    if (!failed && !draws)
        find_shares(&d.sample, &job->unknowns, doubts);
    if (!failed) {
        conclude(&prediction->result, &d.sample);
        doubts->number = d.sample.number;
        d.sample.number = NULL;
    }
    draw_loop_release(&loop);
    free(d.sample.row);
    free(d.sample.number);
    free(d.ratio);
    return failed;
}
