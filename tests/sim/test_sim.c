#include "core/backend/analytic.h"
#include "core/backend/steady.h"
#include "sim/sim.h"

#include "tests/core/own.h"
#include "tests/sim/world.h"
#include "tests/test.h"

/* Blocks are whole 2^-20 bytes in SimGrid, and times are sums of up to 8190 rounded terms: both
 * stay far below this. */
static const double rounding = 1e-9;

/* --- closed forms --- */

TEST(an_overlapped_step_takes_what_other_simulators_say)
{
    for (size_t i = 0; i < ARRAY_SIZE(overlapped_resnet_s); i += WORLD_EVERY) {
        int32_t k = (int32_t)overlapped_resnet_s[i][0];
        double expected = overlapped_resnet_s[i][1];
        OWN(fabric) *fabric = ideal_torus(grid_of(k, k));
        OWN(schedule) *schedule = overlapped_resnet(grid_of(k, k));
        struct run run = world_run(fabric, GRAIN_FOLDED);
        assert_relative(simulated_seconds(&run, schedule), expected, 1e-5);
        run.grain = GRAIN_FULL;
        run.traced_ranks = 1;
        if (k <= 16)
            assert_relative(simulated_seconds(&run, schedule), expected, 1e-5);
    }
}

/* --- the analytic back end, where no link is shared --- */

/* Rows and columns of a torus have links of their own, and a lane sends one message at a time. */
TEST(equals_analytic_where_no_link_is_shared)
{
    static const int64_t bytes[] = {1000003, 400000000}; /* bound by compute, by communication */
    for (int32_t k = 4; k <= 16 / WORLD_EVERY; k *= 2) {
        struct grid grid = {.columns = k, .rows = k};
        OWN(fabric) *fabric = ideal_torus(grid);
        for (int i = 0; i < 2; i++) {
            OWN(schedule) *schedule = world_step(grid, ALGORITHM_TORUS2D, 4, bytes[i]);
            struct run run = world_run(fabric, GRAIN_FULL);
            run.iterations = 3;
            run.traced_ranks = 2;
            assert_relative(simulated_seconds(&run, schedule), analytic_seconds(&run, schedule),
                            rounding);
        }
    }
}

/* Forward waits for the input read an iteration ago; reading is the slower of the two. */
TEST(prefetches_as_the_analytic_back_end_does)
{
    struct grid grid = {.columns = 2, .rows = 2};
    OWN(schedule) *schedule = schedule_new(grid);
    struct step input = {.kind = STEP_INPUT, .lane = LANE_INPUT, .input = {.images = 3}};
    struct step forward = {.lane = LANE_COMPUTE, .compute = {.flops = 2000000000}};
    int32_t read = schedule_add(schedule, input, NULL, 0);
    schedule_add(schedule, forward, &(struct dep){read, 1}, 1);
    OWN(fabric) *fabric = ideal_torus(grid);
    struct run run = world_run(fabric, GRAIN_FULL);
    run.iterations = 5;
    run.input_workers = 1;
    run.input_rate = 1000;
    double seconds = simulated_seconds(&run, sealed(schedule));
    assert_relative(seconds, 5 * 3e-3, rounding);
    assert_relative(seconds, analytic_seconds(&run, schedule), rounding);
}

/* --- contention --- */

static double seconds_on(const struct fabric *fabric, struct schedule *schedule)
{
    struct run run = world_run(fabric, GRAIN_FULL);
    return simulated_seconds(&run, sealed(schedule));
}

/* Two racks of four nodes, and every rank sends half of the vector to the other rack. */
TEST(four_flows_on_one_uplink_take_four_times_as_long)
{
    const double latency = 2e-6 + 2 * 3e-6, bytes = 50e6;
    for (int32_t flows = 1; flows <= 4; flows *= 2) {
        OWN(fabric) *fabric = world_cluster(8, 1, 4, 40e9 / flows);
        OWN(schedule) *schedule = schedule_new(grid_of(4, 2));
        add_ring(schedule, COLLECTIVE_ALL_GATHER, AXIS_COLUMN, 100000000);
        assert_relative(seconds_on(fabric, schedule), latency + flows * bytes / 10e9, rounding);
    }
}

