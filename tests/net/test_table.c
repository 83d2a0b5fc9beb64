#include "app/measure/collective_table.h"

#include "tests/test.h"

/* A table of a prediction of @predicted_s and a measurement of 1 s. */
static struct table make_table(int64_t bytes, double predicted_s, const struct measured *measured)
{
    struct table table = {.algorithm = "ring", .judged = true, .ranks = 16, .count = 2};
    table.row = base_alloc(2, sizeof(*table.row));
    table.row[0] = (struct table_row){.backend = "sim", .bytes = bytes, .time_s = predicted_s};
    table.row[1] =
        (struct table_row){.backend = "exec", .bytes = bytes, .time_s = 1.0, .measured = measured};
    table_compare(&table);
    return table;
}

static enum verdict judge(int64_t bytes, double predicted_s, bool disturbed)
{
    struct measured measured = {.time_s = 1.0, .runs = 8, .clean = 8, .disturbed = disturbed};
    HELD(table) table = make_table(bytes, predicted_s, &measured);
    enum verdict verdict = table_verdict(&table);
    assert_true(fabs(table.row[0].error - (predicted_s - 1.0)) < 1e-12);
    return verdict;
}

TEST(long_messages_are_judged_more_strictly)
{
    assert_int_equal(judge(8000000, 0.951, false), VERDICT_PASS);
    assert_int_equal(judge(8000000, 1.049, false), VERDICT_PASS);
    assert_int_equal(judge(8000000, 0.949, false), VERDICT_FAIL);
    assert_int_equal(judge(8000000, 1.051, false), VERDICT_FAIL);
    assert_int_equal(judge(7999999, 0.851, false), VERDICT_PASS);
    assert_int_equal(judge(7999999, 0.849, false), VERDICT_FAIL);
}

TEST(short_messages_are_not_judged)
{
    assert_int_equal(judge(999999, 0.5, false), VERDICT_NONE);
}

TEST(a_disturbed_measurement_neither_passes_nor_fails)
{
    assert_int_equal(judge(8000000, 1.0, true), VERDICT_DISTURBED);
    assert_int_equal(judge(8000000, 2.0, true), VERDICT_DISTURBED);
}

TEST(outside_of_a_lab_nothing_is_judged)
{
    struct measured measured = {.time_s = 1.0, .runs = 8, .clean = 8};
    HELD(table) table = make_table(8000000, 2.0, &measured);
    table.judged = false;
    table_compare(&table);
    assert_int_equal(table_verdict(&table), VERDICT_NONE);
    assert_string_equal(table.row[0].judgement, "-");
}

TEST(one_failure_decides)
{
    struct measured measured = {.time_s = 1.0, .runs = 8, .clean = 8};
    HELD(table) table = make_table(8000000, 2.0, &measured);
    table.row[1].verdict = VERDICT_DISTURBED;
    assert_int_equal(table_verdict(&table), VERDICT_FAIL);
}
