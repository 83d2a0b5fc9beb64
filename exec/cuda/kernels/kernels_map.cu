
#include "exec/cuda/kernels/rows.cuh"

/* Enough that only few blocks are in the last wave.  Threads fetch 64 bytes ahead in 16 bits, and
 * three blocks of them at once on a multiprocessor cover the latency of its memory. */
constexpr int32_t MAP_BLOCKS = 4096;

/* The rows of one block: neighbours, so that blocks in order read memory in order. */
struct span {
    int64_t first, end;
};

static __device__ inline struct span my_rows(int64_t rows)
{
    int64_t each = (rows + gridDim.y - 1) / gridDim.y, first = blockIdx.y * each;
    return {first + threadIdx.y, first + each < rows ? first + each : rows};
}

/* ---- forward ---- */

enum residual { RESIDUAL_NONE, RESIDUAL_PLAIN, RESIDUAL_SCALED };

template <typename T> struct forward {
    const T *x;
    const float *scale, *shift; /* (channels) scale NULL: 1 */
    const T *residual;
    const float *residual_factors;
    int32_t relu;
    uint8_t *mask; /* words are little endian: WIDTH elements are a byte */
    T *y;
};

template <typename T, enum residual R>
__global__ void __launch_bounds__(THREADS, R == RESIDUAL_SCALED ? 2 : 3)
    apply(int64_t rows, int32_t channels, struct forward<T> at)
{
    constexpr int32_t AHEAD = R == RESIDUAL_NONE ? 4 : 2; /* four loads of 16 bytes */
    int32_t channel = my_channel();
    if (channel >= channels)
        return;
    struct span span = my_rows(rows);
    struct line scale = fetch(at.scale ? at.scale + channel : nullptr, 1);
    struct line shift = fetch(at.shift + channel, 0), by = {}, more = {};
    if (R == RESIDUAL_SCALED) {
        by = fetch(at.residual_factors + channel, 1);
        more = fetch(at.residual_factors + channels + channel, 0);
    }
    for (int64_t row = span.first; row < span.end; row += AHEAD * blockDim.y) {
        octet<T> x[AHEAD], residual[AHEAD];
#pragma unroll
        for (int32_t k = 0; k < AHEAD; k++) {
            int64_t at_row = row + k * blockDim.y, i = at_row * channels + channel;
            if (at_row < span.end) {
                x[k] = load<WIDTH>(at.x + i);
                if (R != RESIDUAL_NONE)
                    residual[k] = load<WIDTH>(at.residual + i);
            }
        }
#pragma unroll
        for (int32_t k = 0; k < AHEAD; k++) {
            int64_t at_row = row + k * blockDim.y, element = at_row * channels + channel;
            uint32_t bits = 0;
            octet<T> y;
            if (at_row >= span.end)
                break;
#pragma unroll
            for (int32_t i = 0; i < WIDTH; i++) {
                float value = widen(x[k].at[i]) * scale.at[i] + shift.at[i];
                if (R == RESIDUAL_PLAIN)
                    value += widen(residual[k].at[i]);
                if (R == RESIDUAL_SCALED)
                    value += widen(residual[k].at[i]) * by.at[i] + more.at[i];
                bits |= (value > 0) << i;
                y.at[i] = narrow<T>(at.relu && !(value > 0) ? 0 : value);
            }
            store(at.y + element, y);
            if (at.mask)
                at.mask[element / WIDTH] = (uint8_t)bits;
        }
    }
}

void kernel_apply(cudaStream_t stream, enum dtype type, int64_t rows, int32_t channels,
                  const void *x, const float *scale, const float *shift, const void *residual,
                  const float *residual_factors, int32_t relu, uint32_t *mask, void *y)
{
    struct tiling tiling = tile(rows, channels, MAP_BLOCKS, 8);
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        struct forward<T> at = {
            (const T *)x, scale, shift, (const T *)residual, residual_factors, relu || mask,
                (uint8_t *)mask, (T *)y
        };
        auto *kernel = !residual           ? apply<T, RESIDUAL_NONE>
                       : !residual_factors ? apply<T, RESIDUAL_PLAIN>
                                           : apply<T, RESIDUAL_SCALED>;
        kernel_launch(stream, tiling.grid, tiling.block, kernel, rows, channels, at);
    });
}

