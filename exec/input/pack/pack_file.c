#include "exec/input/pack/pack_file.h"

#include <xxhash.h>

#include "exec/input/dataset.h"
#include "exec/input/picture/picture.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "packs are read as they lie in memory");
_Static_assert(sizeof(struct pack_header) == 56, "no padding");
_Static_assert(sizeof(struct pack_entry) == 32, "no padding");

/* The line ends break when a file is sent as text. */
static const char magic[8] = "ftpack\r\n";

uint64_t hash_bytes(const void *data, int64_t size)
{
    return XXH3_64bits(data, (size_t)size);
}

void pack_header_init(struct pack_header *header)
{
    *header = (struct pack_header){.version = PACK_VERSION};
    memcpy(header->magic, magic, sizeof(magic));
}

int pack_header_check(const struct pack_header *header, const char *name, int64_t size,
                      struct err *err)
{
    if (memcmp(header->magic, magic, sizeof(magic)) != 0)
        return err_add(err, "%s: not a pack; 'foretrain data pack' writes them", name);
    if (header->version != PACK_VERSION)
        return err_add(err,
                       "%s: a pack of version %u, but this program reads version %d: pack it "
                       "again",
                       name, header->version, PACK_VERSION);
    uint64_t entries = ((uint64_t)size - header->index) / sizeof(struct pack_entry);
    if (header->index % PACK_PAGE || header->index < PACK_PAGE || header->index >= (uint64_t)size ||
        header->count > entries)
        return err_add(err,
                       "%s: a damaged pack, or cut short: its index of %" PRIu64
                       " images should begin at %" PRIu64 ", but it has %" PRId64 " bytes",
                       name, header->count, header->index, size);
    if ((uint64_t)size != header->index + header->count * sizeof(struct pack_entry))
        return err_add(err, "%s: a damaged pack: bytes behind the index", name);
    if (header->count < 1 || header->classes < 1 || header->classes > INT32_MAX ||
        header->split >= SPLIT_COUNT)
        return err_add(err, "%s: a damaged pack: %" PRIu64 " images, %u classes, split %u", name,
                       header->count, header->classes, header->split);
    return 0;
}

int pack_entry_check(const struct pack_header *header, const struct pack_entry *entry,
                     const char *name, int64_t number, struct err *err)
{
    uint64_t pixels = (uint64_t)entry->width * entry->height;
    if (pixels < 1 || pixels > PICTURE_PIXEL_LIMIT)
        return err_add(err, "%s: a damaged pack: image %" PRId64 " of %u x %u pixels", name, number,
                       entry->width, entry->height);
    if (entry->offset < PACK_PAGE || entry->offset > header->index ||
        3 * pixels > header->index - entry->offset)
        return err_add(err, "%s: a damaged pack: image %" PRId64 " at byte %" PRIu64, name, number,
                       entry->offset);
    if (entry->label >= header->classes || entry->zero)
        return err_add(err, "%s: a damaged pack: image %" PRId64 " of class %u of %u", name, number,
                       entry->label, header->classes);
    return 0;
}

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
