#include "exec/cuda/kernels/kernels.h"

#include <math.h>

#include "exec/cuda/kernels/launch.cuh"
#include "exec/cuda/kernels/pool.cuh"

/* ---- maximum ---- */

/* What a pool reads: x, or with APPLY its batch norm and ReLU, rounded as if it had been written.
 */
template <typename T, bool APPLY> static __device__ inline float seen(T x, float scale, float shift)
{
    if (!APPLY)
        return widen(x);
    float y = widen(x) * scale + shift;
    return widen(narrow<T>(y > 0 ? y : 0));
}

template <typename T, bool APPLY>
__global__ void __launch_bounds__(THREADS)
    maximum(struct pool pool, const T *__restrict__ x, const float *__restrict__ factors,
            uint8_t *__restrict__ winner, T *__restrict__ y)
{
    int64_t index = my_index();
    if (index >= (int64_t)pool.batch * pool.out_height * pool.out_width * pool.octets)
        return;
    struct spot at = spot_of(index, pool.octets, pool.out_height, pool.out_width);
    int32_t top = at.height * pool.stride - pool.padding;
    int32_t left = at.width * pool.stride - pool.padding;
    struct line scale = fetch(APPLY ? factors + at.channel : NULL, 1);
    struct line shift = fetch(APPLY ? factors + pool.octets * WIDTH + at.channel : NULL, 0);
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
                float value = seen<T, APPLY>(in.at[i], scale.at[i], shift.at[i]);
                if (first || value > best[i]) {
                    best[i] = value;
                    place.at[i] = here;
                }
            }
            first = false;
        }
    octet<T> out;
#pragma unroll
    for (int32_t i = 0; i < WIDTH; i++)
        out.at[i] = narrow<T>(best[i]);
    store(y + index * WIDTH, out);
    store(winner + index * WIDTH, place);
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    maximum_backward(struct pool pool, const uint8_t *__restrict__ winner, const T *__restrict__ dy,
                     T *__restrict__ dx)
{
    int64_t index = my_index();
    if (index >= (int64_t)pool.batch * pool.in_height * pool.in_width * pool.octets)
        return;
    struct spot at = spot_of(index, pool.octets, pool.in_height, pool.in_width);
    store(dx + index * WIDTH, gather(pool, at, winner, dy));
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

template <typename T>
__global__ void __launch_bounds__(THREADS)
    average(struct pool pool, const T *__restrict__ x, T *__restrict__ y)
{
    int64_t index = my_index();
    if (index >= (int64_t)pool.batch * pool.out_height * pool.out_width * pool.octets)
        return;
    struct spot at = spot_of(index, pool.octets, pool.out_height, pool.out_width);
    struct range down = window(at.height, pool.in_height, pool.out_height);
    struct range right = window(at.width, pool.in_width, pool.out_width);
    float sum[WIDTH] = {};
    for (int32_t h = down.first; h < down.end; h++)
#pragma unroll 4
        for (int32_t w = right.first; w < right.end; w++) {
            octet<T> in = load<WIDTH>(
                x + element(pool, at.image, pool.in_height, pool.in_width, h, w) + at.channel);
#pragma unroll
            for (int32_t i = 0; i < WIDTH; i++)
                sum[i] += widen(in.at[i]);
        }
    float share = 1 / (float)((down.end - down.first) * (right.end - right.first));
    octet<T> out;
#pragma unroll
    for (int32_t i = 0; i < WIDTH; i++)
        out.at[i] = narrow<T>(sum[i] * share);
    store(y + index * WIDTH, out);
}

/* Outputs whose windows hold input @i: an input reaches an output exactly where the output reaches
 * the input, so it is the same formula the other way round. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    average_backward(struct pool pool, const T *__restrict__ dy, T *__restrict__ dx)
{
    int64_t index = my_index();
    if (index >= (int64_t)pool.batch * pool.in_height * pool.in_width * pool.octets)
        return;
    struct spot at = spot_of(index, pool.octets, pool.in_height, pool.in_width);
    struct range down = window(at.height, pool.out_height, pool.in_height);
    struct range right = window(at.width, pool.out_width, pool.in_width);
    float sum[WIDTH] = {};
    for (int32_t h = down.first; h < down.end; h++)
        for (int32_t w = right.first; w < right.end; w++) {
            struct range high = window(h, pool.in_height, pool.out_height);
            struct range wide = window(w, pool.in_width, pool.out_width);
            float share = 1 / (float)((high.end - high.first) * (wide.end - wide.first));
            octet<T> in = load<WIDTH>(
                dy + element(pool, at.image, pool.out_height, pool.out_width, h, w) + at.channel);
#pragma unroll
            for (int32_t i = 0; i < WIDTH; i++)
                sum[i] += widen(in.at[i]) * share;
        }
    octet<T> out;
#pragma unroll
    for (int32_t i = 0; i < WIDTH; i++)
        out.at[i] = narrow<T>(sum[i]);
    store(dx + index * WIDTH, out);
}

/* ---- calls ---- */

static dim3 grid_of(const struct pool &pool, int32_t height, int32_t width)
{
    return dim3((unsigned)divide_up((int64_t)pool.batch * height * width * pool.octets, THREADS));
}

void kernel_pool(cudaStream_t stream, enum dtype type, const struct layer *layer, int32_t batch,
                 int32_t channels, const void *x, const float *factors, uint8_t *winner, void *y)
{
    assert(!factors || layer->op == LAYER_MAX_POOL);
    struct pool pool = pool_of(layer, batch, channels);
    dim3 grid = grid_of(pool, pool.out_height, pool.out_width);
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        if (layer->op == LAYER_MAX_POOL)
            kernel_launch(stream, grid, dim3(THREADS),
                          factors ? maximum<T, true> : maximum<T, false>, pool, (const T *)x,
                          factors, winner, (T *)y);
        else
            kernel_launch(stream, grid, dim3(THREADS), average<T>, pool, (const T *)x, (T *)y);
    });
}

void kernel_pool_backward(cudaStream_t stream, enum dtype type, const struct layer *layer,
                          int32_t batch, int32_t channels, const uint8_t *winner, const void *dy,
                          void *dx)
{
    struct pool pool = pool_of(layer, batch, channels);
    dim3 grid = grid_of(pool, pool.in_height, pool.in_width);
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        if (layer->op == LAYER_MAX_POOL)
            kernel_launch(stream, grid, dim3(THREADS), maximum_backward<T>, pool, winner,
                          (const T *)dy, (T *)dx);
        else
            kernel_launch(stream, grid, dim3(THREADS), average_backward<T>, pool, (const T *)dy,
                          (T *)dx);
    });
}
