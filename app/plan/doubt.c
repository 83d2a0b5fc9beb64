#include "app/plan/search.h"
#include "app/predict/predict.h"
#include "app/predict/uncertainty.h"

enum { LOW, HIGH, ENDS };

/* What moves time and price by less is left out.  Our choice. */
#define MOVES 0.001

/* One plan that could be the best, with each input at its ends. */
struct rival {
    int64_t candidate;
    double (*time)[ENDS];  /* (inputs) its time over that in the middle; NAN: no job */
    double (*price)[ENDS]; /* (inputs) what an hour costs over that in the middle */
};

/* What all rivals are asked: factors, epochs, then unknown inputs and prices of the best plan. */
struct study {
    struct search *search;
    struct unknowns unknowns;
    int32_t epochs, first_unknown, first_price, count; /* inputs; epochs: -1 without a target */
};

/* The range of factor @which, in the sense of its name: a bandwidth, not the time of its bytes. */
static struct interval ends_of(const struct factors *draw, int32_t draws, int which)
{
    AUTOFREE double *copy = base_alloc(draws, sizeof(*copy));
    for (int32_t k = 0; k < draws; k++)
        copy[k] = which == FACTOR_NETWORK ? 1 / draw[k].of[which] : draw[k].of[which];
    return uncertainty_interval(copy, draws);
}

static void describe(struct doubtful *row, const char *input, const char *range)
{
    if (row->input)
        return;
    row->input = base_copy(input);
    row->range = base_copy(range);
}

/* Each factor at its ends, all others at 1. */
static void try_factors(const struct study *study, struct rival *rival, const struct prediction *p)
{
    struct uncertainty u = uncertainty_of(&p->job);
    struct factors *draw = uncertainty_factors(&u), at[FACTOR_COUNT * ENDS];
    AUTOFREE double *all = base_alloc((int64_t)p->task_count * FACTOR_COUNT * ENDS, sizeof(*all));
    double *step = base_alloc(p->task_count, sizeof(*step)),
           middle = prediction_seconds(p, NULL, 0);
    for (int i = 0; i < FACTOR_COUNT; i++) {
        struct interval ends = ends_of(draw, u.draws, i);
        double power = i == FACTOR_KINDS ? uncertainty_kinds(&p->task[0]) : 1;
        AUTOFREE char *range =
            base_format("%.3g to %.3g times", pow(ends.low, power), pow(ends.high, power));
        describe(&study->search->doubt[i], factor_names[i], range);
        for (int e = 0; e < ENDS; e++) {
            struct factors *one = &at[i * ENDS + e];
            double value = e == LOW ? ends.low : ends.high;
            *one = factors_none;
            one->of[i] = i == FACTOR_NETWORK ? 1 / value : value;
            one->alone = i == FACTOR_TAIL ? value : 1;
            one->inside = i == FACTOR_NETWORK ? pow(value, -u.inside / u.network) : 1;
        }
    }
    uncertainty_steps(p->task, p->task_count, at, FACTOR_COUNT * ENDS, all);
    for (int i = 0; i < FACTOR_COUNT * ENDS; i++) {
        for (int32_t t = 0; t < p->task_count; t++)
            step[t] = all[t * FACTOR_COUNT * ENDS + i];
        rival->time[i / ENDS][i % ENDS] = prediction_seconds(p, step, 0) / middle;
    }
    free(draw);
    free(step);
}

static void try_epochs(const struct study *study, struct rival *rival, const struct prediction *p)
{
    struct interval epochs = p->result.to_target.epochs;
    double middle = prediction_seconds(p, NULL, 0);
    if (study->epochs < 0)
        return;
    AUTOFREE char *range = base_format("%.4g to %.4g", epochs.low, epochs.high);
    describe(&study->search->doubt[study->epochs], "epochs to the target", range);
    rival->time[study->epochs][LOW] = prediction_seconds(p, NULL, epochs.low) / middle;
    rival->time[study->epochs][HIGH] = prediction_seconds(p, NULL, epochs.high) / middle;
}

