#define OWN_MAIN
#include "exec/cuda/conv/conv_check.h"
#include "exec/step/half.h"
#include "tests/cuda/conv_loops.h"
#include "tests/cuda/conv_operands.h"
#include "tests/cuda/fake/fake_runtime.h"
#include "tests/test.h"

/* What the host expects of a convolution, beside what plain loops compute. */

static const struct conv_shape shapes[] = {
    {DTYPE_FP32, 3, 8, 9, 9, 16, 9, 9, 3, 1, 1},  {DTYPE_FP32, 2, 16, 8, 8, 8, 4, 4, 1, 2, 0},
    {DTYPE_FP16, 2, 8, 14, 14, 8, 7, 7, 7, 2, 3}, {DTYPE_BF16, 5, 24, 1, 1, 16, 1, 1, 1, 1, 0},
    {DTYPE_FP16, 2, 8, 6, 5, 24, 3, 3, 3, 2, 1},
};
enum { SHAPES = ARRAY_SIZE(shapes) };

/* Samples of what was written that are not let through. */
static int32_t wrong_of(enum conv_op op, const struct conv_shape *shape, enum conv_array array,
                        const struct operands *o, struct conv_sample sample[CONV_SAMPLES])
{
    int32_t wrong = 0;
    conv_samples(op, shape, array, sample);
    for (int32_t i = 0; i < CONV_SAMPLES; i++)
        wrong += !conv_is_right(shape->type, &sample[i],
                                operands_element(shape->type, o->array[array], sample[i].index));
    return wrong;
}

/* The host's way to compute an element and the loops agree, for every op, shape and type. */
TEST(samples_are_what_loops_compute)
{
    for (int32_t i = 0; i < SHAPES; i++)
        for (enum dtype type = 0; type < DTYPE_COUNT; type++)
            for (enum conv_op op = 0; op < CONV_OP_COUNT; op++) {
                struct conv_sample sample[CONV_SAMPLES];
                struct conv_shape shape = shapes[i];
                shape.type = type;
                HELD(operands) o = operands_of(op, &shape, 0);
                conv_loops(op, &shape, &o.call);
                assert_int_equal(wrong_of(op, &shape, conv_written(op), &o, sample), 0);
                if (conv_elements(op, &shape, CONV_ARRAY_VALUE))
                    assert_int_equal(wrong_of(op, &shape, CONV_ARRAY_VALUE, &o, sample), 0);
            }
}

/* An element that is off by two units in its last place is not let through; nor is NaN. */
TEST(samples_are_judged_by_the_type)
{
    static const double unit[] = {
        [DTYPE_FP32] = 0x1p-23, [DTYPE_FP16] = 0x1p-10, [DTYPE_BF16] = 0x1p-7};
    for (enum dtype t = 0; t < DTYPE_COUNT; t++) {
        struct conv_sample sample = {.want = 1.0, .size = 1.0};
        assert_true(conv_is_right(t, &sample, 1.0 + unit[t] / 2));
        assert_false(t != DTYPE_FP32 && conv_is_right(t, &sample, 1.0 + 2 * unit[t]));
        assert_false(conv_is_right(t, &sample, 1.0 + 0x1p-16 + unit[t]));
        assert_false(conv_is_right(t, &sample, -1.0));
        assert_false(conv_is_right(t, &sample, (double)strtof("nan", NULL)));
    }
    assert_true(conv_sum_is_right(10000, 0.0, 10000.0, 0.27));
    assert_false(conv_sum_is_right(10000, 0.0, 10000.0, 0.28));
}

/* Change @count numbers in fp16 by a sixteenth. */
static void stretch(int64_t count, uint16_t *numbers)
{
    float wide;
    for (int64_t i = 0; i < count; i++) {
        half_to_float(DTYPE_FP16, 1, &numbers[i], &wide);
        wide *= 1.0625F;
        half_from_float(DTYPE_FP16, 1, &wide, &numbers[i]);
    }
}

