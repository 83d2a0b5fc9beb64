#include "core/report/report.h"

#include <math.h>

#include "config.h"
#include "tests/core/own.h"
#include "tests/test.h"

#define assert_same(value, expected) assert_near(value, expected, 1e-12)

/* --- breakdown --- */

enum { FORWARD, BACKWARD, ROW, COLUMN, INPUT, OPTIMIZER };

/* A schedule of the six steps above. */
static struct schedule *six_steps(void)
{
    struct schedule *schedule = schedule_new((struct grid){.columns = 2, .rows = 2});
    struct step step[] = {
        {.lane = LANE_COMPUTE, .compute = {.op = COMPUTE_FORWARD}},
        {.lane = LANE_COMPUTE, .compute = {.op = COMPUTE_BACKWARD_FILTER}},
        {.kind = STEP_COLLECTIVE, .lane = LANE_ROW, .collective = {.axis = AXIS_ROW}},
        {.kind = STEP_COLLECTIVE, .lane = LANE_COLUMN, .collective = {.axis = AXIS_COLUMN}},
        {.kind = STEP_INPUT, .lane = LANE_INPUT},
        {.lane = LANE_COMPUTE, .compute = {.op = COMPUTE_OPTIMIZER}},
    };
    for (int32_t i = 0; i < 6; i++)
        schedule_add(schedule, step[i], NULL, 0);
    return schedule;
}

/* Iteration 0 ends at 10 s; what rank 1 does in iteration 1 is up to the test. */
static struct trace started(void)
{
    struct trace trace = {.ranks = 4};
    trace_add(&trace, (struct span){0, 1, OPTIMIZER, 9, 10});
    trace_finish(&trace, 0, 10);
    return trace;
}

static void ran(struct trace *trace, int32_t rank, int32_t step, double begin, double end)
{
    trace_add(trace, (struct span){1, rank, step, begin, end});
    trace_finish(trace, 1, end);
}

static struct breakdown broken_down(struct trace *trace)
{
    OWN(schedule) *schedule = six_steps();
    struct breakdown step =
        report_breakdown(schedule, (struct slowdown){0}, trace, trace_step_time(trace));
    assert_true(
        step.compute + step.exposed_communication + step.input_wait + step.other == step.time ||
        fabs(step.compute + step.exposed_communication + step.input_wait + step.other - step.time) <
            1e-15 * step.time);
    assert_same(step.exposed_row + step.exposed_column, step.exposed_communication);
    trace_release(trace);
    return step;
}

/* Rank 1 forward and backward, with both collectives beside backward for 3.5 of its 4 s. */
static struct trace overlapped(void)
{
    struct trace trace = started();
    ran(&trace, 1, FORWARD, 10, 12);
    ran(&trace, 1, BACKWARD, 12, 16);
    ran(&trace, 1, ROW, 12, 13);
    ran(&trace, 1, COLUMN, 13, 15.5);
    ran(&trace, 1, OPTIMIZER, 16, 17);
    return trace;
}

TEST(communication_behind_compute_is_not_exposed)
{
    struct trace trace = overlapped();
    struct breakdown step = broken_down(&trace);
    assert_same(step.time, 7);
    assert_same(step.compute, 6);
    assert_same(step.exposed_communication, 0);
    assert_same(step.other, 1);
}

/* At 2/3 of the speed. */
TEST(what_compute_lost_beside_collectives_is_apart)
{
    OWN(schedule) *schedule = six_steps();
    HELD(trace) trace = overlapped();
    struct breakdown step = report_breakdown(schedule, (struct slowdown){0.5, 0}, &trace, 7);
    assert_same(step.slowed, 3.5 / 3);
    assert_same(step.compute, 6 - 3.5 / 3);
    assert_same(step.other, 1);
}

