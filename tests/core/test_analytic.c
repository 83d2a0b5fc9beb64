#include "core/backend/analytic.h"

#include "tests/core/own.h"
#include "tests/test.h"

/* --- small worlds --- */

static int32_t add_input(struct schedule *schedule, int32_t images, int32_t after, int32_t distance)
{
    struct step step = {.kind = STEP_INPUT, .lane = LANE_INPUT, .input = {.images = images}};
    return schedule_add(schedule, step, &(struct dep){after, distance}, after >= 0);
}

static struct trace traced(const struct run *run, const struct schedule *schedule)
{
    struct trace trace = {0};
    assert_int_equal(backend_analytic.run(run, schedule, &trace, &err), 0);
    return trace;
}

/* Seconds of a steady iteration; frees nothing. */
static double step_time(const struct run *run, const struct schedule *schedule)
{
    HELD(trace) trace = traced(run, schedule);
    return trace_step_time(&trace);
}

/* --- closed forms --- */

static double all_reduce_seconds(enum algorithm algorithm, const struct fabric *fabric,
                                 struct grid grid, int64_t bytes)
{
    OWN(schedule) *schedule = schedule_new(grid);
    schedule_add_all_reduce(schedule, algorithm, 1, 0, bytes, -1);
    struct run run = {.fabric = fabric, .device = ideal_device(), .iterations = 1};
    return step_time(&run, sealed(schedule));
}

/* 100 MB on a k x k torus and on a ring: the case on which ASTRA-sim was measured. */
TEST(torus_all_reduce_takes_its_closed_form)
{
    const int64_t bytes = 100000000;
    for (int32_t k = 2; k <= 64; k *= 2) {
        OWN(fabric) *fabric = ideal_torus(grid_of(k, k));
        double expected = 2 * (k - 1) * ((double)bytes / (k * 75e9) + 1e-6) +
                          2 * (k - 1) * ((double)bytes / (k * k * 25e9) + 5e-6);
        assert_relative(all_reduce_seconds(ALGORITHM_TORUS2D, fabric, grid_of(k, k), bytes),
                        expected, 1e-9);
    }
}

TEST(ring_all_reduce_takes_its_closed_form)
{
    const int64_t bytes = 100000000;
    for (int32_t n = 2; n <= 4096; n *= 2) {
        OWN(fabric) *fabric = ideal_torus(grid_of(n, 1));
        double expected = 2 * (n - 1) * ((double)bytes / (n * 25e9) + 5e-6);
        assert_relative(all_reduce_seconds(ALGORITHM_RING, fabric, grid_of(n, 1), bytes), expected,
                        1e-9);
    }
}

/* 40 million records if it were one for each rank, more than are kept. */
TEST(of_equal_ranks_one_is_recorded)
{
    OWN(fabric) *fabric = ideal_torus(grid_of(64, 64));
    OWN(schedule) *schedule = schedule_new(grid_of(64, 64));
    struct run run = {.fabric = fabric, .device = ideal_device(), .iterations = 1};
    for (int32_t i = 0; i < 10000; i++)
        add_compute(schedule, 1e-3, -1);
    assert_relative(step_time(&run, sealed(schedule)), 10, 1e-9);
}

TEST(an_overlapped_step_agrees_with_astra_sim)
{
    for (size_t i = 0; i < ARRAY_SIZE(overlapped_resnet_s); i++) {
        int32_t k = (int32_t)overlapped_resnet_s[i][0];
        OWN(fabric) *fabric = ideal_torus(grid_of(k, k));
        OWN(schedule) *schedule = overlapped_resnet(grid_of(k, k));
        struct run run = {.fabric = fabric, .device = ideal_device(), .iterations = 1};
        assert_relative(step_time(&run, schedule), overlapped_resnet_s[i][1], 1e-5);
    }
}

/* --- against a naive walk of every message --- */

/* How many messages of @round pass @link. */
static int32_t messages_on(const struct fabric *fabric, const struct collective *c, int32_t round,
                           int32_t link)
{
    int32_t count = 0;
    for (int32_t rank = 0; rank < c->ranks; rank++) {
        struct route route = {0};
        int32_t to = collective_exchange(c, rank, round).send.peer;
        if (to >= 0)
            fabric_route(fabric, rank, to, &route);
        for (int32_t i = 0; i < route.count; i++)
            count += route.link[i] == link;
    }
    return count;
}

