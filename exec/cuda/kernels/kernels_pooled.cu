#include "exec/cuda/kernels/kernels.h"

#include "exec/cuda/kernels/launch.cuh"
#include "exec/cuda/kernels/pool.cuh"
#include "exec/cuda/kernels/rows.cuh"

/* Batch norm's backward where only a maximum pool reads its ReLU: the gradient is gathered from the
 * pool's twice, and never written. */

/* As of kernel_backward_sums(). */
constexpr int32_t BLOCKS = 256;

/* What both passes read. */
template <typename T> struct source {
    const uint8_t *winner;
    const T *dy;
    const float *factors; /* of the forward pass */
    const T *x;
};

/* The gradient at @at, cut by the ReLU of @x. */
template <typename T>
static __device__ inline octet<T> cut(const struct pool &pool, const struct spot &at,
                                      const struct source<T> &from, const octet<T> &x)
{
    const float *factors = from.factors + at.channel;
    octet<T> dz = gather(pool, at, from.winner, from.dy);
    uint32_t bits = let_pass(x, fetch(factors, 0), fetch(factors + pool.octets * WIDTH, 0));
#pragma unroll
    for (int32_t i = 0; i < WIDTH; i++)
        dz.at[i] = bits >> i & 1 ? dz.at[i] : narrow<T>(0);
    return dz;
}

template <typename T>
__global__ void __launch_bounds__(THREADS, 2)
    pooled_sums(struct pool pool, struct source<T> from, const float *__restrict__ statistics,
                float *__restrict__ partial)
{
    int32_t channel = my_channel(), channels = pool.octets * WIDTH;
    int64_t step = (int64_t)gridDim.y * blockDim.y;
    int64_t rows = (int64_t)pool.batch * pool.in_height * pool.in_width;
    int64_t row = rows - 1 - ((int64_t)blockIdx.y * blockDim.y + threadIdx.y);
    float sum[WIDTH] = {}, product[WIDTH] = {};
    struct line mean = fetch(channel < channels ? statistics + channel : NULL, 0);
    for (; channel < channels && row >= 0; row -= step) {
        struct spot at = spot_of(row * pool.octets, pool.octets, pool.in_height, pool.in_width);
        at.channel = channel;
        octet<T> x = load<WIDTH>(from.x + row * channels + channel);
        octet<T> dz = cut(pool, at, from, x);
#pragma unroll
        for (int32_t i = 0; i < WIDTH; i++) {
            sum[i] += widen(dz.at[i]);
            product[i] += widen(dz.at[i]) * (widen(x.at[i]) - mean.at[i]);
        }
    }
#pragma unroll
    for (int32_t i = 0; i < WIDTH; i++)
        product[i] *= channel < channels ? statistics[channels + channel + i] : 0;
    write_partial(channels, sum, product, partial);
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    pooled_apply(struct pool pool, struct source<T> from, const float *__restrict__ factors,
                 T *__restrict__ dx, struct kernel_packed packed)
{
    int64_t index = my_index();
    if (index >= (int64_t)pool.batch * pool.in_height * pool.in_width * pool.octets)
        return;
    struct spot at = spot_of(index, pool.octets, pool.in_height, pool.in_width);
    int32_t channels = pool.octets * WIDTH;
    if (packed.from && index < pool.octets)
        pack_channels(packed, channels, at.channel);
    octet<T> x = load<WIDTH>(from.x + index * WIDTH), dz = cut(pool, at, from, x), out;
#pragma unroll
    for (int32_t i = 0; i < WIDTH; i++) {
        const float *f = factors + at.channel + i;
        out.at[i] =
            narrow<T>(f[0] * widen(dz.at[i]) + (f[channels] * widen(x.at[i]) + f[2 * channels]));
    }
    store(dx + index * WIDTH, out);
}

int32_t kernel_pooled_sums(cudaStream_t stream, enum dtype type, int32_t channels,
                           const struct kernel_pooled *pooled, const void *x,
                           const float *statistics, float *partial)
{
    struct pool pool = pool_of(pooled->pool, pooled->batch, channels);
    struct tiling tiling =
        tile((int64_t)pool.batch * pool.in_height * pool.in_width, channels, BLOCKS, 2);
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        struct source<T> from = {
            pooled->winner, (const T *)pooled->dy, pooled->factors, (const T *)x
        };
        kernel_launch(stream, tiling.grid, tiling.block, pooled_sums<T>, pool, from, statistics,
                      partial);
    });
    return (int32_t)tiling.grid.y;
}

void kernel_pooled_apply(cudaStream_t stream, enum dtype type, int32_t channels,
                         const struct kernel_pooled *pooled, const void *x, const float *factors,
                         void *dx, struct kernel_packed packed)
{
    struct pool pool = pool_of(pooled->pool, pooled->batch, channels);
    int64_t threads = (int64_t)pool.batch * pool.in_height * pool.in_width * pool.octets;
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        struct source<T> from = {
            pooled->winner, (const T *)pooled->dy, pooled->factors, (const T *)x
        };
        kernel_launch(stream, dim3((unsigned)divide_up(threads, THREADS)), dim3(THREADS),
                      pooled_apply<T>, pool, from, factors, (T *)dx, packed);
    });
}