TEST(exposed_communication_belongs_to_the_axis_waited_for)
{
    struct trace trace = started();
    ran(&trace, 1, FORWARD, 10, 12);
    ran(&trace, 1, BACKWARD, 12, 14);
    ran(&trace, 1, ROW, 13, 15);    /* one second exposed */
    ran(&trace, 1, COLUMN, 15, 18); /* three */
    ran(&trace, 1, ROW, 18, 18.5);  /* and a half */
    ran(&trace, 1, OPTIMIZER, 18.5, 19);
    struct breakdown step = broken_down(&trace);
    assert_same(step.compute, 4);
    assert_same(step.exposed_row, 1.5);
    assert_same(step.exposed_column, 3);
    assert_same(step.other, 0.5);
}

TEST(where_both_axes_run_the_column_is_waited_for)
{
    struct trace trace = started();
    ran(&trace, 1, ROW, 10, 13);
    ran(&trace, 1, COLUMN, 11, 12);
    struct breakdown step = broken_down(&trace);
    assert_same(step.exposed_row, 2);
    assert_same(step.exposed_column, 1);
}

TEST(waiting_for_images_is_input_wait)
{
    struct trace trace = started();
    ran(&trace, 1, INPUT, 8, 11); /* begun while the last iteration still ran */
    ran(&trace, 1, FORWARD, 11, 12);
    ran(&trace, 1, OPTIMIZER, 12.5, 13); /* after half a second of nothing */
    struct breakdown step = broken_down(&trace);
    assert_same(step.input_wait, 1);
    assert_same(step.compute, 1);
    assert_same(step.other, 1);
}

TEST(the_rank_that_finishes_last_is_described)
{
    struct trace trace = started();
    ran(&trace, 0, FORWARD, 10, 19);
    ran(&trace, 1, FORWARD, 10, 12);
    ran(&trace, 1, COLUMN, 12, 20);
    struct breakdown step = broken_down(&trace);
    assert_same(step.time, 10);
    assert_same(step.compute, 2);
    assert_same(step.exposed_column, 8);
}

TEST(a_single_iteration_counts_from_the_start)
{
    struct trace trace = {0};
    trace_add(&trace, (struct span){0, 0, FORWARD, 1, 3});
    trace_finish(&trace, 0, 3);
    struct breakdown step = broken_down(&trace);
    assert_same(step.time, 3);
    assert_same(step.compute, 2);
    assert_same(step.other, 1);
}

/* Whatever overlaps whatever, every instant is counted once. */
TEST(any_trace_sums_to_its_time)
{
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct trace trace = started();
        for (uint64_t i = 0; i < 30; i++) {
            double begin = 8 + 5 * base_uniform(seed, i, 0, 0);
            ran(&trace, 1, (int32_t)(6 * base_uniform(seed, i, 1, 0)), begin,
                begin + 2 * base_uniform(seed, i, 2, 0));
        }
        struct breakdown step = broken_down(&trace);
        assert_true(step.compute >= 0 && step.exposed_row >= 0 && step.exposed_column >= 0);
        assert_true(step.input_wait >= 0 && step.other >= -1e-12);
    }
}

/* --- bottleneck --- */

TEST(names_the_links_that_limit_an_axis)
{
    static const struct link_kind kind[] = {{"fast", 75e9, 1e-6}, {"slow", 25e9, 5e-6}};
    OWN(fabric) *fabric = fabric_lay_torus((struct grid){.columns = 4, .rows = 4}, 2, kind, 0);
    OWN(schedule) *schedule = schedule_new((struct grid){.columns = 4, .rows = 4});
    schedule_add_all_reduce(schedule, ALGORITHM_TORUS2D, 0, 0, 1000, -1);
    assert_string_equal(fabric->tier_name[report_bottleneck(fabric, schedule, AXIS_ROW, NULL)],
                        "fast");
    assert_string_equal(fabric->tier_name[report_bottleneck(fabric, schedule, AXIS_COLUMN, NULL)],
                        "slow");
    assert_int_equal(report_bottleneck(fabric, schedule, AXIS_WORLD, NULL), -1);
}

