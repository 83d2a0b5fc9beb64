#include "core/backend/analytic.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/schedule/iteration.h"
#include "models/networks.h"

/* What is better never makes a step longer: on every platform there is, under every algorithm, in
 * closed form.  That holds without exception, since a step is a maximum of sums of times each of
 * which falls.  (tests/sim/test_monotone.c asks the simulator, where links are shared.) */

/* Only rounding: the same sums in the same order. */
static const double slack = 1e-12;

/* A platform, an algorithm on a number of nodes, and how long a step takes. */
struct trial {
    const char *path; /* of the platform's file */
    const struct platform *platform;
    enum algorithm algorithm;
    int32_t nodes, devices;
    struct grid grid;
    struct schedule *schedule;
    double seconds;
};

/* --- a step --- */

static enum dtype arithmetic(const struct platform *platform)
{
    return platform_device(platform)->peak[DTYPE_FP16].value > 0 ? DTYPE_FP16 : DTYPE_FP32;
}

static struct schedule *build(const struct trial *trial, const char *network)
{
    struct err err = {0};
    struct model *model = network_build(network, 224, 1000, &err);
    struct scenario scenario = {
        .model = {.compute = arithmetic(trial->platform),
                  .gradients = DTYPE_FP16,
                  .master = DTYPE_FP32},
        .training = {.optimizer = OPTIMIZER_LARS},
        .allreduce = {.algorithm = trial->algorithm, .overlap = OVERLAP_BACKWARD},
    };
    struct iteration iteration = {
        .model = model,
        .scenario = &scenario,
        .fusion = (enum fusion)platform_device(trial->platform)->fusion,
        .grid = trial->grid,
        .devices_per_node = trial->devices,
        .batch = 32,
        .micro_batch = 32,
        .bucket = 8000000,
    };
    struct schedule *schedule = iteration_build(&iteration);
    model_free(model);
    return schedule;
}

static double step_seconds(const struct trial *trial, const struct platform *platform,
                           const struct schedule *schedule)
{
    struct err err = {0};
    struct trace trace = {0};
    struct fabric *fabric =
        platform_fabric(platform, trial->nodes, trial->devices, trial->grid, &err);
    if (!fabric)
        fail_msg("%s", err.text);
    struct run run = {
        .fabric = fabric,
        .device = platform_device(platform),
        .iterations = 1,
        .noise = {.compute_cv = 0.02, .seed = 1},
    };
    assert_int_equal(backend_analytic.run(&run, schedule, &trace, &err), 0);
    double seconds = trace_step_time(&trace);
    trace_release(&trace);
    fabric_free(fabric);
    return seconds;
}

/* --- every platform, several ways --- */

static bool can_run(const struct trial *trial)
{
    struct err err = {0};
    bool able = trial->algorithm != ALGORITHM_NCCL || !platform_check_nccl(trial->platform, &err);
    err_release(&err);
    able = able && trial->algorithm != ALGORITHM_MPI; /* which nobody can predict */
    return able && trial->nodes * trial->devices > 1;
}

static void try(struct trial trial, void (*visit)(const struct trial *trial))
{
    int32_t ranks = trial.nodes * trial.devices;
    int32_t columns = trial.devices > 1 ? trial.devices : trial.nodes % 2 ? trial.nodes : 2;
    trial.grid = (struct grid){.columns = columns, .rows = ranks / columns};
    if (!can_run(&trial))
        return;
    trial.schedule = build(&trial, "resnet50");
    trial.seconds = step_seconds(&trial, trial.platform, trial.schedule);
    visit(&trial);
    schedule_free(trial.schedule);
}

/* All algorithms among few nodes, the scalable ones where racks come into play. */
static void try_all(const char *path, void (*visit)(const struct trial *trial))
{
    static const enum algorithm many[] = {ALGORITHM_TORUS2D, ALGORITHM_NCCL};
    struct err err = {0};
    struct platform *platform = platform_read(path, &err);
    if (!platform)
        fail_msg("%s", err.text);
    struct trial trial = {.path = path,
                          .platform = platform,
                          .nodes = 2,
                          .devices = platform_devices_per_node(platform)};
    for (enum algorithm a = 0; a < ALGORITHM_COUNT; a++) {
        trial.algorithm = a;
        try(trial, visit);
    }
    int32_t most = platform_nodes(platform);
    trial.nodes = most > 0 && most < 36 ? most : 36;
    for (size_t i = 0; i < sizeof(many) / sizeof(*many); i++) {
        trial.algorithm = many[i];
        try(trial, visit);
    }
    platform_free(platform);
}

