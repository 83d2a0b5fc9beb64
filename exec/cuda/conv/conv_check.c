#include "exec/cuda/conv/conv_check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "exec/step/half.h"

const struct conv_parts conv_ops[CONV_OP_COUNT] = {
    /* sums, applies, norms, adds, pairs, optional */
    {"forward", PASS_FORWARD, 0, 0, 0, 0, 0, 0},
    {"forward-sums", PASS_FORWARD, 1, 0, 0, 0, 0, 1},
    {"forward-applied-sums", PASS_FORWARD, 1, 1, 0, 0, 0, 1},
    {"forward-add-sums", PASS_FORWARD, 1, 1, 0, 1, 0, 1},
    {"forward-add-two-sums", PASS_FORWARD, 1, 1, 0, 1, 1, 1},
    {"backward-data", PASS_BACKWARD_DATA, 0, 0, 0, 0, 0, 0},
    {"backward-data-norm", PASS_BACKWARD_DATA, 0, 0, 1, 0, 0, 1},
    {"backward-data-add-norm", PASS_BACKWARD_DATA, 0, 0, 1, 1, 0, 1},
    {"backward-data-add-norms", PASS_BACKWARD_DATA, 0, 0, 2, 1, 1, 1},
    {"backward-filter", PASS_BACKWARD_FILTER, 0, 0, 0, 0, 0, 0},
    {"backward-filter-applied", PASS_BACKWARD_FILTER, 0, 1, 0, 0, 0, 1},
};

int64_t conv_elements(enum conv_op op, const struct conv_shape *s, enum conv_array array)
{
    const int64_t x = (int64_t)s->batch * s->in_height * s->in_width * s->in_channels;
    switch (array) {
    case CONV_ARRAY_X:
        return x;
    case CONV_ARRAY_W:
        return (int64_t)s->out_channels * s->kernel * s->kernel * s->in_channels;
    case CONV_ARRAY_Y:
        return (int64_t)s->batch * s->out_height * s->out_width * s->out_channels;
    case CONV_ARRAY_FACTORS:
        return conv_ops[op].applies ? 2 * (int64_t)s->in_channels : 0;
    case CONV_ARRAY_SEEN:
        return conv_ops[op].norms ? x : 0;
    case CONV_ARRAY_ADDED:
        return conv_ops[op].adds ? x : 0;
    case CONV_ARRAY_OTHER:
        return conv_ops[op].adds && conv_ops[op].norms ? x : 0;
    case CONV_ARRAY_VALUE:
        return conv_ops[op].adds && conv_ops[op].sums ? x : 0;
    case CONV_ARRAY_FACTORS_2:
        return conv_ops[op].pairs && conv_ops[op].sums ? 2 * (int64_t)s->in_channels : 0;
    case CONV_ARRAY_STATISTICS:
    case CONV_ARRAY_PARAMETER:
        return conv_ops[op].norms ? 2 * (int64_t)s->in_channels : 0;
    default:
        return conv_ops[op].norms > 1 ? 2 * (int64_t)s->in_channels : 0;
    }
}

enum dtype conv_array_type(enum dtype type, enum conv_array array)
{
    bool wide = array == CONV_ARRAY_STATISTICS || array == CONV_ARRAY_PARAMETER ||
                array == CONV_ARRAY_STATISTICS_2 || array == CONV_ARRAY_PARAMETER_2;
    return wide ? DTYPE_FP32 : type;
}

struct conv_call conv_call_of(const struct conv_shape *shape, void *const array[CONV_ARRAY_COUNT],
                              float *sums, float *derived, void *workspace)
{
    float *second = derived ? derived + CONV_DERIVED_COUNT * (int64_t)shape->in_channels : NULL;
    return (struct conv_call){.x = array[CONV_ARRAY_X],
                              .w = array[CONV_ARRAY_W],
                              .dy = array[CONV_ARRAY_Y],
                              .factors = array[CONV_ARRAY_FACTORS],
                              .norm = {{array[CONV_ARRAY_SEEN], array[CONV_ARRAY_STATISTICS],
                                        array[CONV_ARRAY_PARAMETER], derived},
                                       {array[CONV_ARRAY_ADDED], array[CONV_ARRAY_STATISTICS_2],
                                        array[CONV_ARRAY_PARAMETER_2], second}},
                              .residual = array[CONV_ARRAY_ADDED],
                              .residual_factors = array[CONV_ARRAY_FACTORS_2],
                              .value = array[CONV_ARRAY_VALUE],
                              .other = array[CONV_ARRAY_OTHER],
                              .y = array[CONV_ARRAY_Y],
                              .dx = array[CONV_ARRAY_X],
                              .dw = array[CONV_ARRAY_W],
                              .sums = sums,
                              .workspace = workspace};
}

