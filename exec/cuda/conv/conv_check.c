#include "exec/cuda/conv/conv_check.h"

#include "core/base/base.h"
#include "exec/step/half.h"

const char *const conv_names[CONV_OP_COUNT] = {"forward", "backward-data", "backward-filter"};

int64_t conv_elements(const struct conv_shape *s, enum conv_array array)
{
    switch (array) {
    case CONV_ARRAY_X:
        return (int64_t)s->batch * s->in_height * s->in_width * s->in_channels;
    case CONV_ARRAY_W:
        return (int64_t)s->out_channels * s->kernel * s->kernel * s->in_channels;
    default:
        return (int64_t)s->batch * s->out_height * s->out_width * s->out_channels;
    }
}

struct conv_call conv_call_of(void *const array[CONV_ARRAY_COUNT], void *workspace)
{
    return (struct conv_call){.x = array[CONV_ARRAY_X],
                              .w = array[CONV_ARRAY_W],
                              .dy = array[CONV_ARRAY_Y],
                              .y = array[CONV_ARRAY_Y],
                              .dx = array[CONV_ARRAY_X],
                              .dw = array[CONV_ARRAY_W],
                              .workspace = workspace};
}

enum conv_array conv_written(enum conv_op op)
{
    static const enum conv_array written[] = {CONV_ARRAY_Y, CONV_ARRAY_X, CONV_ARRAY_W};
    return written[op];
}

float *conv_pattern(enum dtype type, enum conv_array array)
{
    float *pattern = base_alloc(CONV_PATTERN, sizeof *pattern);
    for (int32_t i = 0; i < CONV_PATTERN; i++)
        pattern[i] = (float)(2 * base_uniform(1, (uint64_t)array, (uint64_t)i, 0) - 1);
    half_round(type, CONV_PATTERN, pattern);
    return pattern;
}

/* ---- single elements ---- */

struct sum {
    const struct conv_shape *shape;
    const float *pattern[CONV_ARRAY_COUNT]; /* those that are read */
    double value, size;                     /* of products, and of their magnitudes */
};

/* Add @count products, of elements that begin at start[] of each array and are step[] apart. */
static void add(struct sum *sum, const int64_t start[2], const enum conv_array array[2],
                const int64_t step[2], int64_t count)
{
    const float *left = sum->pattern[array[0]], *right = sum->pattern[array[1]];
    int64_t a = start[0] % CONV_PATTERN, b = start[1] % CONV_PATTERN;
    int64_t step_a = step[0] % CONV_PATTERN, step_b = step[1] % CONV_PATTERN;
    for (int64_t i = 0; i < count; i++) {
        double product = (double)left[a] * (double)right[b];
        sum->value += product;
        sum->size += fabs(product);
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

void conv_samples(enum conv_op op, const struct conv_shape *shape, struct conv_sample *sample)
{
    static void (*const compute[])(struct sum *, int64_t) = {forward, backward_data,
                                                             backward_filter};
    int64_t count = conv_elements(shape, conv_written(op));
    float *pattern[CONV_ARRAY_COUNT];
    for (int32_t i = 0; i < CONV_ARRAY_COUNT; i++)
        pattern[i] = conv_pattern(shape->type, (enum conv_array)i);
    for (int32_t i = 0; i < CONV_SAMPLES; i++) {
        struct sum sum = {.shape = shape};
        memcpy(sum.pattern, pattern, sizeof pattern);
        int64_t index = (int64_t)((double)count * base_uniform(2, (uint64_t)i, 0, 0));
        index = i == 0 ? 0 : i == 1 ? count - 1 : index;
        compute[op](&sum, index);
        sample[i] = (struct conv_sample){index, sum.value, sum.size};
    }
    for (int32_t i = 0; i < CONV_ARRAY_COUNT; i++)
        free(pattern[i]);
}

/* ---- how far off a result may be ---- */

/* Half a unit in the last of 24, 11 and 8 bits. */
static const double rounding[] = {
    [DTYPE_FP32] = 0x1p-24, [DTYPE_FP16] = 0x1p-11, [DTYPE_BF16] = 0x1p-8};

bool conv_is_right(enum dtype type, const struct conv_sample *sample, double got)
{
    const double lost = type == DTYPE_FP32 ? 0x1p-20 : 0x1p-17;
    double limit = fabs(sample->want) * rounding[type] + sample->size * lost;
    return fabs(got - sample->want) <= limit; /* false for NaN */
}
