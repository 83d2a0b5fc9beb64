#include "core/base/unit.h"

#include <regex.h>

#include "tests/test.h"

static double parsed(enum unit unit, const char *text)
{
    double value = NAN;
    assert_ok(!unit_parse(unit, text, &value, &err), err);
    return value;
}

static void refused(enum unit unit, const char *text, const char *expected)
{
    double value = 42;
    assert_int_equal(unit_parse(unit, text, &value, &err), -1);
    assert_true(value == 42);
    if (!strstr(err.text, expected))
        fail_msg("'%s' gave: %s", text, err.text);
    err_release(&err);
}

TEST(reads_every_unit_into_si)
{
    assert_true(parsed(UNIT_BYTES, "4 MiB") == 4194304);
    assert_true(parsed(UNIT_BYTES, "100MB") == 1e8);
    assert_true(parsed(UNIT_BYTES_PER_SECOND, "25 GB/s") == 25e9);
    assert_true(parsed(UNIT_BYTES_PER_SECOND, "100 Gb/s") == 12.5e9);
    assert_true(parsed(UNIT_SECONDS, "5 ns") == 5e-9);
    assert_true(parsed(UNIT_SECONDS, "1.5 us") == 1.5e-6);
    assert_true(parsed(UNIT_SECONDS, "2 min") == 120);
    assert_true(parsed(UNIT_SECONDS, "2 d") == 2 * 86400 && parsed(UNIT_SECONDS, "1 day") == 86400);
    assert_true(parsed(UNIT_FLOPS, "125 TFLOP/s") == 125e12);
    assert_true(parsed(UNIT_FRACTION, "2 %") == 0.02);
    assert_true(parsed(UNIT_FRACTION, "0.02") == 0.02);
    assert_true(parsed(UNIT_AMOUNT, "15T") == 15e12 && parsed(UNIT_AMOUNT, "300 B") == 300e9);
    assert_true(parsed(UNIT_AMOUNT, "2.5M") == 2.5e6 && parsed(UNIT_AMOUNT, "64e3") == 64e3);
    assert_true(parsed(UNIT_EPOCHS, "1 epochs") == 1);
    assert_true(parsed(UNIT_EPOCHS, "0") == 0);
    assert_true(parsed(UNIT_IMAGES_PER_SECOND, "350 images/s") == 350);
    assert_true(parsed(UNIT_WATTS, "10.2 kW") == 10200);
    assert_true(parsed(UNIT_CARBON, "360 g/kWh") == 1e-7); /* 0.36 kg in 3.6 MJ */
    assert_true(parsed(UNIT_CARBON, "0.36 kg/kWh") == 1e-7);
    assert_true(parsed(UNIT_NONE, "-5e-5") == -5e-5);
}

TEST(keeps_bits_and_bytes_apart)
{
    const char *prefix[] = {"k", "M", "G", "T"};
    for (int i = 0; i < 4; i++) {
        char bits[32], bytes[32];
        snprintf(bits, sizeof(bits), "8 %sb/s", prefix[i]);
        snprintf(bytes, sizeof(bytes), "1 %sB/s", prefix[i]);
        assert_true(parsed(UNIT_BYTES_PER_SECOND, bits) == parsed(UNIT_BYTES_PER_SECOND, bytes));
    }
}

TEST(micro_has_three_spellings)
{
    assert_true(parsed(UNIT_SECONDS, "2 us") == 2e-6);
    assert_true(parsed(UNIT_SECONDS, "2 \302\265s") == 2e-6);
    assert_true(parsed(UNIT_SECONDS, "2\316\274s") == 2e-6);
}

