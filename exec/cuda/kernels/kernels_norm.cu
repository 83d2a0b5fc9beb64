
#include <math.h>

#include "exec/cuda/kernels/rows.cuh"

/* All blocks of a sum should run at once on a large device (132 multiprocessors), or the last ones
 * would leave most of it idle; the data that their threads fetch ahead, 4 to 8 MB, covers the
 * latency of its memory.  Registers allow four blocks on a multiprocessor of one kind, two of the
 * other. */
constexpr int32_t SUM_BLOCKS = 512, BACKWARD_BLOCKS = 256;

static_assert(SUM_BLOCKS <= (int32_t)KERNEL_PARTIALS, "partial sums have their place");

/* ---- sums ---- */

/* Rows are read from the last to the first: the last written may still be in the cache. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    sums(int64_t rows, int32_t channels, const T *__restrict__ x, float *__restrict__ partial)
{
    constexpr int32_t AHEAD = 4;
    int32_t channel = my_channel();
    int64_t step = (int64_t)gridDim.y * blockDim.y;
    int64_t row = rows - 1 - ((int64_t)blockIdx.y * blockDim.y + threadIdx.y);
    float sum[WIDTH] = {}, square[WIDTH] = {};
    for (; channel < channels && row >= 0; row -= AHEAD * step) {
        octet<T> in[AHEAD];
#pragma unroll
        for (int32_t k = 0; k < AHEAD; k++)
            in[k] = row - k * step >= 0 ? load<WIDTH>(x + (row - k * step) * channels + channel)
                                        : octet<T>{};
#pragma unroll
        for (int32_t k = 0; k < AHEAD; k++)
#pragma unroll
            for (int32_t i = 0; i < WIDTH; i++) {
                float value = widen(in[k].at[i]);
                sum[i] += value;
                square[i] += value * value;
            }
    }
    write_partial(channels, sum, square, partial);
}

int32_t kernel_sums(cudaStream_t stream, enum dtype type, int64_t rows, int32_t channels,
                    const void *x, float *partial)
{
    struct tiling tiling = tile(rows, channels, SUM_BLOCKS, 4);
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        kernel_launch(stream, tiling.grid, tiling.block, sums<T>, rows, channels, (const T *)x,
                      partial);
    });
    return (int32_t)tiling.grid.y;
}

/* Pointers of one pass of batch norm backward. */
template <typename T> struct backward {
    const T *dy, *more;
    const uint8_t *mask;
    const T *x;
    T *dz;
};

/* A mask's words are little endian: WIDTH elements are a byte. */
template <typename T, bool TWO>
__global__ void __launch_bounds__(THREADS, 2)
    backward_sums(int64_t rows, int32_t channels, struct backward<T> at,
                  const float *__restrict__ statistics, float *__restrict__ partial)
{
    constexpr int32_t AHEAD = TWO ? 2 : 3;
    int32_t channel = my_channel();
    int64_t step = (int64_t)gridDim.y * blockDim.y;
    int64_t row = rows - 1 - ((int64_t)blockIdx.y * blockDim.y + threadIdx.y);
    float sum[WIDTH] = {}, product[WIDTH] = {}, mean[WIDTH] = {};
#pragma unroll
    for (int32_t i = 0; i < WIDTH; i++)
        mean[i] = channel < channels ? statistics[channel + i] : 0;
    for (; channel < channels && row >= 0; row -= AHEAD * step) {
        octet<T> dy[AHEAD], more[AHEAD], x[AHEAD];
        uint32_t bits[AHEAD];
#pragma unroll
        for (int32_t k = 0; k < AHEAD; k++) {
            int64_t i = (row - k * step) * channels + channel;
            bool inside = row - k * step >= 0;
            dy[k] = inside ? load<WIDTH>(at.dy + i) : octet<T>{};
            more[k] = inside && TWO ? load<WIDTH>(at.more + i) : octet<T>{};
            x[k] = inside ? load<WIDTH>(at.x + i) : octet<T>{};
            bits[k] = inside && at.mask ? at.mask[i / WIDTH] : 0xff;
        }
#pragma unroll
        for (int32_t k = 0; k < AHEAD; k++) {
            octet<T> dz = cut(dy[k], more[k], TWO, bits[k]);
            if (at.dz && row - k * step >= 0)
                store(at.dz + (row - k * step) * channels + channel, dz);
#pragma unroll
            for (int32_t i = 0; i < WIDTH; i++) {
                sum[i] += widen(dz.at[i]);
                product[i] += widen(dz.at[i]) * (widen(x[k].at[i]) - mean[i]);
            }
        }
    }
#pragma unroll
    for (int32_t i = 0; i < WIDTH; i++)
        product[i] *= channel < channels ? statistics[channels + channel + i] : 0;
    write_partial(channels, sum, product, partial);
}

int32_t kernel_backward_sums(cudaStream_t stream, enum dtype type, int64_t rows, int32_t channels,
                             const void *dy, const void *more, const uint32_t *mask, const void *x,
                             const float *statistics, void *dz, float *partial)
{
    struct tiling tiling = tile(rows, channels, BACKWARD_BLOCKS, 2);
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        struct backward<T> at = {
            (const T *)dy, (const T *)more, (const uint8_t *)mask, (const T *)x, (T *)dz
        };
        auto *kernel = more ? backward_sums<T, true> : backward_sums<T, false>;
        kernel_launch(stream, tiling.grid, tiling.block, kernel, rows, channels, at, statistics,
                      partial);
    });
    return (int32_t)tiling.grid.y;
}

/* ---- from sums to factors ---- */

constexpr int32_t LANES = 32; /* threads that add up one channel's partial sums */

