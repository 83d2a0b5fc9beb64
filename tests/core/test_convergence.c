/** @file
 * Epochs to a target against the batch, against values from outside the program.
 */

#include "core/convergence/convergence.h"

#include "tests/test.h"

TEST(every_recipe_has_points_and_every_row_a_recipe)
{
    for (const char *const *recipe = convergence_recipes; *recipe; recipe++) {
        struct convergence curve = convergence_of(*recipe);
        assert_true(curve.count >= 3 && curve.target > 0.7 && curve.target < 0.8);
        for (int32_t i = 1; i < curve.count; i++)
            assert_true(curve.point[i].batch > curve.point[i - 1].batch);
    }
    for (const struct convergence_row *row = convergence_rows; row->recipe; row++) {
        const char *const *recipe = convergence_recipes;
        while (*recipe && strcmp(*recipe, row->recipe) != 0)
            recipe++;
        assert_non_null(*recipe);
        assert_true(row->source && *row->source);
    }
    for (const struct convergence_accuracy *row = convergence_accuracies; row->work; row++)
        assert_true(row->source && row->accuracy > 0.7 && row->accuracy < 0.8);
}

TEST(passes_through_its_points)
{
    struct convergence curve = convergence_of("rcp-nvidia");
    assert_near(convergence_epochs(&curve, 1632).epochs, 35, 1e-12);
    assert_near(convergence_epochs(&curve, 1632).spread, 1.118, 1e-12);
    assert_near(convergence_epochs(&curve, 13056).epochs, 45.4, 1e-12);
    assert_near(convergence_epochs(&curve, 67840).epochs, 85.8571, 1e-12);
}

/* By hand: 45.4 + (68 - 45.4) (32768 - 13056) / (49152 - 13056), and so on. */
TEST(follows_straight_lines_between_them)
{
    static const struct {
        const char *recipe;
        int64_t batch;
        double epochs;
    } expected[] = {
        {"rcp-nvidia", 2448, 35.1},     {"rcp-nvidia", 8160, 40.3},
        {"rcp-nvidia", 32768, 57.7418}, {"rcp-nvidia", 60000, 80.6447},
        {"rcp-google", 16384, 46.6667}, {"rcp-google", 49152, 70.25},
        {"v0.7", 2464, 38.5},           {"v0.7", 3296, 41.0},
    };
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
        struct convergence curve = convergence_of(expected[i].recipe);
        assert_near(convergence_epochs(&curve, expected[i].batch).epochs, expected[i].epochs, 1e-4);
    }
}

TEST(more_images_never_need_fewer_epochs)
{
    static const char *const monotone[] = {"rcp-nvidia", "rcp-google", "v0.5", "v0.6", "v0.7"};
    for (int i = 0; i < 5; i++) {
        struct convergence curve = convergence_of(monotone[i]);
        double last = 0;
        for (int64_t batch = 64; batch < 200000; batch += 64) {
            double epochs = convergence_epochs(&curve, batch).epochs;
            assert_true(epochs >= last * (1 - 1e-12));
            last = epochs;
        }
    }
}

/* By a search over 4001 values of Bc, in another program. */
TEST(fits_the_reference_points)
{
    struct convergence_fit fit = convergence_fit();
    assert_near(fit.epochs, 34.695, 0.01);
    assert_near(fit.batch, 47098, 60); /* neighbours of the search are 108 apart */
    assert_near(fit.median, 0.03535, 2e-4);
    assert_near(fit.largest, 0.07528, 2e-4);
    assert_near(fit.rms, 0.04589, 2e-4);
}

/* Beyond the last point 34.695 / 47098 epochs for each image more, before the first one in
 * proportion to the formula, and a spread that grows. */
TEST(goes_on_by_the_formula)
{
    struct convergence curve = convergence_of("rcp-nvidia");
    assert_false(convergence_is_outside(&curve, 1632));
    assert_false(convergence_is_outside(&curve, 67840));
    assert_true(convergence_is_outside(&curve, 1631));
    assert_true(convergence_is_outside(&curve, 67841));
    struct convergence_need twice = convergence_epochs(&curve, 135680);
    assert_near(twice.epochs, 85.8571 + 34.695 * 67840 / 47098, 0.05);
    assert_near(twice.spread, hypot(0.6506, 0.04589 * 135.83 * sqrt(4 * 0.5)), 0.05);
    assert_near(convergence_epochs(&curve, 816).epochs, 35. * (47098 + 816) / (47098 + 1632), 0.01);
}

/* Just the error of the fit midway between points a factor of 4 apart; half of it at a factor of
 * sqrt(2), whose bridge has a quarter of the variance. */
TEST(spreads_most_between_points)
{
    struct convergence curve = {.count = 0};
    convergence_add(&curve, (struct convergence_point){1000, 40, 1});
    convergence_add(&curve, (struct convergence_point){4000, 50, 2});
    assert_near(convergence_epochs(&curve, 2000).epochs, 40 + 10. / 3, 1e-9);
    assert_near(convergence_epochs(&curve, 2000).spread, hypot(1.5, 0.04589 * 130 / 3), 0.01);
    struct convergence near = {.count = 0};
    convergence_add(&near, (struct convergence_point){10000, 40, 1});
    convergence_add(&near, (struct convergence_point){14142, 50, 2});
    assert_near(convergence_epochs(&near, 11892).spread, hypot(1.5, 0.04589 * 45 / 2), 0.01);
    struct convergence alone = {.count = 0};
    convergence_add(&alone, (struct convergence_point){1000, 40, 0});
    assert_near(convergence_epochs(&alone, 1000).epochs, 40, 1e-12);
    assert_near(convergence_epochs(&alone, 1000).spread, 0.858, 0.001); /* of the ten points */
}

TEST(a_run_ends_at_an_evaluation)
{
    enum { MANY = 100000 };
    double sum = 0;
    for (int i = 0; i < MANY; i++) {
        double epochs = convergence_end(35.2, 4, (i + 0.5) / MANY);
        assert_true(epochs >= 35 && fmod(epochs - 35, 4) == 0);
        sum += epochs;
    }
    assert_near(sum / MANY, 35 + 4 * 0.112, 0.005);
}
