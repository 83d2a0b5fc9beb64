/* AVX-512F: 16 numbers at a time; the rest of an array goes through a mask. */

#include "exec/step/half_kernels.h"

#ifdef __x86_64__

#include <immintrin.h>

#define TARGET __attribute__((target("avx512f")))
#define LANES  16

TARGET static __mmask16 mask_of(int64_t left)
{
    return (__mmask16)(left >= LANES ? 0xffff : (1U << left) - 1);
}

/* AVX-512F alone can mask numbers of 16 bits only after widening them. */
TARGET static __m512i load_halves(__mmask16 mask, const uint16_t *from)
{
    if (mask == 0xffff)
        return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)from));
    uint16_t copy[LANES] = {0};
    for (int i = 0; mask >> i; i++)
        copy[i] = from[i];
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)copy));
}

TARGET static void store_halves(__mmask16 mask, __m512i halves, uint16_t *to)
{
    _mm512_mask_cvtepi32_storeu_epi16(to, mask, halves);
}

TARGET static __m512i fp16_of(__m512 values)
{
    return _mm512_cvtepu16_epi32(_mm512_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
}

TARGET static __m512 float_of_fp16(__m512i halves)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(halves));
}

/* As integers, since the instruction for bf16 would flush subnormals. */
TARGET static __m512i bf16_of(__m512 values)
{
    const __m512i one = _mm512_set1_epi32(1);
    __m512i bits = _mm512_castps_si512(values), upper = _mm512_srli_epi32(bits, 16);
    __m512i odd = _mm512_and_si512(upper, one);
    __m512i rounded = _mm512_srli_epi32(
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    __mmask16 nan = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
    return _mm512_mask_or_epi32(rounded, nan, upper, _mm512_set1_epi32(0x40));
}

TARGET static __m512 float_of_bf16(__m512i halves)
{
    __m512i bits = _mm512_slli_epi32(halves, 16);
    __m512 values = _mm512_castsi512_ps(bits);
    __mmask16 nan = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
    return _mm512_castsi512_ps(_mm512_mask_or_epi32(bits, nan, bits, _mm512_set1_epi32(0x400000)));
}

TARGET static void add(int64_t count, const float *from, float *to)
{
    for (int64_t i = 0; i < count; i += LANES) {
        __mmask16 mask = mask_of(count - i);
        __m512 sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to + i),
                                   _mm512_maskz_loadu_ps(mask, from + i));
        _mm512_mask_storeu_ps(to + i, mask, sum);
    }
}

/* The four conversions of one type, which differ in two functions only. */
#define CONVERSIONS(type)                                                                          \
    TARGET static void type##_from(int64_t count, const float *from, uint16_t *to)                 \
    {                                                                                              \
        for (int64_t i = 0; i < count; i += LANES) {                                               \
            __mmask16 mask = mask_of(count - i);                                                   \
            store_halves(mask, type##_of(_mm512_maskz_loadu_ps(mask, from + i)), to + i);          \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    TARGET static void type##_to(int64_t count, const uint16_t *from, float *to)                   \
    {                                                                                              \
        for (int64_t i = 0; i < count; i += LANES) {                                               \
            __mmask16 mask = mask_of(count - i);                                                   \
            _mm512_mask_storeu_ps(to + i, mask, float_of_##type(load_halves(mask, from + i)));     \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    TARGET static void type##_add(int64_t count, const uint16_t *from, float *to)                  \
    {                                                                                              \
        for (int64_t i = 0; i < count; i += LANES) {                                               \
            __mmask16 mask = mask_of(count - i);                                                   \
            __m512 sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to + i),                        \
                                       float_of_##type(load_halves(mask, from + i)));              \
            _mm512_mask_storeu_ps(to + i, mask, sum);                                              \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    TARGET static void type##_round(int64_t count, float *values)                                  \
    {                                                                                              \
        for (int64_t i = 0; i < count; i += LANES) {                                               \
            __mmask16 mask = mask_of(count - i);                                                   \
            __m512 value = _mm512_maskz_loadu_ps(mask, values + i);                                \
            _mm512_mask_storeu_ps(values + i, mask, float_of_##type(type##_of(value)));            \
        }                                                                                          \
    }

CONVERSIONS(fp16)
CONVERSIONS(bf16)

const struct half_kernels half_avx512 = {
    .fp16 = {fp16_from, fp16_to, fp16_add, fp16_round},
    .bf16 = {bf16_from, bf16_to, bf16_add, bf16_round},
    .add = add,
};

#endif
