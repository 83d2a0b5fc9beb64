#include "tests/cuda/conv_loops.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "exec/step/half.h"

static int64_t elements_in(const struct conv_shape *s)
{
    return (int64_t)s->batch * s->in_height * s->in_width * s->in_channels;
}

static int64_t elements_out(const struct conv_shape *s)
{
    return (int64_t)s->batch * s->out_height * s->out_width * s->out_channels;
}

static int64_t elements_weight(const struct conv_shape *s)
{
    return (int64_t)s->out_channels * s->kernel * s->kernel * s->in_channels;
}

/* A copy in fp32 of @count numbers; the caller frees it. */
static float *widened(enum dtype type, int64_t count, const void *from)
{
    assert(from && (uintptr_t)from % 16 == 0);
    float *to = base_alloc(count, sizeof *to);
    half_to_float(type, count, from, to);
    return to;
}

/* Round @from to @type in @to, and free it. */
static void narrow(enum dtype type, int64_t count, float *from, void *to)
{
    assert(to && (uintptr_t)to % 16 == 0);
    half_from_float(type, count, from, to);
    free(from);
}

/* @x with batch norm's factors. */
static void scale(const struct conv_shape *s, const void *factors, float *x)
{
    float *line = widened(s->type, 2 * (int64_t)s->in_channels, factors);
    for (int64_t i = 0; i < elements_in(s); i++)
        x[i] = x[i] * line[i % s->in_channels] + line[s->in_channels + i % s->in_channels];
    free(line);
}

/* x as the convolution of @op reads it; the caller frees it. */
static float *read_x(enum conv_op op, const struct conv_shape *s, const struct conv_call *call)
{
    float *x = widened(s->type, elements_in(s), call->x);
    if (!conv_ops[op].applies)
        return x;
    scale(s, call->factors, x);
    if (conv_ops[op].adds) {
        float *more = widened(s->type, elements_in(s), call->residual);
        if (conv_ops[op].pairs)
            scale(s, call->residual_factors, more);
        for (int64_t i = 0; i < elements_in(s); i++)
            x[i] += more[i];
        free(more);
    }
    for (int64_t i = 0; i < elements_in(s); i++)
        x[i] = x[i] > 0 ? x[i] : 0;
    half_round(s->type, elements_in(s), x);
    if (conv_ops[op].adds) {
        float *value = base_alloc(elements_in(s), sizeof *value);
        memcpy(value, x, (size_t)elements_in(s) * sizeof *value);
        narrow(s->type, elements_in(s), value, call->value);
    }
    return x;
}

/* One pixel of y, one tap of the window, and the pixel of x under it. */
struct touch {
    int64_t x, y; /* first element of the pixel */
    int64_t tap;
};

/* Call @visit for every pixel of y and every tap that lies inside x, in a fixed order. */
static void walk(const struct conv_shape *s, void (*visit)(void *context, struct touch touch),
                 void *context)
{
    int64_t pixel = 0;
    for (int32_t n = 0; n < s->batch; n++)
        for (int32_t row = 0; row < s->out_height; row++)
            for (int32_t column = 0; column < s->out_width; column++, pixel++)
                for (int32_t tap = 0; tap < s->kernel * s->kernel; tap++) {
                    int32_t h = row * s->stride - s->padding + tap / s->kernel;
                    int32_t w = column * s->stride - s->padding + tap % s->kernel;
                    if (h < 0 || h >= s->in_height || w < 0 || w >= s->in_width)
                        continue;
                    int64_t from = ((int64_t)n * s->in_height + h) * s->in_width + w;
                    visit(context,
                          (struct touch){from * s->in_channels, pixel * s->out_channels, tap});
                }
}

struct arrays {
    const struct conv_shape *shape;
    float *x, *y;
    float *w; /* forward: (taps, in, out), else (out, taps, in) */
};

static void forward_touch(void *context, struct touch touch)
{
    struct arrays *a = context;
    int32_t in = a->shape->in_channels, out = a->shape->out_channels;
    const float *w = a->w + touch.tap * in * out;
    float *restrict y = a->y + touch.y;
    for (int32_t c = 0; c < in; c++) {
        float x = a->x[touch.x + c];
        const float *restrict row = w + (int64_t)c * out;
#pragma omp simd
        for (int32_t k = 0; k < out; k++)
            y[k] += x * row[k];
    }
}

