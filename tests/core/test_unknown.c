#include "tests/core/own.h"
#include "tests/test.h"

static void has_origins(const struct node *node)
{
    assert_string_equal(node->origin.file, "t.yaml");
    assert_string_equal(node->key_origin.file, "t.yaml");
    for (int32_t i = 0; i < node->child_count; i++)
        has_origins(node->child[i]);
}

/* The text of the value at "a" after @text was settled with @quantile; the caller frees it. */
static char *settled(const char *text, double quantile)
{
    OWN(document) *document = yaml_read_text("t.yaml", text, &err);
    HELD(unknowns) unknowns = {.quantile = &quantile, .quantile_count = !isnan(quantile)};
    assert_ok(document && !unknowns_settle(&unknowns, document, "", &err), err);
    assert_int_equal(unknowns.count, 1);
    has_origins(yaml_root(document));
    const struct node *node = node_get(yaml_root(document), "a");
    assert_true(node->drawn);
    const struct node *value = node_get(node, "value");
    return base_copy((value ? value : node)->text);
}

static void is_text(const char *text, double quantile, const char *expected)
{
    AUTOFREE char *value = settled(text, quantile);
    assert_string_equal(value, expected);
}

static void is_number(const char *text, double quantile, enum unit unit, double expected)
{
    double number;
    AUTOFREE char *value = settled(text, quantile);
    assert_int_equal(unit_parse(unit, value, &number, &err), 0);
    assert_true(fabs(number - expected) <= 1e-9 * fabs(expected));
}

static void refused(const char *text, const char *expected)
{
    OWN(document) *document = yaml_read_text("t.yaml", text, &err);
    HELD(unknowns) unknowns = {0};
    assert_fails(unknowns_settle(&unknowns, document, "", &err), 65, expected);
}

TEST(whole_numbers_are_equally_likely)
{
    int32_t count[4] = {0};
    for (int32_t i = 0; i < 400; i++) {
        AUTOFREE char *value = settled("a: {low: 16, high: 19}", (i + 0.5) / 400);
        count[atoi(value) - 16]++;
    }
    for (int32_t i = 0; i < 4; i++)
        assert_int_equal(count[i], 100);
    is_text("a: {low: 16, high: 64}", NAN, "40");
    is_text("a: {low: 16, high: 64}", 0, "16");
    is_text("a: {low: 16, high: 64}", 1, "64");
}

static void has_values(const char *text, double expected)
{
    OWN(document) *document = yaml_read_text("t.yaml", text, &err);
    HELD(unknowns) unknowns = {0};
    assert_ok(document && !unknowns_settle(&unknowns, document, "", &err), err);
    assert_true(unknowns.item[0].values == expected);
}

TEST(values_that_draws_share_are_counted)
{
    has_values("a: {low: 16, high: 19}", 4);
    has_values("a: {low: 1.5, high: 19}", 0);
    has_values("a: {one_of: [ring, torus2d]}", 2);
    has_values("a: {value: 3, spread: 40 %}", 0);
}

TEST(numbers_keep_what_they_measure)
{
    is_number("a: {low: 500 ns, high: 2 us}", 0.2, UNIT_SECONDS, 0.8e-6);
    is_number("a: {low: 100 Gb/s, high: 200 Gb/s}", NAN, UNIT_BYTES_PER_SECOND, 18.75e9);
    is_number("a: {low: 10 TFLOP/s, high: 1 PFLOP/s}", 1, UNIT_FLOPS, 1e15);
    is_number("a: {low: 1 MiB, high: 3 MiB}", NAN, UNIT_BYTES, 2 << 20);
    is_number("a: {low: 2 %, high: 0.04}", NAN, UNIT_FRACTION, 0.03);
    is_number("a: {low: 5 epochs, high: 6 epochs}", NAN, UNIT_EPOCHS, 5.5);
    is_number("a: {low: 10T, high: 20T}", NAN, UNIT_AMOUNT, 15e12);
    is_number("a: {low: 300 images/s, high: 500 images/s}", NAN, UNIT_IMAGES_PER_SECOND, 400);
}

