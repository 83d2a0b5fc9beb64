#include "exec/input/pack/pack_layout.h"

#include <inttypes.h>
#include <string.h>

#include "exec/input/dataset.h"
#include "exec/input/picture/picture.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "packs are read as they lie in memory");
_Static_assert(sizeof(struct pack_header) == 56, "no padding");
_Static_assert(sizeof(struct pack_entry) == 32, "no padding");

/* The line ends break when a file is sent as text. */
static const char magic[8] = "ftpack\r\n";

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
