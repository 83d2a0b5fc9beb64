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
#define EVERY_WIDTH __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
/** Nothing where the compiler cannot. */
#define EVERY_WIDTH
#endif
/** A function that exists only inside others. */
#define INLINE static inline __attribute__((always_inline))

/** e^@x within 3e-7 of itself up to 88; below -87 as there.  Without a branch or a call. */
INLINE float vectors_exp(float x)
{
    const float whole = 0x1.8p23F; /* the sum's low bits are a whole number */
    x = x < -87 ? -87 : x;
    float turns = x * 0x1.715476p0F + whole, n = turns - whole, power, sum = 1;
    float rest = x - n * 0x1.62ep-1F - n * 0x1.0bfbe8p-15F; /* ln 2 in two parts */
#pragma GCC unroll 7
    for (int i = 7; i > 0; i--)
        sum = 1 + sum * rest * (1.0F / (float)i);
    uint32_t bits;
    memcpy(&bits, &turns, sizeof(bits));
    bits = (bits + 127) << 23;
    memcpy(&power, &bits, sizeof(power));
    return sum * power;
}

/** The normal distribution at @x within 3e-7, and @bell: e^(-x^2 / 2).  The polynomial of
 * t = 1 / (1 + 0.3 z) was fitted to e^(z^2) erfc(z) / t for z = |x| / sqrt(2) of 0 to 7. */
INLINE float vectors_normal(float x, float *bell)
{
    static const float fitted[] = {-0.12652065F, 0.469525442F,   -0.475463949F,
                                   0.500342801F, -0.0573037364F, 0.196479365F,
                                   0.15390899F,  0.16977605F,    0.169255673F};
    float t = 1 / (1 + 0.3F * 0.70710678F * (x < 0 ? -x : x)), sum = 0;
#pragma GCC unroll 9
    for (int i = 0; i < 9; i++)
        sum = sum * t + fitted[i];
    *bell = vectors_exp(-0.5F * x * x);
    float tail = 0.5F * *bell * t * sum;
    return x < 0 ? tail : 1 - tail;
}
