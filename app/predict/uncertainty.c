#include "app/predict/uncertainty.h"

#include <assert.h>
#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend/cost.h"

/* Uncertainty of the spread of devices: it varies between machines by as much as itself. */
#define JITTER_SPREAD 0.5

/* Error on several nodes of a model calibrated on one, as others found: vTrain's error grew from
 * 8.4 to 14.7 %, SimAI's is 2 to 10 %.  (vTrain: Bang et al., MICRO 2024; SimAI: Wang et al., NSDI
 * 2025.) */
#define MODEL_SPREAD 0.05

enum { DRAWS = 400, SEED = 1 };

/* Of the overhead of a kernel without a fit: it was not measured. */
#define OVERHEAD_SPREAD 0.5

double uncertainty_tolerance(enum provenance provenance)
{
    /* A measurement repeats to a few percent; well-kept machines reach figures of data sheets or
     * papers to about a tenth; an assumption may be wrong by half. */
    static const double tolerance[] = {
        [PROVENANCE_MEASURED] = 0.03,
        [PROVENANCE_DATASHEET] = 0.10,
        [PROVENANCE_PUBLISHED] = 0.10,
        [PROVENANCE_ASSUMED] = 0.30,
    };
    static_assert(sizeof(tolerance) / sizeof(*tolerance) == PROVENANCE_COUNT, "one each");
    return tolerance[provenance];
}

static void widen(void *context, const struct quantity *quantity, enum unit unit)
{
    double *most = context;
    if (unit == UNIT_BYTES_PER_SECOND && strncmp(quantity->path, "device.", 7) != 0)
        *most = fmax(*most, uncertainty_tolerance(quantity->provenance));
}

double uncertainty_network(const struct platform *platform)
{
    double most = 0;
    platform_each_quantity(platform, widen, &most);
    return most;
}

/* How much machines with the same device and software differ: the scatter about the fits of all
 * devices with enough runs to show it. */
static double machine_scatter(const struct software *software)
{
    enum { ENOUGH = 3 };
    double squares = 0, rows = 0;
    for (int32_t i = 0; i < software->fits.count; i++) {
        const struct software_fit *fit = &((const struct software_fit *)software->fits.item)[i];
        if (fit->rows < ENOUGH)
            continue;
        squares += (double)fit->rows * fit->residual * fit->residual;
        rows += (double)fit->rows;
    }
    return rows > 0 ? sqrt(squares / rows) : 0;
}

/* The numbers of the device file itself, when no software profile is named. */
static void doubt_device(struct uncertainty *u, const struct device *device)
{
    u->efficiency = fmax(uncertainty_tolerance(device->math_efficiency.provenance),
                         uncertainty_tolerance(device->memory_efficiency.provenance));
    u->overhead = OVERHEAD_SPREAD;
}

static void doubt_software(struct uncertainty *u, const struct software *software,
                           const struct device *device)
{
    const struct software_fit *fit = software_find_fit(software, device->name);
    u->efficiency = fit->efficiency_sd;
    u->overhead = fit->overhead_sd;
    u->correlation = fit->correlation;
    u->residual = fmax(fit->residual, machine_scatter(software));
}

struct uncertainty uncertainty_of(const struct job *job, bool several_nodes)
{
    struct uncertainty u = {
        .jitter = JITTER_SPREAD,
        .network = uncertainty_network(job->platform),
        .model = several_nodes ? MODEL_SPREAD : 0,
        .draws = DRAWS,
        .seed = SEED,
    };
    const struct device *device = platform_device(job->platform);
    if (job->software)
        doubt_software(&u, job->software, device);
    else
        doubt_device(&u, device);
    return u;
}

/* What every draw starts from. */
struct table {
    const struct schedule *schedule;
    double *roof;     /* (steps) compute at the stated efficiency, without overhead [s] */
    double *overhead; /* (steps) of its kernels [s] */
    double *norm;     /* (steps) of batch norm's exchanges [s] */
    double *exchange; /* (steps) of collectives [s] */
    double *input;    /* (steps) of decoding [s] */
    double *seconds;  /* (steps) of one draw */
    double *ends;     /* (2 * steps) */
    int32_t ranks;
};

