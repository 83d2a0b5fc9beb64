#include "core/backend/analytic.h"
#include "core/backend/floor.h"

#include "tests/core/own.h"
#include "tests/test.h"

#define assert_same(value, expected) assert_relative(value, expected, 1e-12)

/* An all-reduce of @bytes in rings along @axis, and one along @also (AXIS_COUNT: none). */
static struct schedule *all_reduces(struct grid grid, enum axis axis, enum axis also, int64_t bytes)
{
    struct schedule *schedule = schedule_new(grid);
    for (int32_t i = 0; i < (also == AXIS_COUNT ? 1 : 2); i++) {
        enum axis along = i ? also : axis;
        struct step step = {.kind = STEP_COLLECTIVE,
                            .lane = along == AXIS_COLUMN ? LANE_COLUMN : LANE_ROW,
                            .name = "gradients",
                            .collective = {.axis = along, .bytes = bytes}};
        schedule_add(schedule, step, NULL, 0);
    }
    return sealed(schedule);
}

static struct schedule *one_all_reduce(struct grid grid, enum axis axis, int64_t bytes)
{
    return all_reduces(grid, axis, AXIS_COUNT, bytes);
}

TEST(latency_counts_every_round)
{
    OWN(fabric) *fabric = ideal_torus(grid_of(16, 1));
    OWN(schedule) *schedule = one_all_reduce(grid_of(16, 1), AXIS_ROW, 16);
    struct floor floor = floor_collective(fabric, schedule, 0);
    assert_same(floor.seconds, 30 * 5e-6);
    assert_string_equal(floor.what, "latency of 30 rounds");
}

TEST(bytes_count_on_the_narrowest_link)
{
    OWN(fabric) *fabric = ideal_torus(grid_of(16, 1));
    OWN(schedule) *schedule = one_all_reduce(grid_of(16, 1), AXIS_ROW, 1600000000);
    struct floor floor = floor_collective(fabric, schedule, 0);
    assert_same(floor.seconds, 30 * 100e6 / 25e9);
    assert_string_equal(floor.what, "bytes over column");
    assert_int_equal(floor.tier, 0);
    fabric->link[6].bandwidth /= 10; /* the third rank's way to the next */
    assert_same(floor_collective(fabric, schedule, 0).seconds, 30 * 100e6 / 2.5e9);
}

TEST(a_shared_link_carries_the_bytes_of_all)
{
    OWN(fabric) *fabric = ideal_torus(grid_of(16, 1));
    OWN(schedule) *schedule = one_all_reduce(grid_of(4, 4), AXIS_COLUMN, 1600000000);
    assert_same(floor_collective(fabric, schedule, 0).seconds, 4 * 6 * 400e6 / 25e9);
}

TEST(a_leaf_of_a_tree_also_pays_for_what_it_receives)
{
    OWN(fabric) *fabric = ideal_torus(grid_of(2, 1));
    struct step step = {.kind = STEP_COLLECTIVE,
                        .lane = LANE_ROW,
                        .collective = {.axis = AXIS_ROW, .algorithm = ALGORITHM_TREE}};
    OWN(schedule) *schedule = schedule_new(grid_of(2, 1));
    schedule_add(schedule, step, NULL, 0);
    assert_same(floor_collective(fabric, schedule, 0).seconds, 2 * 5e-6);
}

/* Compute 10 ms, input 8 ms, two all-reduces whose latencies are 150 us each. */
struct job {
    struct fabric *fabric;
    struct schedule *schedule;
    struct run run;
};

static struct job small_job(int64_t bytes)
{
    struct job job = {.fabric = ideal_torus(grid_of(16, 1)),
                      .schedule = schedule_new(grid_of(16, 1))};
    struct step input = {.kind = STEP_INPUT, .lane = LANE_INPUT, .input = {.images = 8}};
    schedule_add(job.schedule, input, NULL, 0);
    int32_t id = add_compute(job.schedule, 10e-3, -1);
    id = schedule_add_all_reduce(job.schedule, ALGORITHM_RING, 0, 0, bytes, id);
    schedule_add_all_reduce(job.schedule, ALGORITHM_RING, 0, 1, bytes, id);
    sealed(job.schedule);
    job.run = (struct run){.fabric = job.fabric,
                           .device = ideal_device(),
                           .iterations = 2,
                           .input_workers = 1,
                           .input_rate = 1000};
    return job;
}

static void job_release(struct job *job)
{
    fabric_free(job->fabric);
    schedule_free(job->schedule);
}

