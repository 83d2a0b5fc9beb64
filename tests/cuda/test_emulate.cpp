/* The emulation of kernels itself: what works as on a device, and what it refuses. */
#include "tests/cuda/fake/emulate.hpp"

#include <vector>

#include "exec/cuda/kernels/launch.cuh"
#include "tests/cuda/fake/refuse.hpp"

namespace
{

/* ---- kernels ---- */

/* Turn round what the threads of a block hold, by way of shared memory. */
__global__ void reverse(int *data)
{
    __shared__ int pile[128];
    unsigned thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    int *mine = data + (blockIdx.y * gridDim.x + blockIdx.x) * threads;
    pile[thread] = mine[thread];
    __syncthreads();
    mine[thread] = pile[threads - 1 - thread];
}

__global__ void add_up(double *sum, int rounds)
{
    double total = 0;
    for (int i = 0; i < rounds; i++)
        total += warp_sum((double)(threadIdx.x * (i + 1)));
    sum[threadIdx.x] = total;
}

__global__ void some_do_not_wait(int first, int last)
{
    if ((int)threadIdx.x >= first && (int)threadIdx.x <= last)
        __syncthreads();
}

__global__ void different_waits()
{
    if (threadIdx.x < 32)
        __syncthreads();
    else
        warp_sum(1);
}

__global__ void nothing()
{
}

__global__ void fetch_four(const float *from, float *to)
{
    store(to, load<4>(from));
}

/* ---- what works ---- */

void test_barriers()
{
    for (int backwards = 0; backwards < 2; backwards++) {
        emulate_backwards(backwards);
        std::vector<int> data(6 * 96);
        for (size_t i = 0; i < data.size(); i++)
            data[i] = (int)i;
        kernel_launch(nullptr, dim3(3, 2), dim3(24, 4), reverse, data.data());
        bool right = true;
        for (size_t i = 0; i < data.size(); i++)
            right &= data[i] == (int)(i / 96 * 96 + 95 - i % 96);
        expect(right, "a block's threads exchange by way of shared memory");
    }
    emulate_backwards(false);
}

void test_warps()
{
    double sum[64];
    kernel_launch(nullptr, dim3(1), dim3(64), add_up, sum, 5);
    bool right = true;
    for (int i = 0; i < 64; i++)
        right &= sum[i] == 15 * (i < 32 ? 31 * 16 : 31 * 16 + 32 * 32);
    expect(right, "a warp's threads add up, several times");
}

/* ---- what is refused ---- */

void test_refusals()
{
    refuses("of 64 threads 63 wait at a barrier and 0 for their warp, but 1 have ended",
            [] { kernel_launch(nullptr, dim3(1), dim3(64), some_do_not_wait, 0, 62); });
    refuses("waits at a barrier, but thread 0 has ended without",
            [] { kernel_launch(nullptr, dim3(1), dim3(64), some_do_not_wait, 1, 63); });
    refuses("of 64 threads 32 wait at a barrier and 0 for their warp, but 32 have ended",
            [] { kernel_launch(nullptr, dim3(1), dim3(64), different_waits); });
    refuses("blocks of 1025 x 1 x 1 threads",
            [] { kernel_launch(nullptr, dim3(1), dim3(1025), nothing); });
    refuses("a grid of 1 x 65536 x 1 blocks",
            [] { kernel_launch(nullptr, dim3(1, 65536), dim3(1), nothing); });
    refuses("a grid of 0 x 1 x 1 blocks",
            [] { kernel_launch(nullptr, dim3(0), dim3(1), nothing); });
    alignas(16) static float data[12];
    refuses("alignof",
            [] { kernel_launch(nullptr, dim3(1), dim3(1), fetch_four, data + 1, data + 8); });
    refuses("alignof",
            [] { kernel_launch(nullptr, dim3(1), dim3(1), fetch_four, data, data + 6); });
}

} // namespace

int main()
{
    test_barriers();
    test_warps();
    test_refusals();
    return failures > 0;
}
