#include "core/price/price.h"

#include "tests/folder.h"
#include "tests/test.h"

/* Read the keys of @rest after those that every file has. */
static int read_text(struct price_file *file, const char *date, const char *rest)
{
    AUTOFREE char *text =
        base_format("version: 1\nname: mine\ndescription: mine\ndate: %s\n%s", date, rest);
    AUTOFREE char *path = fixture_yaml(text);
    int failed = price_read(file, path, &err);
    unlink(path);
    return failed;
}

static struct price_file read_right(const char *rest)
{
    struct price_file file = {0};
    assert_ok(!read_text(&file, "2026-03-31", rest), err);
    return file;
}

static void near(double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-9 * fabs(expected)))
        fail_msg("%.12g, not %.12g", found, expected);
}

static void is(struct range found, double low, double value, double high)
{
    near(found.low, low);
    near(found.value, value);
    near(found.high, high);
}

/* 3 nodes with 8 devices each for 2 h, between 1 h and 4 h. */
static const struct usage usage = {3, 24, {3600, 7200, 14400}};

TEST(nodes_and_devices_are_paid_by_the_hour)
{
    struct price_file file = read_right("currency: EUR\nprice: {node_hour: {low: 10, high: 20, "
                                        "source: mine, kind: assumed}, device_hour: 0.5}\n");
    struct bill bill = price_bill(&file, &usage);
    is(bill.cost, 3 * 10 + 24 * 0.5, 2 * (3 * 15 + 24 * 0.5), 4 * (3 * 20 + 24 * 0.5));
    assert_true(isnan(bill.energy.value) && isnan(bill.carbon.value));
    price_release(&file);
}

TEST(what_was_bought_is_paid_by_the_hours_in_which_it_trains)
{
    struct price_file file =
        read_right("currency: EUR\nprice: {node_hour: 1}\npurchase: {node: {low: 300000, high: "
                   "400000}, lifetime: 20000 h, utilisation: {low: 50 %, high: 100 %}}\n");
    struct bill bill = price_bill(&file, &usage);
    is(bill.cost, 3 * (1 + 15), 2 * 3 * (1 + 27.5), 4 * 3 * (1 + 40));
    price_release(&file);
}

TEST(prices_are_found_by_platform)
{
    struct tariffs tariffs = {0};
    const char *const given[] = {"example-v100", "./p5.yaml=example-h100", "b=example-v100"};
    assert_ok(!tariffs_read(&tariffs, given, 3, &err), err);
    assert_ptr_equal(tariffs_find(&tariffs, "abci", "A"), &tariffs.item[0].file);
    assert_ptr_equal(tariffs_find(&tariffs, "P5", "A"), &tariffs.item[1].file);
    assert_int_equal(tariffs_check(&tariffs, &err), -1);
    assert_ptr_equal(tariffs_find(&tariffs, "p5", "B"), &tariffs.item[2].file);
    assert_int_equal(tariffs_check(&tariffs, &(struct err){0}), 0);
    tariffs_release(&tariffs);
}

TEST(energy_lies_between_the_products_of_all_ends)
{
    struct price_file file =
        read_right("power: {device: 700 W, node: 4.6 kW, share: {low: 60 %, high: 80 %}, pue: "
                   "{low: 1, high: 2}}\ncarbon: {low: 50 g/kWh, high: 0.7 kg/kWh}\n");
    struct bill bill = price_bill(&file, &usage);
    double rated = 3 * 4.6 + 24 * 0.7; /* kW */
    is(bill.energy, rated * 0.6, rated * 0.7 * 1.5 * 2, rated * 0.8 * 2 * 4);
    is(bill.carbon, rated * 0.6 * 0.05, rated * 0.7 * 1.5 * 2 * 0.375, rated * 0.8 * 2 * 4 * 0.7);
    assert_true(isnan(bill.cost.value));
    price_release(&file);
}

TEST(without_an_interval_of_time_there_are_no_bounds)
{
    struct price_file file = read_right("currency: USD\nprice: {node_hour: {low: 10, high: 20}}\n");
    struct bill bill = price_bill(&file, &(struct usage){1, 8, {NAN, 3600, NAN}});
    near(bill.cost.value, 15);
    assert_true(isnan(bill.cost.low) && isnan(bill.cost.high));
    price_release(&file);
    bill = price_bill(NULL, &usage);
    assert_true(isnan(bill.cost.value) && isnan(bill.energy.value) && !bill.origin);
}

static void refused_on(const char *date, const char *rest, const char *expected)
{
    struct price_file file = {0};
    assert_int_equal(read_text(&file, date, rest), -1);
    assert_has(err.text, ".yaml:");
    assert_message(&err, 65, expected);
    price_release(&file);
}

static void refused(const char *rest, const char *expected)
{
    refused_on("2026-03-31", rest, expected);
}

TEST(every_key_has_an_effect)
{
    refused("", "prices nothing");
    refused("price: {node_hour: 3}\n", ":5:8: error: prices need the key 'currency'");
    refused("currency: USD\npower: {node: 3 kW, share: 1, pue: 1}\n", "without a price");
    refused("power: {node: 3 kW, pue: 1}\n", "needs power.share and power.pue");
    refused("currency: USD\nprice: {node_hour: 3}\ncarbon: 400 g/kWh\n", "without power");
    refused("currency: USD\nprice: {node_hour: 3}\npower: {pue: 2}\n", "share and pue");
    refused("currency: USD\nprice: {node_hour: {value: 3, spread: 10 %}}\n",
            ":6:31: error: 'spread' has no effect");
    refused("currency: USD\nprice: {node_hour: {one_of: [3, 2]}}\n", "'one_of' has no effect");
    refused("currency: USD\nprice: {node_hour: {low: -3, high: 4}}\n", "out of range");
    refused("currency: USD\npurchase: {node: 3}\n", "needs node, lifetime and utilisation");
    refused("purchase: {node: 3, lifetime: 9 h, utilisation: 1}\n", "need the key 'currency'");
    refused("price: {mtbf: 9 h}\npower: {node: 3 W, share: 1, pue: 1}\n", "mtbf has no effect");
    refused("currency: USD\nprice: {node_hours: 3}\n", "did you mean 'node_hour'?");
    refused("power: {node: 3, share: 1, pue: 1}\n", "a power needs a unit, for example 700 W");
}

TEST(a_date_is_one)
{
    refused_on("2026-03", "currency: USD\nprice: {node_hour: 3}\n",
               ":4:7: error: '2026-03' is not a");
    refused_on("2026-03-31 or so", "currency: USD\nprice: {node_hour: 3}\n", "not a date");
}

TEST(the_examples_can_be_read_and_every_number_has_a_source)
{
    const char *const names[] = {"example-h100", "example-v100"};
    for (int i = 0; i < 2; i++) {
        struct price_file file = {0};
        assert_ok(!price_read(&file, names[i], &err), err);
        assert_string_equal(file.low.name, names[i]);
        assert_null(err.warning);
        price_release(&file);
        assert_fails(price_read(&file, "exampel-h100", &err), 66, "did you mean");
        price_release(&file);
    }
}
