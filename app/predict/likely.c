#include "app/predict/likely.h"

#include <gsl/gsl_qrng.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/predict/failing.h"
#include "app/predict/share.h"
#include "app/predict/uncertainty.h"

enum {
    CONTROL_DRAWS = 12, /* to simulate at most */
    EPOCHS_SEED = 1,
};

/* CPU time for them [s]. */
#define CONTROL_SECONDS 20.0

/* What was drawn and what came of it. */
struct sample {
    int32_t count;   /* of draws that made a job */
    int32_t inputs;  /* unknown ones first, then the factors, then epochs if there is a target */
    int32_t unknown; /* inputs */
    double *input;   /* (inputs, draws) */
    double *outcome[OUTCOME_COUNT]; /* (draws) */
    double *work;                   /* (draws) time to train without failures [s] */
    int32_t *number;                /* (draws) of the quantiles that made it */
    int32_t draws;                  /* room */
};

static struct sample sample_new(int32_t unknown, bool target, int32_t draws)
{
    int32_t inputs = unknown + FACTOR_COUNT + target;
    struct sample sample = {.inputs = inputs,
                            .unknown = unknown,
                            .draws = draws,
                            .input = base_alloc((int64_t)inputs * draws, sizeof(double)),
                            .work = base_alloc(draws, sizeof(double)),
                            .number = base_alloc(draws, sizeof(int32_t))};
    for (int32_t i = 0; i < OUTCOME_COUNT; i++)
        sample.outcome[i] = base_alloc(draws, sizeof(double));
    return sample;
}

static void sample_release(struct sample *sample)
{
    free(sample->input);
    free(sample->work);
    free(sample->number);
    for (int32_t i = 0; i < OUTCOME_COUNT; i++)
        free(sample->outcome[i]);
}

/* More devices are no faster than one, unless they are in the prediction itself. */
static double efficiency(const struct prediction *p, int32_t baseline, const double *step)
{
    const struct task *base = &p->task[baseline], *last = prediction_last(p);
    double batches = (double)last->point.batch / (double)base->point.batch;
    double predicted = batches * base->step / last->step;
    return fmin(batches * step[baseline] / step[baseline_of(p) - 1], fmax(1, predicted));
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
    double epochs = draw_epochs(p, number);
    const struct task *last = prediction_last(p);
    int32_t baseline = baseline_of(p), k = sample->count;
    double devices = grid_ranks(last->point.grid);
    sample->outcome[OUTCOME_STEP][k] = step[baseline - 1];
    sample->outcome[OUTCOME_IMAGES][k] = devices * (double)last->point.batch / step[baseline - 1];
    sample->outcome[OUTCOME_WEAK][k] = efficiency(p, baseline, step);
    sample->outcome[OUTCOME_STRONG][k] =
        baseline + 1 < p->task_count ? efficiency(p, baseline + 1, step) : NAN;
    sample->work[k] = prediction_seconds(p, step, epochs);
    sample->outcome[OUTCOME_TRAIN][k] = failing_draw(p, sample->work[k], epochs, number);
    if (epochs > 0)
        sample->input[(int64_t)(sample->inputs - 1) * sample->draws + k] = epochs;
    sample->number[sample->count++] = number;
}

static void take_factors(struct sample *sample, const struct factors *factors)
{
    for (int32_t i = 0; i < FACTOR_COUNT; i++)
        sample->input[(sample->unknown + i) * sample->draws + sample->count] = factors->of[i];
}

/* ---- known inputs ---- */

static void draw_known(struct sample *sample, const struct prediction *prediction,
                       const struct factors *factors)
{
    int32_t tasks = prediction->task_count, draws = sample->draws;
    AUTOFREE double *all = base_alloc((int64_t)tasks * draws, sizeof(*all));
    AUTOFREE double *step = base_alloc(tasks, sizeof(*step));
    for (int32_t i = 0; i < tasks; i++)
        uncertainty_steps(&prediction->task[i], 0, factors, draws, all + (int64_t)i * draws);
    for (int32_t k = 0; k < draws; k++) {
        for (int32_t i = 0; i < tasks; i++)
            step[i] = all[(int64_t)i * draws + k];
        take_factors(sample, &factors[k]);
        take_outcome(sample, prediction, step, k);
    }
}

/* ---- unknown inputs ---- */

