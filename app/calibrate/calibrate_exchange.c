#include "app/calibrate/calibrate_exchange.h"

#include <gsl/gsl_fit.h>

#include "app/measure/measure.h"

/* What is run: a ring all-reduce, whose messages are parts of its vector. */
struct sweep_plan {
    struct exchange_options options;
    struct point point;
    struct sizes sizes; /* of the vectors; owned */
    double rounds;      /* of one run */
};

static struct sweep_plan make_plan(const struct exchanges *exchange,
                                   const struct exchange_options *options)
{
    int32_t ranks = exchange->ranks;
    struct sweep_plan plan = {.options = *options, .rounds = 2 * (ranks - 1)};
    plan.options.algorithm = ALGORITHM_RING;
    plan.point.grid = (struct grid){.columns = ranks, .rows = 1};
    plan.point.devices_per_node = 1;
    for (int32_t i = 0; i < exchange->sizes.count; i++) {
        struct sizes *to = &plan.sizes;
        to->item = base_room(to->item, to->count, sizeof(*to->item));
        to->item[to->count++] = exchange->sizes.item[i] * ranks;
    }
    return plan;
}

/* One sweep over all sizes: seconds of a round into column @number of @time. */
static int sweep(const struct sweep_plan *plan, int32_t number, double *time, struct err *err)
{
    AUTOFREE struct measured *measured = base_alloc(plan->sizes.count, sizeof(*measured));
    int failed = measure_collective(&plan->options, &plan->point, &plan->sizes, measured, err);
    for (int32_t i = 0; !failed && i < plan->sizes.count; i++)
        time[i * EXCHANGE_SWEEPS_MOST + number] = measured[i].time_s / plan->rounds;
    return failed;
}

/* The lower quartile of every @stride-th of @sweeps, from @first on. */
static double lower_quartile(const double *time, int32_t sweeps, int32_t first, int32_t stride)
{
    double sorted[EXCHANGE_SWEEPS_MOST] = {0};
    int32_t count = 0;
    for (int32_t i = first; i < sweeps; i += stride)
        sorted[count++] = time[i];
    return base_quantile(sorted, count, 0.25);
}

/* The lower quartile of each size over @sweeps, and how far those of even and of odd sweeps are
 * apart.  The mean of two that differ by d has a standard deviation of d / 2. */
static void conclude(struct exchanges *exchange, const double *time, int32_t sweeps)
{
    double most = 0, squares = 0;
    int32_t count = exchange->sizes.count;
    exchange->sweeps = sweeps;
    for (int32_t i = 0; i < count; i++) {
        const double *of_size = &time[i * EXCHANGE_SWEEPS_MOST];
        exchange->time[i] =
            (struct exchange_time){exchange->sizes.item[i], lower_quartile(of_size, sweeps, 0, 1)};
        if (sweeps < 2)
            continue;
        double a = lower_quartile(of_size, sweeps, 0, 2), b = lower_quartile(of_size, sweeps, 1, 2);
        most = fmax(most, fmax(a, b) / fmin(a, b) - 1);
        squares += log(a / b) * log(a / b) / 4;
    }
    exchange->apart = sweeps < 2 ? INFINITY : most;
    exchange->unsure = sweeps < 2 ? EXCHANGE_UNKNOWN : sqrt(squares / count);
}

static int measure_rounds(struct exchanges *exchange, const struct exchange_options *options,
                          struct budget *budget, struct err *err)
{
    struct sweep_plan plan = make_plan(exchange, options);
    int32_t count = plan.sizes.count, sweeps = 0;
    AUTOFREE double *time = base_alloc((int64_t)count * EXCHANGE_SWEEPS_MOST, sizeof(*time));
    exchange->time = base_alloc(count, sizeof(*exchange->time));
    int failed = 0;
    while (!failed &&
           (sweeps < EXCHANGE_SWEEPS_LEAST ||
            (sweeps < EXCHANGE_SWEEPS_MOST && exchange->apart > EXCHANGE_AGREE)) &&
           budget_next(budget)) {
        failed = sweep(&plan, sweeps, time, err);
        if (!failed)
            conclude(exchange, time, ++sweeps);
    }
    sizes_release(&plan.sizes);
    if (failed || !budget->strict)
        return failed;
    if (sweeps < 2)
        return err_add_code(err, 75, "one sweep took all of its time: give more with --budget");
    return exchange->apart <= EXCHANGE_DISTURBED
               ? 0
               : err_add_code(err, 75,
                              "disturbed: two halves of %d sweeps are %.0f %% apart; try again "
                              "when fewer other programs run",
                              sweeps, 100 * exchange->apart);
}

