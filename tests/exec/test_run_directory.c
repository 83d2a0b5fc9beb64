#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "core/base/file.h"
#include "exec/checkpoint/run_directory.h"
#include "tests/exec/checkpoint_fixture.h"
#include "tests/test.h"

static struct run_directory closed(const struct fixture *f)
{
    return (struct run_directory){.path = f->directory, .lock = -1};
}

/* Take the directory for a new run, or one that goes on with @resumed. */
static struct run_directory take(const struct fixture *f, const char *resumed, bool overwrite)
{
    struct run_directory taken = closed(f);
    if (run_directory_lock(&taken, true, &err) ||
        run_directory_check(&taken, resumed, overwrite, &err) ||
        run_directory_begin(&taken, resumed, overwrite, &err))
        fail_msg("%s", err.text);
    return taken;
}

/* A run that wrote @steps checkpoints and a log; its id goes to @run. */
static void leave_run(struct fixture *f, int32_t steps, char run[RUN_ID_SIZE])
{
    CLOSED(run_directory) taken = take(f, NULL, false);
    memcpy(run, taken.run, RUN_ID_SIZE);
    memcpy(f->progress.run, taken.run, RUN_ID_SIZE);
    for (int32_t i = 1; i <= steps; i++) {
        char name[24];
        snprintf(name, sizeof(name), "ckpt-%d", i);
        assert_int_equal(write_named(f, name, 0, &err), 0);
    }
    put(f, "steps.csv", "step,run\n");
}

TEST_ON_DISK(logs_alone_and_checkpoints_without_run_json_are_a_run_too)
{
    static const char *const names[] = {"steps.csv", "evaluations.csv", "ckpt-7", "snapshot-1",
                                        ".tmp-ckpt-7"};
    struct run_directory untouched = closed(f);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        put(f, names[i], "");
        assert_int_equal(run_directory_lock(&untouched, false, &err), 0);
        assert_int_equal(untouched.lock, -1);
        assert_fails(run_directory_check(&untouched, NULL, false, &err), 73, names[i]);
        AUTOFREE char *path = base_format("%s/%s", f->directory, names[i]);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(run_directory_check(&untouched, NULL, false, &err), 0);
    }
    assert_int_equal(count_entries(f->directory), 0);
}

TEST_ON_DISK(a_run_goes_on_in_its_own_directory_or_an_empty_one)
{
    char run[RUN_ID_SIZE], other[] = "0123456789abcdef";
    struct run_directory elsewhere = take(f, other, false);
    assert_string_not_equal(elsewhere.run, other);
    run_directory_close(&elsewhere);
    leave_run(f, 1, run);
    CLOSED(run_directory) taken = take(f, run, false);
    assert_string_equal(taken.run, run);
    assert_fails(run_directory_check(&taken, other, false, &err), 73, other);
    assert_fails(run_directory_check(&taken, "", false, &err), 73, "unknown");
}

TEST_ON_DISK(overwriting_removes_what_a_run_wrote_and_nothing_else)
{
    static const char *const mine[] = {"notes.txt", "job.yaml",      "trace.json",
                                       "ckpt-best", "steps.csv.bak", ".tmp-mine"};
    static const char *const theirs[] = {"steps.csv", "evaluations.csv"};
    char run[RUN_ID_SIZE];
    leave_run(f, 3, run);
    assert_int_equal(write_named(f, "snapshot-1", 0, &err), 0);
    assert_int_equal(write_named(f, "ckpt-9", 0, &err), 0);
    AUTOFREE char *from = base_format("%s/ckpt-9", f->directory);
    AUTOFREE char *to = base_format("%s/.tmp-gone-ckpt-9", f->directory);
    assert_int_equal(rename(from, to), 0);
    for (size_t i = 0; i < sizeof(theirs) / sizeof(*theirs); i++)
        put(f, theirs[i], "x");
    for (size_t i = 0; i < sizeof(mine) / sizeof(*mine); i++)
        put(f, mine[i], "x");
    struct run_directory taken = take(f, NULL, true);
    assert_string_not_equal(taken.run, run);
    run_directory_close(&taken);
    for (size_t i = 0; i < sizeof(mine) / sizeof(*mine); i++)
        assert_true(is_there(f, mine[i]));
    assert_int_equal(count_entries(f->directory), sizeof(mine) / sizeof(*mine) + 1);
}

