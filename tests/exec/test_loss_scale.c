#include "exec/step/optimizer.h"

#include "exec/step/rate.h"
#include "tests/test.h"

static struct scenario scenario_of(double initial, bool dynamic, int64_t interval)
{
    struct scenario scenario = {0};
    scenario.training.loss_scale.initial = initial;
    scenario.training.loss_scale.dynamic = dynamic;
    scenario.training.loss_scale.interval = interval;
    scenario.model.gradients = DTYPE_FP16;
    return scenario;
}

TEST(a_static_scale_stays)
{
    struct scenario scenario = scenario_of(128, false, 2);
    struct loss_scale scale = loss_scale_init(&scenario);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(loss_scale_update(&scale, i == 4, &scenario), 0);
        assert_true(scale.value == 128);
    }
    assert_int_equal(scale.skipped, 1);
    assert_int_equal(scale.good_steps, 5);
}

/* Source: Micikevicius et al. 2018, section 3.2, with an interval of 3. */
TEST(a_dynamic_scale_halves_and_doubles)
{
    static const struct {
        bool overflow;
        double value;
    } course[] = {{true, 512},  {true, 256},  {false, 256}, {false, 256}, {false, 512},
                  {false, 512}, {false, 512}, {true, 256},  {false, 256}, {false, 256},
                  {false, 512}, {false, 512}, {false, 512}, {false, 1024}};
    struct scenario scenario = scenario_of(1024, true, 3);
    struct loss_scale scale = loss_scale_init(&scenario);
    for (size_t i = 0; i < sizeof(course) / sizeof(*course); i++) {
        loss_scale_update(&scale, course[i].overflow, &scenario);
        assert_true(scale.value == course[i].value);
    }
    assert_int_equal(scale.skipped, 3);
    assert_int_equal(scale.good_steps, 0);
}

TEST(a_dynamic_scale_has_bounds)
{
    struct scenario scenario = scenario_of(1, true, 1);
    struct loss_scale scale = loss_scale_init(&scenario);
    for (int i = 0; i < 1000; i++)
        loss_scale_update(&scale, false, &scenario);
    assert_true(scale.value == 0x1p40);
    for (int i = 0; i < 1000; i++)
        loss_scale_update(&scale, true, &scenario);
    assert_true(scale.value == 1e-9);
}

TEST(gives_up_after_a_hundred_skipped_steps_in_a_row)
{
    for (int dynamic = 0; dynamic < 2; dynamic++) {
        struct scenario scenario = scenario_of(1, dynamic, 1);
        struct loss_scale scale = loss_scale_init(&scenario);
        for (int i = 0; i < 99; i++)
            assert_int_equal(loss_scale_update(&scale, true, &scenario), 0);
        assert_int_equal(loss_scale_update(&scale, false, &scenario), 0);
        for (int i = 0; i < 99; i++)
            assert_int_equal(loss_scale_update(&scale, true, &scenario), 0);
        assert_int_equal(loss_scale_update(&scale, true, &scenario), -1);
        assert_int_equal(loss_scale_update(&scale, true, &scenario), -1);
        assert_int_equal(scale.skipped, 200);
        assert_int_equal(loss_scale_update(&scale, false, &scenario), 0);
    }
}

