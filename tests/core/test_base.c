#include "config.h"
#include "core/base/random.h"
#include "tests/test.h"

#if HAVE_GSL
#include <gsl/gsl_qrng.h>
#include <gsl/gsl_randist.h>
#endif

TEST(allocated_memory_is_zero_and_grown_memory_keeps_its_content)
{
    int32_t *zero = base_alloc(100, sizeof(*zero));
    for (int i = 0; i < 100; i++)
        assert_int_equal(zero[i], 0);
    free(zero);
    int64_t *array = NULL, *grown = NULL, capacity = 0;
    for (int64_t i = 0; i < 1000; i++) {
        array = base_room(array, i, sizeof(*array));
        grown = base_grow(grown, i + 1, &capacity, sizeof(*grown));
        assert_true(capacity > i);
        array[i] = grown[i] = i;
    }
    for (int64_t i = 0; i < 1000; i++)
        assert_true(array[i] == i && grown[i] == i);
    free(array);
    free(grown);
    assert_null(base_copy(NULL));
}

TEST(text_grows_by_formats_and_by_bytes)
{
    struct text text = {0};
    for (int i = 0; i < 100; i++)
        text_add(&text, "%d,", i);
    text_append(&text, "end", 3);
    assert_int_equal(text.length, 10 * 2 + 90 * 3 + 3);
    assert_int_equal(strlen(text.data), text.length);
    assert_memory_equal(text.data + text.length - 6, "99,end", 6);
    text_release(&text);
    assert_null(text.data);
}

TEST(what_steers_a_terminal_is_cleaned)
{
    char text[] = "a\tb\n\x1b[31m\x0c\x7f \xc2\x9b \xc2\xb5s \xc3\xa9";
    text_clean(text);
    assert_string_equal(text, "a\tb\n?[31m?? ?? \xc2\xb5s \xc3\xa9");
}

