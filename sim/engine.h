#pragma once

/** @file
 * SimGrid's one engine of this process: its settings, its platform and its hosts.
 */

#include <simgrid/host.h>

#include "core/traffic/traffic.h"

/* The platform SimGrid sees: one host per class and relation, and the routes that are used.
 *
 * A host represents a class of ranks in one relation, so the route between two hosts is unique even
 * when one class sends to itself, or to another in two ways.  The communicating hosts of a relation
 * form chains or cycles; a zone has one long one, or several short ones, which keeps both SimGrid's
 * tables of routes (quadratic in the hosts of a zone) and its searches (quadratic in the zones)
 * small.
 *
 * A relation whose messages all have routes of another relation, such as the first rounds of a
 * tree, uses the hosts of that one.
 *
 * A link that occurs k times in a route weighs as k flows (core/traffic/fold.h).  Links have no
 * latency: the actors add it (see lane.h). */

/** Simulated bytes per byte.  SimGrid counts whole bytes; scaled sizes and bandwidths keep
 * fractions of a byte (a block is bytes / ranks), and times are unchanged. */
#define PLATFORM_BYTE_SCALE 1048576.0

/** The host where actors start. */
#define PLATFORM_HOME "home"

/** Append the SimGrid platform of @traffic, whose ranks are classes. */
void platform_xml_print(struct text *out, const struct traffic *traffic);

/** The relation (relations) whose hosts each relation uses: itself if there is no larger one.  The
 * caller frees it. */
int32_t *platform_hosts(const struct traffic *traffic);

/** The name of a class's host in a @relation that uses its own.  The caller frees it. */
char *platform_host_name(int32_t relation, int32_t class);

/** Start SimGrid with the platform of @traffic.  Once per process; SimGrid aborts
 * the process if it refuses the platform.  @return 0, or -1: the platform cannot be passed to
 * SimGrid (exit codes 71, 74). */
int engine_start(const struct traffic *traffic, struct err *err);

/** All hosts by name.  sg_host_by_name() searches zone after zone, maybe one for each host. */
struct directory {
    sg_host_t *host; /**< (count) in the order of their names; owned */
    size_t count;
};

/** Those of the platform that is loaded. */
struct directory directory_new(void);

/** The host called @name, which there must be. */
sg_host_t directory_find(const struct directory *directory, const char *name);

void directory_release(struct directory *directory);
