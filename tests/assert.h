#pragma once

/** @file
 * cmocka, and assertions that it lacks; each failure shows what was found.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"

/** @value differs from @expected by at most @tolerance. */
#define assert_near(value, expected, tolerance)                                                    \
    assert_within(value, expected, tolerance, __FILE__, __LINE__)

/** The same with a part of @expected, which is not negative. */
#define assert_relative(value, expected, relative)                                                 \
    assert_within(value, expected, (relative) * (expected), __FILE__, __LINE__)

/** @part stands in @text. */
#define assert_has(text, part) assert_contains(text, part, __FILE__, __LINE__)

/** @condition holds; else the messages of @err are shown. */
#define assert_ok(condition, err)                                                                  \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("%s", (err).text);                                                            \
    } while (0)

/** @err has a message with @part and this exit code; it is released. */
#define assert_message(err, code, part)                                                            \
    do {                                                                                           \
        assert_has((err)->text, part);                                                             \
        assert_int_equal((err)->exit_code, code);                                                  \
        err_release(err);                                                                          \
    } while (0)

/** For assert_near() and assert_relative(). */
static inline void assert_within(double value, double expected, double tolerance, const char *file,
                                 int line)
{
    if (value - expected <= tolerance && expected - value <= tolerance)
        return;
    print_error("%.17g is not within %g of %.17g\n", value, tolerance, expected);
    _fail(file, line);
}

/** For assert_has(). */
static inline void assert_contains(const char *text, const char *part, const char *file, int line)
{
    if (text && strstr(text, part))
        return;
    print_error("no '%s' in:\n%s\n", part, text ? text : "(nothing)");
    _fail(file, line);
}