/* A job with unknown inputs. */
struct question {
    struct prediction *centre;
    const char *path;
    const struct predict_options *options;
    int32_t dimensions, draws;
    double *quantile; /* (draws, dimensions) */
    double *ratio;    /* (tasks of the centre) the back end's step over that of the closed form */
};

static struct draw draw_of(const struct question *q, int32_t k)
{
    return (struct draw){q->quantile + (int64_t)k * q->dimensions, q->dimensions};
}

/* The task of the centre that is like task @i of @p. */
static int32_t like(const struct question *q, const struct prediction *p, int32_t i)
{
    int32_t own = baseline_of(p), base = baseline_of(q->centre);
    if (i >= own)
        return base + (i - own) < q->centre->task_count ? base + i - own : base;
    return i < base ? i : base - 1;
}

/* How much longer the steps of the centre are than in closed form. */
static int find_ratios(struct question *q, struct err *err)
{
    AUTORELEASE(prediction) struct prediction closed = {0};
    int failed = prediction_open(&closed, q->path, q->options, &draw_centre, err) ||
                 prediction_run(&closed, BACKEND_ANALYTIC, q->options, err);
    q->ratio = base_alloc(q->centre->task_count, sizeof(*q->ratio));
    for (int32_t i = 0; i < q->centre->task_count && !failed; i++)
        q->ratio[i] = q->centre->task[i].step / closed.task[i].step;
    return failed ? -1 : 0;
}

/* The job of a draw, which further draws may share. */
struct made {
    struct prediction p;
    struct factors *factors; /* of all draws; NULL: it is no job */
    int32_t draw;
};

static void made_release(struct made *made)
{
    prediction_release(&made->p);
    free(made->factors);
}

/* Nothing more is made of draw @k if it is no job. */
static void make_job(const struct question *q, int32_t k, struct made *made, struct err *why)
{
    struct draw draw = draw_of(q, k);
    *made = (struct made){.draw = k};
    if (prediction_open(&made->p, q->path, q->options, &draw, why) ||
        prediction_run(&made->p, BACKEND_ANALYTIC, q->options, why))
        return;
    struct uncertainty doubts = uncertainty_of(&made->p.job);
    made->factors = uncertainty_factors(&doubts);
}

/* What draw @k comes to, whose job is @made. */
static void take_draw(const struct question *q, struct sample *sample, int32_t k,
                      const struct made *made)
{
    const struct prediction *p = &made->p;
    AUTOFREE double *step = base_alloc(p->task_count, sizeof(*step));
    for (int32_t i = 0; i < p->task_count; i++) {
        uncertainty_steps(&p->task[i], 0, &made->factors[k], 1, &step[i]);
        step[i] *= q->ratio[like(q, p, i)];
    }
    for (int32_t i = 0; i < q->dimensions; i++)
        sample->input[i * sample->draws + sample->count] = draw_of(q, k).quantile[i];
    take_factors(sample, &made->factors[k]);
    take_outcome(sample, p, step, k);
}

/* Whether two draws choose the same of lists, and nothing else is unknown. */
static bool same_job(const struct question *q, int32_t a, int32_t b)
{
    for (int32_t i = 0; i < q->dimensions; i++) {
        const struct unknown *input = &q->centre->job.unknowns.item[i];
        if (!input->listed || unknown_choice(draw_of(q, a).quantile[i], input->choices) !=
                                  unknown_choice(draw_of(q, b).quantile[i], input->choices))
            return false;
    }
    return true;
}

/* The job with one unknown input at @quantile, the others in their centre: 0, or -1. */
static int read_at(const struct question *q, int32_t input, double quantile, struct err *err)
{
    double all[UNKNOWN_LIMIT];
    struct job job;
    for (int32_t i = 0; i < q->dimensions; i++)
        all[i] = i == input ? quantile : NAN;
    if (job_read(&job, q->path, q->options->set.item, q->options->set.count,
                 &(struct draw){all, q->dimensions}, err))
        return -1;
    job_release(&job);
    return 0;
}

/* A choice, or an end of a range, with which there is never a job is a mistake. */
static int check_choices(const struct question *q, struct err *err)
{
    for (int32_t i = 0; i < q->dimensions; i++) {
        int32_t choices = q->centre->job.unknowns.item[i].choices;
        for (int32_t k = 0; k < choices; k++)
            if (read_at(q, i, (double)k / (choices - 1), err))
                return -1;
    }
    return 0;
}

