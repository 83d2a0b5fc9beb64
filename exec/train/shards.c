#include <stdlib.h>

#include "core/base/base.h"
#include "exec/train/train_loop.h"

/* The first shards ranks have one part each; in a torus, other rows have the same. */
void loop_collect(struct loop *loop)
{
    const struct schedule *schedule = loop->job->schedule[loop->phase];
    int32_t buckets = loop->packing.buckets;
    if (!loop->shard)
        return;
    int32_t shards = grid_axis_size(schedule->grid, schedule_sharded(schedule));
    int64_t count = slice_elements(loop->shard, buckets);
    float *mine = base_alloc(count, sizeof(*mine));
    void *all;
    slice_pack(loop->shard, buckets, loop->weights.momentum, mine);
    int64_t bytes = loop->world.rank < shards ? count * (int64_t)sizeof(*mine) : 0;
    const float *next = world_gather(mine, bytes, &all) > 0 ? all : NULL;
    for (int32_t rank = 0; next && rank < shards; rank++) {
        struct slice *shard = packing_shard(&loop->packing, schedule, rank);
        slice_unpack(shard, buckets, next, loop->weights.momentum);
        next += slice_elements(shard, buckets);
        free(shard);
    }
    free(all);
    free(mine);
}