TEST(other_spellings_suggest_the_same_size)
{
    static const struct {
        enum unit unit;
        const char *text, *expected;
    } wrong[] = {
        {UNIT_BYTES_PER_SECOND, "400 Gbit/s", "did you mean 'Gb/s'?"},
        {UNIT_BYTES_PER_SECOND, "400 Gbits/sec", "did you mean 'Gb/s'?"},
        {UNIT_BYTES_PER_SECOND, "400 Gbps", "did you mean 'Gb/s'?"},
        {UNIT_BYTES_PER_SECOND, "50 GBps", "did you mean 'GB/s'?"},
        {UNIT_BYTES_PER_SECOND, "50 GByte/s", "did you mean 'GB/s'?"},
        {UNIT_BYTES_PER_SECOND, "50 KB/s", "did you mean 'kB/s' or 'kb/s'?"},
        {UNIT_BYTES_PER_SECOND, "50 gb/s", "did you mean 'GB/s' or 'Gb/s'?"},
        {UNIT_BYTES, "8 KB", "did you mean 'kB'?"},
        {UNIT_BYTES, "8 mib", "did you mean 'MiB'?"},
        {UNIT_BYTES, "1 EiB", "which is written like 4 MiB"},
        {UNIT_FLOPS, "989 TFLOPS", "did you mean 'TFLOP/s'?"},
        {UNIT_SECONDS, "3 sec", "did you mean 's'?"},
        {UNIT_SECONDS, "3 usec", "did you mean 'us'?"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        refused(wrong[i].unit, wrong[i].text, wrong[i].expected);
}

TEST(refuses_what_is_not_a_quantity)
{
    refused(UNIT_BYTES_PER_SECOND, "25", "a bandwidth needs a unit, for example 25 GB/s");
    refused(UNIT_SECONDS, "0", "a time needs a unit");
    refused(UNIT_BYTES, "4 MiBs", "did you mean 'MiB'?");
    refused(UNIT_BYTES_PER_SECOND, "25 GB", "written like 25 GB/s");
    refused(UNIT_SECONDS, "2 parsecs", "'parsecs' is not a unit of a time");
    refused(UNIT_NONE, "3 us", "no unit belongs here");
    refused(UNIT_NONE, "ninety", "'ninety' is not a number");
    refused(UNIT_BYTES, "", "is not a size");
    refused(UNIT_NONE, "nan", "is not a number");
    refused(UNIT_NONE, "-inf", "is not a number");
    refused(UNIT_NONE, "0x10", "is not a number");
    refused(UNIT_NONE, ".", "is not a number");
    refused(UNIT_NONE, "1e999", "too large");
    refused(UNIT_BYTES, "1e300 TB", "too large");
}

static void printed(enum unit unit, double value, const char *expected)
{
    assert_string_equal(unit_text(unit, value), expected);
}

TEST(prints_with_a_readable_prefix)
{
    printed(UNIT_BYTES_PER_SECOND, 12.5e9, "12.5 GB/s");
    printed(UNIT_BYTES, 4194304, "4 MiB");
    printed(UNIT_BYTES, 1e8, "100 MB");
    printed(UNIT_BYTES, 1e12, "1 TB");
    printed(UNIT_BYTES, 0, "0 B");
    printed(UNIT_SECONDS, 0, "0 s");
    printed(UNIT_SECONDS, 2e-6, "2 us");
    printed(UNIT_SECONDS, 0.04927, "49.27 ms");
    printed(UNIT_SECONDS, 224, "224 s");
    printed(UNIT_SECONDS, 5400, "90 min");
    printed(UNIT_FLOPS, 125e12, "125 TFLOP/s");
    printed(UNIT_FRACTION, 0.9162, "91.62 %");
    printed(UNIT_IMAGES_PER_SECOND, 1731482.4, "1731482 images/s");
    printed(UNIT_AMOUNT, 15e12, "15 T");
    printed(UNIT_AMOUNT, 64000, "64000");
    printed(UNIT_EPOCHS, 90, "90 epochs");
    printed(UNIT_NONE, NAN, "-");
}

/* Digits end at a twentieth of the interval, and no unit is another than the centre's. */
TEST(prints_an_interval_as_its_centre)
{
    const struct {
        enum unit unit;
        double value, centre, low, high;
        const char *text;
    } rows[] = {
        {UNIT_FRACTION, 0.7932, 0.7932, 0.5196, 0.9456, "79 %"},
        {UNIT_FRACTION, 0.9456, 0.7932, 0.5196, 0.9456, "95 %"},
        {UNIT_SECONDS, 973.8, 507.8, 303.3, 973.8, "970 s"},
        {UNIT_SECONDS, 0.0107, 0.01067, 0.009675, 0.01304, "10.7 ms"},
        {UNIT_SECONDS, 1.004, 1, 1, 1.004, "1.004 s"},
        {UNIT_IMAGES_PER_SECOND, 853286, 853286, 552528, 1011344, "850000 images/s"},
        {UNIT_SECONDS, 0.04927, 0.04927, NAN, NAN, "49.27 ms"},
        {UNIT_SECONDS, 0.04927, 0.04927, 0.04927, 0.04927, "49.27 ms"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        assert_string_equal(
            unit_likely(rows[i].unit, rows[i].value, rows[i].centre, rows[i].low, rows[i].high),
            rows[i].text);
}

TEST(what_is_printed_is_read_again_to_four_digits)
{
    for (int unit = 0; unit < UNIT_COUNT; unit++) {
        for (double value = 1.2345e-9; value < 1e17; value *= 7.3) {
            double again = parsed((enum unit)unit, unit_text((enum unit)unit, value));
            assert_true(fabs(again - value) <= 5e-4 * value);
        }
    }
}

TEST(the_pattern_accepts_exactly_what_is_parsed)
{
    static const char *const texts[] = {
        "1",        "1.",         ".5",     "+1e3",    "-2.5E-3", "1 %",       "4 MiB",
        "4MiB",     "25 GB/s",    "1 Gb/s", "2 us",    "3  h",    "7 TFLOP/s", "1 epoch",
        "2 epochs", "3 images/s", "x",      "",        "1 x",     "0x10",      "nan",
        "inf",      ".",          "1e",     "1 GB /s", " 1",      "1 ",
    };
    for (int unit = 0; unit < UNIT_COUNT; unit++) {
        HELD(text) pattern = {0};
        unit_pattern(&pattern, (enum unit)unit);
        regex_t regex;
        assert_int_equal(regcomp(&regex, pattern.data, REG_EXTENDED | REG_NOSUB), 0);
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
            err_release(&err);
            double value;
            bool accepted = unit_parse((enum unit)unit, texts[i], &value, &err) == 0;
            bool matched = regexec(&regex, texts[i], 0, NULL, 0) == 0;
            if (accepted != matched)
                fail_msg("'%s' against %s", texts[i], pattern.data);
        }
        regfree(&regex);
    }
}

TEST(its_own_example_can_be_read)
{
    for (int unit = 0; unit < UNIT_COUNT; unit++)
        assert_true(parsed((enum unit)unit, unit_example((enum unit)unit)) > 0);
}
