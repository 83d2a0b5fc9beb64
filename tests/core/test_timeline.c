#include "core/report/timeline.h"

#include "tests/test.h"

/* One forward step and one collective on two ranks. */
static struct {
    struct schedule *schedule;
    struct trace trace;
} fixture;

static int open_fixture(void **state)
{
    struct step forward = {
        .kind = STEP_COMPUTE, .lane = LANE_COMPUTE, .name = "a \"quoted\" \\ name"};
    fixture.schedule = schedule_new((struct grid){.columns = 2, .rows = 1});
    int32_t id = schedule_add(fixture.schedule, forward, NULL, 0);
    schedule_add_all_reduce(fixture.schedule, ALGORITHM_RING, 0, 0, 8, id);
    assert_int_equal(schedule_seal(fixture.schedule, &err), 0);
    fixture.trace = (struct trace){.backend = "sim", .grain = "full", .ranks = 2};
    fixture.trace.schedule_hash = schedule_hash(fixture.schedule);
    for (int32_t rank = 1; rank >= 0; rank--) {
        trace_add(&fixture.trace, (struct span){0, rank, 0, 0, 1e-6});
        trace_add(&fixture.trace, (struct span){0, rank, 1, 1e-6, 3.5e-6});
    }
    return 0;
}

static int close_fixture(void **state)
{
    schedule_free(fixture.schedule);
    trace_release(&fixture.trace);
    return 0;
}

/* Whether it can be written, to @text. */
static bool writes(char **text)
{
    size_t size = 0;
    FILE *file = open_memstream(text, &size);
    int failed = timeline_write_kineto(file, fixture.schedule, &fixture.trace, &err);
    fclose(file);
    return !failed;
}

static char *written(void)
{
    char *text = NULL;
    assert_true(writes(&text));
    return text;
}

static void refuses(const char *message)
{
    AUTOFREE char *text = NULL;
    assert_false(writes(&text));
    assert_string_equal(text, "");
    assert_message(&err, 70, message);
}

TEST_WITH(writes_microseconds, open_fixture, close_fixture)
{
    AUTOFREE char *text = written();
    assert_has(text, "\"name\": \"nccl:all_reduce\", \"pid\": 0, \"tid\": 1, "
                     "\"ts\": 1.000000, \"dur\": 2.500000");
    assert_has(text, "\"name\": \"a _quoted_ _ name\"");
}

TEST_WITH(the_order_of_spans_in_the_trace_does_not_matter, open_fixture, close_fixture)
{
    AUTOFREE char *first = written();
    for (int64_t a = 0, b = fixture.trace.span_count - 1; a < b; a++, b--) {
        struct span swap = fixture.trace.span[a];
        fixture.trace.span[a] = fixture.trace.span[b];
        fixture.trace.span[b] = swap;
    }
    AUTOFREE char *second = written();
    assert_string_equal(first, second);
}

TEST_WITH(writes_an_empty_trace, open_fixture, close_fixture)
{
    fixture.trace.span_count = 0;
    free(written());
}

TEST_WITH(refuses_a_trace_of_another_schedule, open_fixture, close_fixture)
{
    fixture.trace.schedule_hash++;
    refuses("another schedule");
}

TEST_WITH(refuses_a_step_that_does_not_exist, open_fixture, close_fixture)
{
    fixture.trace.span[1].step = 2;
    refuses("step 2 of 2");
}

/* The fixture, after an iteration of 10 us, twice as slow. */
static struct trace slower(void)
{
    struct trace trace = {.backend = "exec", .grain = "real", .ranks = 2};
    trace.schedule_hash = fixture.trace.schedule_hash;
    trace_finish(&trace, 0, 10e-6);
    for (int64_t i = 0; i < fixture.trace.span_count; i++) {
        struct span span = fixture.trace.span[i];
        span.iteration = 1;
        span.begin = 10e-6 + 2 * span.begin;
        span.end = 10e-6 + 2 * span.end;
        trace_add(&trace, span);
        trace_finish(&trace, 1, span.end);
    }
    return trace;
}

TEST_WITH(compares_two_traces_from_the_same_time_on, open_fixture, close_fixture)
{
    HELD(trace) measured = slower();
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    trace_finish(&fixture.trace, 0, 3.5e-6);
    assert_int_equal(
        timeline_write_comparison(file, fixture.schedule, &fixture.trace, &measured, 1, &err), 0);
    fclose(file);
    const char *expected[] = {
        "\"pid\": 0, \"args\": {\"name\": \"predicted rank 0\"}",
        "\"pid\": 1, \"args\": {\"name\": \"measured rank 0\"}",
        "\"pid\": 2, \"args\": {\"name\": \"predicted rank 1\"}",
        "\"pid\": 3, \"args\": {\"name\": \"measured rank 1\"}",
        "\"pid\": 2, \"tid\": 1, \"ts\": 1.000000, \"dur\": 2.500000",
        "\"pid\": 3, \"tid\": 1, \"ts\": 2.000000, \"dur\": 5.000000",
    };
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++)
        assert_has(text, expected[i]);
    free(text);
    measured.schedule_hash++;
    file = fopen("/dev/null", "w");
    assert_fails(
        timeline_write_comparison(file, fixture.schedule, &fixture.trace, &measured, 1, &err), 70,
        "another schedule");
    fclose(file);
}

TEST_WITH(reports_a_full_disk, open_fixture, close_fixture)
{
    assert_fails(timeline_write_file("/dev/full", timeline_write_kineto, fixture.schedule,
                                     &fixture.trace, &err),
                 74, "/dev/full: cannot be written");
}
