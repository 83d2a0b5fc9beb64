#include "core/config/field_write.h"
#include "tests/core/own.h"
#include "tests/test.h"

struct stop {
    char *name;
    double length;
};

struct trip {
    int64_t people;
    double speed, share;
    char *guide;
    int32_t vehicle;
    bool night;
    struct quantity power;
    struct field_list tag, stop;
    char *food;
    int64_t bread, water;
};

static const char *const vehicles[] = {"bus", "tram", "bicycle", NULL};
static const char *const foods[] = {"lunch", NULL};

static const struct field stop_rows[] = {
    {"name", FIELD_TEXT, .offset = offsetof(struct stop, name), .help = "where"},
    {"length", FIELD_REAL, UNIT_SECONDS, offsetof(struct stop, length), "5 min", 0, 1e6,
     .help = "how long"},
};
static const struct field_table stop_table = FIELD_TABLE("stop", stop_rows, struct stop);

#define MEMBER(name) offsetof(struct trip, name)
static const struct field trip_rows[] = {
    {"group.people", FIELD_INTEGER, .offset = MEMBER(people), .minimum = 1, .maximum = 50,
     .help = "travellers"},
    {"group.guide", FIELD_TEXT, .offset = MEMBER(guide), .fallback = "", .help = "who leads"},
    {"speed", FIELD_REAL, UNIT_BYTES_PER_SECOND, MEMBER(speed), "1 GB/s", .help = "how fast"},
    {"share", FIELD_REAL, UNIT_FRACTION, MEMBER(share), "", 0, 1, .help = "part of it"},
    {"vehicle", FIELD_WORD, .offset = MEMBER(vehicle), .fallback = "tram", .words = vehicles,
     .help = "what on"},
    {"night", FIELD_BOOLEAN, .offset = MEMBER(night), .fallback = "false", .help = "after dark"},
    {"power", FIELD_QUANTITY, UNIT_FLOPS, MEMBER(power), "", .help = "engine"},
    {"tags", FIELD_TEXTS, .offset = MEMBER(tag), .fallback = "", .help = "labels"},
    {"stops", FIELD_LIST, .offset = MEMBER(stop), .minimum = 1, .maximum = 3, .fallback = "",
     .table = &stop_table, .help = "breaks"},
    {"food", FIELD_TEXT, .offset = MEMBER(food), .fallback = "", .words = foods, .help = "meal"},
    {"food.bread", FIELD_INTEGER, .offset = MEMBER(bread), .help = "loaves"},
    {"food.water", FIELD_INTEGER, .offset = MEMBER(water), .fallback = "1", .help = "bottles"},
};
static const struct field_table trip_table = FIELD_TABLE("trip", trip_rows, struct trip);

static struct trip accepted(const char *text)
{
    OWN(document) *document = yaml_read_text("t.yaml", text, &err);
    struct trip trip = {0};
    assert_ok(document && !field_read(&trip_table, yaml_root(document), &trip, &err), err);
    return trip;
}

static void check_refused(const char *text, const char *const *parts)
{
    OWN(document) *document = yaml_read_text("t.yaml", text, &err);
    HELD(unknowns) unknowns = {0};
    assert_ok(document && !unknowns_settle(&unknowns, document, "", &err), err);
    struct trip trip = {0};
    assert_int_equal(field_read(&trip_table, yaml_root(document), &trip, &err), -1);
    field_release(&trip_table, &trip);
    int32_t count = 0;
    for (; parts[count]; count++)
        assert_has(err.text, parts[count]);
    if (err.count != count)
        fail_msg("%d messages:\n%s", err.count, err.text);
    err_release(&err);
}

/* A message for each of the further texts, which it holds. */
#define refused(text, ...) check_refused(text, (const char *const[]){__VA_ARGS__, NULL})

TEST(fills_every_kind_of_member)
{
    struct trip trip = accepted("group: {people: 7, guide: Ada}\n"
                                "speed: 8 Gb/s\n"
                                "share: 25 %\n"
                                "vehicle: bicycle\n"
                                "night: true\n"
                                "power: {value: 2 TFLOP/s, source: 'a shop', kind: datasheet}\n"
                                "tags: [x, 'y z']\n"
                                "stops: [{name: inn, length: 2 h}, {name: well}]\n");
    assert_int_equal(trip.people, 7);
    assert_string_equal(trip.guide, "Ada");
    assert_true(trip.speed == 1e9 && trip.share == 0.25);
    assert_int_equal(trip.vehicle, 2);
    assert_true(trip.night);
    assert_true(trip.power.value == 2e12);
    assert_int_equal(trip.power.provenance, PROVENANCE_DATASHEET);
    assert_string_equal(trip.power.source, "a shop");
    assert_string_equal(trip.power.path, "power");
    assert_int_equal(trip.tag.count, 2);
    assert_string_equal(((char **)trip.tag.item)[1], "y z");
    const struct stop *stop = trip.stop.item;
    assert_int_equal(trip.stop.count, 2);
    assert_true(stop[0].length == 7200 && stop[1].length == 300);
    field_release(&trip_table, &trip);
    assert_null(trip.guide);
}

