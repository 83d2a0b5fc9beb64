/* AVX2 with F16C: 8 numbers at a time; the rest of an array is processed in a padded copy.
 */

#include "exec/step/half_kernels.h"

#ifdef __x86_64__

#include <immintrin.h>
#include <stddef.h>
#include <string.h>

#define TARGET __attribute__((target("avx2,f16c")))
#define LANES  8

TARGET static __m128i fp16_of(__m256 values)
{
    return _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT);
}

TARGET static __m256 float_of_fp16(__m128i halves)
{
    return _mm256_cvtph_ps(halves);
}

TARGET static __m128i bf16_of(__m256 values)
{
    __m256i bits = _mm256_castps_si256(values), upper = _mm256_srli_epi32(bits, 16);
    __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
    __m256i rounded = _mm256_srli_epi32(
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_UNORD_Q));
    __m256i wide = _mm256_blendv_epi8(rounded, quiet, nan);
    return _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
}

TARGET static __m256 float_of_bf16(__m128i halves)
{
    __m256 values = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
    __m256 quiet = _mm256_castsi256_ps(_mm256_set1_epi32(0x400000));
    __m256 nan = _mm256_cmp_ps(values, values, _CMP_UNORD_Q);
    return _mm256_or_ps(values, _mm256_and_ps(nan, quiet));
}

static size_t bytes(int64_t count, size_t size)
{
    return (size_t)count * size;
}

TARGET static void add(int64_t count, const float *from, float *to)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        _mm256_storeu_ps(to + i, _mm256_add_ps(_mm256_loadu_ps(to + i), _mm256_loadu_ps(from + i)));
    for (; i < count; i++)
        to[i] += from[i];
}

/* The four conversions of one type, which differ in two functions only. */
#define CONVERSIONS(type)                                                                          \
    TARGET static void type##_from(int64_t count, const float *from, uint16_t *to)                 \
    {                                                                                              \
        int64_t i = 0;                                                                             \
        for (; i + LANES <= count; i += LANES)                                                     \
            _mm_storeu_si128((__m128i *)(to + i), type##_of(_mm256_loadu_ps(from + i)));           \
        float rest[LANES] = {0};                                                                   \
        uint16_t half[LANES];                                                                      \
        memcpy(rest, from + i, bytes(count - i, sizeof(*rest)));                                   \
        _mm_storeu_si128((__m128i *)half, type##_of(_mm256_loadu_ps(rest)));                       \
        memcpy(to + i, half, bytes(count - i, sizeof(*half)));                                     \
    }                                                                                              \
                                                                                                   \
    TARGET static void type##_to(int64_t count, const uint16_t *from, float *to)                   \
    {                                                                                              \
        int64_t i = 0;                                                                             \
        for (; i + LANES <= count; i += LANES)                                                     \
            _mm256_storeu_ps(to + i,                                                               \
                             float_of_##type(_mm_loadu_si128((const __m128i *)(from + i))));       \
        uint16_t half[LANES] = {0};                                                                \
        float rest[LANES];                                                                         \
        memcpy(half, from + i, bytes(count - i, sizeof(*half)));                                   \
        _mm256_storeu_ps(rest, float_of_##type(_mm_loadu_si128((const __m128i *)half)));           \
        memcpy(to + i, rest, bytes(count - i, sizeof(*rest)));                                     \
    }                                                                                              \
                                                                                                   \
    TARGET static void type##_add(int64_t count, const uint16_t *from, float *to)                  \
    {                                                                                              \
        int64_t i = 0;                                                                             \
        for (; i + LANES <= count; i += LANES) {                                                   \
            __m256 value = float_of_##type(_mm_loadu_si128((const __m128i *)(from + i)));          \
            _mm256_storeu_ps(to + i, _mm256_add_ps(_mm256_loadu_ps(to + i), value));               \
        }                                                                                          \
        float rest[LANES];                                                                         \
        type##_to(count - i, from + i, rest);                                                      \
        add(count - i, rest, to + i);                                                              \
    }                                                                                              \
                                                                                                   \
    TARGET static void type##_round(int64_t count, float *values)                                  \
    {                                                                                              \
        for (int64_t i = 0; i < count; i += LANES) {                                               \
            uint16_t half[LANES];                                                                  \
            int64_t some = count - i < LANES ? count - i : LANES;                                  \
            type##_from(some, values + i, half);                                                   \
            type##_to(some, half, values + i);                                                     \
        }                                                                                          \
    }

CONVERSIONS(fp16)
CONVERSIONS(bf16)

const struct half_kernels half_avx2 = {
    .fp16 = {fp16_from, fp16_to, fp16_add, fp16_round},
    .bf16 = {bf16_from, bf16_to, bf16_add, bf16_round},
    .add = add,
};

#endif