static void each_trial(void (*visit)(const struct trial *trial))
{
    struct err err = {0};
    char *folder = platform_directory(&err);
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (!strstr(entry->d_name, ".yaml"))
            continue;
        char *path = base_format("%s/%s", folder, entry->d_name);
        try_all(path, visit);
        free(path);
    }
    closedir(directory);
    free(folder);
}

/* --- what is better --- */

/* Which numbers get better, and by how much. */
struct change {
    const char *path; /* of the only one; NULL: all, each by a factor of its own */
    uint64_t seed, draws;
};

static bool is_device(const struct quantity *quantity)
{
    return !strncmp(quantity->path, "device.", 7);
}

static double improve(void *context, const struct quantity *quantity, enum unit unit)
{
    struct change *change = context;
    bool fast = unit == UNIT_BYTES_PER_SECOND || unit == UNIT_FLOPS || unit == UNIT_FRACTION;
    if (change->path)
        return strcmp(change->path, quantity->path) != 0 ? 1 : fast ? 1.5 : 0.5;
    double factor = 1 + 2 * base_uniform(change->seed, change->draws++, 0, 0);
    return fast ? factor : 1 / factor;
}

static double seconds_after(const struct trial *trial, struct change change)
{
    struct err err = {0};
    struct platform *platform = platform_read(trial->path, &err);
    platform_scale(platform, improve, &change);
    double seconds = step_seconds(trial, platform, trial->schedule);
    platform_free(platform);
    return seconds;
}

static void expect_no_longer(const struct trial *trial, double seconds, const char *what)
{
    if (seconds > trial->seconds * (1 + slack))
        fail_msg("%s by %s on %d nodes: %.17g s, with %s %.17g s", platform_name(trial->platform),
                 algorithm_names[trial->algorithm], trial->nodes, trial->seconds, what, seconds);
}

/* A walk over the numbers of a trial's platform. */
struct improvement {
    const struct trial *trial;
    bool device;  /* those of the device, else those of the links */
    bool shorter; /* written: some step became shorter */
};

static void improve_one(void *context, const struct quantity *quantity, enum unit unit)
{
    struct improvement *improvement = context;
    (void)unit;
    if (is_device(quantity) != improvement->device)
        return;
    double seconds = seconds_after(improvement->trial, (struct change){.path = quantity->path});
    expect_no_longer(improvement->trial, seconds, quantity->path);
    improvement->shorter = improvement->shorter || seconds < improvement->trial->seconds;
}

static void expect_links(const struct trial *trial)
{
    struct improvement improvement = {.trial = trial};
    platform_each_quantity(trial->platform, improve_one, &improvement);
    /* Under NCCL's limits of its own, no single number need help. */
    assert_true(improvement.shorter || trial->algorithm == ALGORITHM_NCCL);
}

static void a_faster_link_never_makes_a_step_longer(void **state)
{
    (void)state;
    each_trial(expect_links);
}

static void expect_device(const struct trial *trial)
{
    struct improvement improvement = {.trial = trial, .device = true};
    if (trial->nodes > 2)
        return;
    platform_each_quantity(trial->platform, improve_one, &improvement);
    assert_true(improvement.shorter);
}

static void a_faster_device_never_makes_a_step_longer(void **state)
{
    (void)state;
    each_trial(expect_device);
}

static void expect_random(const struct trial *trial)
{
    for (uint64_t seed = 0; seed < 5; seed++) {
        double seconds = seconds_after(trial, (struct change){.seed = seed});
        expect_no_longer(trial, seconds, "everything faster");
        assert_true(seconds < trial->seconds);
    }
}

static void a_machine_better_in_all_its_numbers_is_faster(void **state)
{
    (void)state;
    each_trial(expect_random);
}

static void expect_layers(const struct trial *trial)
{
    static const char *const networks[] = {"resnet101", "resnet50", "resnet34", "resnet18"};
    double before = INFINITY;
    for (size_t i = 0; i < sizeof(networks) / sizeof(*networks); i++) {
        struct schedule *schedule = build(trial, networks[i]);
        double seconds = step_seconds(trial, trial->platform, schedule);
        schedule_free(schedule);
        if (seconds >= before)
            fail_msg("%s by %s on %d nodes: %s takes %g s, a deeper one %g s",
                     platform_name(trial->platform), algorithm_names[trial->algorithm],
                     trial->nodes, networks[i], seconds, before);
        before = seconds;
    }
}

static void fewer_layers_never_make_a_step_longer(void **state)
{
    (void)state;
    each_trial(expect_layers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_faster_link_never_makes_a_step_longer),
        cmocka_unit_test(a_faster_device_never_makes_a_step_longer),
        cmocka_unit_test(a_machine_better_in_all_its_numbers_is_faster),
        cmocka_unit_test(fewer_layers_never_make_a_step_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
