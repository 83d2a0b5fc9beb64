#include <gsl/gsl_fit.h>

#include "app/calibrate/calibrate_machine.h"
#include "app/measure/measure.h"
#include "app/process/cores.h"
#include "app/process/launch.h"
#include "app/validate/validate_run.h"
#include "core/base/claim.h"
#include "core/base/file.h"
#include "core/config/field_write.h"

/* ---- a round of an all-reduce by size, and the line fitted to its times ---- */

/* Measured are the rounds of a ring all-reduce of all ranks, which exchange messages and add up
 * what arrives.  That is what training does, so the line becomes the platform's link.  Numbers
 * travel in the type of request.exchange.gradients, so what converting them takes is in every
 * figure.  The figure is the lower quartile of several sweeps; they go on until one half of them
 * says what the other does, within bounds of number and time. */

/* One size. */
struct exchange_time {
    int64_t bytes;  /* of a message */
    double seconds; /* of a round, the lower quartile of the sweeps */
};

/* A line: seconds = latency + bytes / bandwidth. */
struct exchange_line {
    double latency, bandwidth;       /* [s], [bytes/s] */
    double latency_sd, bandwidth_sd; /* standard deviations; the second relative */
    double correlation;              /* of latency and seconds per byte */
    double residual;                 /* root mean square of (measured - line) / measured */
};

/* Start from {0}. */
struct exchanges {
    struct sizes sizes;         /* of one message [bytes]; owned */
    struct exchange_time *time; /* (sizes.count) owned */
    struct exchange_line line;  /* through those */
    int32_t ranks, sweeps;
    double apart;  /* the largest relative difference between two halves of the sweeps; INFINITY:
                        there was one */
    double unsure; /* standard deviation of the log of a time, from those two halves;
                        EXCHANGE_UNKNOWN of one sweep */
};

/* The relative difference of lower quartiles up to which halves of the sweeps agree. */
#define EXCHANGE_AGREE 0.10
/* Beyond this difference, the sweeps are called disturbed.  Our choices. */
#define EXCHANGE_DISTURBED 0.30
/* A relative standard deviation where only one sweep was. */
#define EXCHANGE_UNKNOWN 0.30
enum { EXCHANGE_SWEEPS_LEAST = 4, EXCHANGE_SWEEPS_MOST = 16 };

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
        BASE_NEXT(to->item, to->count) = exchange->sizes.item[i] * ranks;
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
static void conclude_sweeps(struct exchanges *exchange, const double *time, int32_t sweeps)
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
            conclude_sweeps(exchange, time, ++sweeps);
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
        return err_usage(err, "--bytes: a line takes at most %d sizes", SIZES_MOST);
    for (int32_t i = 0, k; i < sizes->count; i++) {
        if (sizes->item[i] % number)
            return err_usage(err, "--bytes: %lld B are not whole %s numbers",
                             (long long)sizes->item[i], dtype_names[options->gradients]);
        for (k = 0; sizes->item[k] != sizes->item[i]; k++)
            ;
        different += k == i;
    }
    return different < 3 ? err_usage(err, "--bytes: a line needs at least three sizes") : 0;
}

/* Measure rounds with messages of @bytes ("1KiB..4MiB:x4") into zeroed @exchange, within the
 * fraction @share of what @budget has left. */
