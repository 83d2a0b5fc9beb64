#include "exec/input/files/file.h"
#include "exec/input/picture/jpeg.h"
#include "exec/input/reader.h"

struct store {
    struct catalog catalog;
};

static void jpeg_close(struct reader *reader)
{
    catalog_close(&reader->store->catalog);
    free(reader->store);
}

static void keep(struct reader *reader, struct catalog catalog)
{
    reader->store = base_alloc(1, sizeof(*reader->store));
    reader->store->catalog = catalog;
    reader->count = catalog.count;
    reader->classes = catalog.classes;
}

static int check_decoder(const char *path, struct err *err)
{
    if (decoder_present())
        return 0;
    return err_add_code(err, 69,
                        "%s: this build cannot read JPEG: libjpeg (libjpeg-dev) was "
                        "missing, or switched off by -Djpeg=disabled",
                        path);
}

static int imagefolder_open(struct reader *reader, const struct dataset_spec *spec,
                            enum split split, struct err *err)
{
    struct catalog catalog;
    if (check_decoder(spec->path, err))
        return -1;
    bool apart = spec->validation_path;
    AUTOFREE char *train = apart ? base_copy(spec->path) : base_format("%s/train", spec->path);
    AUTOFREE char *validation =
        apart ? base_copy(spec->validation_path) : base_format("%s/val", spec->path);
    int failed = catalog_open_folder(&catalog, split == SPLIT_TRAIN ? train : validation, err);
    if (!failed && split == SPLIT_VALIDATION &&
        (failed = catalog_compare_classes(&catalog, train, err)))
        catalog_close(&catalog);
    if (!failed)
        keep(reader, catalog);
    return failed;
}

static int webdataset_open(struct reader *reader, const struct dataset_spec *spec, enum split split,
                           struct err *err)
{
    struct catalog catalog;
    const char *pattern = split == SPLIT_VALIDATION ? spec->validation_path : spec->path;
    if (check_decoder(pattern, err) || catalog_open_shards(&catalog, pattern, err))
        return -1;
    keep(reader, catalog);
    /* Shards do not give the number of classes; the last ones may have no image. */
    if (spec->classes > reader->classes)
        reader->classes = spec->classes;
    return 0;
}

static int decode(const struct reader *reader, const struct reading *reading, const char *name,
                  int64_t size, struct err *err)
{
    struct scratch *scratch = reading->scratch;
    int32_t width, height, shrink = 1;
    if (!scratch->decoder)
        scratch->decoder = decoder_new();
    if (decoder_open(scratch->decoder, name, scratch->bytes.data, size, &width, &height, err))
        return -1;
    struct view view = reading_view(reading, reader->image, reader->seed, width, height);
    if (reading->augment)
        shrink = view_shrink(&view);
    width = (width + shrink - 1) / shrink;
    height = (height + shrink - 1) / shrink;
    struct picture picture;
    struct box need = picture_need(&view, shrink, width, height);
    if (decoder_read(scratch->decoder, need, shrink, &scratch->pixels, &picture, err))
        return -1;
    reading_give(reading, reader->image, &view, shrink, width, height, &picture);
    return 0;
}

static int jpeg_read(const struct reader *reader, const struct reading *reading, struct err *err)
{
    const struct catalog *catalog = &reader->store->catalog;
    int64_t size =
        catalog->ops->fetch(catalog->listing, reading->index, &reading->scratch->bytes, err);
    if (size < 0)
        return -1;
    AUTOFREE char *name = catalog->ops->name(catalog->listing, reading->index);
    int failed = decode(reader, reading, name, size, err);
    *reading->label = catalog->ops->label(catalog->listing, reading->index);
    return failed;
}

const struct reader_ops reader_imagefolder = {imagefolder_open, jpeg_close, jpeg_read, true};
const struct reader_ops reader_webdataset = {webdataset_open, jpeg_close, jpeg_read, true};
