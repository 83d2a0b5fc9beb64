#include "exec/cpu/dnnl/kernels.h"

#include <math.h>

#include "exec/cpu/dnnl/kernels_strip.h"

/* Call @visit on each strip of @shape, units in parallel. */
static void kernels_visit(const struct blocked *shape,
                          void (*visit)(const void *, const struct strip *), const void *argument)
{
    struct cut cut = cut_shape(shape);
    int64_t blocks = shape->channels / shape->block;
#pragma omp parallel for schedule(static)
    for (int64_t unit = 0; unit < cut.units; unit++) {
        int64_t plane = unit / cut.chunks, row = unit % cut.chunks * cut.rows;
        int64_t left = shape->pixels - row;
        for (int64_t lane = 0; lane < shape->block; lane += LANES) {
            struct strip strip = {.offset = (plane * shape->pixels + row) * shape->block + lane,
                                  .rows = left < cut.rows ? left : cut.rows,
                                  .stride = shape->block,
                                  .width =
                                      shape->block - lane < LANES ? shape->block - lane : LANES,
                                  .channel = plane % blocks * shape->block + lane,
                                  .unit = unit,
                                  .lane = lane};
            visit(argument, &strip);
        }
    }
}

/* Call @work, once compiled for whole vectors and once for fewer channels. */
#define EITHER_WIDTH(work, argument, strip)                                                        \
    (strip)->width == LANES ? work(argument, strip, LANES) : work(argument, strip, (strip)->width)

/* ---- sums ---- */

enum { SUMS = 3 }; /* of a unit: (SUMS, block) floats of scratch */

int64_t norm_scratch(const struct blocked *shape)
{
    return cut_shape(shape).units * SUMS * shape->block;
}

/* Sum number @which of channel @c over all units, always in the same order. */
static double total(const struct blocked *shape, const float *scratch, int64_t which, int64_t c)
{
    struct cut cut = cut_shape(shape);
    int64_t blocks = shape->channels / shape->block;
    double sum = 0;
    for (int64_t n = 0; n < shape->images; n++) {
        int64_t unit = (n * blocks + c / shape->block) * cut.chunks;
        for (int64_t i = unit; i < unit + cut.chunks; i++)
            sum += (double)scratch[(i * SUMS + which) * shape->block + c % shape->block];
    }
    return sum;
}

/* What statistics need. */
struct moments {
    const struct blocked *shape;
    const float *x;
    float *scratch;
};

/* A value of the channel itself, so that squares of differences from it lose no digits. */
static int64_t pivot(const struct blocked *shape, int64_t c)
{
    return c / shape->block * shape->pixels * shape->block + c % shape->block;
}

INLINE void add_moments(const struct moments *m, const struct strip *s, int64_t width)
{
    const float *x = m->x + s->offset;
    float *scratch = m->scratch + s->unit * SUMS * m->shape->block + s->lane;
    vector base = load(m->x + pivot(m->shape, s->channel), width);
    vector sum[2] = {0}, square[2] = {0};
    int64_t even = s->rows & ~INT64_C(1);
    for (int64_t p = 0; p < even; p += 2, x += 2 * s->stride)
        for (int64_t i = 0; i < 2; i++) {
            vector d = load(x + i * s->stride, width) - base;
            sum[i] += d;
            square[i] += d * d;
        }
    if (even < s->rows) {
        vector d = load(x, width) - base;
        sum[0] += d;
        square[0] += d * d;
    }
    store(scratch, sum[0] + sum[1], width);
    store(scratch + m->shape->block, square[0] + square[1], width);
}

EVERY_WIDTH static void visit_moments(const void *argument, const struct strip *s)
{
    EITHER_WIDTH(add_moments, argument, s);
}

void norm_statistics(const struct blocked *shape, struct norm *norm, float *scratch)
{
    struct moments moments = {shape, norm->x, scratch};
    kernels_visit(shape, visit_moments, &moments);
    double count = (double)(shape->images * shape->pixels);
#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < shape->channels; c++) {
        double shifted = total(shape, scratch, 0, c) / count;
        double square = total(shape, scratch, 1, c) / count;
        norm->mean[c] = (float)((double)norm->x[pivot(shape, c)] + shifted);
        norm->variance[c] = (float)fmax(square - shifted * shifted, 0);
    }
}

void norm_fold(int64_t channels, double epsilon, const float *weight, struct norm *norm)
{
    for (int64_t c = 0; c < channels; c++) {
        double inverse = 1 / sqrt((double)norm->variance[c] + epsilon);
        double scale = (double)weight[c] * inverse;
        norm->inverse[c] = (float)inverse;
        norm->scale[c] = (float)scale;
        norm->shift[c] = (float)((double)weight[channels + c] - scale * (double)norm->mean[c]);
    }
}

/* ---- forward ---- */

/* The arguments of norm_apply(). */
struct application {
    const struct norm *norm, *other;
    const float *added;
    float *y;
    float top;
};

INLINE void apply(const struct application *a, const struct strip *s, int64_t width)
{
    const vector zero = {0};
    const float *x = a->norm->x + s->offset, *added = a->added ? a->added + s->offset : NULL;
    const float *other = a->other ? a->other->x + s->offset : NULL;
    float *y = a->y + s->offset;
    vector scale = load(a->norm->scale + s->channel, width);
    vector shift = load(a->norm->shift + s->channel, width);
    vector other_scale = a->other ? load(a->other->scale + s->channel, width) : zero;
    vector other_shift = a->other ? load(a->other->shift + s->channel, width) : zero;
    for (int64_t p = 0, i = 0; p < s->rows; p++, i += s->stride) {
        vector v = load(x + i, width) * scale + shift;
        if (other)
            v += load(other + i, width) * other_scale + other_shift;
        if (added)
            v += load(added + i, width);
        if (a->top > 0)
            v = keep(inside(v, a->top), v) + keep(v >= zero + a->top, zero + a->top);
        store(y + i, v, width);
    }
}

