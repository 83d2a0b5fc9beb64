#include "core/traffic/fold.h"

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
    OWN(fabric) *fabric = ideal_torus(grid);
    OWN(fold) *fold = folded(fabric, grid);
    assert_int_equal(fold->count, 1);
    assert_int_equal(fold->size[0], 35);
}

TEST(one_slow_link_tells_all_ranks_apart)
{
    struct grid grid = {.columns = 7, .rows = 5};
    OWN(fabric) *fabric = ideal_torus(grid);
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

/* Latencies are rounded up to the slowest route of the relation, so a step may come out late; lanes
 * that run apart on different ranks may fill a link that neither fills alone, so it may come out
 * early.  Measured on the shapes below, where communication is more than half of the step: with
 * hops of 3 us -0.64 % to +0.32 %, with hops of 10 us, where more of the step is latency and rows
 * and columns meet at other moments, -1.16 % to +1.10 %. */
static const struct {
    const char *change;
    double tolerance;
} hops[] = {{"platform.transport.between=3us", 0.01}, {"platform.transport.between=10us", 0.012}};

static double seconds(const struct fabric *fabric, const struct schedule *schedule,
                      enum grain grain)
{
    struct run run = world_run(fabric, grain);
    run.traced_ranks = 1;
    return simulated_seconds(&run, schedule);
}

TEST(is_close_to_full_where_racks_do_not_tile_the_grid)
{
    static const struct {
        const char *platform;
        struct grid grid;
    } shape[] = {
        {"abci", {.columns = 34, .rows = 8}},  {"abci", {.columns = 32, .rows = 10}},
        {"abci", {.columns = 48, .rows = 7}},  {"abci", {.columns = 4, .rows = 70}},
        {"abci", {.columns = 10, .rows = 40}}, {"abci", {.columns = 24, .rows = 12}},
        {"abci", {.columns = 68, .rows = 6}},  {"generic-fat-tree", {.columns = 24, .rows = 12}},
    };
    size_t shapes = sizeof(shape) / sizeof(*shape);
    for (size_t k = 0; k < 2 * shapes; k += WORLD_EVERY) {
        size_t i = k % shapes;
        struct grid grid = shape[i].grid;
        OWN(fabric) *fabric =
            world_platform(shape[i].platform, hops[k / shapes].change, grid_ranks(grid), grid);
        OWN(schedule) *schedule = world_step(grid, ALGORITHM_TORUS2D, 3, 50000000);
        double full = seconds(fabric, schedule, GRAIN_FULL);
        double smoothed = seconds(fabric, schedule, GRAIN_SMOOTHED);
        print_message("%s %d x %d: full %.6g s, smoothed %+.3f %%\n", shape[i].platform,
                      grid.columns, grid.rows, full, 100 * (smoothed / full - 1));
        assert_relative(smoothed, full, hops[k / shapes].tolerance);
    }
}

/* 16 nodes of 4 in racks of 2, columns across racks: the uplink is what everybody waits for. */
TEST(keeps_the_link_that_everybody_waits_for)
{
    struct grid grid = {.columns = 8, .rows = 8};
    OWN(fabric) *fabric = world_cluster(64, 4, 2, 5e9);
    OWN(schedule) *schedule = schedule_new(grid);
    add_ring(schedule, COLLECTIVE_ALL_REDUCE, AXIS_COLUMN, 100000000);
    double full = seconds(fabric, sealed(schedule), GRAIN_FULL);
    assert_relative(seconds(fabric, schedule, GRAIN_SMOOTHED), full, 1e-9);
    /* Eight columns send over one uplink at once. */
    assert_true(full > 8 * 2 * 7 / 8.0 * 1e8 / 5e9);
}

TEST(leaves_out_wide_uplinks_only)
{
    struct grid grid = {.columns = 8, .rows = 8};
    OWN(schedule) *schedule = schedule_new(grid);
    add_ring(schedule, COLLECTIVE_ALL_REDUCE, AXIS_COLUMN, 1000);
    sealed(schedule);
    for (int wide = 0; wide < 2; wide++) {
        /* Two NICs of 10 GB/s feed each uplink. */
        OWN(fabric) *fabric = world_cluster(64, 4, 2, wide ? 20.1e9 : 19.9e9);
        OWN(traffic) *traffic = traffic_build(fabric, schedule);
        int32_t nics_and_uplinks = traffic->relation[0].path[1];
        int32_t out = traffic_smooth(traffic);
        assert_true(nics_and_uplinks > 2);
        if (wide) /* an uplink and a downlink of each of the 8 racks, and the device links */
            assert_int_equal(traffic->relation[0].path[1], 2);
        else
            assert_true(traffic->relation[0].path[1] >= 4);
        assert_true(out > 0);
    }
}

TEST(smoothing_makes_ranks_alike)
{
    struct grid grid = {.columns = 32, .rows = 32};
    OWN(fabric) *fabric = world_platform("abci", NULL, 1024, grid);
    OWN(schedule) *schedule = world_step(grid, ALGORITHM_TORUS2D, 1, 4194304);
    struct run run = world_run(fabric, GRAIN_SMOOTHED);
    run.traced_ranks = 1;
    HELD(trace) trace = simulate(&run, schedule);
    assert_int_equal(trace.entities, 4);
    assert_string_equal(trace.grain, "smoothed");
}
