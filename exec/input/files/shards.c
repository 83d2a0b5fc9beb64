#include <archive.h>
#include <archive_entry.h>
#include <glob.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/base/base.h"
#include "exec/input/files/file.h"

/* A walk over a tar file.  Release with tar_release(). */
struct tar {
    const struct file *file;
    struct archive *archive;
    const char *name; /* of the member found */
    int64_t offset;   /* of its content [bytes] */
    int64_t size;     /* [bytes] */
};

static int tar_open(struct tar *tar, const struct file *file, struct err *err)
{
    enum { READ_AT_ONCE = 4096 /* [bytes]: contents are skipped */ };
    *tar = (struct tar){.file = file, .archive = archive_read_new()};
    archive_read_support_format_tar(tar->archive);
    if (archive_read_open_fd(tar->archive, file->fd, READ_AT_ONCE))
        return err_add(err, "%s: not a tar file: %s", file->path,
                       archive_error_string(tar->archive));
    return 0;
}

/* Advance to the next regular file.
 * @return 1, 0 at the end, or -1: not a tar file, a damaged header, a member that reaches beyond
 * the end of the file. */
static int tar_next(struct tar *tar, struct err *err)
{
    struct archive_entry *entry;
    int found;
    while ((found = archive_read_next_header(tar->archive, &entry)) == ARCHIVE_OK ||
           found == ARCHIVE_WARN) {
        tar->name = archive_entry_pathname(entry);
        tar->offset = archive_filter_bytes(tar->archive, 0);
        tar->size = archive_entry_size(entry);
        if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) ||
            !tar->name)
            continue;
        if (archive_entry_sparse_count(entry) > 0)
            return err_add(err, "%s: %s has holes, which are not read: leave out tar's --sparse",
                           tar->file->path, tar->name);
        if (tar->size < 0 || tar->size > tar->file->size - tar->offset)
            return err_add(err, "%s: truncated: the member at %" PRId64 " reaches beyond the end",
                           tar->file->path, (int64_t)archive_read_header_position(tar->archive));
        return 1;
    }
    if (found == ARCHIVE_EOF)
        return 0;
    return err_add(err, "%s: not a tar file, or damaged, near %" PRId64 ": %s", tar->file->path,
                   (int64_t)archive_filter_bytes(tar->archive, 0),
                   archive_error_string(tar->archive));
}

static void tar_release(struct tar *tar)
{
    archive_read_free(tar->archive);
}

/* ---- names of shards ---- */

enum {
    PATTERN_LIMIT = 100000, /* maximum number of names of one pattern */
    PATTERN_BRACES = 64     /* and of its pairs of braces */
};

static int add(struct texts *list, const char *path, struct err *err)
{
    if (list->count == PATTERN_LIMIT)
        return err_add(err, "%s: more than %d files", path, PATTERN_LIMIT);
    texts_add(list, "%s", path);
    return 0;
}

static int add_matches(struct texts *list, const char *pattern, struct err *err)
{
    glob_t found;
    if (glob(pattern, GLOB_ERR, NULL, &found))
        return err_add_code(err, 66, "%s: no file matches", pattern);
    int failed = 0;
    for (size_t i = 0; i < found.gl_pathc && !failed; i++)
        failed = add(list, found.gl_pathv[i], err);
    globfree(&found);
    return failed;
}

static int expand_braces(struct texts *list, const char *pattern, struct err *err);

/* "000..146", of @length characters: numbers of the width of the first.  1 when it is no range. */
static int expand_range(struct texts *list, const char *pattern, const char *open, int64_t length,
                        struct err *err)
{
    char *from_end, *to_end;
    long from = strtol(open + 1, &from_end, 10);
    if (from_end == open + 1 || from < 0 || strncmp(from_end, "..", 2) != 0)
        return 1;
    long to = strtol(from_end + 2, &to_end, 10);
    if (to_end == from_end + 2 || to_end != open + 1 + length || to < from)
        return 1;
    if (to - from >= PATTERN_LIMIT)
        return err_add(err, "%s: more than %d files", pattern, PATTERN_LIMIT);
    int failed = 0;
    for (long i = from; i <= to && !failed; i++) {
        AUTOFREE char *one = base_format("%.*s%0*ld%s", (int)(open - pattern), pattern,
                                         (int)(from_end - open - 1), i, to_end + 1);
        failed = expand_braces(list, one, err);
    }
    return failed;
}

