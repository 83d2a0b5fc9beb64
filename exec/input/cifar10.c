#include "exec/input/files/file.h"
#include "exec/input/reader.h"

enum {
    SIDE = 32,
    PLANE = SIDE * SIDE,
    RECORD = 1 + 3 * PLANE, /* a label, then planes of red, green, blue */
    CLASSES = 10,
    FILES = 5,  /* of training images */
    PADDING = 4 /* [pixels] that an image may move */
};

struct store {
    struct file file[FILES];
    int32_t file_count;
};

static void cifar10_close(struct reader *reader)
{
    for (int32_t i = 0; i < reader->store->file_count; i++)
        file_close(&reader->store->file[i]);
    free(reader->store);
}

static int add_file(struct reader *reader, const char *path, struct err *err)
{
    struct store *store = reader->store;
    struct file *file = &store->file[store->file_count];
    if (file_open(file, path, err))
        return -1;
    store->file_count++;
    reader->count += file->size / RECORD;
    if (file->size == 0 || file->size % RECORD)
        return err_add(err,
                       "%s: %" PRId64 " bytes are no whole number of images of %d bytes: not of "
                       "CIFAR-10's binary version, or cut short",
                       path, file->size, RECORD);
    return 0;
}

static int cifar10_open(struct reader *reader, const struct dataset_spec *spec, enum split split,
                        struct err *err)
{
    if (reader->image != SIDE)
        return err_add(err, "%s: CIFAR-10 has images of %d pixels, but %d were asked for",
                       spec->path, SIDE, reader->image);
    AUTOFREE char *unpacked = base_format("%s/cifar-10-batches-bin", spec->path);
    const char *folder = access(unpacked, F_OK) == 0 ? unpacked : spec->path;
    reader->store = base_alloc(1, sizeof(*reader->store));
    reader->classes = CLASSES;
    int failed = 0;
    for (int32_t i = 1; i <= (split == SPLIT_TRAIN ? FILES : 1) && !failed; i++) {
        AUTOFREE char *path = split == SPLIT_TRAIN ? base_format("%s/data_batch_%d.bin", folder, i)
                                                   : base_format("%s/test_batch.bin", folder);
        failed = add_file(reader, path, err);
    }
    if (failed)
        cifar10_close(reader);
    return failed;
}

/* Read record @index; errors give its place. */
static int read_record(const struct store *store, int64_t index, uint8_t *record, struct err *err)
{
    const struct file *file = store->file;
    for (; index >= file->size / RECORD; file++)
        index -= file->size / RECORD;
    if (file_load(file, index * RECORD, RECORD, record, err))
        return -1;
    if (record[0] >= CLASSES)
        return err_add(err, "%s: image %" PRId64 " has label %d, expected 0 to 9", file->path,
                       index, record[0]);
    return 0;
}

/* Planes of bytes to pixels, moved by (@right, @down) and perhaps mirrored; pixels from outside are
 * black before normalisation, as in torchvision's RandomCrop with padding. */
static void spread(const uint8_t *plane, int32_t right, int32_t down, bool flip, float *image)
{
    static const float mean[] = {125.3F, 123.0F, 113.9F}, deviation[] = {63.0F, 62.1F, 66.7F};
    for (int32_t i = 0; i < PLANE; i++) {
        int32_t column = i % SIDE, y = i / SIDE - down;
        int32_t x = (flip ? SIDE - 1 - column : column) - right;
        bool inside = x >= 0 && x < SIDE && y >= 0 && y < SIDE;
        for (int32_t c = 0; c < 3; c++) {
            float byte = inside ? plane[c * PLANE + y * SIDE + x] : 0;
            image[3 * i + c] = (byte - mean[c]) / deviation[c];
        }
    }
}

static int32_t draw(const struct reader *reader, const struct reading *reading, int32_t which,
                    int32_t below)
{
    uint64_t counter = (uint64_t)reading->index << 2 | (uint64_t)which;
    return (int32_t)(base_uniform(reader->seed, reading->epoch, 3, counter) * below);
}

static int cifar10_read(const struct reader *reader, const struct reading *reading, struct err *err)
{
    uint8_t record[RECORD];
    int32_t right = 0, down = 0, flip = 0;
    if (read_record(reader->store, reading->index, record, err))
        return -1;
    if (reading->augment) {
        right = draw(reader, reading, 0, 2 * PADDING + 1) - PADDING;
        down = draw(reader, reading, 1, 2 * PADDING + 1) - PADDING;
        flip = draw(reader, reading, 2, 2);
    }
    spread(record + 1, right, down, flip, reading->image);
    *reading->label = record[0];
    return 0;
}

const struct reader_ops reader_cifar10 = {cifar10_open, cifar10_close, cifar10_read, false};