/* Two racks of four nodes of one rank; four messages share an uplink as fast as one NIC. */
TEST(halving_near_first_keeps_the_large_messages_in_the_rack)
{
    const double v = 100e6, nic = 10e9, near = 2e-6, far = 2e-6 + 2 * 3e-6;
    static const enum algorithm order[] = {ALGORITHM_HALVING_DOUBLING,
                                           ALGORITHM_HALVING_DOUBLING_FAR};
    const double expected[] = {
        2 * (near + v / 2 / nic + near + v / 4 / nic + far + 4 * v / 8 / nic),
        2 * (far + 4 * v / 2 / nic + near + v / 4 / nic + near + v / 8 / nic)};
    OWN(fabric) *fabric = world_cluster(8, 1, 4, nic);
    for (int i = 0; i < 2; i++) {
        OWN(schedule) *schedule = schedule_new(grid_of(8, 1));
        schedule_add_all_reduce(schedule, order[i], 0, 0, (int64_t)v, -1);
        assert_relative(seconds_on(fabric, schedule), expected[i], rounding);
    }
}

static double span_end(const struct trace *trace, int32_t rank, int32_t step)
{
    for (int64_t i = 0; i < trace->span_count; i++) {
        if (trace->span[i].rank == rank && trace->span[i].step == step)
            return trace->span[i].end;
    }
    fail_msg("rank %d has no span of step %d", rank, step);
    return NAN;
}

/* A rank's NIC carries a message within the rack and one to another rack, which starts later. */
TEST(flows_share_equally_whatever_their_latency)
{
    const double near = 2e-6, far = 2e-6 + 2 * 3e-6, bytes = 50e6, nic = 10e9;
    OWN(fabric) *fabric = world_cluster(4, 1, 2, 1e12);
    OWN(schedule) *schedule = schedule_new(grid_of(2, 2));
    int32_t row = add_ring(schedule, COLLECTIVE_ALL_GATHER, AXIS_ROW, 100000000);
    int32_t column = add_ring(schedule, COLLECTIVE_ALL_GATHER, AXIS_COLUMN, 100000000);
    struct run run = world_run(fabric, GRAIN_FULL);
    HELD(trace) trace = simulate(&run, sealed(schedule));
    for (int32_t rank = 0; rank < 4; rank++) {
        assert_relative(span_end(&trace, rank, row), far + 2 * (bytes / nic - (far - near)),
                        rounding);
        assert_relative(span_end(&trace, rank, column), near + 2 * bytes / nic, rounding);
    }
}

/* --- which rank is where --- */

/* Rows of 4 lie within a node of 4; columns cross the network, 4 to a NIC. */
TEST(ranks_are_numbered_node_by_node)
{
    const double bytes = 100000000;
    static const enum axis axes[] = {AXIS_ROW, AXIS_COLUMN};
    const double expected[] = {3 * (1e-6 + bytes / 4 / 50e9), 2e-6 + bytes / 2 / (10e9 / 4)};
    OWN(fabric) *fabric = world_cluster(8, 4, 2, 1e12);
    for (int i = 0; i < 2; i++) {
        OWN(schedule) *schedule = schedule_new(grid_of(4, 2));
        add_ring(schedule, COLLECTIVE_ALL_GATHER, axes[i], (int64_t)bytes);
        assert_relative(seconds_on(fabric, schedule), expected[i], rounding);
    }
}

/* One slow link of a torus delays exactly the row it is in. */
TEST(a_slow_link_is_felt_by_its_row_alone)
{
    struct grid grid = {.columns = 4, .rows = 3};
    OWN(fabric) *fabric = ideal_torus(grid);
    struct route route;
    fabric_route(fabric, 6, 7, &route);
    assert_int_equal(route.count, 1);
    fabric->link[route.link[0]].bandwidth /= 10;
    OWN(schedule) *schedule = schedule_new(grid);
    int32_t step = add_ring(schedule, COLLECTIVE_ALL_GATHER, AXIS_ROW, 75000000);
    struct run run = world_run(fabric, GRAIN_FULL);
    HELD(trace) trace = simulate(&run, sealed(schedule));
    double round = 1e-6 + 75e6 / 4 / 75e9, slow_round = 1e-6 + 75e6 / 4 / 7.5e9;
    for (int32_t rank = 0; rank < 12; rank++) {
        double end = span_end(&trace, rank, step);
        if (rank / 4 != 1)
            assert_relative(end, 3 * round, rounding);
        else
            assert_true(end > slow_round);
    }
    assert_relative(span_end(&trace, 7, step), 3 * slow_round, rounding);
}