/* "a,b", of @length characters. */
static int expand_list(struct texts *list, const char *pattern, const char *open, int64_t length,
                       struct err *err)
{
    const char *end = open + 1 + length;
    int failed = 0;
    for (const char *word = open + 1; word <= end && !failed;) {
        const char *comma = memchr(word, ',', (size_t)(end - word));
        const char *stop = comma ? comma : end;
        AUTOFREE char *one = base_format("%.*s%.*s%s", (int)(open - pattern), pattern,
                                         (int)(stop - word), word, end + 1);
        failed = expand_braces(list, one, err);
        word = stop + 1;
    }
    return failed;
}

/* The first pair of braces, and then the rest. */
static int expand_braces(struct texts *list, const char *pattern, struct err *err)
{
    const char *open = strchr(pattern, '{');
    if (!open)
        return strpbrk(pattern, "*?[") ? add_matches(list, pattern, err) : add(list, pattern, err);
    const char *close = strchr(open, '}');
    if (!close)
        return err_add(err, "%s: a brace is not closed; expected {000..146} or {a,b}", pattern);
    int64_t length = close - open - 1;
    int failed = expand_range(list, pattern, open, length, err);
    return failed == 1 ? expand_list(list, pattern, open, length, err) : failed;
}

/* Append the names that @pattern matches: braces first, in their order, then * ? [] in the order
 * of the names; a folder means its files that end in @suffix.
 * @return 0, or -1: nothing matches (exit code 66), a brace that is not closed or a pattern with
 * too many of them or too many names (65). */
static int pattern_expand(struct texts *list, const char *pattern, const char *suffix,
                          struct err *err)
{
    struct stat status;
    int32_t braces = 0;
    for (const char *c = pattern; *c; c++)
        braces += *c == '{';
    if (braces > PATTERN_BRACES)
        return err_add(err, "%.40s...: %d pairs of braces; at most %d are expanded", pattern,
                       braces, PATTERN_BRACES);
    if (stat(pattern, &status) || !S_ISDIR(status.st_mode))
        return expand_braces(list, pattern, err);
    AUTOFREE char *inside = base_format("%s/*%s", pattern, suffix);
    return add_matches(list, inside, err);
}

/* ---- shards ---- */

struct sample {
    int64_t offset, size; /* of the image in its shard [bytes] */
    int64_t key;          /* in the keys */
    int32_t shard, label;
};

struct listing {
    struct file *shard;
    int64_t shard_count;
    struct sample *sample;
    int64_t count;
    struct text keys; /* each with its NUL */
};

/* Members with the same key follow each other. */
struct group {
    struct text key;
    bool image, class;
    struct sample sample;
};

/* Source: the WebDataset format, key and extension part at the first dot of the file's name. */
static const char *extension_of(const char *name, int64_t *key_length)
{
    const char *slash = strrchr(name, '/');
    const char *file = slash ? slash + 1 : name;
    const char *dot = strchr(file, '.');
    if (!dot || dot == file)
        return NULL;
    *key_length = dot - name;
    return dot + 1;
}

/* Check that the group is complete: an image with its class, or neither. */
static int finish(struct listing *listing, struct group *group, struct err *err)
{
    const char *path = listing->shard[listing->shard_count - 1].path;
    if (group->image != group->class)
        return err_add(err, "%s: %s.%s without %s.%s", path, group->key.data,
                       group->image ? "jpg" : "cls", group->key.data, group->image ? "cls" : "jpg");
    if (group->image) {
        listing->sample = base_room(listing->sample, listing->count, sizeof(*listing->sample));
        group->sample.key = listing->keys.length;
        group->sample.shard = (int32_t)(listing->shard_count - 1);
        text_append(&listing->keys, group->key.data, group->key.length + 1);
        listing->sample[listing->count++] = group->sample;
    }
    group->image = group->class = false;
    return 0;
}

static int read_class(const struct tar *tar, int32_t *label, struct err *err)
{
    enum { DIGITS = 20 };
    char digits[DIGITS + 1] = {0};
    char *end = digits;
    long value = -1;
    errno = 0;
    if (tar->size <= DIGITS) {
        if (file_load(tar->file, tar->offset, tar->size, digits, err))
            return -1;
        value = strtol(digits, &end, 10);
    }
    if (end == digits || end[strspn(end, " \t\r\n")] || value < 0 || value >= INT32_MAX || errno)
        return err_add(err, "%s: %s: expected the number of a class, got '%.20s'", tar->file->path,
                       tar->name, digits);
    *label = (int32_t)value;
    return 0;
}

