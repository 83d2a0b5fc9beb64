#include <glob.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/base/base.h"
#include "exec/input/files/file.h"

/* A walk over a tar file.  Start from {.file = ...}; release with tar_release(). */
struct tar {
    const struct file *file;
    int64_t next;     /* place of the next header [bytes] */
    struct text name; /* of the member found */
    int64_t offset;   /* of its content [bytes] */
    int64_t size;     /* [bytes] */
};

enum {
    BLOCK = 512,           /* [bytes] */
    EXTENSION_MOST = 65536 /* [bytes] of a pax header or a long name */
};

/* Source: POSIX.1-2017, pax, "ustar Interchange Format". */
struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, linkname[100],
        magic[8], uname[32], gname[32], devmajor[8], devminor[8], prefix[155], padding[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "as POSIX has it");

/* The data of a member from the headers before it. */
struct pending {
    bool named, sized;
    int64_t size;
};

static int64_t octal(const char *digit, int32_t count)
{
    int64_t value = 0;
    while (count && *digit == ' ')
        digit++, count--;
    for (; count && *digit >= '0' && *digit <= '7'; digit++, count--)
        value = value * 8 + (*digit - '0');
    return value;
}

/* Sizes from 8 GiB on are binary, marked by the first bit: GNU tar's way. */
static int64_t number(const char *field, int32_t count)
{
    if (!(field[0] & 0x80))
        return octal(field, count);
    uint64_t value = 0;
    for (int32_t i = count - 8; i < count; i++)
        value = value << 8 | (uint8_t)field[i];
    return value > INT64_MAX ? -1 : (int64_t)value;
}

static bool checksum_fits(const struct header *header)
{
    const uint8_t *byte = (const uint8_t *)header;
    int64_t sum = 8 * ' ';
    for (int32_t i = 0; i < BLOCK; i++)
        if (i < (int32_t)offsetof(struct header, checksum) ||
            i >= (int32_t)offsetof(struct header, type))
            sum += byte[i];
    return sum == octal(header->checksum, sizeof(header->checksum));
}

/* "17 path=a/b.jpg\n": the length counts itself. */
static void read_record(struct tar *tar, struct pending *pending, const char *key, int64_t length)
{
    const char *equals = memchr(key, '=', (size_t)length);
    if (!equals)
        return;
    int64_t key_length = equals - key, value_length = length - key_length - 1;
    if (key_length == 4 && !memcmp(key, "path", 4)) {
        tar->name.length = 0;
        text_append(&tar->name, equals + 1, value_length);
        pending->named = true;
    } else if (key_length == 4 && !memcmp(key, "size", 4)) {
        char digits[24] = {0};
        memcpy(digits, equals + 1, (size_t)(value_length < 23 ? value_length : 23));
        pending->size = strtoll(digits, NULL, 10);
        pending->sized = true;
    }
}

static int read_pax(struct tar *tar, struct pending *pending, const char *text, int64_t size)
{
    while (size > 0) {
        char *end;
        int64_t length = strtoll(text, &end, 10);
        if (end == text || *end != ' ' || length > size || length < end - text + 2 ||
            text[length - 1] != '\n')
            return -1;
        read_record(tar, pending, end + 1, length - (end - text) - 2);
        text += length;
        size -= length;
    }
    return 0;
}

/* A header about the next member. */
static int read_extension(struct tar *tar, const struct header *header, struct pending *pending,
                          struct err *err)
{
    if (tar->size > EXTENSION_MOST)
        return err_add(err,
                       "%s: malformed tar: an extended header of %" PRId64 " bytes at %" PRId64,
                       tar->file->path, tar->size, tar->offset - BLOCK);
    AUTOFREE char *text = base_alloc(tar->size + 1, 1);
    int failed = file_load(tar->file, tar->offset, tar->size, text, err);
    if (!failed && header->type == 'L') {
        tar->name.length = 0;
        text_add(&tar->name, "%s", text);
        pending->named = true;
    } else if (!failed && header->type == 'x' && read_pax(tar, pending, text, tar->size)) {
        failed = err_add(err, "%s: malformed tar: the pax header at %" PRId64, tar->file->path,
                         tar->offset - BLOCK);
    }
    return failed;
}

static void take_name(struct tar *tar, const struct header *header)
{
    bool ustar = !memcmp(header->magic, "ustar", 6); /* GNU tar's own magic has no prefix */
    tar->name.length = 0;
    if (ustar && header->prefix[0])
        text_add(&tar->name, "%.155s/", header->prefix);
    text_add(&tar->name, "%.100s", header->name);
}

/* Read the header at tar->next.  @return 1, or 0 at the end. */
static int read_header(struct tar *tar, struct header *header, struct err *err)
{
    static const struct header zero;
    if (tar->next == tar->file->size && tar->next > 0)
        return 0; /* without the two empty blocks, as when files are written one by one */
    if (tar->file->size - tar->next < BLOCK)
        return err_add(err, "%s: not a tar file, or truncated, at %" PRId64, tar->file->path,
                       tar->next);
    if (file_load(tar->file, tar->next, BLOCK, header, err))
        return -1;
    if (!memcmp(header, &zero, BLOCK))
        return 0;
    if (!checksum_fits(header))
        return err_add(err,
                       "%s: not a tar file, or damaged: wrong checksum of the header at %" PRId64,
                       tar->file->path, tar->next);
    return 1;
}