/* --- result --- */

static struct result example(const struct scenario *scenario)
{
    struct result result = {.scenario = scenario,
                            .memory = {1, 2, 3, 4, 5, 6, 7},
                            .memory_total = 28,
                            .device_memory = 80,
                            .platform = base_copy("abci"),
                            .sha256 = "0123abcd",
                            .schedule_hash = UINT64_C(0xfedcba9876543210),
                            .platform_hash = UINT64_C(0x0123456789abcdef),
                            .backend = "sim",
                            .grain = "folded",
                            .images_unit = UNIT_IMAGES_PER_SECOND,
                            .grid = {34, 32},
                            .devices = 1088,
                            .nodes = 272,
                            .step = {.time = 0.1,
                                     .compute = 0.05,
                                     .slower = 0.01,
                                     .exposed_communication = 0.031,
                                     .exposed_row = 0.001,
                                     .exposed_column = 0.03,
                                     .input_wait = 0,
                                     .other = 0.009},
                            .step_likely = {0.09, 0.125},
                            .images_per_s = 348160,
                            .images_likely = {300000, 400000},
                            .weak = {.efficiency = 0.9162,
                                     .likely = {0.875, 0.95},
                                     .devices = 4,
                                     .batch = 32,
                                     .images_per_s = 1397.25},
                            .train_likely = {NAN, NAN},
                            .evaluation_s = 2.5,
                            .startup_s = 12,
                            .time_to_train_s = 365.6,
                            .toll.work = 365.6,
                            .bound_by = base_copy("communication"),
                            .sentence = base_copy("communication-bound: 31 % of each step waits")};
    static struct phase phase[] = {{45, 1088, 16, 17408, 16, 3312, {0, 0}},
                                   {45, 1088, 32, 34816, 32, 1656, {0, 0}}};
    result.plan = (struct plan){.phase = phase, .phase_count = 2, .epochs = 90, .evaluations = 90};
    result.phase_step_time = base_alloc(2, sizeof(double));
    result.phase_step_time[0] = 0.06;
    result.phase_step_time[1] = 0.1;
    result_add(&result.assumption, &result.assumption_count,
               base_copy("device.kernel_overhead = 3 us (no source)"));
    result_add(&result.assumption, &result.assumption_count, base_copy("a grid"));
    result_add(&result.warning, &result.warning_count, base_copy("coarse"));
    return result;
}

TEST(prints_a_table_a_sentence_and_what_is_assumed)
{
    char network[] = "resnet50";
    struct scenario scenario = {.model.network = network};
    HELD(result) result = example(&scenario);
    HELD(text) text = {0};
    result_print(&text, &result, REPORT_WHOLE);
    assert_string_equal(
        text.data,
        "resnet50 on abci: 1088 devices in 272 nodes, grid of 34 columns x 32 rows\n"
        "back end sim, grain folded, schedule fedcba9876543210\n"
        "\n"
        "  step                              100 ms\n"
        "    90 % interval                    90 ms to 125 ms\n"
        "    compute                          50 ms    50.0 %\n"
        "    slower ranks                     10 ms    10.0 %\n"
        "    exposed communication            31 ms    31.0 %\n"
        "      in rows                         1 ms     1.0 %\n"
        "      in columns                     30 ms    30.0 %\n"
        "    input wait                         0 s     0.0 %\n"
        "    optimizer and other               9 ms     9.0 %\n"
        "  throughput               348000 images/s\n"
        "    90 % interval          300000 images/s to 400000 images/s\n"
        "  scaling efficiency                91.6 %   weak, of 4 devices with 1397 images/s "
        "at 32 each\n"
        "    90 % interval                   87.5 % to 95.0 %\n"
        "  evaluation                         2.5 s\n"
        "  start-up                            12 s\n"
        "  time to train                    365.6 s\n"
        "\n"
        "  phase   epochs  batch per device  global batch    steps          step\n"
        "      1       45                16         17408     3312         60 ms\n"
        "      2       45                32         34816     1656        100 ms\n"
        "\n"
        "communication-bound: 31 % of each step waits\n"
        "\n"
        "assumptions\n"
        "  device    device.kernel_overhead = 3 us (no source)\n"
        "  training  a grid\n"
        "\n"
        "warnings\n"
        "  coarse\n");
}

