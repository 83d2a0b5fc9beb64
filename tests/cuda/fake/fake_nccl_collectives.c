#include "core/base/base.h"
#include "exec/step/half.h"
#include "tests/cuda/fake/fake_nccl_inner.h"
#include "tests/cuda/fake/fake_runtime.h"

enum op { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER };

static const char *const op_names[] = {"all-reduce", "reduce-scatter", "all-gather"};

/* A collective of one rank; what others must agree on comes first. */
struct order {
    int32_t op, type, red_op;
    int64_t count;
    ncclComm_t comm;
    const char *from;
    char *to;
};

static enum dtype dtype_of(int32_t type)
{
    switch (type) {
    case ncclFloat32:
        return DTYPE_FP32;
    case ncclFloat16:
        return DTYPE_FP16;
    case ncclBfloat16:
        return DTYPE_BF16;
    default:
        fake_nccl_misuse("type %d", type);
    }
}

/* What a rank gives, in bytes. */
static size_t given(const struct order *order)
{
    int64_t parts = order->op == REDUCE_SCATTER ? order->comm->size : 1;
    return (size_t)(parts * order->count * dtype_size(dtype_of(order->type)));
}

/* Show others what this rank has, and find theirs in @part by place; until release_table(). */
static void exchange(const struct order *order, const char **part)
{
    const struct ncclComm *comm = order->comm;
    char *mine = comm->table->slot[comm->place];
    if (sizeof(*order) + given(order) > FAKE_NCCL_SLOT)
        fake_nccl_misuse("%s of more than the table holds", op_names[order->op]);
    memcpy(mine, order, sizeof(*order));
    memcpy(mine + sizeof(*order), order->from, given(order));
    pthread_barrier_wait(&comm->table->barrier);
    for (int32_t i = 0; i < comm->size; i++) {
        struct order other;
        memcpy(&other, comm->table->slot[i], sizeof(other));
        if (order->op != other.op || order->type != other.type || order->red_op != other.red_op ||
            order->count != other.count)
            fake_nccl_misuse("ranks %d and %d disagree about a %s", comm->member[comm->place],
                             comm->member[i], op_names[order->op]);
        part[i] = comm->table->slot[i] + sizeof(other);
    }
}

/* The sum of @count numbers from number @offset on. */
static void add_up(const struct order *order, const char *const *part, int64_t offset,
                   float *result)
{
    enum dtype type = dtype_of(order->type);
    double *sum = base_alloc(order->count, sizeof(*sum));
    for (int32_t i = 0; i < order->comm->size; i++) {
        half_to_float(type, order->count, part[i] + offset * dtype_size(type), result);
        for (int64_t k = 0; k < order->count; k++)
            sum[k] += (double)result[k];
    }
    for (int64_t k = 0; k < order->count; k++)
        result[k] = (float)sum[k];
    free(sum);
}

static void write_result(const struct order *order, const char *const *part)
{
    enum dtype type = dtype_of(order->type);
    size_t bytes = (size_t)order->count * (size_t)dtype_size(type);
    float *result = base_alloc(order->count, sizeof(*result));
    if (order->op != ALL_GATHER) {
        add_up(order, part, order->op == REDUCE_SCATTER ? order->comm->place * order->count : 0,
               result);
        half_from_float(type, order->count, result, order->to);
    }
    for (int32_t i = 0; i < order->comm->size && order->op == ALL_GATHER; i++)
        memcpy(order->to + (size_t)i * bytes, part[i], bytes);
    free(result);
}

/* On its stream. */
static void run_order(void *argument)
{
    const struct order *order = argument;
    const char *part[FAKE_NCCL_RANKS] = {0};
    exchange(order, part);
    write_result(order, part);
    pthread_barrier_wait(&order->comm->table->barrier); /* the table is free */
}

static ncclResult_t take(struct order order, cudaStream_t stream)
{
    static const char *const types[] = {"fp32", "fp16", "bf16"};
    ncclComm_t comm = order.comm;
    int64_t size = dtype_size(dtype_of(order.type));
    fake_nccl_enter(op_names[order.op], comm);
    if (fake_nccl_refuses(comm, stream)) {
        fake_nccl_leave(NULL);
        return ncclInvalidUsage;
    }
    fake_nccl_note("%s %s %lld %s @%lld>@%lld", op_names[order.op], fake_nccl_members(comm),
                   (long long)order.count, types[dtype_of(order.type)],
                   (long long)(fake_nccl_offset(order.from) / size),
                   (long long)(fake_nccl_offset(order.to) / size));
    if (!fake_on_device(order.from) || !fake_on_device(order.to))
        fake_nccl_misuse("%s of memory that is not the device's", op_names[order.op]);
    if (order.op != ALL_GATHER && order.red_op != ncclSum)
        fake_nccl_misuse("%s that is no sum", op_names[order.op]);
    fake_enqueue_c(stream, run_order, &order, sizeof(order));
    return fake_nccl_leave(comm);
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return take((struct order){ALL_REDUCE, type, op, (int64_t)count, comm, from, to}, stream);
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return take((struct order){REDUCE_SCATTER, type, op, (int64_t)count, comm, from, to}, stream);
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    return take((struct order){ALL_GATHER, type, 0, (int64_t)count, comm, from, to}, stream);
}
