#include "app/compare/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/predict/uncertainty.h"
#include "core/schedule/memory.h"

const char *const compare_names[COMPARE_MOST] = {"A", "B", "C", "D"};

const char *const difference_names[DIFFERENCE_COUNT] = {
    [DIFFERENCE_IMAGES] = "images to train on",
    [DIFFERENCE_DEVICES] = "number of devices",
    [DIFFERENCE_SPEED] = "speed of a device alone",
    [DIFFERENCE_EFFICIENCY] = "scaling efficiency",
    [DIFFERENCE_REST] = "start-up and evaluation",
    [DIFFERENCE_FAILURES] = "failures and checkpoints",
};

void comparison_add(struct comparison *comparison, const char *path,
                    const struct predict_options *options, const struct option_list *own)
{
    struct column *column = &comparison->column[comparison->count++];
    *column = (struct column){.path = path, .own = own, .options = *options};
    column->options.set = (struct option_list){0};
    option_list_add_all(&column->options.set, &options->set);
    option_list_add_all(&column->options.set, own);
}

/* ---- figures ---- */

/* Of the phase that needs most. */
static double find_memory(const struct prediction *prediction)
{
    const struct job *job = &prediction->job;
    int64_t most = 0;
    for (int32_t i = 0; i < job_phases(job); i++) {
        const struct phase *phase = &prediction->result.plan.phase[i];
        struct memory_plan plan = memory_plan(job->model, &job->scenario, job->resolved.shards,
                                              phase->batch_per_device, phase->micro_batch);
        most = memory_total(&plan) > most ? memory_total(&plan) : most;
    }
    return (double)most;
}

static void find_figures(struct column *column, struct err *err)
{
    struct scaling *strong = &column->prediction.result.strong;
    price_check_device(column->prices, platform_device(column->prediction.job.platform)->name, err);
    column->figures = figures_of(&column->prediction, column->prices);
    column->memory = find_memory(&column->prediction);
    if (!strong->batch)
        *strong = (struct scaling){.efficiency = NAN, .likely = {NAN, NAN}};
}

/* ---- pairs ---- */

bool compare_differs(double ratio)
{
    return fabs(ratio - 1) > 5e-4;
}

/* The ratio of the times of each draw that both have, by the random numbers behind them. */
static void compare_draws(struct pair *pair, const struct doubts *a, const struct doubts *b)
{
    double *ratio = base_alloc(a->draws + 1, sizeof(*ratio)), faster = 0;
    for (int32_t i = 0, k = 0; i < a->draws && k < b->draws;) {
        if (a->number[i] == b->number[k]) {
            double one = b->seconds[k++] / a->seconds[i++];
            faster += one > 1 ? 1 : one == 1 ? 0.5 : 0;
            ratio[pair->draws++] = one;
        } else if (a->number[i] < b->number[k]) {
            i++;
        } else {
            k++;
        }
    }
    pair->faster = pair->draws ? faster / pair->draws : NAN;
    pair->likely = uncertainty_interval(pair->draws ? ratio : NULL, pair->draws);
    free(ratio);
}

/* A run as a product: time = images / (devices * speed * efficiency) * rest * failures. */
static void find_parts(const struct prediction *p, double part[DIFFERENCE_COUNT])
{
    const struct result *result = &p->result;
    const struct task *baseline = &p->task[baseline_of(p)];
    double images = 0, spent = 0;
    double work = result->toll.work, steps = work - result->evaluation_s - result->startup_s;
    for (int32_t i = 0; i < result->plan.phase_count; i++) {
        const struct phase *phase = &result->plan.phase[i];
        images += (double)phase->steps * (double)phase->global_batch;
        spent += (double)(phase->steps * phase->devices) * result->phase_step_time[i];
    }
    double speed = (double)baseline->point.batch / baseline->step;
    part[DIFFERENCE_IMAGES] = images;
    part[DIFFERENCE_DEVICES] = steps / spent;
    part[DIFFERENCE_SPEED] = 1 / speed;
    part[DIFFERENCE_EFFICIENCY] = spent * speed / images;
    part[DIFFERENCE_REST] = work / steps;
    part[DIFFERENCE_FAILURES] = result->time_to_train_s / work;
}

/* Warnings of the files were printed when they were predicted. */
static int explain(struct column *column, struct err *err)
{
    char *warning = err->warning;
    if (column->explained)
        return 0;
    column->explained = true;
    err->warning = NULL;
    int failed = explanation_make(&column->explanation, column->path, &column->options, 0, err);
    free(err->warning);
    err->warning = warning;
    return failed;
}