TEST_ON_DISK(overwriting_is_refused_before_it_harms_what_no_run_wrote)
{
    char run[RUN_ID_SIZE];
    leave_run(f, 2, run);
    struct run_directory taken = closed(f);
    assert_int_equal(run_directory_lock(&taken, false, &err), 0);
    put(f, "ckpt-1/notes.txt", "x");
    assert_fails(run_directory_check(&taken, NULL, true, &err), 73, "ckpt-1");
    put(f, "ckpt-5", "a file");
    assert_fails(run_directory_check(&taken, NULL, true, &err), 73, "ckpt-5");
    char *link = base_format("%s/snapshot-3", f->directory);
    assert_int_equal(symlink("ckpt-2", link), 0);
    assert_fails(run_directory_check(&taken, NULL, true, &err), 73, "snapshot-3");
    free(link);
    run_directory_close(&taken);
    assert_true(holds(f, "ckpt-2", 0));
}

TEST_ON_DISK(a_run_json_that_no_run_wrote_is_left_alone)
{
    static const char *const contents[] = {"mine", "{}", "[1]", "{\"schema\": \"other/1\"}"};
    for (size_t i = 0; i < sizeof(contents) / sizeof(*contents); i++) {
        struct run_directory taken = closed(f);
        put(f, "run.json", contents[i]);
        assert_fails(run_directory_lock(&taken, true, &err), 73, "no run wrote this file");
        assert_int_equal(taken.lock, -1);
    }
}

TEST_ON_DISK(no_checkpoint_is_written_into_the_directory_of_another_run)
{
    char run[RUN_ID_SIZE];
    leave_run(f, 2, run);
    CLOSED(run_directory) taken = take(f, NULL, true);
    assert_fails(write_named(f, "ckpt-3", 0, &err), 73, taken.run);
    assert_int_equal(count_entries(f->directory), 1);
}

static _Noreturn void overwrite(const struct fixture *f, int ready)
{
    struct run_directory taken = closed(f);
    if (run_directory_lock(&taken, false, &err) || write(ready, "", 1) != 1 ||
        run_directory_begin(&taken, NULL, true, &err))
        _exit(1);
    _exit(0);
}

/* At any moment the directory is refused to a new run, or holds nothing of the old one. */
TEST_ON_DISK(killed_while_overwriting_leaves_a_refused_directory_or_an_empty_one)
{
    for (int32_t round = 0; round < 40; round++) {
        char run[RUN_ID_SIZE], found[RUN_ID_SIZE], byte;
        int ready[2], status;
        leave_run(f, 8, run);
        assert_int_equal(pipe(ready), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            overwrite(f, ready[1]);
        assert_int_equal(read(ready[0], &byte, 1), 1);
        nanosleep(&(struct timespec){.tv_nsec = 25000 * (round % 20)}, NULL);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        close(ready[0]);
        close(ready[1]);
        CLOSED(run_directory) left = closed(f);
        assert_int_equal(run_directory_lock(&left, false, &err), 0);
        assert_true(run_record_run(f->directory, found));
        if (run_directory_check(&left, NULL, false, &err))
            assert_string_equal(found, run);
        else
            assert_int_equal(count_entries(f->directory), 1);
        err_release(&err);
        assert_int_equal(run_directory_check(&left, NULL, true, &err), 0);
        assert_int_equal(run_directory_begin(&left, NULL, true, &err), 0);
    }
}
