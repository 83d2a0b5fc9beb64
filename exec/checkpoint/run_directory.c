#include "exec/checkpoint/run_directory.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "exec/checkpoint/checkpoint_parts.h"
#include "exec/log/log.h"

static void copy_text(const struct json *json, const char *key, char *to, size_t size)
{
    const char *text = json_as_text(json_get(json, key));
    snprintf(to, size, "%s", text ? text : "");
    for (; *to; to++)
        if (*to < ' ' || *to > '~')
            *to = '?';
}

/* Read run.json of directory @path into @record.
 * @return 0, with an empty record for an empty file, or -1: missing, or not written by a run. */
static int run_record_read(const char *path, struct run_record *record)
{
    AUTORELEASE(text) struct text content = {0};
    AUTORELEASE(err) struct err err = {0};
    AUTOFREE char *name = base_format("%s/run.json", path);
    *record = (struct run_record){0};
    int failed = file_read(name, &content, &err);
    AUTORELEASE(json)
    struct json *json =
        failed || content.length == 0 ? NULL : json_read(name, content.data, content.length, &err);
    const char *schema = json_as_text(json_get(json, "schema"));
    failed = failed || (content.length > 0 && (!schema || strcmp(schema, RUN_RECORD_SCHEMA) != 0));
    if (!failed && json) {
        copy_text(json, "run", record->run, sizeof(record->run));
        copy_text(json, "host", record->host, sizeof(record->host));
        copy_text(json, "since", record->since, sizeof(record->since));
        json_as_integer(json_get(json, "process"), &record->process);
    }
    return failed ? -1 : 0;
}

bool run_record_run(const char *path, char run[RUN_ID_SIZE])
{
    struct run_record record;
    if (run_record_read(path, &record) || !*record.run)
        return false;
    memcpy(run, record.run, RUN_ID_SIZE);
    return true;
}

/* ---- the lock ---- */

/* Whether the process that wrote @record lives; unknown for other machines. */
static bool is_alive(const struct run_record *record)
{
    char host[sizeof(record->host)] = "";
    gethostname(host, sizeof(host) - 1);
    return record->process > 0 && (strcmp(record->host, host) != 0 ||
                                   kill((pid_t)record->process, 0) == 0 || errno == EPERM);
}

/* The process with the lock writes its number a little later. */
static int refuse_held(const char *path, struct err *err)
{
    struct run_record record;
    bool known = false;
    for (int32_t i = 0; i < 20 && !known; i++) {
        known = run_record_read(path, &record) == 0 && is_alive(&record);
        nanosleep(&(struct timespec){.tv_nsec = known ? 0 : 50000000}, NULL);
    }
    AUTOFREE char *owner = known ? base_format("process %" PRId64 " on %s, since %s",
                                               record.process, record.host, record.since)
                                 : base_copy("a process that has just begun");
    return err_add_code(err, 73,
                        "%s: a run is writing here: %s; wait for its end, or choose another "
                        "directory with --out",
                        path, owner);
}

