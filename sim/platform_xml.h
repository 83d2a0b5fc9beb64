#pragma once

/** @file
 * The platform SimGrid sees: one host per class and relation, and the routes that are used.
 *
 * A host stands for a class of ranks in one relation, so the route between two hosts is unique even
 * when one class sends to itself, or to another in two ways.  The hosts of a relation that really
 * talk form chains or cycles; a zone has one that is long, or several that are short, which keeps
 * both SimGrid's tables of routes (quadratic in the hosts of a zone) and its searches (quadratic in
 * the zones) small.
 *
 * Relations whose messages all go the way of messages of another, as the first rounds of a tree go
 * that of later ones, use the hosts of that one.
 *
 * A link that k flows of one class cross stands k times in the class's route: the one flow of the
 * folded platform then weighs as much as the k flows it stands for.  Links have no latency: the
 * actors pay it (see lane.h).
 */

#include "core/base/base.h"
#include "sim/fold.h"

/** Simulated bytes per byte.  SimGrid counts whole bytes; scaled sizes and bandwidths keep
 * fractions of a byte (a block is bytes / ranks), and times are unchanged. */
#define PLATFORM_BYTE_SCALE 1048576.0

/** The host where actors start. */
#define PLATFORM_HOME "home"

/** Append the SimGrid platform of @traffic folded by @fold. */
void platform_xml_print(struct text *out, const struct traffic *traffic, const struct fold *fold);

/** The relation (relations) whose hosts each relation uses, itself where there is no larger one.
 * The caller frees it. */
int32_t *platform_hosts(const struct traffic *traffic, const struct fold *fold);

/** The name of a class's host in a @relation that uses its own.  The caller frees it. */
char *platform_host_name(const struct fold *fold, int32_t relation, int32_t class);
