#pragma once

/** @file
 * Ranks as an ordered list of factors: rank = (((stage * rows + row) * columns + column) * context
 * + slice) * tensor + part, as in Megatron-LM.
 *
 * A communicator is a set of factors, an axis: ranks that agree on all others.  AXIS_ROW is
 * communication within a row (among `columns` ranks and what shares their sequences), AXIS_COLUMN
 * within a column (among `rows` ranks), AXIS_WORLD among all that hold the same parameters, which
 * are all ranks where layers are not split, AXIS_TENSOR among those that share each layer,
 * AXIS_PIPELINE among those that have one stage of the network each, AXIS_CONTEXT among those that
 * share each sequence.  Experts factor the ranks of AXIS_WORLD differently, with those of
 * AXIS_TENSOR if experts are whole: AXIS_EXPERT is among `expert` neighbours, which have all
 * experts together, AXIS_COPIES among those that have the same.
 */

#include <stdbool.h>
#include <stdint.h>

/** Shape of the grid; columns * rows * tensor * context * pipeline ranks. */
struct grid {
    int32_t columns, rows; /**< at least 1 each */
    int32_t tensor;        /**< ranks that share each layer; 0 like 1 */
    int32_t pipeline;      /**< stages of the network; 0 like 1 */
    int32_t context;       /**< ranks that share each sequence; 0 like 1 */
    int32_t expert;        /**< ranks that share the experts of a layer, of columns * rows *
                                context, which it divides; 0 like 1 */
    int32_t whole;         /**< not 0: an expert is of one rank, and `expert` divides tensor times
                                as many */
};

/** Who takes part in a collective. */
enum axis {
    AXIS_ROW,
    AXIS_COLUMN,
    AXIS_WORLD,
    AXIS_TENSOR,
    AXIS_PIPELINE,
    AXIS_CONTEXT,
    AXIS_EXPERT,
    AXIS_COPIES,
    AXIS_COUNT
};

/** "row", "column", "world", "tensor", "pipeline", "context", "expert", "copies". */
extern const char *const axis_names[];

/** columns * rows * tensor * context * pipeline. */
int32_t grid_ranks(struct grid grid);

/** How many batches it trains beside each other: columns * rows. */
int32_t grid_replicas(struct grid grid);

/** Of two grids. */
bool grid_equal(struct grid a, struct grid b);

/** How many ranks take part along @axis. */
int32_t grid_axis_size(struct grid grid, enum axis axis);

/** The place of @rank along @axis: its column in the row, its row in the column, its part of the
 * layers, its stage, or itself where layers are not split. */
int32_t grid_axis_index(struct grid grid, enum axis axis, int32_t rank);

/** The rank at place @index of the group of @rank along @axis. */
int32_t grid_axis_rank(struct grid grid, enum axis axis, int32_t rank, int32_t index);

/** A group of ranks in nodes. */
struct grid_nodes {
    int32_t each;  /**< of its ranks in a node */
    int32_t nodes; /**< that have some */
    int32_t apart; /**< from one of these nodes to the next */
};

/** How a group along @axis lies in nodes of @each ranks, which it fills evenly. */
struct grid_nodes grid_axis_nodes(struct grid grid, enum axis axis, int32_t each);

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
