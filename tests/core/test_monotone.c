#include "tests/core/trial.h"

#include <math.h>

#include "core/backend/floor.h"
#include "tests/core/own.h"
#include "tests/test.h"

/* A machine with all its numbers better, and a network with fewer layers, are faster: on every
 * platform there is, under every algorithm, in closed form.  That holds without exception, since a
 * step is a maximum of sums of times each of which falls.  (test_what_if.c changes one number at a
 * time; tests/sim/test_monotone.c asks the simulator, where links are shared.) */

/* Only rounding: the same sums in the same order. */
static const double slack = 1e-12;

/* A trial, and how long a step takes. */
struct timed {
    struct trial trial;
    double seconds;
};

/* --- every platform, several ways --- */

/* Passed on by trial_each_platform(). */
struct visitor {
    void (*visit)(const struct timed *timed);
};

static void try(const struct visitor *visitor, struct trial trial, enum algorithm algorithm)
{
    trial.algorithm = algorithm;
    trial.noise = (struct noise){.compute_cv = 0.02, .seed = 1};
    if (!trial_can_run(&trial))
        return;
    struct timed timed = {.trial = trial, .seconds = trial_seconds(&trial)};
    visitor->visit(&timed);
}

/* All algorithms among few nodes, the scalable ones where racks come into play. */
static void try_all(void *context, struct platform *platform)
{
    for (enum algorithm a = 0; a < ALGORITHM_COUNT; a++)
        try(context, trial_new(platform, 2), a);
    struct trial sharded = trial_new(platform, 2);
    sharded.sharded = true;
    try(context, sharded, ALGORITHM_RING);
    try(context, sharded, ALGORITHM_TORUS2D);
    try(context, sharded, ALGORITHM_NCCL);
    int32_t most = platform_nodes(platform);
    struct trial large = trial_new(platform, most > 0 && most < 36 ? most : 36);
    try(context, large, ALGORITHM_TORUS2D);
    try(context, large, ALGORITHM_NCCL);
}

static void each_trial(void (*visit)(const struct timed *timed))
{
    trial_each_platform(try_all, &(struct visitor){visit});
}

/* --- what is better --- */

static void expect_no_longer(const struct timed *timed, double seconds, const char *what)
{
    HELD(text) text = {0};
    trial_print(&text, &timed->trial);
    if (seconds > timed->seconds * (1 + slack))
        fail_msg("%s: %.17g s, with %s %.17g s", text.data, timed->seconds, what, seconds);
}

/* Of a step, and of each of NCCL's collectives, halves of an all-reduce among them. */
static void expect_floor(const struct timed *timed)
{
    OWN(fabric) *fabric = trial_fabric(&timed->trial);
    const struct schedule *schedule = trial_schedule(&timed->trial);
    struct run run = trial_run(&timed->trial, fabric);
    assert_true(timed->seconds >= (1 - 1e-9) * floor_iteration(&run, schedule).seconds);
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        if (step->kind == STEP_COLLECTIVE && step->collective.algorithm == ALGORITHM_NCCL)
            assert_true(run_nccl(&run, step).seconds >=
                        (1 - 1e-9) * floor_collective(fabric, schedule, id).seconds);
    }
}

TEST(no_step_beats_its_floor)
{
    each_trial(expect_floor);
}

/* Make all better, each by a factor of its own from 1 to 3. */
static void expect_random(const struct timed *timed)
{
    struct number_list list = trial_numbers(timed->trial.platform);
    double *before = base_alloc(list.count, sizeof(*before));
    for (uint64_t seed = 0; seed < 5; seed++) {
        for (int32_t i = 0; i < list.count; i++) {
            double factor = 1 + 2 * base_uniform(seed, (uint64_t)i, 0, 0);
            bool up = number_is_rate(&list.number[i]);
            before[i] = number_scale(&list.number[i], list.number[i].count ? 1
                                                      : up                 ? factor
                                                                           : 1 / factor);
        }
        double seconds = trial_seconds(&timed->trial);
        for (int32_t i = 0; i < list.count; i++)
            number_set(&list.number[i], before[i]);
        expect_no_longer(timed, seconds, "everything faster");
        assert_true(seconds < timed->seconds);
    }
    free(before);
    free(list.number);
}

TEST(a_machine_better_in_all_its_numbers_is_faster)
{
    each_trial(expect_random);
}

static void expect_layers(const struct timed *timed)
{
    static const char *const networks[] = {"resnet101", "resnet50", "resnet34", "resnet18"};
    struct trial trial = timed->trial;
    double before = INFINITY;
    for (size_t i = 0; i < sizeof(networks) / sizeof(*networks); i++) {
        trial.network = networks[i];
        double seconds = trial_seconds(&trial);
        if (seconds >= before)
            fail_msg("%s by %s on %d nodes: %s takes %g s, a deeper one %g s",
                     platform_name(trial.platform), algorithm_names[trial.algorithm], trial.nodes,
                     networks[i], seconds, before);
        before = seconds;
    }
}

TEST(fewer_layers_never_make_a_step_longer)
{
    each_trial(expect_layers);
}
