#include "tests/cuda/array.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/base.h"
#include "exec/step/half.h"

static size_t size_of(const struct array *array)
{
    return (size_t)array->count * (size_t)dtype_size(array->type);
}

struct array array_blank(enum dtype type, int64_t count)
{
    struct array array = {.type = type, .count = count};
    array.data = base_alloc(count, dtype_size(type));
    array.value = base_alloc(count, sizeof(*array.value));
    memset(array.data, 0xff, size_of(&array));
    return array;
}

/* Cheap, and all that a test of arithmetic needs: the sum of three uniform numbers. */
static double next_number(uint64_t *state)
{
    double sum = -1.5;
    for (int32_t i = 0; i < 3; i++) {
        *state = *state * 6364136223846793005U + 1442695040888963407U;
        sum += (double)(*state >> 40) * 0x1p-24;
    }
    return 2 * sum; /* the variance of the sum is 1 / 4 */
}

struct array array_random(enum dtype type, int64_t count, uint64_t seed, double mean, double spread)
{
    struct array array = array_blank(type, count);
    uint64_t state = seed * 0x9e3779b97f4a7c15U;
    for (int64_t i = 0; i < count; i++)
        array.value[i] = (float)(mean + spread * next_number(&state));
    if (type == DTYPE_FP32)
        memcpy(array.data, array.value, size_of(&array));
    else
        half_from_float(type, count, array.value, array.data);
    array_widen(&array);
    return array;
}

struct array array_copy(const struct array *array)
{
    struct array copy = array_blank(array->type, array->count);
    memcpy(copy.data, array->data, size_of(array));
    array_widen(&copy);
    return copy;
}

const float *array_widen(struct array *array)
{
    if (array->type == DTYPE_FP32)
        memcpy(array->value, array->data, size_of(array));
    else
        half_to_float(array->type, array->count, array->data, array->value);
    return array->value;
}

void array_free(struct array *array)
{
    free(array->data);
    free(array->value);
    *array = (struct array){0};
}

double array_rounding(enum dtype type)
{
    static const double half[DTYPE_COUNT] = {
        [DTYPE_FP32] = 0x1p-24, [DTYPE_FP16] = 0x1p-11, [DTYPE_BF16] = 0x1p-8};
    return half[type];
}

void array_expect(const char *what, int64_t index, enum dtype type, float got, double want,
                  double error)
{
    /* 2^-25: half of what subnormal numbers of fp16 lie apart. */
    double most = array_rounding(type) * fabs(want) + (type == DTYPE_FP16 ? 0x1p-25 : 0) + error;
    if (!(fabs((double)got - want) <= most))
        fail_msg("%s[%lld] of %s is %.9g and should be %.9g within %.2g", what, (long long)index,
                 dtype_names[type], (double)got, want, most);
}