/* ---- backward ---- */

template <typename T, bool CUT>
__global__ void __launch_bounds__(THREADS, 3)
    backward_apply(int64_t rows, int32_t channels, const T *dz, const uint8_t *mask, const T *x,
                   const float *__restrict__ factors, T *dx, struct kernel_packed packed)
{
    constexpr int32_t AHEAD = 2;
    int32_t channel = my_channel();
    if (channel >= channels)
        return;
    if (packed.from && blockIdx.y == 0 && threadIdx.y == 0)
        pack_channels(packed, channels, channel);
    struct span span = my_rows(rows);
    struct line by = fetch(factors + channel, 0), of_x = fetch(factors + channels + channel, 0);
    struct line shift = fetch(factors + 2 * (int64_t)channels + channel, 0);
    for (int64_t row = span.first; row < span.end; row += AHEAD * blockDim.y) {
        octet<T> a[AHEAD], b[AHEAD];
        uint32_t bits[AHEAD];
#pragma unroll
        for (int32_t k = 0; k < AHEAD; k++) {
            int64_t at_row = row + k * blockDim.y, i = at_row * channels + channel;
            if (at_row < span.end) {
                a[k] = load<WIDTH>(dz + i);
                b[k] = load<WIDTH>(x + i);
                bits[k] = CUT ? mask[i / WIDTH] : 0xff;
            }
        }
#pragma unroll
        for (int32_t k = 0; k < AHEAD; k++) {
            int64_t at_row = row + k * blockDim.y;
            octet<T> out;
            if (at_row >= span.end)
                break;
#pragma unroll
            for (int32_t i = 0; i < WIDTH; i++) {
                float dy = bits[k] >> i & 1 ? widen(a[k].at[i]) : 0;
                out.at[i] =
                    narrow<T>(by.at[i] * dy + (of_x.at[i] * widen(b[k].at[i]) + shift.at[i]));
            }
            store(dx + at_row * channels + channel, out);
        }
    }
}

void kernel_backward_apply(cudaStream_t stream, enum dtype type, int64_t rows, int32_t channels,
                           const void *dz, const uint32_t *mask, const void *x,
                           const float *factors, void *dx, struct kernel_packed packed)
{
    struct tiling tiling = tile(rows, channels, MAP_BLOCKS, 8);
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        auto *kernel = mask ? backward_apply<T, true> : backward_apply<T, false>;
        kernel_launch(stream, tiling.grid, tiling.block, kernel, rows, channels, (const T *)dz,
                      (const uint8_t *)mask, (const T *)x, factors, (T *)dx, packed);
    });
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    cut_by_mask(int64_t octets, const T *dy, const T *more, const uint8_t *mask, T *dz)
{
    int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t k = (int64_t)blockIdx.x * THREADS + threadIdx.x; k < octets; k += step) {
        octet<T> sum = load<WIDTH>(dy + k * WIDTH), added = {};
        if (more)
            added = load<WIDTH>(more + k * WIDTH);
        store(dz + k * WIDTH, cut(sum, added, more != nullptr, mask ? mask[k] : 0xff));
    }
}

void kernel_mask(cudaStream_t stream, enum dtype type, int64_t elements, const void *dy,
                 const void *more, const uint32_t *mask, void *dz)
{
    int64_t octets = elements / WIDTH, blocks = divide_up(octets, THREADS);
    dim3 grid((unsigned)(blocks < MAP_BLOCKS ? blocks : MAP_BLOCKS));
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        kernel_launch(stream, grid, dim3(THREADS), cut_by_mask<T>, octets, (const T *)dy,
                      (const T *)more, (const uint8_t *)mask, (T *)dz);
    });
}