static double message_seconds(const struct fabric *fabric, const struct collective *c,
                              int32_t round, int32_t from, int32_t to)
{
    struct route route;
    double bytes = collective_share(c, round) * (double)c->elements, longest = 0;
    fabric_route(fabric, from, to, &route);
    for (int32_t i = 0; i < route.count; i++) {
        bool alone = c->algorithm == ALGORITHM_DOUBLE_TREE;
        int32_t messages = alone ? 1 : messages_on(fabric, c, round, route.link[i]);
        longest = fmax(longest, messages * bytes / fabric->link[route.link[i]].bandwidth);
    }
    return route.latency + longest;
}

/* The same recurrence, written from the receivers' and the senders' own exchanges. */
static double naive_world_seconds(const struct fabric *fabric, const struct collective *c)
{
    double *ready = base_alloc(c->ranks, sizeof(*ready)), *next, last = 0;
    for (int32_t round = 0; round < collective_rounds(c); round++) {
        next = base_alloc(c->ranks, sizeof(*next));
        for (int32_t rank = 0; rank < c->ranks; rank++) {
            struct exchange exchange = collective_exchange(c, rank, round);
            int32_t to = exchange.send.peer, from = exchange.receive.peer;
            next[rank] = ready[rank];
            if (to >= 0)
                next[rank] = fmax(next[rank], fmax(ready[rank], ready[to]) +
                                                  message_seconds(fabric, c, round, rank, to));
            if (from >= 0)
                next[rank] = fmax(next[rank], fmax(ready[rank], ready[from]) +
                                                  message_seconds(fabric, c, round, from, rank));
            last = fmax(last, next[rank]);
        }
        free(ready);
        ready = next;
    }
    free(ready);
    return last;
}

TEST(every_algorithm_takes_what_its_messages_take)
{
    for (int32_t columns = 1; columns <= 5; columns++)
        for (int32_t rows = 1; rows <= 3; rows++)
            for (enum algorithm algorithm = 0; algorithm < ALGORITHM_TORUS2D; algorithm++) {
                if (columns * rows == 1)
                    continue;
                OWN(fabric) *fabric = ideal_torus(grid_of(columns, rows));
                OWN(schedule) *schedule = schedule_new(grid_of(columns, rows));
                schedule_add_all_reduce(schedule, algorithm, columns, 0, 1000003, -1);
                struct collective c = schedule_collective(sealed(schedule), 0);
                assert_relative(analytic_collective(fabric, schedule, 0),
                                naive_world_seconds(fabric, &c), 1e-12);
            }
}

TEST(refuses_what_the_mpi_library_chooses)
{
    OWN(fabric) *fabric = ideal_torus(grid_of(4, 1));
    struct run run = {.fabric = fabric, .device = ideal_device(), .iterations = 1};
    struct trace trace = {0};
    OWN(schedule) *schedule = schedule_new(grid_of(4, 1));
    schedule_add_all_reduce(schedule, ALGORITHM_MPI, 0, 0, 1000, -1);
    assert_fails(backend_analytic.run(&run, sealed(schedule), &trace, &err), 69,
                 "allreduce.algorithm=ring");
    assert_null(trace.span);
}

/* --- lanes and dependencies --- */

/* Input takes 8 ms, compute 5 ms. */
TEST(two_lanes_overlap_unless_a_dependency_serialises_them)
{
    OWN(fabric) *fabric = ideal_torus(grid_of(1, 1));
    struct run run = {.fabric = fabric,
                      .device = ideal_device(),
                      .iterations = 4,
                      .input_workers = 1,
                      .input_rate = 1000};
    for (int serial = 0; serial < 2; serial++) {
        OWN(schedule) *schedule = schedule_new(grid_of(1, 1));
        int32_t input = add_input(schedule, 8, serial ? 1 : -1, serial);
        add_compute(schedule, 5e-3, serial ? input : -1);
        assert_relative(step_time(&run, sealed(schedule)), serial ? 13e-3 : 8e-3, 1e-12);
    }
}

TEST(a_dependency_before_the_first_iteration_is_met)
{
    OWN(fabric) *fabric = ideal_torus(grid_of(1, 1));
    struct run run = {.fabric = fabric, .device = ideal_device(), .iterations = 3};
    OWN(schedule) *schedule = schedule_new(grid_of(1, 1));
    schedule_add(schedule, (struct step){.compute.flops = 1000000000}, &(struct dep){0, 2}, 1);
    HELD(trace) trace = traced(&run, sealed(schedule));
    assert_int_equal(trace.span_count, 3);
    for (int32_t i = 0; i < 3; i++) {
        assert_relative(trace.span[i].begin, 1e-3 * i, 1e-12);
        assert_relative(trace.iteration_end[i], 1e-3 * (i + 1), 1e-12);
    }
    assert_string_equal(trace.backend, "analytic");
    assert_int_equal(trace.schedule_hash, schedule_hash(schedule));
}