static void data_touch(void *context, struct touch touch)
{
    struct arrays *a = context;
    int32_t in = a->shape->in_channels, taps = a->shape->kernel * a->shape->kernel;
    float *restrict dx = a->x + touch.x;
    for (int32_t k = 0; k < a->shape->out_channels; k++) {
        float dy = a->y[touch.y + k];
        const float *restrict row = a->w + (k * taps + touch.tap) * in;
#pragma omp simd
        for (int32_t c = 0; c < in; c++)
            dx[c] += dy * row[c];
    }
}

static void filter_touch(void *context, struct touch touch)
{
    struct arrays *a = context;
    int32_t in = a->shape->in_channels, taps = a->shape->kernel * a->shape->kernel;
    const float *restrict x = a->x + touch.x;
    for (int32_t k = 0; k < a->shape->out_channels; k++) {
        float dy = a->y[touch.y + k];
        float *restrict row = a->w + (k * taps + touch.tap) * in;
#pragma omp simd
        for (int32_t c = 0; c < in; c++)
            row[c] += dy * x[c];
    }
}

/* (out, taps, in) to (taps, in, out), so that the innermost loop writes neighbours. */
static void transpose_weights(const struct conv_shape *s, float **w)
{
    int32_t taps = s->kernel * s->kernel;
    float *to = base_alloc(elements_weight(s), sizeof *to);
    for (int64_t k = 0; k < s->out_channels; k++)
        for (int64_t i = 0; i < (int64_t)taps * s->in_channels; i++)
            to[i * s->out_channels + k] = (*w)[k * taps * s->in_channels + i];
    free(*w);
    *w = to;
}

/* Sums of y as it was written, rounded, as a pass over it would form them. */
static void sum(const struct conv_shape *s, const void *y, float *sums)
{
    assert(sums && (uintptr_t)sums % 16 == 0);
    float *wide = widened(s->type, elements_out(s), y);
    double *total = base_alloc(2 * (int64_t)s->out_channels, sizeof *total);
    for (int64_t i = 0; i < elements_out(s); i++) {
        total[i % s->out_channels] += (double)wide[i];
        total[s->out_channels + i % s->out_channels] += (double)wide[i] * (double)wide[i];
    }
    for (int32_t c = 0; c < 2 * s->out_channels; c++)
        sums[c] = (float)total[c];
    free(total);
    free(wide);
}

static void forward(enum conv_op op, const struct conv_shape *s, const struct conv_call *call)
{
    struct arrays a = {.shape = s,
                       .x = read_x(op, s, call),
                       .y = base_alloc(elements_out(s), sizeof *a.y),
                       .w = widened(s->type, elements_weight(s), call->w)};
    transpose_weights(s, &a.w);
    walk(s, forward_touch, &a);
    free(a.x);
    free(a.w);
    narrow(s->type, elements_out(s), a.y, call->y);
}

/* Add the numbers of @more, of @type, to @to. */
static void add(enum dtype type, int64_t count, const void *more, float *to)
{
    float *wide = widened(type, count, more);
    for (int64_t i = 0; i < count; i++)
        to[i] += wide[i];
    free(wide);
}

/* Add the result of @norm, formed again, to @to. */
static void add_norm(const struct conv_shape *s, const struct conv_norm *norm, float *to)
{
    assert(norm->statistics && norm->parameter && norm->derived);
    assert((uintptr_t)norm->statistics % 16 == 0 && (uintptr_t)norm->parameter % 16 == 0);
    assert((uintptr_t)norm->derived % 16 == 0);
    int32_t channels = s->in_channels;
    const float *mean = norm->statistics, *deviation = mean + channels;
    const float *gamma = norm->parameter, *beta = gamma + channels;
    float *x = widened(s->type, elements_in(s), norm->x);
    for (int64_t i = 0; i < elements_in(s); i++) {
        int64_t c = i % channels;
        float normal = (x[i] - mean[c]) * deviation[c];
        to[i] += normal * gamma[c] + beta[c];
    }
    free(x);
}

