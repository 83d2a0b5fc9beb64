#pragma once

/** @file
 * A platform laid out for a number of ranks: every directed link, and the route between two ranks.
 *
 * Rank r is device p % devices_per_node of node p / devices_per_node, where p is its place (r, or
 * as fabric_set_order() says).  Only here are ranks mapped to hosts.  A full-duplex cable is two
 * links.  Contention exists only where routes share a link.
 */

#include "core/collective/grid.h"
#include "core/network/nccl.h"
#include "core/network/wiring.h"

enum {
    FABRIC_ROUTE_LIMIT = 2048,  /**< links on one route, at most: half-way round a ring of 4096 */
    FABRIC_TIER_LIMIT = 16,     /**< kinds of link in one fabric, at most */
    FABRIC_NAME_LIMIT = 32,     /**< characters of a tier's name, with the NUL */
    FABRIC_DIMENSION_LIMIT = 3, /**< of a torus */
};

/** One directed link. */
struct link {
    double bandwidth; /**< [bytes/s], in one direction, after protocol efficiency */
    int32_t tier;     /**< index in fabric.tier_name: what kind of link this is */
};

/** The way from one rank to another. */
struct route {
    double latency; /**< [s] of the whole way, with the transport's cost per message */
    int32_t count;
    int32_t link[FABRIC_ROUTE_LIMIT]; /**< (count) in order; distinct; the rest is not set */
};

/** Read freely. */
struct fabric {
    int32_t ranks;
    int32_t devices_per_node;
    int32_t link_count;
    struct link *link;
    int32_t tier_count;
    char tier_name[FABRIC_TIER_LIMIT][FABRIC_NAME_LIMIT]; /**< "nvlink", "nic", "rack uplink" */
    bool chooses;     /**< a route takes one of several uplinks: messages may meet on one while
                           others are idle */
    int32_t nic_tier; /**< of the network cards of a cluster; else 0 */
    struct nccl_world nccl; /**< version 0: the platform does not say what NCCL would know */
    double eager;           /**< messages up to this size [bytes] are handed over at once: a rank
                                 with all its data leaves a collective while its last message is
                                 still on its way; 0: it waits for the arrival */
    bool mesh; /**< each device of a node has a link to each other, and rings use all of them */
    int32_t row_rings, column_rings; /**< of a torus whose devices use all links at once: how many
                                          links the ring of a row, of a column could begin on;
                                          0: a collective is one ring */
    void *layout;                    /**< private to fabric.c */
};

/** One kind of link as it is laid out. */
struct link_kind {
    char name[FABRIC_NAME_LIMIT]; /**< for people: "nvlink" */
    double bandwidth;             /**< [bytes/s], in one direction, after protocol efficiency */
    double latency;               /**< [s] */
};

/** How a message finds its way among the uplinks of a group. */
enum routing {
    ROUTING_IDEAL,  /**< over all of them evenly: they are one pipe */
    ROUTING_STATIC, /**< by destination: its port modulo the uplinks of a switch (D-mod-k).
                         Source: Zahavi, "D-Mod-K Routing Providing Non-Blocking Traffic for Shift
                         Permutations on Real Life Fat Trees", CCIT report 776, Technion 2010 */
    ROUTING_HASHED, /**< by a hash of both ends (ECMP, RFC 2992), a seed and the tier */
    ROUTING_COUNT
};

/** "ideal", "static", "hashed", NULL-terminated. */
extern const char *const routing_names[];

/** Groups of nodes, such as racks, that reach other groups through shared uplinks.  Uplinks of the
 * same number lead to the same switch above, so a route comes down by the number it went up by. */
struct link_group {
    char name[FABRIC_NAME_LIMIT]; /**< "rack" */
    int32_t nodes;                /**< in one group; a multiple of the group below */
    struct link_kind uplink;      /**< one pipe each way: one cable, or several loaded evenly */
    int32_t pipes;                /**< of one switch, of which a route takes one; 0: 1 */
    int32_t rails;                /**< switches side by side in one group; NIC k is on switch k
                                       modulo rails; 0: 1 */
};

/** What fabric_lay_cluster() lays out.  All pointers are borrowed. */
struct cluster_plan {
    int32_t nodes;            /**< to use */
    int32_t devices_per_node; /**< to use, the first ones of each node */
    const struct wiring *wiring;
    const struct link_kind *cable; /**< by cable.kind; together with nic and groups at most
                                        FABRIC_TIER_LIMIT kinds */
    int32_t cable_count;
    struct link_kind nic;           /**< one NIC to its switch, each way */
    const struct link_group *group; /**< (group_count) from the bottom up */
    int32_t group_count;
    enum routing routing;   /**< matters to groups with several pipes; ROUTING_IDEAL has none */
    int64_t routing_seed;   /**< of ROUTING_HASHED */
    const int32_t *place;   /**< (nodes) where in the groups each node stands; NULL: in order */
    double latency_inside;  /**< [s] per message between devices of one node */
    double latency_between; /**< [s] per message between nodes */
};

/** Lay out a cluster.  Within a node every device must reach every other, and between nodes a NIC.
 * Above the highest group everything is one switch without limits.
 * The caller owns the result: fabric_free(). */
struct fabric *fabric_lay_cluster(const struct cluster_plan *plan);

/** Write the size of each of @dimensions to @extent: one has all ranks of @grid, two have its
 * columns and rows, three its columns and its rows as the planes nearest to a square. */
void fabric_torus_extents(struct grid grid, int32_t dimensions, int32_t *extent);

/** Lay out a ring (one @dimension: rank order) or a torus (two: along rows, along columns; three)
 * on @grid.  Each rank has a link to the next and to the previous rank of each dimension, of
 * kind[dimension].  Routes go along the row first, then along the column, in the shorter direction,
 * forwards when both are equal.  No route may be longer than FABRIC_ROUTE_LIMIT. The caller owns
 * the result: fabric_free(). */
struct fabric *fabric_lay_torus(struct grid grid, int32_t dimensions, const struct link_kind *kind,
                                double latency);

/** Whether each link has a tier and carries bytes, and each rank reaches the next over links there
 * are, none twice.  For assert(). */
bool fabric_check(const struct fabric *fabric);

/** Place the ranks of a cluster on @grid by @order; all ranks of @grid must be in the fabric. */
void fabric_set_order(struct fabric *fabric, struct grid grid, enum rank_order order);

/** Write the route from rank @from to another rank @to, which always exists, to @route. */
void fabric_route(const struct fabric *fabric, int32_t from, int32_t to, struct route *route);

/** How many rings of the ranks along @axis run beside each other, each over links of its own: in a
 * node with a mesh as many directed Hamiltonian cycles as share no link; else 1.  Source: Tillson,
 * "A Hamiltonian decomposition of K*2m, 2m >= 8", J. Combinatorial Theory B 29, 1980. */
int32_t fabric_rings(const struct fabric *fabric, struct grid grid, enum axis axis);

/** The narrowest link of a route [bytes/s]. */
double fabric_route_bandwidth(const struct fabric *fabric, const struct route *route);

/** A name for a link, unique in the fabric: "node3.gpu0-gpu1", "node3.nic0.up", "rack2.down",
 * "rack2.up7" where there are several, "rank5.row.next", "rank5.column.previous"; owned. */
char *fabric_link_name(const struct fabric *fabric, int32_t link);

void fabric_free(struct fabric *fabric);
