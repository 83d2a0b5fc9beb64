#include "exec/step/packing.h"

/* Whether the buckets lie behind one another on multiples of @unit elements, and the padding is
 * less than one.  For assert(). */
__attribute__((unused)) static bool packing_check(const struct packing *packing, int64_t unit)
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

struct packing packing_build(const struct schedule *schedule, int32_t stage, enum dtype payload,
                             int64_t alignment)
{
    struct packing packing = {0};
    enum axis axis = schedule_sharded(schedule);
    int64_t blocks = grid_axis_size(schedule->grid, axis == AXIS_COUNT ? AXIS_ROW : axis);
    int64_t unit = alignment > 0 ? alignment * blocks : 1;
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        if (step->kind != STEP_COLLECTIVE || step->stage != stage ||
            step->collective.content != CONTENT_GRADIENTS ||
            step->collective.bucket != packing.buckets)
            continue; /* it does not begin the exchange of the next bucket */
        packing.bucket = base_room(packing.bucket, packing.buckets, sizeof(*packing.bucket));
        packing.exchanged += step->collective.bytes / dtype_size(payload);
        int64_t end = packing.exchanged / unit * unit;
        packing.bucket[packing.buckets++] =
            (struct slice){packing.elements, end - packing.elements};
        packing.elements = end;
    }
    if (packing.buckets > 0) {
        int64_t rest = (packing.exchanged + unit - 1) / unit * unit - packing.elements;
        packing.bucket[packing.buckets - 1].elements += rest;
        packing.elements += rest;
    }
    assert(packing_check(&packing, unit));
    return packing;
}

RELEASE(packing, it->bucket)

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

struct slice slice_overlap(struct slice a, struct slice b)
{
    int64_t first = a.offset > b.offset ? a.offset : b.offset;
    int64_t end_a = a.offset + a.elements, end_b = b.offset + b.elements;
    int64_t end = end_a < end_b ? end_a : end_b;
    return (struct slice){first, end > first ? end - first : 0};
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
