/* Rounds worked out by hand. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/collective/collective.h"

/* Rank 3 of 8 on 8 elements, worked out by hand from the description of Open MPI's
 * redscat_allgather: the window is halved while the distance doubles, and the smaller rank keeps
 * the left half; far first, the same windows by the bits from the highest down. */
static void the_order_of_halving_decides_who_gets_the_large_messages(void **state)
{
    (void)state;
    static const struct {
        int32_t peer, sent, kept, count;
    } near[] = {{2, 0, 4, 4}, {1, 4, 6, 2}, {7, 7, 6, 1}},
      far[] = {{7, 4, 0, 4}, {1, 0, 2, 2}, {2, 2, 3, 1}};
    struct collective c = {.algorithm = ALGORITHM_HALVING_DOUBLING, .ranks = 8, .elements = 8};
    for (int32_t round = 0; round < 3; round++) {
        struct exchange exchange = collective_exchange(&c, 3, round);
        assert_int_equal(exchange.send.peer, near[round].peer);
        assert_int_equal(exchange.send.offset, near[round].sent);
        assert_int_equal(exchange.send.count, near[round].count);
        assert_int_equal(exchange.receive.offset, near[round].kept);
        c.algorithm = ALGORITHM_HALVING_DOUBLING_FAR;
        exchange = collective_exchange(&c, 3, round);
        assert_int_equal(exchange.send.peer, far[round].peer);
        assert_int_equal(exchange.send.offset, far[round].sent);
        assert_int_equal(exchange.send.count, far[round].count);
        assert_int_equal(exchange.receive.offset, far[round].kept);
        c.algorithm = ALGORITHM_HALVING_DOUBLING;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_of_halving_decides_who_gets_the_large_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
