/* What is watched of kernels and streams: races are found in any order, and nothing else is. */
#include "tests/cuda/fake/emulate.hpp"

#include "exec/cuda/kernels/launch.cuh"
#include "tests/cuda/fake/refuse.hpp"

namespace
{

constexpr int BLOCKS = 2, THREADS = 64, COUNT = BLOCKS * THREADS;

/* ---- kernels ---- */

__global__ void add_one(float *data)
{
    data[blockIdx.x * THREADS + threadIdx.x] += 1;
}

/* Turn a block round by way of shared memory, with the barriers of bits 0 and 1. */
__global__ void turn(float *data, int barriers)
{
    __shared__ float pile[THREADS];
    float *mine = data + blockIdx.x * THREADS;
    pile[threadIdx.x] = mine[threadIdx.x];
    if (barriers & 1)
        __syncthreads();
    float other = pile[THREADS - 1 - threadIdx.x];
    if (barriers & 2)
        __syncthreads();
    pile[threadIdx.x] = other;
    mine[threadIdx.x] = other;
}

__global__ void write_neighbours(float *data)
{
    data[blockIdx.x + threadIdx.x] = 1;
}

/* A block writes what all read. */
__global__ void read_across(float *data, unsigned writer)
{
    data[1 + blockIdx.x] = data[0];
    if (blockIdx.x == writer)
        data[0] = 1;
}

__global__ void read_unwritten(float *data)
{
    __shared__ float pile[2];
    pile[0] = 1;
    data[threadIdx.x] = pile[blockIdx.x];
}

/* ---- streams ---- */

struct fixture {
    cudaStream_t first, second;
    cudaEvent_t event;
    float *data;
};

fixture make()
{
    fixture made;
    cudaStreamCreateWithFlags(&made.first, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&made.second, cudaStreamNonBlocking);
    cudaEventCreate(&made.event);
    cudaMalloc(reinterpret_cast<void **>(&made.data), COUNT * sizeof(float) + 2);
    cudaMemset(made.data, 0, COUNT * sizeof(float));
    cudaStreamSynchronize(nullptr);
    return made;
}

void add(const fixture &made, cudaStream_t stream)
{
    kernel_launch(stream, dim3(BLOCKS), dim3(THREADS), add_one, made.data);
}

/* Add on both streams, one after the other if one @waits. */
void add_twice(const fixture &made, bool waits)
{
    add(made, made.first);
    cudaEventRecord(made.event, made.first);
    if (waits)
        cudaStreamWaitEvent(made.second, made.event, 0);
    add(made, made.second);
}

/* The same in a graph, which is launched @times on @stream. */
void launch(const fixture &made, bool waits, int times, cudaStream_t stream)
{
    cudaEvent_t join;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaEventCreate(&join);
    cudaStreamBeginCapture(made.first, cudaStreamCaptureModeThreadLocal);
    cudaEventRecord(join, made.first);
    cudaStreamWaitEvent(made.second, join, 0);
    add_twice(made, waits);
    cudaEventRecord(join, made.second);
    cudaStreamWaitEvent(made.first, join, 0);
    cudaStreamEndCapture(made.first, &graph);
    cudaGraphInstantiate(&executable, graph, 0);
    for (int i = 0; i < times; i++)
        cudaGraphLaunch(executable, stream);
}

float first_of(const fixture &made)
{
    float value;
    cudaMemcpy(&value, made.data, sizeof(value), cudaMemcpyDeviceToHost);
    return value;
}

void test_what_is_right()
{
    for (bool lazy : {false, true}) {
        fixture made = make();
        fake_lazy(lazy);
        kernel_launch(made.first, dim3(BLOCKS), dim3(THREADS), turn, made.data, 3);
        add_twice(made, true);
        cudaStreamSynchronize(made.second);
        add(made, made.first); /* the host has waited */
        launch(made, true, 3, made.first);
        cudaStreamSynchronize(made.first);
        fake_lazy(false);
        expect(first_of(made) == 9, "what is ordered runs");
    }
}

void test_races_between_streams()
{
    for (bool lazy : {false, true}) {
        fake_lazy(lazy);
        refuses("nothing orders", [] {
            fixture made = make();
            add_twice(made, false);
            cudaStreamSynchronize(made.first);
            cudaStreamSynchronize(made.second);
        });
        refuses("nothing orders", [] {
            fixture made = make();
            launch(made, false, 1, made.first);
            cudaStreamSynchronize(made.first);
        });
        refuses("nothing orders", [] {
            fixture made = make();
            add(made, made.second);
            launch(made, true, 1, made.first);
            cudaStreamSynchronize(made.second);
            cudaStreamSynchronize(made.first);
        });
        fake_lazy(false);
    }
    refuses("nothing orders a kernel", [] {
        fixture made = make();
        add(made, made.first);
        first_of(made);
    });
    refuses("nothing orders a copy", [] {
        fixture made = make();
        float one = 1;
        cudaMemcpy(made.data, &one, sizeof(one), cudaMemcpyHostToDevice);
        add(made, made.first);
    });
}

void test_races_between_threads()
{
    for (int backwards = 0; backwards < 2; backwards++)
        for (int barriers = 0; barriers < 3; barriers++) {
            emulate_backwards(backwards);
            refuses(barriers & 1 ? "no barrier is between" : "memory", [=] {
                kernel_launch(nullptr, dim3(BLOCKS), dim3(THREADS), turn, make().data, barriers);
            });
        }
    emulate_backwards(false);
    refuses("no barrier is between",
            [] { kernel_launch(nullptr, dim3(BLOCKS), dim3(2), write_neighbours, make().data); });
    for (unsigned writer = 0; writer < BLOCKS; writer++)
        refuses("no barrier is between", [=] {
            kernel_launch(nullptr, dim3(BLOCKS), dim3(1), read_across, make().data, writer);
        });
}

void test_memory()
{
    refuses("shared memory is read that the block has not written",
            [] { kernel_launch(nullptr, dim3(BLOCKS), dim3(1), read_unwritten, make().data); });
    refuses("an access beyond an allocation",
            [] { kernel_launch(nullptr, dim3(BLOCKS), dim3(THREADS), add_one, make().data + 1); });
    refuses("a kernel accesses what is not the device's memory", [] {
        kernel_launch(nullptr, dim3(BLOCKS), dim3(THREADS), add_one,
                      static_cast<float *>(calloc(COUNT, sizeof(float))));
    });
}

} // namespace

int main()
{
    test_what_is_right();
    test_races_between_streams();
    test_races_between_threads();
    test_memory();
    return failures > 0;
}
