#include "exec/cuda/runtime/gpu.h"

#include <cuda_runtime_api.h>

#include "exec/world/world.h"

/* The runtime's message is the same for a missing driver and for an old one. */
static int explain(cudaError_t error, struct err *err)
{
    static const char *const way_out = "--device cpu works without a GPU";
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    if (driver == 0)
        return err_add_code(err, 69,
                            "--device cuda: no NVIDIA driver is loaded on this machine (libcuda, "
                            "nvidia-smi); install one that knows CUDA %d.%d, or start it where "
                            "there is a GPU; %s",
                            runtime / 1000, runtime % 1000 / 10, way_out);
    if (error == cudaErrorInsufficientDriver)
        return err_add_code(err, 69,
                            "--device cuda: the NVIDIA driver knows CUDA %d.%d, but this "
                            "foretrain-exec was built with %d.%d: install a newer driver; %s",
                            driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10,
                            way_out);
    if (error == cudaErrorNoDevice && visible)
        return err_add_code(err, 69,
                            "--device cuda: CUDA_VISIBLE_DEVICES=%s leaves no NVIDIA GPU; %s",
                            visible, way_out);
    return err_add_code(err, 69, "--device cuda: no NVIDIA GPU can be used: %s; %s",
                        cudaGetErrorString(error), way_out);
}

int cuda_choose_device(struct err *err)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count == 0)
        error = cudaErrorNoDevice;
    if (error == cudaSuccess)
        error = cudaSetDevice(world_self().local_rank % count);
    if (error == cudaSuccess)
        return 0;
    cudaGetLastError(); /* or the next launch would be blamed */
    return explain(error, err);
}
