/** @file
 * Tests of the noise in core/backend/backend.h: how much longer compute takes, by rank and
 * iteration.
 */

#include "core/backend/backend.h"
#include "core/backend/steady.h"
#include "tests/core/own.h"
#include "tests/test.h"

TEST(noise_has_the_mean_and_spread_that_were_asked_for)
{
    const struct noise noise = {.compute_cv = 0.1, .seed = 7};
    const int32_t count = 40000;
    double sum = 0, squares = 0;
    for (int32_t i = 0; i < count; i++) {
        double factor = noise_factor(&noise, i % 200, i / 200);
        assert_true(factor >= NOISE_FACTOR_MINIMUM);
        sum += factor;
        squares += factor * factor;
    }
    double mean = sum / count, deviation = sqrt(squares / count - mean * mean);
    assert_relative(mean, 1, 4 * 0.1 / sqrt(count));        /* four standard errors */
    assert_relative(deviation, 0.1, 4 / sqrt(2.0 * count)); /* likewise */
}

TEST(noise_depends_on_seed_rank_and_iteration_only)
{
    const struct noise noise = {.compute_cv = 0.1, .seed = 7}, other = {.compute_cv = 0.1};
    double factor = noise_factor(&noise, 3, 5);
    assert_true(noise_factor(&noise, 3, 5) == factor);
    assert_true(noise_factor(&noise, 4, 5) != factor);
    assert_true(noise_factor(&noise, 3, 6) != factor);
    assert_true(noise_factor(&other, 3, 5) != factor);
}

TEST(without_noise_every_factor_is_one)
{
    const struct noise none = {.seed = 7};
    assert_true(noise_factor(&none, 3, 5) == 1);
    assert_true(noise_expected_slowest(&none, 1000) == 1);
}

TEST(stragglers_are_the_asked_share_and_stay_slow)
{
    const struct noise noise = {.straggler_fraction = 0.25, .straggler_slowdown = 0.5, .seed = 7};
    const int32_t count = 10000;
    int32_t slow = 0;
    for (int32_t rank = 0; rank < count; rank++) {
        double factor = noise_factor(&noise, rank, 0);
        assert_true(factor == 1 || factor == 1.5);
        assert_true(noise_factor(&noise, rank, 9) == factor);
        slow += factor > 1;
    }
    assert_relative(slow, 0.25 * count, 4 * sqrt(0.25 * 0.75 / count) / 0.25);
}

/* The mean of 2000 drawn maxima, within three standard errors. */
TEST(expected_slowest_is_what_draws_give)
{
    static const int32_t ranks[] = {1, 2, 8, 64, 1024};
    const struct noise noise = {.compute_cv = 0.05, .seed = 7};
    const int32_t draws = 2000;
    for (int32_t i = 0; i < 5; i++) {
        double sum = 0, squares = 0;
        for (int32_t iteration = 0; iteration < draws; iteration++) {
            double slowest = noise_slowest(&noise, ranks[i], iteration);
            sum += slowest;
            squares += slowest * slowest;
        }
        double mean = sum / draws, deviation = sqrt(squares / draws - mean * mean);
        assert_relative(noise_expected_slowest(&noise, ranks[i]), mean,
                        3 * deviation / sqrt(draws));
    }
}

/* The larger of two lognormals of mean 1 has the mean 2 Phi(s / sqrt 2), s of the logarithm. */
TEST(expected_slower_of_two_has_a_closed_form)
{
    static const double cv[] = {0.001, 0.02, 0.1, 0.5};
    for (int i = 0; i < 4; i++) {
        double sd = sqrt(log1p(cv[i] * cv[i]));
        double expected = 2 * (1 - erfc(sd / sqrt(2) / sqrt(2)) / 2);
        double found = noise_expected_slowest(&(struct noise){.compute_cv = cv[i]}, 2);
        assert_relative(found - 1, expected - 1, 1e-3);
    }
}

static int32_t asked;

/* Straight in three parts, as the time of a step whose communication is hidden at first. */
static double kinked(void *context, double factor)
{
    asked++;
    return fmax(1, fmax(2 * factor - 0.98, 5 * factor - 4));
}

/* E max(1, 2 x - 0.98, 5 x - 4) of a lognormal, from the partial means beyond 0.99 and 3.02 / 3. */
TEST(a_function_that_is_straight_in_parts_is_asked_for_a_few_values)
{
    const struct noise noise = {.compute_cv = 0.02};
    double variance = log1p(0.02 * 0.02), sd = sqrt(variance), expected = 1;
    const double kink[] = {0.99, 3.02 / 3}, slope[] = {2, 3};
    for (int i = 0; i < 2; i++) {
        double d = (variance / 2 - log(kink[i])) / sd;
        expected += slope[i] * (erfc(-d * M_SQRT1_2) - kink[i] * erfc((sd - d) * M_SQRT1_2)) / 2;
    }
    asked = 0;
    assert_relative(noise_expect(&noise, 1, kinked, NULL), expected, 1e-4);
    assert_true(asked < 60);
}

/* At least one of n is slow with probability 1 - (1 - f)^n. */
TEST(stragglers_are_expected_with_their_probability)
{
    struct noise noise = {.straggler_fraction = 0.01, .straggler_slowdown = 0.5};
    double expected = 1 + 0.5 * (1 - pow(0.99, 256));
    assert_relative(noise_expected_slowest(&noise, 256), expected, 1e-12);
    noise.compute_cv = 1e-4;
    assert_relative(noise_expected_slowest(&noise, 256), expected, 1e-3);
    noise.seed = 99;
    assert_relative(noise_expected_slowest(&noise, 256), expected, 1e-3);
}

/** @file
 * What noise is expected to add to a step, against many draws of it.
 */

enum { RANKS = 64, DRAWS = 10000 };

/* Forward, two halves of backward, of which the first one's all-reduce is hidden by the second, and
 * the optimizer.  @exchange is the time of each all-reduce; everything else takes 1 s. */
static struct schedule *overlapped(struct trace *trace, double exchange)
{
    struct schedule *schedule = schedule_new((struct grid){.columns = RANKS, .rows = 1});
    int32_t first = add_step(schedule, STEP_COMPUTE, LANE_COMPUTE, -1);
    int32_t early = add_step(schedule, STEP_COLLECTIVE, LANE_ROW, first);
    int32_t second = add_step(schedule, STEP_COMPUTE, LANE_COMPUTE, first);
    int32_t late = add_step(schedule, STEP_COLLECTIVE, LANE_ROW, second);
    add_step(schedule, STEP_COMPUTE, LANE_COMPUTE, late);
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
