#pragma once

/** @file
 * The grid of a torus2d all-reduce when nobody gives one.
 *
 * A row that is a node lets every network card work and keeps the longest messages off the network,
 * but columns are then as long as there are nodes; the grid nearest to a square has the fewest
 * rounds.  Which is faster depends on bytes and latencies, so both are timed by the closed form.
 */

#include "core/backend/backend.h"
#include "core/collective/collective.h"
#include "core/platform/platform.h"

/** What a grid is chosen for. */
struct grid_question {
    const struct platform *platform;
    int32_t nodes, devices_per_node;
    enum rank_order order; /**< in which ranks fill the nodes: a row or a column is a node */
    enum algorithm column_algorithm; /**< of the columns */
    int64_t bytes;                   /**< of one all-reduce */
    struct memory *memory;           /**< of who asks again; NULL: none */
};

/** A grid, and why. */
struct grid_choice {
    struct grid grid;
    const char *why; /**< "a row is a node" or "nearest to a square"; static; NULL: nobody chose */
    struct grid other;    /**< the slower one; 0 x 0: there was none */
    double seconds;       /**< of one all-reduce by the closed form, when there was another */
    double other_seconds; /**< of the other grid, not shorter */
};

/** The faster of both, the node's when they are equal.  Nearest to a square where the platform has
 * no nodes, not so many, or only one device is used in each. */
struct grid_choice grid_choose(const struct grid_question *question);

/** "grid 8 x 32: a row is a node; 16 x 16 takes 4.15 times as long".  The caller frees it. */
char *grid_choice_text(const struct grid_choice *choice);
