#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/exec/checkpoint_fixture.h"
#include "tests/test.h"

static void write_seeded(struct fixture *f, const char *name, int32_t keep, int32_t seed)
{
    fill_weights(&f->layout, &f->weights, seed);
    assert_int_equal(write_named(f, name, keep, &err), 0);
}

/* The one that @run goes on from (NULL: any run) is @name; what is passed over goes to @notes. */
static void expect_latest(const struct fixture *f, const char *run, const char *name,
                          struct text *notes)
{
    AUTOFREE char *found = checkpoint_latest(f->directory, run, notes);
    AUTOFREE char *expected = base_format("%s/%s", f->directory, name);
    assert_non_null(found);
    assert_string_equal(found, expected);
}

static void make(const struct fixture *f, const char *name)
{
    AUTOFREE char *path = base_format("%s/%s", f->directory, name);
    assert_int_equal(mkdir(path, 0777), 0);
}

TEST_ON_DISK(makes_directories_that_are_missing)
{
    AUTOFREE char *deep = base_format("%s/a/b//c/", f->directory);
    assert_int_equal(
        checkpoint_write(deep, "ckpt-000001", 0, &f->layout, &f->progress, &f->weights, &err), 0);
    assert_true(holds(f, "a/b/c/ckpt-000001", 0));
}

TEST_ON_DISK(refuses_a_directory_that_cannot_be_made)
{
    put(f, "file", "");
    AUTOFREE char *path = base_format("%s/file/runs", f->directory);
    assert_fails(checkpoint_write(path, "ckpt-1", 0, &f->layout, &f->progress, &f->weights, &err),
                 73, path);
}

TEST_ON_DISK(keeps_the_newest_and_what_is_not_numbered)
{
    write_seeded(f, "snapshot-1", 2, 9);
    make(f, "ckpt-old");
    for (int32_t i = 8; i <= 12; i++) { /* 10 is newer than 9, though its letters are not */
        char name[24];
        snprintf(name, sizeof(name), "ckpt-%d", i);
        write_seeded(f, name, 2, i);
    }
    assert_true(holds(f, "ckpt-12", 12));
    assert_true(holds(f, "ckpt-11", 11));
    assert_true(holds(f, "snapshot-1", 9));
    assert_true(is_there(f, "ckpt-old"));
    assert_int_equal(count_entries(f->directory), 4);
    write_seeded(f, "ckpt-5", 2, 5); /* went on from an older one: stays, whatever its number */
    assert_true(holds(f, "ckpt-5", 5));
    assert_true(holds(f, "ckpt-12", 12));
    assert_false(is_there(f, "ckpt-11"));
    for (int32_t i = 13; i <= 16; i++) {
        char name[24];
        snprintf(name, sizeof(name), "ckpt-%d", i);
        write_seeded(f, name, 0, i);
    }
    assert_int_equal(count_entries(f->directory), 8);
}

static void write_of_run(struct fixture *f, const char *run, const char *name, int32_t keep)
{
    snprintf(f->progress.run, sizeof(f->progress.run), "%s", run);
    write_seeded(f, name, keep, 1);
}

TEST_ON_DISK(those_of_another_run_are_neither_taken_nor_removed)
{
    HELD(text) notes = {0};
    write_of_run(f, "aaaaaaaaaaaaaaaa", "ckpt-100", 1);
    write_of_run(f, "bbbbbbbbbbbbbbbb", "ckpt-10", 1);
    write_of_run(f, "bbbbbbbbbbbbbbbb", "ckpt-20", 1);
    assert_true(is_there(f, "ckpt-100"));
    assert_false(is_there(f, "ckpt-10"));
    expect_latest(f, "bbbbbbbbbbbbbbbb", "ckpt-20", &notes);
    assert_has(notes.data, "ckpt-100 is passed over: it is of run aaaaaaaaaaaaaaaa");
    assert_null(checkpoint_latest(f->directory, "cccccccccccccccc", &notes));
}

TEST_ON_DISK(leaves_a_checkpoint_with_other_files_alone)
{
    write_seeded(f, "ckpt-1", 1, 1);
    put(f, "ckpt-1/notes.txt", "");
    write_seeded(f, "ckpt-2", 1, 2);
    write_seeded(f, "ckpt-3", 1, 3);
    assert_true(holds(f, "ckpt-1", 1));
    assert_true(is_there(f, "ckpt-1/notes.txt"));
    assert_false(is_there(f, "ckpt-2"));
}

TEST_ON_DISK(replaces_one_of_the_same_name)
{
    write_seeded(f, "ckpt-1", 0, 1);
    write_seeded(f, "ckpt-1", 0, 2);
    assert_true(holds(f, "ckpt-1", 2));
    assert_int_equal(count_entries(f->directory), 1);
}

TEST_ON_DISK(leftovers_are_passed_over_and_removed_by_the_next_write)
{
    HELD(text) notes = {0};
    write_seeded(f, "ckpt-1", 0, 1);
    make(f, ".tmp-ckpt-2");
    put(f, ".tmp-ckpt-2/model.safetensors", "");
    make(f, ".tmp-mine");
    put(f, ".tmp-mine/other", "");
    expect_latest(f, NULL, "ckpt-1", &notes);
    assert_has(notes.data, ".tmp-ckpt-2 was not finished");
    write_seeded(f, "ckpt-3", 0, 3);
    assert_false(is_there(f, ".tmp-ckpt-2"));
    assert_true(is_there(f, ".tmp-mine/other")); /* not one of ours */
}

TEST_ON_DISK(the_latest_is_the_newest_that_is_whole)
{
    HELD(text) notes = {0};
    assert_null(checkpoint_latest(f->directory, NULL, &notes));
    assert_null(notes.data);
    write_seeded(f, "ckpt-99", 0, 1);
    write_seeded(f, "ckpt-100", 0, 2);
    write_seeded(f, "ckpt-101", 0, 3);
    char *path = base_format("%s/ckpt-101/optim.safetensors", f->directory);
    assert_int_equal(truncate(path, 100), 0);
    free(path);
    expect_latest(f, NULL, "ckpt-100", &notes);
    assert_has(notes.data, "ckpt-101 is passed over");
    assert_has(notes.data, "optim.safetensors");
}

TEST_ON_DISK(a_limit_on_files_harms_nothing)
{
    struct rlimit old, low;
    write_seeded(f, "ckpt-1", 0, 1);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_IGN);
    static const rlim_t limits[] = {0, 1, 8, 100, 1000, 4096};
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
        low = (struct rlimit){limits[i], old.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
        int failed = write_named(f, "ckpt-2", 1, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_fails(failed, 74, "model.safetensors: cannot be written: File too large");
        assert_int_equal(count_entries(f->directory), 1);
    }
    assert_true(holds(f, "ckpt-1", 1));
}

TEST_ON_DISK(a_directory_of_others_is_not_written_to)
{
    write_seeded(f, "ckpt-1", 0, 1);
    put(f, ".tmp-ckpt-2", ""); /* a file where the directory should be made */
    assert_fails(write_named(f, "ckpt-2", 1, &err), 73, "ckpt-2");
    assert_true(holds(f, "ckpt-1", 1));
}
