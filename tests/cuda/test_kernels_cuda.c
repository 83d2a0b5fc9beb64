/* Kernels of batch norm against what they are to compute: plain loops, and exec/cpu/ops_naive.h. */
#include "exec/cuda/kernels/kernels.h"

#include "exec/cpu/ops_naive.h"
#include "exec/step/half.h"
#include "tests/cuda/array.h"
#include "tests/cuda/fake/emulate_order.h"

/* ---- batch norm ---- */

/* Rows, channels: one row, odd numbers of rows, channels that do not fill a warp, more than one
 * warp's width, several slices, and slices with several rows per thread. */
static const struct size matrices[] = {
    SIZE(1, 8),     SIZE(3, 16),    SIZE(37, 24),  SIZE(200, 72),  SIZE(777, 64),
    SIZE(49, 2048), SIZE(131, 264), SIZE(9001, 8), SIZE(3001, 40), {0}};

/* Slack of sums that may have gathered rounding errors of 2^-24, of numbers up to 20. */
static const double slack = 1e-5;

static struct array floats(int64_t count, uint64_t seed, double mean)
{
    return array_random(DTYPE_FP32, count, seed, mean, 1);
}

static struct array partials(int32_t channels)
{
    return array_blank(DTYPE_FP32, (int64_t)2 * channels * KERNEL_PARTIALS);
}

static bool passes(const uint32_t *mask, int64_t i)
{
    return mask[i / 32] >> i % 32 & 1;
}

/* NHWC is NCHW where images are single pixels. */
static struct layer pixels(int32_t channels)
{
    return (struct layer){.out = {channels, 1, 1}};
}

static void statistics_from_sums(const int32_t *size, enum dtype type)
{
    const double epsilon = 1e-5, rows = size[0];
    const int32_t channels = size[1];
    const struct layer layer = pixels(channels);
    HELD(array) x = array_random(type, (int64_t)rows * channels, 1, 0.5, 2);
    HELD(array) partial = partials(channels), parameter = floats(2 * channels, 2, 1);
    HELD(array) statistics = array_blank(DTYPE_FP32, 2 * channels);
    HELD(array) factors = array_copy(&statistics), before = floats(2 * channels, 3, 1);
    HELD(array) running = array_copy(&before), y = array_blank(DTYPE_FP32, x.count);
    float *s = statistics.value, *mean = running.data, *variance = mean + channels;
    int32_t count = kernel_sums(NULL, type, size[0], channels, x.data, partial.data);
    assert_in_range(count, 1, KERNEL_PARTIALS);
    kernel_statistics(NULL, size[0], channels, epsilon, count, partial.data, parameter.data,
                      (struct kernel_running){mean, variance, 0.9F, 0.1F}, statistics.data,
                      factors.data);
    naive_batch_norm(&layer, size[0], epsilon, x.value, parameter.value, s, y.value);
    for (int32_t c = 0; c < channels; c++) {
        double inverse = (double)s[channels + c], scale = (double)parameter.value[c] * inverse;
        double unbiased = (1 / inverse / inverse - epsilon) * (rows > 1 ? rows / (rows - 1) : 0);
        /* A variance of 0 is what rounding leaves of a square and its equal: about 1e-7 of it. */
        expect(statistics, c, (double)s[c], 1e-6);
        expect(statistics, channels + c, inverse, rows > 1 ? 4e-6 * inverse : inverse);
        expect(running, c, 0.9 * (double)before.value[c] + 0.1 * (double)s[c], 1e-6);
        expect(running, channels + c, 0.9 * (double)before.value[channels + c] + 0.1 * unbiased,
               slack);
        if (rows == 1)
            continue;
        expect(factors, c, scale, slack * (1 + fabs(scale)));
        expect(factors, channels + c, (double)parameter.value[channels + c] - scale * (double)s[c],
               slack * (1 + fabs(scale)));
    }
}

