#include "core/report/report.h"

#include "tests/core/own.h"
#include "tests/test.h"

#define assert_same(value, expected) assert_near(value, expected, 1e-12)

/* --- breakdown --- */

enum { FORWARD, BACKWARD, ROW, COLUMN, INPUT, OPTIMIZER };
static const char letters[] = "fbrcio";

/* A schedule of the six steps above. */
static struct schedule *six_steps(void)
{
    struct schedule *schedule = schedule_new((struct grid){.columns = 2, .rows = 2});
    struct step step[] = {
        {.lane = LANE_COMPUTE, .compute = {.op = COMPUTE_FORWARD}},
        {.lane = LANE_COMPUTE, .compute = {.op = COMPUTE_BACKWARD_FILTER}},
        {.kind = STEP_COLLECTIVE, .lane = LANE_ROW, .collective = {.axis = AXIS_ROW}},
        {.kind = STEP_COLLECTIVE, .lane = LANE_COLUMN, .collective = {.axis = AXIS_COLUMN}},
        {.kind = STEP_INPUT, .lane = LANE_INPUT},
        {.lane = LANE_COMPUTE, .compute = {.op = COMPUTE_OPTIMIZER}},
    };
    for (int32_t i = 0; i < 6; i++)
        schedule_add(schedule, step[i], NULL, 0);
    return schedule;
}

/* Iteration 0 ends at 10 s; in iteration 1 ranks run what @spans say: rank, step, begin, end. */
static struct trace traced(const char *spans)
{
    struct trace trace = {.ranks = 4};
    trace_add(&trace, (struct span){0, 1, OPTIMIZER, 9, 10});
    trace_finish(&trace, 0, 10);
    struct span span = {1, 0, 0, 0, 0};
    char step;
    int length;
    while (sscanf(spans, "%d%c %lf-%lf%n", &span.rank, &step, &span.begin, &span.end, &length) ==
           4) {
        span.step = (int32_t)(strchr(letters, step) - letters);
        trace_add(&trace, span);
        trace_finish(&trace, 1, span.end);
        spans += length;
    }
    assert_int_equal(*spans, 0);
    return trace;
}

static struct breakdown broken_down(struct trace *trace)
{
    OWN(schedule) *schedule = six_steps();
    struct breakdown step =
        report_breakdown(schedule, (struct slowdown){0}, trace, trace_step_time(trace));
    double sum = step.compute + step.exposed_communication + step.input_wait + step.other;
    assert_relative(sum, step.time, 1e-15);
    assert_same(step.exposed_row + step.exposed_column, step.exposed_communication);
    trace_release(trace);
    return step;
}

/* Forward and backward, with both collectives beside backward for 3.5 of its 4 s. */
static const char overlapped[] = "1f 10-12 1b 12-16 1r 12-13 1c 13-15.5 1o 16-17";

TEST(each_second_of_a_step_has_its_cause)
{
    static const struct {
        const char *spans;
        double time, compute, row, column, input, other;
    } cases[] = {
        {overlapped, 7, 6, 0, 0, 0, 1},
        {"1f 10-12 1b 12-14 1r 13-15 1c 15-18 1r 18-18.5 1o 18.5-19", 9, 4, 1.5, 3, 0, 0.5},
        {"1r 10-13 1c 11-12", 3, 0, 2, 1, 0, 0},           /* where both run, the column */
        {"1i 8-11 1f 11-12 1o 12.5-13", 3, 1, 0, 0, 1, 1}, /* begun in the last iteration */
        {"0f 10-19 1f 10-12 1c 12-20", 10, 2, 0, 8, 0, 0}, /* the rank that finishes last */
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct trace trace = traced(cases[i].spans);
        struct breakdown step = broken_down(&trace);
        print_message("%s\n", cases[i].spans);
        assert_same(step.time, cases[i].time);
        assert_same(step.compute, cases[i].compute);
        assert_same(step.exposed_row, cases[i].row);
        assert_same(step.exposed_column, cases[i].column);
        assert_same(step.input_wait, cases[i].input);
        assert_same(step.other, cases[i].other);
    }
}

/* At 2/3 of the speed. */
TEST(what_compute_lost_beside_collectives_is_apart)
{
    OWN(schedule) *schedule = six_steps();
    HELD(trace) trace = traced(overlapped);
    struct breakdown step = report_breakdown(schedule, (struct slowdown){0.5, 0}, &trace, 7);
    assert_same(step.slowed, 3.5 / 3);
    assert_same(step.compute, 6 - 3.5 / 3);
    assert_same(step.other, 1);
}

TEST(a_single_iteration_counts_from_the_start)
{
    struct trace trace = {0};
    trace_add(&trace, (struct span){0, 0, FORWARD, 1, 3});
    trace_finish(&trace, 0, 3);
    struct breakdown step = broken_down(&trace);
    assert_same(step.time, 3);
    assert_same(step.compute, 2);
    assert_same(step.other, 1);
}

/* Whatever overlaps whatever, every instant is counted once. */
TEST(any_trace_sums_to_its_time)
{
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct trace trace = traced("");
        for (uint64_t i = 0; i < 30; i++) {
            double begin = 8 + 5 * base_uniform(seed, i, 0, 0);
            double end = begin + 2 * base_uniform(seed, i, 2, 0);
            int32_t step = (int32_t)(6 * base_uniform(seed, i, 1, 0));
            trace_add(&trace, (struct span){1, 1, step, begin, end});
            trace_finish(&trace, 1, end);
        }
        struct breakdown step = broken_down(&trace);
        assert_true(step.compute >= 0 && step.exposed_row >= 0 && step.exposed_column >= 0);
        assert_true(step.input_wait >= 0 && step.other >= -1e-12);
    }
}

/* --- bottleneck --- */

TEST(names_the_links_that_limit_an_axis)
{
    static const struct link_kind kind[] = {{"fast", 75e9, 1e-6}, {"slow", 25e9, 5e-6}};
    OWN(fabric) *fabric = fabric_lay_torus((struct grid){.columns = 4, .rows = 4}, 2, kind, 0);
    OWN(schedule) *schedule = schedule_new((struct grid){.columns = 4, .rows = 4});
    schedule_add_all_reduce(schedule, ALGORITHM_TORUS2D, 0, 0, 1000, -1);
    assert_string_equal(fabric->tier_name[report_bottleneck(fabric, schedule, AXIS_ROW, NULL)],
                        "fast");
    assert_string_equal(fabric->tier_name[report_bottleneck(fabric, schedule, AXIS_COLUMN, NULL)],
                        "slow");
    assert_int_equal(report_bottleneck(fabric, schedule, AXIS_WORLD, NULL), -1);
}