struct two {
    double first, second;
};

/* Add a channel's partial sums: valid in threads with threadIdx.y 0. */
static __device__ struct two add_partial(int32_t count, int32_t channels, const float *partial)
{
    __shared__ struct two pile[LANES][WIDTH];
    int32_t channel = (int32_t)(blockIdx.x * WIDTH + threadIdx.x);
    struct two sum = {0, 0};
#pragma unroll 4
    for (int32_t i = (int32_t)threadIdx.y; i < count; i += LANES) {
        sum.first += (double)partial[(int64_t)2 * i * channels + channel];
        sum.second += (double)partial[((int64_t)2 * i + 1) * channels + channel];
    }
    pile[threadIdx.y][threadIdx.x] = sum;
    for (int32_t half = LANES / 2; half > 0; half /= 2) {
        __syncthreads();
        if ((int32_t)threadIdx.y < half) {
            pile[threadIdx.y][threadIdx.x].first += pile[threadIdx.y + half][threadIdx.x].first;
            pile[threadIdx.y][threadIdx.x].second += pile[threadIdx.y + half][threadIdx.x].second;
        }
    }
    return pile[threadIdx.y][threadIdx.x];
}

/* For kernels that call add_partial(). */
template <typename... A>
static void launch_channels(cudaStream_t stream, int32_t channels, A... arguments)
{
    kernel_launch(stream, dim3((unsigned)(channels / WIDTH)), dim3(WIDTH, LANES), arguments...);
}

static __global__ void statistics_kernel(int64_t rows, int32_t channels, double epsilon,
                                         int32_t count, const float *partial,
                                         const float *parameter, struct kernel_running running,
                                         float *statistics, float *factors)
{
    struct two sum = add_partial(count, channels, partial);
    if (threadIdx.y > 0)
        return;
    int32_t c = (int32_t)(blockIdx.x * WIDTH + threadIdx.x);
    double mean = sum.first / (double)rows;
    double variance = fmax(sum.second / (double)rows - mean * mean, 0.0);
    double inverse = 1 / sqrt(variance + epsilon), scale = (double)parameter[c] * inverse;
    statistics[c] = (float)mean;
    statistics[channels + c] = (float)inverse;
    factors[c] = (float)scale;
    factors[channels + c] = (float)((double)parameter[channels + c] - scale * mean);
    double unbiased = rows > 1 ? variance * (double)rows / (double)(rows - 1) : variance;
    running.mean[c] = running.keep * running.mean[c] + running.take * (float)mean;
    running.variance[c] = running.keep * running.variance[c] + running.take * (float)unbiased;
}

void kernel_statistics(cudaStream_t stream, int64_t rows, int32_t channels, double epsilon,
                       int32_t count, const float *partial, const float *parameter,
                       struct kernel_running running, float *statistics, float *factors)
{
    launch_channels(stream, channels, statistics_kernel, rows, channels, epsilon, count, partial,
                    parameter, running, statistics, factors);
}

/* With n = (x - mean) / deviation: dx = w / deviation * (dz - mean(dz) - n * mean(dz * n)). */
static __global__ void factors_kernel(int64_t rows, int32_t channels, int32_t count,
                                      const float *partial, const float *parameter,
                                      const float *statistics, float *gradient, float *factors)
{
    struct two sum = add_partial(count, channels, partial);
    if (threadIdx.y > 0)
        return;
    int32_t c = (int32_t)(blockIdx.x * WIDTH + threadIdx.x);
    double mean = (double)statistics[c], inverse = (double)statistics[channels + c];
    double scale = (double)parameter[c] * inverse;
    double slope = scale * inverse * sum.second / (double)rows;
    gradient[c] = (float)sum.second;
    gradient[channels + c] = (float)sum.first;
    factors[c] = (float)scale;
    factors[channels + c] = (float)-slope;
    factors[2 * channels + c] = (float)(slope * mean - scale * sum.first / (double)rows);
}

void kernel_backward_factors(cudaStream_t stream, int64_t rows, int32_t channels, int32_t count,
                             const float *partial, const float *parameter, const float *statistics,
                             float *gradient, float *factors)
{
    launch_channels(stream, channels, factors_kernel, rows, channels, count, partial, parameter,
                    statistics, gradient, factors);
}

static __global__ void sum_kernel(int32_t channels, int32_t count, const float *partial,
                                  float *gradient)
{
    struct two sum = add_partial(count, channels, partial);
    if (threadIdx.y == 0)
        gradient[blockIdx.x * WIDTH + threadIdx.x] = (float)sum.first;
}

void kernel_bias_backward(cudaStream_t stream, enum dtype type, int64_t rows, int32_t channels,
                          const void *dy, float *partial, float *gradient)
{
    int32_t count = kernel_sums(stream, type, rows, channels, dy, partial);
    launch_channels(stream, channels, sum_kernel, channels, count, partial, gradient);
}

static __global__ void inference_kernel(int32_t channels, double epsilon, const float *parameter,
                                        const float *mean, const float *variance, float *factors)
{
    int32_t c = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    if (c >= channels)
        return;
    double scale = (double)parameter[c] / sqrt((double)variance[c] + epsilon);
    factors[c] = (float)scale;
    factors[channels + c] = (float)((double)parameter[channels + c] - scale * (double)mean[c]);
}

void kernel_inference(cudaStream_t stream, int32_t channels, double epsilon, const float *parameter,
                      const float *mean, const float *variance, float *factors)
{
    kernel_launch(stream, dim3((unsigned)divide_up(channels, THREADS)), dim3(THREADS),
                  inference_kernel, channels, epsilon, parameter, mean, variance, factors);
}
