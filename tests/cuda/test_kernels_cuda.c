/* Kernels of activations against what they are to compute, in fp64 and with plain loops. */
#define OWN_MAIN
#include "exec/cuda/kernels/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "tests/cuda/array.h"
#include "tests/cuda/fake/emulate_order.h"
#include "tests/test.h"

/* One row, odd numbers of rows, channels that do not fill a warp, more than one warp's width,
 * several slices, and slices with several rows per thread. */
static const struct {
    int64_t rows;
    int32_t channels;
} shapes[] = {{1, 8},     {3, 16},    {37, 24},  {200, 72}, {777, 64},
              {49, 2048}, {131, 264}, {9001, 8}, {3001, 40}};
enum { SHAPES = sizeof(shapes) / sizeof(*shapes) };

/* Call @check for every shape and type. */
static void every(void (*check)(enum dtype type, int64_t rows, int32_t channels))
{
    for (int32_t s = 0; s < SHAPES; s++)
        for (int32_t type = 0; type < DTYPE_COUNT; type++)
            check((enum dtype)type, shapes[s].rows, shapes[s].channels);
}

static struct array random_floats(int64_t count, uint64_t seed, double mean)
{
    return array_random(DTYPE_FP32, count, seed, mean, 1);
}

static struct array partials(int32_t channels)
{
    return array_blank(DTYPE_FP32, (int64_t)2 * channels * KERNEL_PARTIALS);
}

/* A random mask; bits beyond the elements are undefined. */
static uint32_t *random_mask(int64_t elements, uint64_t seed)
{
    struct array draw = array_random(DTYPE_FP32, elements, seed, 0, 1);
    uint32_t *mask = base_alloc((elements + 31) / 32, sizeof(*mask));
    for (int64_t i = 0; i < elements; i++)
        if (draw.value[i] < 0.3F)
            mask[i / 32] |= 1U << i % 32;
    array_free(&draw);
    return mask;
}

static bool let_pass(const uint32_t *mask, int64_t i)
{
    return !mask || mask[i / 32] >> i % 32 & 1;
}

/* ---- batch norm ---- */

struct moments {
    double mean, variance;
};

static struct moments moments_of(const float *x, int64_t rows, int32_t channels, int32_t c)
{
    double sum = 0, square = 0;
    for (int64_t r = 0; r < rows; r++)
        sum += (double)x[r * channels + c];
    for (int64_t r = 0; r < rows; r++) {
        double d = (double)x[r * channels + c] - sum / (double)rows;
        square += d * d;
    }
    return (struct moments){sum / (double)rows, square / (double)rows};
}