TEST(in_fp32_only_a_dynamic_scale_goes_on)
{
    static const struct {
        int32_t compute, gradients;
        bool dynamic;
        int result;
    } cases[] = {{DTYPE_FP32, DTYPE_FP32, false, -1},
                 {DTYPE_FP32, DTYPE_FP32, true, 0},
                 {DTYPE_FP16, DTYPE_FP32, false, 0},
                 {DTYPE_FP32, DTYPE_BF16, false, 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct scenario scenario = scenario_of(1, cases[i].dynamic, 10);
        scenario.model.compute = cases[i].compute;
        scenario.model.gradients = cases[i].gradients;
        struct loss_scale scale = loss_scale_init(&scenario);
        assert_int_equal(loss_scale_update(&scale, false, &scenario), 0);
        assert_int_equal(loss_scale_update(&scale, true, &scenario), cases[i].result);
        assert_int_equal(scale.skipped, 1);
    }
}

#define assert_same(value, expected) assert_near(value, expected, 1e-9 * fmax(expected, 1e-3))

/* A run over 1000 images. */
static struct recipe {
    struct scenario_phase phase[2];
    struct scenario_milestone milestone[3];
    struct scenario scenario;
} recipe;

/* 90 epochs at a rate of 0.4 after 5 epochs of warm-up. */
static void set_up(enum decay decay)
{
    recipe = (struct recipe){.phase = {{.epochs = 90, .global_batch = 100}},
                             .milestone = {{30, 0.1}, {60, 0.01}, {80, 0.001}}};
    struct scenario *scenario = &recipe.scenario;
    scenario->training.train_images = 1000;
    scenario->training.phase.item = recipe.phase;
    scenario->training.phase.count = 1;
    scenario->training.warmup_epochs = 5;
    scenario->training.weight_decay = 5e-5;
    scenario->training.data.augment = true;
    scenario->training.learning_rate.base = 0.4;
    scenario->training.learning_rate.decay = decay;
    scenario->training.learning_rate.power = 2;
    scenario->training.learning_rate.cycles = 1;
    scenario->training.learning_rate.milestone.item = recipe.milestone;
    scenario->training.learning_rate.milestone.count = 3;
}

static struct rate at(double epoch)
{
    HELD(plan) plan = plan_build(&recipe.scenario, 1);
    return rate_at(&recipe.scenario, &plan, epoch, 100);
}

/* Learning rates of a way to fall, each behind its epoch. */
static const struct course {
    enum decay decay;
    int32_t cycles;
    double power, final;
    const char *rates;
} courses[] = {
    {DECAY_CONSTANT, 1, 2, 0, "0 0  1 0.08  2.5 0.2  5 0.4  50 0.4  90 0.4"},
    /* Goyal et al. 2017, a tenth at epochs 30, here but for the last bits, 60 and 80. */
    {DECAY_STEP, 1, 2, 0, "4.9 0.392  5 0.4  29.999 0.4  29.99999999999997 0.04  30 0.04"},
    {DECAY_STEP, 1, 2, 0, "59.999 0.04  60 0.004  80 0.0004  90 0.0004"},
    {DECAY_STEP, 2, 2, 0, "44 0.04  50 0.4  75 0.04"}, /* from the start of a cycle */
    {DECAY_POLYNOMIAL, 1, 2, 0, "5 0.4  47.5 0.1  68.75 0.025  90 0"},
    {DECAY_POLYNOMIAL, 1, 1, 0.1, "5 0.4  47.5 0.22  90 0.04"},
    {DECAY_POLYNOMIAL, 3, 2, 0, "0 0  5 0.4  17.5 0.1  30 0  35 0.4  60 0  77.5 0.1"},
    {DECAY_POLYNOMIAL, 3, 2, 0, "89.999999 0  90 0"},
    /* (1 + cos(pi / 4)) / 2 = 0.853553390593 */
    {DECAY_COSINE, 1, 2, 0, "5 0.4  26.25 0.341421356237  47.5 0.2  68.75 0.0585786437627  90 0"},
    {DECAY_COSINE, 1, 2, 0.5, "47.5 0.3  90 0.2"},
};

TEST(rises_in_a_line_and_falls_as_it_is_told)
{
    for (size_t i = 0; i < ARRAY_SIZE(courses); i++) {
        set_up(courses[i].decay);
        recipe.scenario.training.learning_rate.cycles = courses[i].cycles;
        recipe.scenario.training.learning_rate.power = courses[i].power;
        recipe.scenario.training.learning_rate.final = courses[i].final;
        for (char *next = (char *)courses[i].rates; *next;) {
            double epoch = strtod(next, &next), expected = strtod(next, &next);
            double rate = at(epoch).learning_rate;
            if (fabs(rate - expected) > 1e-9 * fmax(expected, 1e-3))
                fail_msg("row %zu: %.17g at epoch %g", i, rate, epoch);
        }
    }
    set_up(DECAY_CONSTANT);
    recipe.scenario.training.warmup_epochs = 0;
    assert_same(at(0).learning_rate, 0.4);
}

TEST(is_continuous_where_the_warm_up_ends_and_never_rises_after)
{
    for (enum decay decay = 0; decay < DECAY_COUNT; decay++) {
        set_up(decay);
        assert_true(fabs(at(5 - 1e-9).learning_rate - 0.4) < 1e-9);
        assert_true(fabs(at(5 + 1e-9).learning_rate - 0.4) < 1e-9);
        double last = INFINITY;
        for (int32_t i = 500; i <= 9000; i++) {
            double rate = at(i / 100.0).learning_rate;
            assert_true(rate >= 0 && rate <= last);
            last = rate;
        }
    }
}

TEST(ends_each_cycle_in_a_collapse)
{
    set_up(DECAY_POLYNOMIAL);
    recipe.scenario.training.learning_rate.cycles = 2;
    recipe.scenario.training.collapse.epochs = 10;
    recipe.scenario.training.collapse.learning_rate = 0.05;
    recipe.scenario.training.collapse.power = 1;
    recipe.scenario.training.collapse.weight_decay = 1e-4;
    for (int32_t cycle = 0; cycle < 2; cycle++) {
        double start = 45 * cycle;
        assert_same(at(start + 20).learning_rate, 0.1); /* half of 5 ... 35, squared */
        assert_same(at(start + 20).weight_decay, 5e-5);
        assert_true(at(start + 20).augment);
        assert_true(at(start + 34.999).learning_rate < 1e-8);
        assert_same(at(start + 35).learning_rate, 0.05);
        assert_same(at(start + 40).learning_rate, 0.025);
        assert_same(at(start + 40).weight_decay, 1e-4);
        assert_false(at(start + 40).augment);
    }
    assert_same(at(45).learning_rate, 0);
    assert_same(at(45).weight_decay, 5e-5);
    assert_same(at(90).learning_rate, 0);
}

/* Batch-size control: the rate follows the batch when it has one to be relative to. */
TEST(follows_the_batch_in_proportion)
{
    set_up(DECAY_CONSTANT);
    HELD(plan) plan = plan_build(&recipe.scenario, 1);
    assert_same(rate_at(&recipe.scenario, &plan, 50, 34816).learning_rate, 0.4);
    recipe.scenario.training.learning_rate.base = 0.1;
    recipe.scenario.training.learning_rate.base_batch = 256;
    assert_same(rate_at(&recipe.scenario, &plan, 50, 256).learning_rate, 0.1);
    assert_same(rate_at(&recipe.scenario, &plan, 50, 8192).learning_rate, 3.2); /* Goyal et al. */
    assert_same(rate_at(&recipe.scenario, &plan, 50, 34816).learning_rate, 13.6);
    assert_same(rate_at(&recipe.scenario, &plan, 50, 69632).learning_rate, 27.2);
    assert_same(rate_at(&recipe.scenario, &plan, 2.5, 8192).learning_rate, 1.6);
}

/* The decay runs over all phases together, not over each. */
TEST(decays_across_phases)
{
    set_up(DECAY_POLYNOMIAL);
    recipe.phase[0] = (struct scenario_phase){.epochs = 30, .global_batch = 100};
    recipe.phase[1] = (struct scenario_phase){.epochs = 60, .global_batch = 200};
    recipe.scenario.training.phase.count = 2;
    assert_same(at(47.5).learning_rate, 0.1);
    assert_same(at(90).learning_rate, 0);
}

/* Source: Codreanu, Podareanu and Saletore 2017, solver files of their 448-node run (repository
 * sara-nl/caffe, models/intel_optimized_models/multinode): 8040 iterations of 14336 images, 446 of
 * them warm-up, rate 4.8 in a line towards 0, weight decay 5e-5; from 402 iterations before the end
 * the collapse, rate 0.254 with power 2, weight decay 1e-4.  The collapse begins where the line has
 * come to: 4.8 * 402 / (8040 - 446) = 0.2541.  Their warm-up starts at 0.1, ours at 0. */
TEST(is_the_schedule_of_codreanu)
{
    static const struct {
        double iteration, rate, decay;
    } expected[] = {{446, 4.8, 5e-5},
                    {2344.5, 3.6, 5e-5},
                    {4243, 2.4, 5e-5},
                    {6141.5, 1.2, 5e-5},
                    {7637, 4.8 * 403 / 7594, 5e-5},
                    {7638, 0.254, 1e-4},
                    {7839, 0.0635, 1e-4},
                    {7939.5, 0.015875, 1e-4},
                    {8040, 0, 1e-4}};
    const double epochs = 14336.0 / 1281167; /* of an iteration */
    set_up(DECAY_POLYNOMIAL);
    struct scenario *scenario = &recipe.scenario;
    scenario->training.train_images = 1281167;
    recipe.phase[0] = (struct scenario_phase){.epochs = 8040 * epochs, .global_batch = 14336};
    scenario->training.warmup_epochs = 446 * epochs;
    scenario->training.learning_rate.base = 4.8;
    scenario->training.learning_rate.power = 1;
    scenario->training.learning_rate.final = 402.0 / 7594;
    scenario->training.collapse.epochs = 402 * epochs;
    scenario->training.collapse.learning_rate = 0.254;
    scenario->training.collapse.power = 2;
    scenario->training.collapse.weight_decay = 1e-4;
    HELD(plan) plan = plan_build(scenario, 896);
    assert_int_equal(plan.phase[0].steps, 8040);
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
        struct rate rate = rate_at(scenario, &plan, expected[i].iteration * epochs, 14336);
        assert_same(rate.learning_rate, expected[i].rate);
        assert_same(rate.weight_decay, expected[i].decay);
    }
}
