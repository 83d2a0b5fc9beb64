#pragma once

/** @file
 * Activations as rows of channels, shared among threads.
 *
 * A thread owns WIDTH channels, 16 bytes of 16-bit elements, and loops over rows; its neighbours in
 * x own the next channels, so a warp moves 512 contiguous bytes.  Several rows are fetched before
 * the first is used, which keeps the memory busy.
 */

#include "exec/cuda/kernels/launch.cuh"

/** Threads of a block. */
constexpr int32_t THREADS = 256;

/** Channels of a thread. */
constexpr int32_t WIDTH = KERNEL_CHANNELS;

/** The channels of one thread. */
template <typename T> using octet = some<T, WIDTH>;

/** Blocks that share rows and channels: across channels in x, across rows in y. */
struct tiling {
    dim3 grid, block;
};

/** Share @rows x @channels among about @blocks blocks, with at least @rows_per_thread a thread. */
static inline struct tiling tile(int64_t rows, int32_t channels, int32_t blocks,
                                 int32_t rows_per_thread)
{
    int32_t groups = channels / WIDTH, wide = 1;
    while (wide < 32 && wide < groups)
        wide *= 2;
    int64_t across = divide_up(groups, wide), high = THREADS / wide;
    int64_t most = blocks / across > 1 ? blocks / across : 1;
    int64_t down = divide_up(rows, high * rows_per_thread);
    return {dim3((unsigned)across, (unsigned)(down < most ? down : most)),
            dim3((unsigned)wide, (unsigned)high)};
}

/** Per-channel numbers, of the channels of one thread. */
struct line {
    float at[WIDTH];
};

/** WIDTH numbers from @from; NULL: @otherwise. */
__device__ inline struct line fetch(const float *from, float otherwise)
{
    struct line line;
#pragma unroll
    for (int32_t i = 0; i < WIDTH; i++)
        line.at[i] = from ? from[i] : otherwise;
    return line;
}

/** Round @value, times @by, to the octet at @to. */
template <typename T> __device__ inline void put(T *to, const float *value, float by)
{
    octet<T> out;
#pragma unroll
    for (int32_t i = 0; i < WIDTH; i++)
        out.at[i] = narrow<T>(value[i] * by);
    store(to, out);
}

/** The first channel of this thread; it may be beyond the last. */
__device__ inline int32_t my_channel()
{
    return (int32_t)(blockIdx.x * blockDim.x + threadIdx.x) * WIDTH;
}

/** Add the sums of the rows of threads, and write the block's slice of the partial sums;
 * neighbouring threads have neighbouring channels. */
__device__ inline void write_partial(int32_t channels, const float *sum, const float *product,
                                     float *partial)
{
    __shared__ float pile[THREADS * 2 * WIDTH];
    int32_t wide = (int32_t)blockDim.x, high = (int32_t)blockDim.y;
    int32_t x = (int32_t)threadIdx.x, y = (int32_t)threadIdx.y;
    int32_t tall = 2 * WIDTH * wide; /* numbers of one row of threads */
#pragma unroll
    for (int32_t i = 0; i < WIDTH; i++) {
        pile[y * tall + i * wide + x] = sum[i];
        pile[y * tall + (WIDTH + i) * wide + x] = product[i];
    }
    __syncthreads();
    for (int32_t i = y * wide + x; i < tall; i += THREADS) {
        int32_t which = i / (WIDTH * wide), channel = i % (WIDTH * wide);
        const float *from = pile + (which * WIDTH + channel % WIDTH) * wide + channel / WIDTH;
        float total = 0;
        for (int32_t row = 0; row < high; row++)
            total += from[row * tall];
        channel += (int32_t)blockIdx.x * wide * WIDTH;
        if (channel < channels)
            partial[((int64_t)blockIdx.y * 2 + which) * channels + channel] = total;
    }
}

/** Bring gradients of this thread's channels, from @channel on, to the flat array. */
__device__ inline void pack_channels(const struct kernel_packed &to, int32_t channels,
                                     int32_t channel)
{
    for (int32_t i = 0; i < 2 * WIDTH; i++) {
        int32_t row = i / WIDTH, c = channel + i % WIDTH, at = row * to.count + c;
        if (c >= to.count)
            continue;
        float value = to.from[row * channels + c];
        if (to.sum && !to.first)
            value += to.sum[at];
        if (to.sum)
            to.sum[at] = value;
        if (to.gradient && to.type == DTYPE_FP16)
            static_cast<__half *>(to.gradient)[at] = narrow<__half>(value * to.share);
        else if (to.gradient && to.type == DTYPE_BF16)
            static_cast<__nv_bfloat16 *>(to.gradient)[at] = narrow<__nv_bfloat16>(value * to.share);
        else if (to.gradient)
            static_cast<float *>(to.gradient)[at] = value * to.share;
    }
}

/** The incoming gradient @dy, with @two and @more, masked by the ReLU and rounded. */
template <typename T>
static __device__ inline octet<T> cut(const octet<T> &dy, const octet<T> &more, bool two,
                                      uint32_t bits)
{
    octet<T> dz;
#pragma unroll
    for (int32_t i = 0; i < WIDTH; i++) {
        float sum = two ? widen(dy.at[i]) + widen(more.at[i]) : widen(dy.at[i]);
        dz.at[i] = narrow<T>(bits >> i & 1 ? sum : 0);
    }
    return dz;
}
