#include "exec/cuda/runtime/check.h"

#include "exec/world/world.h"

void cuda_check(cudaError_t error, const char *call, const char *file, int line)
{
    if (error == cudaSuccess)
        return;
    int device = -1;
    cudaGetDevice(&device);
    fprintf(stderr, "foretrain-exec: rank %d, GPU %d: CUDA: %s (%s): %s, %s:%d\n",
            world_self().rank, device, cudaGetErrorString(error), cudaGetErrorName(error), call,
            file, line);
    world_abort(70);
}
