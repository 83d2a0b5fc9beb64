/** @file
 * Writes a small trace for test_timeline.py to read back.
 *
 * Usage: example KINETO
 */

#include "core/report/timeline.h"
#include "tests/core/own.h"

static struct schedule *build_schedule(struct err *err)
{
    struct schedule *schedule = schedule_new((struct grid){.columns = 4, .rows = 3});
    struct step input = {.kind = STEP_INPUT, .lane = LANE_INPUT, .name = "input"};
    struct step forward = {.kind = STEP_COMPUTE, .lane = LANE_COMPUTE, .name = "conv1 forward"};
    struct step nasty = {
        .kind = STEP_COMPUTE, .lane = LANE_COMPUTE, .name = "a \"quoted\" \\ name"};
    struct dep dep = {schedule_add(schedule, input, NULL, 0), 0};
    dep.step = schedule_add(schedule, forward, &dep, 1);
    dep.step = schedule_add(schedule, nasty, &dep, 1);
    schedule_add_all_reduce(schedule, ALGORITHM_TORUS2D, 0, 0, 1001, dep.step);
    if (schedule_seal(schedule, err)) {
        schedule_free(schedule);
        return NULL;
    }
    return schedule;
}

/* Step s of iteration i runs for s seconds; input of an iteration one iteration early. */
static void fill(struct trace *trace, const struct schedule *schedule, int32_t rank)
{
    double now = 0, fetched = 0;
    for (int32_t iteration = 0; iteration < 2; iteration++) {
        trace_add(trace, (struct span){iteration, rank, 0, fetched, fetched + 0.25});
        fetched += 0.25;
        now = now < fetched ? fetched : now;
        for (int32_t step = 1; step < schedule->step_count; step++) {
            double end = now + step - 1; /* the first takes no time at all */
            trace_add(trace, (struct span){iteration, rank, step, now, end});
            now = end;
        }
        trace_finish(trace, iteration, now);
    }
}

static int write_kineto(const char *kineto, struct err *err)
{
    OWN(schedule) *schedule = build_schedule(err);
    FILE *out = fopen(kineto, "w");
    HELD(trace) trace = {.backend = "sim", .grain = "full", .ranks = 12};
    if (!schedule || !out)
        return -1;
    trace.schedule_hash = schedule_hash(schedule);
    fill(&trace, schedule, 11);
    fill(&trace, schedule, 5);
    int status = timeline_write_kineto(out, schedule, &trace, err);
    fclose(out);
    return status;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    if (argc != 2 || write_kineto(argv[1], &err)) {
        fprintf(stderr, "%s", err.text ? err.text : "usage: example KINETO\n");
        return 1;
    }
    return 0;
}