TEST(prints_twelve_lines_and_assumptions_without_reasons)
{
    char network[] = "resnet50";
    struct scenario scenario = {.model.network = network};
    HELD(result) result = example(&scenario);
    HELD(text) brief = {0}, usual = {0};
    result_print(&brief, &result, REPORT_BRIEF);
    assert_string_equal(
        brief.data, "resnet50 on abci: 1088 devices in 272 nodes, grid of 34 columns x 32 rows\n"
                    "  step                              100 ms\n"
                    "    90 % interval                    90 ms to 125 ms\n"
                    "  scaling efficiency                91.6 %\n"
                    "    90 % interval                   87.5 % to 95.0 %\n"
                    "  time to train                    365.6 s\n"
                    "communication-bound: 31 % of each step waits\n"
                    "assumptions: 2, warnings: 1\n");
    result_print(&usual, &result, REPORT_USUAL);
    assert_has(usual.data, "assumptions (with reasons: --assumptions)\n"
                           "  device    device.kernel_overhead = 3 us\n"
                           "  training  a grid\n");
}

TEST(prints_the_time_to_a_target_with_its_parts)
{
    char network[] = "resnet50";
    struct scenario scenario = {.model.network = network, .training.target = 0.759};
    HELD(result) result = example(&scenario);
    result.train_likely = (struct interval){300, 500};
    result.to_target = (struct to_target){360, {84, 96}, 0.25};
    HELD(text) text = {0};
    result_print(&text, &result, REPORT_WHOLE);
    assert_has(text.data,
               "  epochs                              90.0   mean\n"
               "    90 % interval                     84.0 to 96.0\n"
               "  time to 75.9 %                     370 s   mean epochs, no slow node\n"
               "    median                           360 s   of samples, some with a slow node\n"
               "    90 % interval                    300 s to 500 s\n"
               "    by the epochs                     25 %   of its variance\n"
               "    steps                          351.1 s    96.0 %\n"
               "    evaluation                       2.5 s     0.7 %\n"
               "    start-up                          12 s     3.3 %\n");
    assert_null(strstr(text.data, "time to train"));
}

