#include "core/report/report.h"

#include "tests/core/own.h"
#include "tests/test.h"

#define assert_same(value, expected) assert_near(value, expected, 1e-12)

/* --- breakdown --- */

enum { FORWARD, BACKWARD, ROW, COLUMN, INPUT, OPTIMIZER };

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

/* Iteration 0 ends at 10 s; what rank 1 does in iteration 1 is up to the test. */
static struct trace started(void)
{
    struct trace trace = {.ranks = 4};
    trace_add(&trace, (struct span){0, 1, OPTIMIZER, 9, 10});
    trace_finish(&trace, 0, 10);
    return trace;
}

static void ran(struct trace *trace, int32_t rank, int32_t step, double begin, double end)
{
    trace_add(trace, (struct span){1, rank, step, begin, end});
    trace_finish(trace, 1, end);
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

/* Rank 1 forward and backward, with both collectives beside backward for 3.5 of its 4 s. */
static struct trace overlapped(void)
{
    struct trace trace = started();
    ran(&trace, 1, FORWARD, 10, 12);
    ran(&trace, 1, BACKWARD, 12, 16);
    ran(&trace, 1, ROW, 12, 13);
    ran(&trace, 1, COLUMN, 13, 15.5);
    ran(&trace, 1, OPTIMIZER, 16, 17);
    return trace;
}

TEST(communication_behind_compute_is_not_exposed)
{
    struct trace trace = overlapped();
    struct breakdown step = broken_down(&trace);
    assert_same(step.time, 7);
    assert_same(step.compute, 6);
    assert_same(step.exposed_communication, 0);
    assert_same(step.other, 1);
}

/* At 2/3 of the speed. */
TEST(what_compute_lost_beside_collectives_is_apart)
{
    OWN(schedule) *schedule = six_steps();
    HELD(trace) trace = overlapped();
    struct breakdown step = report_breakdown(schedule, (struct slowdown){0.5, 0}, &trace, 7);
    assert_same(step.slowed, 3.5 / 3);
    assert_same(step.compute, 6 - 3.5 / 3);
    assert_same(step.other, 1);
}

TEST(exposed_communication_belongs_to_the_axis_waited_for)
{
    struct trace trace = started();
    ran(&trace, 1, FORWARD, 10, 12);
    ran(&trace, 1, BACKWARD, 12, 14);
    ran(&trace, 1, ROW, 13, 15);    /* one second exposed */
    ran(&trace, 1, COLUMN, 15, 18); /* three */
    ran(&trace, 1, ROW, 18, 18.5);  /* and a half */
    ran(&trace, 1, OPTIMIZER, 18.5, 19);
    struct breakdown step = broken_down(&trace);
    assert_same(step.compute, 4);
    assert_same(step.exposed_row, 1.5);
    assert_same(step.exposed_column, 3);
    assert_same(step.other, 0.5);
}

TEST(where_both_axes_run_the_column_is_waited_for)
{
    struct trace trace = started();
    ran(&trace, 1, ROW, 10, 13);
    ran(&trace, 1, COLUMN, 11, 12);
    struct breakdown step = broken_down(&trace);
    assert_same(step.exposed_row, 2);
    assert_same(step.exposed_column, 1);
}

TEST(waiting_for_images_is_input_wait)
{
    struct trace trace = started();
    ran(&trace, 1, INPUT, 8, 11); /* begun while the last iteration still ran */
    ran(&trace, 1, FORWARD, 11, 12);
    ran(&trace, 1, OPTIMIZER, 12.5, 13); /* after half a second of nothing */
    struct breakdown step = broken_down(&trace);
    assert_same(step.input_wait, 1);
    assert_same(step.compute, 1);
    assert_same(step.other, 1);
}

TEST(the_rank_that_finishes_last_is_described)
{
    struct trace trace = started();
    ran(&trace, 0, FORWARD, 10, 19);
    ran(&trace, 1, FORWARD, 10, 12);
    ran(&trace, 1, COLUMN, 12, 20);
    struct breakdown step = broken_down(&trace);
    assert_same(step.time, 10);
    assert_same(step.compute, 2);
    assert_same(step.exposed_column, 8);
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
        struct trace trace = started();
        for (uint64_t i = 0; i < 30; i++) {
            double begin = 8 + 5 * base_uniform(seed, i, 0, 0);
            ran(&trace, 1, (int32_t)(6 * base_uniform(seed, i, 1, 0)), begin,
                begin + 2 * base_uniform(seed, i, 2, 0));
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
