
#include <math.h>

#include "exec/cuda/kernels/rows.cuh"

/* A pool.  A thread owns WIDTH channels of one pixel of the result. */
struct pool {
    int32_t batch, octets; /* per pixel */
    int32_t in_height, in_width, out_height, out_width;
    int32_t kernel, stride, padding;
};

/* Where a thread works: blocks in x share rows of images, those in y a row. */
struct spot {
    int32_t image, height, width, channel;
    int64_t index; /* of its octet */
    bool inside;
};

static __device__ inline struct spot my_spot(const struct pool &pool, int32_t height, int32_t width)
{
    int32_t row = (int32_t)blockIdx.x, of_row = width * pool.octets;
    int32_t at = (int32_t)(blockIdx.y * THREADS + threadIdx.x);
    return {row / height,
            row % height,
            at / pool.octets,
            at % pool.octets * WIDTH,
            (int64_t)row * of_row + at,
            at < of_row};
}

/* The first element of a pixel. */
static __device__ inline int64_t element(const struct pool &pool, int32_t image, int32_t height,
                                         int32_t width, int32_t h, int32_t w)
{
    return ((int64_t)(image * height + h) * width + w) * pool.octets * WIDTH;
}

/* The first and the last output whose window holds @position; there may be none. */
static __device__ inline void holders(const struct pool &pool, int32_t position, int32_t outputs,
                                      int32_t *first, int32_t *last)
{
    int32_t from = position + pool.padding - pool.kernel + 1;
    *first = from <= 0 ? 0 : (from + pool.stride - 1) / pool.stride;
    *last = (position + pool.padding) / pool.stride;
    if (*last > outputs - 1)
        *last = outputs - 1;
}

/* ---- maximum ---- */

