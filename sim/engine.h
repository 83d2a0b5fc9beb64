#pragma once

/** @file
 * SimGrid's one engine of this process: its settings, its platform and its hosts.
 */

#include <simgrid/host.h>

#include "core/base/err.h"
#include "core/traffic/traffic.h"

/** Start SimGrid with the platform of @traffic.  Once per process; SimGrid aborts
 * the process if it refuses the platform.  @return 0, or -1: the platform cannot be passed to
 * SimGrid (exit codes 71, 74). */
int engine_start(const struct traffic *traffic, struct err *err);

/** All hosts by name.  sg_host_by_name() searches one zone after the other, and there may be as
 * many zones as hosts. */
struct directory {
    sg_host_t *host; /**< (count) in the order of their names; owned */
    size_t count;
};

/** Those of the platform that is loaded. */
struct directory directory_new(void);

/** The host called @name, which there must be. */
sg_host_t directory_find(const struct directory *directory, const char *name);

void directory_release(struct directory *directory);
