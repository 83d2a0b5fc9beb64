#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "exec/step/half.h"
#include "exec/train/train_loop.h"

int32_t loop_shards(const struct loop *loop)
{
    const struct schedule *schedule = loop->job->schedule[loop->phase];
    return grid_axis_size(schedule->grid, schedule_sharded(schedule));
}

int64_t loop_exchanged(const struct loop *loop)
{
    const struct scenario *scenario = loop->job->scenario;
    int64_t each = dtype_size((enum dtype)scenario->model.gradients);
    if (loop->shard)
        each += dtype_size((enum dtype)scenario->model.compute);
    return loop->packing.elements * each;
}

/* Whether each rank has its shard of the parameters in fp32, and of others a copy in the type of
 * the arithmetic. */
static bool gathers_copies(const struct loop *loop)
{
    const struct scenario *scenario = loop->job->scenario;
    return loop->shard && scenario->model.compute != scenario->model.master;
}

uint64_t loop_hash(const struct loop *loop)
{
    int64_t count = loop->layout.parameters;
    AUTOFREE float *parameter = base_alloc(count, sizeof(*parameter));
    memcpy(parameter, loop->weights.parameter, (size_t)count * sizeof(*parameter));
    if (gathers_copies(loop))
        half_round((enum dtype)loop->job->scenario->model.compute, count, parameter);
    uint64_t hash = base_hash(BASE_HASH_SEED, parameter, (size_t)count * sizeof(*parameter));
    return hash;
}

/* Between the order of @flat and the device's. */
static void turn(const struct loop *loop, bool back, float *flat)
{
    int64_t count = loop->layout.parameters;
    if (!loop->job->device_ops->turn)
        return;
    AUTOFREE float *before = base_alloc(count, sizeof(*before));
    memcpy(before, flat, (size_t)count * sizeof(*before));
    loop->job->device_ops->turn(loop->device, back, before, flat);
}

/* The first shards ranks have one part each; in a torus, other rows have the same.  The last part
 * may go on behind the parameters. */
static void collect(struct loop *loop, float *flat)
{
    const struct schedule *schedule = loop->job->schedule[loop->phase];
    int32_t buckets = loop->packing.buckets, shards = loop_shards(loop);
    int64_t count = slice_elements(loop->shard, buckets);
    AUTOFREE float *mine = base_alloc(count, sizeof(*mine));
    AUTOFREE float *padded = base_alloc(loop->packing.elements, sizeof(*padded));
    void *all;
    turn(loop, false, flat);
    memcpy(padded, flat, (size_t)loop->layout.parameters * sizeof(*flat));
    slice_pack(loop->shard, buckets, padded, mine);
    int64_t bytes = loop->world.rank < shards ? count * (int64_t)sizeof(*mine) : 0;
    const float *next = world_gather(mine, bytes, &all) > 0 ? all : NULL;
    for (int32_t rank = 0; next && rank < shards; rank++) {
        AUTOFREE struct slice *shard = packing_shard(&loop->packing, schedule, rank);
        slice_unpack(shard, buckets, next, padded);
        next += slice_elements(shard, buckets);
    }
    memcpy(flat, padded, (size_t)loop->layout.parameters * sizeof(*flat));
    turn(loop, true, flat);
    free(all);
}

void loop_collect(struct loop *loop)
{
    if (!loop->shard)
        return;
    collect(loop, loop->weights.momentum);
    if (gathers_copies(loop))
        collect(loop, loop->weights.parameter);
}
