#pragma once

/** @file
 * The random and quasi-random numbers of intervals.
 *
 * Both are fixed functions of seed and place on every machine, and are compared with GSL in tests
 * where that is there.
 */

#include <stdint.h>

/** Scramble @x: splitmix64. */
static inline uint64_t random_mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/** What all numbers base_uniform(seed, a, b, ...) have in common. */
static inline uint64_t random_key(uint64_t seed, uint64_t a, uint64_t b)
{
    return random_mix(random_mix(random_mix(seed) ^ a) ^ b);
}

/** Number @c of @key: half a step in, neither 0 nor 1. */
static inline double random_counted(uint64_t key, uint64_t c)
{
    return ((double)(random_mix(key ^ c) >> 12) + 0.5) * 0x1p-52;
}

enum {
    RANDOM_WORDS = 624, /**< of the state of MT19937 */
    RANDOM_LAYERS = 128,
    SOBOL_DIMENSIONS = 32, /**< at most */
    SOBOL_BITS = 30,
};

/** A stream of random numbers.
 * Source: MT19937 (Matsumoto, Nishimura 1998) with the seeding of 2002; normals by the polar method
 * (Marsaglia, Bray 1964), and in layers of equal area (Marsaglia, Tsang 2000). */
struct random {
    uint32_t word[RANDOM_WORDS];
    int32_t next;                   /**< place in `word` */
    double edge[RANDOM_LAYERS + 1]; /**< right ends of the layers from the middle outwards; the
                                         last is what the tail's layer would have as a rectangle */
};

/** Begin @random with @seed. */
void random_start(struct random *random, uint32_t seed);

/** The next 32 bits. */
uint32_t random_bits(struct random *random);

/** A uniform number in [0, 1). */
double random_uniform(struct random *random);

/** A standard normal number. */
double random_normal(struct random *random);

/** Two standard normal numbers with @correlation. */
void random_normals(struct random *random, double correlation, double *a, double *b);

/** A number of Student's t with @freedom (at least 2) degrees of freedom.
 * Source: Marsaglia, Mathematics of Computation 34 (1980); for 2, from its definition, with chi
 * squared after Marsaglia and Tsang, ACM TOMS 26 (2000). */
double random_student(struct random *random, double freedom);

/** Of each dimension but the first: the coefficients of a primitive polynomial as bits, and the
 * direction numbers that it continues (sobol.csv). */
extern const struct sobol_direction {
    uint32_t polynomial, first[7];
} sobol_directions[];

/** Points that fill a cube evenly: Sobol's sequence in Gray code, without the origin.
 * Source: direction numbers of Bratley and Fox, ACM TOMS 14 (1988), algorithm 659. */
struct sobol {
    int32_t dimensions;
    uint32_t count; /**< of points, so far */
    uint32_t direction[SOBOL_DIMENSIONS][SOBOL_BITS];
    uint32_t at[SOBOL_DIMENSIONS]; /**< the last point, times 2^SOBOL_BITS */
};

/** Begin @sobol in so many @dimensions. */
void sobol_start(struct sobol *sobol, int32_t dimensions);

/** The next point, in (0, 1), into @point (dimensions). */
void sobol_next(struct sobol *sobol, double *point);
