#define OWN_MAIN
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

/* The host's way to compute an element and the loops agree, for every op, shape and type. */
TEST(samples_are_what_loops_compute)
{
    for (int32_t i = 0; i < SHAPES; i++)
        for (enum dtype type = 0; type < DTYPE_COUNT; type++)
            for (enum conv_op op = 0; op < CONV_OP_COUNT; op++) {
                struct conv_sample sample[CONV_SAMPLES];
                struct conv_shape shape = shapes[i];
                shape.type = type;
                HELD(operands) o = operands_of(&shape, 0);
                const void *written = o.array[conv_written(op)];
                conv_loops(op, &shape, &o.call);
                conv_samples(op, &shape, sample);
                for (int32_t k = 0; k < CONV_SAMPLES; k++)
                    assert_true(conv_is_right(type, &sample[k],
                                              operands_element(type, written, sample[k].index)));
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
