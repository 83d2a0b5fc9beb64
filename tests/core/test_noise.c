/** @file
 * Tests of the noise in core/backend/backend.h: how much longer compute takes, by rank and
 * iteration.
 */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/backend/backend.h"

static void assert_near(double value, double expected, double relative)
{
    if (!(fabs(value - expected) <= relative * fabs(expected)))
        fail_msg("%.17g is not %.17g within %g", value, expected, relative);
}

static void noise_has_the_mean_and_spread_that_were_asked_for(void **state)
{
    (void)state;
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
    assert_near(mean, 1, 4 * 0.1 / sqrt(count));        /* four standard errors */
    assert_near(deviation, 0.1, 4 / sqrt(2.0 * count)); /* likewise */
}

static void noise_depends_on_seed_rank_and_iteration_only(void **state)
{
    (void)state;
    const struct noise noise = {.compute_cv = 0.1, .seed = 7}, other = {.compute_cv = 0.1};
    double factor = noise_factor(&noise, 3, 5);
    assert_true(noise_factor(&noise, 3, 5) == factor);
    assert_true(noise_factor(&noise, 4, 5) != factor);
    assert_true(noise_factor(&noise, 3, 6) != factor);
    assert_true(noise_factor(&other, 3, 5) != factor);
}

static void without_noise_every_factor_is_one(void **state)
{
    (void)state;
    const struct noise none = {.seed = 7};
    assert_true(noise_factor(&none, 3, 5) == 1);
    assert_true(noise_expected_slowest(&none, 1000) == 1);
}

static void stragglers_are_the_asked_share_and_stay_slow(void **state)
{
    (void)state;
    const struct noise noise = {.straggler_fraction = 0.25, .straggler_slowdown = 0.5, .seed = 7};
    const int32_t count = 10000;
    int32_t slow = 0;
    for (int32_t rank = 0; rank < count; rank++) {
        double factor = noise_factor(&noise, rank, 0);
        assert_true(factor == 1 || factor == 1.5);
        assert_true(noise_factor(&noise, rank, 9) == factor);
        slow += factor > 1;
    }
    assert_near(slow, 0.25 * count, 4 * sqrt(0.25 * 0.75 / count) / 0.25);
    assert_true(noise_expected_slowest(&noise, count) == 1.5);
}

/* The stated approximation against the mean of 2000 drawn maxima. */
static void expected_slowest_is_what_draws_give(void **state)
{
    (void)state;
    static const int32_t ranks[] = {1, 2, 8, 64, 1024};
    const struct noise noise = {.compute_cv = 0.05, .seed = 7};
    const int32_t draws = 2000;
    for (int32_t i = 0; i < 5; i++) {
        double sum = 0;
        for (int32_t iteration = 0; iteration < draws; iteration++) {
            double slowest = 0;
            for (int32_t rank = 0; rank < ranks[i]; rank++)
                slowest = fmax(slowest, noise_factor(&noise, rank, iteration));
            sum += slowest;
        }
        assert_near(noise_expected_slowest(&noise, ranks[i]), sum / draws, 0.005);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_has_the_mean_and_spread_that_were_asked_for),
        cmocka_unit_test(noise_depends_on_seed_rank_and_iteration_only),
        cmocka_unit_test(without_noise_every_factor_is_one),
        cmocka_unit_test(stragglers_are_the_asked_share_and_stay_slow),
        cmocka_unit_test(expected_slowest_is_what_draws_give),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
