#include "exec/step/packing.h"

#include <assert.h>
#include <stdlib.h>

#include "core/base/base.h"

static int32_t count_buckets(const struct schedule *schedule)
{
    int32_t count = 0;
    for (int32_t i = 0; i < schedule->step_count; i++) {
        const struct step *step = &schedule->step[i];
        if (step->kind == STEP_COLLECTIVE && count <= step->collective.bucket)
            count = step->collective.bucket + 1;
    }
    return count;
}

/* Of the three steps of a torus all-reduce the column's has only a part of the bucket: the largest
 * gives the size. */
static void find_sizes(struct packing *packing, const struct schedule *schedule, enum dtype payload)
{
    for (int32_t i = 0; i < schedule->step_count; i++) {
        const struct step *step = &schedule->step[i];
        if (step->kind != STEP_COLLECTIVE)
            continue;
        struct slice *bucket = &packing->bucket[step->collective.bucket];
        int64_t elements = step->collective.bytes / dtype_size(payload);
        if (bucket->elements < elements)
            bucket->elements = elements;
    }
}

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
    struct packing packing = {.buckets = count_buckets(schedule)};
    int64_t unit = alignment > 0 ? alignment * schedule->grid.columns : 1;
    packing.bucket = base_alloc(packing.buckets, sizeof(*packing.bucket));
    find_sizes(&packing, schedule, payload);
    for (int32_t i = 0; i < packing.buckets; i++) {
        bool last = i == packing.buckets - 1;
        packing.exchanged += packing.bucket[i].elements;
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

struct slice packing_block(struct slice slice, struct grid grid, int32_t rank)
{
    int64_t index = grid_axis_index(grid, AXIS_ROW, rank);
    int64_t even = slice.elements / grid.columns, longer = slice.elements % grid.columns;
    return (struct slice){slice.offset + index * even + (index < longer ? index : longer),
                          even + (index < longer)};
}
