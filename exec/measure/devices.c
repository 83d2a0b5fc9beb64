#include "exec/measure/devices.h"

#include "config.h"
#include "exec/cpu/device_naive.h"
#include "exec/cpu/dnnl/device_dnnl.h"
#include "exec/cpu/mpi/comm_mpi.h"
#include "exec/cpu/replay.h"
#include "exec/cuda/device_cuda.h"
#include "exec/cuda/nccl/comm_nccl.h"
#include "exec/cuda/runtime/gpu.h"
#include "exec/step/comm.h"

#ifdef HAVE_MPI
static const struct comm_ops *const cpu_transport = &comm_mpi_ops;
#else
/* The transport of a build without one: for a job of one rank, which exchanges nothing. */

static int check(const struct schedule *schedule, struct err *err)
{
    if (grid_ranks(schedule->grid) == 1)
        return 0;
    return err_add_code(err, 69,
                        "ranks on CPUs exchange gradients over MPI, and this foretrain-exec was "
                        "built without it (libopenmpi-dev): use one rank, -n 1");
}

static const struct comm_ops comm_none_ops = {.name = "none", .check = check};

static const struct comm_ops *const cpu_transport = &comm_none_ops;
#endif

const struct device_ops *device_find(const char *name)
{
#ifdef HAVE_ONEDNN
    if (strcmp(name, device_dnnl_ops.name) == 0)
        return &device_dnnl_ops;
#endif
#ifdef HAVE_CUDA
    if (strcmp(name, device_cuda_ops.name) == 0)
        return &device_cuda_ops;
#endif
    if (strcmp(name, device_replay_ops.name) == 0)
        return &device_replay_ops;
    return strcmp(name, device_naive_ops.name) == 0 ? &device_naive_ops : NULL;
}

int device_present(const char *name, struct err *err)
{
#ifdef HAVE_CUDA
    if (strcmp(name, device_cuda_ops.name) == 0)
        return cuda_choose_device(err);
#endif
    return 0;
}

const struct comm_ops *transport_find(const char *name)
{
#ifdef HAVE_CUDA
    if (strcmp(name, device_cuda_ops.name) == 0)
        return &comm_nccl_ops;
#endif
    return device_find(name) ? cpu_transport : NULL;
}
