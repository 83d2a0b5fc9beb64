#include "tests/sim/world.h"

#include "core/backend/analytic.h"
#include "sim/sim.h"
#include "tests/child.h"
#include "tests/core/own.h"

struct job {
    const struct run *run;
    const struct schedule *schedule;
};

static int run_job(const void *argument)
{
    const struct job *job = argument;
    HELD(text) document = {0};
    struct workload workload = {0};
    struct trace trace = {0};
    struct err err = {0};
    if (workload_describe(&document, job->run, job->schedule, &err) ||
        workload_read(&workload, "document", document.data, document.length, &err) ||
        sim_run(&workload, NULL, &trace, &err)) {
        fprintf(stderr, "%s", err.text);
        return err.exit_code;
    }
    workload_release(&workload);
    return trace_write(stdout, &trace, false, &err) < 0;
}

struct trace simulate(const struct run *run, const struct schedule *schedule)
{
    struct job job = {run, schedule};
    HELD(text) text = {0};
    assert_int_equal(child_run(run_job, &job, STDOUT_FILENO, &text), 0);
    struct trace trace = {0};
    struct err err = {0};
    FILE *file = fmemopen(text.data, (size_t)text.length, "r");
    assert_ok(trace_read(file, "trace", &trace, &err) == 0, err);
    fclose(file);
    return trace;
}

double simulated_seconds(const struct run *run, const struct schedule *schedule)
{
    HELD(trace) trace = simulate(run, schedule);
    return trace.iteration_end[trace.iterations - 1];
}

double analytic_seconds(const struct run *run, const struct schedule *schedule)
{
    HELD(trace) trace = {0};
    struct err err = {0};
    assert_int_equal(backend_analytic.run(run, schedule, &trace, &err), 0);
    return trace.iteration_end[trace.iterations - 1];
}

struct fabric *world_platform(const char *name, const char *change, int32_t ranks, struct grid grid)
{
    struct err err = {0};
    OWN(platform) *platform =
        platform_read_changed(NULL, name, &change, change != NULL, NULL, &err);
    assert_ok(platform, err);
    int32_t devices = platform_devices_per_node(platform);
    struct fabric *fabric = platform_fabric(platform, ranks / devices, devices, grid, &err);
    assert_ok(fabric, err);
    return fabric;
}

struct fabric *world_cluster(int32_t ranks, int32_t devices, int32_t nodes, double uplink)
{
    HELD(wiring) wiring = {.count = {devices, 1, 0, 1}};
    int32_t hub = wiring_first(&wiring, VERTEX_SWITCH);
    for (int32_t d = 0; d < devices; d++)
        wiring_add(&wiring, d, hub, 0);
    wiring_add(&wiring, hub, wiring_first(&wiring, VERTEX_NIC), 0);
    struct link_kind cable = {"cable", 50e9, 0};
    struct link_group rack = {.name = "rack", .nodes = nodes, .uplink = {"uplink", uplink, 3e-6}};
    struct cluster_plan plan = {
        .nodes = ranks / devices,
        .devices_per_node = devices,
        .wiring = &wiring,
        .cable = &cable,
        .cable_count = 1,
        .nic = {"nic", 10e9, 0},
        .group = &rack,
        .group_count = 1,
        .latency_inside = 1e-6,
        .latency_between = 2e-6,
    };
    return fabric_lay_cluster(&plan);
}

struct run world_run(const struct fabric *fabric, enum grain grain)
{
    return (struct run){
        .fabric = fabric, .device = ideal_device(), .iterations = 1, .grain = grain};
}

int32_t add_ring(struct schedule *schedule, enum collective_op op, enum axis axis, int64_t bytes)
{
    struct step step = {
        .kind = STEP_COLLECTIVE,
        .lane = axis == AXIS_COLUMN ? LANE_COLUMN : LANE_ROW,
        .collective = {.op = op, .axis = axis, .algorithm = ALGORITHM_RING, .bytes = bytes},
    };
    return schedule_add(schedule, step, NULL, 0);
}

struct schedule *world_step(struct grid grid, enum algorithm algorithm, int32_t buckets,
                            int64_t bytes)
{
    struct schedule *schedule = schedule_new(grid);
    struct dep *dep = base_alloc(buckets, sizeof(*dep));
    for (int32_t b = 0; b < buckets; b++) {
        int32_t backward = add_compute(schedule, 1e-3, -1);
        int32_t group = algorithm == ALGORITHM_HIERARCHICAL ? 4 : 0;
        dep[b].step =
            schedule_add_all_reduce(schedule, algorithm, group, b, bytes / buckets, backward);
    }
    struct step optimizer = {.lane = LANE_COMPUTE,
                             .compute = {.op = COMPUTE_OPTIMIZER, .flops = 1000000000}};
    schedule_add(schedule, optimizer, dep, buckets);
    free(dep);
    return sealed(schedule);
}