static void inference(const int32_t *size, enum dtype type)
{
    const int32_t channels = size[0];
    HELD(array) parameter = floats(2 * channels, 1, 1), mean = floats(channels, 2, 0);
    HELD(array) variance = array_random(type, channels, 3, 2, 0.2);
    HELD(array) factors = array_blank(type, 2 * channels);
    kernel_inference(NULL, channels, 1e-3, parameter.data, mean.data, variance.data, factors.data);
    for (int32_t c = 0; c < channels; c++) {
        double scale = (double)parameter.value[c] / sqrt((double)variance.value[c] + 1e-3);
        double shift = (double)parameter.value[channels + c] - scale * (double)mean.value[c];
        expect(factors, c, scale, 0);
        expect(factors, channels + c, shift, 1e-7);
    }
}

static void apply(const int32_t *size, enum dtype type)
{
    static const struct {
        bool bias, residual, scaled, relu, masked, in_place;
    } cases[] = {{0},
                 {.relu = true, .in_place = true},
                 {.masked = true},
                 {.residual = true, .relu = true},
                 {.residual = true, .masked = true, .in_place = true},
                 {.residual = true, .scaled = true, .masked = true},
                 {.bias = true, .relu = true, .masked = true}};
    const int64_t rows = size[0], channels = size[1], count = rows * channels;
    HELD(array) x = array_random(type, count, 1, 0, 1);
    HELD(array) residual = array_random(type, count, 2, 0, 1);
    HELD(array) factors = floats(2 * channels, 3, 0), others = floats(2 * channels, 4, 0);
    const float *shift = factors.value + channels, *more = others.value + channels;
    for (size_t k = 0; k < ARRAY_SIZE(cases); k++) {
        HELD(array) y = cases[k].in_place ? array_copy(&x) : array_blank(type, count);
        AUTOFREE uint32_t *bits = base_alloc((count + 31) / 32, sizeof(*bits));
        uint32_t *mask = cases[k].masked ? bits : NULL;
        const void *in = cases[k].in_place ? y.data : x.data;
        kernel_apply(NULL, type, rows, size[1], in, cases[k].bias ? NULL : factors.value, shift,
                     cases[k].residual ? residual.data : NULL,
                     cases[k].scaled ? others.value : NULL, cases[k].relu, mask, y.data);
        for (int64_t i = 0; i < count; i++) {
            int64_t c = i % channels;
            double want = (double)x.value[i] * (cases[k].bias ? 1 : (double)factors.value[c]) +
                          (double)shift[c];
            if (cases[k].scaled)
                want += (double)residual.value[i] * (double)others.value[c] + (double)more[c];
            else if (cases[k].residual)
                want += (double)residual.value[i];
            if (mask && fabs(want) > slack)
                array_holds("mask", i, passes(mask, i) == (want > 0));
            expect(y, i, cases[k].relu || mask ? fmax(want, 0) : want, slack);
        }
    }
    HELD(array) partial = partials(size[1]), gradient = array_blank(DTYPE_FP32, channels);
    kernel_bias_backward(NULL, type, rows, size[1], x.data, partial.data, gradient.data);
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0;
        for (int64_t i = c; i < count; i += channels)
            sum += (double)x.value[i];
        expect(gradient, c, sum, 1e-6 * sqrt((double)rows));
    }
}

/* ---- batch norm, backward ---- */

/* The gradient is added to another, cut, and written somewhere or cut twice. */
struct passage {
    bool two, masked;
    enum { APART, IN_DY, IN_MORE, NOWHERE } place;
};