/* --- monotone --- */

/* A random schedule of at least 2 steps on a 3 x 2 grid; one more dependency when @more. */
static struct schedule *random_schedule(uint64_t seed, bool more)
{
    struct schedule *schedule = schedule_new(grid_of(3, 2));
    int32_t steps = 2 + (int32_t)(base_uniform(seed, 0, 0, 0) * 20);
    for (int32_t id = 0; id < steps; id++) {
        double kind = base_uniform(seed, 1, (uint64_t)id, 0);
        struct step step = {.lane = LANE_COMPUTE, .compute = {.flops = 1000000 + 1000 * id}};
        if (kind > 0.5)
            step = (struct step){.kind = STEP_COLLECTIVE,
                                 .lane = kind > 0.75 ? LANE_ROW : LANE_COLUMN,
                                 .collective = {.axis = kind > 0.75 ? AXIS_ROW : AXIS_COLUMN,
                                                .bytes = 100000 + 1000 * id}};
        struct dep dep[2] = {
            {(int32_t)(base_uniform(seed, 2, (uint64_t)id, 0) * steps), 1},
            {(int32_t)(base_uniform(seed, 3, (uint64_t)id, 0) * id), 0},
        };
        schedule_add(schedule, step, dep, 1 + (more && id > 0));
    }
    return sealed(schedule);
}

static double last_end(const struct run *run, const struct schedule *schedule)
{
    HELD(trace) trace = traced(run, schedule);
    return trace.iteration_end[trace.iterations - 1];
}

TEST(a_further_dependency_is_never_earlier)
{
    OWN(fabric) *fabric = ideal_torus(grid_of(3, 2));
    struct run run = {.fabric = fabric, .device = ideal_device(), .iterations = 3};
    int32_t later = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        OWN(schedule) *loose = random_schedule(seed, false);
        OWN(schedule) *tight = random_schedule(seed, true);
        assert_true(last_end(&run, tight) >= last_end(&run, loose));
        later += last_end(&run, tight) > last_end(&run, loose);
    }
    assert_true(later > 50);
}

/* Neighbours in a column of a 4 x 4 grid are 4 links apart on a ring of 16, and each link carries
 * the messages of 4 columns. */
TEST(a_shared_link_takes_the_bytes_of_all_who_share_it)
{
    OWN(fabric) *fabric = ideal_torus(grid_of(16, 1));
    OWN(schedule) *schedule = schedule_new(grid_of(4, 4));
    schedule_add(schedule,
                 (struct step){.kind = STEP_COLLECTIVE,
                               .lane = LANE_COLUMN,
                               .collective = {.axis = AXIS_COLUMN, .bytes = 100000000}},
                 NULL, 0);
    struct run run = {.fabric = fabric, .device = ideal_device(), .iterations = 1};
    double alone = 6 * (25e6 / 25e9 + 4 * 5e-6), shared = 4 * 6 * 25e6 / 25e9;
    assert_relative(analytic_collective(fabric, sealed(schedule), 0), alone, 1e-9);
    assert_relative(step_time(&run, schedule), shared, 1e-9);
}

TEST(noise_stretches_compute_and_nothing_else)
{
    OWN(fabric) *fabric = ideal_torus(grid_of(3, 2));
    OWN(schedule) *schedule = schedule_new(grid_of(3, 2));
    int32_t input = add_input(schedule, 8, 1, 1);
    int32_t compute = add_compute(schedule, 5e-3, input);
    int32_t last = schedule_add_all_reduce(schedule, ALGORITHM_RING, 0, 0, 1000000, compute);
    add_compute(schedule, 0, last);
    struct run run = {.fabric = fabric,
                      .device = ideal_device(),
                      .iterations = 1,
                      .input_workers = 1,
                      .input_rate = 1000};
    double quiet = step_time(&run, sealed(schedule));
    run.noise = (struct noise){.compute_cv = 0.05, .seed = 7};
    double slowest = noise_slowest(&run.noise, 6, 0);
    assert_true(slowest > 1);
    assert_relative(step_time(&run, schedule), quiet + (slowest - 1) * 5e-3, 1e-12);
}
