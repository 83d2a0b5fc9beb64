#include "app/explore/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"

/* What the parts of the first line are, for the message. */
static const char *const part[][2] = {
    {"version", "of a sweep with another version of foretrain"},
    {"job_sha256", "of a sweep with another job, or this one before it was changed"},
    {"prices_sha256", "of a sweep with other prices"},
    {"axes", "of a sweep with other axes"},
    {"options", "of a sweep with other options"},
    {"numbers", "of a sweep with other numbers in a platform or software file"},
};

/* Whether @key has the same value in both, or stands in neither. */
static bool same_part(const struct json *a, const struct json *b, const char *key)
{
    const struct json *first = json_get(a, key), *second = json_get(b, key);
    AUTORELEASE(text) struct text own = {0}, other = {0};
    if (first)
        json_print_line(&own, first, 17);
    if (second)
        json_print_line(&other, second, 17);
    return !strcmp(own.data ? own.data : "", other.data ? other.data : "");
}

static int refuse_other(const char *path, const struct json *head, const struct json *found,
                        struct err *err)
{
    const char *what = "no journal of a sweep, or one of another version of foretrain";
    for (size_t i = 0; found && same_part(head, found, "schema") && i < ARRAY_SIZE(part); i++)
        if (!same_part(head, found, part[i][0])) {
            what = part[i][1];
            break;
        }
    return err_add_code(err, 65, "%s is %s; name another file with --journal, or remove this one",
                        path, what);
}

/* One whole line, without its end; @first says whether it is the first of all. */
static int take_line(const char *path, const char *line, int64_t length, int64_t number,
                     const struct json *head, bool (*take)(void *, const struct json *),
                     void *context, struct err *err)
{
    AUTORELEASE(err) struct err found = {0};
    AUTORELEASE(text) struct text own = {0};
    json_print_line(&own, head, 17);
    bool is_head = own.length == length && !memcmp(own.data, line, (size_t)length);
    if (is_head)
        return 0;
    AUTORELEASE(json) struct json *json = json_read(path, line, length, &found);
    int failed = 0;
    if (number == 1)
        failed = refuse_other(path, head, json, err);
    else if (!json || !take(context, json))
        failed = err_add_code(err, 65,
                              "%s:%lld:1: error: this line is damaged, or of another sweep; remove "
                              "it, and its point is done again",
                              path, (long long)number);
    return failed;
}

/* Reads what is there.  @whole: up to where it is complete. */
static int read_lines(const char *path, const struct text *content, const struct json *head,
                      bool (*take)(void *, const struct json *), void *context, int64_t *whole,
                      struct err *err)
{
    int64_t number = 0, at = 0;
    while (at < content->length) {
        const char *line = content->data + at;
        const char *end = memchr(line, '\n', (size_t)(content->length - at));
        if (!end)
            break;
        if (take_line(path, line, end - line, ++number, head, take, context, err))
            return -1;
        at += end - line + 1;
    }
    *whole = at;
    return 0;
}

/* The lock is this process's alone, not that of its children, and goes when it ends, or when it
 * closes the file, by whatever descriptor: all that is read comes from this one.  A file without a
 * name is that of a sweep which has just ended and removed it. */
static int lock(struct journal *journal, struct err *err)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat found;
    journal->fd = open(journal->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (journal->fd < 0)
        return err_add_code(err, 73, "cannot write %s: %s", journal->path, strerror(errno));
    bool mine = !fcntl(journal->fd, F_SETLK, &all) || (errno != EACCES && errno != EAGAIN);
    if (mine && (fstat(journal->fd, &found) || found.st_nlink > 0))
        return 0;
    return err_add_code(err, 75,
                        "another sweep is writing %s; wait for it, or name another file with "
                        "--journal",
                        journal->path);
}

/* What was there, without a torn end, or the first line of a new one. */
static int begin(struct journal *journal, const struct json *head,
                 bool (*take)(void *, const struct json *), void *context, struct err *err)
{
    AUTORELEASE(text) struct text content = {0}, line = {0};
    int64_t whole = 0;
    int failed = file_read_open(journal->fd, journal->path, &content, err) ||
                 read_lines(journal->path, &content, head, take, context, &whole, err) ||
                 (whole < content.length && ftruncate(journal->fd, whole) &&
                  err_add_code(err, 74, "cannot write %s: %s", journal->path, strerror(errno)));
    if (!failed && !whole) {
        json_print_line(&line, head, 17);
        text_add(&line, "\n");
        failed = journal_add(journal, line.data, line.length, err);
    }
    return failed ? -1 : 0;
}

int journal_open(struct journal *journal, const char *path, const struct json *head,
                 bool (*take)(void *context, const struct json *point), void *context,
                 struct err *err)
{
    *journal = (struct journal){base_copy(path), -1, 0};
    return path && (lock(journal, err) || begin(journal, head, take, context, err)) ? -1 : 0;
}

int journal_add(struct journal *journal, const char *text, int64_t length, struct err *err)
{
    while (journal->path && length > 0) {
        ssize_t written = write(journal->fd, text, (size_t)length);
        if (written < 0 && errno != EINTR)
            return err_add_code(err, 74, "cannot write %s: %s", journal->path, strerror(errno));
        text += written > 0 ? written : 0;
        length -= written > 0 ? written : 0;
    }
    if (journal->path && base_seconds(CLOCK_MONOTONIC) - journal->synced > 1) {
        fsync(journal->fd);
        journal->synced = base_seconds(CLOCK_MONOTONIC);
    }
    return 0;
}

int journal_remove(struct journal *journal, struct err *err)
{
    int failed = journal->path && remove(journal->path)
                     ? err_add_code(err, 74, "cannot remove %s: %s", journal->path, strerror(errno))
                     : 0;
    journal_release(journal);
    return failed;
}

void journal_release(struct journal *journal)
{
    if (journal->path && journal->fd >= 0) {
        fsync(journal->fd);
        close(journal->fd);
    }
    free(journal->path);
    *journal = (struct journal){0};
}
