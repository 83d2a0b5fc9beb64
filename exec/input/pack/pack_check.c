#include "exec/input/pack/pack_file.h"

struct pack_summary pack_summarise(const struct pack_header *header, const struct pack_entry *entry,
                                   int64_t bytes)
{
    AUTOFREE int64_t *count = base_alloc(header->classes, sizeof(*count));
    struct pack_summary summary = {
        .split = (enum split)header->split,
        .images = (int64_t)header->count,
        .classes = (int32_t)header->classes,
        .shorter = (int32_t)header->shorter,
        .bytes = bytes,
        .least = INT64_MAX,
    };
    for (int64_t i = 0; i < summary.images; i++)
        count[entry[i].label]++;
    for (int32_t i = 0; i < summary.classes; i++) {
        summary.least = count[i] < summary.least ? count[i] : summary.least;
        summary.most = count[i] > summary.most ? count[i] : summary.most;
    }
    return summary;
}

int pack_check(const char *path, struct pack_summary *summary, struct err *err)
{
    struct pack_file pack;
    AUTORELEASE(buffer) struct buffer pixels = {0};
    if (pack_file_open(&pack, path, err))
        return -1;
    int failed = 0;
    for (int64_t i = 0; i < (int64_t)pack.header.count; i++)
        failed |= pack_file_read(&pack, i, &pixels, err);
    if (!failed)
        *summary = pack_summarise(&pack.header, pack.entry, pack.file.size);
    pack_file_close(&pack);
    return failed;
}
