#include "core/collective/grid.h"

#include <assert.h>
#include <stddef.h>

const char *const axis_names[] = {"row",      "column",  "world",  "tensor",
                                  "pipeline", "context", "expert", "copies"};
static_assert(sizeof(axis_names) / sizeof(*axis_names) == AXIS_COUNT, "one name per axis");

/* From the fastest to the slowest. */
enum factor {
    FACTOR_TENSOR,
    FACTOR_CONTEXT,
    FACTOR_COLUMN,
    FACTOR_ROW,
    FACTOR_STAGE,
    FACTOR_COUNT
};

/* Which of them the ranks of an axis differ in. */
static const bool among[AXIS_COUNT][FACTOR_COUNT] = {
    [AXIS_ROW] = {[FACTOR_CONTEXT] = true, [FACTOR_COLUMN] = true},
    [AXIS_COLUMN] = {[FACTOR_ROW] = true},
    [AXIS_WORLD] = {[FACTOR_CONTEXT] = true, [FACTOR_COLUMN] = true, [FACTOR_ROW] = true},
    [AXIS_TENSOR] = {[FACTOR_TENSOR] = true},
    [AXIS_PIPELINE] = {[FACTOR_STAGE] = true},
    [AXIS_CONTEXT] = {[FACTOR_CONTEXT] = true},
    [AXIS_EXPERT] = {[FACTOR_CONTEXT] = true},
    [AXIS_COPIES] = {[FACTOR_COLUMN] = true},
};

static int32_t factor_size(struct grid grid, enum factor factor)
{
    const int32_t size[] = {grid.tensor, grid.context, grid.columns, grid.rows, grid.pipeline};
    return size[factor] > 1 ? size[factor] : 1;
}

/* @grid as those on @axis see it: in place of a sequence some share experts. */
static struct grid seen(struct grid grid, enum axis axis)
{
    if (axis != AXIS_EXPERT && axis != AXIS_COPIES)
        return grid;
    int32_t expert = grid.expert > 1 ? grid.expert : 1;
    int32_t parts = grid.whole ? factor_size(grid, FACTOR_TENSOR) : 1;
    grid.columns = grid_axis_size(grid, AXIS_WORLD) * parts / expert;
    grid.tensor /= parts;
    grid.context = expert;
    grid.rows = 1;
    return grid;
}

int32_t grid_ranks(struct grid grid)
{
    return grid_axis_size(grid, AXIS_WORLD) * factor_size(grid, FACTOR_TENSOR) *
           factor_size(grid, FACTOR_STAGE);
}

int32_t grid_replicas(struct grid grid)
{
    return grid.columns * grid.rows;
}

bool grid_equal(struct grid a, struct grid b)
{
    bool equal = grid_axis_size(a, AXIS_EXPERT) == grid_axis_size(b, AXIS_EXPERT) &&
                 grid_axis_size(a, AXIS_COPIES) == grid_axis_size(b, AXIS_COPIES);
    for (enum factor factor = 0; factor < FACTOR_COUNT; factor++)
        equal = equal && factor_size(a, factor) == factor_size(b, factor);
    return equal;
}

int32_t grid_axis_size(struct grid grid, enum axis axis)
{
    int32_t size = 1;
    grid = seen(grid, axis);
    for (enum factor factor = 0; factor < FACTOR_COUNT; factor++)
        size *= among[axis][factor] ? factor_size(grid, factor) : 1;
    return size;
}

int32_t grid_axis_index(struct grid grid, enum axis axis, int32_t rank)
{
    int32_t index = 0, stride = 1;
    grid = seen(grid, axis);
    for (enum factor factor = 0; factor < FACTOR_COUNT; factor++) {
        int32_t size = factor_size(grid, factor);
        if (size == 1)
            continue; /* as most are, and divisions take time */
        index += among[axis][factor] ? rank % size * stride : 0;
        stride *= among[axis][factor] ? size : 1;
        rank /= size;
    }
    return index;
}

int32_t grid_axis_rank(struct grid grid, enum axis axis, int32_t rank, int32_t index)
{
    int32_t other = 0, stride = 1;
    grid = seen(grid, axis);
    for (enum factor factor = 0; factor < FACTOR_COUNT; factor++) {
        int32_t size = factor_size(grid, factor);
        if (size == 1)
            continue;
        other += (among[axis][factor] ? index : rank) % size * stride;
        index /= among[axis][factor] ? size : 1;
        stride *= size;
        rank /= size;
    }
    return other;
}

struct grid_nodes grid_axis_nodes(struct grid grid, enum axis axis, int32_t each)
{
    int32_t size = grid_axis_size(grid, axis);
    int32_t stride = size > 1 ? grid_axis_rank(grid, axis, 0, 1) : 1;
    int32_t inside = stride < each ? each / stride : 1;
    inside = inside < size ? inside : size;
    return (struct grid_nodes){inside, size / inside, stride > each ? stride / each : 1};
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
