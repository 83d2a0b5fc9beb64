/** @file
 * Lanes that slow each other down, against a replay by hand.
 */

#include "core/backend/lanes.h"

#include "tests/core/own.h"
#include "tests/test.h"

enum { FIRST, EXCHANGE, SECOND, THIRD, UPDATE, STEPS, ITERATIONS = 2 };

static const double exact = 1e-12;

/* Three steps of compute, the first one's exchange beside the others, and the update after it. */
static struct schedule *overlapped(void)
{
    struct schedule *schedule = schedule_new((struct grid){.columns = 4, .rows = 1});
    add_step(schedule, STEP_COMPUTE, LANE_COMPUTE, -1);
    add_step(schedule, STEP_COLLECTIVE, LANE_ROW, FIRST);
    add_step(schedule, STEP_COMPUTE, LANE_COMPUTE, -1);
    add_step(schedule, STEP_COMPUTE, LANE_COMPUTE, -1);
    add_step(schedule, STEP_COMPUTE, LANE_COMPUTE, EXCHANGE);
    assert_int_equal(schedule_seal(schedule, &err), 0);
    return schedule;
}

/* Compute steps of 1 s; the moments are a replay by hand, in fractions. */
static const struct {
    struct slowdown slowdown;
    double exchange; /* [s] alone */
    double ends[STEPS];
} replays[] = {
    {{0, 0}, 2, {1, 3, 2, 3, 4}},
    {{0, 0}, 4, {1, 5, 2, 3, 6}},
    /* from 1 s on compute goes at 2/3: 1 s of it until 2.5 s, 1/3 s until 3 s, then 2/3 s more */
    {{0.5, 0}, 2, {1, 3, 2.5, 3 + 2 / 3.0, 4 + 2 / 3.0}},
    /* the exchange goes at 4/5 beside compute, until 3.5 s; compute then has 1/3 s to do */
    {{0.5, 0.25}, 2, {1, 3.5, 2.5, 3.5 + 1 / 3.0, 4.5 + 1 / 3.0}},
    /* compute ends at 4 s; the exchange has done 2.4 s of its 4 s */
    {{0.5, 0.25}, 4, {1, 5.6, 2.5, 4, 6.6}},
    {{0, 1}, 4, {1, 6, 2, 3, 7}},
    {{1, 0}, 10, {1, 11, 3, 5, 12}},
};
enum { REPLAYS = sizeof(replays) / sizeof(*replays) };

TEST(steps_end_as_a_replay_by_hand_says)
{
    OWN(schedule) *schedule = overlapped();
    for (int i = 0; i < REPLAYS; i++) {
        struct when when[ITERATIONS * STEPS];
        const double seconds[STEPS] = {1, replays[i].exchange, 1, 1, 1};
        lanes_run(schedule, replays[i].slowdown, seconds, 1, ITERATIONS, when);
        double whole = replays[i].ends[UPDATE];
        for (int32_t k = 0; k < ITERATIONS * STEPS; k++) {
            double expected = k / STEPS * whole + replays[i].ends[k % STEPS];
            if (!(fabs(when[k].end - expected) < exact))
                fail_msg("replay %d, step %d ends at %.15g, not %.15g", i, k, when[k].end,
                         expected);
        }
    }
}

TEST(what_a_step_lost_is_found_in_a_trace)
{
    OWN(schedule) *schedule = overlapped();
    for (int i = 0; i < REPLAYS; i++) {
        struct when when[ITERATIONS * STEPS];
        const double seconds[STEPS] = {1, replays[i].exchange, 1, 1, 1};
        HELD(trace) trace = {0};
        lanes_run(schedule, replays[i].slowdown, seconds, 1, ITERATIONS, when);
        for (int32_t k = 0; k < ITERATIONS * STEPS; k++) {
            trace_add(&trace, (struct span){k / STEPS, 0, k % STEPS, when[k].begin, when[k].end});
            trace_add(&trace, (struct span){k / STEPS, 1, k % STEPS, 0, 100}); /* another rank */
            trace_finish(&trace, k / STEPS, when[k].end);
        }
        AUTOFREE double *alone = lanes_alone(schedule, replays[i].slowdown, &trace);
        for (int32_t id = 0; id < STEPS; id++)
            assert_true(fabs(alone[id] - seconds[id]) < exact);
    }
}

/* Whatever the exchange takes: rates of two things at once add up to at least 1. */
TEST(two_at_once_are_never_slower_than_one_after_the_other)
{
    OWN(schedule) *schedule = overlapped();
    for (int32_t k = 0; k < 1000; k++) {
        double before = 0;
        for (int32_t more = 0; more <= 4; more++) {
            struct when when[STEPS];
            const double seconds[STEPS] = {1, k / 100.0, 1, 1, 1};
            struct slowdown slowdown = {more / 4.0, (k % 5) / 4.0};
            lanes_run(schedule, slowdown, seconds, 1, 1, when);
            assert_true(when[UPDATE].end <= 4 + seconds[EXCHANGE] + exact);
            assert_true(when[UPDATE].end >= before - exact);
            before = when[UPDATE].end;
        }
    }
}

/* A slow-down too small to change a number takes the other way through lanes_run(). */
TEST(both_ways_say_the_same_where_nothing_slows_down)
{
    OWN(schedule) *schedule = overlapped();
    for (int32_t k = 0; k < 1000; k++) {
        struct when free_of_it[ITERATIONS * STEPS], next_to_none[ITERATIONS * STEPS];
        const double seconds[STEPS] = {k % 7 / 3.0, k / 100.0, k % 3, k % 11 / 5.0, k % 2};
        lanes_run(schedule, (struct slowdown){0, 0}, seconds, 1, ITERATIONS, free_of_it);
        lanes_run(schedule, (struct slowdown){1e-300, 1e-300}, seconds, 1, ITERATIONS,
                  next_to_none);
        for (int32_t i = 0; i < ITERATIONS * STEPS; i++) {
            assert_true(fabs(free_of_it[i].begin - next_to_none[i].begin) < exact);
            assert_true(fabs(free_of_it[i].end - next_to_none[i].end) < exact);
        }
    }
}