/* Sums, from both sources; statistics, factors and running statistics. */
static void check_statistics(enum dtype type, int64_t rows, int32_t channels)
{
    const double epsilon = 1e-5;
    struct array x = array_random(type, rows * channels, 1, 0.5, 2), partial = partials(channels);
    struct array parameter = random_floats(2 * channels, 2, 1);
    struct array statistics = array_blank(DTYPE_FP32, 2 * channels);
    struct array factors = array_blank(DTYPE_FP32, 2 * channels);
    struct array before = random_floats(2 * channels, 3, 1), after = array_copy(&before);
    float *mean = after.data, *variance = mean + channels;
    int32_t count = kernel_sums(NULL, type, rows, channels, x.data, partial.data);
    assert_in_range(count, 1, KERNEL_PARTIALS);
    kernel_statistics(NULL, rows, channels, epsilon, count, partial.data, parameter.data,
                      (struct kernel_running){mean, variance, 0.9F, 0.1F}, statistics.data,
                      factors.data, NULL);
    const float *s = array_widen(&statistics), *f = array_widen(&factors);
    array_widen(&after);
    for (int32_t c = 0; c < channels; c++) {
        struct moments m = moments_of(x.value, rows, channels, c);
        double inverse = 1 / sqrt(m.variance + epsilon),
               scale = (double)parameter.value[c] * inverse;
        double unbiased = rows > 1 ? m.variance * (double)rows / (double)(rows - 1) : 0;
        /* A variance of 0 is what rounding leaves of a square and its equal: about 1e-7 of it. */
        double slack = rows > 1 ? 4e-6 * inverse : inverse;
        array_expect("mean", c, DTYPE_FP32, s[c], m.mean, 1e-6);
        array_expect("1 / deviation", c, DTYPE_FP32, s[channels + c], inverse, slack);
        if (rows > 1) {
            array_expect("scale", c, DTYPE_FP32, f[c], scale, 1e-5 * (1 + fabs(scale)));
            array_expect("shift", c, DTYPE_FP32, f[channels + c],
                         (double)parameter.value[channels + c] - scale * m.mean,
                         1e-5 * (1 + fabs(scale)));
        }
        array_expect("running mean", c, DTYPE_FP32, after.value[c],
                     0.9 * (double)before.value[c] + 0.1 * m.mean, 1e-6);
        array_expect("running variance", c, DTYPE_FP32, after.value[channels + c],
                     0.9 * (double)before.value[channels + c] + 0.1 * unbiased, 1e-5);
    }
    struct array *all[] = {&x, &partial, &parameter, &statistics, &factors, &before, &after};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        array_free(all[i]);
}

TEST(statistics_follow_from_sums)
{
    every(check_statistics);
}

TEST(a_convolutions_sums_are_partial_sums_of_one_slice)
{
    enum { CHANNELS = 24, ROWS = 100 };
    struct array sums = random_floats(2 * CHANNELS, 1, 0);
    struct array parameter = random_floats(2 * CHANNELS, 2, 1);
    struct array statistics = array_blank(DTYPE_FP32, 2 * CHANNELS), factors = statistics;
    factors = array_blank(DTYPE_FP32, 2 * CHANNELS);
    float *sum = sums.data;
    for (int32_t c = 0; c < CHANNELS; c++)
        sum[CHANNELS + c] = 300 + sum[c] * sum[c];
    kernel_statistics(NULL, ROWS, CHANNELS, 0, 1, sums.data, parameter.data,
                      (struct kernel_running){0}, statistics.data, factors.data, NULL);
    const float *s = array_widen(&statistics);
    for (int32_t c = 0; c < CHANNELS; c++) {
        double mean = (double)sum[c] / ROWS, square = (double)sum[CHANNELS + c] / ROWS;
        array_expect("mean", c, DTYPE_FP32, s[c], mean, 0);
        array_expect("1 / deviation", c, DTYPE_FP32, s[CHANNELS + c],
                     1 / sqrt(square - mean * mean), 0);
    }
    array_free(&sums);
    array_free(&parameter);
    array_free(&statistics);
    array_free(&factors);
}

TEST(inference_uses_running_statistics)
{
    enum { CHANNELS = 264 };
    struct array parameter = random_floats(2 * CHANNELS, 1, 1);
    struct array mean = random_floats(CHANNELS, 2, 0);
    struct array variance = array_random(DTYPE_FP32, CHANNELS, 3, 2, 0.2);
    struct array factors = array_blank(DTYPE_FP32, 2 * CHANNELS);
    kernel_inference(NULL, CHANNELS, 1e-3, parameter.data, mean.data, variance.data, factors.data);
    const float *f = array_widen(&factors);
    for (int32_t c = 0; c < CHANNELS; c++) {
        double scale = (double)parameter.value[c] / sqrt((double)variance.value[c] + 1e-3);
        array_expect("scale", c, DTYPE_FP32, f[c], scale, 0);
        array_expect("shift", c, DTYPE_FP32, f[CHANNELS + c],
                     (double)parameter.value[CHANNELS + c] - scale * (double)mean.value[c], 1e-7);
    }
    array_free(&parameter);
    array_free(&mean);
    array_free(&variance);
    array_free(&factors);
}

