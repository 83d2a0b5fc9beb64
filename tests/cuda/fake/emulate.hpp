#pragma once

/** @file
 * CUDA kernels in software: CUDA's additions to C++, so that a plain C++ compiler accepts a .cu
 * file that launches only by kernel_launch() (exec/cuda/kernels/launch.cuh).  To be included before
 * it.
 *
 * A launch is work on a stream of tests/cuda/fake/fake_runtime.h.  Launches run one at a time,
 * blocks one after another, warps of a block one after another from barrier to barrier; so a
 * thread that reads what another should have written before a barrier that is missing, reads too
 * early. emulate_backwards() turns the order round: right kernels give the same bits.
 *
 * Ends the process with abort() and a message on stderr: a launch that no device could do; a
 * barrier at which some threads of a block wait while others have ended or wait at another; and
 * an access of several elements at an address that does not allow it.
 *
 * A block whose thread 0 ends without having waited is treated as one without barriers, and the
 * others run without their own stacks, which is fast.  If one of them then waits, that is such a
 * mistake.
 */

#include <cstdint>
#include <functional>
#include <tuple>

/** A kernel. */
#define __global__
/** For the device. */
#define __device__
/** For the host. */
#define __host__
/** Of a block: blocks run one at a time. */
#define __shared__ static
/** How many threads and blocks there are. */
#define __launch_bounds__(...)

#include <cuda_runtime_api.h>

#include "tests/cuda/fake/emulate_order.h"
#include "tests/cuda/fake/fake_runtime.h"

/** Where the running thread stands, as in CUDA. */
extern uint3 threadIdx, blockIdx;

/** See above. */
extern dim3 blockDim, gridDim;

/** Wait for the block. */
void __syncthreads();

/** Count a launch. */
void emulate_count();

/** Run @body in every thread of @grid. */
void emulate_run(dim3 grid, dim3 block, const std::function<void()> &body);

/** Exchange @size bytes at @value, in place, with the lane of this warp whose number differs from
 * this one's by exclusive or with @distance; all lanes must come. */
void emulate_exchange(unsigned mask, void *value, size_t size, int distance);

/** The @value of the lane @distance away, as in CUDA; with whole warps only. */
template <typename T> T __shfl_xor_sync(unsigned mask, T value, int distance)
{
    emulate_exchange(mask, &value, sizeof(value), distance);
    return value;
}

/** Launch @kernel on @stream. */
template <typename... Parameters, typename... Arguments>
void kernel_launch(cudaStream_t stream, dim3 grid, dim3 block, void (*kernel)(Parameters...),
                   Arguments... arguments)
{
    emulate_count();
    std::tuple<Parameters...> kept = {static_cast<Parameters>(arguments)...};
    fake_enqueue(stream, [=] { emulate_run(grid, block, [&] { std::apply(kernel, kept); }); });
}
