#pragma once

/** @file
 * Routes of a fabric as text, for tests.
 */

#include "core/network/fabric.h"
#include "tests/assert.h"
#include "tests/own.h"

/** The names of the links of a route, joined by blanks; the caller frees it. */
static inline char *route_text(const struct fabric *fabric, int32_t from, int32_t to)
{
    struct route route;
    fabric_route(fabric, from, to, &route);
    struct text text = {0};
    for (int32_t i = 0; i < route.count; i++) {
        AUTOFREE char *name = fabric_link_name(fabric, route.link[i]);
        text_add(&text, "%s%s", i ? " " : "", name);
    }
    return text.data;
}

/** The route from @from to @to has the names @expected. */
static inline void expect_route(const struct fabric *fabric, int32_t from, int32_t to,
                                const char *expected)
{
    AUTOFREE char *text = route_text(fabric, from, to);
    assert_string_equal(text, expected);
}

/** A kind of link. */
static inline struct link_kind kind(const char *name, double bandwidth, double latency)
{
    struct link_kind kind = {.bandwidth = bandwidth, .latency = latency};
    strcpy(kind.name, name);
    return kind;
}
