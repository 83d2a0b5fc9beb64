#include "core/scenario/phase.h"

#include "tests/test.h"

/* ImageNet in @count phases. */
static struct scenario scenario_of(struct scenario_phase *phase, int32_t count)
{
    return (struct scenario){.training = {.train_images = 1281167, .phase = {phase, count}}};
}

/* The same on so many devices. */
static struct plan plan_of(struct scenario_phase *phase, int32_t count, int64_t devices,
                           double evaluate_every)
{
    struct scenario scenario = scenario_of(phase, count);
    scenario.training.evaluate_every = evaluate_every;
    return plan_build(&scenario, devices);
}

TEST(counts_the_steps_of_each_phase)
{
    struct scenario_phase phase[] = {{.epochs = 45, .batch_per_device = 16},
                                     {.epochs = 45, .batch_per_device = 32}};
    HELD(plan) plan = plan_of(phase, 2, 1088, 0);
    assert_int_equal(plan.phase_count, 2);
    assert_int_equal(plan.phase[0].global_batch, 17408);
    assert_int_equal(plan.phase[0].steps, 3312); /* 45 * 1281167 / 17408 = 3311.84 */
    assert_int_equal(plan.phase[1].global_batch, 34816);
    assert_int_equal(plan.phase[1].steps, 1656); /* 1655.92 */
    assert_true(plan.epochs == 90);
    assert_int_equal(plan.evaluations, 0);
}

TEST(does_not_round_an_exact_count_up)
{
    for (int32_t tenths = 1; tenths < 1000; tenths++) {
        struct scenario_phase phase = {.epochs = tenths / 10.0, .batch_per_device = 1};
        struct scenario scenario = scenario_of(&phase, 1);
        scenario.training.train_images = 1000;
        HELD(plan) plan = plan_build(&scenario, 100);
        assert_int_equal(plan.phase[0].steps, tenths);
    }
}

TEST(a_global_batch_is_shared_out)
{
    struct scenario_phase phase = {.epochs = 2, .global_batch = 4096};
    HELD(plan) plan = plan_of(&phase, 1, 64, 0);
    assert_int_equal(plan.phase[0].batch_per_device, 64);
    assert_int_equal(plan.phase[0].global_batch, 4096);
    assert_int_equal(plan.phase[0].steps, 626); /* 2 * 1281167 / 4096 = 625.57 */
}

TEST(a_part_of_a_step_is_a_step)
{
    struct scenario_phase phase = {.epochs = 0.001, .batch_per_device = 32};
    HELD(plan) plan = plan_of(&phase, 1, 4096, 0);
    assert_int_equal(plan.phase[0].steps, 1);
}

/* Batches per device are those of a pass, global ones of a step. */
TEST(passes_of_a_step_share_its_batch)
{
    struct scenario_phase phase[] = {{.epochs = 1, .batch_per_device = 32},
                                     {.epochs = 1, .global_batch = 8192},
                                     {.epochs = 1, .global_batch = 8200, .round = ROUND_UP}};
    struct scenario scenario = scenario_of(phase, 3);
    scenario.training.accumulate = 4;
    HELD(plan) plan = plan_build(&scenario, 16);
    static const int64_t global[] = {2048, 8192, 8256}, micro[] = {32, 128, 129};
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(plan.phase[i].global_batch, global[i]);
        assert_int_equal(plan.phase[i].batch_per_device, global[i] / 16);
        assert_int_equal(plan.phase[i].micro_batch, micro[i]);
    }
}

/* Of more than 2 on each of 16. */
TEST(rounds_to_whole_micro_batches)
{
    struct scenario_phase phase[] = {{.epochs = 1, .global_batch = 8208, .round = ROUND_DOWN},
                                     {.epochs = 1, .global_batch = 17, .round = ROUND_UP}};
    struct scenario scenario = scenario_of(phase, 2);
    scenario.training.micro_batch = 2;
    HELD(plan) plan = plan_build(&scenario, 16);
    assert_int_equal(plan.phase[0].global_batch, 8192);
    assert_int_equal(plan.phase[1].global_batch, 32);
}

TEST(evaluates_as_often_as_asked)
{
    static const double every[] = {1, 4, 0.1, 91};
    static const int64_t expected[] = {90, 22, 900, 0};
    struct scenario_phase phase[] = {{.epochs = 45, .batch_per_device = 16},
                                     {.epochs = 45, .batch_per_device = 32}};
    for (int i = 0; i < 4; i++) {
        HELD(plan) plan = plan_of(phase, 2, 1088, every[i]);
        assert_int_equal(plan.evaluations, expected[i]);
    }
}

/* Half of the 35 epochs that 1632 images take, then half of the 45.4 that 13056 take, and 0.112
 * evaluations of 4 epochs: 17.5 + 22.7 + 0.448. */
TEST(a_target_decides_the_last_phase)
{
    char recipe[] = "rcp-nvidia";
    struct scenario_phase phase[] = {{.epochs = 17.5, .global_batch = 1632},
                                     {.global_batch = 13056}};
    struct scenario scenario = scenario_of(phase, 2);
    scenario.training.evaluate_every = 4;
    scenario.training.target = 0.759;
    scenario.training.recipe = recipe;
    HELD(plan) plan = plan_build(&scenario, 32);
    assert_true(fabs(plan_progress(&plan, 0) - (0.5)) <= 1e-9);
    assert_true(fabs(plan.phase[0].epochs - (17.5)) <= 0);
    assert_true(fabs(plan.phase[1].epochs - (22.7 + 0.448)) <= 1e-9);
    assert_true(fabs(plan.epochs - (40.2 + 0.448)) <= 1e-9);
    assert_int_equal(plan.phase[1].steps, 2272); /* 23.148 * 1281167 / 13056 = 2271.51 */
    assert_int_equal(plan.evaluations, 11);      /* 40.648 / 4 = 10.2, and one at the end */
    assert_true(fabs(plan_end(&plan, 4, 0, 0.5) - (40)) <= 0);   /* 40.2 as whole epochs */
    assert_true(fabs(plan_end(&plan, 4, 0, 0.05) - (44)) <= 0);  /* 1 in 9.9 needs one more */
    assert_true(fabs(plan_end(&plan, 4, 0, 0.009) - (48)) <= 0); /* 1 in 98.6 two */
    assert_true(plan_end(&plan, 4, 3, 0.5) > 40);
}
