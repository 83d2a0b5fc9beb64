#include "core/collective/grid.h"

#include <assert.h>
#include <stddef.h>

const char *const axis_names[] = {"row", "column", "world"};
static_assert(sizeof(axis_names) / sizeof(*axis_names) == AXIS_COUNT, "one name per axis");

int32_t grid_ranks(struct grid grid)
{
    return grid.columns * grid.rows;
}

int32_t grid_axis_size(struct grid grid, enum axis axis)
{
    switch (axis) {
    case AXIS_ROW:
        return grid.columns;
    case AXIS_COLUMN:
        return grid.rows;
    default:
        return grid_ranks(grid);
    }
}

int32_t grid_axis_index(struct grid grid, enum axis axis, int32_t rank)
{
    switch (axis) {
    case AXIS_ROW:
        return rank % grid.columns;
    case AXIS_COLUMN:
        return rank / grid.columns;
    default:
        return rank;
    }
}

int32_t grid_axis_rank(struct grid grid, enum axis axis, int32_t rank, int32_t index)
{
    switch (axis) {
    case AXIS_ROW:
        return rank - rank % grid.columns + index;
    case AXIS_COLUMN:
        return index * grid.columns + rank % grid.columns;
    default:
        return index;
    }
}

const char *const rank_order_names[] = {"row", "column", NULL};
static_assert(sizeof(rank_order_names) / sizeof(*rank_order_names) == RANK_ORDER_COUNT + 1,
              "one name per order");

int32_t grid_place(struct grid grid, enum rank_order order, int32_t rank)
{
    if (order == RANK_ORDER_ROW)
        return rank;
    return rank % grid.columns * grid.rows + rank / grid.columns;
}

struct grid grid_nearest_square(int32_t ranks)
{
    int32_t rows = 1;
    for (int32_t divisor = 2; (int64_t)divisor * divisor <= ranks; divisor++)
        if (ranks % divisor == 0)
            rows = divisor;
    return (struct grid){.columns = ranks / rows, .rows = rows};
}