double *likely_quantiles(const struct unknowns *own, const struct unknowns *all, int32_t draws)
{
    gsl_qrng *points = gsl_qrng_alloc(gsl_qrng_sobol, (unsigned)all->count);
    double point[UNKNOWN_LIMIT];
    double *quantile = base_alloc((int64_t)draws * own->count, sizeof(*quantile));
    for (int32_t k = 0; k < draws; k++) {
        gsl_qrng_get(points, point);
        for (int32_t i = 0; i < own->count; i++)
            quantile[(int64_t)k * own->count + i] = point[unknowns_find(all, own->item[i].key)];
    }
    gsl_qrng_free(points);
    return quantile;
}

static int draw_unknown(const struct question *q, struct sample *sample, struct doubts *doubts,
                        struct err *err)
{
    AUTOFREE struct made *made = base_alloc(q->draws, sizeof(*made));
    int32_t count = 0, own;
    for (int32_t k = 0; k < q->draws; k++) {
        AUTORELEASE(err) struct err why = {0};
        for (own = 0; own < count && !same_job(q, made[own].draw, k); own++)
            ;
        if (own == count)
            make_job(q, k, &made[count++], &why);
        if (made[own].factors)
            take_draw(q, sample, k, &made[own]);
        else if (doubts->impossible++ == 0)
            doubts->reason = base_format("%.*s", (int)strcspn(why.text, "\n"), why.text);
        if (!same_job(q, k, k))
            made_release(&made[--count]);
    }
    while (count > 0)
        made_release(&made[--count]);
    if (sample->count >= 20)
        return 0;
    return err_add_code(err, 65,
                        "%s: of %d draws of the unknown inputs only %d make a job; the first "
                        "other one: %s",
                        q->path, q->draws, sample->count, doubts->reason);
}

/* One of them on the simulator, over what the closed form with the centre's ratio has. */
static int control_one(const struct question *q, int32_t k, double *ratio, struct err *err)
{
    AUTORELEASE(prediction) struct prediction simulated = {0}, closed = {0};
    struct draw draw = draw_of(q, k);
    if (prediction_open(&simulated, q->path, q->options, &draw, err) ||
        prediction_run(&simulated, BACKEND_SIM, q->options, err) ||
        prediction_open(&closed, q->path, q->options, &draw, err) ||
        prediction_run(&closed, BACKEND_ANALYTIC, q->options, err))
        return -1;
    int32_t last = baseline_of(&closed) - 1;
    *ratio =
        simulated.task[last].step / (closed.task[last].step * q->ratio[like(q, &closed, last)]);
    return 0;
}

static int control(const struct question *q, const struct sample *sample, double cpu,
                   struct doubts *doubts, struct err *err)
{
    double affordable = CONTROL_SECONDS / fmax(cpu, 1e-3), begin = prediction_children_seconds();
    int32_t count = (int32_t)fmin(affordable, CONTROL_DRAWS);
    doubts->control = (struct interval){INFINITY, 0};
    for (int32_t i = 0; i < count && prediction_children_seconds() - begin < CONTROL_SECONDS; i++) {
        double ratio;
        if (control_one(q, sample->number[(int64_t)i * sample->count / count], &ratio, err))
            return -1;
        doubts->control.low = fmin(doubts->control.low, ratio);
        doubts->control.high = fmax(doubts->control.high, ratio);
        doubts->simulated++;
    }
    return 0;
}