/* The job with unknown input @input of @p at an end, over that in the middle; NAN: none. */
static double try_unknown(const struct study *study, const struct predict_options *options,
                          const struct prediction *p, int32_t input, int end)
{
    double all[UNKNOWN_LIMIT], ratio = NAN;
    AUTORELEASE(prediction) struct prediction other = {0};
    AUTORELEASE(err) struct err why = {0};
    for (int i = 0; i < UNKNOWN_LIMIT; i++)
        all[i] = NAN;
    bool ends = p->job.unknowns.item[input].choices > 0; /* a spread has none: 90 % of it */
    all[input] = ends ? end : end == LOW ? 0.05 : 0.95;
    if (!prediction_open(&other, study->search->question.path, options,
                         &(struct draw){all, (int32_t)p->job.unknowns.count}, &why) &&
        !prediction_run(&other, BACKEND_ANALYTIC, options, &why) && !failing_find(&other, &why))
        ratio = prediction_seconds(&other, NULL, 0) / prediction_seconds(p, NULL, 0);
    return ratio;
}

/* What an hour costs at the ends of the price of tariff @index. */
static void try_price(const struct study *study, struct rival *rival, int32_t index)
{
    const struct search *search = study->search;
    const struct candidate *c = &search->list[rival->candidate];
    const struct tariff *tariff = &search->tariffs.item[index];
    struct range hour = {c->figures.usage.seconds.value, c->figures.usage.seconds.value,
                         c->figures.usage.seconds.value};
    struct bill bill = price_bill(
        &tariff->file, &(struct usage){c->figures.usage.nodes, c->figures.usage.devices, hour});
    struct doubtful *row = &study->search->doubt[study->first_price + index];
    AUTOFREE char *input =
        base_format("prices of %s", tariff->platform ? tariff->platform : tariff->file.low.name);
    describe(row, input, "as the file says");
    if (!search->currency || c->figures.bill.origin != tariff->file.origin)
        return;
    rival->price[study->first_price + index][LOW] = bill.cost.low / bill.cost.value;
    rival->price[study->first_price + index][HIGH] = bill.cost.high / bill.cost.value;
}

static int try_rival(struct study *study, struct rival *rival, struct err *err)
{
    const struct search *search = study->search;
    const struct question *q = &search->question;
    struct predict_options options = *q->options;
    AUTORELEASE(prediction) struct prediction p = {0};
    rival->time = base_alloc(study->count, sizeof(*rival->time));
    rival->price = base_alloc(study->count, sizeof(*rival->price));
    for (int32_t i = 0; i < study->count; i++)
        for (int e = 0; e < ENDS; e++)
            rival->time[i][e] = rival->price[i][e] = 1;
    options.set = candidate_set(q, &search->list[rival->candidate]);
    int32_t draws = study->epochs < 0 ? 0 : CANDIDATE_DRAWS; /* for the epochs alone */
    int failed = prediction_screen(&p, q->path, &options, BACKEND_ANALYTIC, draws, err);
    if (!failed) {
        try_factors(study, rival, &p);
        try_epochs(study, rival, &p);
    }
    for (int32_t i = 0; i < study->unknowns.count && !failed; i++) {
        const struct unknown *unknown = &study->unknowns.item[i];
        int32_t own = unknowns_find(&p.job.unknowns, unknown->key);
        describe(&search->doubt[study->first_unknown + i], unknown->key, unknown->range);
        for (int e = 0; e < ENDS && own >= 0; e++)
            rival->time[study->first_unknown + i][e] = try_unknown(study, &options, &p, own, e);
    }
    for (int32_t i = 0; i < search->prices->count; i++)
        try_price(study, rival, i);
    texts_release(&options.set);
    return failed;
}

/* ---- what that makes of the plan ---- */

static struct range times(struct range range, double factor)
{
    return (struct range){factor * range.low, factor * range.value, factor * range.high};
}

static struct candidate shifted(const struct search *search, const struct rival *rival,
                                int32_t input, int end)
{
    struct candidate c = search->list[rival->candidate];
    double time = rival->time[input][end], cost = time * rival->price[input][end];
    c.figures.usage.seconds = times(c.figures.usage.seconds, time);
    c.figures.device_hours = times(c.figures.device_hours, time);
    c.figures.bill.cost = times(c.figures.bill.cost, cost);
    return c;
}

