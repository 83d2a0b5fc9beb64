#include "core/backend/trace.h"

#include "tests/test.h"

static struct trace example(void)
{
    struct trace trace = {.backend = "sim",
                          .grain = "folded",
                          .schedule_hash = UINT64_MAX,
                          .ranks = 4,
                          .entities = 2,
                          .messages = INT64_C(1) << 40};
    for (int32_t iteration = 0; iteration < 3; iteration++) {
        for (int32_t rank = 0; rank < 4; rank += 3) {
            double begin = iteration + 0.1 * rank, end = begin + 1.0 / 3;
            trace_add(&trace, (struct span){iteration, rank, 7, begin, end});
            trace_finish(&trace, iteration, end);
        }
    }
    trace_add(&trace, (struct span){2, 1, 0, 0, 5e-324});
    return trace;
}

static char *written(const struct trace *trace)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_int_equal(trace_write(file, trace, false, &err), 0);
    fclose(file);
    return text;
}

static int read_text(const char *text, struct trace *trace)
{
    FILE *file = fmemopen((void *)text, strlen(text), "r");
    int status = trace_read(file, "trace", trace, &err);
    fclose(file);
    return status;
}

static void refuses(const char *text)
{
    struct trace trace = {0};
    assert_int_equal(read_text(text, &trace), -1);
    assert_int_equal(err.count, 1);
    assert_message(&err, 65, "trace:");
    assert_null(trace.span);
}

TEST(written_and_read_again_is_byte_equal)
{
    HELD(trace) trace = example(), again = {0};
    AUTOFREE char *text = written(&trace);
    assert_int_equal(read_text(text, &again), 0);
    AUTOFREE char *second = written(&again);
    assert_string_equal(text, second);
    assert_int_equal(again.span_count, trace.span_count);
    assert_true(again.span[0].end == trace.span[0].end);
}

/* Whether @trace can be read that was written raw; if so, it is the same again. */
static bool passes(const struct trace *trace)
{
    HELD(trace) again = {0};
    err_release(&err);
    FILE *file = tmpfile();
    assert_int_equal(trace_write(file, trace, true, &err), 0);
    rewind(file);
    bool good = !trace_read(file, "trace", &again, &err);
    fclose(file);
    if (good) {
        AUTOFREE char *text = written(trace), *second = written(&again);
        assert_string_equal(text, second);
    } else {
        assert_int_equal(err.exit_code, 65);
    }
    return good;
}

TEST(raw_spans_are_checked_as_text_is)
{
    HELD(trace) trace = example();
    assert_true(passes(&trace));
    const struct span good = trace.span[3];
    const struct span bad[] = {{3, 0, 0, 0, 1},       {-1, 0, 0, 0, 1},  {0, 4, 0, 0, 1},
                               {0, -1, 0, 0, 1},      {0, 0, -1, 0, 1},  {0, 0, 0, -1, 1},
                               {0, 0, 0, 1, 0.5},     {0, 0, 0, NAN, 1}, {0, 0, 0, 0, NAN},
                               {0, 0, 0, 0, INFINITY}};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        trace.span[3] = bad[i];
        assert_false(passes(&trace));
    }
    trace.span[3] = good;
    assert_true(passes(&trace));
}

TEST(keeps_the_latest_end_of_an_iteration)
{
    HELD(trace) trace = {.iterations = 2};
    trace_finish(&trace, 1, 4);
    trace_finish(&trace, 1, 3);
    trace_finish(&trace, 0, 1);
    assert_int_equal(trace.iterations, 2);
    assert_true(trace.iteration_end[0] == 1 && trace.iteration_end[1] == 4);
    trace_finish(&trace, 2, 9);
    assert_int_equal(trace.iterations, 3);
    assert_true(trace_step_time(&trace) == 5);
}

TEST(one_iteration_takes_until_its_end)
{
    HELD(trace) trace = {0};
    trace_finish(&trace, 0, 2.5);
    assert_true(trace_step_time(&trace) == 2.5);
}

TEST(refuses_every_truncation)
{
    HELD(trace) trace = example();
    AUTOFREE char *text = written(&trace);
    for (size_t length = strlen(text) - 1; length > 0; length--) {
        text[length] = '\0';
        refuses(text);
    }
}

/* A changed byte may still give a trace; else it is refused, with nothing left behind. */
TEST(survives_every_changed_byte)
{
    HELD(trace) trace = example();
    AUTOFREE char *text = written(&trace);
    for (char *at = text; *at; at++) {
        const char old = *at;
        for (const char *with = " -9x\n"; *with; with++) {
            HELD(trace) again = {0};
            err_release(&err);
            *at = *with;
            if (read_text(text, &again) == 0)
                assert_int_equal(err.count, 0);
            else
                assert_int_equal(err.exit_code, 65);
        }
        *at = old;
    }
}

static const char head[] = "foretrain-trace 1\nbackend sim\ngrain full\nschedule_hash 1\nranks 2\n"
                           "entities 2\nmessages 0\niterations 1\niteration_end 1\n";

static void refuses_spans(const char *spans)
{
    AUTOFREE char *text = base_format("%s%s", head, spans);
    refuses(text);
}

TEST(refuses_a_span_that_cannot_be)
{
    refuses_spans("spans 1\n1 0 0 0 1\n");
    refuses_spans("spans 1\n0 2 0 0 1\n");
    refuses_spans("spans 1\n0 -1 0 0 1\n");
    refuses_spans("spans 1\n0 0 0 1 0.5\n");
    refuses_spans("spans 1\n0 0 0 0 inf\n");
    refuses_spans("spans 1\n0 0 0 nan 1\n");
    refuses_spans("spans 1\n0 0 0 0 1 1\n");
    refuses_spans("spans 1\n0  0 0 0 1\n");
    refuses_spans("spans 1\n0 0 9999999999 0 1\n");
    refuses_spans("spans -1\n");
    refuses_spans("spans 99999999999999999999\n");
    refuses_spans("spans 9223372036854775807\n0 0 0 0 1\n");
}

TEST(refuses_what_is_not_a_trace)
{
    refuses("\n");
    refuses("foretrain-trace 2\n");
    refuses("foretrain-trace 1\nbackend a-word-that-is-much-too-long\n");
    refuses("foretrain-trace 1\nbackend \n");
    refuses("foretrain-trace 1\nbackend a b\n");
    refuses("foretrain-trace 1\nbackend a\ngrain b\nschedule_hash -1\n");
}

TEST(reads_traces_that_follow_each_other)
{
    struct trace trace = example(), again = {0};
    AUTOFREE char *one = written(&trace), *two = base_format("%s%s", one, one);
    FILE *file = fmemopen(two, strlen(two), "r");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(trace_read(file, "trace", &again, &err), 0);
        assert_int_equal(again.span_count, trace.span_count);
        trace_release(&again);
    }
    fclose(file);
    trace_release(&trace);
}

TEST(reports_a_full_disk)
{
    HELD(trace) trace = example();
    FILE *file = fopen("/dev/full", "w");
    assert_non_null(file);
    assert_fails(trace_write(file, &trace, false, &err), 74, "");
    fclose(file);
}
