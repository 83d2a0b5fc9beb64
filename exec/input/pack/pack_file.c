#include "exec/input/pack/pack_file.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

#include "core/base/base.h"
#include "exec/input/pack/hash.h"

static int64_t entries_size(const struct pack_header *header)
{
    return (int64_t)(header->count * sizeof(struct pack_entry));
}

static int read_header(struct pack_file *pack, struct err *err)
{
    struct pack_header *header = &pack->header;
    const struct file *file = &pack->file;
    if (file->size < PACK_PAGE)
        return err_add(err, "%s: not a pack: %" PRId64 " bytes are too few", file->path,
                       file->size);
    if (file_load(file, 0, sizeof(*header), header, err) ||
        pack_header_check(header, file->path, file->size, err))
        return -1;
    if (header->header_hash != hash_bytes(header, offsetof(struct pack_header, header_hash)))
        return err_add(err, "%s: a damaged pack: its header is not what was written", file->path);
    return 0;
}

static int read_index(struct pack_file *pack, struct err *err)
{
    const struct pack_header *header = &pack->header;
    const struct file *file = &pack->file;
    pack->entry = base_alloc((int64_t)header->count, sizeof(*pack->entry));
    if (file_load(file, (int64_t)header->index, entries_size(header), pack->entry, err))
        return -1;
    if (header->index_hash != hash_bytes(pack->entry, entries_size(header)))
        return err_add(err, "%s: a damaged pack: its index is not what was written", file->path);
    for (int64_t i = 0; i < (int64_t)header->count; i++)
        if (pack_entry_check(header, &pack->entry[i], file->path, i, err))
            return -1;
    return 0;
}

int pack_file_open(struct pack_file *pack, const char *path, struct err *err)
{
    if (!hash_present())
        return err_add_code(err, 69,
                            "%s: this build cannot read packs: xxHash (libxxhash-dev) was missing, "
                            "or switched off by -Dxxhash=disabled",
                            path);
    *pack = (struct pack_file){0};
    if (file_open(&pack->file, path, err))
        return -1;
    if (read_header(pack, err) || read_index(pack, err)) {
        pack_file_close(pack);
        return -1;
    }
    return 0;
}

int pack_file_read(const struct pack_file *pack, int64_t number, struct buffer *pixels,
                   struct err *err)
{
    const struct pack_entry *entry = &pack->entry[number];
    int64_t size = (int64_t)3 * entry->width * entry->height;
    uint8_t *record = buffer_reserve(pixels, size);
    if (file_load(&pack->file, (int64_t)entry->offset, size, record, err))
        return -1;
    if (hash_bytes(record, size) != entry->hash)
        return err_add(err, "%s: image %" PRId64 " is not what was written", pack->file.path,
                       number);
    return 0;
}

void pack_file_close(struct pack_file *pack)
{
    file_close(&pack->file);
    free(pack->entry);
    *pack = (struct pack_file){0};
}