/* The first of @rival (@count) is the best in the middle. */
static struct swing swing_of(const struct search *search, const struct rival *rival, int32_t count,
                             int32_t input, int end)
{
    struct candidate best = shifted(search, &rival[0], input, end);
    struct swing swing = {best.figures.usage.seconds.value,
                          best.figures.usage.seconds.high,
                          search_price(search, &best).value,
                          search->best,
                          NULL,
                          false};
    for (int32_t i = 1; i < count; i++) {
        struct candidate c = shifted(search, &rival[i], input, end);
        bool possible = !isnan(c.figures.usage.seconds.value);
        if (possible &&
            (isnan(best.figures.usage.seconds.value) || search_better(search, &c, &best))) {
            best = c;
            swing.best = rival[i].candidate;
        }
    }
    swing.kept = search_keeps(search, &best);
    return swing;
}

/* How far apart the ends are, in what the plan is about; an end without a job is farthest. */
static double width(const struct doubtful *row)
{
    double time = fabs(log(row->high.time / row->low.time));
    double price = fabs(log(row->high.price / row->low.price));
    return isnan(time) ? INFINITY : fmax(time, price);
}

static int by_width(const void *a, const void *b)
{
    double x = width(a), y = width(b);
    return (x < y) - (x > y);
}

/* Inputs that move next to nothing are left out. */
static void conclude(struct search *search, const struct rival *rival, int32_t count)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < search->doubt_count; i++) {
        struct doubtful row = search->doubt[i];
        row.low = swing_of(search, rival, count, i, LOW);
        row.high = swing_of(search, rival, count, i, HIGH);
        row.changes = row.low.best != search->best || row.high.best != search->best;
        if (width(&row) > MOVES || row.changes) {
            row.low.name = candidate_name(&search->question, &search->list[row.low.best]);
            row.high.name = candidate_name(&search->question, &search->list[row.high.best]);
            search->doubt[kept++] = row;
            continue;
        }
        free(row.input);
        free(row.range);
    }
    search->doubt_count = kept;
    qsort(search->doubt, (size_t)kept, sizeof(*search->doubt), by_width);
}

/* What is unknown of the best plan's job. */
static int find_inputs(struct study *study, struct err *err)
{
    struct search *search = study->search;
    struct texts set = candidate_set(&search->question, &search->list[search->best]);
    AUTORELEASE(job) struct job job = {0};
    int failed =
        job_read(&job, NULL, search->question.path, set.item, set.count, &draw_centre, err);
    texts_release(&set);
    if (failed)
        return -1;
    failed = unknowns_merge(&study->unknowns, &job.unknowns, err);
    study->epochs = job.scenario.training.target > 0 ? FACTOR_COUNT : -1;
    study->first_unknown = FACTOR_COUNT + (study->epochs >= 0);
    study->first_price = study->first_unknown + (int32_t)study->unknowns.count;
    study->count = study->first_price + search->prices->count;
    return failed;
}

int search_doubt(struct search *search, struct err *err)
{
    struct study study = {.search = search};
    char *warning = err->warning; /* warnings of files are known */
    int32_t count = 0;
    err->warning = NULL;
    AUTOFREE struct rival *rival = base_alloc(search->front_count + 2, sizeof(*rival));
    int failed = find_inputs(&study, err);
    search->doubt_count = failed ? 0 : study.count;
    search->doubt = base_alloc(search->doubt_count, sizeof(*search->doubt));
    rival[count++].candidate = search->best;
    if (search->next >= 0)
        rival[count++].candidate = search->next;
    for (int64_t i = 0; i < search->front_count; i++)
        if (search->front[i] != search->best && search->front[i] != search->next)
            rival[count++].candidate = search->front[i];
    for (int32_t i = 0; i < count && !failed; i++)
        failed = try_rival(&study, &rival[i], err);
    if (!failed)
        conclude(search, rival, count);
    for (int32_t i = 0; i < count; i++) {
        free(rival[i].time);
        free(rival[i].price);
    }
    unknowns_release(&study.unknowns);
    free(err->warning);
    err->warning = warning;
    return failed ? -1 : 0;
}
