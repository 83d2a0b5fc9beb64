#include "core/base/random.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

/* ---- MT19937 ---- */

void random_start(struct random *random, uint32_t seed)
{
    *random = (struct random){.word = {seed}, .next = RANDOM_WORDS};
    uint32_t *word = random->word;
    for (uint32_t i = 1; i < RANDOM_WORDS; i++)
        word[i] = 1812433253 * (word[i - 1] ^ word[i - 1] >> 30) + i;

    /* All layers have the area of the outermost, whose tail lies below an exponential; each ends
     * where the density of the one above begins. */
    const double tail = 3.44428647676;
    double density = exp(-tail * tail / 2), area = density * (tail + 1 / tail), x = tail;
    random->edge[RANDOM_LAYERS] = area / density;
    for (int32_t i = RANDOM_LAYERS - 1; i > 0; i--) {
        random->edge[i] = x;
        density += area / x;
        x = i > 1 ? sqrt(-2 * log(density)) : 0;
    }
}

static void renew(uint32_t *word)
{
    enum { AHEAD = 397 };
    for (int32_t i = 0; i < RANDOM_WORDS; i++) {
        uint32_t mixed =
            (word[i] & 0x80000000) | (word[(i + 1) % RANDOM_WORDS] & UINT32_C(0x7fffffff));
        word[i] = word[(i + AHEAD) % RANDOM_WORDS] ^ mixed >> 1 ^ (mixed & 1 ? 0x9908b0df : 0);
    }
}

uint32_t random_bits(struct random *random)
{
    if (random->next == RANDOM_WORDS) {
        renew(random->word);
        random->next = 0;
    }
    uint32_t bits = random->word[random->next++];
    bits ^= bits >> 11;
    bits ^= bits << 7 & 0x9d2c5680;
    bits ^= bits << 15 & 0xefc60000;
    return bits ^ bits >> 18;
}

double random_uniform(struct random *random)
{
    return random_bits(random) * 0x1p-32;
}

/* ---- distributions ---- */

void random_normals(struct random *random, double correlation, double *a, double *b)
{
    double u, v, square;
    do {
        u = 2 * random_uniform(random) - 1;
        v = 2 * random_uniform(random) - 1;
        square = u * u + v * v;
    } while (square > 1 || square == 0);
    double scale = sqrt(-2 * log(square) / square);
    *a = u * scale;
    *b = (correlation * u + sqrt(1 - correlation * correlation) * v) * scale;
}

double random_normal(struct random *random)
{
    double unused, normal;
    random_normals(random, 0, &unused, &normal);
    return normal;
}

static double density_at(double x)
{
    return exp(-x * x / 2);
}

/* A standard normal number by its layers; 7 bits choose the layer, one the sign, 24 the place. */
static double layered_normal(struct random *random)
{
    const double *edge = random->edge, tail = edge[RANDOM_LAYERS - 1];
    for (;;) {
        uint32_t bits = random_bits(random);
        int32_t layer = (int32_t)(bits % RANDOM_LAYERS);
        double x = (bits >> 8) * 0x1p-24 * edge[layer + 1], y;
        double sign = bits & RANDOM_LAYERS ? 1 : -1;
        if (x < edge[layer])
            return sign * x;
        if (layer < RANDOM_LAYERS - 1) {
            double low = density_at(edge[layer + 1]);
            y = low + (density_at(edge[layer]) - low) * random_uniform(random);
        } else {
            x = tail - log(1 - random_uniform(random)) / tail;
            y = exp(-tail * (x - tail / 2)) * random_uniform(random);
        }
        if (y < density_at(x))
            return sign * x;
    }
}

/* Chi squared with two degrees of freedom: twice a gamma of shape 1. */
static double chi_squared(struct random *random)
{
    const double d = 1 - 1 / 3., c = 1 / 3. / sqrt(d);
    for (;;) {
        double x = layered_normal(random), v = pow(1 + c * x, 3);
        if (v <= 0)
            continue;
        double u = random_uniform(random);
        if (u < 1 - 0.0331 * pow(x, 4) || log(u) < x * x / 2 + d * (1 - v + log(v)))
            return 2 * d * v;
    }
}

double random_student(struct random *random, double freedom)
{
    assert(freedom >= 2);
    double normal, weight, exponential;
    if (freedom <= 2) {
        normal = random_normal(random);
        return normal / sqrt(chi_squared(random) / 2);
    }
    do {
        normal = random_normal(random);
        weight = 1 - normal * normal / (freedom - 2);
        exponential = -log1p(-random_uniform(random)) / (freedom / 2 - 1);
    } while (weight < 0 || exp(weight - 1 - exponential) > weight);
    return normal / sqrt((1 - 2 / freedom) * weight);
}

/* ---- Sobol's points ---- */

/* Number @i of @row: of those before it, those that the polynomial names. */
static uint32_t next_direction(const uint32_t *number, int32_t i, uint32_t polynomial)
{
    int32_t degree = 0;
    while (polynomial >> (degree + 1))
        degree++;
    uint32_t next = number[i - degree];
    for (int32_t k = 1; k <= degree; k++)
        if (polynomial >> (degree - k) & 1)
            next ^= number[i - k] << k;
    return next;
}

void sobol_start(struct sobol *sobol, int32_t dimensions)
{
    assert(dimensions >= 1 && dimensions <= SOBOL_DIMENSIONS);
    *sobol = (struct sobol){.dimensions = dimensions};
    for (int32_t d = 0; d < dimensions; d++) {
        uint32_t number[SOBOL_BITS] = {0}, polynomial = d ? sobol_directions[d - 1].polynomial : 1;
        for (int32_t i = 0; i < SOBOL_BITS; i++) {
            bool given = !d || polynomial >> (i + 1);
            number[i] = !d      ? 1
                        : given ? sobol_directions[d - 1].first[i]
                                : next_direction(number, i, polynomial);
            sobol->direction[d][i] = number[i] << (SOBOL_BITS - 1 - i);
        }
    }
}

void sobol_next(struct sobol *sobol, double *point)
{
    int32_t bit = 0;
    while (sobol->count >> bit & 1)
        bit++;
    sobol->count++;
    for (int32_t d = 0; d < sobol->dimensions; d++) {
        sobol->at[d] ^= sobol->direction[d][bit];
        point[d] = sobol->at[d] * (1. / (1 << SOBOL_BITS));
    }
}
