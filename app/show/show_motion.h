#pragma once

/** @file
 * An all-reduce in motion: a page on which every round is played, forwards and back, beside other
 * algorithms on the same ranks and links.
 */

#include "core/base/err.h"
#include "core/collective/collective.h"
#include "core/network/fabric.h"

/** Write the page to @path: @c, and beside it those of ring, tree, halving-doubling, hierarchical
 * and torus2d that it is not.  With a @fabric (else NULL) each round takes as long as
 * show_holdings() says for a vector of @bytes, else one beat; groups of hierarchical are of @group
 * ranks.
 * @return 0, or -1: it cannot be written (exit codes 73, 74). */
int show_motion(const char *path, const struct collective *c, int32_t group,
                const struct fabric *fabric, int64_t bytes, struct err *err);
