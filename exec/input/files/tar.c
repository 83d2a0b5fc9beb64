#include "exec/input/files/tar.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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

static bool has_content(char type)
{
    return type == '0' || type == '\0' || type == '7';
}

int tar_next(struct tar *tar, struct err *err)
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
        if (has_content(header.type))
            return 1;
        pending = (struct pending){0};
    }
    return found;
}

void tar_release(struct tar *tar)
{
    text_release(&tar->name);
}
