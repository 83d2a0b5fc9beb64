#pragma once

/** @file
 * The platform SimGrid sees: one host per class and relation, and the routes that are used.
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
 * latency: the actors add it (see lane.h).
 */

#include "core/base/base.h"
#include "core/traffic/traffic.h"

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
