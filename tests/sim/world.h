#pragma once

/** @file
 * Small worlds for the tests of the simulator.  SimGrid runs once per process, so each simulation
 * runs in a child.
 */

#include "core/backend/backend.h"
#include "tests/assert.h"

/** Of a list of large worlds every so manyth is simulated, and a torus has so many times fewer
 * columns: under the address sanitizer a message costs twenty times as much. */
#ifdef __SANITIZE_ADDRESS__
enum { WORLD_EVERY = 4 };
#else
enum { WORLD_EVERY = 1 };
#endif

/** The trace of @schedule, simulated in a child; the test fails when that does. */
struct trace simulate(const struct run *run, const struct schedule *schedule);

/** The end of the last iteration of simulate() [s]. */
double simulated_seconds(const struct run *run, const struct schedule *schedule);

/** The same in closed form. */
double analytic_seconds(const struct run *run, const struct schedule *schedule);

/** The network of platforms/NAME.yaml for @ranks ranks. */
struct fabric *world_platform(const char *name, const char *change, int32_t ranks,
                              struct grid grid);

/** Nodes of @devices devices on a switch of 50 GB/s with one NIC of 10 GB/s, racks of @nodes nodes
 * with an uplink of @uplink [bytes/s]; 1 us inside a node, 2 us between nodes, and 2 * 3 us more
 * between racks. */
struct fabric *world_cluster(int32_t ranks, int32_t devices, int32_t nodes, double uplink);

/** A run on @fabric at @grain, one iteration, all ranks traced. */
struct run world_run(const struct fabric *fabric, enum grain grain);

/** Append a collective by ring that waits for nothing.  @return its id. */
int32_t add_ring(struct schedule *schedule, enum collective_op op, enum axis axis, int64_t bytes);

/** @buckets all-reduces of @bytes together, each after 1 ms more of compute; then an optimizer step
 * of 1 ms that waits for all of them.  Sealed. */
struct schedule *world_step(struct grid grid, enum algorithm algorithm, int32_t buckets,
                            int64_t bytes);
