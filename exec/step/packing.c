#include "exec/step/packing.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"

bool packing_check(const struct packing *packing, int64_t unit)
{
    int64_t end = 0;
    for (int32_t i = 0; i < packing->buckets; i++) {
        struct slice bucket = packing->bucket[i];
        if (bucket.offset != end || bucket.elements < 0 || bucket.elements % unit)
            return false;
        end += bucket.elements;
    }
    return end == packing->elements && packing->exchanged <= end && end - packing->exchanged < unit;
}

struct packing packing_build(const struct schedule *schedule, enum dtype payload, int64_t alignment)
{
    struct packing packing = {.buckets = schedule->bucket_count};
    enum axis axis = schedule_sharded(schedule);
    int64_t blocks = grid_axis_size(schedule->grid, axis == AXIS_COUNT ? AXIS_ROW : axis);
    int64_t unit = alignment > 0 ? alignment * blocks : 1;
    packing.bucket = base_alloc(packing.buckets, sizeof(*packing.bucket));
    for (int32_t i = 0; i < packing.buckets; i++) {
        bool last = i == packing.buckets - 1;
        packing.exchanged += schedule->bucket[i] / dtype_size(payload);
        int64_t end = (packing.exchanged + (last ? unit - 1 : 0)) / unit * unit;
        packing.bucket[i] = (struct slice){packing.elements, end - packing.elements};
        packing.elements = end;
    }
    assert(packing_check(&packing, unit));
    return packing;
}

void packing_release(struct packing *packing)
{
    free(packing->bucket);
    *packing = (struct packing){0};
}

struct slice packing_block(struct slice slice, struct grid grid, enum axis axis, int32_t rank)
{
    int64_t index = grid_axis_index(grid, axis, rank), blocks = grid_axis_size(grid, axis);
    int64_t even = slice.elements / blocks, longer = slice.elements % blocks;
    return (struct slice){slice.offset + index * even + (index < longer ? index : longer),
                          even + (index < longer)};
}

struct slice *packing_shard(const struct packing *packing, const struct schedule *schedule,
                            int32_t rank)
{
    enum axis axis = schedule_sharded(schedule);
    if (axis == AXIS_COUNT)
        return NULL;
    struct slice *shard = base_alloc(packing->buckets, sizeof(*shard));
    for (int32_t i = 0; i < packing->buckets; i++)
        shard[i] = packing_block(packing->bucket[i], schedule->grid, axis, rank);
    return shard;
}

int64_t slice_elements(const struct slice *slice, int32_t count)
{
    int64_t elements = 0;
    for (int32_t i = 0; i < count; i++)
        elements += slice[i].elements;
    return elements;
}

void slice_pack(const struct slice *slice, int32_t count, const float *flat, float *dense)
{
    for (int32_t i = 0; i < count; dense += slice[i++].elements)
        memcpy(dense, flat + slice[i].offset, (size_t)slice[i].elements * sizeof(*dense));
}

void slice_unpack(const struct slice *slice, int32_t count, const float *dense, float *flat)
{
    for (int32_t i = 0; i < count; dense += slice[i++].elements)
        memcpy(flat + slice[i].offset, dense, (size_t)slice[i].elements * sizeof(*dense));
}
