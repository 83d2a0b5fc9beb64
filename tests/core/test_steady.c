/** @file
 * What noise is expected to add to a step, against many draws of it.
 */

#include "core/backend/steady.h"

#include <math.h>
#include <stdint.h>

#include "tests/core/own.h"
#include "tests/test.h"

enum { RANKS = 64, DRAWS = 10000 };

static int32_t add(struct schedule *schedule, enum step_kind kind, enum lane lane, int32_t after)
{
    struct dep dep = {.step = after};
    struct step step = {.kind = kind, .lane = lane, .name = "step"};
    if (kind == STEP_COLLECTIVE) {
        step.collective.axis = AXIS_WORLD;
        step.collective.bytes = 1000;
    }
    return schedule_add(schedule, step, &dep, after >= 0);
}

/* Forward, two halves of backward, of which the first one's all-reduce is hidden by the second, and
 * the optimizer.  @exchange is the time of each all-reduce; everything else takes 1 s. */
static struct schedule *overlapped(struct trace *trace, double exchange)
{
    struct err err = {0};
    struct schedule *schedule = schedule_new((struct grid){.columns = RANKS, .rows = 1});
    int32_t first = add(schedule, STEP_COMPUTE, LANE_COMPUTE, -1);
    int32_t early = add(schedule, STEP_COLLECTIVE, LANE_ROW, first);
    int32_t second = add(schedule, STEP_COMPUTE, LANE_COMPUTE, first);
    int32_t late = add(schedule, STEP_COLLECTIVE, LANE_ROW, second);
    add(schedule, STEP_COMPUTE, LANE_COMPUTE, late);
    assert_int_equal(schedule_seal(schedule, &err), 0);
    for (int32_t id = 0; id < schedule->step_count; id++)
        trace_add(trace, (struct span){0, 0, id, 0, id == early || id == late ? exchange : 1});
    trace_finish(trace, 0, 1);
    return schedule;
}

/* The mean of 10,000 draws, within three standard errors, whether the first all-reduce is hidden by
 * all draws, by none, or by some. */
TEST(expectation_is_the_mean_of_draws)
{
    static const double exchange[] = {0.5, 1.03, 2};
    static const struct noise noises[] = {
        {.compute_cv = 0.05},
        {.straggler_fraction = 0.01, .straggler_slowdown = 0.5},
        {.compute_cv = 0.02, .straggler_fraction = 0.005, .straggler_slowdown = 0.2}};
    for (int i = 0; i < 9; i++) {
        HELD(trace) trace = {0};
        OWN(schedule) *schedule = overlapped(&trace, exchange[i % 3]);
        HELD(steady) steady = steady_new(schedule, (struct slowdown){0}, &trace);
        struct noise noise = noises[i / 3];
        double sum = 0, squares = 0;
        for (noise.seed = 1; noise.seed <= DRAWS; noise.seed++) {
            double step = steady_step(&steady, noise_slowest(&noise, RANKS, 0));
            sum += step;
            squares += step * step;
        }
        double mean = sum / DRAWS, error = sqrt((squares / DRAWS - mean * mean) / DRAWS);
        double expected = steady_step(&steady, 1) + steady_waiting(&steady, &noise, RANKS);
        if (!(fabs(expected - mean) < 3 * error))
            fail_msg("case %d: %.9g is not %.9g +- %.3g", i, expected, mean, error);
    }
}

TEST(a_step_is_what_its_longest_chain_takes)
{
    HELD(trace) trace = {0};
    OWN(schedule) *schedule = overlapped(&trace, 0.5);
    HELD(steady) steady = steady_new(schedule, (struct slowdown){0}, &trace);
    assert_true(fabs(steady_step(&steady, 1) - 3.5) < 1e-12);
    assert_true(fabs(steady_step(&steady, 2) - 6.5) < 1e-12);
    struct noise none = {.straggler_fraction = 0.5, .seed = 3};
    assert_true(steady_waiting(&steady, &none, RANKS) == 0);
}