static void backward_once(const int32_t *size, enum dtype type, struct passage how)
{
    const int64_t rows = size[0], count = rows * size[1];
    const int32_t channels = size[1];
    const struct layer layer = pixels(channels);
    const struct kernel_packed none = {0};
    HELD(array) dy = array_random(type, count, 1, 0.1, 1);
    HELD(array) more = array_random(type, count, 2, 0, 1);
    HELD(array) x = array_random(type, count, 3, 0.5, 2), y = array_blank(type, count);
    HELD(array) dz = array_blank(type, count), dx = array_copy(&dz);
    HELD(array) alone = how.two && how.masked ? array_copy(&dy) : array_blank(type, count);
    HELD(array) partial = partials(channels);
    HELD(array) statistics = array_random(DTYPE_FP32, 2 * channels, 4, 0.5, 0.1);
    HELD(array) parameter = floats(2 * channels, 5, 1), forward = floats(2 * channels, 6, 0);
    HELD(array) gradient = array_blank(DTYPE_FP32, 2 * channels);
    HELD(array) factors = array_blank(DTYPE_FP32, 3 * channels);
    AUTOFREE uint32_t *mask = base_alloc((count + 31) / 32, sizeof(*mask));
    const uint32_t *cut = how.masked ? mask : NULL;
    const void *second = how.two ? more.data : NULL;
    struct array *to = how.place == IN_DY ? &dy : how.place == IN_MORE ? &more : &dz;
    struct array *out = how.place == IN_DY ? &dy : &dx;
    bool written = (how.two || how.masked) && how.place != NOWHERE;
    kernel_apply(NULL, type, rows, channels, x.data, forward.value, forward.value + channels, NULL,
                 NULL, 1, mask, y.data);
    for (int64_t i = 0; i < count; i++) {
        float sum = how.two ? dy.value[i] + more.value[i] : dy.value[i];
        dz.value[i] = how.masked && !passes(mask, i) ? 0 : sum;
    }
    half_round(type, count, dz.value);
    naive_batch_norm_backward(&layer, size[0], x.value, parameter.value, statistics.value, dz.value,
                              dx.value, gradient.value);

    kernel_mask(NULL, type, count, how.two && how.masked ? alone.data : dy.data, second, cut,
                alone.data);
    int32_t slices = kernel_backward_sums(NULL, type, rows, channels, dy.data, second, cut, x.data,
                                          statistics.data, written ? to->data : NULL, partial.data);
    for (int64_t i = 0; i < count; i++) {
        expect(alone, i, (double)dz.value[i], 0);
        if (written)
            expect(*to, i, (double)dz.value[i], 0);
    }
    kernel_backward_factors(NULL, rows, channels, slices, partial.data, parameter.data,
                            statistics.data, gradient.data, factors.data);
    kernel_backward_apply(NULL, type, rows, channels, written ? to->data : dy.data,
                          how.place == NOWHERE ? cut : NULL, x.data, factors.data, out->data, none);
    for (int64_t i = 0; i < count; i++)
        expect(*out, i, (double)dx.value[i], 2e-5);
    for (int32_t c = 0; c < 2 * channels; c++)
        expect(gradient, c, (double)gradient.value[c], 3e-6 * sqrt((double)rows));
}

static void backward(const int32_t *size, enum dtype type)
{
    for (int32_t place = APART; place <= NOWHERE; place++)
        for (int32_t which = 0; which < 4; which++)
            if (place < IN_MORE || (place == IN_MORE ? which & 1 : which == 2))
                backward_once(size, type, (struct passage){which & 1, which & 2, place});
}

/* Not even where threads run in another order. */
static void order(const int32_t *size, enum dtype type)
{
    const int32_t channels = size[1];
    HELD(array) x = array_random(type, (int64_t)size[0] * channels, 1, 0, 1);
    HELD(array) partial = partials(channels), again = partials(channels);
    emulate_backwards(false);
    assert_true(kernel_sums(NULL, type, size[0], channels, x.data, partial.data) > 1);
    emulate_backwards(true);
    kernel_sums(NULL, type, size[0], channels, x.data, again.data);
    expect_same(again, partial);
}

int main(void)
{
    static const struct size wide[] = {SIZE(264), {0}}, tall[] = {SIZE(3001, 72), {0}};
    static const struct row rows[] = {
        {"statistics from sums", statistics_from_sums, matrices, DTYPE_FP32, DTYPE_BF16},
        {"factors of inference", inference, wide, DTYPE_FP32, DTYPE_FP32},
        {"batch norm or bias, residual, ReLU", apply, matrices, DTYPE_FP32, DTYPE_BF16},
        {"batch norm backward", backward, matrices, DTYPE_FP32, DTYPE_BF16},
        {"sums in any order of threads", order, tall, DTYPE_FP32, DTYPE_BF16}};
    return rows_run(rows, ARRAY_SIZE(rows));
}