/* Why @slow loses more efficiency than @fast. */
static int find_loss(struct column *fast, struct column *slow, char **cause, struct err *err)
{
    if (explain(fast, err) || explain(slow, err))
        return -1;
    struct cause worst = {0};
    enum cause_kind kind = CAUSE_COUNT;
    for (int i = 0; i < CAUSE_COUNT; i++) {
        struct cause more =
            explanation_difference(&fast->explanation, &slow->explanation, (enum cause_kind)i);
        if (more.points > worst.points) {
            worst = more;
            kind = (enum cause_kind)i;
        }
    }
    *cause = base_format(
        "%s%s%s", kind < CAUSE_COUNT ? cause_names[kind] : difference_names[DIFFERENCE_EFFICIENCY],
        worst.link ? " on the " : "", worst.link ? worst.link : "");
    return 0;
}

static int compare_pair(struct pair *pair, struct column *a, struct column *b, struct err *err)
{
    const struct result *first = &a->prediction.result, *second = &b->prediction.result;
    double of_a[DIFFERENCE_COUNT], of_b[DIFFERENCE_COUNT];
    int most = 0;
    pair->ratio = second->time_to_train_s / first->time_to_train_s;
    compare_draws(pair, &first->doubts, &second->doubts);
    find_parts(&a->prediction, of_a);
    find_parts(&b->prediction, of_b);
    for (int i = 0; i < DIFFERENCE_COUNT; i++) {
        pair->factor[i] = (struct time_factor){difference_names[i], of_b[i] / of_a[i]};
        bool more = pair->ratio > 1 ? pair->factor[i].factor > pair->factor[most].factor
                                    : pair->factor[i].factor < pair->factor[most].factor;
        most = more ? i : most;
    }
    if (!compare_differs(pair->ratio))
        return 0;
    if (most == DIFFERENCE_EFFICIENCY)
        return pair->ratio > 1 ? find_loss(a, b, &pair->cause, err)
                               : find_loss(b, a, &pair->cause, err);
    pair->cause = base_copy(difference_names[most]);
    return 0;
}

/* ---- warnings ---- */

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static void warn(struct comparison *c, char *text)
{
    result_add(&c->warning, &c->warning_count, text);
}

static void warn_pair(struct comparison *c, const struct pair *pair)
{
    const struct job *a = &c->column[pair->a].prediction.job;
    const struct job *b = &c->column[pair->b].prediction.job;
    const struct scenario *s = &a->scenario, *t = &b->scenario;
    const char *one = compare_names[pair->a], *two = compare_names[pair->b];
    struct shape read = a->model->input, other = b->model->input;
    if (strcmp(s->model.network, t->model.network) || memcmp(&read, &other, sizeof(read)) != 0)
        warn(c,
             base_format("%s trains %s on %dx%dx%d, %s %s on %dx%dx%d: their times do not buy the "
                         "same",
                         one, s->model.network, read.channels, read.height, read.width, two,
                         t->model.network, other.channels, other.height, other.width));
    if (s->training.target != t->training.target ||
        s->training.train_images != t->training.train_images)
        warn(c, base_format("%s and %s have other targets or data sets: their times do not buy the "
                            "same",
                            one, two));
    if (strcmp(platform_device(a->platform)->name, platform_device(b->platform)->name) ||
        !same_text(a->resolved.software, b->resolved.software))
        warn(c,
             base_format("%s and %s have other devices or software, whose errors may differ: the "
                         "interval of their ratio is too narrow",
                         one, two));
    const struct price_file *prices = c->column[pair->a].prices;
    if (prices && prices == c->column[pair->b].prices && !prices->low.devices.count &&
        strcmp(platform_device(a->platform)->name, platform_device(b->platform)->name) != 0)
        warn(c, base_format("%s and %s have other devices, and both are priced by %s: --prices "
                            "%s=FILE gives a platform its own",
                            one, two, prices->low.name, platform_name(b->platform)));
}

/* ---- all ---- */

/* Faults of jobs are those of the predictions, which follow. */
static int find_prices(struct comparison *c, struct err *err)
{
    for (int32_t i = 0; i < c->count && c->tariffs.count; i++) {
        struct column *column = &c->column[i];
        AUTORELEASE(err) struct err ignored = {0};
        struct job job = {0};
        if (predict_open_job(&job, column->path, &column->options, &draw_centre, &ignored))
            return 0;
        column->prices = tariffs_find(&c->tariffs, platform_name(job.platform), compare_names[i]);
        struct option_list set = predict_set(&column->options, column->prices);
        option_list_release(&column->options.set);
        column->options.set = set;
        job_release(&job);
    }
    return tariffs_check(&c->tariffs, err);
}

/* The unknown inputs of all jobs.  Faults are those of the predictions, which follow. */
static int gather(struct comparison *c, struct unknowns *all, struct err *err)
{
    int failed = 0;
    for (int32_t i = 0; i < c->count && !failed; i++) {
        const struct column *column = &c->column[i];
        struct job job = {0};
        AUTORELEASE(err) struct err ignored = {0};
        if (!predict_open_job(&job, column->path, &column->options, &draw_centre, &ignored)) {
            failed = unknowns_merge(all, &job.unknowns, err);
            job_release(&job);
        }
    }
    return failed;
}

