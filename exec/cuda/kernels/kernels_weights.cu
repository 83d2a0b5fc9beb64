
#include <float.h>
#include <math.h>

#include "exec/cuda/kernels/launch.cuh"

/* Tensors have any alignment in the flat arrays.  Where four elements can be moved at once, they
 * are; the few others are moved one by one, by the same code. */
constexpr int32_t THREADS = 256, WARPS = THREADS / 32, FOUR = 4;
constexpr int32_t RATE_WARPS = 32;

static_assert(KERNEL_CHUNK % (THREADS * FOUR) == 0, "threads get equal shares of a chunk");

/* ---- packing ---- */

/* The index of element @i of a tensor (out, taps, in) in rows of @padded_in. */
static __device__ inline int64_t padded_place(uint32_t i, uint32_t in, uint32_t padded_in)
{
    return in == padded_in ? i : (int64_t)(i / in) * padded_in + i % in;
}

template <typename D, typename T, int N>
__global__ void __launch_bounds__(THREADS)
    pack(uint32_t count, uint32_t in, uint32_t padded_in, const D *dw, int32_t first, float *sum,
         float share, T *gradient)
{
    uint32_t i = (blockIdx.x * THREADS + threadIdx.x) * N;
    if (i >= count)
        return;
    some<D, N> part = load<N>(dw + padded_place(i, in, padded_in));
    some<float, N> value;
#pragma unroll
    for (int k = 0; k < N; k++)
        value.at[k] = widen(part.at[k]);
    if (sum && !first) {
        some<float, N> before = load<N>(sum + i);
#pragma unroll
        for (int k = 0; k < N; k++)
            value.at[k] += before.at[k];
    }
    if (sum)
        store(sum + i, value);
    if (!gradient)
        return;
    some<T, N> rounded;
#pragma unroll
    for (int k = 0; k < N; k++)
        rounded.at[k] = narrow<T>(value.at[k] * share);
    store(gradient + i, rounded);
}

static bool by_fours(const void *pointer, int64_t size)
{
    return (uintptr_t)pointer % (uintptr_t)(FOUR * size) == 0;
}

template <typename D, typename T>
static void launch_pack(cudaStream_t stream, const struct kernel_tensor *tensor, const D *dw,
                        int32_t first, float *sum, float share, T *gradient)
{
    int64_t count = (int64_t)tensor->out * tensor->taps * tensor->in;
    bool fours = tensor->in % FOUR == 0 && by_fours(dw, sizeof(D)) &&
                 by_fours(sum, sizeof(float)) && by_fours(gradient, sizeof(T));
    dim3 grid((unsigned)divide_up(count, THREADS * (fours ? FOUR : 1)));
    kernel_launch(stream, grid, dim3(THREADS), fours ? pack<D, T, FOUR> : pack<D, T, 1>, count,
                  tensor->in, tensor->padded_in, dw, first, sum, share, gradient);
}

void kernel_pack(cudaStream_t stream, const struct kernel_tensor *tensor, enum dtype dw_type,
                 const void *dw, int32_t first, float *sum, float share, enum dtype type,
                 void *gradient)
{
    with_type(dw_type, [&](auto from) {
        with_type(type, [&](auto to) {
            launch_pack(stream, tensor, (const decltype(from) *)dw, first, sum, share,
                        (decltype(to) *)gradient);
        });
    });
}

/* ---- norms and rates ---- */

template <typename T, int N> static __device__ inline double squares(const T *from, int32_t count)
{
    double sum = 0;
#pragma unroll 4
    for (int32_t i = (int32_t)threadIdx.x * N; i < count; i += THREADS * N) {
        some<T, N> x = load<N>(from + i);
#pragma unroll
        for (int k = 0; k < N; k++)
            sum += (double)widen(x.at[k]) * (double)widen(x.at[k]);
    }
    return sum;
}

static __device__ inline bool fours(const struct kernel_chunk &chunk)
{
    return (chunk.offset | chunk.parameter | chunk.momentum | chunk.elements) % FOUR == 0;
}