static struct table table_new(const struct point *point, const struct trace *trace)
{
    const struct schedule *schedule = point->schedule;
    int32_t steps = schedule->step_count;
    struct table t = {.schedule = schedule,
                      .roof = base_alloc(steps, sizeof(double)),
                      .overhead = base_alloc(steps, sizeof(double)),
                      .norm = base_alloc(steps, sizeof(double)),
                      .exchange = base_alloc(steps, sizeof(double)),
                      .input = base_alloc(steps, sizeof(double)),
                      .seconds = base_alloc(steps, sizeof(double)),
                      .ends = base_alloc(2 * steps, sizeof(double)),
                      .ranks = grid_ranks(schedule->grid)};
    double each = point->run.device->kernel_overhead.value;
    for (int32_t id = 0; id < steps; id++) {
        const struct step *step = &schedule->step[id];
        if (step->kind == STEP_COMPUTE) {
            double longer = 1 + point->run.contention;
            double all = longer * cost_compute(point->run.device, step);
            t.norm[id] = longer * step->compute.exchanges * COST_NORM_EXCHANGE;
            t.overhead[id] = fmin(longer * step->compute.kernels * each, all - t.norm[id]);
            t.roof[id] = all - t.overhead[id] - t.norm[id];
        } else if (step->kind == STEP_INPUT) {
            t.input[id] = run_local_seconds(&point->run, step);
        }
    }
    for (int64_t i = 0; i < trace->span_count; i++) {
        const struct span *span = &trace->span[i];
        if (span->iteration == trace->iterations - 1 && span->rank == trace->span[0].rank &&
            schedule->step[span->step].kind == STEP_COLLECTIVE)
            t.exchange[span->step] = span->end - span->begin;
    }
    return t;
}

static void table_release(struct table *t)
{
    free(t->roof);
    free(t->overhead);
    free(t->norm);
    free(t->exchange);
    free(t->input);
    free(t->seconds);
    free(t->ends);
}

/* The closed form: each step starts when its lane and what it depends on are free. */
static double walk(const struct table *t)
{
    const struct schedule *schedule = t->schedule;
    int32_t steps = schedule->step_count;
    double lane[LANE_COUNT] = {0}, end[2] = {0};
    for (int32_t iteration = 0; iteration < 2; iteration++)
        for (int32_t id = 0; id < steps; id++) {
            const struct step *step = &schedule->step[id];
            double begin = lane[step->lane];
            for (int32_t i = step->dep_begin; i < step->dep_end; i++) {
                struct dep dep = schedule->dep[i];
                if (dep.distance <= iteration)
                    begin = fmax(begin, t->ends[(iteration - dep.distance) * steps + dep.step]);
            }
            double done = begin + t->seconds[id];
            t->ends[iteration * steps + id] = lane[step->lane] = done;
            end[iteration] = fmax(end[iteration], done);
        }
    return end[1] - end[0];
}

/* A factor of mean about 1 that is never negative. */
static double factor(const gsl_rng *rng, double sd)
{
    return exp(gsl_ran_gaussian(rng, sd));
}

static double draw(const struct table *t, const struct noise *stated, double extra,
                   const struct uncertainty *u, const gsl_rng *rng)
{
    double e, o;
    gsl_ran_bivariate_gaussian(rng, u->efficiency, u->overhead, u->correlation, &e, &o);
    double efficiency = exp(e), overhead = exp(o);
    struct noise noise = *stated;
    noise.compute_cv *= factor(rng, u->jitter);
    double local = factor(rng, u->residual) * noise_expected_slowest(&noise, t->ranks);
    double network = factor(rng, u->network);
    for (int32_t id = 0; id < t->schedule->step_count; id++)
        t->seconds[id] =
            local * (t->roof[id] / efficiency + overhead * t->overhead[id] + t->norm[id]) +
            network * t->exchange[id] + t->input[id];
    return factor(rng, u->model) * (walk(t) + local * extra);
}

struct interval uncertainty_step(const struct point *point, const struct trace *trace, double extra,
                                 const struct uncertainty *u)
{
    assert(u->draws >= 20);
    struct table t = table_new(point, trace);
    gsl_rng *rng = gsl_rng_alloc(gsl_rng_mt19937);
    gsl_rng_set(rng, (unsigned long)u->seed);
    double *sample = base_alloc(u->draws, sizeof(*sample));
    for (int32_t i = 0; i < u->draws; i++)
        sample[i] = draw(&t, &point->run.noise, extra, u, rng);
    gsl_sort(sample, 1, (size_t)u->draws);
    struct interval interval = {
        .low = gsl_stats_quantile_from_sorted_data(sample, 1, (size_t)u->draws, 0.05),
        .high = gsl_stats_quantile_from_sorted_data(sample, 1, (size_t)u->draws, 0.95),
    };
    free(sample);
    gsl_rng_free(rng);
    table_release(&t);
    return interval;
}