/* ---- element by element ---- */

/* How many rounding errors of 2^-24 the sums below may have gathered, of numbers up to 20. */
static const double slack = 1e-5;

struct apply_case {
    bool residual, scaled, relu, masked, in_place;
};

static double applied(const struct array *x, const struct array *residual, const float *factors,
                      const float *others, int32_t channels, struct apply_case how, int64_t i)
{
    int64_t c = i % channels;
    double y = (double)x->value[i] * (double)factors[c] + (double)factors[channels + c];
    if (how.residual && how.scaled)
        y += (double)residual->value[i] * (double)others[c] + (double)others[channels + c];
    else if (how.residual)
        y += (double)residual->value[i];
    return y;
}

static void check_apply_case(enum dtype type, int64_t rows, int32_t channels, struct apply_case how)
{
    int64_t count = rows * channels;
    struct array x = array_random(type, count, 1, 0, 1), y = array_blank(type, count);
    struct array residual = array_random(type, count, 2, 0, 1), in = array_copy(&x);
    struct array factors = random_floats(2 * channels, 3, 0);
    struct array others = random_floats(2 * channels, 4, 0);
    uint32_t *mask = random_mask(count, 5);
    struct array *out = how.in_place ? &in : &y;
    kernel_apply(NULL, type, rows, channels, in.data, factors.data,
                 how.residual ? residual.data : NULL, how.scaled ? others.data : NULL, how.relu,
                 how.masked ? mask : NULL, out->data);
    const float *got = array_widen(out);
    for (int64_t i = 0; i < count; i++) {
        double want = applied(&x, &residual, factors.value, others.value, channels, how, i);
        if (how.masked && fabs(want) > slack)
            assert_int_equal(let_pass(mask, i), want > 0);
        array_expect("y", i, type, got[i], how.relu || how.masked ? fmax(want, 0) : want, slack);
    }
    struct array *all[] = {&x, &y, &residual, &in, &factors, &others};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        array_free(all[i]);
    free(mask);
}