/* A block per chunk.  What other ranks count is not read. */
template <typename T>
__global__ void __launch_bounds__(THREADS) norms(struct kernel_parameters p, int32_t lars)
{
    struct kernel_chunk chunk = p.chunk[blockIdx.x];
    const T *gradient = (const T *)p.gradient + chunk.offset;
    const float *parameter = p.parameter + chunk.parameter;
    bool both = lars && p.tensor[chunk.tensor].decays;
    double of_gradient, of_parameter = 0;
    for (int32_t i = (int32_t)threadIdx.x;
         p.summed && !p.tensor[chunk.tensor].works && i < chunk.elements; i += THREADS)
        p.summed[chunk.parameter + i] = chunk.own ? widen(gradient[i]) : 0;
    int32_t count = chunk.own ? chunk.elements : 0;
    if (fours(chunk)) {
        of_gradient = squares<T, FOUR>(gradient, count);
        of_parameter = both ? squares<float, FOUR>(parameter, count) : 0;
    } else {
        of_gradient = squares<T, 1>(gradient, count);
        of_parameter = both ? squares<float, 1>(parameter, count) : 0;
    }
    of_gradient = block_sum<WARPS>(of_gradient);
    of_parameter = block_sum<WARPS>(of_parameter);
    if (threadIdx.x > 0)
        return;
    p.norms[blockIdx.x] = of_parameter;
    p.norms[p.chunks + blockIdx.x] = of_gradient;
}

/* As exec/step/optimizer.c: a tensor that is 0, or has a gradient of 0, is left at 1. */
static __device__ inline double trust_ratio(double trust, double decay, double gradient,
                                            double parameter)
{
    return gradient <= 0 || parameter <= 0 ? 1 : trust * parameter / (gradient + decay * parameter);
}

static __device__ inline struct kernel_rate find_rate(const struct kernel_parameters &p,
                                                      const struct kernel_update &update)
{
    bool scheduled = update.iteration >= 0 && update.iteration < p.rate_count;
    return scheduled ? p.rate[update.iteration] : update.rate;
}

/* Sums of squares of a tensor. */
struct sums {
    double gradient, parameter;
};

/* Of tensor @t by a warp, from those of its chunks; every lane gets them. */
static __device__ inline struct sums add_chunks(const struct kernel_parameters &p, int32_t t,
                                                int32_t lane)
{
    struct sums sums = {0, 0};
#pragma unroll 4
    for (int32_t c = p.first_chunk[t] + lane; c < p.first_chunk[t + 1]; c += 32) {
        sums.parameter += p.norms[c];
        sums.gradient += p.norms[p.chunks + c];
    }
    return {warp_sum(sums.gradient), warp_sum(sums.parameter)};
}

/* One block; a warp per tensor.  With LARS two numbers of each tensor, else one of all. */
static __global__ void __launch_bounds__(RATE_WARPS * 32)
    add_shared(struct kernel_parameters p, struct kernel_rule rule,
               const struct kernel_update *update)
{
    int32_t warp = (int32_t)threadIdx.x / 32, lane = (int32_t)threadIdx.x % 32;
    double scale = (double)update->scale, total = 0;
    for (int32_t t = warp; t < p.tensors; t += RATE_WARPS) {
        struct sums sums = add_chunks(p, t, lane);
        total += lane == 0 ? sums.gradient : 0;
        if (lane == 0 && rule.lars) {
            p.shared[2 * t] = (float)(scale * scale * sums.gradient);
            p.shared[2 * t + 1] = (float)sums.parameter;
        }
    }
    total = block_sum<RATE_WARPS>(total);
    if (threadIdx.x == 0 && !rule.lars)
        p.shared[0] = (float)(scale * scale * total);
}