/* --- NCCL --- */

/* ABCI, two nodes; the slowest of eight ranks keeps the others waiting. */
TEST(a_step_of_nccl_starts_on_all_ranks_together)
{
    struct grid grid = {.columns = 8, .rows = 1};
    OWN(fabric) *fabric = world_platform("abci", NULL, 8, grid);
    OWN(schedule) *schedule = world_step(grid, ALGORITHM_NCCL, 1, 10000000);
    struct run run = world_run(fabric, GRAIN_AUTO);
    double seconds = nccl_choose(&fabric->nccl, COLLECTIVE_ALL_REDUCE, 10000000).seconds;
    assert_relative(simulated_seconds(&run, schedule), 2e-3 + seconds, rounding);
    assert_relative(analytic_seconds(&run, schedule), 2e-3 + seconds, rounding);

    run.noise = (struct noise){.straggler_fraction = 0.3, .straggler_slowdown = 2, .seed = 1};
    double slowest = 0, fastest = INFINITY;
    for (int32_t rank = 0; rank < 8; rank++) {
        slowest = fmax(slowest, noise_factor(&run.noise, rank, 0));
        fastest = fmin(fastest, noise_factor(&run.noise, rank, 0));
    }
    assert_true(fastest < slowest);
    assert_relative(simulated_seconds(&run, schedule), 2e-3 * slowest + seconds, rounding);
}

/* --- lanes that slow each other down --- */

/* Four buckets, each after 1 ms of compute; then 1 ms of update.  Every rank is alike, so the step
 * is what core/backend/lanes.h says of the collectives' own times, on every grain and with merged
 * rounds.  @expected: of a replay of the lanes in Python [s]. */
TEST(slowed_lanes_take_what_a_replay_says)
{
    static const struct {
        double compute, communication, launch; /* of the device */
        double torus, ring;
    } replays[] = {
        {0, 0, 0, 0.005911, 0.0101},
        {0.2, 0, 0, 0.0063665, 0.0101},
        {0, 0.3, 0, 0.00633630769230769, 0.0107923076923077},
        {0.2, 0.3, 0, 0.00650315, 0.0109307692307692},
        {1, 1, 0, 0.008644, 0.0131},
        {0.2, 0.3, 1.2e-05, 0.00661876923076923, 0.0109787692307692},
    };
    for (size_t i = 0; i < sizeof(replays) / sizeof(*replays); i++) {
        struct device device = *ideal_device();
        device.compute_slowdown.value = replays[i].compute;
        device.communication_slowdown.value = replays[i].communication;
        device.collective_launch.value = replays[i].launch;
        for (int ring = 0; ring < 2; ring++) {
            struct grid grid = ring ? grid_of(16, 1) : grid_of(4, 4);
            OWN(fabric) *fabric = ideal_torus(grid);
            OWN(schedule) *schedule =
                world_step(grid, ring ? ALGORITHM_RING : ALGORITHM_TORUS2D, 4, 100000000);
            double expected = ring ? replays[i].ring : replays[i].torus;
            for (enum grain grain = GRAIN_AUTO; grain < GRAIN_COUNT; grain++) {
                struct run run = world_run(fabric, grain);
                run.device = &device;
                assert_relative(simulated_seconds(&run, schedule), expected, rounding);
            }
            struct run run = world_run(fabric, GRAIN_AUTO);
            HELD(trace) trace = {0};
            run.device = &device;
            assert_int_equal(backend_analytic.run(&run, schedule, &trace, &err), 0);
            assert_relative(trace_step_time(&trace), expected, rounding);
        }
    }
}

/* --- noise --- */

static const struct noise noises[] = {{.compute_cv = 0.05},
                                      {.straggler_fraction = 0.3, .straggler_slowdown = 0.5}};

static double noisy_seconds(const struct fabric *fabric, const struct schedule *schedule,
                            struct noise noise, enum grain grain)
{
    struct run run = world_run(fabric, grain);
    run.traced_ranks = 1;
    run.noise = noise;
    return simulated_seconds(&run, schedule);
}

/* Everybody waits for the slowest, so what is expected of a step with noise can be told from one
 * without: the mean of full runs, each with its own seed, within three standard errors. */