static int take_lock(const struct run_directory *directory, struct err *err)
{
    if (flock(directory->lock, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return refuse_held(directory->path, err);
    fprintf(stderr,
            "warning: %s: this file system has no locks (%s), so a second run is not prevented\n",
            directory->path, strerror(errno));
    return 0;
}

int run_directory_lock(struct run_directory *directory, bool make, struct err *err)
{
    struct run_record record;
    if (directory->lock >= 0 || (make && file_make_directory(directory->path, err)))
        return directory->lock >= 0 ? 0 : -1;
    AUTOFREE char *name = base_format("%s/run.json", directory->path);
    int failed = 0;
    directory->lock =
        open(name, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | (make ? O_CREAT : 0), 0666);
    if (directory->lock >= 0) {
        failed = take_lock(directory, err);
        if (!failed && run_record_read(directory->path, &record))
            failed = err_add_code(
                err, 73, "%s: no run wrote this file: choose another directory with --out", name);
        if (failed)
            run_directory_close(directory);
        else
            memcpy(directory->run, record.run, sizeof(directory->run));
    } else if (make || (errno != ENOENT && errno != ENOTDIR)) {
        failed = err_add_code(err, 73, "%s: cannot be made or written: %s", name, strerror(errno));
    }
    return failed;
}

static bool is_at(int file, const char *path)
{
    struct stat open, there;
    return fstat(file, &open) == 0 && stat(path, &there) == 0 && open.st_ino == there.st_ino &&
           open.st_dev == there.st_dev;
}

char *run_directory_follow(int file, const char *path)
{
    char now[PATH_MAX];
    AUTOFREE char *name = base_format("/proc/self/fd/%d", file);
    ssize_t length = is_at(file, path) ? 0 : readlink(name, now, sizeof(now) - 1);
    now[length > 0 ? length : 0] = '\0';
    return base_copy(length <= 0 ? path : is_at(file, now) ? now : NULL);
}

void run_directory_close(struct run_directory *directory)
{
    if (directory->lock >= 0)
        close(directory->lock);
    directory->lock = -1;
}

/* ---- contents of the directory ---- */

static bool is_of_run(const char *name)
{
    return checkpoint_is_name(name) || log_is_name(name);
}

static int refuse_full(const struct run_directory *directory, const char *found,
                       const char *resumed, struct err *err)
{
    const char *run = *directory->run ? directory->run : "nobody knows which";
    AUTORELEASE(texts) struct texts checkpoints = checkpoint_list(directory->path);
    bool may_go_on = *directory->run && checkpoints.count > 0;
    if (resumed)
        return err_add_code(err, 73,
                            "%s: it holds a run (%s, with %s), but --resume continues another "
                            "(%s): choose another directory with --out",
                            directory->path, run, found, *resumed ? resumed : "unknown");
    AUTORELEASE(text) struct text way = {0};
    if (may_go_on) {
        text_add(&way, "go on with it by --resume ");
        text_add_word(&way, directory->path);
        text_add(&way, ", ");
    }
    return err_add_code(err, 73,
                        "%s: it holds a run already (%s, with %s): %sreplace it by --overwrite, or "
                        "choose another directory with --out",
                        directory->path, run, found, may_go_on ? way.data : "");
}

int run_directory_check(const struct run_directory *directory, const char *resumed, bool overwrite,
                        struct err *err)
{
    int failed = 0;
    if (resumed && *resumed && strcmp(resumed, directory->run) == 0)
        return 0;
    AUTORELEASE(texts) struct texts names = file_list(directory->path, is_of_run);
    if (names.count > 0 && !overwrite)
        return refuse_full(directory, names.item[0], resumed, err);
    for (int32_t i = 0; i < names.count; i++)
        if (checkpoint_is_name(names.item[i]) &&
            !checkpoint_is_removable(directory->path, names.item[i]))
            failed = err_add_code(err, 73,
                                  "%s/%s: --overwrite would remove it, but it holds files that no "
                                  "run wrote: move them away",
                                  directory->path, names.item[i]);
    return failed;
}

/* ---- a run ---- */

/* Always of the same length, so that a reader never sees a mixture of two. */
static int sign(const struct run_directory *directory, struct err *err)
{
    enum { RECORD_SIZE = 512 };
    AUTORELEASE(text) struct text text = {0};
    char host[65] = "", since[32], record[RECORD_SIZE];
    AUTORELEASE(json) struct json *json = json_new_object();
    time_t now = time(NULL);
    struct tm date;
    gethostname(host, sizeof(host) - 1);
    strftime(since, sizeof(since), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &date));
    json_put_text(json, "schema", RUN_RECORD_SCHEMA);
    json_put_text(json, "run", directory->run);
    json_put_text(json, "host", host);
    json_put_integer(json, "process", getpid());
    json_put_text(json, "since", since);
    json_print(&text, json);
    assert(text.length < RECORD_SIZE);
    memset(record, ' ', RECORD_SIZE);
    memcpy(record, text.data, (size_t)text.length);
    record[RECORD_SIZE - 1] = '\n';
    errno = ENOSPC; /* a part was written */
    if (pwrite(directory->lock, record, RECORD_SIZE, 0) == RECORD_SIZE &&
        fsync(directory->lock) == 0)
        return file_sync_directory(directory->path, err);
    return err_add_code(err, 74, "%s/run.json: cannot be written: %s", directory->path,
                        strerror(errno));
}

static int remove_run(const struct run_directory *directory, struct err *err)
{
    AUTORELEASE(texts) struct texts names = file_list(directory->path, is_of_run);
    int failed = 0;
    for (int32_t i = 0; i < names.count; i++) {
        AUTOFREE char *path = base_format("%s/%s", directory->path, names.item[i]);
        if (checkpoint_is_name(names.item[i]))
            checkpoint_remove(directory->path, names.item[i]);
        else
            unlink(path);
        if (access(path, F_OK) == 0)
            failed = err_add_code(err, 73, "%s: cannot be removed: %s", path, strerror(errno));
    }
    return failed || file_sync_directory(directory->path, err) ? -1 : 0;
}

static int draw_id(char run[RUN_ID_SIZE], struct err *err)
{
    uint64_t number;
    if (getrandom(&number, sizeof(number), 0) != sizeof(number))
        return err_add_code(err, 70, "the system gives no random numbers: %s", strerror(errno));
    snprintf(run, RUN_ID_SIZE, "%016" PRIx64, number);
    return 0;
}

int run_directory_begin(struct run_directory *directory, const char *resumed, bool overwrite,
                        struct err *err)
{
    bool goes_on = resumed && *resumed && strcmp(resumed, directory->run) == 0;
    if (overwrite && remove_run(directory, err))
        return -1;
    if (!goes_on && draw_id(directory->run, err))
        return -1;
    return sign(directory, err);
}
