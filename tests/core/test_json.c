#include "config.h"
#include "core/base/columns.h"
#include "tests/core/own.h"
#include "tests/test.h"

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

static struct json *parse(const char *text)
{
    err_release(&err);
    struct json *value = json_read("a.json", text, (int64_t)strlen(text), &err);
    assert_true(value ? err.count == 0 : err.count == 1 && err.exit_code == 65);
    if (!value)
        assert_memory_equal(err.text, "a.json:1:", 9);
    return value;
}

TEST(reads_what_it_wrote)
{
    OWN(json) *value = parse("{\"b\": [1, 2.5, null], \"a\": {\"t\": \"x\"}, \"empty\": {}}");
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
        assert_null(parse(bad[i]));
}

TEST(a_table_has_every_key_once_and_quotes_where_needed)
{
    static const char given[] =
        "[{\"a\": 1, \"b\": \"x,y\"}, {\"b\": \"say \\\"no\\\"\", \"c\": null,"
        "\"d\": [0.5, \"z\"]}, {\"e\": true, \"a\": \"two\\nlines\"},"
        "{\"a\": -1, \"b\": \"-1e3\", \"c\": [-1, 2], \"d\": \"-\", \"e\": \"=1+1\"},"
        "{\"a\": \"+a\", \"b\": \"@\\\"\", \"c\": [\"-x\"], \"d\": \"\\tt\", \"e\": \"\\r\"}]";
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

enum colour { RED, BLUE };
static const char *const colours[] = {"red", "blue"};

struct wheel {
    char name[8];
    double radius;
};

struct extra {
    int32_t seats;
};

struct car {
    double speed;
    struct interval likely;
    struct range price;
    int64_t distance;
    int32_t doors;
    bool electric;
    uint64_t number;
    char *owner;
    enum colour colour;
    struct json *note;
    char **word;
    double *time;
    int32_t words, times;
    struct wheel wheel[2];
    const struct extra *extra;
};

COLUMNS(wheel_columns, NULL, struct wheel)
{
    COLUMN("name", name, .help = "where it is");
    COLUMN("radius_m", radius, .null = true, .help = "half of its width");
}

COLUMNS(extra_columns, NULL, struct extra)
{
    COLUMN("seats", seats, .help = "of children");
}

COLUMNS(car_columns, "car/3", struct car)
{
    COLUMN("speed", speed, LIKELY(likely), .null = true, .help = "in a second");
    COLUMN("cost", price, .null = true, .help = "of buying it");
    COLUMN("built.distance", distance, .help = "driven");
    COLUMN("built.doors", doors, .zero = true, .help = "null: none");
    COLUMN("electric", electric, .help = "it needs no fuel");
    COLUMN("number", number, .help = "of its plate");
    COLUMN("owner", owner, .absent = true, .help = "who owns it");
    COLUMN("colour", colour, .words = colours, .help = "red or blue");
    COLUMN("note", note, .null = true, .help = "anything else");
    COLUMN_ITEMS("words", word, words, .help = "on its side");
    COLUMN_ITEMS("times_s", time, times, .help = "of its races");
    COLUMN_ARRAY("wheels", wheel, .table = &wheel_columns);
    COLUMN_OPTIONAL(extra, &extra_columns);
}

static char *line_of(const struct car *car)
{
    OWN(json) *json = answer_json(&car_columns, car);
    struct text out = {0};
    json_print_line(&out, json, 17);
    return out.data;
}

#define HEAD "{\"schema\": \"foretrain/car/3\", \"version\": \"" FORETRAIN_VERSION "\", "

TEST(every_kind_of_member_becomes_json)
{
    char *words[] = {"a", "b"};
    double times[] = {0.5};
    const struct extra extra = {3};
    const struct car car = {.speed = 1.5,
                            .likely = {1, 2},
                            .price = {3, 4, 5},
                            .distance = 1LL << 40,
                            .doors = 4,
                            .electric = true,
                            .number = 255,
                            .owner = "Ann",
                            .colour = BLUE,
                            .word = words,
                            .words = 2,
                            .time = times,
                            .times = 1,
                            .wheel = {{"left", 0.25}, {"right", NAN}},
                            .extra = &extra};
    AUTOFREE char *line = line_of(&car);
    assert_string_equal(
        line, HEAD "\"speed\": 1.5, \"speed_low\": 1.0, \"speed_high\": 2.0, "
                   "\"cost\": 4.0, \"cost_low\": 3.0, \"cost_high\": 5.0, "
                   "\"built\": {\"distance\": 1099511627776, \"doors\": 4}, \"electric\": true, "
                   "\"number\": \"00000000000000ff\", \"owner\": \"Ann\", \"colour\": \"blue\", "
                   "\"note\": null, \"words\": [\"a\", \"b\"], \"times_s\": [0.5], "
                   "\"wheels\": [{\"name\": \"left\", \"radius_m\": 0.25}, "
                   "{\"name\": \"right\", \"radius_m\": null}], \"seats\": 3}");
}

TEST(what_is_not_known_is_null_or_left_out)
{
    const struct car car = {.speed = NAN,
                            .likely = {NAN, NAN},
                            .price = {NAN, NAN, NAN},
                            .wheel = {{"left", 1}, {"right", 1}}};
    AUTOFREE char *line = line_of(&car);
    assert_has(line,
               "\"speed\": null, \"speed_low\": null, \"speed_high\": null, \"cost\": null, ");
    assert_has(line, "\"doors\": null}");
    assert_null(strstr(line, "owner"));
    assert_null(strstr(line, "seats"));
}

struct stop {
    double wait;
    struct interval likely;
    struct range cost;
    int64_t tracks;
    int32_t lifts;
    enum colour colour;
    char *name;
};

static const char *const ended[] = {"red", "blue", NULL};

COLUMNS(stop_columns, NULL, struct stop)
{
    COLUMN("wait_s", wait, LIKELY(likely), .null = true, .help = "for a train");
    COLUMN("cost", cost, .null = true, .help = "of a ticket");
    COLUMN("tracks", tracks, .help = "beside each other");
    COLUMN("lifts", lifts, .zero = true, .help = "null: none");
    COLUMN("colour", colour, .words = ended, .help = "red or blue");
    COLUMN("name", name, .null = true, .help = "of the stop");
}

TEST(what_is_put_is_read_again)
{
    const struct stop stop = {1.5, {1, 2}, {3, 4, 5}, 1LL << 40, 0, BLUE, "west"};
    OWN(json) *json = json_new_object();
    answer_put(json, &stop_columns, &stop);
    struct stop again = {0};
    assert_true(answer_read(&stop_columns, json, &again));
    assert_string_equal(again.name, "west");
    free(again.name);
    again.name = stop.name;
    assert_memory_equal(&again, &stop, sizeof(stop));
}

TEST(what_lacks_a_key_or_has_another_type_is_not_read)
{
    static const char *const keys[] = {"wait_s", "wait_s_high", "cost_low",
                                       "tracks", "lifts",       "colour"};
    const struct stop stop = {.wait = 1, .colour = RED};
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        OWN(json) *json = json_new_object();
        struct stop again = {0};
        answer_put(json, &stop_columns, &stop);
        json_put_text(json, keys[i], "green");
        if (answer_read(&stop_columns, json, &again))
            fail_msg("%s: a text is taken for it", keys[i]);
        free(again.name);
    }
    OWN(json) *none = json_new_object();
    assert_false(answer_read(&stop_columns, none, &(struct stop){0}));
}

