#include "core/backend/noise.h"

#include <math.h>
#include <stdbool.h>

#include "core/base/base.h"

/* What the seeded random numbers are for. */
enum { DRAW_STRAGGLER, DRAW_COMPUTE };

static bool is_straggler(const struct noise *noise, int32_t rank)
{
    return base_uniform(noise->seed, DRAW_STRAGGLER, (uint64_t)rank, 0) < noise->straggler_fraction;
}

/* A lognormal of mean 1 and the given coefficient of variation, at @z standard normals. */
static double lognormal(double cv, double z)
{
    double variance = log1p(cv * cv);
    return fmax(exp(z * sqrt(variance) - variance / 2), NOISE_FACTOR_MINIMUM);
}

double noise_factor(const struct noise *noise, int32_t rank, int32_t iteration)
{
    double factor = is_straggler(noise, rank) ? 1 + noise->straggler_slowdown : 1;
    if (noise->compute_cv > 0)
        factor *= lognormal(noise->compute_cv, base_normal(noise->seed, DRAW_COMPUTE,
                                                           (uint64_t)rank, (uint64_t)iteration));
    return factor;
}

static double normal_quantile(double p)
{
    double low = -40, high = 40;
    for (int i = 0; i < 64; i++) {
        double middle = (low + high) / 2;
        if (erfc(-middle * M_SQRT1_2) / 2 < p)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The expected slowest of @count equal ranks; the mean of one rank. */
static double expected_slowest(double cv, int32_t count)
{
    if (count == 0)
        return 0;
    if (count == 1 || cv <= 0)
        return 1;
    return lognormal(cv, normal_quantile((count - 0.375) / (count + 0.25)));
}

double noise_expected_slowest(const struct noise *noise, int32_t ranks)
{
    int32_t stragglers = 0;
    for (int32_t rank = 0; rank < ranks; rank++)
        stragglers += is_straggler(noise, rank);
    return fmax(expected_slowest(noise->compute_cv, ranks - stragglers),
                expected_slowest(noise->compute_cv, stragglers) * (1 + noise->straggler_slowdown));
}