TEST(silence_means_the_default_or_nothing)
{
    struct trip trip = accepted("group: {people: 1}");
    assert_true(trip.speed == 1e9 && trip.share == 0 && trip.vehicle == 1);
    assert_null(trip.guide);
    assert_null(trip.power.source);
    assert_int_equal(trip.stop.count, 0);
    field_release(&trip_table, &trip);
}

TEST(a_shorthand_is_one_value_or_a_mapping)
{
    struct trip trip = accepted("{group: {people: 1}, food: lunch}");
    assert_string_equal(trip.food, "lunch");
    field_release(&trip_table, &trip);
    trip = accepted("{group: {people: 1}, food: {bread: 3}}");
    assert_null(trip.food);
    assert_int_equal(trip.bread, 3);
    field_release(&trip_table, &trip);
    refused("{group: {people: 1}, food: dinner}", "it must be one of: lunch");
    refused("{group: {people: 1}, food: {water: 3}}", "missing key 'food.bread'");
    refused("{group: {people: 1}, food: [1]}", "t.yaml:1:28: error: food takes");
}

TEST(unknown_keys_point_at_the_key_and_suggest_the_right_one)
{
    refused("group: {people: 1}\nvehicel: bus\n",
            "t.yaml:2:1: error: unknown key 'vehicel'; did you mean 'vehicle'?\n  vehicel: bus\n"
            "  ^~~~~~~\n");
    refused("group: {people: 1, zzzzz: 2}",
            "unknown key 'zzzzz' in group; known here: people, guide");
    refused("group: {people: 1}\nstops:\n  - {nam: x}\n",
            "t.yaml:3:6: error: unknown key 'nam' in stops[0]; did you mean 'name'?");
    refused("group: {people: 1}\nspeed: {fast: 1}\n", "speed takes a single value");
    refused("{group.people: 1, group: {people: 1}}", "unknown key 'group.people'");
    refused("group: {people: 1}\npower: {value: 2 TFLOP/s, source: x, kind: guessed}",
            "t.yaml:2:44: error: unknown word 'guessed'");
}

TEST(missing_keys_point_at_the_mapping_and_show_an_example)
{
    refused("group: {guide: Bo}",
            "t.yaml:1:1: error: missing key 'group.people' (travellers), for example 'people: 1'");
    refused("speed: 1 GB/s", "missing key 'group.people'");
    refused("group: {people: 1}\nstops: [{length: 1 s}]", "missing key 'stops[0].name' (where)");
    refused(
        "group: {people: 1}\npower: {source: x, kind: assumed}",
        "missing key 'power.value' (the number with its unit), for example 'value: 125 TFLOP/s'");
    refused("group: {peple: 1}", "did you mean 'people'?");
}

TEST(wrong_values_are_located_and_explained)
{
    refused("group: {people: ninety}", "t.yaml:1:17: error: 'ninety' is not a whole number");
    refused("group: {people: 1.5}", "'1.5' is not a whole number");
    refused("group: {people: 1e3}", "'1e3' is not a whole number");
    refused("group: {people: 99999999999999999999}", "too large");
    refused("group: {people: 0}", "'0' is out of range: it must be 1 to 50");
    refused("group: {people: }", "a value is missing here");
    refused("group: 5", "t.yaml:1:8: error: group takes keys such as 'people', not a single value");
    refused("{group: {people: 1}, speed: 25}", "a bandwidth needs a unit, for example 25 GB/s");
    refused("{group: {people: 1}, share: 130 %}", "out of range: it must be 0 % to 100 %");
    refused("{group: {people: 1}, night: no}", "'no' is neither true nor false");
    refused("{group: {people: 1}, stops: []}", "stops has 0 items; it must have 1 to 3");
    refused("{group: {people: 1}, stops: [x]}", "stops takes mappings, not a single value");
    refused("{group: {people: 1}, tags: x}", "tags takes a list");
}

