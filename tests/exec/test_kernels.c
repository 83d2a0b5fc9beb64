#include "exec/cpu/dnnl/kernels.h"

#include "tests/test.h"

static float *random_floats(int64_t count, uint64_t seed)
{
    float *array = base_alloc(count, sizeof(*array));
    for (int64_t i = 0; i < count; i++)
        array[i] = (float)base_normal(seed, 0, (uint64_t)i, 0);
    return array;
}

/* Blocks of 16, NHWC of whole vectors, of a part of one, and of both. */
static const struct blocked shapes[] = {
    {3, 32, 10, 16}, {2, 48, 1000, 16}, {2, 32, 49, 32}, {4, 5, 7, 5}, {1, 37, 600, 37},
};

static int64_t count_of(struct blocked s)
{
    return s.images * s.channels * s.pixels;
}

static int64_t channel_of(struct blocked s, int64_t i)
{
    return i / s.block / s.pixels % (s.channels / s.block) * s.block + i % s.block;
}

/* In fp32 the square of the mean alone would leave nothing of a variance of 1. */
TEST(statistics_keep_their_digits_far_from_zero)
{
    for (size_t k = 0; k < ARRAY_SIZE(shapes); k++) {
        struct blocked s = shapes[k];
        AUTOFREE float *x = random_floats(count_of(s), 1), *mean = random_floats(2 * s.channels, 2);
        AUTOFREE float *scratch = base_alloc(norm_scratch(&s), sizeof(float));
        AUTOFREE double *sum = base_alloc(2 * s.channels, sizeof(*sum));
        struct norm norm = {.x = x, .mean = mean, .variance = mean + s.channels};
        for (int64_t i = 0; i < count_of(s); i++) {
            x[i] += 10000;
            double d = (double)x[i] - 10000;
            sum[channel_of(s, i)] += d;
            sum[s.channels + channel_of(s, i)] += d * d;
        }
        norm_statistics(&s, &norm, scratch);
        for (int64_t c = 0; c < s.channels; c++) {
            double count = (double)(s.images * s.pixels), shifted = sum[c] / count;
            double variance = sum[s.channels + c] / count - shifted * shifted;
            assert_near((double)norm.mean[c], 10000 + shifted, 1e-3); /* one ulp */
            assert_relative((double)norm.variance[c], variance, 1e-5);
        }
    }
}

TEST(two_norms_and_a_residual_are_added_before_the_relu)
{
    for (size_t k = 0; k < ARRAY_SIZE(shapes); k++) {
        struct blocked s = shapes[k];
        AUTOFREE float *a = random_floats(count_of(s), 1), *b = random_floats(count_of(s), 2);
        AUTOFREE float *added = random_floats(count_of(s), 3), *y = random_floats(count_of(s), 4);
        AUTOFREE float *line = random_floats(4 * s.channels, 5);
        struct norm first = {.x = a, .scale = line, .shift = line + s.channels};
        struct norm second = {
            .x = b, .scale = line + 2 * s.channels, .shift = line + 3 * s.channels};
        norm_apply(&s, &first, &second, added, INFINITY, y);
        for (int64_t i = 0; i < count_of(s); i++) {
            int64_t c = channel_of(s, i);
            double sum = (double)a[i] * (double)first.scale[c] + (double)first.shift[c] +
                         (double)b[i] * (double)second.scale[c] + (double)second.shift[c] +
                         (double)added[i];
            assert_near((double)y[i], fmax(sum, 0), 1e-5);
        }
    }
}

/* Output i of n along a side of m covers floor(i m / n) ... ceil((i + 1) m / n) - 1. */
TEST(an_average_pool_adapts_its_windows)
{
    const struct layer layer = {
        .op = LAYER_AVERAGE_POOL, .in = {16, 5, 1}, .out = {16, 3, 2}, .kernel = 1, .stride = 1};
    static const int32_t first[] = {0, 1, 3}, end[] = {2, 4, 5};
    AUTOFREE float *x = random_floats(16 * 5, 1), *y = random_floats(16 * 6, 2),
                   *dx = random_floats(80, 3);
    kernel_average(&layer, 1, 16, x, y);
    for (int32_t i = 0; i < 6; i++)
        for (int32_t c = 0; c < 16; c++) {
            double sum = 0;
            for (int32_t h = first[i / 2]; h < end[i / 2]; h++)
                sum += (double)x[h * 16 + c];
            double mean = sum / (end[i / 2] - first[i / 2]);
            assert_true(fabs((double)y[i * 16 + c] - mean) < 1e-6);
        }
    kernel_average_backward(&layer, 1, 16, y, dx);
    double forward = 0, backward = 0; /* the transpose: y . y = x . dx */
    for (int32_t i = 0; i < 16 * 6; i++)
        forward += (double)y[i] * (double)y[i];
    for (int32_t i = 0; i < 16 * 5; i++)
        backward += (double)x[i] * (double)dx[i];
    assert_true(fabs(forward - backward) < 1e-5 * forward);
}
