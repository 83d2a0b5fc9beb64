/* Two-dimensional torus: each row reduce-scatters, each column all-reduces the block its ranks
 * hold, each row all-gathers; three rings.
 * Source: Mikami et al., "Massively distributed SGD: ImageNet/ResNet-50 training in a flash", 2018.
 */

#include "core/collective/ops.h"

enum phase { ROW_SCATTER, COLUMN_REDUCE, ROW_GATHER };

static int32_t row_rounds(const struct collective *c)
{
    return c->grid.columns - 1;
}

static int32_t column_rounds(const struct collective *c)
{
    return 2 * (c->grid.rows - 1);
}

static int32_t torus_rounds(const struct collective *c)
{
    return 2 * row_rounds(c) + column_rounds(c);
}

static enum phase phase_of(const struct collective *c, int32_t round)
{
    if (round < row_rounds(c))
        return ROW_SCATTER;
    return round < row_rounds(c) + column_rounds(c) ? COLUMN_REDUCE : ROW_GATHER;
}

static struct exchange row_exchange(const struct collective *c, enum collective_op op, int32_t rank,
                                    int32_t round)
{
    struct collective row = {.op = op, .ranks = c->grid.columns, .elements = c->elements};
    int32_t column = rank % c->grid.columns;
    return exchange_translated(collective_ring.exchange(&row, column, round), rank - column, 1, 0);
}

static struct exchange column_exchange(const struct collective *c, int32_t rank, int32_t round)
{
    int32_t columns = c->grid.columns, column = rank % columns;
    int64_t begin = block_offset(c->elements, columns, column);
    int64_t end = block_offset(c->elements, columns, column + 1);
    struct collective all_reduce = {
        .op = COLLECTIVE_ALL_REDUCE, .ranks = c->grid.rows, .elements = end - begin};
    return exchange_translated(collective_ring.exchange(&all_reduce, rank / columns, round), column,
                               columns, begin);
}

static struct exchange torus_exchange(const struct collective *c, int32_t rank, int32_t round)
{
    int32_t row = row_rounds(c), column = column_rounds(c);
    switch (phase_of(c, round)) {
    case ROW_SCATTER:
        return row_exchange(c, COLLECTIVE_REDUCE_SCATTER, rank, round);
    case COLUMN_REDUCE:
        return column_exchange(c, rank, round - row);
    default:
        return row_exchange(c, COLLECTIVE_ALL_GATHER, rank, round - row - column);
    }
}

static double torus_share(const struct collective *c, int32_t round)
{
    return 1.0 / (phase_of(c, round) == COLUMN_REDUCE ? c->ranks : c->grid.columns);
}

/* Rows are pattern 0; columns come after them, or first where a row is a single rank. */
static int32_t torus_pattern(const struct collective *c, int32_t round)
{
    return phase_of(c, round) == COLUMN_REDUCE && c->grid.columns > 1;
}

static int32_t torus_pattern_count(const struct collective *c)
{
    return (c->grid.columns > 1) + (c->grid.rows > 1);
}

static int32_t torus_pattern_round(const struct collective *c, int32_t pattern)
{
    return pattern == 0 ? 0 : row_rounds(c);
}

const struct collective_ops collective_torus2d = {
    .supports = {true, false, false},
    .rounds = torus_rounds,
    .exchange = torus_exchange,
    .share = torus_share,
    .pattern = torus_pattern,
    .pattern_count = torus_pattern_count,
    .pattern_round = torus_pattern_round,
};
