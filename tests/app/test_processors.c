#include "app/process/processors.h"

#include <sys/wait.h>

#include "tests/test.h"

TEST(what_is_not_ours_is_foreign)
{
    struct processors before = {.all = 100, .steal = 1, .busy = 50, .own = 7};
    struct processors after = {.all = 120, .steal = 2, .busy = 65, .own = 12};
    struct processors_share share = processors_between(&before, &after);
    assert_float_equal(share.steal, 1.0 / 20, 1e-12);
    assert_float_equal(share.foreign, 10.0 / 20, 1e-12);
}

TEST(nobody_has_less_than_nothing)
{
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

TEST(children_and_theirs_are_ours)
{
    struct processors before = processors_now();
    pid_t child = fork();
    if (child == 0)
        work();
    assert_int_equal(waitpid(child, NULL, 0), child);
    struct processors after = processors_now();
    assert_true(after.own - before.own >= 0.09);
    assert_true(after.all > before.all);
}

TEST(slurm_says_how_many_ranks_a_node_has)
{
    assert_int_equal(processors_slurm_tasks("2", 0), 2);
    assert_int_equal(processors_slurm_tasks("2(x3)", 0), 2);
    assert_int_equal(processors_slurm_tasks("2(x3)", 2), 2);
    assert_int_equal(processors_slurm_tasks("2,1", 0), 2);
    assert_int_equal(processors_slurm_tasks("2,1", 1), 1);
    assert_int_equal(processors_slurm_tasks("4(x2),1,16(x10)", 1), 4);
    assert_int_equal(processors_slurm_tasks("4(x2),1,16(x10)", 2), 1);
    assert_int_equal(processors_slurm_tasks("4(x2),1,16(x10)", 12), 16);
    static const char *const none[] = {"",   "x",  "2(", "2(x", "2(x3",        "2(x0)",  "2(3)",
                                       "2 ", "2,", "-2", "0",   "99999999999", "2(x-1)", "2(x3)4"};
    for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
        assert_int_equal(processors_slurm_tasks(none[i], 1), 0);
    assert_int_equal(processors_slurm_tasks("4(x2),1", 3), 0);
}

TEST(the_launcher_says_how_many_ranks_this_machine_has)
{
    static const char *const keys[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_STEP_TASKS_PER_NODE",
                                       "SLURM_NODEID"};
    static const struct {
        const char *value[3];
        int32_t ranks;
    } cases[] = {{{NULL, NULL, NULL}, 1},  {{"4", "1", "0"}, 4},         {{NULL, "2,3", "1"}, 3},
                 {{NULL, "2,3", NULL}, 2}, {{NULL, "nonsense", "0"}, 1}, {{"1", "8", "0"}, 1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        for (int k = 0; k < 3; k++)
            if (cases[i].value[k])
                setenv(keys[k], cases[i].value[k], 1);
            else
                unsetenv(keys[k]);
        assert_int_equal(processors_ranks(), cases[i].ranks);
    }
}