EVERY_WIDTH static void visit_apply(const void *argument, const struct strip *s)
{
    EITHER_WIDTH(apply, argument, s);
}

void norm_apply(const struct blocked *shape, const struct norm *norm, const struct norm *other,
                const float *added, float top, float *y)
{
    struct application application = {norm, other, added, y, top};
    kernels_visit(shape, visit_apply, &application);
}

/* ---- backward ---- */

/* What the two passes need. */
struct backward {
    const struct blocked *shape;
    const struct norm_gradient *in;
    float *scratch;
};

INLINE void add_sums(const struct backward *b, const struct strip *s, int64_t width)
{
    const struct norm_gradient *in = b->in;
    const struct norm *norm = in->norm[0], *other = in->norm[1];
    const vector zero = {0};
    vector scale = load(norm->scale + s->channel, width);
    vector shift = load(norm->shift + s->channel, width);
    vector mean = load(norm->mean + s->channel, width);
    vector other_mean = other ? load(other->mean + s->channel, width) : zero;
    vector sum = zero, product = zero, other_product = zero;
    for (int64_t p = 0, i = s->offset; p < s->rows; p++, i += s->stride) {
        vector g = load(in->first + i, width), x = load(norm->x + i, width);
        if (in->second)
            g += load(in->second + i, width);
        if (in->top > 0) /* without a value the same arithmetic as in apply() */
            g = keep(inside(in->value ? load(in->value + i, width) : x * scale + shift, in->top),
                     g);
        if (in->gradient)
            store(in->gradient + i, g, width);
        sum += g;
        product += g * (x - mean);
        if (other)
            other_product += g * (load(other->x + i, width) - other_mean);
    }
    float *scratch = b->scratch + s->unit * SUMS * b->shape->block + s->lane;
    store(scratch, sum, width);
    store(scratch + b->shape->block, product, width);
    store(scratch + 2 * b->shape->block, other_product, width);
}

EVERY_WIDTH static void visit_sums(const void *argument, const struct strip *s)
{
    EITHER_WIDTH(add_sums, argument, s);
}

void norm_backward_sums(const struct blocked *shape, const struct norm_gradient *gradient,
                        float *scratch)
{
    struct backward backward = {shape, gradient, scratch};
    kernels_visit(shape, visit_sums, &backward);
#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < shape->channels; c++)
        for (int64_t i = 0; i < 2 && gradient->norm[i]; i++) {
            gradient->norm[i]->sum[c] = total(shape, scratch, 0, c);
            gradient->norm[i]->product[c] = total(shape, scratch, 1 + i, c);
        }
}

/* dx = scale * (g - mean(g) - (x - mean) * inverse^2 * mean(g * (x - mean))) */
static void fold_backward(const struct blocked *shape, struct norm *norm)
{
    double count = (double)(shape->images * shape->pixels);
    for (int64_t c = 0; c < shape->channels; c++) {
        double scale = (double)norm->scale[c], inverse = (double)norm->inverse[c];
        double slope = -scale * inverse * inverse * norm->product[c] / count;
        norm->slope[c] = (float)slope;
        norm->offset[c] = (float)(-scale * norm->sum[c] / count - slope * (double)norm->mean[c]);
    }
}

/* The constants of one norm's channels. */
struct line {
    vector scale, slope, offset;
};

INLINE struct line load_line(const struct norm *norm, const struct strip *s, int64_t width)
{
    return (struct line){load(norm->scale + s->channel, width),
                         load(norm->slope + s->channel, width),
                         load(norm->offset + s->channel, width)};
}

INLINE void write_dx(const struct backward *b, const struct strip *s, int64_t width)
{
    const struct norm_gradient *in = b->in;
    const struct norm *norm = in->norm[0], *other = in->norm[1];
    const float *from = in->gradient ? in->gradient : in->first;
    bool mask = in->top > 0 && !in->gradient;
    vector shift = load(norm->shift + s->channel, width);
    struct line line = load_line(norm, s, width), second = line;
    if (other)
        second = load_line(other, s, width);
    for (int64_t p = 0, i = s->offset; p < s->rows; p++, i += s->stride) {
        vector g = load(from + i, width), x = load(norm->x + i, width);
        if (mask)
            g = keep(inside(x * line.scale + shift, in->top), g);
        store(norm->dx + i, g * line.scale + x * line.slope + line.offset, width);
        if (other) {
            vector y = load(other->x + i, width);
            store(other->dx + i, g * second.scale + y * second.slope + second.offset, width);
        }
    }
}

EVERY_WIDTH static void visit_dx(const void *argument, const struct strip *s)
{
    EITHER_WIDTH(write_dx, argument, s);
}

void norm_backward(const struct blocked *shape, const struct norm_gradient *gradient)
{
    struct backward backward = {shape, gradient, NULL};
    for (int64_t i = 0; i < 2 && gradient->norm[i]; i++)
        fold_backward(shape, gradient->norm[i]);
    kernels_visit(shape, visit_dx, &backward);
}
