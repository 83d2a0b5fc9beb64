/* What may run in the columns of torus2d. */

#include "core/scenario/scenario.h"

const char *const column_algorithm_names[] = {
    "ring", "halving-doubling", "halving-doubling-far", "double-tree", "nccl", NULL};
static_assert(ARRAY_SIZE(column_algorithm_names) == COLUMN_ALGORITHM_COUNT + 1,
              "one word per algorithm");

enum algorithm column_algorithm(enum column_algorithm word)
{
    static const enum algorithm algorithm[] = {ALGORITHM_RING, ALGORITHM_HALVING_DOUBLING,
                                               ALGORITHM_HALVING_DOUBLING_FAR,
                                               ALGORITHM_DOUBLE_TREE, ALGORITHM_NCCL};
    static_assert(ARRAY_SIZE(algorithm) == COLUMN_ALGORITHM_COUNT, "one per word");
    return algorithm[word];
}