enum conv_array conv_written(enum conv_op op)
{
    static const enum conv_array written[PASS_COUNT] = {CONV_ARRAY_Y, CONV_ARRAY_X, CONV_ARRAY_W};
    return written[conv_ops[op].pass];
}

float *conv_pattern(enum dtype type, enum conv_array array)
{
    float *pattern = base_alloc(CONV_PATTERN, sizeof *pattern);
    type = conv_array_type(type, array);
    for (int32_t i = 0; i < CONV_PATTERN; i++)
        pattern[i] = (float)(2 * base_uniform(1, (uint64_t)array, (uint64_t)i, 0) - 1);
    half_round(type, CONV_PATTERN, pattern);
    return pattern;
}

/* ---- single elements ---- */

/* Half a unit in the last of 24, 11 and 8 bits. */
static const double rounding[] = {
    [DTYPE_FP32] = 0x1p-24, [DTYPE_FP16] = 0x1p-11, [DTYPE_BF16] = 0x1p-8};

struct sum {
    const struct conv_shape *shape;
    const float *pattern[CONV_ARRAY_COUNT]; /* those that are read */
    enum conv_op op;
    double value, size; /* of products, and of their magnitudes */
    double squares;     /* of what may be rounded of each */
};

/* A factor of a product, and the largest intermediate number. */
struct factor {
    double value, size;
};

/* Element @index of @array. */
static double element(const struct sum *sum, enum conv_array array, int64_t index)
{
    return (double)sum->pattern[array][index % CONV_PATTERN];
}

/* The convolution's input at @index of x. */
static struct factor apply(const struct sum *sum, int64_t index)
{
    const int64_t channels = sum->shape->in_channels, c = index % channels;
    double scaled = element(sum, CONV_ARRAY_X, index) * element(sum, CONV_ARRAY_FACTORS, c);
    double shift = element(sum, CONV_ARRAY_FACTORS, channels + c), added = 0, added_shift = 0;
    if (conv_ops[sum->op].adds)
        added = element(sum, CONV_ARRAY_ADDED, index);
    if (conv_ops[sum->op].pairs) {
        added *= element(sum, CONV_ARRAY_FACTORS_2, c);
        added_shift = element(sum, CONV_ARRAY_FACTORS_2, channels + c);
    }
    return (struct factor){fmax(scaled + shift + added + added_shift, 0),
                           fabs(scaled) + fabs(shift) + fabs(added) + fabs(added_shift)};
}

/* Add @count products, of elements that begin at start[] of each array and are step[] apart;
 * factors are applied to the first array, which is x then. */
static void add(struct sum *sum, const int64_t start[2], const enum conv_array array[2],
                const int64_t step[2], int64_t count)
{
    const float *left = sum->pattern[array[0]], *right = sum->pattern[array[1]];
    int64_t a = start[0] % CONV_PATTERN, b = start[1] % CONV_PATTERN;
    int64_t step_a = step[0] % CONV_PATTERN, step_b = step[1] % CONV_PATTERN;
    for (int64_t i = 0; i < count; i++) {
        struct factor x = {(double)left[a], 0};
        if (conv_ops[sum->op].applies)
            x = apply(sum, start[0] + i * step[0]);
        double product = x.value * (double)right[b];
        sum->value += product;
        sum->size += fabs(product);
        sum->squares += x.size * x.size * (double)right[b] * (double)right[b];
        a += step_a;
        a -= a >= CONV_PATTERN ? CONV_PATTERN : 0;
        b += step_b;
        b -= b >= CONV_PATTERN ? CONV_PATTERN : 0;
    }
}

/* First element of pixel (@n, @h, @w) of x, and of y; of tap @tap of filter @k. */
static int64_t at_x(const struct conv_shape *s, int64_t n, int64_t h, int64_t w)
{
    return ((n * s->in_height + h) * s->in_width + w) * s->in_channels;
}

static int64_t at_y(const struct conv_shape *s, int64_t n, int64_t p, int64_t q)
{
    return ((n * s->out_height + p) * s->out_width + q) * s->out_channels;
}

static int64_t at_w(const struct conv_shape *s, int64_t k, int64_t tap)
{
    return (k * s->kernel * s->kernel + tap) * s->in_channels;
}

