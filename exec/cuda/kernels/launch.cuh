#pragma once

/** @file
 * Shared by all files of kernels: launches, element types, and loads and stores of several elements
 * at once.
 *
 * Compiled by nvcc for devices, and by a plain C++ compiler behind tests/cuda/fake/emulate.hpp,
 * which then has defined kernel_launch(), the built-in variables and what else CUDA adds to C++.
 */

#include <assert.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "exec/cuda/kernels/kernels.h"

#ifdef __CUDACC__
/** Launch @kernel.  Arguments are converted to the kernel's parameters. */
template <typename... Parameters, typename... Arguments>
void kernel_launch(cudaStream_t stream, dim3 grid, dim3 block, void (*kernel)(Parameters...),
                   Arguments... arguments)
{
    kernel<<<grid, block, 0, stream>>>(static_cast<Parameters>(arguments)...);
}
#endif

/** Call @function with a 0 of @type's C++ type. */
template <typename Function> void with_type(enum dtype type, Function &&function)
{
    if (type == DTYPE_FP16)
        function(__half());
    else if (type == DTYPE_BF16)
        function(__nv_bfloat16());
    else
        function(float());
}

/** @count / @by, rounded up. */
static inline __host__ __device__ int64_t divide_up(int64_t count, int64_t by)
{
    return (count + by - 1) / by;
}

/** N neighbouring elements, aligned so that they are moved with as few accesses of at most 16 bytes
 * as possible. */
template <typename T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) some {
    T at[N];
};

/** N elements from @from. */
template <int N, typename T> __device__ inline some<T, N> load(const T *from)
{
    assert((uintptr_t)from % alignof(some<T, N>) == 0);
    return *reinterpret_cast<const some<T, N> *>(from);
}

/** N elements to @to. */
template <int N, typename T> __device__ inline void store(T *to, const some<T, N> &value)
{
    assert((uintptr_t)to % alignof(some<T, N>) == 0);
    *reinterpret_cast<some<T, N> *>(to) = value;
}

/** The value of an element as fp32. */
template <typename T> __device__ inline float widen(T x)
{
    return static_cast<float>(x);
}

/** @x rounded to type T, to the nearest. */
template <typename T> __device__ inline T narrow(float x)
{
    return static_cast<T>(x);
}

/** The sum of @x over the threads of a warp; every thread gets the same bits. */
template <typename T> __device__ inline T warp_sum(T x)
{
    for (int distance = 16; distance > 0; distance /= 2)
        x += __shfl_xor_sync(0xffffffffU, x, distance);
    return x;
}

/** The sum of @x over the threads of a block of WARPS warps; valid in thread 0. */
template <int WARPS> __device__ inline double block_sum(double x)
{
    __shared__ double pile[WARPS];
    int32_t thread = (int32_t)threadIdx.x;
    x = warp_sum(x);
    if (thread % 32 == 0)
        pile[thread / 32] = x;
    __syncthreads();
    for (int32_t warp = 1; thread == 0 && warp < WARPS; warp++)
        x += pile[warp];
    __syncthreads(); /* the pile may be used again */
    return x;
}