/* An engine with another scale, shift or sign is not let through, nor one that is a little off. */
TEST(samples_see_what_is_applied)
{
    static const enum conv_op op[] = {CONV_FORWARD_APPLIED_SUMS, CONV_BACKWARD_FILTER_APPLIED,
                                      CONV_FORWARD_ADD_SUMS, CONV_FORWARD_ADD_TWO_SUMS};
    const struct conv_shape *shape = &shapes[4];
    for (int32_t i = 0; i < 4; i++)
        for (int32_t fault = 0; fault < 5 + conv_ops[op[i]].adds; fault++) {
            HELD(operands) o = operands_of(op[i], shape, 0);
            struct conv_sample sample[CONV_SAMPLES];
            uint16_t *factors = o.array[CONV_ARRAY_FACTORS], *x = o.array[CONV_ARRAY_X];
            for (int32_t c = 0; fault == 1 && c < shape->in_channels; c++)
                factors[c] = 0x3c00; /* scale 1 */
            for (int32_t c = 0; fault == 2 && c < shape->in_channels; c++)
                factors[shape->in_channels + c] = 0;
            for (int64_t k = 0; fault == 3 && k < conv_elements(op[i], shape, CONV_ARRAY_X); k++)
                x[k] &= 0x7fff; /* no sign */
            if (fault == 5)     /* nothing is added */
                memset(o.array[CONV_ARRAY_ADDED], 0,
                       sizeof *x * (size_t)conv_elements(op[i], shape, CONV_ARRAY_ADDED));
            if (fault == 4)
                stretch(2 * (int64_t)shape->in_channels, factors);
            conv_loops(op[i], shape, &o.call);
            int32_t wrong = wrong_of(op[i], shape, conv_written(op[i]), &o, sample);
            assert_true(fault ? wrong >= CONV_SAMPLES / 2 : wrong == 0);
        }
}

/* dx is 0 where the ReLU was, which about half of the samples are; where another gradient is added,
 * the others differ by that. */
TEST(samples_see_what_is_cut)
{
    static const enum conv_op op[] = {CONV_BACKWARD_DATA_NORM, CONV_BACKWARD_DATA_ADD_NORM,
                                      CONV_BACKWARD_DATA_ADD_NORMS};
    const struct conv_shape *shape = &shapes[4];
    for (int32_t k = 0; k < 3; k++) {
        struct conv_sample sample[CONV_SAMPLES];
        HELD(operands) o = operands_of(op[k], shape, 0);
        int32_t cut = 0;
        conv_loops(CONV_BACKWARD_DATA, shape, &o.call); /* without looking at the ReLU */
        int32_t wrong = wrong_of(op[k], shape, CONV_ARRAY_X, &o, sample);
        for (int32_t i = 0; i < CONV_SAMPLES; i++)
            cut += sample[i].want == 0;
        assert_true(cut >= 4 && cut <= CONV_SAMPLES - 4);
        assert_int_equal(wrong, conv_ops[op[k]].adds ? CONV_SAMPLES : cut);
    }
}

/* Nor is an engine let through that leaves out what is added before the ReLU. */
TEST(samples_see_what_ends_a_block)
{
    static const struct {
        enum conv_op op;
        enum conv_array added; /* without it, nothing is */
    } row[] = {{CONV_BACKWARD_DATA_ADD_NORM, CONV_ARRAY_ADDED},
               {CONV_BACKWARD_DATA_ADD_NORMS, CONV_ARRAY_PARAMETER_2}};
    const struct conv_shape *shape = &shapes[4];
    for (int32_t k = 0; k < 2; k++) {
        struct conv_sample sample[CONV_SAMPLES];
        HELD(operands) o = operands_of(row[k].op, shape, 0);
        int64_t count = conv_elements(row[k].op, shape, row[k].added);
        int32_t size = dtype_size(conv_array_type(shape->type, row[k].added));
        memset(o.array[row[k].added], 0, (size_t)(count * size));
        conv_loops(row[k].op, shape, &o.call);
        assert_true(wrong_of(row[k].op, shape, CONV_ARRAY_X, &o, sample) > 0);
    }
}

static int nothing_is_left(void **state)
{
    (void)state;
    return fake_objects() != 0;
}

int main(void)
{
    return cmocka_run_group_tests_name("conv_check", tests, NULL, nothing_is_left);
}
