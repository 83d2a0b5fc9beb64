#include "tests/cuda/conv_loops.h"

#include "core/base/base.h"
#include "exec/cuda/conv/conv_check.h"
#include "exec/step/half.h"

/* A copy in fp32 of @count numbers; the caller frees it. */
static float *widened(enum dtype type, int64_t count, const void *from)
{
    assert(from && (uintptr_t)from % 16 == 0);
    float *to = base_alloc(count, sizeof *to);
    half_to_float(type, count, from, to);
    return to;
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
    float *w;    /* forward: (taps, in, out), else (out, taps, in) */
    bool filter; /* w is written, not x */
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

static void backward_touch(void *context, struct touch touch)
{
    struct arrays *a = context;
    int32_t in = a->shape->in_channels, taps = a->shape->kernel * a->shape->kernel;
    float *x = a->x + touch.x;
    for (int32_t k = 0; k < a->shape->out_channels; k++) {
        float dy = a->y[touch.y + k], *row = a->w + (k * taps + touch.tap) * in;
        float *restrict to = a->filter ? row : x;
        const float *restrict from = a->filter ? x : row;
#pragma omp simd
        for (int32_t c = 0; c < in; c++)
            to[c] += dy * from[c];
    }
}

/* (out, taps, in) to (taps, in, out), so that the innermost loop writes neighbours. */
static void transpose_weights(const struct conv_shape *s, float **w)
{
    int32_t taps = s->kernel * s->kernel;
    float *to = base_alloc(conv_elements(s, CONV_ARRAY_W), sizeof *to);
    for (int64_t k = 0; k < s->out_channels; k++)
        for (int64_t i = 0; i < (int64_t)taps * s->in_channels; i++)
            to[i * s->out_channels + k] = (*w)[k * taps * s->in_channels + i];
    free(*w);
    *w = to;
}

void conv_loops(enum conv_op op, const struct conv_shape *s, const struct conv_call *call)
{
    const void *read[] = {call->x, call->w, call->dy};
    void *const write[] = {call->dx, call->dw, call->y};
    float *array[CONV_ARRAY_COUNT];
    enum conv_array written = conv_written(op);
    for (int32_t i = 0; i < CONV_ARRAY_COUNT; i++) {
        int64_t count = conv_elements(s, (enum conv_array)i);
        array[i] = i == (int32_t)written ? base_alloc(count, sizeof(float))
                                         : widened(s->type, count, read[i]);
    }
    if (op == CONV_FORWARD)
        transpose_weights(s, &array[CONV_ARRAY_W]);
    struct arrays arrays = {s, array[CONV_ARRAY_X], array[CONV_ARRAY_Y], array[CONV_ARRAY_W],
                            op == CONV_BACKWARD_FILTER};
    walk(s, op == CONV_FORWARD ? forward_touch : backward_touch, &arrays);
    assert(write[written] && (uintptr_t)write[written] % 16 == 0);
    half_from_float(s->type, conv_elements(s, written), array[written], write[written]);
    for (int32_t i = 0; i < CONV_ARRAY_COUNT; i++)
        free(array[i]);
}
