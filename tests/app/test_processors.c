#include "app/process/processors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static void what_is_not_ours_is_foreign(void **state)
{
    (void)state;
    struct processors before = {.all = 100, .steal = 1, .busy = 50, .own = 7};
    struct processors after = {.all = 120, .steal = 2, .busy = 65, .own = 12};
    struct processors_share share = processors_between(&before, &after);
    assert_float_equal(share.steal, 1.0 / 20, 1e-12);
    assert_float_equal(share.foreign, 10.0 / 20, 1e-12);
}

static void nobody_has_less_than_nothing(void **state)
{
    (void)state;
    struct processors before = {.all = 100, .busy = 50, .own = 7};
    struct processors after = {.all = 120, .busy = 52, .own = 12};
    assert_float_equal(processors_between(&before, &after).foreign, 0, 0);
    assert_float_equal(processors_between(&before, &before).foreign, 0, 0);
    assert_float_equal(processors_between(&before, &before).steal, 0, 0);
}

/* A tenth of a second of processor time in a child's child. */
static void work(void)
{
    if (fork() == 0)
        while (clock() < CLOCKS_PER_SEC / 10)
            ;
    else
        wait(NULL);
    _exit(0);
}

static void children_and_theirs_are_ours(void **state)
{
    (void)state;
    struct processors before = processors_now();
    pid_t child = fork();
    if (child == 0)
        work();
    assert_int_equal(waitpid(child, NULL, 0), child);
    struct processors after = processors_now();
    assert_true(after.own - before.own >= 0.09);
    assert_true(after.all > before.all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_ours_is_foreign),
        cmocka_unit_test(nobody_has_less_than_nothing),
        cmocka_unit_test(children_and_theirs_are_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
