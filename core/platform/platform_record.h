#pragma once

/** @file
 * The content of a platform file, shared only by the sources of core/platform/platform.h.
 *
 * Rows of a shape other than the platform's own stay zero.
 */

#include "core/network/nccl.h"
#include "core/network/wiring.h"
#include "core/platform/platform.h"

/** What a platform looks like. */
enum platform_kind { PLATFORM_CLUSTER, PLATFORM_TORUS, PLATFORM_RING, PLATFORM_KIND_COUNT };

/** "cluster", "torus", "ring", NULL-terminated. */
extern const char *const platform_kind_names[];

/** One kind of link: the numbers of one direction of one cable. */
struct link_record {
    char *name;                 /**< in lists; else NULL */
    struct quantity bandwidth;  /**< [bytes/s] */
    struct quantity efficiency; /**< fraction of the bandwidth that payload gets */
    struct quantity latency;    /**< [s] */
};

/** Cables of one kind inside a node. */
struct edge_record {
    char *link;                   /**< the name of a kind of link */
    struct field_list connect;    /**< char *: "gpu0-switch0" */
    struct field_list all_to_all; /**< char *: "gpu0" */
};

/** Groups of nodes with uplinks. */
struct tier_record {
    char *name;
    int64_t nodes;   /**< in one group */
    int64_t uplinks; /**< of one group */
    int64_t rails; /**< switches side by side in one group, of which each has a part of the uplinks
                        and the cards of one number */
    struct link_record uplink;
};

/** Which nodes of a cluster a job gets. */
enum placement { PLACEMENT_CONTIGUOUS, PLACEMENT_SCATTERED, PLACEMENT_COUNT };

/** "contiguous", "scattered", NULL-terminated. */
extern const char *const placement_names[];

/** A platform file, its device, and the inside of its nodes. */
struct platform {
    char *file; /**< where it was read from */
    int64_t version;
    char *name;
    char *description;
    int32_t kind; /**< enum platform_kind */
    char *device_name;
    int64_t nodes;
    int64_t described_nodes,
        described_cards; /**< where there are more now, or fewer cards; else 0 */
    struct {
        int64_t count[VERTEX_KIND_COUNT];
        struct field_list links;    /**< struct link_record */
        struct field_list edges;    /**< struct edge_record */
        struct quantity contention; /**< see platform_contention() */
        int64_t cores;              /**< 0: one for each device */
        struct quantity mtbf;       /**< see platform_mtbf() */
    } node;
    struct quantity network_mtbf; /**< see platform_mtbf() */
    int32_t fabric;               /**< enum fabric_kind */
    struct link_record nic;
    struct field_list tiers; /**< struct tier_record, from the bottom up */
    int32_t routing;         /**< enum routing */
    int64_t routing_seed;
    int32_t placement; /**< enum placement */
    int64_t placement_seed;
    struct {
        struct quantity inside, between; /**< [s] per message */
        struct quantity eager;           /**< [bytes] see struct fabric */
        int32_t payload;                 /**< see platform_payload() */
    } transport;
    struct link_record row, column, depth; /**< of a torus; depth 0: it has two dimensions */
    struct link_record ring;
    struct {
        int32_t intra;                   /**< enum nccl_intra */
        int64_t channels;                /**< 0: the file has no such section */
        struct quantity intra_bandwidth; /**< [bytes/s] */
        bool sharp;
        int64_t version;               /**< that was measured; 0: none */
        int64_t measured_nodes;        /**< 0: nothing was measured */
        struct field_list corrections; /**< struct nccl_correction */
    } nccl;
    struct device device;
    struct wiring wiring;
};

/** Whether what leaves a group loads its uplinks evenly, and the job's nodes are in order. */
bool platform_is_even(const struct platform *platform);

/** NCCL's view of the platform laid out as @fabric; version 0: the file has no section `nccl`. */
struct nccl_world platform_nccl(const struct platform *platform, const struct fabric *fabric);

/** Check beyond single rows: missing or useless keys for the shape, names, cables, tiers.  Builds
 * platform->wiring, and completes transport.payload.  All faults are reported, each at its place
 * below @root.
 * @return 0, or -1. */
int platform_check(struct platform *platform, const struct node *root, struct err *err);

/** The file of platform @name; a path when it has a slash or ends in .yaml.  The caller frees it.
 * @return the path, or NULL: no such name (exit code 66, with those that are near). */
char *platform_find(const char *name, struct err *err);

/** The file of device @name, or a path relative to the platform's file.  The caller frees it.
 * @origin is where the platform names it, or NULL when none does.
 * @return the path, or NULL with a message at @origin that names those that are near. */
char *platform_find_device(const char *name, const struct origin *origin, struct err *err);