static int draw_question(struct question *q, struct sample *sample, enum backend_choice backend,
                         double cpu, struct doubts *doubts, struct err *err)
{
    const struct unknowns *own = &q->centre->job.unknowns;
    q->quantile = likely_quantiles(own, q->centre->shared ? q->centre->shared : own, q->draws);
    int failed =
        check_choices(q, err) || find_ratios(q, err) || draw_unknown(q, sample, doubts, err);
    if (!failed && backend == BACKEND_SIM)
        failed = control(q, sample, cpu, doubts, err);
    free(q->quantile);
    free(q->ratio);
    return failed;
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

static struct interval interval_of(const struct sample *sample, enum outcome outcome)
{
    if (isnan(sample->outcome[outcome][0]))
        return (struct interval){NAN, NAN};
    return interval_of_values(sample->outcome[outcome], sample->count, NULL);
}

static void find_shares(const struct sample *sample, const struct unknowns *unknowns,
                        struct doubts *doubts)
{
    doubts->unknown = (int32_t)unknowns->count;
    doubts->count = sample->inputs;
    doubts->item = base_alloc(sample->inputs, sizeof(*doubts->item));
    for (int32_t i = 0; i < sample->inputs; i++) {
        struct doubt *doubt = &doubts->item[i];
        bool known = i >= doubts->unknown, factor = i < doubts->unknown + FACTOR_COUNT;
        doubt->key = base_copy(!known   ? unknowns->item[i].key
                               : factor ? factor_names[i - doubts->unknown]
                                        : "epochs to the target");
        doubt->range = known ? NULL : base_copy(unknowns->item[i].range);
        for (int32_t k = 0; k < OUTCOME_COUNT; k++)
            doubt->share[k] = isnan(sample->outcome[k][0])
                                  ? NAN
                                  : share_of(sample->input + (int64_t)i * sample->draws,
                                             sample->outcome[k], sample->count);
    }
}

static void conclude(struct result *result, const struct sample *sample)
{
    result->step_likely = interval_of(sample, OUTCOME_STEP);
    result->images_likely = interval_of(sample, OUTCOME_IMAGES);
    result->weak.likely = interval_of(sample, OUTCOME_WEAK);
    result->strong.likely = interval_of(sample, OUTCOME_STRONG);
    result->train_likely = interval_of(sample, OUTCOME_TRAIN);
    result->toll.work_likely = interval_of_values(sample->work, sample->count, NULL);
    int32_t last = sample->inputs - 1;
    if (last < sample->unknown + FACTOR_COUNT)
        return;
    interval_of_values(sample->outcome[OUTCOME_TRAIN], sample->count, &result->to_target.median);
    result->to_target.epochs =
        interval_of_values(sample->input + (int64_t)last * sample->draws, sample->count, NULL);
    if (result->doubts.item)
        result->to_target.epochs_share = result->doubts.item[last].share[OUTCOME_TRAIN];
}

/* How much is asked for. */
struct effort {
    int32_t draws, unknown_draws;
    bool complete; /* the shares of the inputs, and draws on the simulator */
};

static int find(struct prediction *prediction, const char *path,
                const struct predict_options *options, enum backend_choice backend, double cpu,
                struct effort effort, struct err *err)
{
    const struct unknowns *unknowns = &prediction->job.unknowns;
    struct result *result = &prediction->result;
    if (uncertainty_is_unknown(platform_device(prediction->job.platform)))
        return 0;
    struct uncertainty doubts = uncertainty_of(&prediction->job);
    if (effort.draws)
        doubts.draws = effort.draws;
    int32_t dimensions = (int32_t)unknowns->count;
    bool target = prediction->job.scenario.training.target > 0;
    AUTORELEASE(sample)
    struct sample sample =
        sample_new(dimensions, target, dimensions ? effort.unknown_draws : doubts.draws);
    int failed = 0;
    if (dimensions) {
        struct question q = {prediction, path, options, dimensions, sample.draws, NULL, NULL};
        failed = draw_question(&q, &sample, effort.complete ? backend : BACKEND_ANALYTIC, cpu,
                               &result->doubts, err);
    } else {
        AUTOFREE struct factors *factors = uncertainty_factors(&doubts);
        draw_known(&sample, prediction, factors);
    }
    result->doubts.draws = sample.count;
    if (!failed) {
        if (effort.complete)
            find_shares(&sample, unknowns, &result->doubts);
        conclude(result, &sample);
        result->doubts.seconds = sample.outcome[OUTCOME_TRAIN];
        result->doubts.number = sample.number;
        sample.outcome[OUTCOME_TRAIN] = NULL;
        sample.number = NULL;
    }
    return failed;
}

int likely_find(struct prediction *prediction, const char *path,
                const struct predict_options *options, enum backend_choice backend, double cpu,
                struct err *err)
{
    return find(prediction, path, options, backend, cpu,
                (struct effort){0, LIKELY_UNKNOWN_DRAWS, true}, err);
}

int likely_roughly(struct prediction *prediction, const char *path,
                   const struct predict_options *options, int32_t draws, struct err *err)
{
    return find(prediction, path, options, BACKEND_ANALYTIC, 0,
                (struct effort){draws, draws, false}, err);
}
