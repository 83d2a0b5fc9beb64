#include "core/traffic/workload.h"

#include "tests/core/own.h"
#include "tests/test.h"

/* A step of two computations and an all-reduce of 16 ranks, as foretrain-sim reads it. */
static void describe(struct text *out)
{
    static const struct device device = {.memory_bandwidth.value = 1e12,
                                         .memory_efficiency.value = 1};
    struct grid grid = {.columns = 4, .rows = 4};
    OWN(fabric) *fabric = ideal_torus(grid);
    OWN(schedule) *schedule = schedule_new(grid);
    struct step compute = {.lane = LANE_COMPUTE, .compute = {.bytes = 1000000}};
    int32_t first = schedule_add(schedule, compute, NULL, 0);
    struct dep sum = {schedule_add_all_reduce(schedule, ALGORITHM_TORUS2D, 1, 0, 1003, first), 0};
    schedule_add(schedule, compute, &sum, 1);
    struct run run = {.fabric = fabric,
                      .device = &device,
                      .iterations = 2,
                      .noise = {.compute_cv = 0.1, .seed = UINT64_MAX}};
    run.grain = GRAIN_FOLDED;
    assert_ok(workload_describe(out, &run, sealed(schedule), &err) == 0, err);
}

static int parse(struct workload *workload, const struct text *text)
{
    int failed = workload_read(workload, "stdin", text->data, text->length, &err);
    if (failed)
        assert_message(&err, 65, "stdin");
    err_release(&err);
    return failed;
}

TEST(what_is_read_is_what_was_written)
{
    HELD(text) text = {0}, again = {0};
    HELD(workload) workload = {0};
    describe(&text);
    assert_int_equal(parse(&workload, &text), 0);
    assert_int_equal(workload.classes, 1);
    assert_int_equal(workload.ranks, 16);
    assert_true(workload.noise.seed == UINT64_MAX);
    workload_write(&again, &workload);
    assert_string_equal(again.data, text.data);
}

/* Rounds that are equal stand once: each of three steps has three rounds or six. */
TEST(equal_rounds_are_one)
{
    HELD(text) text = {0};
    HELD(workload) workload = {0};
    describe(&text);
    assert_int_equal(parse(&workload, &text), 0);
    int32_t times = 0;
    for (int32_t i = 0; i < workload.traffic.round_count; i++)
        times += workload.traffic.round[i].times;
    assert_int_equal(workload.traffic.round_count, 3);
    assert_int_equal(times, 3 + 6 + 3);
    assert_int_equal(workload.messages, 2 * times);
}

/* @text with @to in place of its first @from. */
static struct text changed(const struct text *text, const char *from, const char *to)
{
    struct text out = {0};
    const char *at = strstr(text->data, from);
    if (!at)
        fail_msg("there is no %s in %s", from, text->data);
    text_append(&out, text->data, at - text->data);
    text_add(&out, "%s%s", to, at + strlen(from));
    return out;
}

TEST(what_is_no_workload_is_refused)
{
    static const char *const changes[][2] = {
        {"{", "["},
        {"\"ranks\": 16", "\"ranks\": 0"},
        {"\"ranks\": 16", "\"ranks\": 1e99"},
        {"\"iterations\": 2", "\"iterations\": 0"},
        {"\"grain\": \"folded\"", "\"grain\": \"of more than fifteen letters\""},
        {"\"grain\": ", "\"grains\": "},
        {"\"seed\": \"f", "\"seed\": \"g"},
        {"\"members\": [0]", "\"members\": []"},
        {"\"members\": [0]", "\"members\": [16]"},
        {"\"members\": [0]", "\"members\": [0, 1]"},
        {"\"bandwidth_bytes_per_s\": [7", "\"bandwidth_bytes_per_s\": [-7"},
        {"\"to\": [0]", "\"to\": [1]"},
        {"\"to\": [0]", "\"to\": []"},
        {"\"from\": [0]", "\"from\": [-2]"},
        {"\"latency_s\": [", "\"latency_s\": [0, "},
        {"\"path\": [0, 1]", "\"path\": [0, 2]"},
        {"\"path\": [0, 1]", "\"path\": [1, 1]"},
        {"\"path\": [0, 1]", "\"path\": [0]"},
        {"\"link\": [0]", "\"link\": [99]"},
        {"\"relation\": 0", "\"relation\": 2"},
        {"\"begin\": 0", "\"begin\": 9"},
        {"\"end\": 1", "\"end\": 4"},
        {"\"channels\": 1", "\"channels\": 4"},
        {"\"lane\": 0", "\"lane\": 9"},
        {"\"stage\": 0", "\"stage\": 1"},
        {"\"to\": -1", "\"to\": 1"},
        {"\"since\": -1", "\"since\": 9"},
        {"\"again\": 0", "\"again\": -1"},
        {"\"program\": -1", "\"program\": 3"},
        {"\"deps\": 1", "\"deps\": -1"},
        {"\"deps\": 1", "\"deps\": 9"},
        {"\"dep\": 0", "\"dep\": -1"},
        {"\"before\": 1", "\"before\": 9"},
        {"\"before\": 1", "\"before\": -9"},
        {"\"iterations_ago\": 0", "\"iterations_ago\": -1"},
        {"\"steps\": [0", "\"steps\": [9"},
    };
    HELD(text) text = {0};
    describe(&text);
    for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
        HELD(text) other = changed(&text, changes[i][0], changes[i][1]);
        HELD(workload) workload = {0};
        if (!parse(&workload, &other))
            fail_msg("%s is accepted", changes[i][1]);
    }
}