TEST(the_longest_lane_bounds_an_iteration)
{
    HELD(job) job = small_job(16);
    struct floor floor = floor_iteration(&job.run, job.schedule, NULL);
    assert_same(floor.seconds, 10e-3);
    assert_string_equal(floor.what, "all steps of the compute lane");
    job.run.input_rate = 100;
    floor = floor_iteration(&job.run, job.schedule, NULL);
    assert_same(floor.seconds, 80e-3);
    assert_string_equal(floor.what, "all steps of the input lane");
}

TEST(all_collectives_together_bound_an_iteration)
{
    HELD(job) job = small_job(1600000000);
    struct floor floor = floor_iteration(&job.run, job.schedule, NULL);
    assert_same(floor.seconds, 2 * 30 * 100e6 / 25e9);
    assert_string_equal(floor.what, "bytes over column");
}

TEST(a_link_carries_the_bytes_of_all_lanes)
{
    OWN(fabric) *fabric = ideal_torus(grid_of(16, 1));
    OWN(schedule) *schedule = all_reduces(grid_of(4, 4), AXIS_ROW, AXIS_COLUMN, 1600000000);
    struct run run = {.fabric = fabric, .device = ideal_device(), .iterations = 1};
    assert_same(floor_iteration(&run, schedule, NULL).seconds, (1 + 4) * 6 * 400e6 / 25e9);
}

/* A trace of two iterations of which the second ends @seconds after the first; the first
 * collective takes @collective. */
static struct trace fabricated(double seconds, double collective)
{
    struct trace trace = {.ranks = 16};
    trace_finish(&trace, 0, 1);
    trace_finish(&trace, 1, 1 + seconds);
    trace_add(&trace, (struct span){1, 5, 2, 1, 1 + collective});
    return trace;
}

TEST(accepts_a_trace_at_its_floor)
{
    HELD(job) job = small_job(16);
    HELD(trace) trace = fabricated(10e-3, 150e-6);
    assert_int_equal(floor_check(&job.run, job.schedule, &trace, &err), 0);
    assert_null(err.text);
}

/* At 1e13 s neighbouring numbers are 2 ms apart. */
TEST(a_late_clock_is_coarse)
{
    HELD(job) job = small_job(16);
    HELD(trace) trace = fabricated(1e13, 0);
    trace.span[0].begin = 1e13;
    trace.span[0].end = 1e13 + 100e-6;
    assert_int_equal(floor_check(&job.run, job.schedule, &trace, &err), 0);
    trace.iteration_end[1] = NAN;
    assert_int_equal(floor_check(&job.run, job.schedule, &trace, &err), -1);
}

TEST(refuses_what_beats_its_floor)
{
    static const struct {
        double step, collective;
        const char *message;
    } cases[] = {
        {9e-3, 150e-6,
         "result refused: a step took 0.009 s, 10 % less than its floor of 0.01 s (all steps of "
         "the compute lane)\n"},
        {10e-3, 75e-6,
         "result refused: \"bucket 0 world all-reduce\" of rank 5 in iteration 1 took 7.5e-05 s, "
         "50 % less than its floor of 0.00015 s (latency of 30 rounds)\n"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        HELD(job) job = small_job(16);
        HELD(trace) trace = fabricated(cases[i].step, cases[i].collective);
        assert_int_equal(floor_check(&job.run, job.schedule, &trace, &err), -1);
        assert_string_equal(err.text, cases[i].message);
        assert_message(&err, 70, "");
    }
}

TEST(the_closed_form_never_beats_its_floor)
{
    for (int64_t bytes = 1; bytes < 1000000000; bytes *= 7)
        for (int noisy = 0; noisy < 2; noisy++) {
            HELD(job) job = small_job(bytes);
            HELD(trace) trace = {0};
            job.run.noise = (struct noise){.compute_cv = noisy * 0.2, .seed = (uint64_t)bytes};
            assert_int_equal(backend_analytic.run(&job.run, job.schedule, &trace, &err), 0);
            assert_ok(floor_check(&job.run, job.schedule, &trace, &err) == 0, err);
        }
}

/* The fastest of many ranks may be faster than the mean, and that is no fault. */
TEST(noise_lowers_the_floor_to_the_fastest_rank)
{
    HELD(job) job = small_job(16);
    job.run.noise = (struct noise){.compute_cv = 0.2, .seed = 1};
    double fastest = 1;
    for (int32_t rank = 0; rank < 16; rank++)
        fastest = fmin(fastest, noise_factor(&job.run.noise, rank, job.run.iterations - 1));
    assert_true(fastest < 1);
    assert_same(floor_iteration(&job.run, job.schedule, NULL).seconds, fastest * 10e-3);
}