TEST(what_is_written_reads_back)
{
    static const char *const texts[][2] = {{"plain-1.5_a/b", NULL},
                                           {"a\"b: \\c", NULL},
                                           {"- x", NULL},
                                           {"null", NULL},
                                           {"{a: 5 %} # Zo\u00eb", NULL},
                                           {"it's ~", NULL},
                                           {"a\nb\t\x01\xff\xc2\x85", "a?b?????"}};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        HELD(text) out = {0};
        const char *expected = texts[i][1] ? texts[i][1] : texts[i][0];
        text_add(&out, "group:\n  people: 1\n");
        field_write_line(&out, 2, "guide", texts[i][0]);
        field_write_quantity(&out, 0, "power", PROVENANCE_PUBLISHED, 0.08, texts[i][0],
                             "%.5g GFLOP/s", 2000.0);
        struct trip trip = accepted(out.data);
        assert_string_equal(trip.guide, expected);
        assert_string_equal(trip.power.source, expected);
        assert_int_equal(trip.power.provenance, PROVENANCE_PUBLISHED);
        assert_true(trip.power.value == 2e12 && trip.power.spread == 0.08);
        field_release(&trip_table, &trip);
    }
}

TEST(an_unknown_input_is_no_record)
{
    refused("group: {low: 1, high: 2, kind: assumed}",
            "t.yaml:1:8: error: group takes keys such as 'people', not one value with its source");
    refused("{group: {people: 1}, stops: [{one_of: [1, 2], source: x}]}",
            "t.yaml:1:30: error: stops[0] takes keys such as 'name', not one value");
    refused("{low: 1, high: 2}", "unknown key 'low'", "unknown key 'high'", "group.people");
}

TEST(all_faults_are_reported_at_once)
{
    refused("group: {people: x}\nspeed: 25\nvehicel: bus\nstops: [{name: a, length: 3}]\n",
            "t.yaml:1:17", "t.yaml:2:8", "t.yaml:3:1", "t.yaml:4:27");
}

TEST(explains_where_each_value_comes_from)
{
    OWN(document) *document =
        yaml_read_text("t.yaml", "group: {people: 7}\nstops: [{name: inn}]\nfood: lunch\n", &err);
    assert_int_equal(yaml_set(document, "speed=2 GB/s", &err), 0);
    struct trip trip = {0};
    assert_int_equal(field_read(&trip_table, yaml_root(document), &trip, &err), 0);
    struct text out = {0};
    field_explain(&out, &trip_table, yaml_root(document), &trip);
    const char *const lines[][3] = {
        {"group.people ", " 7 ", " t.yaml:1:17"},   {"speed ", " 2 GB/s ", " --set"},
        {"vehicle ", " tram ", " default"},         {"stops.0.name ", " inn ", " t.yaml:2:16"},
        {"stops.0.length ", " 300 s ", " default"}, {"food ", " lunch ", " t.yaml:3:7"}};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        const char *line = strstr(out.data, lines[i][0]);
        assert_non_null(line);
        AUTOFREE char *copy = strndup(line, strcspn(line, "\n"));
        if (!strstr(copy, lines[i][1]) || !strstr(copy, lines[i][2]))
            fail_msg("%s", copy);
    }
    assert_null(strstr(out.data, "guide"));
    text_release(&out);
    field_release(&trip_table, &trip);
}

TEST(origins_are_found_by_path)
{
    OWN(document) *document =
        yaml_read_text("t.yaml", "group: {people: 7}\nstops: [{name: inn}]\nfood: lunch\n", &err);
    const struct node *root = yaml_root(document);
    assert_string_equal(field_origin(root, "stops.0.name")->text, "inn");
    assert_string_equal(field_origin(root, "food.bread")->text, "lunch");
    assert_null(field_origin(root, "stops.1.name"));
    assert_null(field_origin(root, "group.guide"));
}

TEST(the_schema_and_the_help_name_every_row)
{
    HELD(text) schema = {0}, help = {0};
    field_schema(&schema, &trip_table, false);
    field_help(&help, &trip_table);
    for (int32_t i = 0; i < trip_table.count; i++) {
        assert_has(help.data, trip_rows[i].path);
        assert_has(schema.data, trip_rows[i].help);
    }
    assert_has(help.data, "stops[].length");
    OWN(document) *document = yaml_read_text("schema.json", schema.data, &err);
    assert_non_null(document); /* JSON, and no key twice */
    const struct node *people =
        field_origin(yaml_root(document), "else.properties.group.properties.people.maximum");
    assert_string_equal(people->text, "50.0");
}
