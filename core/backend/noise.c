#include "core/backend/noise.h"

#include "core/base/base.h"

const char *const noise_words[] = {"expected", "drawn", "none", NULL};
static_assert(ARRAY_SIZE(noise_words) == NOISE_CHOICE_COUNT + 1, "a word each");

/* What the seeded random numbers are for. */
enum { DRAW_STRAGGLER, DRAW_COMPUTE };

/* A lognormal of mean 1 and the given coefficient of variation, at @z standard normals. */
static double lognormal(double cv, double z)
{
    double variance = log1p(cv * cv);
    return fmax(exp(z * sqrt(variance) - variance / 2), NOISE_FACTOR_MINIMUM);
}

double noise_factor(const struct noise *noise, int32_t rank, int32_t iteration)
{
    double factor =
        base_uniform(noise->seed, DRAW_STRAGGLER, (uint64_t)rank, 0) < noise->straggler_fraction
            ? 1 + noise->straggler_slowdown
            : 1;
    if (noise->compute_cv > 0)
        factor *= lognormal(noise->compute_cv, base_normal(noise->seed, DRAW_COMPUTE,
                                                           (uint64_t)rank, (uint64_t)iteration));
    return factor;
}

double noise_slowest(const struct noise *noise, int32_t ranks, int32_t iteration)
{
    double slowest = 0;
    for (int32_t rank = 0; rank < ranks; rank++)
        slowest = fmax(slowest, noise_factor(noise, rank, iteration));
    return slowest;
}

bool noise_is_any(const struct noise *noise)
{
    return noise->compute_cv > 0 ||
           (noise->straggler_fraction > 0 && noise->straggler_slowdown > 0);
}

/* The probability that @ranks ranks all take at most @factor. */
static double all_within(const struct noise *noise, int32_t ranks, double factor)
{
    double variance = log1p(noise->compute_cv * noise->compute_cv), sd = sqrt(variance);
    double beyond = 0;
    for (int slow = 0; slow < 2; slow++) {
        double share = slow ? noise->straggler_fraction : 1 - noise->straggler_fraction;
        double own = log(factor / (slow ? 1 + noise->straggler_slowdown : 1));
        if (share > 0)
            beyond +=
                share * (sd > 0 ? erfc((own + variance / 2) / sd * M_SQRT1_2) / 2 : own < -1e-12);
    }
    return exp(ranks * log1p(-fmin(beyond, 1)));
}

/* Relative, of what a line misses, which is rounding; and the probability that counts as none. */
#define STRAIGHT   1e-9
#define IMPOSSIBLE 1e-18

enum { STEPS_A_DEVIATION = 16, DEVIATIONS = 8, NODES = 2 * STEPS_A_DEVIATION * DEVIATIONS + 1 };

/* Where the probability changes: @node (2 * NODES) about the factor of fast and of slow ranks, in
 * order.  Returns how many. */
static int32_t find_nodes(const struct noise *noise, double *node)
{
    int32_t count = 0;
    double low = lognormal(noise->compute_cv, -DEVIATIONS);
    double ratio =
        lognormal(noise->compute_cv, 1. / STEPS_A_DEVIATION) / lognormal(noise->compute_cv, 0);
    int kinds = noise->straggler_fraction > 0 && noise->straggler_slowdown > 0 ? 2 : 1;
    for (int slow = 0; slow < kinds; slow++)
        for (int32_t i = 0; i < NODES; i++)
            node[count++] = low * pow(ratio, i) * (slow ? 1 + noise->straggler_slowdown : 1);
    if (kinds > 1)
        base_sort(node, count);
    return count;
}

/* Whether the function has @value[@at], a guess, which becomes what it has. */
static bool guessed(noise_function *function, void *context, const double *node, double *value,
                    int32_t at)
{
    double guess = value[at];
    value[at] = function(context, node[at]);
    return fabs(value[at] - guess) <= STRAIGHT * fabs(guess);
}

/* The function at the nodes between @first and @last, where it is known.  Times are straight in
 * parts: if two nodes within are on the line between both ends, so are the others. */
static void fill(noise_function *function, void *context, const double *node, double *value,
                 int32_t first, int32_t last)
{
    int32_t middle = (first + last) / 2;
    double slope = (value[last] - value[first]) / (node[last] - node[first]);
    for (int32_t i = first + 1; i < last; i++)
        value[i] = value[first] + slope * (node[i] - node[first]);
    if (middle == first || (guessed(function, context, node, value, middle) &&
                            guessed(function, context, node, value, (first + middle) / 2)))
        return;
    fill(function, context, node, value, first, middle);
    fill(function, context, node, value, middle, last);
}

/* With F the distribution of the slowest, E f = f(last) - integral of f' F. */
static double integrate(const struct noise *noise, int32_t ranks, noise_function *function,
                        void *context)
{
    double node[2 * NODES] = {0}, within[2 * NODES] = {0}, value[2 * NODES];
    int32_t last = find_nodes(noise, node) - 1, first = 0;
    for (int32_t i = 0; i <= last; i++)
        within[i] = all_within(noise, ranks, node[i]);
    while (first < last - 1 && within[first + 1] < IMPOSSIBLE)
        first++;
    value[first] = function(context, node[first]);
    double sum = value[last] = function(context, node[last]);
    fill(function, context, node, value, first, last);
    for (int32_t i = first + 1; i <= last; i++)
        sum -= (value[i] - value[i - 1]) * (within[i - 1] + within[i]) / 2;
    return sum;
}

double noise_expect(const struct noise *noise, int32_t ranks, noise_function *function,
                    void *context)
{
    if (!noise_is_any(noise))
        return function(context, 1);
    if (noise->compute_cv > 0)
        return integrate(noise, ranks, function, context);
    double none = all_within(noise, ranks, 1);
    return none * function(context, 1) +
           (1 - none) * function(context, 1 + noise->straggler_slowdown);
}

static double itself(void *context, double factor)
{
    return factor;
}

double noise_expected_slowest(const struct noise *noise, int32_t ranks)
{
    return noise_expect(noise, ranks, itself, NULL);
}