static int exchange_measure(struct exchanges *exchange, const struct exchange_options *options,
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

/* ---- all ranks train ---- */

/* Medians over the iterations of the quickest run of each network and batch, then over those. */
struct training_cost {
    double contention;    /**< how much longer a rank computes than alone, as a fraction */
    double contention_sd; /**< of one run, from all; MACHINE_UNKNOWN of a single one; at least
                               all of it if other processes held ranks up */
    double jitter;        /**< coefficient of variation of a rank's computing in an iteration */
    double launch;        /**< [s] from the last rank's gradients to the update, beyond the rounds
                               of the all-reduce */
    double between;       /**< [s] from an update to the next iteration's first step */
    double foreign;       /**< of the processors, for other processes or the host while they held
                               ranks up: the most of a run; 0: they did not */
    int32_t runs;
};

enum {
    ROUNDS = 3, /* at most; of each, as of the steps alone, the quickest counts */
    STEPS_LEAST = 20,
    STEPS_MOST = 200 /* of a run.  Our choice */
};

/* What is measured, and of what. */
struct cluster {
    struct calibrate_request request;
    int32_t ranks;
    int32_t cores; /* ranks that compute at once, while others wait for their turn; else 0 */
    struct exchanges exchange;
    struct machine alone;
    struct training_cost training;
    const char *gradients;         /* type in which they travel */
    double compute_spread, spread; /* of computing and of a round; relative standard deviations */
    char *device;                  /* the file of the device, as the platform names it; owned */
    char *device_path;             /* the same to write it; NULL: it is not written; owned */
};

/* --- one run --- */

/* What one run says; medians over its iterations. */
struct finding {
    double computing; /* [s] of a rank in an iteration, update included */
    double jitter;    /* coefficient of variation of that */
    double exchange;  /* [s] from the last rank's gradients to the update, beyond the rounds */
    double between;   /* [s] from the update to the next iteration's first step */
    double foreign;   /* of the processors, if others held ranks up; else 0 */
};

/* Of a rank in an iteration [s]; NAN: not traced. */
struct moments {
    double begin, end;               /* of forward and backward */
    double update_begin, update_end; /* once the gradients are summed */
};

static struct moments *find_moments(const struct schedule *schedule, const struct trace *trace)
{
    int64_t count = (int64_t)trace->iterations * trace->ranks;
    struct moments *all = base_alloc(count, sizeof(*all));
    int32_t first = schedule_find(schedule, ROLE_FIRST_FORWARD);
    int32_t last = schedule_find(schedule, ROLE_LAST_BACKWARD);
    int32_t update = schedule_find(schedule, ROLE_OPTIMIZER);
    for (int64_t i = 0; i < count; i++)
        all[i] = (struct moments){NAN, NAN, NAN, NAN};
    for (int64_t i = 0; i < trace->span_count; i++) {
        const struct span *span = &trace->span[i];
        struct moments *at = &all[(int64_t)span->iteration * trace->ranks + span->rank];
        if (span->step == first)
            at->begin = span->begin;
        if (span->step == last)
            at->end = span->end;
        if (span->step == update) {
            at->update_begin = span->begin;
            at->update_end = span->end;
        }
    }
    return all;
}

/* The standard deviation of @value from its middle half: what other processes do is in its ends. */
static double deviation(double *value, int32_t count)
{
    const double normal = 1.349; /* between the quartiles of a normal distribution */
    return (base_quantile(value, count, 0.75) - base_quantile(value, count, 0.25)) / normal;
}

static bool find_medians(const struct schedule *schedule, const struct trace *trace,
                         struct finding *finding)
{
    int32_t ranks = trace->ranks, iterations = 0, most = trace->iterations - 1;
    if (most < 1)
        return false;
    AUTOFREE struct moments *all = find_moments(schedule, trace);
    AUTOFREE double *own = base_alloc((int64_t)most * ranks, sizeof(double));
    AUTOFREE double *apart = base_alloc((int64_t)most * ranks, sizeof(double));
    AUTOFREE double *exchange = base_alloc(most, sizeof(double)),
                    *between = base_alloc(most, sizeof(double));
    for (int32_t i = 0; i < most; i++) {
        const struct moments *now = &all[(int64_t)i * ranks], *next = now + ranks;
        double *mine = &own[(int64_t)iterations * ranks], mean = 0, last = 0, update = 0, gap = 0;
        for (int32_t rank = 0; rank < ranks; rank++) {
            mine[rank] =
                now[rank].end - now[rank].begin + now[rank].update_end - now[rank].update_begin;
            mean += mine[rank] / ranks;
            last = fmax(last, now[rank].end);
            update += now[rank].update_begin / ranks;
            gap += (next[rank].begin - now[rank].update_end) / ranks;
        }
        if (!isfinite(mean + update + gap))
            continue;
        for (int32_t rank = 0; rank < ranks; rank++) /* a mean of n hides 1 / n of a variance */
            apart[(int64_t)iterations * ranks + rank] =
                (mine[rank] - mean) * sqrt(ranks / fmax(ranks - 1, 1));
        exchange[iterations] = update - last;
        between[iterations++] = gap;
    }
    if (iterations > 0) {
        finding->computing = base_quantile(own, iterations * ranks, 0.5);
        finding->jitter = deviation(apart, iterations * ranks) / finding->computing;
        finding->exchange = base_quantile(exchange, iterations, 0.5);
        finding->between = base_quantile(between, iterations, 0.5);
    }
    return iterations > 0;
}

/* What an all-reduce of the run takes by the platform's line. */
static double by_line(const struct schedule *schedule, const struct exchange_line *round)
{
    double seconds = 0, ranks = grid_ranks(schedule->grid);
    for (int32_t i = 0; i < schedule->step_count; i++)
        if (schedule->step[i].kind == STEP_COLLECTIVE)
            seconds += 2 * (ranks - 1) *
                       (round->latency +
                        (double)schedule->step[i].collective.bytes / ranks / round->bandwidth);
    return seconds;
}

/* --- running it --- */

/* A file in memory with a job that no platform matters to.  @return its descriptor, or -1. */
static int write_job(const struct measure_network *network, int64_t batch,
                     const struct calibrate_request *request, struct err *err)
{
    int file = launch_file(err);
    if (file >= 0)
        dprintf(file,
                "version: 1\n"
                "model: {%s,\n"
                "        precision: {compute: %s, gradients: %s}}\n"
                "cluster: {platform: two-core, nodes: 1}\n"
                "training: {dataset: {train_images: 1000000000, validation_images: 1},\n"
                "           phases: [{epochs: 1, batch_per_device: %lld}],\n"
                "           optimizer: {name: %s}, learning_rate: {base: 1e-4}}\n",
                network->keys, dtype_names[request->machine.dtype],
                dtype_names[request->exchange.gradients], (long long)batch, network->optimizer);
    return file;
}

static int run_job(const struct cluster *cluster, const struct validate_request *asked,
                   int32_t steps, struct finding *finding, struct err *err)
{
    AUTORELEASE(job) struct job job = {0};
    struct trace trace = {0};
    struct validate_notes notes;
    struct wish wish = wish_for_ranks(asked->compute.started, asked->compute.started);
    wish.real = true;
    if (job_open(&job, NULL, asked->head.argument.item[0], asked->predict.set.item,
                 asked->predict.set.count, NULL, &wish, err))
        return -1;
    struct schedule **schedule = job_training(&job, err);
    struct point point = {.grid = job.resolved.cluster.grid};
    struct validate_run run = {.request = asked, .point = &point, .steps = steps, .quiet = true};
    bool failed = !schedule || validate_measure(&run, &trace, &notes, err);
    if (!failed && (schedule_hash(schedule[0]) != trace.schedule_hash ||
                    !find_medians(schedule[0], &trace, finding)))
        failed = err_add_code(err, 70, "foretrain-exec did not answer with its steps");
    bool disturbed = !failed && validate_was_disturbed(&notes);
    if (disturbed && cluster->request.strict)
        failed = err_add_code(err, 75,
                              "disturbed: other processes had %.0f %% of the processors while "
                              "ranks trained; try again when fewer other programs run",
                              100 * notes.foreign);
    if (!failed) {
        finding->exchange -= by_line(schedule[0], &cluster->exchange.line);
        finding->foreign = disturbed ? fmax(notes.foreign, notes.steal) : 0;
    }
    trace_release(&trace);
    training_free(&job, schedule);
    return failed ? -1 : 0;
}

/* --- all runs --- */

/* Train network and batch number @trial of those that were measured alone. */
static int run_trial(const struct cluster *cluster, int32_t trial, int32_t steps,
                     struct finding *finding, struct err *err)
{
    const struct calibrate_request *request = &cluster->request;
    const struct measure_list *list = request->list;
    int file = write_job(&list->network[trial % list->networks],
                         list->batch[trial / list->networks], request, err);
    if (file < 0)
        return -1;
    struct validate_request asked = {.compute = request->machine.compute,
                                     .timeout = REQUEST_TIMEOUT};
    asked.compute.started = cluster->cores ? cluster->cores : cluster->ranks;
    texts_add(&asked.head.argument, "/proc/%d/fd/%d", getpid(), file);
    texts_add(&asked.predict.set, "device.fusion=%s", fusion_names[cluster->alone.fusion]);
    int failed = run_job(cluster, &asked, steps, finding, err);
    texts_release(&asked.head.argument);
    texts_release(&asked.predict.set);
    close(file);
    return failed;
}

/* Medians over the runs, into @cost. */
static void conclude(struct training_cost *cost, const struct finding *found,
                     const struct machine *alone)
{
    int32_t n = cost->runs;
    double *value = base_alloc(4 * n, sizeof(*value)), squares = 0;
    for (int32_t i = 0; i < n; i++) {
        value[i] = found[i].computing / alone->trial[i].time_s - 1;
        value[n + i] = found[i].jitter;
        value[2 * n + i] = found[i].exchange;
        value[3 * n + i] = found[i].between;
        cost->foreign = fmax(cost->foreign, found[i].foreign);
    }
    cost->contention = base_quantile(value, n, 0.5);
    for (int32_t i = 0; i < n; i++)
        squares += (value[i] - cost->contention) * (value[i] - cost->contention);
    cost->contention_sd = n > 1 ? sqrt(squares / (n - 1)) : MACHINE_UNKNOWN;
    cost->contention = fmax(cost->contention, 0);
    if (cost->foreign > 0) /* all of it may be theirs */
        cost->contention_sd = fmax(cost->contention_sd, cost->contention);
    cost->jitter = base_quantile(value + n, n, 0.5);
    cost->launch = fmax(base_quantile(value + 2 * n, n, 0.5), 0);
    cost->between = fmax(base_quantile(value + 3 * n, n, 0.5), 0);
    free(value);
}

/* Train what was measured alone, within the part of @budget that has begun. */
static int measure_together(struct cluster *cluster, struct budget *budget, struct err *err)
{
    const struct machine *alone = &cluster->alone;
    AUTOFREE struct finding *found = base_alloc(alone->trials, sizeof(*found));
    double each = budget_of_part(budget) / (ROUNDS * alone->trials);
    int failed = 0;
    for (int32_t run = 0; !failed && run < ROUNDS * alone->trials && budget_next(budget); run++) {
        int32_t i = run % alone->trials; /* batch by batch, as they were measured alone */
        double steps = each / 2 / alone->trial[i].time_s; /* the other half starts and ends it */
        struct finding again = {0};
        failed =
            run_trial(cluster, i, (int32_t)fmin(fmax(steps, STEPS_LEAST), STEPS_MOST), &again, err);
        cluster->training.runs += !failed && run < alone->trials;
        if (!failed && (run < alone->trials || again.computing < found[i].computing))
            found[i] = again;
    }
    if (!failed)
        conclude(&cluster->training, found, alone);
    return failed ? -1 : 0;
}

/* ---- calibrate cluster ---- */

/* --- what is asked for --- */

static int check_machine(struct cluster *cluster, struct err *err)
{
    int32_t cores = cores_available(), threads = cluster->request.machine.compute.threads;
    if (calibrate_check_gpu(&cluster->request, err))
        return -1;
    if (cluster->ranks == 1)
        return err_usage(err, "--ranks: must be at least 2; calibrate device measures one");
    if (!cluster->ranks)
        cluster->ranks = cores / threads;
    if (cluster->ranks < 2)
        return err_usage(err,
                         "--ranks: two of %d thread%s each need more than the %d core%s here; "
                         "use%s --ranks 2 --oversubscribe, or calibrate device",
                         threads, base_plural(threads), cores, base_plural(cores),
                         threads > 1 ? " fewer --threads," : "");
    bool turns = cluster->ranks * threads > cores;
    if (turns && !cluster->request.oversubscribe)
        return err_usage(
            err, "%d ranks of %d thread%s would take turns on %d core%s: use%s --oversubscribe",
            cluster->ranks, threads, base_plural(threads), cores, base_plural(cores),
            cores / threads < 2 ? "" : " fewer, or");
    if (turns && cores < threads)
        return err_usage(err, "%d threads of one rank are more than %d cores", threads, cores);
    cluster->cores = turns ? cores / threads : 0;
    return 0;
}

/* A second file beside the platform's, unless the user gives one. */
static int name_files(struct cluster *cluster, const char *name, struct err *err)
{
    const struct calibrate_request *request = &cluster->request;
    const char *out = request->directory, *slash = out ? strrchr(out, '/') : NULL;
    if (request->device || !out) {
        cluster->device = base_copy(request->device ? request->device : "./device.yaml");
    } else {
        cluster->device = base_format("./%s-device.yaml", name);
        cluster->device_path =
            base_format("%.*s%s-device.yaml", slash ? (int)(slash + 1 - out) : 0, out, name);
    }
    int failed =
        (out && calibrate_check_file(out, request, err)) ||
        (cluster->device_path && (claim_output("out", cluster->device_path, NULL, err) ||
                                  calibrate_check_file(cluster->device_path, request, err)));
    return failed ? -1 : 0;
}

static int open_cluster(struct cluster *cluster, const struct calibrate_request *request,
                        const char *name, struct err *err)
{
    cluster->request = *request;
    cluster->gradients = dtype_names[request->exchange.gradients];
    cluster->ranks = request->machine.compute.started;
    if (name_files(cluster, name, err) || check_machine(cluster, err))
        return -1;
    cluster->request.machine.compute.started = cluster->ranks;
    return 0;
}

/* --- measuring --- */

/* Steps of a rank alone, and what ranks that train together lose beside them. */
static int measure_training(struct cluster *cluster, struct budget *budget, struct err *err)
{
    const struct calibrate_request *request = &cluster->request;
    budget_part(budget, "steps of training", 0.6);
    if (machine_measure(&cluster->alone, &request->machine, request->list, budget, err))
        return -1;
    budget_part(budget, "training with all ranks", 1);
    return measure_together(cluster, budget, err);
}

static int make_device(struct cluster *cluster, struct err *err)
{
    struct calibrate_request request = cluster->request;
    AUTORELEASE(text) struct text talk = {0};
    request.directory = cluster->device_path;
    const struct training_cost *training = &cluster->training;
    struct machine *machine = &cluster->alone;
    machine->together =
        (struct machine_together){training->jitter, training->launch, training->between};
    return request.directory
               ? calibrate_device_of(machine, &request, cluster->compute_spread, &talk, err)
               : 0;
}

/* --- the file --- */

/* The line of the all-reduce's rounds, as in training. */
static void add_link(struct text *out, const struct cluster *cluster, int32_t indent,
                     const char *source)
{
    const struct exchange_line *line = &cluster->exchange.line;
    AUTOFREE char *whole = base_format("rounds of a ring all-reduce of %d ranks in %s with their "
                                       "sums, standard deviation %.0f %%, residual %.0f %%, %s",
                                       cluster->ranks, cluster->gradients, 100 * line->bandwidth_sd,
                                       100 * line->residual, source);
    field_write_quantity(out, indent, "bandwidth", PROVENANCE_MEASURED, cluster->spread, whole,
                         "%.5g GB/s", 1e-9 * line->bandwidth);
    field_write_quantity(out, indent, "efficiency", PROVENANCE_MEASURED, 0,
                         "the bandwidth is what ranks reached", "100 %%");
    field_write_quantity(out, indent, "latency", PROVENANCE_MEASURED, 0, "contained in transport",
                         "0 us");
}

static void add_transport(struct text *out, const struct cluster *cluster, const char *key,
                          const char *source)
{
    const struct exchange_line *line = &cluster->exchange.line;
    AUTOFREE char *whole = base_format("the same line at 0 bytes, standard deviation %.2g us, "
                                       "correlation with the seconds per byte %.2f, %s",
                                       1e6 * line->latency_sd, line->correlation, source);
    field_write_quantity(out, 2, key, PROVENANCE_MEASURED, 0, whole, "%.5g us",
                         1e6 * line->latency);
}

static void write_machine(struct text *out, const struct cluster *cluster, const char *name,
                          const char *source)
{
    text_add(out, CALIBRATE_FILE " cluster.\nversion: 1\n");
    field_write_line(out, 0, "name", name);
    text_add(
        out,
        "description: \"one machine of %d devices that talk through its memory\"\nkind: cluster\n",
        cluster->ranks);
    field_write_line(out, 0, "device", cluster->device);
    text_add(out, "nodes: 1\n\nnode:\n  devices: %d\n  cpus: 1\n", cluster->ranks);
    field_write_quantity(out, 2, "contention", PROVENANCE_MEASURED, 0, source, "%.4g %%",
                         100 * cluster->training.contention);
    if (cluster->cores)
        text_add(out, "  cores: %d # the ranks take turns\n", cluster->cores);
    text_add(out, "  links:\n    - name: memory\n");
    add_link(out, cluster, 6, source);
    text_add(out, "  edges:\n    - {link: memory, connect: [");
    for (int32_t i = 0; i < cluster->ranks; i++)
        text_add(out, "%sgpu%d-cpu0", i ? ", " : "", i);
    text_add(out, "]}\n\n");
    text_add(out, "transport:\n  payload: %s\n", cluster->gradients);
    add_transport(out, cluster, "inside", source);
    field_write_quantity(out, 2, "between", PROVENANCE_ASSUMED, 0, "there is one node", "0 us");
}

static int write_platform(const struct cluster *cluster, const char *name, struct err *err)
{
    AUTORELEASE(text) struct text text = {0};
    const struct calibrate_request *request = &cluster->request;
    AUTOFREE char *steps = calibrate_command(request);
    AUTOFREE char *what =
        base_format("%s%s --bytes %s --gradients %s", steps,
                    cluster->cores ? " --oversubscribe" : "", request->bytes, cluster->gradients);
    AUTOFREE char *source = calibrate_source(what);
    write_machine(&text, cluster, name, source);
    return file_write(request->directory, &text, platform_check_file, err);
}

/* --- the answer --- */

/* Times by size, and those that the file's line gives to the rounds. */
static void print_times(struct text *out, const struct exchanges *exchange)
{
    const struct exchange_line *line = &exchange->line;
    text_add(out, "%-12s %26s %26s", "message", "a round of an all-reduce", "by its line");
    for (int32_t i = 0; i < exchange->sizes.count; i++) {
        const struct exchange_time *time = &exchange->time[i];
        double bytes = (double)time->bytes, predicted = line->latency + bytes / line->bandwidth;
        text_add(out, "\n%-12s %23.1f us %12.1f us, %+6.1f %%", unit_text(UNIT_BYTES, bytes),
                 1e6 * time->seconds, 1e6 * predicted, 100 * (predicted / time->seconds - 1));
    }
}

static void print_people(struct text *out, const struct cluster *cluster)
{
    const struct exchanges *exchange = &cluster->exchange;
    const struct exchange_line *line = &exchange->line;
    const struct training_cost *training = &cluster->training;
    AUTOFREE char *apart =
        isfinite(exchange->apart)
            ? base_format("two halves of the sweeps at most %.0f %% apart", 100 * exchange->apart)
            : base_copy("one sweep: no spread known");
    print_times(out, exchange);
    text_add(out, "\n\n%8.2f us +- %.2f, and %.4g GB/s +- %.0f %%; residual %.0f %%, %s\n",
             1e6 * line->latency, 1e6 * line->latency_sd, 1e-9 * line->bandwidth,
             100 * line->bandwidth_sd, 100 * line->residual, apart);
    text_add(out,
             "ranks that train together compute %.1f %% longer than one alone, spread %.0f %%; "
             "jitter %.1f %%\neach waits %.0f us more for an all-reduce than its rounds, and %.0f "
             "us from an update to the next step\n",
             100 * training->contention, 100 * cluster->compute_spread, 100 * training->jitter,
             1e6 * training->launch, 1e6 * training->between);
    if (training->foreign > 0)
        text_add(out,
                 "other processes had %.0f %% of the processors meanwhile, so all of that may be "
                 "theirs; try again when fewer other programs run\n",
                 100 * training->foreign);
    if (cluster->cores)
        text_add(out, "they take turns: %d compute at once, which is not in that\n",
                 cluster->cores);
    text_add(out, "gradients travelled in %s; lower quartiles of %d sweeps\n", cluster->gradients,
             exchange->sweeps);
    if (cluster->request.directory)
        text_add(out, "written to %s\n", cluster->request.directory);
}

COLUMNS(time_columns, NULL, struct exchange_time)
{
    COLUMN("bytes", bytes, .help = "size of a message");
    COLUMN("time_s", seconds, .help = "lower quartile of the sweeps");
}

COLUMNS(rounds_columns, NULL, struct exchanges)
{
    COLUMN("latency_s", line.latency, .help = "of the line through the times: of no bytes");
    COLUMN("latency_sd", line.latency_sd, .null = true,
           .help = "standard deviation of the latency");
    COLUMN("bandwidth", line.bandwidth, .null = true, .help = "of the line, in bytes per second");
    COLUMN("bandwidth_sd", line.bandwidth_sd, .null = true, .help = "relative standard deviation");
    COLUMN("residual", line.residual, .null = true, .help = "root mean square error, relative");
    COLUMN("apart", apart, .null = true, .help = "how far halves of the sweeps differ; null: one");
    COLUMN("sweeps", sweeps, .help = "sweeps over all sizes");
    COLUMN_ITEMS("messages", time, sizes.count, .table = &time_columns);
}

COLUMNS(training_columns, NULL, struct training_cost)
{
    COLUMN("contention", contention, .help = "how much longer a rank computes than alone");
    COLUMN("jitter", jitter, .help = "coefficient of variation of a rank's computing");
    COLUMN("collective_launch_s", launch, .help = "of an all-reduce, beyond its rounds");
    COLUMN("iteration_overhead_s", between, .help = "from an update to the next step");
    COLUMN("foreign", foreign, .help = "part of the processors that others had meanwhile");
}

SHARED_COLUMNS(machine_cluster_columns, "machine-cluster/2", struct cluster)
{
    COLUMN("ranks", ranks, .help = "ranks that were measured");
    COLUMN("cores", cores, .zero = true, .absent = true,
           .help = "ranks that compute at once, where they take turns");
    COLUMN("written", request.directory, .null = true, .help = "the platform file; null: none");
    COLUMN("gradients", gradients, .help = "type in which they travelled");
    COLUMN_MEMBERS(training, &training_columns);
    COLUMN("compute_spread", compute_spread,
           .help = "relative standard deviation of the times of computing");
    COLUMN("spread", spread, .null = true, .help = "relative standard deviation of a round's time");
    COLUMN_MEMBERS(exchange, &rounds_columns);
}

/* --- the whole --- */

static int measure_all(struct cluster *cluster, struct err *err)
{
    struct budget budget = budget_open(cluster->request.budget, cluster->request.strict);
    int failed = exchange_measure(&cluster->exchange, &cluster->request.exchange,
                                  cluster->request.bytes, cluster->ranks, &budget, 0.25, err);
    if (!failed)
        failed = measure_training(cluster, &budget, err);
    budget_close(&budget);
    const struct exchanges *exchange = &cluster->exchange;
    double n = exchange->sizes.count; /* what the line leaves, or what halves of the sweeps show */
    cluster->spread = fmax(exchange->line.residual * sqrt(n / (n - 2)), exchange->unsure);
    cluster->compute_spread =
        fmax(machine_spread(&cluster->alone), cluster->training.contention_sd);
    return failed ? -1 : 0;
}

int calibrate_cluster(const struct calibrate_request *request, struct text *out, struct err *err)
{
    struct cluster cluster = {0};
    AUTOFREE char *name = request->directory ? request_yaml_name("--out", request->directory, err)
                                             : base_copy("here");
    int failed = !name || open_cluster(&cluster, request, name, err) || measure_all(&cluster, err);
    if (!failed) { /* what was measured is told even if no file can be written */
        failed = make_device(&cluster, err) ||
                 (request->directory && write_platform(&cluster, name, err));
        if (failed)
            cluster.request.directory = NULL;
        if (request->head.json)
            answer_print(out, &machine_cluster_columns, &cluster);
        else
            print_people(out, &cluster);
    }
    free(cluster.exchange.time);
    sizes_release(&cluster.exchange.sizes);
    machine_release(&cluster.alone);
    free(cluster.device);
    free(cluster.device_path);
    return failed ? -1 : 0;
}
