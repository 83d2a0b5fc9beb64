#include "exec/cpu/mpi/comm_mpi_library.h"

#include <stdlib.h>

#include "core/base/base.h"
#include "exec/step/half.h"
#include "exec/world/world.h"
#include "exec/world/world_mpi.h"

enum { AT_ONCE = 1 << 28 }; /* numbers: MPI counts in int */

/* MPI has no type for numbers of 16 bits: our own operation on integers adds them. */
static void add(enum dtype dtype, int64_t count, const uint16_t *from, uint16_t *to)
{
    enum { PART = 512 };
    float sum[PART];
    for (int64_t i = 0; i < count; i += PART) {
        int64_t part = count - i < PART ? count - i : PART;
        half_to_float(dtype, part, to + i, sum);
        half_add(dtype, part, from + i, sum);
        half_from_float(dtype, part, sum, to + i);
    }
}

static void add_fp16(void *from, void *to, int *count, MPI_Datatype *type)
{
    add(DTYPE_FP16, *count, from, to);
}

static void add_bf16(void *from, void *to, int *count, MPI_Datatype *type)
{
    add(DTYPE_BF16, *count, from, to);
}

void library_init(struct library_memory *memory)
{
    memory->sum[DTYPE_FP32] = MPI_SUM;
    MPI_Op_create(add_fp16, 1, &memory->sum[DTYPE_FP16]);
    MPI_Op_create(add_bf16, 1, &memory->sum[DTYPE_BF16]);
}

void library_release(struct library_memory *memory)
{
    MPI_Op_free(&memory->sum[DTYPE_FP16]);
    MPI_Op_free(&memory->sum[DTYPE_BF16]);
    free(memory->wire);
    *memory = (struct library_memory){0};
}

static void sum_in_place(MPI_Comm comm, int64_t count, MPI_Datatype type, size_t size, MPI_Op sum,
                         char *data)
{
    for (int64_t offset = 0; offset < count; offset += AT_ONCE) {
        int64_t part = count - offset < AT_ONCE ? count - offset : AT_ONCE;
        MPI_Request request;
        world_lock();
        MPI_Iallreduce(MPI_IN_PLACE, data + (size_t)offset * size, (int)part, type, sum, comm,
                       &request);
        world_unlock();
        world_wait(1, &request, "all-reduce of MPI");
    }
}

void library_all_reduce(struct library_memory *memory, MPI_Comm comm, int64_t count,
                        enum dtype payload, float *data)
{
    MPI_Op sum = memory->sum[payload];
    if (payload == DTYPE_FP32) {
        sum_in_place(comm, count, MPI_FLOAT, sizeof(*data), sum, (char *)data);
        return;
    }
    memory->wire = base_grow(memory->wire, count, &memory->capacity, sizeof(*memory->wire));
    half_from_float(payload, count, data, memory->wire);
    sum_in_place(comm, count, MPI_UINT16_T, sizeof(*memory->wire), sum, (char *)memory->wire);
    half_to_float(payload, count, memory->wire, data);
}
