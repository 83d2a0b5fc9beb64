#include "core/traffic/fold.h"

#include <stdio.h>

#include "tests/core/own.h"
#include "tests/sim/world.h"
#include "tests/test.h"

OWNED(fold, fold_free)
OWNED(traffic, traffic_free)

/* --- folded = full --- */

/* Returns how many classes there were. */
static int32_t assert_same_digits(const struct fabric *fabric, const struct schedule *schedule)
{
    struct run run = world_run(fabric, GRAIN_FOLDED);
    run.traced_ranks = 1;
    run.iterations = 2;
    HELD(trace) folded = simulate(&run, schedule);
    run.grain = GRAIN_FULL;
    HELD(trace) full = simulate(&run, schedule);
    for (int32_t i = 0; i < 2; i++) {
        char a[32], b[32];
        snprintf(a, sizeof(a), "%.12g", folded.iteration_end[i]);
        snprintf(b, sizeof(b), "%.12g", full.iteration_end[i]);
        assert_string_equal(a, b);
    }
    assert_int_equal(full.entities, fabric->ranks);
    return folded.entities;
}

/* Racks of 34 nodes hold 136 GPUs, so all of these send between racks.  Under static routes few
 * ranks have the same neighbours on their uplinks. */
TEST(folded_equals_full_on_abci)
{
    static const struct {
        const char *platform;
        struct grid grid;
        int32_t classes;
    } shapes[] = {
        {"abci", {.columns = 34, .rows = 8}, 136},
        {"abci", {.columns = 68, .rows = 4}, 8},
        {"abci", {.columns = 136, .rows = 2}, 4},
        {"abci", {.columns = 4, .rows = 68}, 34},
        {"abci", {.columns = 17, .rows = 16}, 136},
        {"abci", {.columns = 8, .rows = 34}, 68},
        {"abci", {.columns = 136, .rows = 3}, 4},
        {"abci", {.columns = 12, .rows = 24}, 288},
        {"abci-routes", {.columns = 68, .rows = 4}, 136},
        {"abci-routes", {.columns = 136, .rows = 2}, 136},
        {"abci-routes", {.columns = 34, .rows = 8}, 272},
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i += WORLD_EVERY) {
        struct grid grid = shapes[i].grid;
        OWN(fabric) *fabric = world_platform(shapes[i].platform, NULL, grid_ranks(grid), grid);
        OWN(schedule) *schedule = world_step(grid, ALGORITHM_TORUS2D, 2, 50000000);
        assert_int_equal(assert_same_digits(fabric, schedule), shapes[i].classes);
    }
}

/* Small racks, an uplink of 0.3 of what they could send.  Trees and halving-doubling among 48 ranks
 * treat them too differently to be folded much. */
TEST(folded_equals_full_for_every_algorithm)
{
    struct grid grid = {.columns = 8, .rows = 6};
    OWN(fabric) *fabric = world_cluster(48, 4, 3, 9e9);
    for (enum algorithm a = 0; a < ALGORITHM_NCCL; a++) {
        OWN(schedule) *schedule = world_step(grid, a, 2, 10000000);
        int32_t classes = assert_same_digits(fabric, schedule);
        if (a == ALGORITHM_RING || a == ALGORITHM_TORUS2D || a == ALGORITHM_HIERARCHICAL)
            assert_true(classes < 48);
    }
}

/* --- classes --- */

static struct fold *folded(const struct fabric *fabric, struct grid grid)
{
    OWN(schedule) *schedule = world_step(grid, ALGORITHM_TORUS2D, 1, 1000);
    OWN(traffic) *traffic = traffic_build(fabric, schedule);
    return fold_build(traffic);
}

TEST(all_ranks_of_a_torus_are_alike)
{
    struct grid grid = {.columns = 7, .rows = 5};
    OWN(fabric) *fabric = world_torus(grid);
    OWN(fold) *fold = folded(fabric, grid);
    assert_int_equal(fold->count, 1);
    assert_int_equal(fold->size[0], 35);
}

TEST(one_slow_link_tells_all_ranks_apart)
{
    struct grid grid = {.columns = 7, .rows = 5};
    OWN(fabric) *fabric = world_torus(grid);
    struct route route;
    fabric_route(fabric, 8, 9, &route);
    fabric->link[route.link[0]].bandwidth /= 2;
    OWN(fold) *fold = folded(fabric, grid);
    assert_int_equal(fold->count, 35);
}

TEST(devices_of_one_node_are_told_apart_by_their_neighbours)
{
    struct grid grid = {.columns = 4, .rows = 4};
    OWN(fabric) *fabric = world_cluster(16, 4, 1, 10e9);
    OWN(fold) *fold = folded(fabric, grid);
    for (int32_t r = 0; r < 16; r++)
        assert_int_equal(fold->class_of[r], 0);
}