/* What the backward of @norm needs of @dx, as it was written, and its x. */
static void derive(const struct conv_shape *s, const struct conv_norm *norm, const float *dx)
{
    int64_t channels = s->in_channels, rows = elements_in(s) / channels;
    const float *mean = norm->statistics, *deviation = mean + channels;
    float *x = widened(s->type, elements_in(s), norm->x);
    for (int64_t c = 0; c < channels; c++) {
        double scale = 0, shift = 0;
        for (int64_t i = c; i < elements_in(s); i += channels) {
            scale += (double)dx[i] * ((double)x[i] - (double)mean[c]) * (double)deviation[c];
            shift += (double)dx[i];
        }
        double of_dx = (double)norm->parameter[c] * (double)deviation[c];
        double of_x = -of_dx * (double)deviation[c] * scale / (double)rows;
        const double derived[] = {scale, shift, of_dx, of_x,
                                  -of_dx * shift / (double)rows - of_x * (double)mean[c]};
        for (int64_t i = 0; i < CONV_DERIVED_COUNT; i++)
            norm->derived[i * channels + c] = (float)derived[i];
    }
    free(x);
}

/* Goes back through the batch norms before, whose operands are fp32, and the ReLU behind them. */
static void backward_norm(enum conv_op op, const struct conv_shape *s, const struct conv_call *call,
                          float *dx)
{
    float *value = base_alloc(elements_in(s), sizeof *value);
    assert(!conv_ops[op].adds || call->other != call->dx);
    if (conv_ops[op].adds)
        add(s->type, elements_in(s), call->other, dx);
    for (int32_t k = 0; k < conv_ops[op].norms; k++)
        add_norm(s, &call->norm[k], value);
    if (conv_ops[op].adds && !conv_ops[op].pairs)
        add(s->type, elements_in(s), call->residual, value);
    for (int64_t i = 0; i < elements_in(s); i++)
        dx[i] = value[i] > 0 ? dx[i] : 0;
    free(value);
    half_round(s->type, elements_in(s), dx);
    for (int32_t k = 0; k < conv_ops[op].norms; k++)
        derive(s, &call->norm[k], dx);
}

static void backward_data(enum conv_op op, const struct conv_shape *s, const struct conv_call *call)
{
    struct arrays a = {.shape = s,
                       .x = base_alloc(elements_in(s), sizeof *a.x),
                       .y = widened(s->type, elements_out(s), call->dy),
                       .w = widened(s->type, elements_weight(s), call->w)};
    walk(s, data_touch, &a);
    free(a.y);
    free(a.w);
    if (conv_ops[op].norms)
        backward_norm(op, s, call, a.x);
    narrow(s->type, elements_in(s), a.x, call->dx);
}

static void backward_filter(enum conv_op op, const struct conv_shape *s,
                            const struct conv_call *call)
{
    struct arrays a = {.shape = s,
                       .x = read_x(op, s, call),
                       .y = widened(s->type, elements_out(s), call->dy),
                       .w = base_alloc(elements_weight(s), sizeof *a.w)};
    walk(s, filter_touch, &a);
    free(a.x);
    free(a.y);
    narrow(s->type, elements_weight(s), a.w, call->dw);
}

void conv_loops(enum conv_op op, const struct conv_shape *shape, const struct conv_call *call)
{
    switch (op) {
    case CONV_FORWARD:
        forward(op, shape, call);
        break;
    case CONV_FORWARD_SUMS:
    case CONV_FORWARD_APPLIED_SUMS:
    case CONV_FORWARD_ADD_SUMS:
    case CONV_FORWARD_ADD_TWO_SUMS:
        forward(op, shape, call);
        sum(shape, call->y, call->sums);
        break;
    case CONV_BACKWARD_DATA:
    case CONV_BACKWARD_DATA_NORM:
    case CONV_BACKWARD_DATA_ADD_NORM:
    case CONV_BACKWARD_DATA_ADD_NORMS:
        backward_data(op, shape, call);
        break;
    case CONV_BACKWARD_FILTER:
    case CONV_BACKWARD_FILTER_APPLIED:
        backward_filter(op, shape, call);
        break;
    case CONV_OP_COUNT:
        assert(0);
    }
}
