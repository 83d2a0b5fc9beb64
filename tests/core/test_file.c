#define OWN_MAIN
#include "core/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/test.h"

static char folder[] = "/tmp/file-XXXXXX";

static int setup(void **state)
{
    (void)state;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    unlink("a");
    unlink("a.new");
    unlink("link");
    return chdir("/") || rmdir(folder) ? -1 : 0; /* so nothing else was left */
}

static int put(const char *path, const char *content, int (*check)(const char *, struct err *))
{
    err_release(&err);
    HELD(text) text = {0};
    text_add(&text, "%s", content);
    int failed = file_write(path, &text, check, &err);
    assert_int_equal(failed != 0, err.count > 0);
    return failed;
}

static void assert_content(const char *path, const char *content)
{
    HELD(text) text = {0};
    assert_int_equal(file_read(path, &text, &err), 0);
    assert_string_equal(text.data, content);
}

static int refuse(const char *path, struct err *faults)
{
    assert_content(path, "new");
    assert_content("a", "old");
    return err_add(faults, "no");
}

TEST(what_stands_there_goes_only_when_the_new_is_whole)
{
    assert_int_equal(put("a", "old", NULL), 0);
    assert_int_equal(put("a", "new", refuse), -1);
    assert_content("a", "old");
    assert_int_equal(put("a", "new", NULL), 0);
    assert_content("a", "new");
}

TEST(what_is_no_file_of_its_own_stays_what_it_is)
{
    struct stat found;
    assert_int_equal(put("a", "old", NULL), 0);
    assert_int_equal(symlink("a", "link"), 0);
    assert_int_equal(put("link", "through", NULL), 0);
    assert_content("a", "through");
    assert_int_equal(lstat("link", &found), 0);
    assert_true(S_ISLNK(found.st_mode));
    assert_int_equal(put("/dev/null", "gone", NULL), 0);
    assert_int_equal(stat("/dev/null", &found), 0);
    assert_true(S_ISCHR(found.st_mode));
    int memory = memfd_create("memory", MFD_CLOEXEC);
    char *name = base_format("/proc/self/fd/%d", memory);
    assert_int_equal(put(name, "kept", NULL), 0);
    assert_content(name, "kept");
    free(name);
    close(memory);
}

static mode_t mode_of(const char *path)
{
    struct stat found;
    assert_int_equal(stat(path, &found), 0);
    return found.st_mode & 0777;
}

TEST(nobody_can_guess_what_is_written_on_the_way)
{
    unlink("link");
    assert_int_equal(put("link", "mine", NULL), 0);
    assert_int_equal(symlink("link", "a.new"), 0);
    assert_int_equal(put("a", "new", NULL), 0);
    assert_content("a", "new");
    assert_content("link", "mine");
    assert_int_equal(unlink("a.new") | unlink("link"), 0);
}

TEST(the_mode_is_that_of_the_file_before)
{
    mode_t before = umask(027);
    unlink("a");
    assert_int_equal(put("a", "new", NULL), 0);
    assert_int_equal(mode_of("a"), 0640);
    for (mode_t mode = 0600; mode <= 0666; mode += 066) {
        assert_int_equal(chmod("a", mode), 0);
        assert_int_equal(put("a", "newer", NULL), 0);
        assert_int_equal(mode_of("a"), mode);
    }
    umask(before);
}

TEST(a_link_to_nothing_leads_to_the_new_file)
{
    struct stat found;
    unlink("a");
    AUTOFREE char *up = base_format("../%s/a", folder + strlen("/tmp/"));
    assert_int_equal(symlink("a.new", "link") | symlink(up, "a.new"), 0);
    assert_int_equal(put("link", "made", NULL), 0);
    assert_content("a", "made");
    assert_int_equal(lstat("link", &found), 0);
    assert_true(S_ISLNK(found.st_mode));
    assert_int_equal(unlink("a.new") | unlink("link"), 0);
}

TEST(what_is_printed_follows_what_is_written)
{
    unlink("a");
    int kept = dup(STDOUT_FILENO), file = open("a", O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    assert_int_equal(dup2(file, STDOUT_FILENO), STDOUT_FILENO);
    int failed = put("/dev/stdout", "written, ", NULL);
    ssize_t printed = write(STDOUT_FILENO, "printed", 7);
    assert_int_equal(dup2(kept, STDOUT_FILENO), STDOUT_FILENO);
    assert_int_equal(failed, 0);
    assert_int_equal(printed, 7);
    assert_content("a", "written, printed");
    close(file);
    close(kept);
}

TEST(faults_are_reported)
{
    assert_int_equal(put("/dev/full", "full", NULL), -1);
    assert_int_equal(put("none/a", "no folder", NULL), -1);
    assert_int_equal(put(folder, "a folder", NULL), -1);
}

int main(void)
{
    return cmocka_run_group_tests(tests, setup, teardown);
}
