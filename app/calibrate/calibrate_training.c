#include "app/calibrate/calibrate_training.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "app/cli/measure_list.h"
#include "app/process/launch.h"
#include "app/validate/validate_run.h"
#include "core/base/base.h"

enum {
    ROUNDS = 3, /* at most; of each, as of the steps alone, the quickest counts */
    STEPS_LEAST = 20,
    STEPS_MOST = 200 /* of a run.  Our choice */
};

/* What all runs have in common. */
struct runs {
    const struct calibrate_request *request;
    const struct machine *alone;
    int32_t ranks;
    const struct exchange_line *round; /* of the platform */
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
                "model: {network: '%s', image: %d, classes: %d,\n"
                "        precision: {compute: %s, gradients: %s}}\n"
                "cluster: {platform: two-core, nodes: 1}\n"
                "training: {dataset: {train_images: 1000000000, validation_images: 1},\n"
                "           phases: [{epochs: 1, batch_per_device: %lld}]}\n",
                network->name, network->image, network->classes,
                dtype_names[request->machine.dtype], dtype_names[request->exchange.gradients],
                (long long)batch);
    return file;
}

static int run_job(const struct runs *runs, const struct validate_request *asked, int32_t steps,
                   struct finding *finding, struct err *err)
{
    AUTORELEASE(job) struct job job = {0};
    struct trace trace = {0};
    struct validate_notes notes;
    struct wish wish = wish_for_ranks(runs->ranks, runs->ranks);
    wish.real = true;
    if (job_open(&job, asked->head.argument.item[0], asked->predict.set.item,
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
    if (disturbed && runs->request->strict)
        failed = err_add_code(err, 75,
                              "disturbed: other processes had %.0f %% of the processors while "
                              "ranks trained; try again when fewer other programs run",
                              100 * notes.foreign);
    if (!failed) {
        finding->exchange -= by_line(schedule[0], runs->round);
        finding->foreign = disturbed ? fmax(notes.foreign, notes.steal) : 0;
    }
    trace_release(&trace);
    training_free(&job, schedule);
    return failed ? -1 : 0;
}

/* --- all runs --- */

static int run_trial(const struct runs *runs, const struct measure_network *network, int64_t batch,
                     int32_t steps, struct finding *finding, struct err *err)
{
    int file = write_job(network, batch, runs->request, err);
    if (file < 0)
        return -1;
    struct validate_request asked = {.compute = runs->request->machine.compute,
                                     .timeout = REQUEST_TIMEOUT};
    AUTOFREE char *path = base_format("/proc/%d/fd/%d", getpid(), file);
    AUTOFREE char *fusion = base_format("device.fusion=%s", runs->alone->fusion);
    asked.compute.started = runs->ranks;
    option_list_add(&asked.head.argument, path);
    option_list_add(&asked.predict.set, fusion);
    int failed = run_job(runs, &asked, steps, finding, err);
    option_list_release(&asked.head.argument);
    option_list_release(&asked.predict.set);
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

int training_measure(struct training_cost *cost, const struct machine *alone,
                     const struct calibrate_request *request, int32_t ranks,
                     const struct exchange_line *round, struct budget *budget, struct err *err)
{
    struct runs runs = {.request = request, .alone = alone, .ranks = ranks, .round = round};
    AUTORELEASE(measure_list) struct measure_list list = {0};
    AUTOFREE struct finding *found = base_alloc(alone->trials, sizeof(*found));
    double each = budget_of_part(budget) / (ROUNDS * alone->trials);
    int failed = measure_list_read(&list, request->machine.networks, request->machine.batches, err);
    *cost = (struct training_cost){0};
    for (int32_t run = 0; !failed && run < ROUNDS * alone->trials && budget_next(budget); run++) {
        int32_t i = run % alone->trials; /* batch by batch, as they were measured alone */
        double steps = each / 2 / alone->trial[i].time_s; /* the other half starts and ends it */
        struct finding again = {0};
        failed = run_trial(&runs, &list.network[i % list.networks], list.batch[i / list.networks],
                           (int32_t)fmin(fmax(steps, STEPS_LEAST), STEPS_MOST), &again, err);
        cost->runs += !failed && run < alone->trials;
        if (!failed && (run < alone->trials || again.computing < found[i].computing))
            found[i] = again;
    }
    if (!failed)
        conclude(cost, found, alone);
    return failed ? -1 : 0;
}
