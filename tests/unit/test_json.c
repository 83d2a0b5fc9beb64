#include "core/json.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void prints_members_in_the_order_they_were_put(void **state)
{
    (void)state;
    struct json *object = json_new_object();
    json_put_text(object, "zebra", "stripes \"and\"\n");
    json_put_integer(object, "ant", INT64_MAX);
    json_put_boolean(object, "bee", true);
    struct json *array = json_new_array();
    json_append_text(array, "x");
    json_append(array, json_new_object());
    json_put(object, "list", array);
    struct text out = {0};
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
    text_release(&out);
    json_free(object);
}

static void reals_survive_and_what_is_no_number_becomes_null(void **state)
{
    (void)state;
    const double values[] = {0.1, 1.0 / 3,  5e-324,   1.7976931348623157e308,
                             NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct json *object = json_new_object();
        json_put_real(object, "x", values[i]);
        struct text out = {0};
        json_print(&out, object);
        const char *written = strchr(out.data, ':') + 2;
        if (isfinite(values[i]))
            assert_true(strtod(written, NULL) == values[i]);
        else
            assert_memory_equal(written, "null", 4);
        text_release(&out);
        json_free(object);
    }
}

static void text_that_is_not_utf8_does_not_break_the_output(void **state)
{
    (void)state;
    struct json *object = json_new_object();
    json_put_text(object, "file", "caf\xe9.yaml");
    json_put_text(object, "none", NULL);
    struct text out = {0};
    json_print(&out, object);
    assert_non_null(strstr(out.data, "\"caf?.yaml\""));
    assert_non_null(strstr(out.data, "\"none\": null"));
    text_release(&out);
    json_free(object);
    json_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prints_members_in_the_order_they_were_put),
        cmocka_unit_test(reals_survive_and_what_is_no_number_becomes_null),
        cmocka_unit_test(text_that_is_not_utf8_does_not_break_the_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
