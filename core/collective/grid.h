#pragma once

/** @file
 * The logical grid of ranks: rank = row * columns + column.
 *
 * AXIS_ROW is communication within a row (among `columns` ranks), AXIS_COLUMN within a column
 * (among `rows` ranks), AXIS_WORLD among all.
 */

#include <stdint.h>

/** Shape of the grid; columns * rows ranks. */
struct grid {
    int32_t columns, rows; /**< at least 1 each */
};

/** Who takes part in a collective. */
enum axis { AXIS_ROW, AXIS_COLUMN, AXIS_WORLD, AXIS_COUNT };

/** "row", "column", "world". */
extern const char *const axis_names[];

/** columns * rows. */
int32_t grid_ranks(struct grid grid);

/** How many ranks take part along @axis. */
int32_t grid_axis_size(struct grid grid, enum axis axis);

/** The place of @rank along @axis: its column in the row, its row in the column, or itself. */
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
