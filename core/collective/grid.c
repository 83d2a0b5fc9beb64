#include "core/collective/grid.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

const char *const axis_names[] = {"row", "column", "world", "tensor", "pipeline"};
static_assert(sizeof(axis_names) / sizeof(*axis_names) == AXIS_COUNT, "one name per axis");

/* From the fastest to the slowest. */
enum factor { FACTOR_TENSOR, FACTOR_COLUMN, FACTOR_ROW, FACTOR_STAGE, FACTOR_COUNT };

/* Which of them the ranks of an axis differ in. */
static const bool among[AXIS_COUNT][FACTOR_COUNT] = {
    [AXIS_ROW] = {[FACTOR_COLUMN] = true},
    [AXIS_COLUMN] = {[FACTOR_ROW] = true},
    [AXIS_WORLD] = {[FACTOR_COLUMN] = true, [FACTOR_ROW] = true},
    [AXIS_TENSOR] = {[FACTOR_TENSOR] = true},
    [AXIS_PIPELINE] = {[FACTOR_STAGE] = true},
};

static int32_t factor_size(struct grid grid, enum factor factor)
{
    const int32_t size[] = {grid.tensor > 1 ? grid.tensor : 1, grid.columns, grid.rows,
                            grid.pipeline > 1 ? grid.pipeline : 1};
    return size[factor];
}

int32_t grid_ranks(struct grid grid)
{
    return grid_axis_size(grid, AXIS_WORLD) * factor_size(grid, FACTOR_TENSOR) *
           factor_size(grid, FACTOR_STAGE);
}

int32_t grid_axis_size(struct grid grid, enum axis axis)
{
    int32_t size = 1;
    for (enum factor factor = 0; factor < FACTOR_COUNT; factor++)
        size *= among[axis][factor] ? factor_size(grid, factor) : 1;
    return size;
}

int32_t grid_axis_index(struct grid grid, enum axis axis, int32_t rank)
{
    int32_t index = 0, stride = 1;
    for (enum factor factor = 0; factor < FACTOR_COUNT; factor++) {
        int32_t size = factor_size(grid, factor);
        index += among[axis][factor] ? rank % size * stride : 0;
        stride *= among[axis][factor] ? size : 1;
        rank /= size;
    }
    return index;
}

int32_t grid_axis_rank(struct grid grid, enum axis axis, int32_t rank, int32_t index)
{
    int32_t other = 0, stride = 1;
    for (enum factor factor = 0; factor < FACTOR_COUNT; factor++) {
        int32_t size = factor_size(grid, factor);
        other += (among[axis][factor] ? index : rank) % size * stride;
        index /= among[axis][factor] ? size : 1;
        stride *= size;
        rank /= size;
    }
    return other;
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
