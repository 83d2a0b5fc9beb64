
#include <math.h>

#include "exec/cuda/kernels/rows.cuh"

/* The two ends of a network: images, and the loss. */

static dim3 grid_for(int64_t threads)
{
    return dim3((unsigned)divide_up(threads, THREADS));
}

/* ---- images ---- */

/* A thread writes N channels of a pixel. */
template <typename T, int N>
__global__ void __launch_bounds__(THREADS)
    images_kernel(int64_t pixels, int32_t from, const float *__restrict__ images, int32_t to,
                  T *__restrict__ out)
{
    int64_t index = (int64_t)blockIdx.x * THREADS + threadIdx.x, parts = to / N;
    if (index >= pixels * parts)
        return;
    int64_t pixel = index / parts;
    int32_t channel = (int32_t)(index % parts) * N;
    some<T, N> values;
#pragma unroll
    for (int32_t i = 0; i < N; i++)
        values.at[i] = narrow<T>(channel + i < from ? images[pixel * from + channel + i] : 0);
    store(out + index * N, values);
}

void kernel_images(cudaStream_t stream, enum dtype type, int64_t pixels_count, int32_t from,
                   const float *images, int32_t to, void *out)
{
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        kernel_launch(stream, grid_for(pixels_count * (to / (to % WIDTH ? KERNEL_IMAGES : WIDTH))),
                      dim3(THREADS),
                      to % WIDTH ? images_kernel<T, KERNEL_IMAGES> : images_kernel<T, WIDTH>,
                      pixels_count, from, images, to, (T *)out);
    });
}

/* ---- augmentation ---- */

constexpr int32_t COLOURS = 3;

/* The pixels along one side that make up one of the result, in a triangle about `centre`. */
struct taps {
    int32_t from, to;
    float centre, reach;
};

static __device__ inline struct taps taps_of(struct crop_span span, int32_t target, int32_t i)
{
    float scale = span.length / (float)target, reach = fmaxf(scale, 1);
    float centre = span.start + ((float)i + 0.5F) * scale;
    int32_t from = (int32_t)floorf(centre - reach + 0.5F);
    int32_t to = (int32_t)floorf(centre + reach + 0.5F);
    return {from > span.begin ? from : span.begin, to < span.end ? to : span.end, centre, reach};
}

static __device__ inline float weight(const struct taps &taps, int32_t i)
{
    return fmaxf(0, 1 - fabsf((float)i + 0.5F - taps.centre) / taps.reach);
}

template <typename T, int N>
__global__ void __launch_bounds__(THREADS)
    augment(int32_t batch, int32_t size, int32_t to, const uint8_t *__restrict__ pixels,
            int64_t place, const struct crop *__restrict__ crops, struct tint tint,
            T *__restrict__ out)
{
    int64_t index = (int64_t)blockIdx.x * THREADS + threadIdx.x, area = (int64_t)size * size;
    if (index >= batch * area)
        return;
    int32_t column = (int32_t)(index % size), row = (int32_t)(index / size % size);
    struct crop crop = crops[index / area];
    const uint8_t *picture = pixels + index / area * place;
    struct taps y = taps_of(crop.y, size, row);
    struct taps x = taps_of(crop.x, size, crop.flip ? size - 1 - column : column);
    float sum[COLOURS] = {}, total = 0;
    for (int32_t h = y.from; h < y.to; h++) {
        const uint8_t *line = picture + (int64_t)h * crop.width * COLOURS;
        for (int32_t w = x.from; w < x.to; w++) {
            float share = weight(y, h) * weight(x, w);
            total += share;
#pragma unroll
            for (int32_t c = 0; c < COLOURS; c++)
                sum[c] += share * (float)line[w * COLOURS + c];
        }
    }
    for (int32_t channel = 0; channel < to; channel += N) {
        some<T, N> values = {};
#pragma unroll
        for (int32_t c = 0; c < COLOURS; c++)
            if (channel == 0)
                values.at[c] = narrow<T>(sum[c] / total * tint.scale[c] + tint.shift[c]);
        store(out + index * to + channel, values);
    }
}