/* Where sums are shared, their gradients have been scaled.  SGD has one sum, that of the first. */
static __device__ inline struct sums find_sums(const struct kernel_parameters &p, int32_t lars,
                                               int32_t t, int32_t lane)
{
    if (!p.shared)
        return add_chunks(p, t, lane);
    if (!lars)
        return {t == 0 ? (double)p.shared[0] : 0, 0};
    return {(double)p.shared[2 * t], (double)p.shared[2 * t + 1]};
}

/* One block; a warp per tensor. */
static __global__ void __launch_bounds__(RATE_WARPS * 32)
    rates(struct kernel_parameters p, struct kernel_rule rule, const struct kernel_update *update,
          struct kernel_outcome *outcome)
{
    int32_t warp = (int32_t)threadIdx.x / 32, lane = (int32_t)threadIdx.x % 32;
    struct kernel_rate rate = find_rate(p, *update);
    double scale = p.shared ? 1 : (double)update->scale, total = 0;
    for (int32_t t = warp; t < p.tensors; t += RATE_WARPS) {
        struct sums sums = find_sums(p, rule.lars, t, lane);
        total += lane == 0 ? sums.gradient : 0;
        if (lane == 0)
            p.trust[t] = rule.lars && p.tensor[t].decays
                             ? (float)trust_ratio((double)rule.trust, (double)rate.weight_decay,
                                                  scale * sqrt(sums.gradient), sqrt(sums.parameter))
                             : 1;
    }
    total = block_sum<RATE_WARPS>(total);
    if (threadIdx.x > 0)
        return;
    outcome->rate = rate;
    outcome->norm = (float)(scale * sqrt(total));
    outcome->overflow = !(outcome->norm <= FLT_MAX); /* also when it is NaN */
}

/* ---- update ---- */

/* d = gradient * g + parameter * w;  v = keep * v + d;  w -= look * d + follow * v */
struct coefficients {
    float gradient, parameter, keep, look, follow;
};

static __device__ inline struct coefficients derive(const struct kernel_tensor &tensor, float trust,
                                                    const struct kernel_rule &rule, float scale,
                                                    const struct kernel_rate &found)
{
    float rate = found.learning_rate;
    return {trust * scale, tensor.decays ? trust * found.weight_decay : 0, rule.momentum,
            rule.nesterov ? rate : 0, rule.nesterov ? rate * rule.momentum : rate};
}

/* Write the working copy of N masters from element @i of the tensor on. */
template <typename W, int N>
static __device__ inline void write_working(const struct kernel_tensor &tensor, int64_t i,
                                            const some<float, N> &parameter, W *working)
{
    some<W, N> rounded;
#pragma unroll
    for (int k = 0; k < N; k++)
        rounded.at[k] = narrow<W>(parameter.at[k]);
    store(working + tensor.padded +
              padded_place((uint32_t)i, (uint32_t)tensor.in, (uint32_t)tensor.padded_in),
          rounded);
}

/* N elements from element @i of the chunk on, whose gradient is at @from. */
template <typename G, typename W, int N>
static __device__ inline void
update_some(const struct kernel_parameters &p, const struct kernel_tensor &tensor,
            const struct coefficients &c, const struct kernel_chunk &chunk, const G *from,
            int32_t i)
{
    float *to_momentum = p.momentum + chunk.momentum + i,
          *to_parameter = p.parameter + chunk.parameter + i;
    some<G, N> gradient = load<N>(from + i);
    some<float, N> momentum = load<N>(to_momentum), parameter = load<N>(to_parameter);
#pragma unroll
    for (int k = 0; k < N; k++) {
        float d = c.gradient * widen(gradient.at[k]) + c.parameter * parameter.at[k];
        momentum.at[k] = c.keep * momentum.at[k] + d;
        parameter.at[k] -= c.look * d + c.follow * momentum.at[k];
    }
    store(to_momentum, momentum);
    store(to_parameter, parameter);
    if (tensor.works)
        write_working<W, N>(tensor, chunk.offset - tensor.offset + i, parameter, (W *)p.working);
}

