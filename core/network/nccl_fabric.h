#pragma once

/** @file
 * What the fabric does to the messages of NCCL.  Times are in microseconds, as in NCCL's tables.
 */

#include "core/network/nccl.h"

/** The kind of a hop: inside a node as enum nccl_intra, or between nodes. */
enum { HOP_NETWORK = NCCL_INTRA_COUNT, HOP_COUNT };

/** Microseconds of [ring, tree][LL, LL128, Simple] from a version on (nccl_latencies.csv).  2.4:
 * one figure for a ring of n ranks, 6 us (n-1), which is 2 (n-1) messages; one for trees, 4 us a
 * GPU and 15 us a level of nodes, up and down together. */
extern const struct nccl_latency {
    int32_t version;
    double base[2][NCCL_PROTOCOL_COUNT], hop[HOP_COUNT][2][NCCL_PROTOCOL_COUNT];
} nccl_latencies[];

/** The number of levels that NCCL counts in a tree over @n nodes: log2, rounded down. */
int32_t nccl_levels(int32_t n);

/** The parent of a node in NCCL's binary tree, whose root is node 0; -1: none.  With an even number
 * of nodes the @second tree is the first seen from the other end, else it is shifted by one. */
int32_t nccl_tree_parent(int32_t nodes, int32_t node, bool second);

/* By how much the routes of the fabric take longer than @hop, which NCCL's table has for a hop
 * [us]; 0 where they are no longer. */

/** A hop between neighbours in a node [us]. */
double nccl_more_inside(const struct nccl_world *world, double hop);

/** A hop of a ring through all nodes in their order, on average [us]. */
double nccl_more_of_ring(const struct nccl_world *world, double hop);

/** All hops between the leaves of a tree over the nodes and its root, one way [us]. */
double nccl_more_of_tree(const struct nccl_world *world, double hop);

/** A hop between the nodes that are farthest apart [us]. */
double nccl_more_of_longest(const struct nccl_world *world, double hop);

/** Bytes of the vector per second that the uplinks of one group let through; INFINITY without
 * uplinks.  @turns is 2 for an all-reduce by a ring, else 1. */
double nccl_uplink_rate(const struct nccl_world *world, int32_t turns,
                        enum nccl_algorithm algorithm);