template <typename T>
__global__ void __launch_bounds__(THREADS) maximum(struct pool pool, const T *__restrict__ x,
                                                   uint8_t *__restrict__ winner, T *__restrict__ y)
{
    struct spot at = my_spot(pool, pool.out_height, pool.out_width);
    if (!at.inside)
        return;
    int32_t top = at.height * pool.stride - pool.padding;
    int32_t left = at.width * pool.stride - pool.padding;
    float best[WIDTH];
    some<uint8_t, WIDTH> place = {};
    bool first = true;
    for (int32_t h = top < 0 ? 0 : top; h < top + pool.kernel && h < pool.in_height; h++)
        for (int32_t w = left < 0 ? 0 : left; w < left + pool.kernel && w < pool.in_width; w++) {
            octet<T> in = load<WIDTH>(
                x + element(pool, at.image, pool.in_height, pool.in_width, h, w) + at.channel);
            uint8_t here = (uint8_t)((h - top) * pool.kernel + (w - left));
#pragma unroll
            for (int32_t i = 0; i < WIDTH; i++) {
                float value = widen(in.at[i]);
                if (first || value > best[i]) {
                    best[i] = value;
                    place.at[i] = here;
                }
            }
            first = false;
        }
    put(y + at.index * WIDTH, best, 1);
    store(winner + at.index * WIDTH, place);
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    maximum_backward(struct pool pool, const uint8_t *__restrict__ winner, const T *__restrict__ dy,
                     T *__restrict__ dx)
{
    struct spot at = my_spot(pool, pool.in_height, pool.in_width);
    if (!at.inside)
        return;
    int32_t top, bottom, left, right;
    holders(pool, at.height, pool.out_height, &top, &bottom);
    holders(pool, at.width, pool.out_width, &left, &right);
    float sum[WIDTH] = {};
    for (int32_t h = top; h <= bottom; h++)
        for (int32_t w = left; w <= right; w++) {
            int64_t from =
                element(pool, at.image, pool.out_height, pool.out_width, h, w) + at.channel;
            int32_t here = (at.height - (h * pool.stride - pool.padding)) * pool.kernel +
                           (at.width - (w * pool.stride - pool.padding));
            octet<T> in = load<WIDTH>(dy + from);
            some<uint8_t, WIDTH> place = load<WIDTH>(winner + from);
#pragma unroll
            for (int32_t i = 0; i < WIDTH; i++)
                sum[i] += place.at[i] == here ? widen(in.at[i]) : 0;
        }
    put(dx + at.index * WIDTH, sum, 1);
}

/* ---- average ---- */

/* Inputs of output @i of @out along a side of @in: floor(i in / out) ... ceil((i + 1) in / out). */
struct range {
    int32_t first, end;
};

static __device__ inline struct range window(int32_t i, int32_t in, int32_t out)
{
    return {(int32_t)((int64_t)i * in / out), (int32_t)(((int64_t)(i + 1) * in + out - 1) / out)};
}

/* The part of each input in the average of a window. */
static __device__ inline float part(struct range down, struct range right)
{
    return 1 / (float)((down.end - down.first) * (right.end - right.first));
}

/* Outputs whose windows contain input @i: an input reaches an output exactly where the output
 * reaches the input, so with BACK, where @pool has inputs and outputs exchanged, it is the same
 * formula. */
template <typename T, bool BACK>
__global__ void __launch_bounds__(THREADS)
    average(struct pool pool, const T *__restrict__ x, T *__restrict__ y)
{
    struct spot at = my_spot(pool, pool.out_height, pool.out_width);
    if (!at.inside)
        return;
    struct range down = window(at.height, pool.in_height, pool.out_height);
    struct range right = window(at.width, pool.in_width, pool.out_width);
    float sum[WIDTH] = {};
    for (int32_t h = down.first; h < down.end; h++)
#pragma unroll 4
        for (int32_t w = right.first; w < right.end; w++) {
            float share = BACK ? part(window(h, pool.out_height, pool.in_height),
                                      window(w, pool.out_width, pool.in_width))
                               : 1;
            octet<T> in = load<WIDTH>(
                x + element(pool, at.image, pool.in_height, pool.in_width, h, w) + at.channel);
#pragma unroll
            for (int32_t i = 0; i < WIDTH; i++)
                sum[i] += widen(in.at[i]) * share;
        }
    put(y + at.index * WIDTH, sum, BACK ? 1 : part(down, right));
}

/* ---- calls ---- */

/* @layer on @batch images of @channels padded channels. */
static inline struct pool pool_of(const struct layer *layer, int32_t batch, int32_t channels)
{
    return {batch,           channels / WIDTH,  layer->in.height,
            layer->in.width, layer->out.height, layer->out.width,
            layer->kernel,   layer->stride,     layer->padding};
}

static dim3 grid_of(const struct pool &pool, int32_t height, int32_t width)
{
    return dim3((unsigned)(pool.batch * height),
                (unsigned)divide_up((int64_t)width * pool.octets, THREADS));
}

void kernel_pool(cudaStream_t stream, enum dtype type, const struct layer *layer, int32_t batch,
                 int32_t channels, const void *x, uint8_t *winner, void *y)
{
    struct pool pool = pool_of(layer, batch, channels);
    dim3 grid = grid_of(pool, pool.out_height, pool.out_width);
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        if (layer->op == LAYER_MAX_POOL)
            kernel_launch(stream, grid, dim3(THREADS), maximum<T>, pool, (const T *)x, winner,
                          (T *)y);
        else
            kernel_launch(stream, grid, dim3(THREADS), average<T, false>, pool, (const T *)x,
                          (T *)y);
    });
}

void kernel_pool_backward(cudaStream_t stream, enum dtype type, const struct layer *layer,
                          int32_t batch, int32_t channels, const uint8_t *winner, const void *dy,
                          void *dx)
{
    struct pool pool = pool_of(layer, batch, channels);
    dim3 grid = grid_of(pool, pool.in_height, pool.in_width);
    struct pool turned = pool;
    turned.in_height = pool.out_height, turned.in_width = pool.out_width;
    turned.out_height = pool.in_height, turned.out_width = pool.in_width;
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        if (layer->op == LAYER_MAX_POOL)
            kernel_launch(stream, grid, dim3(THREADS), maximum_backward<T>, pool, winner,
                          (const T *)dy, (T *)dx);
        else
            kernel_launch(stream, grid, dim3(THREADS), average<T, true>, turned, (const T *)dy,
                          (T *)dx);
    });
}
