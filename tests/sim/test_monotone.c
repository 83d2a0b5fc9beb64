#include "sim/sim.h"

#include "tests/core/own.h"
#include "tests/sim/world.h"
#include "tests/test.h"

/* Does a better number never make a step longer?  Where every message has its links to itself, it
 * never does, as in closed form (tests/core/test_what_if.c).  Where messages share links it may:
 * a message that arrives earlier can then cross others it used to miss, and fair sharing slows them
 * all down.  What is always true is that a machine better by one factor in all its numbers is
 * faster by just that factor. */

/* Blocks are whole 2^-20 bytes in SimGrid, and times are sums of rounded terms. */
static const double rounding = 1e-9;

/* A step on a platform. */
struct trial {
    const char *name; /* of the platform */
    int32_t nodes;
    struct grid grid;
    enum algorithm algorithm;
    enum grain grain;
};

/* Which numbers get better. */
struct change {
    const char *path; /* of the only one; NULL: all */
    double faster, sooner;
};

static double improve(void *context, const struct quantity *quantity, enum unit unit)
{
    const struct change *change = context;
    if (change->path && strcmp(change->path, quantity->path) != 0)
        return 1;
    if (unit == UNIT_SECONDS)
        return change->sooner;
    return unit == UNIT_BYTES_PER_SECOND || change->path ? change->faster : 1;
}

/* Compute takes 1 / @speed of what world_step() says. */
static double step_seconds(const struct trial *trial, struct change change, double speed)
{
    OWN(platform) *platform = platform_of(trial->name);
    platform_scale(platform, improve, &change);
    OWN(fabric) *fabric = platform_fabric(platform, trial->nodes,
                                          platform_devices_per_node(platform), trial->grid, &err);
    assert_ok(fabric, err);
    OWN(schedule) *schedule = world_step(trial->grid, trial->algorithm, 3, 10000000);
    struct device device = *ideal_device();
    for (enum dtype dtype = 0; dtype < DTYPE_COUNT; dtype++)
        device.peak[dtype].value *= speed;
    struct run run = world_run(fabric, trial->grain);
    run.device = &device;
    return simulated_seconds(&run, schedule);
}

static const struct change nothing = {.faster = 1, .sooner = 1};

/* A trial, how long it takes as it is, and whether some better number helped. */
struct improvement {
    struct trial trial;
    double seconds;
    bool shorter;
};

static void improve_one(void *context, const struct quantity *quantity, enum unit unit)
{
    struct improvement *improvement = context;
    (void)unit;
    if (!strncmp(quantity->path, "device.", 7))
        return;
    struct change change = {.path = quantity->path, .faster = 1.5, .sooner = 0.5};
    double seconds = step_seconds(&improvement->trial, change, 1);
    if (seconds > improvement->seconds * (1 + rounding))
        fail_msg("%s by %s: %.12g s, with better %s %.12g s", improvement->trial.name,
                 algorithm_names[improvement->trial.algorithm], improvement->seconds,
                 quantity->path, seconds);
    improvement->shorter = improvement->shorter || seconds < improvement->seconds * (1 - rounding);
}

TEST(without_sharing_a_faster_link_never_makes_a_step_longer)
{
    static const struct trial trials[] = {
        {"torus-4x4", 16, {.columns = 4, .rows = 4}, ALGORITHM_TORUS2D, GRAIN_FOLDED},
        {"torus-4x4", 16, {.columns = 4, .rows = 4}, ALGORITHM_TORUS2D, GRAIN_FULL},
        {"t1-ring", 12, {.columns = 4, .rows = 3}, ALGORITHM_RING, GRAIN_FOLDED},
        {"t1-ring", 12, {.columns = 4, .rows = 3}, ALGORITHM_RING, GRAIN_FULL},
    };
    for (size_t i = 0; i < sizeof(trials) / sizeof(*trials); i++) {
        struct improvement improvement = {.trial = trials[i],
                                          .seconds = step_seconds(&trials[i], nothing, 1)};
        struct platform *platform = platform_of(trials[i].name);
        platform_each_quantity(platform, improve_one, &improvement);
        platform_free(platform);
        assert_true(improvement.shorter);
    }
}

/* Halving the latency inside a node of PCIe switches makes ring messages meet on them. */
static const struct trial meeting = {
    "dell-dss8440", 3, {.columns = 6, .rows = 5}, ALGORITHM_RING, GRAIN_FOLDED};

TEST(where_links_are_shared_a_lower_latency_may_cost_time)
{
    struct change change = {.path = "transport.inside", .faster = 1, .sooner = 0.5};
    for (enum grain grain = GRAIN_FOLDED; grain <= GRAIN_FULL; grain++) {
        struct trial trial = meeting;
        trial.grain = grain;
        double before = step_seconds(&trial, nothing, 1), after = step_seconds(&trial, change, 1);
        assert_true(after > before * (1 + rounding));
    }
}

TEST(a_machine_twice_as_good_throughout_is_twice_as_fast)
{
    struct change all = {.faster = 2, .sooner = 0.5};
    for (enum algorithm a = 0; a < ALGORITHM_NCCL; a++) {
        struct trial shared = meeting,
                     racks = {"abci", 36, {.columns = 8, .rows = 18}, a, GRAIN_FOLDED};
        shared.algorithm = a;
        if (a == ALGORITHM_HIERARCHICAL)
            continue;
        assert_relative(step_seconds(&shared, all, 2), step_seconds(&shared, nothing, 1) / 2,
                        rounding);
        assert_relative(step_seconds(&racks, all, 2), step_seconds(&racks, nothing, 1) / 2,
                        rounding);
    }
}
