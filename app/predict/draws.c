#include "app/predict/draws.h"

#include "core/base/random.h"

enum {
    UNKNOWN_DRAWS = 240, /* where each is a job of its own: 5 % of them are 12 */
    DRAWS_LEAST = 20,
};

int32_t draws_usual(const struct job *job)
{
    return job->unknowns.count ? UNKNOWN_DRAWS : uncertainty_of(job).draws;
}

struct draw draws_at(const struct draw_loop *loop, int32_t number)
{
    int32_t inputs = (int32_t)loop->centre->unknowns.count;
    return (struct draw){loop->quantile + (int64_t)number * inputs, inputs};
}

/* Evenly over all unknown inputs of the jobs that are compared. */
static void find_quantiles(struct draw_loop *loop)
{
    const struct unknowns *own = &loop->centre->unknowns;
    const struct unknowns *all = loop->shared ? loop->shared : own;
    loop->quantile = base_alloc(loop->count * own->count, sizeof(*loop->quantile));
    if (!own->count)
        return;
    static_assert((int)UNKNOWN_LIMIT <= (int)SOBOL_DIMENSIONS, "a dimension each");
    struct sobol sobol;
    sobol_start(&sobol, (int32_t)all->count);
    double point[UNKNOWN_LIMIT];
    for (int32_t k = 0; k < loop->count; k++) {
        sobol_next(&sobol, point);
        for (int32_t i = 0; i < own->count; i++)
            loop->quantile[k * own->count + i] = point[unknowns_find(all, own->item[i].key)];
    }
}

/* The job with one unknown input at @quantile, the others in their centre: 0, or -1. */
static int read_at(const struct draw_loop *loop, int32_t input, double quantile, struct err *err)
{
    double all[UNKNOWN_LIMIT];
    int32_t inputs = (int32_t)loop->centre->unknowns.count;
    const struct predict_options *options = loop->options;
    struct job job;
    for (int32_t i = 0; i < inputs; i++)
        all[i] = i == input ? quantile : NAN;
    if (job_read(&job, options->files, loop->centre->scenario.path, options->set.item,
                 options->set.count, &(struct draw){all, inputs}, err))
        return -1;
    job_release(&job);
    return 0;
}

/* A choice, or an end of a range, with which there is never a job is a mistake. */
static int check_choices(const struct draw_loop *loop, struct err *err)
{
    for (int32_t i = 0; i < loop->centre->unknowns.count; i++) {
        int32_t choices = loop->centre->unknowns.item[i].choices;
        for (int32_t k = 0; k < choices; k++)
            if (read_at(loop, i, (double)k / (choices - 1), err))
                return -1;
    }
    return 0;
}

bool draws_same_job(const struct draw_loop *loop, int32_t a, int32_t b)
{
    struct draw first = draws_at(loop, a), second = draws_at(loop, b);
    for (int32_t i = 0; i < first.count; i++) {
        const struct unknown *input = &loop->centre->unknowns.item[i];
        if (input->values == 0 || unknown_choice(first.quantile[i], input->values) !=
                                      unknown_choice(second.quantile[i], input->values))
            return false;
    }
    return true;
}

static void take(const struct draw_loop *loop, const struct job *job, const int32_t *number,
                 int32_t count)
{
    struct uncertainty doubts = uncertainty_of(job);
    doubts.draws = loop->count;
    AUTOFREE struct factors *factors = uncertainty_factors(&doubts);
    for (int32_t i = 0; i < count; i++)
        factors[i] = factors[number[i]];
    loop->take(loop, job, factors, number, count);
}

/* The draws @number (@count), which share a job. */
static void try_job(struct draw_loop *loop, const int32_t *number, int32_t count)
{
    AUTORELEASE(err) struct err why = {0};
    struct draw draw = draws_at(loop, number[0]);
    if (!draw.count) {
        take(loop, loop->centre, number, count);
        return;
    }
    struct job *job = loop->open(loop, &draw, &why);
    if (job) {
        take(loop, job, number, count);
        loop->close(job);
        return;
    }
    if (!loop->impossible)
        loop->reason = base_copy(err_reason(&why));
    loop->impossible += count;
}

int draws_each(struct draw_loop *loop, struct err *err)
{
    AUTOFREE int32_t *number = base_alloc(loop->count, sizeof(*number));
    AUTOFREE bool *taken = base_alloc(loop->count, sizeof(*taken));
    find_quantiles(loop);
    if (check_choices(loop, err))
        return -1;
    for (int32_t k = 0; k < loop->count; k++) {
        if (taken[k])
            continue;
        int32_t alike = 0;
        for (int32_t i = k; i < loop->count; i++)
            if (i == k || (!taken[i] && draws_same_job(loop, k, i))) {
                taken[i] = true;
                number[alike++] = i;
            }
        try_job(loop, number, alike);
    }
    int32_t made = loop->count - loop->impossible;
    if (made >= DRAWS_LEAST)
        return 0;
    return err_add_code(err, 65,
                        "%s: of %d draws of the unknown inputs only %d make a job; the first "
                        "other one: %s",
                        loop->centre->scenario.path, loop->count, made, loop->reason);
}

void draw_loop_release(struct draw_loop *loop)
{
    free(loop->quantile);
    free(loop->reason);
}
