#pragma once

/** @file
 * Loops that become vectors: one source, compiled for several instruction sets.
 *
 * C11 without GNU extensions contracts no multiply-add, so all give the same bits.  Under the
 * thread sanitizer there is one: a program that chooses between several does not start.
 */

#include <stdint.h>
#include <string.h>

/* Else comparisons keep loops from becoming vectors; it changes no bits. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "no-trapping-math")
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
/** A function that is compiled for every width of vector registers. */
#define EVERY_WIDTH __attribute__((target_clones("avx512f", "avx2", "default")))
#else
/** Nothing where the compiler cannot. */
#define EVERY_WIDTH
#endif
/** A function that exists only inside others. */
#define INLINE static inline __attribute__((always_inline))

/** e^@x within 1e-14 of itself up to 700; below -700 as there.  Without a branch or a call. */
INLINE double vectors_exp(double x)
{
    const double whole = 0x1.8p52; /* the sum's low bits are a whole number */
    x = x < -700 ? -700 : x;
    double turns = x * 0x1.71547652b82fep0 + whole, n = turns - whole, power, sum = 1;
    double rest = x - n * 0x1.62e42feep-1 - n * 0x1.a39ef35793c76p-33; /* ln 2 in two parts */
#pragma GCC unroll 12
    for (int i = 12; i > 0; i--)
        sum = 1 + sum * rest * (1.0 / i);
    uint64_t bits;
    memcpy(&bits, &turns, sizeof(bits));
    bits = (bits + 1023) << 52;
    memcpy(&power, &bits, sizeof(power));
    return sum * power;
}

/** The normal distribution at @x within 1e-10, and @bell: e^(-x^2 / 2).  The polynomial of
 * t = 1 / (1 + 0.3 z) was fitted to e^(z^2) erfc(z) / t for z = |x| / sqrt(2) of 0 to 7. */
INLINE double vectors_normal(double x, double *bell)
{
    static const double fitted[] = {0.0579217376472, -0.346847795106, 0.783809538956,
                                    -0.90516304851,  0.841927369628,  -0.332225920316,
                                    0.291302134943,  0.102205404109,  0.169304458936,
                                    0.168473447138,  0.169292672675};
    double t = 1 / (1 + 0.3 * 0.70710678118654752 * (x < 0 ? -x : x)), sum = 0;
#pragma GCC unroll 11
    for (int i = 0; i < 11; i++)
        sum = sum * t + fitted[i];
    *bell = vectors_exp(-0.5 * x * x);
    double tail = 0.5 * *bell * t * sum;
    return x < 0 ? tail : 1 - tail;
}
