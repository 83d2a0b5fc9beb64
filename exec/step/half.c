#include "exec/step/half.h"

#include <stdbool.h>

#include "exec/step/vectors.h"

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* @bits without its lower @drop bits, to the nearest, ties to even. */
static uint32_t shift_rounded(uint32_t bits, uint32_t drop)
{
    uint32_t half = UINT32_C(1) << (drop - 1), odd = bits >> drop & 1;
    return (bits + half - 1 + odd) >> drop;
}

/* Without branches, so that loops become vectors.  To 0.5 a number below 2^-14 adds multiples of
 * 2^-24, rounded as subnormals are. */
static uint16_t fp16_of(float value)
{
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    uint32_t normal = shift_rounded(magnitude - 0x38000000, 13); /* a carry is right */
    uint32_t subnormal = bits_of(float_of(magnitude) + 0.5F) - 0x3f000000;
    uint32_t nan = 0x7e00 | (magnitude >> 13 & 0x3ff);
    uint32_t half = magnitude < 0x38800000 ? subnormal : normal; /* 2^-14 */
    half = magnitude >= 0x47800000 ? 0x7c00 : half;              /* 2^16 */
    return (uint16_t)(sign | (magnitude > 0x7f800000 ? nan : half));
}

static float float_of_fp16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fffU;
    uint32_t normal = (magnitude << 13) + 0x38000000, nan = magnitude > 0x7c00 ? 0x400000 : 0;
    uint32_t subnormal = bits_of((float)(int32_t)magnitude * 0x1p-24F);
    uint32_t bits = magnitude < 0x400 ? subnormal : normal;
    return float_of(sign | (magnitude >= 0x7c00 ? 0x7f800000 | magnitude << 13 | nan : bits));
}

static uint16_t bf16_of(float value)
{
    uint32_t bits = bits_of(value);
    bool nan = (bits & 0x7fffffff) > 0x7f800000;
    return (uint16_t)(nan ? bits >> 16 | 0x40 : shift_rounded(bits, 16));
}

static float float_of_bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    bool nan = (bits & 0x7fffffff) > 0x7f800000;
    return float_of(nan ? bits | 0x400000 : bits);
}

/* The loops of one type, which differ in two functions only. */
#define CONVERSIONS(type)                                                                          \
    EVERY_WIDTH static void type##_from(int64_t count, const float *restrict from,                 \
                                        uint16_t *restrict to)                                     \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                        \
            to[i] = type##_of(from[i]);                                                            \
    }                                                                                              \
                                                                                                   \
    EVERY_WIDTH static void type##_to(int64_t count, const uint16_t *restrict from,                \
                                      float *restrict to)                                          \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                        \
            to[i] = float_of_##type(from[i]);                                                      \
    }                                                                                              \
                                                                                                   \
    EVERY_WIDTH static void type##_add(int64_t count, const uint16_t *restrict from,               \
                                       float *restrict to)                                         \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                        \
            to[i] += float_of_##type(from[i]);                                                     \
    }                                                                                              \
                                                                                                   \
    EVERY_WIDTH static void type##_round(int64_t count, float *values)                             \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                        \
            values[i] = float_of_##type(type##_of(values[i]));                                     \
    }

CONVERSIONS(fp16)
CONVERSIONS(bf16)

EVERY_WIDTH static void add(int64_t count, const float *restrict from, float *restrict to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] += from[i];
}

void half_from_float(enum dtype dtype, int64_t count, const float *from, void *to)
{
    if (dtype == DTYPE_FP32)
        memcpy(to, from, (size_t)count * sizeof(*from));
    else
        (dtype == DTYPE_FP16 ? fp16_from : bf16_from)(count, from, to);
}

void half_to_float(enum dtype dtype, int64_t count, const void *from, float *to)
{
    if (dtype == DTYPE_FP32)
        memcpy(to, from, (size_t)count * sizeof(*to));
    else
        (dtype == DTYPE_FP16 ? fp16_to : bf16_to)(count, from, to);
}

void half_add(enum dtype dtype, int64_t count, const void *from, float *accumulator)
{
    if (dtype == DTYPE_FP32)
        add(count, from, accumulator);
    else
        (dtype == DTYPE_FP16 ? fp16_add : bf16_add)(count, from, accumulator);
}

void half_round(enum dtype dtype, int64_t count, float *values)
{
    if (dtype != DTYPE_FP32)
        (dtype == DTYPE_FP16 ? fp16_round : bf16_round)(count, values);
}