static void check_apply(enum dtype type, int64_t rows, int32_t channels)
{
    static const struct apply_case cases[] = {
        {0},
        {.relu = true, .in_place = true},
        {.masked = true},
        {.residual = true, .relu = true},
        {.residual = true, .masked = true, .in_place = true},
        {.residual = true, .scaled = true, .masked = true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        check_apply_case(type, rows, channels, cases[i]);
}

TEST(batch_norm_applies_with_residual_and_relu)
{
    every(check_apply);
}

static void check_bias(enum dtype type, int64_t rows, int32_t channels)
{
    int64_t count = rows * channels;
    struct array x = array_random(type, count, 1, 0, 1), y = array_blank(type, count);
    struct array bias = random_floats(channels, 2, 0), partial = partials(channels);
    struct array gradient = array_blank(DTYPE_FP32, channels);
    uint32_t *mask = random_mask(count, 5);
    kernel_bias(NULL, type, rows, channels, x.data, bias.data, 1, mask, y.data);
    kernel_bias_backward(NULL, type, rows, channels, x.data, partial.data, gradient.data);
    const float *got = array_widen(&y), *sum = array_widen(&gradient);
    for (int64_t i = 0; i < count; i++) {
        double want = (double)x.value[i] + (double)bias.value[i % channels];
        if (fabs(want) > slack)
            assert_int_equal(let_pass(mask, i), want > 0);
        array_expect("y", i, type, got[i], fmax(want, 0), slack);
    }
    for (int32_t c = 0; c < channels; c++)
        array_expect("gradient", c, DTYPE_FP32, sum[c],
                     moments_of(x.value, rows, channels, c).mean * (double)rows,
                     1e-6 * sqrt((double)rows));
    struct array *all[] = {&x, &y, &bias, &partial, &gradient};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        array_free(all[i]);
    free(mask);
}

TEST(biases_are_added_and_have_gradients)
{
    every(check_bias);
}

static void check_mask(enum dtype type, int64_t rows, int32_t channels)
{
    int64_t count = rows * channels;
    struct array dy = array_random(type, count, 1, 0, 1), dz = array_blank(type, count);
    struct array more = array_random(type, count, 2, 0, 1), in = array_copy(&dy);
    uint32_t *mask = random_mask(count, 5);
    for (int32_t which = 0; which < 4; which++) {
        bool two = which & 1, masked = which & 2;
        struct array *out = which == 3 ? &in : &dz;
        kernel_mask(NULL, type, count, in.data, two ? more.data : NULL, masked ? mask : NULL,
                    out->data);
        const float *got = array_widen(out);
        for (int64_t i = 0; i < count; i++) {
            double sum = (double)dy.value[i] + (two ? (double)more.value[i] : 0);
            array_expect("dz", i, type, got[i], !masked || let_pass(mask, i) ? sum : 0, 1e-6);
        }
    }
    array_free(&dy);
    array_free(&dz);
    array_free(&more);
    array_free(&in);
    free(mask);
}

TEST(masks_cut_gradients)
{
    every(check_mask);
}

/* ---- batch norm, backward ---- */

/* Arrays of one backward pass. */
struct backward {
    enum dtype type;
    int64_t rows;
    int32_t channels;
    struct array dy, more, x, dz, dx, partial, statistics, parameter, gradient, factors;
    uint32_t *mask;
};

static struct backward backward_new(enum dtype type, int64_t rows, int32_t channels)
{
    int64_t count = rows * channels;
    return (struct backward){
        .type = type,
        .rows = rows,
        .channels = channels,
        .dy = array_random(type, count, 1, 0.1, 1),
        .more = array_random(type, count, 2, 0, 1),
        .x = array_random(type, count, 3, 0.5, 2),
        .dz = array_blank(type, count),
        .dx = array_blank(type, count),
        .partial = partials(channels),
        .statistics = array_random(DTYPE_FP32, 2 * channels, 4, 0.5, 0.1),
        .parameter = random_floats(2 * channels, 5, 1),
        .gradient = array_blank(DTYPE_FP32, 2 * channels),
        .factors = array_blank(DTYPE_FP32, 3 * channels),
        .mask = random_mask(count, 6),
    };
}

static void backward_free(struct backward *b)
{
    struct array *all[] = {&b->dy,      &b->more,       &b->x,         &b->dz,       &b->dx,
                           &b->partial, &b->statistics, &b->parameter, &b->gradient, &b->factors};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        array_free(all[i]);
    free(b->mask);
}

/* dx and the gradients from dz as it was written, by the formula of naive_batch_norm_backward(). */
static void check_channel(struct backward *b, const float *dz, int32_t c)
{
    double mean = (double)b->statistics.value[c], rows = (double)b->rows;
    double inverse = (double)b->statistics.value[b->channels + c];
    double scale = (double)b->parameter.value[c] * inverse, sum = 0, along = 0;
    for (int64_t i = c; i < b->dz.count; i += b->channels) {
        sum += (double)dz[i];
        along += (double)dz[i] * ((double)b->x.value[i] - mean) * inverse;
    }
    array_expect("gradient of scale", c, DTYPE_FP32, b->gradient.value[c], along,
                 3e-6 * sqrt(rows));
    array_expect("gradient of shift", c, DTYPE_FP32, b->gradient.value[b->channels + c], sum,
                 3e-6 * sqrt(rows));
    for (int64_t i = c; i < b->dz.count; i += b->channels) {
        double n = ((double)b->x.value[i] - mean) * inverse;
        double want = scale * ((double)dz[i] - sum / rows - n * along / rows);
        array_expect("dx", i, b->type, b->dx.value[i], want, 2e-5);
    }
}

/* @where: 0 dz apart, 1 in dy, 2 in more, 3 nowhere: dy is cut twice. */
static void check_backward_case(enum dtype type, int64_t rows, int32_t channels, bool two,
                                bool masked, int32_t where)
{
    struct backward b = backward_new(type, rows, channels);
    struct array dy = array_copy(&b.dy), more = array_copy(&b.more);
    struct array *dz = where == 0 ? &b.dz : where == 2 ? &b.more : &b.dy;
    int32_t count = kernel_backward_sums(
        NULL, type, rows, channels, b.dy.data, two ? b.more.data : NULL,
        (struct kernel_cut){.mask = masked ? b.mask : NULL}, b.x.data, b.statistics.data,
        (two || masked) && where != 3 ? dz->data : NULL, b.partial.data);
    if (!two && !masked)
        dz = &b.dy;
    kernel_backward_factors(NULL, rows, channels, count, b.partial.data, b.parameter.data,
                            b.statistics.data, b.gradient.data, b.factors.data);
    kernel_backward_apply(NULL, type, rows, channels, dz->data,
                          (struct kernel_cut){.mask = where == 3 ? b.mask : NULL}, b.x.data,
                          b.factors.data, where == 1 ? dz->data : b.dx.data,
                          (struct kernel_packed){0});
    struct array kept = array_blank(type, rows * channels);
    for (int64_t i = 0; i < kept.count; i++) {
        float sum = two ? dy.value[i] + more.value[i] : dy.value[i];
        kept.value[i] = masked && !let_pass(b.mask, i) ? 0 : sum;
    }
    if (where == 1) { /* dx was written over dz: round what it must have been */
        memcpy(b.dx.data, dz->data, (size_t)b.dx.count * (size_t)dtype_size(type));
    } else if (where != 3) {
        array_widen(dz);
        for (int64_t i = 0; i < kept.count; i++)
            array_expect("dz", i, type, dz->value[i], (double)kept.value[i], 1e-7);
        memcpy(kept.value, dz->value, (size_t)kept.count * sizeof(float));
    }
    array_widen(&b.dx);
    array_widen(&b.gradient);
    for (int32_t c = 0; c < channels && (where != 1 || !two || type == DTYPE_FP32); c++)
        check_channel(&b, kept.value, c);
    array_free(&dy);
    array_free(&more);
    array_free(&kept);
    backward_free(&b);
}

static void check_backward(enum dtype type, int64_t rows, int32_t channels)
{
    for (int32_t which = 0; which < 4; which++)
        for (int32_t where = 0; where < 4; where++)
            if (where < 2 || (where == 2 && which & 1) || (where == 3 && which == 2))
                check_backward_case(type, rows, channels, which & 1, which & 2, where);
}

TEST(batch_norm_goes_backward)
{
    every(check_backward);
}

/* ---- order ---- */

TEST(the_order_of_threads_changes_no_bit)
{
    enum { ROWS = 3001, CHANNELS = 72 };
    struct array partial[2], x = array_random(DTYPE_BF16, ROWS * CHANNELS, 1, 0, 1);
    int32_t count = 0;
    for (int32_t turn = 0; turn < 2; turn++) {
        emulate_backwards(turn);
        partial[turn] = partials(CHANNELS);
        count = kernel_sums(NULL, DTYPE_BF16, ROWS, CHANNELS, x.data, partial[turn].data);
    }
    emulate_backwards(false);
    assert_true(count > 1);
    assert_memory_equal(partial[0].data, partial[1].data,
                        (size_t)count * 2 * CHANNELS * sizeof(float));
    array_free(&x);
    array_free(&partial[0]);
    array_free(&partial[1]);
}

int main(void)
{
    int failed = cmocka_run_group_tests_name("threads in order", tests, NULL, NULL);
    emulate_backwards(true);
    return failed + cmocka_run_group_tests_name("threads in reverse", tests, NULL, NULL);
}