static int take_member(struct listing *listing, struct group *group, const struct tar *tar,
                       struct err *err)
{
    int64_t length;
    const char *extension = extension_of(tar->name, &length);
    if (!extension)
        return 0;
    if (group->key.length != length || memcmp(group->key.data, tar->name, (size_t)length)) {
        if (finish(listing, group, err))
            return -1;
        group->key.length = 0;
        text_append(&group->key, tar->name, length);
    }
    static const char *const images[] = {"jpg", "jpeg", "png", "webp"};
    bool image = false, class = !strcasecmp(extension, "cls");
    for (size_t i = 0; i < ARRAY_SIZE(images); i++)
        image = image || !strcasecmp(extension, images[i]);
    if ((image && group->image) || (class && group->class))
        return err_add(err, "%s: a second %s", tar->file->path, tar->name);
    if (image) {
        group->image = true;
        group->sample.offset = tar->offset;
        group->sample.size = tar->size;
    } else if (class) {
        group->class = true;
        return read_class(tar, &group->sample.label, err);
    }
    return 0;
}

static int scan_shard(struct listing *listing, const char *path, struct err *err)
{
    listing->shard = base_room(listing->shard, listing->shard_count, sizeof(*listing->shard));
    struct file *file = &listing->shard[listing->shard_count];
    if (file_open(file, path, err))
        return -1;
    listing->shard_count++;
    AUTORELEASE(tar) struct tar tar;
    struct group group = {0};
    int found = tar_open(&tar, file, err) ? -1 : 1;
    while (found > 0 && (found = tar_next(&tar, err)) > 0)
        if (take_member(listing, &group, &tar, err))
            found = -1;
    if (found == 0)
        found = finish(listing, &group, err);
    text_release(&group.key);
    return found;
}

static void shards_close(struct listing *listing)
{
    for (int64_t i = 0; i < listing->shard_count; i++)
        file_close(&listing->shard[i]);
    free(listing->shard);
    free(listing->sample);
    text_release(&listing->keys);
    free(listing);
}

static int32_t shards_label(const struct listing *listing, int64_t index)
{
    return listing->sample[index].label;
}

static char *shards_name(const struct listing *listing, int64_t index)
{
    const struct sample *sample = &listing->sample[index];
    return base_format("%s: %s.jpg", listing->shard[sample->shard].path,
                       listing->keys.data + sample->key);
}

static int64_t shards_fetch(const struct listing *listing, int64_t index, struct buffer *bytes,
                            struct err *err)
{
    const struct sample *sample = &listing->sample[index];
    if (file_load(&listing->shard[sample->shard], sample->offset, sample->size,
                  buffer_reserve(bytes, sample->size), err))
        return -1;
    return sample->size;
}

static int32_t count_classes(const struct listing *listing)
{
    int32_t most = 0;
    for (int64_t i = 0; i < listing->count; i++)
        most = listing->sample[i].label > most ? listing->sample[i].label : most;
    return most + 1;
}

/* All shards stay open. */
static void allow_files(int64_t count)
{
    enum { OTHERS = 64 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= (rlim_t)count + OTHERS)
        return;
    limit.rlim_cur =
        (rlim_t)count + OTHERS < limit.rlim_max ? (rlim_t)count + OTHERS : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit); /* if it fails, so will open(), with a message */
}

static int scan_shards(struct listing *listing, const char *pattern, struct err *err)
{
    AUTORELEASE(texts) struct texts paths = {0};
    int failed = pattern_expand(&paths, pattern, ".tar", err);
    allow_files(paths.count);
    for (int32_t i = 0; i < paths.count && !failed; i++)
        failed = scan_shard(listing, paths.item[i], err);
    if (!failed && listing->count == 0)
        failed = err_add(err, "%s: no images; expected members key.jpg and key.cls", pattern);
    return failed;
}

int catalog_open_shards(struct catalog *catalog, const char *pattern, struct err *err)
{
    static const struct catalog_ops ops = {shards_fetch, shards_label, shards_name, shards_close};
    struct listing *listing = base_alloc(1, sizeof(*listing));
    if (scan_shards(listing, pattern, err)) {
        shards_close(listing);
        return -1;
    }
    *catalog = (struct catalog){listing->count, count_classes(listing), &ops, listing};
    return 0;
}
