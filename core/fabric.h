#pragma once

/** @file
 * A platform laid out for a number of ranks: every directed link, and the route between two ranks.
 *
 * Rank r is device r % devices_per_node of node r / devices_per_node: the one place where ranks
 * meet hosts.  A full-duplex cable is two links.  Contention exists only where routes share a link.
 */

#include <stdint.h>

#include "core/grid.h"

enum {
    FABRIC_ROUTE_LIMIT = 512, /**< links on one route, at most */
    FABRIC_TIER_LIMIT = 16,  /**< kinds of link in one fabric, at most */
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
    int32_t link[FABRIC_ROUTE_LIMIT]; /**< in order; distinct */
};

/** Read freely. */
struct fabric {
    int32_t ranks;
    int32_t devices_per_node;
    int32_t link_count;
    struct link *link;
    int32_t tier_count;
    char tier_name[FABRIC_TIER_LIMIT][32]; /**< "nvlink", "nic", "rack uplink", for people */
    void *layout; /**< private to fabric.c */
};

/** The route from rank @from to another rank @to.  Always exists. */
struct route fabric_route(const struct fabric *fabric, int32_t from, int32_t to);

/** The narrowest link of a route [bytes/s]. */
double fabric_route_bandwidth(const struct fabric *fabric, const struct route *route);

/** A name for a link, unique in the fabric: "node3.gpu0-gpu1", "rack2.up".  The caller frees it. */
char *fabric_link_name(const struct fabric *fabric, int32_t link);

/** Release; accepts NULL. */
void fabric_free(struct fabric *fabric);