static bool inside(int64_t at, int64_t size)
{
    return at >= 0 && at < size;
}

/* y[index]: over taps and input channels. */
static void forward(struct sum *sum, int64_t index)
{
    const struct conv_shape *s = sum->shape;
    int64_t k = index % s->out_channels, pixel = index / s->out_channels;
    int64_t q = pixel % s->out_width, p = pixel / s->out_width % s->out_height;
    int64_t n = pixel / s->out_width / s->out_height;
    for (int64_t tap = 0; tap < (int64_t)s->kernel * s->kernel; tap++) {
        int64_t h = p * s->stride - s->padding + tap / s->kernel;
        int64_t w = q * s->stride - s->padding + tap % s->kernel;
        if (inside(h, s->in_height) && inside(w, s->in_width))
            add(sum, (int64_t[]){at_x(s, n, h, w), at_w(s, k, tap)},
                (enum conv_array[]){CONV_ARRAY_X, CONV_ARRAY_W}, (int64_t[]){1, 1}, s->in_channels);
    }
}

/* dx[index]: over taps and output channels. */
static void backward_data(struct sum *sum, int64_t index)
{
    const struct conv_shape *s = sum->shape;
    int64_t c = index % s->in_channels, pixel = index / s->in_channels;
    int64_t w = pixel % s->in_width, h = pixel / s->in_width % s->in_height;
    int64_t n = pixel / s->in_width / s->in_height, taps = (int64_t)s->kernel * s->kernel;
    for (int64_t tap = 0; tap < taps; tap++) {
        int64_t p = h + s->padding - tap / s->kernel, q = w + s->padding - tap % s->kernel;
        if (p < 0 || q < 0 || p % s->stride || q % s->stride)
            continue;
        p /= s->stride;
        q /= s->stride;
        if (inside(p, s->out_height) && inside(q, s->out_width))
            add(sum, (int64_t[]){at_y(s, n, p, q), at_w(s, 0, tap) + c},
                (enum conv_array[]){CONV_ARRAY_Y, CONV_ARRAY_W},
                (int64_t[]){1, taps * s->in_channels}, s->out_channels);
    }
}

/* dw[index]: over the images and the pixels of y. */
static void backward_filter(struct sum *sum, int64_t index)
{
    const struct conv_shape *s = sum->shape;
    int64_t c = index % s->in_channels, tap = index / s->in_channels % (s->kernel * s->kernel);
    int64_t k = index / s->in_channels / (s->kernel * s->kernel);
    int64_t left = tap % s->kernel - s->padding, first = 0, last = s->out_width;
    while (first < last && first * s->stride + left < 0)
        first++;
    while (first < last && (last - 1) * s->stride + left >= s->in_width)
        last--;
    for (int64_t row = 0; row < (int64_t)s->batch * s->out_height; row++) {
        int64_t n = row / s->out_height, p = row % s->out_height;
        int64_t h = p * s->stride - s->padding + tap / s->kernel;
        if (inside(h, s->in_height))
            add(sum,
                (int64_t[]){at_x(s, n, h, first * s->stride + left) + c, at_y(s, n, p, first) + k},
                (enum conv_array[]){CONV_ARRAY_X, CONV_ARRAY_Y},
                (int64_t[]){(int64_t)s->stride * s->in_channels, s->out_channels}, last - first);
    }
}

/* The output of batch norm at @index of its input @x. */
static double normalised(const struct sum *sum, enum conv_array x, enum conv_array statistics,
                         enum conv_array parameter, int64_t index)
{
    int64_t channels = sum->shape->in_channels, c = index % channels;
    double normal = (element(sum, x, index) - element(sum, statistics, c)) *
                    element(sum, statistics, channels + c);
    return normal * element(sum, parameter, c) + element(sum, parameter, channels + c);
}

/* What stood before the ReLU at @index. */
static double before_relu(const struct sum *sum, int64_t index)
{
    double value =
        normalised(sum, CONV_ARRAY_SEEN, CONV_ARRAY_STATISTICS, CONV_ARRAY_PARAMETER, index);
    if (conv_ops[sum->op].pairs)
        return value + normalised(sum, CONV_ARRAY_ADDED, CONV_ARRAY_STATISTICS_2,
                                  CONV_ARRAY_PARAMETER_2, index);
    return conv_ops[sum->op].adds ? value + element(sum, CONV_ARRAY_ADDED, index) : value;
}