/* The place of the content; checks that the file contains it. */
static int place(struct tar *tar, int64_t size, struct err *err)
{
    tar->offset = tar->next + BLOCK;
    tar->size = size;
    if (size < 0 || size > tar->file->size - tar->offset)
        return err_add(err, "%s: truncated: the member at %" PRId64 " reaches beyond the end",
                       tar->file->path, tar->next);
    int64_t end = tar->offset + (size + BLOCK - 1) / BLOCK * BLOCK;
    tar->next = end < tar->file->size ? end : tar->file->size;
    return 0;
}

/* Advance to the next regular file.
 * @return 1, 0 at the end, or -1: not a tar file, a header with a wrong checksum, a member that
 * reaches beyond the end of the file. */
static int tar_next(struct tar *tar, struct err *err)
{
    struct pending pending = {0};
    struct header header;
    int found;
    while ((found = read_header(tar, &header, err)) > 0) {
        bool extension = strchr("xgLK", header.type) && header.type;
        bool linked = strchr("123456", header.type) && header.type; /* whatever its size says */
        int64_t size = number(header.size, sizeof(header.size));
        if (!extension && pending.sized)
            size = pending.size;
        if (place(tar, linked ? 0 : size, err))
            return -1;
        if (extension) {
            if (read_extension(tar, &header, &pending, err))
                return -1;
            continue;
        }
        if (!pending.named)
            take_name(tar, &header);
        if (header.type == '0' || header.type == '\0' || header.type == '7')
            return 1;
        pending = (struct pending){0};
    }
    return found;
}

/* Release the name. */
static void tar_release(struct tar *tar)
{
    text_release(&tar->name);
}

/* ---- names of shards ---- */

/* Paths.  Start from {0}; release with pattern_release(). */
struct pattern {
    char **path; /**< (count) owned */
    int64_t count;
};

enum {
    PATTERN_LIMIT = 100000, /**< maximum number of names of one pattern */
    PATTERN_BRACES = 64     /**< and of its pairs of braces */
};

/* Takes ownership of @path. */
static int add(struct pattern *list, char *path, struct err *err)
{
    if (list->count == PATTERN_LIMIT) {
        err_add(err, "%s: more than %d files", path, PATTERN_LIMIT);
        free(path);
        return -1;
    }
    list->path = base_room(list->path, list->count, sizeof(*list->path));
    list->path[list->count++] = path;
    return 0;
}

static int add_matches(struct pattern *list, const char *pattern, struct err *err)
{
    glob_t found;
    if (glob(pattern, GLOB_ERR, NULL, &found))
        return err_add_code(err, 66, "%s: no file matches", pattern);
    int failed = 0;
    for (size_t i = 0; i < found.gl_pathc && !failed; i++)
        failed = add(list, base_copy(found.gl_pathv[i]), err);
    globfree(&found);
    return failed;
}

static int expand_braces(struct pattern *list, const char *pattern, struct err *err);

/* "000..146", of @length characters: numbers of the width of the first.  1 when it is no range. */
static int expand_range(struct pattern *list, const char *pattern, const char *open, int64_t length,
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
static int expand_list(struct pattern *list, const char *pattern, const char *open, int64_t length,
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
static int expand_braces(struct pattern *list, const char *pattern, struct err *err)
{
    const char *open = strchr(pattern, '{');
    if (!open)
        return strpbrk(pattern, "*?[") ? add_matches(list, pattern, err)
                                       : add(list, base_copy(pattern), err);
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
static int pattern_expand(struct pattern *list, const char *pattern, const char *suffix,
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

static void pattern_release(struct pattern *list)
{
    for (int64_t i = 0; i < list->count; i++)
        free(list->path[i]);
    free(list->path);
    *list = (struct pattern){0};
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
                       tar->name.data, digits);
    *label = (int32_t)value;
    return 0;
}

static int take_member(struct listing *listing, struct group *group, const struct tar *tar,
                       struct err *err)
{
    int64_t length;
    const char *extension = extension_of(tar->name.data, &length);
    if (!extension)
        return 0;
    if (group->key.length != length || memcmp(group->key.data, tar->name.data, (size_t)length)) {
        if (finish(listing, group, err))
            return -1;
        group->key.length = 0;
        text_append(&group->key, tar->name.data, length);
    }
    static const char *const images[] = {"jpg", "jpeg", "png", "webp"};
    bool image = false, class = !strcasecmp(extension, "cls");
    for (size_t i = 0; i < ARRAY_SIZE(images); i++)
        image = image || !strcasecmp(extension, images[i]);
    if ((image && group->image) || (class && group->class))
        return err_add(err, "%s: a second %s", tar->file->path, tar->name.data);
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
    AUTORELEASE(tar) struct tar tar = {.file = file};
    struct group group = {0};
    int found;
    while ((found = tar_next(&tar, err)) > 0)
        if (take_member(listing, &group, &tar, err)) {
            found = -1;
            break;
        }
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
    AUTORELEASE(pattern) struct pattern paths = {0};
    int failed = pattern_expand(&paths, pattern, ".tar", err);
    allow_files(paths.count);
    for (int64_t i = 0; i < paths.count && !failed; i++)
        failed = scan_shard(listing, paths.path[i], err);
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