/* --- the line --- */

enum { SIZES_MOST = 64 /* our choice */ };

/* Errors of timing are relative. */
static struct exchange_line fit_line(const struct exchange_time *measured, int32_t n, bool *grows)
{
    double x[SIZES_MOST] = {0}, time[SIZES_MOST] = {0}, weight[SIZES_MOST] = {0}, latency, per_byte;
    double c00, c01, c11, chi2;
    for (int32_t i = 0; i < n; i++) {
        x[i] = (double)measured[i].bytes;
        time[i] = measured[i].seconds;
        weight[i] = 1 / (time[i] * time[i]);
    }
    gsl_fit_wlinear(x, 1, weight, 1, time, 1, (size_t)n, &latency, &per_byte, &c00, &c01, &c11,
                    &chi2);
    double scale = n > 2 ? chi2 / (n - 2) : 0;
    *grows = per_byte > 0;
    if (!*grows) { /* disturbed: the largest size alone, which others then contradict */
        latency = 0;
        per_byte = time[n - 1] / x[n - 1];
        chi2 = 0;
        for (int32_t i = 0; i < n; i++)
            chi2 += weight[i] * (time[i] - per_byte * x[i]) * (time[i] - per_byte * x[i]);
    }
    struct exchange_line line = {.latency = fmax(latency, 0),
                                 .bandwidth = 1 / per_byte,
                                 .latency_sd = sqrt(scale * c00),
                                 .bandwidth_sd = sqrt(scale * c11) / fabs(per_byte),
                                 .correlation = c01 / sqrt(c00 * c11),
                                 .residual = sqrt(chi2 / n)};
    return line;
}

static int check_sizes(const struct sizes *sizes, const struct exchange_options *options,
                       struct err *err)
{
    int64_t number = options->gradients == DTYPE_FP32 ? 4 : 2;
    int32_t different = 0;
    if (sizes->count > SIZES_MOST)
        return err_add_code(err, 64, "--bytes: a line takes at most %d sizes", SIZES_MOST);
    for (int32_t i = 0, k; i < sizes->count; i++) {
        if (sizes->item[i] % number)
            return err_add_code(err, 64, "--bytes: %lld B are not whole %s numbers",
                                (long long)sizes->item[i], dtype_names[options->gradients]);
        for (k = 0; sizes->item[k] != sizes->item[i]; k++)
            ;
        different += k == i;
    }
    return different < 3 ? err_add_code(err, 64, "--bytes: a line needs at least three sizes") : 0;
}

int exchange_measure(struct exchanges *exchange, const struct exchange_options *options,
                     const char *bytes, int32_t ranks, struct budget *budget, double share,
                     struct err *err)
{
    bool grows;
    exchange->ranks = ranks;
    if (sizes_read(&exchange->sizes, bytes, err) || check_sizes(&exchange->sizes, options, err))
        return -1;
    budget_part(budget, "a round of an all-reduce", share);
    if (measure_rounds(exchange, options, budget, err))
        return -1;
    exchange->line = fit_line(exchange->time, exchange->sizes.count, &grows);
    return grows || !budget->strict
               ? 0
               : err_add_code(err, 75,
                              "disturbed: the times of a round do not grow with the size; try "
                              "again when fewer other programs run");
}

double exchange_spread(const struct exchanges *exchange)
{
    double n = exchange->sizes.count;
    return fmax(exchange->line.residual * sqrt(n / (n - 2)), exchange->unsure);
}

void exchange_release(struct exchanges *exchange)
{
    free(exchange->time);
    sizes_release(&exchange->sizes);
    *exchange = (struct exchanges){0};
}
