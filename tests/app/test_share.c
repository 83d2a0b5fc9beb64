#include "app/predict/share.h"

#include "tests/test.h"

enum { DRAWS = 4000, INPUTS = 3 };

static double input[INPUTS][DRAWS], output[DRAWS];

/* Halton's sequence: the digits of @number in @base behind the point, in reverse. */
static double reversed(int32_t number, int32_t base)
{
    double value = 0, digit = 1. / base;
    for (; number; number /= base, digit /= base)
        value += number % base * digit;
    return value;
}

static void draw(void)
{
    static const int32_t base[INPUTS] = {2, 3, 5};
    for (int32_t k = 0; k < DRAWS; k++)
        for (int32_t i = 0; i < INPUTS; i++)
            input[i][k] = reversed(k + 1, base[i]);
}

static void is_share(const double *x, double expected)
{
    double share = share_of(x, output, DRAWS);
    if (fabs(share - expected) > 0.02)
        fail_msg("%f instead of %f", share, expected);
}

/* Ishigami and Homma 1990, a = 7, b = 0.1, on (-pi, pi): S1 = 0.3139, S2 = 0.4424, S3 = 0. */
TEST(ishigami_has_its_indices)
{
    draw();
    for (int32_t k = 0; k < DRAWS; k++) {
        double x[INPUTS];
        for (int32_t i = 0; i < INPUTS; i++)
            x[i] = M_PI * (2 * input[i][k] - 1);
        output[k] = sin(x[0]) + 7 * pow(sin(x[1]), 2) + 0.1 * pow(x[2], 4) * sin(x[0]);
    }
    is_share(input[0], 0.3139);
    is_share(input[1], 0.4424);
    is_share(input[2], 0);
}

/* A choice of two, ten apart, has variance 25; a uniform number of width 12 has 12. */
TEST(a_choice_counts_like_a_number)
{
    draw();
    for (int32_t k = 0; k < DRAWS; k++) {
        input[0][k] = input[0][k] < 0.5 ? 16 : 32;
        output[k] = (input[0][k] > 20 ? 10 : 0) + 12 * input[1][k];
    }
    is_share(input[0], 25. / 37);
    is_share(input[1], 12. / 37);
    is_share(input[2], 0);
}

/* 30 of 400 draws each, 20 times: one is above the noise about once. */
TEST(inputs_without_effect_are_below_the_noise)
{
    enum { FEW = 400, TRIALS = 20, UNRELATED = 30 };
    int32_t above = 0;
    static double x[FEW], y[FEW];
    double noise = share_noise(FEW, UNRELATED);
    for (uint64_t i = 0; i < TRIALS * UNRELATED; i++) {
        for (uint64_t k = 0; k < FEW; k++) {
            x[k] = base_uniform(1, k, i, 0);
            y[k] = exp(sqrt(-2 * log(base_uniform(1, k, i / UNRELATED, 1))) *
                       cos(2 * M_PI * base_uniform(1, k, i / UNRELATED, 2)));
        }
        above += share_of(x, y, FEW) > noise;
    }
    assert_in_range(above, 0, 6);
    for (uint64_t k = 0; k < FEW; k++)
        y[k] = 0.5 * x[k] + base_uniform(1, k, 0, 3); /* 0.2 of the variance */
    assert_true(share_of(x, y, FEW) > noise);
}

TEST(what_does_not_vary_has_no_shares)
{
    draw();
    for (int32_t k = 0; k < DRAWS; k++)
        output[k] = 3;
    assert_true(isnan(share_of(input[0], output, DRAWS)));
    for (int32_t k = 0; k < DRAWS; k++) {
        output[k] = input[0][k];
        input[1][k] = 1;
    }
    is_share(input[0], 1);
    is_share(input[1], 0);
}