/* Whether four elements may be moved at once in the working copy too. */
static __device__ inline bool fours(const struct kernel_tensor &tensor)
{
    return !tensor.works || tensor.in % FOUR == 0;
}

template <typename G, typename W>
__global__ void __launch_bounds__(THREADS)
    update_kernel(struct kernel_parameters p, struct kernel_rule rule,
                  const struct kernel_update *update, const struct kernel_outcome *outcome)
{
    if (outcome->overflow)
        return;
    struct kernel_chunk chunk = p.chunk[blockIdx.x];
    struct kernel_tensor tensor = p.tensor[chunk.tensor];
    struct coefficients c =
        derive(tensor, p.trust[chunk.tensor], rule, update->scale, outcome->rate);
    int32_t thread = (int32_t)threadIdx.x;
    const G *from = (const G *)p.gradient + chunk.offset;
    if (p.summed && !tensor.works) {
        for (int32_t i = thread; i < chunk.elements; i += THREADS)
            update_some<float, W, 1>(p, tensor, c, chunk, p.summed + chunk.parameter, i);
    } else if (fours(chunk) && fours(tensor)) {
#pragma unroll
        for (int32_t i = thread * FOUR; i < KERNEL_CHUNK; i += THREADS * FOUR)
            if (i < chunk.elements)
                update_some<G, W, FOUR>(p, tensor, c, chunk, from, i);
    } else {
        for (int32_t i = thread; i < chunk.elements; i += THREADS)
            update_some<G, W, 1>(p, tensor, c, chunk, from, i);
    }
}

void kernel_measure(cudaStream_t stream, const struct kernel_parameters *parameters,
                    struct kernel_rule rule, const struct kernel_update *update)
{
    const struct kernel_parameters &p = *parameters;
    with_type(p.gradient_type, [&](auto zero) {
        if (p.chunks > 0)
            kernel_launch(stream, dim3((unsigned)p.chunks), dim3(THREADS), norms<decltype(zero)>, p,
                          rule.lars);
    });
    kernel_launch(stream, dim3(1), dim3(RATE_WARPS * 32), add_shared, p, rule, update);
}

void kernel_optimizer(cudaStream_t stream, const struct kernel_parameters *parameters,
                      struct kernel_rule rule, const struct kernel_update *update,
                      struct kernel_outcome *outcome)
{
    const struct kernel_parameters &p = *parameters;
    dim3 grid((unsigned)p.chunks);
    with_type(p.gradient_type, [&](auto zero) {
        using G = decltype(zero);
        if (!p.shared)
            kernel_launch(stream, grid, dim3(THREADS), norms<G>, p, rule.lars);
        kernel_launch(stream, dim3(1), dim3(RATE_WARPS * 32), rates, p, rule, update, outcome);
        with_type(p.working_type, [&](auto other) {
            using W = decltype(other);
            if (p.chunks == 0)
                return; /* a shard of nothing but padding */
            kernel_launch(stream, grid, dim3(THREADS), update_kernel<G, W>, p, rule, update,
                          outcome);
        });
    });
}

template <typename W>
__global__ void __launch_bounds__(THREADS) working_kernel(struct kernel_parameters p)
{
    struct kernel_chunk chunk = p.chunk[blockIdx.x];
    struct kernel_tensor tensor = p.tensor[chunk.tensor];
    if (!tensor.works)
        return;
    for (int32_t i = (int32_t)threadIdx.x; i < chunk.elements; i += THREADS) {
        int64_t at = chunk.offset + i;
        write_working<W, 1>(tensor, at - tensor.offset, load<1>(p.parameter + chunk.parameter + i),
                            (W *)p.working);
    }
}

void kernel_working(cudaStream_t stream, const struct kernel_parameters *parameters)
{
    with_type(parameters->working_type, [&](auto zero) {
        using W = decltype(zero);
        kernel_launch(stream, dim3((unsigned)parameters->chunks), dim3(THREADS), working_kernel<W>,
                      *parameters);
    });
}
