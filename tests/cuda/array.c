#include "tests/cuda/array.h"

#include "exec/step/half.h"
#include "tests/cuda/fake/emulate_order.h"

/* ---- arrays ---- */

static size_t size_of(const struct array *array)
{
    return (size_t)array->count * (size_t)dtype_size(array->type);
}

static void *place_of(const struct array *array, int64_t index)
{
    return (char *)array->data + index * dtype_size(array->type);
}

struct array array_blank(enum dtype type, int64_t count)
{
    struct array array = {.type = type, .count = count};
    array.data = base_alloc(count, (size_t)dtype_size(type));
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
        array_set(&array, i, (float)(mean + spread * next_number(&state)));
    return array;
}

struct array array_copy(const struct array *array)
{
    struct array copy = array_blank(array->type, array->count);
    memcpy(copy.data, array->data, size_of(array));
    for (int64_t i = 0; i < copy.count; i++)
        copy.value[i] = array_at(array, i);
    return copy;
}

float array_at(const struct array *array, int64_t index)
{
    float wide;
    half_to_float(array->type, 1, place_of(array, index), &wide);
    return wide;
}

void array_set(struct array *array, int64_t index, float value)
{
    half_from_float(array->type, 1, &value, place_of(array, index));
    array->value[index] = array_at(array, index);
}

void array_release(struct array *array)
{
    free(array->data);
    free(array->value);
}

void array_holds(const char *name, int64_t index, bool holds)
{
    if (!holds)
        fail_msg("%s[%lld] is wrong", name, (long long)index);
}

void array_expect(const char *name, const struct array *array, int64_t index, double want,
                  double error)
{
    /* Half the distance of two neighbours, relative to the smaller. */
    static const double rounding[DTYPE_COUNT] = {0x1p-24, 0x1p-11, 0x1p-8};
    double got = (double)array_at(array, index);
    /* 2^-25: half of what subnormal numbers of fp16 lie apart. */
    double most = rounding[array->type] * fabs(want) + (array->type == DTYPE_FP16 ? 0x1p-25 : 0);
    if (!(fabs(got - want) <= most + error))
        fail_msg("%s[%lld] is %.9g and should be %.9g within %.2g", name, (long long)index, got,
                 want, most + error);
}

void array_expect_same(const char *name, const struct array *a, const struct array *b)
{
    for (int64_t i = 0; i < a->count; i++)
        if (memcmp(place_of(a, i), place_of(b, i), (size_t)dtype_size(a->type)))
            fail_msg("%s[%lld] is %.9g and should be %.9g", name, (long long)i,
                     (double)array_at(a, i), (double)array_at(b, i));
}

/* ---- rows ---- */

/* What is tried just now. */
static const struct size *at;
static enum dtype of;
static bool backwards;

static void check_row(void **state)
{
    const struct row *row = *state;
    for (at = row->sizes; at->text; at++)
        for (of = row->first; of <= row->last; of++) {
            emulate_backwards(backwards);
            row->check(at->of, of);
        }
}

static int tell_size(void **state)
{
    (void)state;
    if (at->text)
        print_error("at (%s) of %s\n", at->text, dtype_names[of]);
    return 0;
}

int rows_run(const struct row *rows, int32_t count)
{
    static struct CMUnitTest tests[64];
    int failed;
    assert_true(count <= (int32_t)ARRAY_SIZE(tests));
    for (int32_t i = 0; i < count; i++)
        tests[i] = (struct CMUnitTest){rows[i].name, check_row, NULL, tell_size, (void *)&rows[i]};
    failed = cmocka_run_group_tests_name("threads in order", tests, NULL, NULL);
    backwards = true;
    return failed + cmocka_run_group_tests_name("threads in reverse", tests, NULL, NULL);
}