void kernel_augment(cudaStream_t stream, enum dtype type, int32_t batch, int32_t size, int32_t to,
                    const uint8_t *pixels, int64_t place, const struct crop *crop,
                    const struct tint *tint, void *out)
{
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        kernel_launch(stream, grid_for((int64_t)batch * size * size), dim3(THREADS),
                      to % WIDTH ? augment<T, KERNEL_IMAGES> : augment<T, WIDTH>, batch, size, to,
                      pixels, place, crop, *tint, (T *)out);
    });
}

/* ---- loss ---- */

static __device__ inline float warp_maximum(float x)
{
    for (int distance = 16; distance > 0; distance /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, distance));
    return x;
}

/* A warp per image.  With p = softmax(x) and m the maximum of x, the loss is
 * sum over i of wanted(i) * (log(sum of exp(x - m)) - (x(i) - m)), and its gradient p - wanted. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    loss_kernel(int32_t batch, int32_t classes, int32_t channels, const T *__restrict__ x,
                const int32_t *__restrict__ label, float smoothing, const float *__restrict__ scale,
                float *__restrict__ losses, T *__restrict__ dx)
{
    int32_t image = (int32_t)(blockIdx.x * (THREADS / 32) + threadIdx.x / 32);
    int32_t lane = (int32_t)threadIdx.x % 32;
    if (image >= batch)
        return;
    x += (int64_t)image * channels;
    dx += (int64_t)image * channels;
    float largest = -INFINITY, sum = 0, below = 0; /* sums of exp(x - largest), of x - largest */
    for (int32_t i = lane; i < classes; i += 32)
        largest = fmaxf(largest, widen(x[i]));
    largest = warp_maximum(largest);
    for (int32_t i = lane; i < classes; i += 32) {
        sum += expf(widen(x[i]) - largest);
        below += widen(x[i]) - largest;
    }
    sum = warp_sum(sum);
    below = warp_sum(below);
    float each = smoothing / (float)classes, by = *scale / (float)batch;
    int32_t right = label[image];
    for (int32_t i = lane; i < channels; i += 32) {
        float wanted = each + (i == right ? 1 - smoothing : 0);
        float slope = i < classes ? expf(widen(x[i]) - largest) / sum - wanted : 0;
        dx[i] = narrow<T>(slope * by);
    }
    if (lane == 0)
        losses[image] = logf(sum) - each * below - (1 - smoothing) * (widen(x[right]) - largest);
}

static __global__ void __launch_bounds__(THREADS)
    add_losses(int32_t batch, const float *losses, float share, float *loss)
{
    double sum = 0;
    for (int32_t i = (int32_t)threadIdx.x; i < batch; i += THREADS)
        sum += (double)losses[i];
    sum = block_sum<THREADS / 32>(sum);
    if (threadIdx.x == 0)
        *loss += (float)(sum / batch) * share;
}

void kernel_loss(cudaStream_t stream, enum dtype type, int32_t batch, int32_t classes,
                 int32_t channels, const void *x, const int32_t *label, double smoothing,
                 const float *scale, float share, float *losses, float *loss, void *dx)
{
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        kernel_launch(stream, grid_for((int64_t)batch * 32), dim3(THREADS), loss_kernel<T>, batch,
                      classes, channels, (const T *)x, label, smoothing, scale, losses, (T *)dx);
    });
    kernel_launch(stream, dim3(1), dim3(THREADS), add_losses, batch, losses, share, loss);
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    scores_kernel(int32_t batch, int32_t classes, int32_t channels, const T *__restrict__ x,
                  float *__restrict__ scores)
{
    int64_t index = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (index < (int64_t)batch * classes)
        scores[index] = widen(x[index / classes * channels + index % classes]);
}

void kernel_scores(cudaStream_t stream, enum dtype type, int32_t batch, int32_t classes,
                   int32_t channels, const void *x, float *scores)
{
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        kernel_launch(stream, grid_for((int64_t)batch * classes), dim3(THREADS), scores_kernel<T>,
                      batch, classes, channels, (const T *)x, scores);
    });
}
