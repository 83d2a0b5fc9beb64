#include "core/base/json.h"

#include <math.h>

#include "tests/core/own.h"
#include "tests/test.h"

TEST(prints_members_in_the_order_they_were_put)
{
    OWN(json) *object = json_new_object();
    json_put_text(object, "zebra", "stripes \"and\"\n");
    json_put_integer(object, "ant", INT64_MAX);
    json_put_boolean(object, "bee", true);
    struct json *array = json_new_array();
    json_append_text(array, "x");
    json_append(array, json_new_object());
    json_put(object, "list", array);
    HELD(text) out = {0};
    json_print(&out, object);
    assert_string_equal(out.data, "{\n"
                                  "  \"zebra\": \"stripes \\\"and\\\"\\n\",\n"
                                  "  \"ant\": 9223372036854775807,\n"
                                  "  \"bee\": true,\n"
                                  "  \"list\": [\n"
                                  "    \"x\",\n"
                                  "    {}\n"
                                  "  ]\n"
                                  "}\n");
}

TEST(reals_survive_and_what_is_no_number_becomes_null)
{
    const double values[] = {0.1, 1.0 / 3,  5e-324,   1.7976931348623157e308,
                             NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        OWN(json) *object = json_new_object();
        json_put_real(object, "x", values[i]);
        HELD(text) out = {0};
        json_print(&out, object);
        const char *written = strchr(out.data, ':') + 2;
        if (isfinite(values[i]))
            assert_true(strtod(written, NULL) == values[i]);
        else
            assert_memory_equal(written, "null", 4);
    }
}

TEST(text_that_is_not_utf8_does_not_break_the_output)
{
    OWN(json) *object = json_new_object();
    json_put_text(object, "file", "caf\xe9.yaml");
    json_put_text(object, "none", NULL);
    HELD(text) out = {0};
    json_print(&out, object);
    assert_has(out.data, "\"caf?.yaml\"");
    assert_has(out.data, "\"none\": null");
    json_free(NULL);
}

static struct json *read(const char *text)
{
    HELD(err) err = {0};
    struct json *value = json_read("a.json", text, (int64_t)strlen(text), &err);
    assert_true(value ? err.count == 0 : err.count == 1 && err.exit_code == 65);
    if (!value)
        assert_memory_equal(err.text, "a.json:1:", 9);
    return value;
}

TEST(reads_what_it_wrote)
{
    OWN(json) *value = read("{\"b\": [1, 2.5, null], \"a\": {\"t\": \"x\"}, \"empty\": {}}");
    assert_int_equal(json_count_members(value), 3);
    assert_int_equal(json_count_items(value), -1);
    const char *key = json_next_key(value, NULL);
    assert_string_equal(key, "b");
    key = json_next_key(value, key);
    assert_string_equal(key, "a");
    assert_null(json_next_key(value, json_next_key(value, key)));
    assert_null(json_next_key(json_get(value, "empty"), NULL));
    const struct json *list = json_get(value, "b");
    int64_t integer = 0;
    double real = 0;
    assert_int_equal(json_count_items(list), 3);
    assert_true(json_as_integer(json_item(list, 0), &integer) && integer == 1);
    assert_false(json_as_integer(json_item(list, 1), &integer));
    assert_true(json_as_real(json_item(list, 0), &real) && real == 1);
    assert_true(json_as_real(json_item(list, 1), &real) && real == 2.5);
    assert_true(json_as_real(json_item(list, 2), &real) && isnan(real));
    assert_string_equal(json_as_text(json_get(json_get(value, "a"), "t")), "x");
    assert_null(json_as_text(list));
    assert_null(json_get(value, "none"));
    assert_null(json_item(list, 3));
    assert_null(json_item(list, -1));
    assert_null(json_item(value, 0));
    HELD(text) out = {0};
    json_print_line(&out, value, 17);
    assert_string_equal(out.data, "{\"b\": [1, 2.5, null], \"a\": {\"t\": \"x\"}, \"empty\": {}}");
}

TEST(nothing_is_not_a_value_of_any_kind)
{
    int64_t integer;
    double real;
    assert_int_equal(json_count_items(NULL), -1);
    assert_null(json_item(NULL, 0));
    assert_int_equal(json_count_members(NULL), -1);
    assert_false(json_as_integer(NULL, &integer));
    assert_false(json_as_real(NULL, &real));
    assert_null(json_as_text(NULL));
}

TEST(refuses_what_is_not_json)
{
    static const char *const bad[] = {"",
                                      "{",
                                      "{}x",
                                      "{\"a\": 1, \"a\": 2}",
                                      "[1,]",
                                      "'a'",
                                      "NaN",
                                      "123456789012345678901234567890",
                                      "1e999",
                                      "\"\xff\"",
                                      "{\"\\u0000\": 1}"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_null(read(bad[i]));
}

TEST(a_table_has_every_key_once_and_quotes_where_needed)
{
    static const char given[] =
        "[{\"a\": 1, \"b\": \"x,y\"}, {\"b\": \"say \\\"no\\\"\", \"c\": null,"
        "\"d\": [0.5, \"z\"]}, {\"e\": true, \"a\": \"two\\nlines\"},"
        "{\"a\": -1, \"b\": \"-1e3\", \"c\": [-1, 2], \"d\": \"-\", \"e\": \"=1+1\"},"
        "{\"a\": \"+a\", \"b\": \"@\\\"\", \"c\": [\"-x\"], \"d\": \"\\tt\", \"e\": \"\\r\"}]";
    struct err err = {0};
    HELD(text) out = {0};
    OWN(json) *rows = json_read("rows", given, (int64_t)strlen(given), &err);
    assert_non_null(rows);
    json_print_csv(&out, rows);
    assert_string_equal(out.data, "a,b,c,d,e\r\n"
                                  "1,\"x,y\",,,\r\n"
                                  ",\"say \"\"no\"\"\",,0.5 z,\r\n"
                                  "\"two\nlines\",,,,true\r\n"
                                  "-1,-1e3,-1 2,'-,'=1+1\r\n"
                                  "'+a,\"'@\"\"\",'-x,'\tt,\"'\r\"\r\n");
    assert_int_equal(json_count_items(rows), 5);
}
