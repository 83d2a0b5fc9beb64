#include "tests/sim/world.h"

#include "tests/core/own.h"
#include "tests/test.h"

/* A sharded optimizer: gathers, 1 ms forward after each, 1 ms backward before each bucket. */
static struct schedule *sharded_step(struct grid grid, enum algorithm algorithm, int32_t buckets,
                                     int64_t bytes)
{
    struct schedule *schedule = schedule_new(grid);
    int32_t last = -1, optimizer = 4 * buckets + 1 +
                                   (algorithm == ALGORITHM_TORUS2D && grid.rows > 1) * buckets + 1;
    for (int32_t i = 0; i < buckets; i++)
        schedule_add_all_gather(schedule, algorithm, buckets - 1 - i, bytes / buckets,
                                (struct dep){optimizer, 1});
    for (int32_t i = 0; i < buckets; i++)
        add_compute(schedule, 1e-3, i);
    for (int32_t i = 0; i < buckets; i++)
        last = schedule_add_reduce_scatter(schedule, algorithm, i, bytes / buckets,
                                           add_compute(schedule, 1e-3, -1), last);
    last = schedule_add_norms(schedule, CONTENT_NORMS, algorithm, buckets - 1, 4,
                              add_compute(schedule, 1e-3, last));
    assert_int_equal(add_compute(schedule, 1e-3, last), optimizer);
    return sealed(schedule);
}

/* Two ranks in a ring of 25 GB/s and 5 us: each half goes once there and once back, and so do two
 * halves of the norms. */
TEST(a_sharded_step_takes_its_closed_form)
{
    OWN(fabric) *fabric = ideal_torus(grid_of(2, 1));
    OWN(schedule) *schedule = sharded_step(grid_of(2, 1), ALGORITHM_RING, 1, 100000000);
    struct run run = world_run(fabric, GRAIN_FULL);
    double half = 5e-6 + 50e6 / 25e9, norms = 2 * (5e-6 + 2 / 25e9);
    run.iterations = 3;
    assert_relative(simulated_seconds(&run, schedule), 3 * (2 * half + norms + 4e-3), 1e-9);
}

/* But for the four bytes of norms, which share links. */
TEST(every_grain_says_the_same_of_shards)
{
    static const int64_t bytes[] = {1000003, 400000000}; /* bound by compute, by communication */
    for (int i = 0; i < 4; i++) {
        enum algorithm algorithm = i < 2 ? ALGORITHM_RING : ALGORITHM_TORUS2D;
        struct grid grid = i < 2 ? grid_of(8, 1) : grid_of(4, 4);
        OWN(fabric) *fabric = ideal_torus(grid);
        OWN(schedule) *schedule = sharded_step(grid, algorithm, 4, bytes[i % 2]);
        for (enum grain grain = GRAIN_AUTO; grain < GRAIN_COUNT; grain++) {
            struct run run = world_run(fabric, grain);
            run.iterations = 3;
            assert_relative(simulated_seconds(&run, schedule), analytic_seconds(&run, schedule),
                            1e-7);
        }
    }
}
