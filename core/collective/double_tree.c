/* Two binary trees with half the vector each: an inner node of one is a leaf of the other, so all
 * ranks have equal work.  Source: Sanders, Speck and Traeff, "Two-tree algorithms for full
 * bandwidth broadcast, reduction and scan", Parallel Computing 2009.
 *
 * Nodes are labelled 1 ... p, p even.  The first tree is in order (odd labels are leaves); the
 * second is the first under the reflection x -> p + 1 - x.  All functions below are about the first
 * tree; a node of the second is named by its reflected label.  With an odd number of ranks, rank 0
 * is the parent of both roots.
 *
 * An edge is used in rounds of one parity, its colour, so that no node sends or receives twice in a
 * round: the edges from a node to its two parents differ in colour, and so do those from its two
 * children.  Each half is sent in chunks, one pair of rounds apart. */

#include "core/collective/ops.h"

enum tree { FIRST, SECOND };

static int32_t nodes(const struct collective *c)
{
    return c->ranks & ~1;
}

static int32_t node_of(const struct collective *c, enum tree tree, int32_t rank)
{
    int32_t label = rank + 1 - c->ranks % 2;
    return tree == FIRST ? label : nodes(c) + 1 - label;
}

static int32_t rank_of(const struct collective *c, enum tree tree, int32_t node)
{
    int32_t label = tree == FIRST ? node : nodes(c) + 1 - node;
    return label - 1 + c->ranks % 2;
}

static int32_t lowest_bit(int32_t node)
{
    return node & -node;
}

/* 0 for the root. */
static int32_t parent(int32_t p, int32_t node)
{
    int32_t bit = lowest_bit(node);
    return node & 2 * bit || node + bit > p ? node - bit : node + bit;
}

/* 0 where there is none. */
static int32_t right_child(int32_t p, int32_t node)
{
    int32_t bit = lowest_bit(node) / 2;
    while (bit > 0 && node + bit > p)
        bit /= 2;
    return bit > 0 ? node + bit : 0;
}

static int32_t root(int32_t p)
{
    return 1 << (log2_ceiling(p + 1) - 1);
}

static int32_t ones(int32_t bits)
{
    return __builtin_popcount((uint32_t)bits);
}

/* The number of times that parent() goes to a larger label on the way from @node to the root.
 *
 * The ancestors of a node have its leading bits down to some bit above its lowest one, a one there
 * and zeros below, as far as that is at most @p.  Where the node itself has a one there, the
 * ancestor is smaller than the node; where it has a zero, the ancestor is larger, and at most @p if
 * and only if @p and the node differ in that bit or a higher one. */
static int32_t larger_ancestors(int32_t p, int32_t node)
{
    int32_t below = 2 * lowest_bit(node) - 1, differing = node ^ p;
    if (differing <= below)
        return 0;
    int32_t highest = 1 << (31 - __builtin_clz((uint32_t)differing));
    return ones((2 * highest - 1) & ~below & ~node);
}

/* Steps of parent() from @node to the root: smaller ancestors and larger ones. */
static int32_t ancestors(int32_t p, int32_t node)
{
    return ones(node) - 1 + larger_ancestors(p, node);
}

/* The colour of the edge above @node.  Leaves take the colour of their reflection, an inner node;
 * going down, the colour flips to the left, and at every step if p / 2 is odd. */
static int32_t colour(const struct collective *c, enum tree tree, int32_t node)
{
    int32_t p = nodes(c);
    if (node % 2)
        node = p + 1 - node;
    return ((tree == SECOND) + p / 2 * ancestors(p, node) + larger_ancestors(p, node)) % 2;
}

/* The deepest node is 1, below all powers of two. */
static int32_t height(const struct collective *c)
{
    return log2_ceiling(nodes(c) + 1) - 1 + c->ranks % 2;
}

/* The message over the edge above @node in @round, if any, labelled with the rank @peer. */
static struct message edge_message(const struct collective *c, enum tree tree, int32_t node,
                                   int32_t round, int32_t peer)
{
    if (colour(c, tree, node) != round % 2)
        return MESSAGE_NONE;
    int32_t depth = ancestors(nodes(c), node) + c->ranks % 2; /* edges to the end of the tree */
    int32_t chunk = round / 2 - (height(c) - depth);
    if (chunk < 0 || chunk >= DOUBLE_TREE_CHUNKS)
        return MESSAGE_NONE;
    int32_t block = (tree == SECOND) * DOUBLE_TREE_CHUNKS + chunk, blocks = 2 * DOUBLE_TREE_CHUNKS;
    return message_range(peer, block_offset(c->elements, blocks, block),
                         block_offset(c->elements, blocks, block + 1), true);
}

static bool is_top(const struct collective *c, int32_t rank)
{
    return c->ranks % 2 && rank == 0;
}

static struct message send_up(const struct collective *c, enum tree tree, int32_t rank,
                              int32_t round)
{
    int32_t node = node_of(c, tree, rank), above = parent(nodes(c), node);
    if (above == 0 && c->ranks % 2 == 0)
        return MESSAGE_NONE;
    return edge_message(c, tree, node, round, above > 0 ? rank_of(c, tree, above) : 0);
}

static struct message receive_from(const struct collective *c, enum tree tree, int32_t child,
                                   int32_t round)
{
    return child ? edge_message(c, tree, child, round, rank_of(c, tree, child)) : MESSAGE_NONE;
}

/* The message that is there, if any. */
static struct message either(struct message a, struct message b)
{
    return a.peer >= 0 ? a : b;
}

static struct message receive_below(const struct collective *c, int32_t rank, int32_t round)
{
    int32_t p = nodes(c);
    if (is_top(c, rank))
        return either(receive_from(c, FIRST, root(p), round),
                      receive_from(c, SECOND, root(p), round));
    enum tree tree = node_of(c, FIRST, rank) % 2 ? SECOND : FIRST;
    int32_t node = node_of(c, tree, rank);
    return either(receive_from(c, tree, node - lowest_bit(node) / 2, round),
                  receive_from(c, tree, right_child(p, node), round));
}

static int32_t reduce_rounds(const struct collective *c)
{
    return 2 * (height(c) + DOUBLE_TREE_CHUNKS - 1);
}

static int32_t double_tree_rounds(const struct collective *c)
{
    return 2 * reduce_rounds(c);
}

static struct exchange double_tree_exchange(const struct collective *c, int32_t rank, int32_t round)
{
    bool down = round >= reduce_rounds(c);
    if (down)
        round = double_tree_rounds(c) - 1 - round;
    struct exchange exchange = {.send = MESSAGE_NONE, .receive = receive_below(c, rank, round)};
    if (!is_top(c, rank))
        exchange.send = either(send_up(c, FIRST, rank, round), send_up(c, SECOND, rank, round));
    return down ? exchange_reversed(exchange) : exchange;
}

static double double_tree_share(const struct collective *c, int32_t round)
{
    return 0.5 / DOUBLE_TREE_CHUNKS;
}

const struct collective_ops collective_double_tree = {
    .supports = {true, false, false},
    .rounds = double_tree_rounds,
    .exchange = double_tree_exchange,
    .share = double_tree_share,
};
