/* Kernels of a batch norm and ReLU whose value is never written: convolutions apply them. */
#include "exec/cuda/kernels/kernels.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/base.h"
#include "tests/cuda/array.h"
#include "tests/test.h"

/* The shift makes up for what rounding does to the scale: the mean of y is right to a rounding of
 * the shift, however large that of x. */
TEST(factors_as_fp16_are_the_numbers_in_use)
{
    enum { CHANNELS = 264, ROWS = 10 };
    struct array sums = array_blank(DTYPE_FP32, 2 * CHANNELS);
    struct array parameter = array_random(DTYPE_FP32, 2 * CHANNELS, 2, 1, 1);
    struct array statistics = array_blank(DTYPE_FP32, 2 * CHANNELS);
    struct array factors = array_blank(DTYPE_FP32, 2 * CHANNELS);
    struct array halves = array_blank(DTYPE_FP16, 2 * CHANNELS);
    float *sum = sums.data;
    for (int32_t c = 0; c < CHANNELS; c++) {
        float mean = (float)(c - CHANNELS / 2);
        sum[c] = ROWS * mean;
        sum[CHANNELS + c] = ROWS * (mean * mean + 4);
    }
    kernel_statistics(NULL, ROWS, CHANNELS, 0, 1, sums.data, parameter.data,
                      (struct kernel_running){0}, statistics.data, factors.data, halves.data);
    const float *f = array_widen(&factors), *h = array_widen(&halves);
    assert_memory_equal(f, h, 2 * CHANNELS * sizeof *f);
    for (int32_t c = 0; c < CHANNELS; c++) {
        double scale = (double)parameter.value[c] / 2, mean = (double)sum[c] / ROWS;
        double shift = (double)parameter.value[CHANNELS + c] - (double)f[c] * mean;
        array_expect("scale", c, DTYPE_FP16, h[c], scale, 0);
        array_expect("shift", c, DTYPE_FP16, h[CHANNELS + c], shift, 1e-6 * fabs(shift));
    }
    struct array *all[] = {&sums, &parameter, &statistics, &factors, &halves};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        array_free(all[i]);
}

/* What two ways to go backward leave. */
struct way {
    struct array partial, gradient, factors, dx;
    int32_t count;
};

/* Arrays of one backward pass. */
struct backward {
    enum dtype type;
    int64_t rows;
    int32_t channels;
    struct array x, dy, statistics, parameter;
};

static struct way go(const struct backward *b, struct kernel_cut cut)
{
    struct way way = {.partial =
                          array_blank(DTYPE_FP32, (int64_t)2 * b->channels * KERNEL_PARTIALS),
                      .gradient = array_blank(DTYPE_FP32, 2 * b->channels),
                      .factors = array_blank(DTYPE_FP32, 3 * b->channels),
                      .dx = array_blank(b->type, b->rows * b->channels)};
    way.count = kernel_backward_sums(NULL, b->type, b->rows, b->channels, b->dy.data, NULL, cut,
                                     b->x.data, b->statistics.data, NULL, way.partial.data);
    kernel_backward_factors(NULL, b->rows, b->channels, way.count, way.partial.data,
                            b->parameter.data, b->statistics.data, way.gradient.data,
                            way.factors.data);
    kernel_backward_apply(NULL, b->type, b->rows, b->channels, b->dy.data, cut, b->x.data,
                          way.factors.data, way.dx.data, (struct kernel_packed){0});
    return way;
}

static void way_free(struct way *way)
{
    array_free(&way->partial);
    array_free(&way->gradient);
    array_free(&way->factors);
    array_free(&way->dx);
}

/* Cut by the factors of the forward pass, or by the mask that it wrote: the same bits. */
static void check(enum dtype type, int64_t rows, int32_t channels)
{
    int64_t count = rows * channels;
    struct backward b = {.type = type,
                         .rows = rows,
                         .channels = channels,
                         .x = array_random(type, count, 1, 0.5, 2),
                         .dy = array_random(type, count, 2, 0.1, 1),
                         .statistics = array_random(DTYPE_FP32, 2 * channels, 3, 0.5, 0.1),
                         .parameter = array_random(DTYPE_FP32, 2 * channels, 4, 1, 1)};
    struct array forward = array_random(DTYPE_FP32, 2 * channels, 5, 0, 1);
    struct array y = array_blank(type, count);
    uint32_t *bits = base_alloc((count + 31) / 32, sizeof(*bits));
    kernel_apply(NULL, type, rows, channels, b.x.data, forward.data, NULL, NULL, 1, bits, y.data);
    struct way mask = go(&b, (struct kernel_cut){.mask = bits});
    struct way again = go(&b, (struct kernel_cut){.factors = forward.data});
    assert_int_equal(mask.count, again.count);
    assert_memory_equal(mask.partial.data, again.partial.data,
                        (size_t)mask.count * 2 * (size_t)channels * sizeof(float));
    assert_memory_equal(mask.dx.data, again.dx.data, (size_t)count * (size_t)dtype_size(type));
    way_free(&mask);
    way_free(&again);
    struct array *all[] = {&b.x, &b.dy, &b.statistics, &b.parameter, &forward, &y};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        array_free(all[i]);
    free(bits);
}

/* One row, channels that do not fill a warp, more than one warp's width, several slices. */
TEST(gradients_need_no_mask)
{
    static const struct {
        int64_t rows;
        int32_t channels;
    } shapes[] = {{1, 8}, {37, 24}, {777, 64}, {131, 264}, {9001, 8}};
    for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++)
        for (int32_t type = 0; type < DTYPE_COUNT; type++)
            check((enum dtype)type, shapes[s].rows, shapes[s].channels);
}
