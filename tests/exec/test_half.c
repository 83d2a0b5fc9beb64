#include "exec/step/half.h"

#include "tests/test.h"

enum { ALL = 1 << 16, RANDOM = 400000 };

static const enum dtype types[] = {DTYPE_FP16, DTYPE_BF16};

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

/* Every third: any bits; near a number that fp16 can hold; between two numbers of 16 bits. */
static float random_float(uint64_t i)
{
    uint32_t bits = (uint32_t)(base_uniform(1, i, 0, 0) * 4294967296.0);
    switch (i % 3) {
    case 0:
        return float_of(bits);
    case 1:
        return ldexpf(float_of((bits & 0x807fffff) | 0x3f800000), (int)(bits % 48) - 28);
    default:
        return float_of((bits & 0xbffff000) | (bits & 1 ? 0x8000 : 0x1000));
    }
}

static float *random_floats(int64_t count)
{
    float *array = base_alloc(count, sizeof(*array));
    for (int64_t i = 0; i < count; i++)
        array[i] = random_float((uint64_t)i);
    return array;
}

static uint16_t half_of(enum dtype dtype, float value)
{
    uint16_t half;
    half_from_float(dtype, 1, &value, &half);
    return half;
}

static float widened(enum dtype dtype, uint16_t half)
{
    float value;
    half_to_float(dtype, 1, &half, &value);
    return value;
}

/* By the definitions of the formats, without bits. */
static double defined(enum dtype dtype, uint16_t half)
{
    int fraction_bits = dtype == DTYPE_FP16 ? 10 : 7, bias = dtype == DTYPE_FP16 ? 15 : 127;
    int exponent = (half & 0x7fff) >> fraction_bits, last = 2 * bias + 1;
    int fraction = half & ((1 << fraction_bits) - 1);
    double sign = half & 0x8000 ? -1 : 1;
    if (exponent == last)
        return fraction ? NAN : sign * INFINITY;
    double magnitude = exponent ? fraction + (1 << fraction_bits) : fraction;
    return sign * ldexp(magnitude, (exponent ? exponent : 1) - bias - fraction_bits);
}

TEST(widens_every_value_as_the_format_defines_it_and_gives_it_back)
{
    for (size_t t = 0; t < 2; t++)
        for (int32_t i = 0; i < ALL; i++) {
            double expected = defined(types[t], (uint16_t)i);
            float value = widened(types[t], (uint16_t)i);
            uint16_t half = half_of(types[t], value);
            assert_true(isnan(expected) ? isnan(value) : (double)value == expected);
            if (!isnan(value))
                assert_int_equal(half, i);
            else
                assert_true(isnan(widened(types[t], half)) && (half & 0x8000) == (i & 0x8000));
        }
}

/* The neighbours of a half are one bit pattern away; past the largest one stands infinity, which
 * rounding takes for the next power of two. */
static double as_neighbour(enum dtype dtype, uint16_t half)
{
    double value = defined(dtype, half);
    return isinf(value) ? copysign(ldexp(1, dtype == DTYPE_FP16 ? 16 : 128), value) : value;
}

static void check_nearest(enum dtype dtype, float value)
{
    uint16_t half = half_of(dtype, value);
    if (isnan(value)) {
        assert_true(isnan(defined(dtype, half)));
        return;
    }
    double largest = as_neighbour(dtype, (uint16_t)(dtype == DTYPE_FP16 ? 0x7c00 : 0x7f80));
    if (fabs((double)value) >= largest) {
        assert_true(isinf(defined(dtype, half)));
        return;
    }
    assert_int_equal(half >> 15, signbit(value) != 0);
    double error = fabs(as_neighbour(dtype, half) - (double)value);
    for (int32_t step = -1; step <= 1; step += 2) {
        uint16_t magnitude = half & 0x7fff;
        if (magnitude == 0 && step < 0)
            continue;
        uint16_t other = (uint16_t)(half + step);
        if (isnan(defined(dtype, other)))
            continue;
        double others = fabs(as_neighbour(dtype, other) - (double)value);
        assert_true(error < others || (error == others && half % 2 == 0));
    }
}

TEST(rounds_to_the_nearest_and_ties_to_even)
{
    for (size_t t = 0; t < 2; t++)
        for (uint64_t i = 0; i < RANDOM; i++)
            check_nearest(types[t], random_float(i));
}

/* And rounding is there and back. */
TEST(gives_the_same_bits_in_arrays_as_alone)
{
    AUTOFREE float *values = random_floats(RANDOM);
    for (size_t t = 0; t < 2; t++) {
        AUTOFREE float *rounded = random_floats(RANDOM);
        AUTOFREE uint16_t *halves = base_alloc(RANDOM, sizeof(*halves));
        half_from_float(types[t], RANDOM, values, halves);
        AUTOFREE float *wide = base_alloc(RANDOM, sizeof(*wide));
        half_to_float(types[t], RANDOM, halves, wide);
        half_round(types[t], RANDOM, rounded);
        assert_memory_equal(rounded, wide, RANDOM * sizeof(*wide));
        for (int32_t i = 0; i < RANDOM; i++) {
            assert_int_equal(halves[i], half_of(types[t], values[i]));
            assert_int_equal(bits_of(wide[i]), bits_of(widened(types[t], halves[i])));
        }
    }
}

/* The blocks of vectors have any length: nothing beside them may change. */
static void check_length(enum dtype dtype, int64_t count)
{
    enum { ROOM = 48 };
    float value[ROOM], wide[ROOM], sum[ROOM];
    uint16_t half[ROOM];
    for (int32_t i = 0; i < ROOM; i++) {
        value[i] = (float)(i - 7);
        wide[i] = sum[i] = -1;
        half[i] = 0xabcd;
    }
    half_from_float(dtype, count, value, half);
    half_to_float(dtype, count, half, wide);
    half_add(dtype, count, half, sum);
    half_add(DTYPE_FP32, count, value, sum);
    for (int32_t i = 0; i < ROOM; i++) {
        bool inside = i < count;
        assert_true(inside ? half[i] == half_of(dtype, value[i]) : half[i] == 0xabcd);
        assert_true(wide[i] == (inside ? value[i] : -1));
        assert_true(sum[i] == (inside ? 2 * value[i] - 1 : -1));
    }
    half_round(dtype, count, value);
    for (int32_t i = 0; i < ROOM; i++)
        assert_true(value[i] == (float)(i - 7));
}

TEST(touches_only_what_it_is_given)
{
    for (size_t t = 0; t < 2; t++)
        for (int64_t count = 0; count <= 40; count++)
            check_length(types[t], count);
}

TEST(fp32_stays_as_it_is)
{
    AUTOFREE float *values = random_floats(RANDOM), *there = random_floats(RANDOM);
    AUTOFREE float *back = base_alloc(RANDOM, sizeof(*back));
    half_from_float(DTYPE_FP32, RANDOM, values, back);
    half_to_float(DTYPE_FP32, RANDOM, back, there);
    half_round(DTYPE_FP32, RANDOM, there);
    assert_memory_equal(there, values, RANDOM * sizeof(*values));
}
