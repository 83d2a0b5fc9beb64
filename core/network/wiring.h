#pragma once

/** @file
 * The inside of a node: devices, switches, CPUs and NICs joined by full-duplex cables.
 *
 * Vertices are numbered devices first, then switches, CPUs and NICs, and are called "gpu0",
 * "switch1", "cpu0", "nic1".  Cable c is two directed links: 2 * c from its first end to its
 * second, 2 * c + 1 back.  A path uses the fewest cables; among equals, those that come first.
 * Devices and NICs do not forward messages of others.
 */

#include "core/base/base.h"

/** What a vertex is. */
enum vertex_kind { VERTEX_DEVICE, VERTEX_SWITCH, VERTEX_CPU, VERTEX_NIC, VERTEX_KIND_COUNT };

/** A full-duplex connection of two vertices. */
struct cable {
    int32_t end[2];
    int32_t kind; /**< an index of the owner: which of its kinds of link this is */
};

/** Start from {0}, set `count`, add cables; release with wiring_release(). */
struct wiring {
    int32_t count[VERTEX_KIND_COUNT]; /**< vertices of each kind */
    struct cable *cable;              /**< in order of the file */
    int32_t cable_count;
};

/** How many vertices there are. */
int32_t wiring_vertices(const struct wiring *wiring);

/** The number of the first vertex of @kind. */
int32_t wiring_first(const struct wiring *wiring, enum vertex_kind kind);

/** The vertex called @name, or -1. */
int32_t wiring_find(const struct wiring *wiring, const char *name);

/** Append the name of @vertex. */
void wiring_print_vertex(struct text *out, const struct wiring *wiring, int32_t vertex);

/** Append a cable. */
void wiring_add(struct wiring *wiring, int32_t a, int32_t b, int32_t kind);

/** The directed links from vertex @from to @to into @path, which has room for wiring_vertices().
 * @return how many (0 when @from is @to), or -1: there is no path. */
int32_t wiring_path(const struct wiring *wiring, int32_t from, int32_t to, int32_t *path);

/** Find the paths from vertex @from: arrived[v] becomes the directed link into v, or -1. */
void wiring_explore(const struct wiring *wiring, int32_t from, int32_t *arrived);

/** wiring_path() by what wiring_explore() found from the same vertex. */
int32_t wiring_follow(const struct wiring *wiring, const int32_t *arrived, int32_t from, int32_t to,
                      int32_t *path);

/** The NIC index of each device into @nic (devices): the fewest cables away, among equals the one
 * with the fewest devices so far, then the lowest; -1 when none can be reached. */
void wiring_assign_nics(const struct wiring *wiring, int32_t *nic);

/** Release the cables. */
void wiring_release(struct wiring *wiring);