/* The JSON text in one line, with ' for ". */
static const char *const json_parts[] = {
    "{'schema': 'foretrain/result/2', 'version': '" FORETRAIN_VERSION
    "', 'scenario_sha256': '0123abcd', ",
    "'schedule_hash': 'fedcba9876543210', 'backend': 'sim', 'grain': 'folded', ",
    "'platform': 'abci', 'platform_hash': '0123456789abcdef', 'nodes': 272, 'devices': 1088, ",
    "'grid': {'columns': 34, 'rows': 32}, 'step_s': 0.10000000000000001, ",
    "'step_s_low': 0.089999999999999997, 'step_s_high': 0.125, ",
    "'step': {'compute_s': 0.050000000000000003, 'exposed_communication_s': 0.031, ",
    "'exposed_row_s': 0.001, 'exposed_column_s': 0.029999999999999999, 'slowed_s': 0.0, ",
    "'slower_ranks_s': 0.01, 'input_wait_s': 0.0, 'other_s': 0.0089999999999999993}, ",
    "'images_per_s': 348160.0, 'images_per_s_low': 300000.0, 'images_per_s_high': 400000.0, ",
    "'memory': {'weights_bytes': 1, 'gradients_bytes': 2, 'optimizer_bytes': 3, "
    "'activations_bytes': "
    "4, 'loss_bytes': 5, 'input_bytes': 6, 'workspace_bytes': 7, "
    "'reserve_bytes': 0, 'total_bytes': 28, 'device_bytes': 80, 'fits': 0.0}, ",
    "'scaling_efficiency': 0.91620000000000001, 'scaling_efficiency_low': 0.875, ",
    "'scaling_efficiency_high': 0.94999999999999996, ",
    "'baseline': {'devices': 4, 'batch_per_device': 32, 'images_per_s': 1397.25}, ",
    "'scaling': 'weak', 'weak_scaling_efficiency': 0.91620000000000001, ",
    "'weak_scaling_efficiency_low': 0.875, ",
    "'weak_scaling_efficiency_high': 0.94999999999999996, ",
    "'strong_scaling_efficiency': null, 'strong_scaling_efficiency_low': null, ",
    "'strong_scaling_efficiency_high': null, 'nccl': null, 'exchanges': [], ",
    "'phases': [{'epochs': 45.0, 'batch_per_device': 16, 'devices': 1088, ",
    "'global_batch': 17408, 'steps': 3312, 'step_s': 0.059999999999999998}, ",
    "{'epochs': 45.0, 'batch_per_device': 32, 'devices': 1088, 'global_batch': 34816, ",
    "'steps': 1656, 'step_s': 0.10000000000000001}], 'epochs': 90.0, ",
    "'epochs_low': null, 'epochs_high': null, ",
    "'evaluation_s': 2.5, 'startup_s': 12.0, 'time_to_train_s': 365.60000000000002, ",
    "'time_to_train_s_low': null, 'time_to_train_s_high': null, ",
    "'failures': {'mtbf_s': null, 'expected': null, ",
    "'restart_s': null, 'checkpoint_s': null, 'checkpoints': null, 'interval_s': null, ",
    "'interval_epochs': null, 'interval_from': null, 'daly_s': null, 'young_s': null, ",
    "'saving_s': null, 'failing_s': null, 'without_s': null, 'without_s_low': null, ",
    "'without_s_high': null}, 'cost': null, 'cost_low': null, 'cost_high': null, ",
    "'energy_kwh': null, 'energy_kwh_low': null, 'energy_kwh_high': null, ",
    "'carbon_kg': null, 'carbon_kg_low': null, 'carbon_kg_high': null, ",
    "'currency': null, 'prices': null, ",
    "'unknown_inputs': [], 'interval_shares': [], 'draws': {'count': 0, 'impossible': 0, ",
    "'simulated': 0, 'simulated_over_closed_form_low': null, ",
    "'simulated_over_closed_form_high': null}, 'target': null, 'recipe': null, ",
    "'time_to_train_median_s': null, 'bound_by': 'communication', ",
    "'sentence': 'communication-bound: 31 % of each step waits', ",
    "'assumptions': ['device.kernel_overhead = 3 us (no source)', 'a grid'], 'warnings': "
    "['coarse']}",
};

/* @text with its lines joined. */
static void join(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++)
        if (*from != '\n')
            *to++ = *from == '"' ? '\'' : *from;
        else if (from += strspn(from + 1, " "), to[-1] == ',')
            *to++ = ' ';
    *to = '\0';
}

TEST(prints_every_key_of_the_schema_as_json)
{
    struct scenario scenario = {0};
    HELD(result) result = example(&scenario);
    OWN(json) *json = result_json(&result, &(struct report_exchanges){0});
    HELD(text) text = {0};
    json_print(&text, json);
    join(text.data);
    const char *at = text.data;
    for (size_t i = 0; i < sizeof(json_parts) / sizeof(*json_parts); i++) {
        if (strncmp(at, json_parts[i], strlen(json_parts[i])) != 0)
            fail_msg("no %s at:\n%.200s", json_parts[i], at);
        at += strlen(json_parts[i]);
    }
    assert_string_equal(at, "");
}
