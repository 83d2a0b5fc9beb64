#pragma once

/** @file
 * Cases of a cmocka program that list themselves.  main() runs them in the order in which they
 * stand; a file that defines OWN_MAIN before it includes this one has its own.  stdlib.h and
 * string.h come with it.
 */

#include "tests/assert.h"
#include "tests/own.h"

/** What the case at hand is told; empty when it begins. */
static struct err err;

/** @call fails with @code and a message that has @part. */
#define assert_fails(call, code, part)                                                             \
    do {                                                                                           \
        assert_int_equal(call, -1);                                                                \
        assert_message(&err, code, part);                                                          \
    } while (0)

/** The cases; no file has as many, and the rest is zero. */
static struct CMUnitTest tests[128];

/** A case, which the body behind it tests, with what cmocka calls before and after it. */
#define TEST_WITH(name, setup, teardown)                                                           \
    static void name##_begun(void **state);                                                        \
    static void name(void **state)                                                                 \
    {                                                                                              \
        err_release(&err);                                                                         \
        name##_begun(state);                                                                       \
    }                                                                                              \
    __attribute__((constructor)) static void name##_is_listed(void)                                \
    {                                                                                              \
        struct CMUnitTest *next = tests;                                                           \
        while (next->test_func)                                                                    \
            next++;                                                                                \
        *next = (struct CMUnitTest)cmocka_unit_test_setup_teardown(name, setup, teardown);         \
    }                                                                                              \
    static void name##_begun(__attribute__((unused)) void **state)

/** A case that needs neither. */
#define TEST(name) TEST_WITH(name, NULL, NULL)

/** A case in which @call passes what follows, a function of these parameters, on as `see`. */
#define TEST_EACH(name, call, ...)                                                                 \
    static void name##_of(__VA_ARGS__);                                                            \
    TEST(name)                                                                                     \
    {                                                                                              \
        void (*see)(__VA_ARGS__) = name##_of;                                                      \
        call;                                                                                      \
    }                                                                                              \
    static void name##_of(__VA_ARGS__)

#ifndef OWN_MAIN
/** Every case, once. */
int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
