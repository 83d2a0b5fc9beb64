#pragma once

/** @file
 * Pools as kernels see them: the threads' places, and the gradient of what a maximum pool reads.
 */

#include "exec/cuda/kernels/rows.cuh"

/** A pool.  A thread owns WIDTH channels of one pixel of the result. */
struct pool {
    int32_t batch, octets; /* per pixel */
    int32_t in_height, in_width, out_height, out_width;
    int32_t kernel, stride, padding;
};

/** The position of a thread. */
struct spot {
    int64_t image; /* times height */
    int32_t height, width, channel;
};

/** The number of a thread. */
__device__ inline int64_t my_index()
{
    return (int64_t)blockIdx.x * THREADS + threadIdx.x;
}

/** The position of thread @index. */
__device__ inline struct spot spot_of(int64_t index, int32_t octets, int32_t height, int32_t width)
{
    int64_t pixel = index / octets, row = pixel / width;
    return {row / height, (int32_t)(row % height), (int32_t)(pixel % width),
            (int32_t)(index % octets) * WIDTH};
}

/** The first element of a pixel. */
__device__ inline int64_t element(const struct pool &pool, int64_t image, int32_t height,
                                  int32_t width, int32_t h, int32_t w)
{
    return ((image * height + h) * width + w) * pool.octets * WIDTH;
}

/** The first and the last output whose window holds @position; there may be none. */
__device__ inline void holders(const struct pool &pool, int32_t position, int32_t outputs,
                               int32_t *first, int32_t *last)
{
    int32_t from = position + pool.padding - pool.kernel + 1;
    *first = from <= 0 ? 0 : (from + pool.stride - 1) / pool.stride;
    *last = (position + pool.padding) / pool.stride;
    if (*last > outputs - 1)
        *last = outputs - 1;
}

/** The gradient of WIDTH elements at @at, gathered from that of the pool and rounded. */
template <typename T>
__device__ inline octet<T> gather(const struct pool &pool, const struct spot &at,
                                  const uint8_t *winner, const T *dy)
{
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
    octet<T> out;
#pragma unroll
    for (int32_t i = 0; i < WIDTH; i++)
        out.at[i] = narrow<T>(sum[i]);
    return out;
}

/** @layer on @batch images of @channels padded channels. */
static inline struct pool pool_of(const struct layer *layer, int32_t batch, int32_t channels)
{
    return {batch,           channels / WIDTH,  layer->in.height,
            layer->in.width, layer->out.height, layer->out.width,
            layer->kernel,   layer->stride,     layer->padding};
}
