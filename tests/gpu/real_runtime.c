/** @file
 * What tests/cuda/fake/fake_runtime.h adds to the runtime, over the real one: so that tests written
 * for the device in software run on a GPU unchanged.
 *
 * Graphs are counted, no devices and too little memory are pretended, by wrapping the runtime's
 * calls when the program is linked (ld --wrap).  Work is always as late as the GPU makes it, and
 * objects are not counted: compute-sanitizer does that.  Without a GPU the program ends with exit
 * status 77 before main(), or with 1 where $FORETRAIN_TEST_GPU says that there is one.
 */

#include "tests/cuda/fake/fake_runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct {
    int64_t launches;
    bool no_device;
    size_t capacity;
} pretended = {.capacity = SIZE_MAX};

cudaError_t __real_cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t __wrap_cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t __real_cudaGetDeviceCount(int *count);
cudaError_t __wrap_cudaGetDeviceCount(int *count);
cudaError_t __real_cudaDriverGetVersion(int *version);
cudaError_t __wrap_cudaDriverGetVersion(int *version);
cudaError_t __real_cudaMalloc(void **memory, size_t size);
cudaError_t __wrap_cudaMalloc(void **memory, size_t size);

cudaError_t __wrap_cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    pretended.launches++;
    return __real_cudaGraphLaunch(graph, stream);
}

cudaError_t __wrap_cudaGetDeviceCount(int *count)
{
    if (!pretended.no_device)
        return __real_cudaGetDeviceCount(count);
    *count = 0;
    return cudaErrorNoDevice;
}

cudaError_t __wrap_cudaDriverGetVersion(int *version)
{
    cudaError_t error = __real_cudaDriverGetVersion(version);
    if (pretended.no_device)
        *version = 0;
    return error;
}

cudaError_t __wrap_cudaMalloc(void **memory, size_t size)
{
    return size > pretended.capacity ? cudaErrorMemoryAllocation : __real_cudaMalloc(memory, size);
}

void fake_lazy(bool lazy)
{
    (void)lazy;
}

void fake_devices(int count)
{
    pretended.no_device = count == 0;
}

void fake_capacity(size_t bytes)
{
    /* What the software starts with is no limit of a GPU. */
    pretended.capacity = bytes >= (size_t)1 << 30 ? SIZE_MAX : bytes;
}

size_t fake_in_use(void)
{
    return 0;
}

int64_t fake_objects(void)
{
    return 0;
}

int64_t fake_launches(void)
{
    return pretended.launches;
}

bool fake_on_device(const void *pointer)
{
    struct cudaPointerAttributes attributes;
    return !cudaPointerGetAttributes(&attributes, pointer) &&
           attributes.type == cudaMemoryTypeDevice;
}

__attribute__((constructor)) static void need_gpu(void)
{
    int count = 0;
    cudaError_t error = __real_cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count > 0)
        return;
    printf("no NVIDIA GPU to test on: %s\n", cudaGetErrorString(error));
    fflush(stdout);
    _exit(getenv("FORETRAIN_TEST_GPU") ? 1 : 77);
}