TEST(the_hash_is_fnv_1a)
{
    /* Source: the test vectors published with the algorithm. */
    assert_true(base_hash(BASE_HASH_SEED, "", 0) == UINT64_C(0xcbf29ce484222325));
    assert_true(base_hash(BASE_HASH_SEED, "a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(base_hash(BASE_HASH_SEED, "foobar", 6) == UINT64_C(0x85944171f73967e8));
    uint64_t half = base_hash(BASE_HASH_SEED, "foo", 3);
    assert_true(base_hash(half, "bar", 3) == UINT64_C(0x85944171f73967e8));
}

TEST(random_numbers_depend_on_every_argument_and_nothing_else)
{
    double x = base_uniform(1, 2, 3, 4);
    assert_true(x == base_uniform(1, 2, 3, 4));
    assert_true(x != base_uniform(2, 2, 3, 4) && x != base_uniform(1, 3, 3, 4));
    assert_true(x != base_uniform(1, 2, 4, 4) && x != base_uniform(1, 2, 3, 5));
    assert_true(base_uniform(1, 2, 3, 4) != base_uniform(1, 3, 2, 4));
}

/* The bounds are five standard errors of the mean of 100000 draws. */
TEST(random_numbers_have_the_right_moments)
{
    const int count = 100000;
    double uniform = 0, normal = 0, square = 0;
    for (int i = 0; i < count; i++) {
        double u = base_uniform(7, (uint64_t)i, 0, 0), n = base_normal(7, (uint64_t)i, 0, 0);
        assert_true(u > 0 && u < 1 && isfinite(n));
        uniform += u;
        normal += n;
        square += n * n;
    }
    double error = 5 / sqrt(count);
    assert_true(fabs(uniform / count - 0.5) < error * sqrt(1.0 / 12));
    assert_true(fabs(normal / count) < error);
    assert_true(fabs(square / count - 1) < error * sqrt(2));
}

TEST(the_edit_distance_counts_edits_and_swaps)
{
    assert_int_equal(base_edit_distance("", "abc"), 3);
    assert_int_equal(base_edit_distance("abc", ""), 3);
    assert_int_equal(base_edit_distance("kitten", "sitting"), 3);
    assert_int_equal(base_edit_distance("nodse", "nodes"), 1);
    const char *const words[] = {"a", "ab", "ba", "nodes", "node", "devices", "", "xyzzy"};
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
            int32_t distance = base_edit_distance(words[i], words[j]);
            assert_int_equal(distance, base_edit_distance(words[j], words[i]));
            assert_int_equal(distance == 0, i == j);
        }
}

TEST(a_word_is_found_whole)
{
    static const char *const words[] = {"tree", "ring", NULL};
    assert_int_equal(base_find_word("ring", words), 1);
    assert_int_equal(base_find_word("rin", words), -1);
    assert_int_equal(base_find_word(NULL, words), -1);
}

TEST(the_nearest_word_is_near_or_none)
{
    const char *const words[] = {"epochs", "batch_per_device", "ring", NULL};
    assert_string_equal(base_nearest("epocs", words), "epochs");
    assert_string_equal(base_nearest("rign", words), "ring");
    assert_string_equal(base_nearest("batch_per_gpu", words) ? "near" : "none", "none");
    assert_null(base_nearest("x", words));
    assert_null(base_nearest("", words));
    AUTOFREE char *endless = base_alloc(1 << 20, 1);
    memset(endless, 'e', (1 << 20) - 1);
    assert_null(base_nearest(endless, words));
}

TEST(messages_gather_and_the_first_decides_the_exit_code)
{
    assert_int_equal(err_add_code(&err, 66, "no %s", "file"), -1);
    assert_int_equal(err_add(&err, "bad"), -1);
    assert_int_equal(err.exit_code, 66);
    assert_int_equal(err.count, 2);
    assert_string_equal(err.text, "no file\nbad\n");
    err_release(&err);
    assert_int_equal(err_add(&err, "bad"), -1);
    assert_int_equal(err.exit_code, 65);
    err_release(&err);
}

TEST(a_message_may_be_the_reason_of_another)
{
    HELD(err) from = {0};
    assert_string_equal(err_reason(&from), "");
    err_add_code(&from, 66, "first\n  excerpt");
    err_add(&from, "second");
    assert_string_equal(err_reason(&from), "first");
    err_warn(&from, "one");
    err_warn(&from, "two");
    err_warn(&err, "two");
    err_warn_all(&err, &from);
    assert_string_equal(err.warning, "two\none\n");
    assert_int_equal(err_exit(&err, 75), -1);
    assert_int_equal(err.exit_code, 75);
    assert_null(err.text);
}

TEST(messages_beyond_the_limit_are_counted)
{
    for (int i = 0; i < ERR_MESSAGE_LIMIT + 12; i++)
        err_add(&err, "message %d\nof two lines", i);
    assert_int_equal(err.count, ERR_MESSAGE_LIMIT + 12);
    const char *end = "message 19\nof two lines\n... and 12 more\n";
    assert_string_equal(err.text + strlen(err.text) - strlen(end), end);
}

/* Source: C++17, 29.6.5: the 10000th number of mt19937 with its usual seed. */
TEST(bits_are_those_of_the_standard)
{
    struct random random;
    random_start(&random, 5489);
    uint32_t bits = 0;
    for (int i = 0; i < 10000; i++)
        bits = random_bits(&random);
    assert_true(bits == 4123659995);
}

#if HAVE_GSL
TEST(draws_are_those_of_gsl)
{
    struct random random;
    random_start(&random, 1);
    gsl_rng *rng = gsl_rng_alloc(gsl_rng_mt19937);
    gsl_rng_set(rng, 1);
    for (int i = 0; i < 20000; i++) {
        double a, b, x, y;
        random_normals(&random, -0.3, &a, &b);
        gsl_ran_bivariate_gaussian(rng, 1, 1, -0.3, &x, &y);
        assert_near(a, x, 1e-12);
        assert_near(b, y, 1e-12);
        assert_near(random_normal(&random), gsl_ran_gaussian(rng, 1), 1e-12);
        double t = gsl_ran_tdist(rng, 2 + i % 7);
        assert_near(random_student(&random, 2 + i % 7), t, 1e-9 * (1 + fabs(t)));
        assert_true(random_uniform(&random) == gsl_rng_uniform(rng));
    }
    gsl_rng_free(rng);
}

TEST(points_are_those_of_gsl)
{
    struct sobol sobol;
    sobol_start(&sobol, SOBOL_DIMENSIONS);
    gsl_qrng *points = gsl_qrng_alloc(gsl_qrng_sobol, SOBOL_DIMENSIONS);
    for (int i = 0; i < 5000; i++) {
        double own[SOBOL_DIMENSIONS], its[SOBOL_DIMENSIONS];
        sobol_next(&sobol, own);
        gsl_qrng_get(points, its);
        for (int d = 0; d < SOBOL_DIMENSIONS; d++)
            assert_true(own[d] == its[d]);
    }
    gsl_qrng_free(points);
}
#endif
