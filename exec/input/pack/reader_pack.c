#include "exec/input/pack/pack_file.h"
#include "exec/input/reader.h"

struct store {
    struct pack_file pack;
};

static int pack_open(struct reader *reader, const struct dataset_spec *spec, enum split split,
                     struct err *err)
{
    static const char *const word[] = {"training", "validation"};
    const char *path = split == SPLIT_VALIDATION ? spec->validation_path : spec->path;
    struct pack_file pack;
    if (pack_file_open(&pack, path, err))
        return -1;
    if (pack.header.split != (uint32_t)split) {
        err_add(err, "%s: packed as %s images, but opened for %s", path, word[pack.header.split],
                word[split]);
        pack_file_close(&pack);
        return -1;
    }
    reader->store = base_alloc(1, sizeof(*reader->store));
    reader->store->pack = pack;
    reader->count = (int64_t)pack.header.count;
    reader->classes = (int32_t)pack.header.classes;
    return 0;
}

static void pack_close(struct reader *reader)
{
    pack_file_close(&reader->store->pack);
    free(reader->store);
}

static int pack_read(const struct reader *reader, const struct reading *reading, struct err *err)
{
    const struct pack_file *pack = &reader->store->pack;
    const struct pack_entry *entry = &pack->entry[reading->index];
    struct scratch *scratch = reading->scratch;
    int32_t width = (int32_t)entry->width, height = (int32_t)entry->height;
    if (pack_file_read(pack, reading->index, &scratch->pixels, err))
        return -1;
    struct view view = reading_view(reading, reader->image, reader->seed, width, height);
    struct picture picture = {scratch->pixels.data, (int64_t)3 * width, {0, 0, width, height}};
    reading_give(reading, reader->image, &view, 1, width, height, &picture);
    *reading->label = (int32_t)entry->label;
    return 0;
}

const struct reader_ops reader_pack = {pack_open, pack_close, pack_read, true};