/* 1.6448536 is the 95th percentile of the standard normal distribution. */
TEST(a_spread_is_lognormal)
{
    is_number("a: {value: 10 us, spread: 0.4}", NAN, UNIT_SECONDS, 10e-6);
    is_number("a: {value: 10 us, spread: 40 %}", 0.5, UNIT_SECONDS, 10e-6);
    is_number("a: {value: 10 us, spread: 0.4}", 0.95, UNIT_SECONDS,
              10e-6 * exp(0.4 * 1.6448536269514722));
    is_text("a: {value: 3, spread: 2}", 0.001, "1");
}

TEST(one_of_several_may_be_anything)
{
    is_text("a: {one_of: [ring, torus2d, nccl]}", NAN, "ring");
    is_text("a: {one_of: [ring, torus2d, nccl]}", 0.34, "torus2d");
    is_text("a: {one_of: [ring, torus2d, nccl]}", 1, "nccl");
    is_text("a: {one_of: [8 us, 9 us], source: a guess, kind: assumed}", 0.9, "9 us");
    is_text("a: {low: 16, high: 64, source: a guess, kind: assumed}", 0, "16");
    double quantile[] = {0.75, 0.25};
    HELD(unknowns) unknowns = {.quantile = quantile, .quantile_count = 2};
    OWN(document) *document = yaml_read_text("t.yaml",
                                             "list:\n"
                                             "  - {k: {one_of: [1, 2]}}\n"
                                             "deep: {one_of: [[{x: 1}], [{x: 2}, {x: 3}]]}\n",
                                             &err);
    assert_int_equal(unknowns_settle(&unknowns, document, "p.", &err), 0);
    assert_string_equal(unknowns.item[0].key, "p.list[0].k");
    assert_string_equal(unknowns.item[0].range, "1 or 2");
    assert_string_equal(unknowns.item[1].key, "p.deep");
    const struct node *root = yaml_root(document);
    assert_string_equal(node_get(node_get(root, "list")->child[0], "k")->text, "2");
    assert_int_equal(node_get(root, "deep")->child_count, 1);
    assert_string_equal(node_get(node_get(root, "deep")->child[0], "x")->text, "1");
}

TEST(null_among_several_leaves_the_key_out)
{
    HELD(unknowns) unknowns = {0};
    OWN(document) *document =
        yaml_read_text("t.yaml", "a: {one_of: [null, 2]}\nb: {one_of: [3, 4]}\n", &err);
    assert_int_equal(unknowns_settle(&unknowns, document, "", &err), 0);
    assert_null(node_get(yaml_root(document), "a"));
    assert_string_equal(node_get(yaml_root(document), "b")->text, "3");
}

TEST(faults_are_named)
{
    refused("a: {low: 3}", "'high' is missing");
    refused("a: {low: 3, high: 2}", "the lower one first");
    refused("a: {low: 3 us, high: 2 MB}", "the same unit");
    refused("a: {low: ring, high: tree}", "two numbers");
    refused("a: {one_of: [3]}", "two or more values");
    refused("a: {one_of: 3}", "two or more values");
    refused("a: {one_of: [3, {low: 1, high: 2}]}", "cannot be inside another");
    refused("a: {value: 3, spread: 0}", "above 0");
    refused("a: {value: 0 us, spread: 0.1}", "a number above 0");
    refused("a: {low: 1, high: 2, spread: 3}", "t.yaml:1:22: error: 'spread' has no place");
}

TEST(where_none_is_allowed_it_says_what_to_do)
{
    OWN(document) *document = yaml_read_text("t.yaml", "a: {b: {low: 1, high: 2}}", &err);
    assert_int_equal(unknowns_settle(NULL, document, "", &err), -1);
    assert_has(err.text, "t.yaml:1:8: error: a.b is not known here");
    assert_has(err.text, "--set a.b=VALUE");
}