static int predict_all(struct comparison *c, const struct unknowns *shared, struct err *err)
{
    for (int32_t i = 0; i < c->count; i++) {
        struct column *column = &c->column[i];
        column->prediction.shared = shared->count ? shared : NULL;
        if (prediction_make(&column->prediction, column->path, &column->options, err))
            return -1;
        find_figures(column, err);
        const struct result *result = &column->prediction.result;
        for (int32_t k = 0; k < result->warning_count; k++)
            warn(c, base_format("%s: %s", compare_names[i], result->warning[k]));
    }
    return 0;
}

static double seconds_of(const struct comparison *c, int32_t i)
{
    return c->column[i].prediction.result.time_to_train_s;
}

/* The pair of the fastest job and the next. */
static const struct pair *closest(const struct comparison *c, int32_t fastest)
{
    const struct pair *best = NULL;
    for (int32_t i = 0; i < c->pair_count; i++) {
        const struct pair *pair = &c->pair[i];
        if ((pair->a == fastest || pair->b == fastest) &&
            (!best || fabs(log(pair->ratio)) < fabs(log(best->ratio))))
            best = pair;
    }
    return best;
}

void compare_print_probability(struct text *out, double probability)
{
    if (probability > 0.99 || probability < 0.01)
        text_add(out, "%s", probability > 0.5 ? "over 99 %" : "under 1 %");
    else
        text_add(out, "%.0f %%", 100 * probability);
}

/* Which is fastest, by how much, how surely and why. */
static void conclude(struct comparison *c)
{
    int32_t fastest = 0;
    for (int32_t i = 1; i < c->count; i++)
        fastest = seconds_of(c, i) < seconds_of(c, fastest) ? i : fastest;
    const struct pair *pair = closest(c, fastest);
    bool turned = pair->b == fastest;
    const char *fast = compare_names[fastest], *slow = compare_names[turned ? pair->a : pair->b];
    struct text text = {0};
    bool differs = compare_differs(pair->ratio);
    if (!differs)
        text_add(&text, "%s and %s take equally long", fast, slow);
    else
        text_add(&text, "%s is faster than %s, which takes %.4g times as long", fast, slow,
                 turned ? 1 / pair->ratio : pair->ratio);
    if (!isnan(pair->faster) && pair->likely.low < pair->likely.high) {
        text_add(&text, " (90 %% interval%s %.4g to %.4g); %s is faster with a probability of ",
                 differs ? "" : " of the ratio", turned ? 1 / pair->likely.high : pair->likely.low,
                 turned ? 1 / pair->likely.low : pair->likely.high, fast);
        compare_print_probability(&text, turned ? 1 - pair->faster : pair->faster);
    }
    if (pair->cause)
        text_add(&text, "; most of the difference: %s", pair->cause);
    c->sentence = text.data;
}

static bool without_draws(const struct comparison *c)
{
    for (int32_t i = 0; i < c->pair_count; i++)
        if (isnan(c->pair[i].faster))
            return true;
    return false;
}

static int compare_all(struct comparison *c, struct err *err)
{
    for (int32_t a = 0; a < c->count; a++)
        for (int32_t b = a + 1; b < c->count; b++) {
            struct pair *pair = &c->pair[c->pair_count++];
            *pair = (struct pair){.a = a, .b = b};
            if (compare_pair(pair, &c->column[a], &c->column[b], err))
                return -1;
            warn_pair(c, pair);
        }
    if (without_draws(c))
        warn(c, base_copy("no probability and no interval of a ratio where a job has no interval: "
                          "on device ideal"));
    conclude(c);
    return 0;
}

int comparison_make(struct comparison *comparison, struct err *err)
{
    AUTORELEASE(unknowns) struct unknowns shared = {0};
    int failed = find_prices(comparison, err) || gather(comparison, &shared, err) ||
                 predict_all(comparison, &shared, err) || compare_all(comparison, err);
    return failed ? -1 : 0;
}

void comparison_release(struct comparison *comparison)
{
    for (int32_t i = 0; i < comparison->count; i++) {
        struct column *column = &comparison->column[i];
        prediction_release(&column->prediction);
        explanation_release(&column->explanation);
        option_list_release(&column->options.set);
    }
    for (int32_t i = 0; i < comparison->pair_count; i++)
        free(comparison->pair[i].cause);
    for (int32_t i = 0; i < comparison->warning_count; i++)
        free(comparison->warning[i]);
    free(comparison->warning);
    free(comparison->sentence);
    tariffs_release(&comparison->tariffs);
    *comparison = (struct comparison){0};
}
