/** @file
 * foretrain-sim: one simulation in one process.  foretrain starts it and reads its trace; it can
 * also be run by hand.
 */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "app/cli/command.h"
#include "app/cli/sizes.h"
#include "app/predict/options.h"
#include "app/process/process.h"
#include "sim/sim.h"

struct simulate_request {
    struct request head;
    struct predict_options predict;
    int32_t phase; /* from 1; 0: the last */
    bool baseline, strong;
    const char *extent; /* "4x8", nodes and devices of each */
    const char *draw;   /* "0.5,0.25": see struct draw; NULL: the centre */
    const char *bytes, *grid, *platform;
    int32_t nodes; /* 0: not given */
    int32_t algorithm, channels;
    const char *chunk;
    bool progress;
};

/* As app/process/progress.h reads it: when the simulation begins, then about once a second. */
static void tell_progress(int64_t done, int64_t total)
{
    static double begin, next;
    double now = (double)clock() / CLOCKS_PER_SEC;
    if (!done)
        begin = next = now;
    if (now < next)
        return;
    next = now + 1.0;
    fprintf(stderr, "progress %lld %lld %.3f\n", (long long)done, (long long)total, now - begin);
}

static int read_extent(const struct simulate_request *request, struct wish *wish, struct err *err)
{
    struct grid extent = {0};
    if (request->extent && grid_parse("--extent", request->extent, &extent, err))
        return -1;
    wish->nodes = extent.columns;
    wish->devices_per_node = extent.rows;
    return 0;
}

/* Into @quantile, of UNKNOWN_LIMIT. */
static int read_draw(const char *text, double *quantile, struct draw *draw, struct err *err)
{
    *draw = (struct draw){quantile, 0};
    for (char *end; text && *text; text = end + (*end == ',')) {
        double value = strtod(text, &end);
        if (end == text || (*end && *end != ',') || !(value >= 0 && value <= 1) ||
            draw->count == UNKNOWN_LIMIT)
            return err_add_code(err, 64, "--draw: expected numbers from 0 to 1 as in 0.5,0.25");
        quantile[draw->count++] = value;
    }
    return 0;
}

/* A phase or the baseline of a job, or a single collective. */
static int read_point(const struct simulate_request *request, struct job *job, struct point *point,
                      struct err *err)
{
    if (!request->bytes) {
        if (!request->head.argument.count)
            return err_add_code(err, 64, "missing JOB; --help says more");
        struct wish wish = predict_wish(&request->predict);
        double quantile[UNKNOWN_LIMIT];
        struct draw draw;
        return read_extent(request, &wish, err) || read_draw(request->draw, quantile, &draw, err) ||
                       job_read(job, request->head.argument.item[0], request->predict.set.item,
                                request->predict.set.count, &draw, err) ||
                       job_resolve(job, &wish, err) ||
                       job_point(job,
                                 request->strong     ? JOB_STRONG
                                 : request->baseline ? JOB_BASELINE
                                                     : request->phase,
                                 point, err)
                   ? -1
                   : 0;
    }
    double bytes;
    struct placement placement = {.nodes = request->nodes,
                                  .order = (enum rank_order)request->predict.order};
    if (unit_parse(UNIT_BYTES, request->bytes, &bytes, err) ||
        (request->grid && grid_parse("--grid", request->grid, &placement.grid, err)))
        return -1;
    job->platform = platform_read(request->platform, err);
    struct all_reduce how = {(enum algorithm)request->algorithm, request->channels, 0};
    if (chunk_read(&how.chunk, request->chunk, err))
        return -1;
    return job->platform
               ? point_collective(point, job->platform, placement, how, (int64_t)bytes, err)
               : -1;
}

/* Not into @out: a full trace of thousands of ranks need not be in memory twice. */
static int simulate(const void *record, struct text *out, struct err *err)
{
    const struct simulate_request *request = record;
    AUTORELEASE(job) struct job job = {0};
    AUTORELEASE(point) struct point point = {0};
    AUTORELEASE(trace) struct trace trace = {0};
    if (read_point(request, &job, &point, err))
        return -1;
    point.run.grain = (enum grain)request->predict.grain;
    if (request->predict.noise != NOISE_DRAWN)
        point.run.noise = (struct noise){0};
    point.run.iterations = predict_iterations(&request->predict, &point.run);
    point.run.traced_ranks = request->predict.traced_ranks;
    point.run.progress = request->progress ? tell_progress : NULL;
    int failed = backend_sim.run(&point.run, point.schedule, &trace, err) ||
                 trace_write(stdout, &trace, err);
    return failed ? -1 : 0;
}

#define AT(member) offsetof(struct simulate_request, member)

static const struct option options[] = {
    ROW_SET(AT(predict.set)),
    ROW_PHASE(AT(phase)),
    ROW_BASELINE(AT(baseline)),
    OPTION_ROW("strong", 0, OPTION_FLAG, AT(strong),
               .help = "The baseline's devices at the phase's global batch"),
    OPTION_ROW("collective", 0, OPTION_TEXT, AT(bytes), "SIZE", NULL,
               "One all-reduce of that size instead of a JOB", "platform"),
    ROW_PLATFORM(AT(platform)),
    ROW_GRID(AT(grid)),
    ROW_NODES(AT(nodes)),
    ROW_ORDER(AT(predict.order)),
    ROW_ALGORITHM(AT(algorithm)),
    ROW_CHANNELS(AT(channels)),
    ROW_CHUNK(AT(chunk)),
    ROW_GRAIN(AT(predict.grain)),
    ROW_ITERATIONS(AT(predict.iterations)),
    ROW_TRACED_RANKS(AT(predict.traced_ranks)),
    ROW_IGNORE_MEMORY(AT(predict.ignore_memory)),
    OPTION_ROW(
        "noise", 0, OPTION_WORD, AT(predict.noise), NULL, noise_words,
        "Jitter and slow ranks: drawn by the seed, or left out (default; foretrain adds what "
        "is expected)"),
    OPTION_ROW("extent", 0, OPTION_TEXT, AT(extent), "NxD", NULL,
               "N nodes with D devices each instead of the scenario's cluster"),
    OPTION_ROW("draw", 0, OPTION_TEXT, AT(draw), "Q,Q,...", NULL,
               "Where in its range each unknown input is, 0 to 1 (default: in its centre)"),
    OPTION_ROW("progress", 0, OPTION_FLAG, AT(progress),
               .help = "Report on stderr once a second: messages done, of all, processor time"),
    ROW_LAST};

static const struct simulate_request defaults = {.predict = {PREDICT_DEFAULTS},
                                                 .algorithm = ALGORITHM_RING};

static const struct command command_simulate = {
    .name = "",
    .synopsis = "JOB [options]\n       foretrain-sim --collective SIZE --platform NAME [options]",
    .help = "simulate one phase of a training job and print the trace: a header, then one line "
            "per span.\nExit codes: 0, 64 usage, 65 bad data, 66 no input, 70 internal",
    .examples =
        "foretrain-sim --phase 1 experiments/01_sony_abci/v1-1088.yaml\n"
        "foretrain-sim --collective 100MB --platform t1-torus --grid 8x8 --algorithm torus2d",
    RECORD(options, struct simulate_request, &defaults),
    TAKES(0, 1),
    .jobs = true,
    .run = simulate,
};

int main(int argc, char **argv)
{
    process_start();
    return command_main("foretrain-sim", &command_simulate, argc - 1, argv + 1);
}
