#include "exec/input/pack/pack.h"
#include "tests/fuzz/fuzz.h"

/* The header and the first entry of a pack, and the size of its file: either there is a message, or
 * every record lies between header and index.  The hashes, which would keep all out, are checked
 * elsewhere. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    HELD(err) err = {0};
    struct pack_header header;
    struct pack_entry entry;
    int64_t bytes;
    if (size < sizeof(header) + sizeof(entry) + sizeof(bytes))
        return 0;
    memcpy(&header, data, sizeof(header));
    memcpy(&entry, data + sizeof(header), sizeof(entry));
    memcpy(&bytes, data + sizeof(header) + sizeof(entry), sizeof(bytes));
    if (bytes < PACK_PAGE) /* refused before */
        return 0;
    int failed = pack_header_check(&header, "fuzz.ftp", bytes, &err);
    if (!failed && header.count > (uint64_t)bytes / sizeof(entry))
        abort();
    if (!failed && !pack_entry_check(&header, &entry, "fuzz.ftp", 0, &err)) {
        uint64_t end = entry.offset + (uint64_t)3 * entry.width * entry.height;
        if (entry.offset < PACK_PAGE || end < entry.offset || end > header.index ||
            header.index >= (uint64_t)bytes || entry.label >= header.classes)
            abort();
    } else if (err.count == 0) {
        abort();
    }
    return 0;
}