TEST(names_give_labels_and_units)
{
    static const struct {
        const char *key, *label;
        enum unit unit;
    } rows[] = {{"time_to_train_s", "time to train", UNIT_SECONDS},
                {"memory_bytes", "memory", UNIT_BYTES},
                {"images_per_s", "throughput", UNIT_IMAGES_PER_SECOND},
                {"weak_scaling_efficiency", "weak scaling efficiency", UNIT_FRACTION},
                {"energy_kwh", "energy, kWh", UNIT_NONE},
                {"s", "s", UNIT_NONE}};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        AUTOFREE char *label = answer_label(rows[i].key);
        assert_string_equal(label, rows[i].label);
        assert_int_equal(answer_unit(rows[i].key), rows[i].unit);
    }
}

TEST(columns_are_as_wide_as_needed_and_none_is_empty)
{
    const struct stop stop[] = {{.wait = 1.5, .likely = {1, 2}, .tracks = 2, .name = "west"},
                                {.wait = NAN, .likely = {NAN, NAN}, .tracks = 12345}};
    HELD(text) out = {0};
    OWN(json) *rows = answer_list(&stop_columns, stop, ARRAY_SIZE(stop));
    columns_print(&out, "tracks, lifts, name: stop, wait_s~", rows);
    assert_string_equal(out.data, "  tracks  stop    wait    from      to\n"
                                  "       2  west  1.50 s  1.00 s  2.00 s\n"
                                  "   12345             -       -       -\n");
}

static void add(void *context, const char *path, const char *type, const char *help)
{
    text_add(context, "%s %s%s", path, type, *help ? "\n" : " without help\n");
}

TEST(rows_describe_all_that_is_put)
{
    HELD(text) out = {0};
    answer_describe(&car_columns, add, &out);
    assert_string_equal(out.data, "schema string\nversion string\n"
                                  "speed number?\nspeed_low number?\nspeed_high number?\n"
                                  "cost number?\ncost_low number?\ncost_high number?\n"
                                  "built.distance integer\nbuilt.doors integer?\n"
                                  "electric boolean\nnumber string\nowner? string\n"
                                  "colour string\nnote object?\nwords[] string\ntimes_s[] number\n"
                                  "wheels[].name string\nwheels[].radius_m number?\n"
                                  "seats? integer\n");
}