TEST(expected_noise_is_the_mean_of_full_runs)
{
    enum { RUNS = 16 };
    struct grid grid = {.columns = 8, .rows = 8};
    OWN(fabric) *fabric = ideal_torus(grid);
    OWN(schedule) *schedule = world_step(grid, ALGORITHM_TORUS2D, 4, 100000000);
    struct run run = world_run(fabric, GRAIN_FOLDED);
    HELD(trace) trace = simulate(&run, schedule);
    HELD(steady) steady = steady_new(schedule, (struct slowdown){0}, &trace);
    for (int i = 0; i < 2; i += WORLD_EVERY) {
        struct noise noise = noises[i];
        double sum = 0, squares = 0;
        for (noise.seed = 1; noise.seed <= RUNS; noise.seed++) {
            double full = noisy_seconds(fabric, schedule, noise, GRAIN_FULL);
            sum += full;
            squares += full * full;
        }
        double mean = sum / RUNS, error = sqrt((squares / RUNS - mean * mean) / (RUNS - 1));
        double expected =
            trace_step_time(&trace) + steady_waiting(&steady, &noise, grid_ranks(grid));
        assert_true(fabs(expected - mean) < 3 * error + 1e-6 * mean);
        assert_true(mean > 1.05 * trace_step_time(&trace));
    }
}

TEST(same_seed_same_answer)
{
    struct grid grid = {.columns = 4, .rows = 4};
    OWN(fabric) *fabric = ideal_torus(grid);
    OWN(schedule) *schedule = world_step(grid, ALGORITHM_TORUS2D, 2, 1000000);
    double first = noisy_seconds(fabric, schedule, noises[0], GRAIN_FULL);
    assert_true(first == noisy_seconds(fabric, schedule, noises[0], GRAIN_FULL));
    struct noise other = noises[0];
    other.seed++;
    assert_true(first != noisy_seconds(fabric, schedule, other, GRAIN_FULL));
}

/* --- what the trace says --- */

static void assert_grain(struct grid grid, int32_t buckets, enum grain grain, struct noise noise,
                         const char *name, int32_t entities)
{
    OWN(fabric) *fabric = ideal_torus(grid);
    OWN(schedule) *schedule = world_step(grid, ALGORITHM_TORUS2D, buckets, 1000000);
    struct run run = world_run(fabric, grain);
    run.noise = noise;
    run.traced_ranks = 1;
    HELD(trace) trace = simulate(&run, schedule);
    assert_string_equal(trace.grain, name);
    assert_int_equal(trace.entities, entities);
    assert_int_equal(trace.ranks, grid_ranks(grid));
    assert_true(trace.schedule_hash == schedule_hash(schedule));
}

TEST(names_the_grain_it_took)
{
    struct grid small = {.columns = 4, .rows = 4}, large = {.columns = 64, .rows = 64};
    struct noise none = {0};
    assert_grain(small, 1, GRAIN_AUTO, none, "folded", 1);
    assert_grain(small, 1, GRAIN_FULL, none, "full", 16);
    assert_grain(small, 1, GRAIN_COARSE, none, "coarse", 1);
    assert_grain(small, 1, GRAIN_AUTO, noises[0], "full", 16);
    assert_grain(large, 1, GRAIN_AUTO, noises[0], "folded", 1);
    assert_grain(large, 700, GRAIN_AUTO, none, "smoothed/2", 1);
    assert_grain(grid_of(1, 1), 1, GRAIN_FOLDED, none, "full", 1);
}

TEST(traces_the_first_the_last_and_evenly_between)
{
    static const int32_t expected[] = {0, 5, 10, 15};
    struct grid grid = {.columns = 4, .rows = 4};
    OWN(fabric) *fabric = ideal_torus(grid);
    OWN(schedule) *schedule = world_step(grid, ALGORITHM_TORUS2D, 1, 1000);
    struct run run = world_run(fabric, GRAIN_FULL);
    run.iterations = 2;
    run.traced_ranks = 4;
    HELD(trace) trace = simulate(&run, schedule);
    assert_int_equal(trace.span_count, 4 * 2 * schedule->step_count);
    bool seen[16] = {false};
    for (int64_t i = 0; i < trace.span_count; i++)
        seen[trace.span[i].rank] = true;
    for (int i = 0; i < 4; i++)
        assert_true(seen[expected[i]]);
}
