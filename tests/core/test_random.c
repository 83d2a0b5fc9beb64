#include "core/base/random.h"

#include <math.h>
#include <stdbool.h>

#include "config.h"
#include "core/base/base.h"
#include "tests/test.h"

#if HAVE_GSL
#include <gsl/gsl_qrng.h>
#include <gsl/gsl_randist.h>
#endif

/* Source: C++17, 29.6.5: the 10000th number of mt19937 with its usual seed. */
TEST(bits_are_those_of_the_standard)
{
    struct random random;
    random_start(&random, 5489);
    uint32_t bits = 0;
    for (int i = 0; i < 10000; i++)
        bits = random_bits(&random);
    assert_true(bits == 4123659995);
}

/* Source: any table of Student's t, 5 % on each side. */
TEST(students_numbers_are_as_wide_as_tables_say)
{
    static const struct {
        double freedom, ends;
    } row[] = {{2, 2.920}, {5, 2.015}, {30, 1.697}};
    enum { COUNT = 40000 };
    for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
        struct random random;
        random_start(&random, 1);
        int beyond[2] = {0};
        for (int k = 0; k < COUNT; k++) {
            double t = random_student(&random, row[i].freedom);
            beyond[t > 0] += fabs(t) > row[i].ends;
        }
        for (int side = 0; side < 2; side++) /* five standard deviations of the count */
            assert_true(fabs(beyond[side] - 0.05 * COUNT) < 5 * sqrt(0.05 * 0.95 * COUNT));
    }
}

/* Source: Sobol 1967: the plane's first points. */
TEST(the_first_points_are_known)
{
    static const double first[][2] = {{.5, .5},     {.75, .25},   {.25, .75},  {.375, .375},
                                      {.875, .875}, {.625, .125}, {.125, .625}};
    struct sobol sobol;
    sobol_start(&sobol, 2);
    for (size_t i = 0; i < ARRAY_SIZE(first); i++) {
        double point[2];
        sobol_next(&sobol, point);
        assert_true(point[0] == first[i][0] && point[1] == first[i][1]);
    }
}

/* Each dimension has each 2^k-th of its range once in 2^k points. */
TEST(points_fill_each_dimension_evenly)
{
    enum { COUNT = 256 };
    struct sobol sobol;
    sobol_start(&sobol, SOBOL_DIMENSIONS);
    bool there[SOBOL_DIMENSIONS][COUNT] = {{false}};
    for (int i = 1; i < COUNT; i++) {
        double point[SOBOL_DIMENSIONS];
        sobol_next(&sobol, point);
        for (int d = 0; d < SOBOL_DIMENSIONS; d++) {
            int cell = (int)(point[d] * COUNT);
            assert_true(cell > 0 && !there[d][cell]); /* the first is the origin's */
            there[d][cell] = true;
        }
    }
}

#if HAVE_GSL
TEST(draws_are_those_of_gsl)
{
    struct random random;
    random_start(&random, 1);
    gsl_rng *rng = gsl_rng_alloc(gsl_rng_mt19937);
    gsl_rng_set(rng, 1);
    for (int i = 0; i < 20000; i++) {
        double a, b, x, y;
        random_normals(&random, -0.3, &a, &b);
        gsl_ran_bivariate_gaussian(rng, 1, 1, -0.3, &x, &y);
        assert_near(a, x, 1e-12);
        assert_near(b, y, 1e-12);
        assert_near(random_normal(&random), gsl_ran_gaussian(rng, 1), 1e-12);
        double t = gsl_ran_tdist(rng, 2 + i % 7);
        assert_near(random_student(&random, 2 + i % 7), t, 1e-9 * (1 + fabs(t)));
        assert_true(random_uniform(&random) == gsl_rng_uniform(rng));
    }
    gsl_rng_free(rng);
}

TEST(points_are_those_of_gsl)
{
    struct sobol sobol;
    sobol_start(&sobol, SOBOL_DIMENSIONS);
    gsl_qrng *points = gsl_qrng_alloc(gsl_qrng_sobol, SOBOL_DIMENSIONS);
    for (int i = 0; i < 5000; i++) {
        double own[SOBOL_DIMENSIONS], its[SOBOL_DIMENSIONS];
        sobol_next(&sobol, own);
        gsl_qrng_get(points, its);
        for (int d = 0; d < SOBOL_DIMENSIONS; d++)
            assert_true(own[d] == its[d]);
    }
    gsl_qrng_free(points);
}
#endif