/* The first element from @index on for which rounding cannot change the ReLU. */
static int64_t sure(const struct sum *sum, int64_t index, int64_t count)
{
    while (fabs(before_relu(sum, index)) < 1e-5)
        index = (index + 1) % count;
    return index;
}

/* dx[index], with what is added to it, cut.  Engines may round the convolution's part first, as
 * separate kernels do.  @return that possible change. */
static double backward_norm(struct sum *sum, int64_t index)
{
    if (before_relu(sum, index) <= 0)
        return 0;
    backward_data(sum, index);
    if (!conv_ops[sum->op].adds)
        return 0;
    double slack = fabs(sum->value) * rounding[sum->shape->type];
    double other = element(sum, CONV_ARRAY_OTHER, index);
    sum->value += other;
    sum->size += fabs(other);
    return slack;
}

/* Element @index of @array. */
static struct conv_sample sample_of(struct sum *sum, enum conv_array array, int64_t index)
{
    double slack = 0;
    if (array == CONV_ARRAY_VALUE) {
        struct factor value = apply(sum, index);
        return (struct conv_sample){index, value.value, value.size,
                                    value.size * rounding[sum->shape->type]};
    }
    if (conv_ops[sum->op].norms)
        slack = backward_norm(sum, index);
    else if (array == CONV_ARRAY_X)
        backward_data(sum, index);
    else if (array == CONV_ARRAY_W)
        backward_filter(sum, index);
    else
        forward(sum, index);
    /* The rounding error of each applied value is at most that of its largest intermediate number,
     * with any sign: such errors grow like those of sums, see below. */
    slack += 4 * rounding[sum->shape->type] * sqrt(sum->squares);
    return (struct conv_sample){index, sum->value, sum->size, slack};
}

void conv_samples(enum conv_op op, const struct conv_shape *shape, enum conv_array array,
                  struct conv_sample *sample)
{
    int64_t count = conv_elements(op, shape, array);
    float *pattern[CONV_ARRAY_COUNT];
    for (int32_t i = 0; i < CONV_ARRAY_COUNT; i++)
        pattern[i] = conv_pattern(shape->type, (enum conv_array)i);
    for (int32_t i = 0; i < CONV_SAMPLES; i++) {
        struct sum sum = {.shape = shape, .op = op};
        memcpy(sum.pattern, pattern, sizeof pattern);
        int64_t index = (int64_t)((double)count * base_uniform(2, (uint64_t)i, 0, 0));
        index = i == 0 ? 0 : i == 1 ? count - 1 : index;
        sample[i] = sample_of(&sum, array, conv_ops[op].norms ? sure(&sum, index, count) : index);
    }
    for (int32_t i = 0; i < CONV_ARRAY_COUNT; i++)
        free(pattern[i]);
}

/* ---- how far off a result may be ---- */

bool conv_is_right(enum dtype type, const struct conv_sample *sample, double got)
{
    const double lost = type == DTYPE_FP32 ? 0x1p-20 : 0x1p-17;
    double limit = fabs(sample->want) * rounding[type] + sample->size * lost + sample->slack;
    return fabs(got - sample->want) <= limit; /* false for NaN */
}

bool conv_sum_is_right(int64_t rows, double want, double size, double sum)
{
    /* The rounding error of each value is up to 2^-11 of it, with any sign: errors grow with the
     * root of their number.  Four times that, plus the error of sums in fp32. */
    double limit = size * (4 * 0x1p-11 / sqrt((double)rows) + 0x1p-17);
    return fabs(sum - want) <= limit;
}

struct conv_derived conv_derive(const struct conv_channel *of)
{
    const double rows = (double)of->rows, mean = of->statistics[0], inverse = of->statistics[1];
    double normals = inverse * inverse * (of->x[1] - 2 * mean * of->x[0] + rows * mean * mean);
    double size_shift = sqrt(rows * of->dx[1]), size_scale = sqrt(of->dx[1] * fmax(normals, 0));
    double of_dx = of->parameter[0] * inverse, share = of_dx / rows;
    double of_x = -share * inverse * of->both[1];
    double size_of_x = fabs(share * inverse) * size_scale;
    return (struct conv_derived){
        .value = {of->both[1], of->both[0], of_dx, of_x, -share * of->both[0] - of_x * mean},
        .size = {size_scale, size_shift, fabs(of_dx), size_of_x,
                 fabs(share) * size_shift + size_of_x * fabs(mean)}};
}
