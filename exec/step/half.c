#include "exec/step/half.h"

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "core/base/base.h"
#include "exec/step/half_kernels.h"

const char *const half_isa_names[] = {"portable", "avx2"};
static_assert(ARRAY_SIZE(half_isa_names) == HALF_ISA_COUNT, "one name each");

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

static uint16_t fp16_of(float value)
{
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x47800000) /* 2^16 */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude >= 0x38800000) /* 2^-14: normal; a carry into the exponent is right */
        return (uint16_t)(sign | shift_rounded(magnitude - 0x38000000, 13));
    if (magnitude < 0x33000000) /* 2^-25 */
        return (uint16_t)sign;
    uint32_t exponent = magnitude >> 23, mantissa = (magnitude & 0x7fffff) | 0x800000;
    return (uint16_t)(sign | shift_rounded(mantissa, 126 - exponent));
}

static float float_of_fp16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 0x1f;
    uint32_t mantissa = half & 0x3ff;
    if (exponent == 0x1f)
        return float_of(sign | 0x7f800000 | mantissa << 13 | (mantissa ? 0x400000 : 0));
    if (exponent == 0) {
        float magnitude = (float)mantissa * 0x1p-24F;
        return float_of(sign | bits_of(magnitude));
    }
    return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

static uint16_t bf16_of(float value)
{
    uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)shift_rounded(bits, 16);
}

static float float_of_bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    bool nan = (bits & 0x7fffffff) > 0x7f800000;
    return float_of(nan ? bits | 0x400000 : bits);
}

/* The loops of one type, which differ in two functions only. */
#define CONVERSIONS(type)                                                                          \
    static void type##_from(int64_t count, const float *from, uint16_t *to)                        \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                        \
            to[i] = type##_of(from[i]);                                                            \
    }                                                                                              \
                                                                                                   \
    static void type##_to(int64_t count, const uint16_t *from, float *to)                          \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                        \
            to[i] = float_of_##type(from[i]);                                                      \
    }                                                                                              \
                                                                                                   \
    static void type##_add(int64_t count, const uint16_t *from, float *to)                         \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                        \
            to[i] += float_of_##type(from[i]);                                                     \
    }                                                                                              \
                                                                                                   \
    static void type##_round(int64_t count, float *values)                                         \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                        \
            values[i] = float_of_##type(type##_of(values[i]));                                     \
    }

CONVERSIONS(fp16)
CONVERSIONS(bf16)

static void add(int64_t count, const float *from, float *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] += from[i];
}

static const struct half_kernels half_portable = {
    .fp16 = {fp16_from, fp16_to, fp16_add, fp16_round},
    .bf16 = {bf16_from, bf16_to, bf16_add, bf16_round},
    .add = add,
};

#ifdef __x86_64__
#include <cpuid.h>

static const struct half_kernels *const kernels[] = {&half_portable, &half_avx2};

/* Not all compilers know its name in __builtin_cpu_supports(). */
static bool has_f16c(void)
{
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}

bool half_isa_supported(enum half_isa isa)
{
    return isa == HALF_PORTABLE ||
           (isa == HALF_AVX2 && __builtin_cpu_supports("avx2") && has_f16c());
}
#else
static const struct half_kernels *const kernels[] = {&half_portable, NULL};

bool half_isa_supported(enum half_isa isa)
{
    return isa == HALF_PORTABLE;
}
#endif

static _Atomic(const struct half_kernels *) used;

void half_use(enum half_isa isa)
{
    assert(half_isa_supported(isa));
    atomic_store(&used, kernels[isa]);
}

static const struct half_kernels *chosen(void)
{
    const struct half_kernels *choice = atomic_load_explicit(&used, memory_order_acquire);
    if (!choice) {
        enum half_isa isa = HALF_ISA_COUNT - 1;
        while (!half_isa_supported(isa))
            isa--;
        half_use(isa);
        choice = kernels[isa];
    }
    return choice;
}

static const struct half_conversions *conversions(enum dtype dtype)
{
    assert(dtype == DTYPE_FP16 || dtype == DTYPE_BF16);
    return dtype == DTYPE_FP16 ? &chosen()->fp16 : &chosen()->bf16;
}

void half_from_float(enum dtype dtype, int64_t count, const float *from, void *to)
{
    if (dtype == DTYPE_FP32)
        memcpy(to, from, (size_t)count * sizeof(*from));
    else
        conversions(dtype)->from(count, from, to);
}

void half_to_float(enum dtype dtype, int64_t count, const void *from, float *to)
{
    if (dtype == DTYPE_FP32)
        memcpy(to, from, (size_t)count * sizeof(*to));
    else
        conversions(dtype)->to(count, from, to);
}

void half_add(enum dtype dtype, int64_t count, const void *from, float *accumulator)
{
    if (dtype == DTYPE_FP32)
        chosen()->add(count, from, accumulator);
    else
        conversions(dtype)->add(count, from, accumulator);
}

void half_round(enum dtype dtype, int64_t count, float *values)
{
    if (dtype != DTYPE_FP32)
        conversions(dtype)->round(count, values);
}
