#pragma once

/** @file
 * Ranks as an ordered list of factors: rank = ((stage * rows + row) * columns + column) * tensor
 * + part.
 *
 * A communicator is a set of factors, an axis: ranks that agree on all others.  AXIS_ROW is
 * communication within a row (among `columns` ranks), AXIS_COLUMN within a column (among `rows`
 * ranks), AXIS_WORLD among all that hold the same parameters, which are all ranks where layers are
 * not split, AXIS_TENSOR among those that share each layer, AXIS_PIPELINE among those that have one
 * stage of the network each.
 */

#include <stdint.h>

/** Shape of the grid; columns * rows * tensor * pipeline ranks. */
struct grid {
    int32_t columns, rows; /**< at least 1 each */
    int32_t tensor;        /**< ranks that share each layer; 0 like 1 */
    int32_t pipeline;      /**< stages of the network; 0 like 1 */
};

/** Who takes part in a collective. */
enum axis { AXIS_ROW, AXIS_COLUMN, AXIS_WORLD, AXIS_TENSOR, AXIS_PIPELINE, AXIS_COUNT };

/** "row", "column", "world", "tensor", "pipeline". */
extern const char *const axis_names[];

/** columns * rows * tensor * pipeline. */
int32_t grid_ranks(struct grid grid);

/** How many ranks take part along @axis. */
int32_t grid_axis_size(struct grid grid, enum axis axis);

/** The place of @rank along @axis: its column in the row, its row in the column, its part of the
 * layers, its stage, or itself where layers are not split. */
int32_t grid_axis_index(struct grid grid, enum axis axis, int32_t rank);

/** The rank at place @index of the group of @rank along @axis. */
int32_t grid_axis_rank(struct grid grid, enum axis axis, int32_t rank, int32_t index);

/** The order in which ranks fill the devices of one node after the other. */
enum rank_order {
    RANK_ORDER_ROW,    /**< rank 0, 1, 2, ...: rows of the grid lie within nodes and racks */
    RANK_ORDER_COLUMN, /**< column by column: columns of the grid lie within nodes and racks */
    RANK_ORDER_COUNT
};

/** "row", "column", NULL-terminated. */
extern const char *const rank_order_names[];

/** The place of @rank: place p is device p % devices_per_node of node p / devices_per_node. */
int32_t grid_place(struct grid grid, enum rank_order order, int32_t rank);

/** The grid of @ranks ranks nearest to a square with columns >= rows. */
struct grid grid_nearest_square(int32_t ranks);
