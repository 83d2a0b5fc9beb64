#include "core/base/answer.h"

#include <math.h>

#include "config.h"
#include "tests/core/own.h"
#include "tests/test.h"

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

#define DESCRIBED struct wheel
static const struct answer_column wheel_rows[] = {
    COLUMN("name", name, .help = "where it is"),
    COLUMN("radius_m", radius, .null = true, .help = "half of its width"),
};
static const struct answer_columns wheel_columns = COLUMNS(NULL, wheel_rows);
#undef DESCRIBED

#define DESCRIBED struct extra
static const struct answer_column extra_rows[] = {
    COLUMN("seats", seats, .help = "of children"),
};
static const struct answer_columns extra_columns = COLUMNS(NULL, extra_rows);
#undef DESCRIBED

#define DESCRIBED struct car
static const struct answer_column car_rows[] = {
    COLUMN("speed", speed, LIKELY(likely), .null = true, .help = "in a second"),
    COLUMN("cost", price, .null = true, .help = "of buying it"),
    COLUMN("built.distance", distance, .help = "driven"),
    COLUMN("built.doors", doors, .zero = true, .help = "null: none"),
    COLUMN("electric", electric, .help = "it needs no fuel"),
    COLUMN("number", number, .help = "of its plate"),
    COLUMN("owner", owner, .absent = true, .help = "who owns it"),
    COLUMN("colour", colour, .words = colours, .help = "red or blue"),
    COLUMN("note", note, .null = true, .help = "anything else"),
    COLUMN_ITEMS("words", word, words, .help = "on its side"),
    COLUMN_ITEMS("times_s", time, times, .help = "of its races"),
    COLUMN_ARRAY("wheels", wheel, .table = &wheel_columns),
    COLUMN_OPTIONAL(extra, &extra_columns),
};
static const struct answer_columns car_columns = COLUMNS("car/3", car_rows);
#undef DESCRIBED

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
