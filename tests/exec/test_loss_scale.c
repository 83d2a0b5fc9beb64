#include "exec/step/optimizer.h"

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

TEST(goes_on_where_it_was)
{
    struct scenario scenario = scenario_of(1024, true, 5);
    struct loss_scale whole = loss_scale_init(&scenario), resumed;
    for (int i = 0; i < 20; i++) {
        if (i == 13)
            resumed = (struct loss_scale){
                .value = whole.value, .good_steps = whole.good_steps, .skipped = whole.skipped};
        loss_scale_update(&whole, i % 7 == 0, &scenario);
        if (i >= 13)
            loss_scale_update(&resumed, i % 7 == 0, &scenario);
    }
    assert_true(whole.value == resumed.value);
    assert_int_equal(whole.good_steps, resumed.good_steps);
    assert_int_equal(whole.skipped, resumed.skipped);
}
