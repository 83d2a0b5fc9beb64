#include "exec/input/dataset.h"
#include "tests/fuzz/fuzz.h"

OWNED(dataset, dataset_close)

static char folder[] = "/tmp/fuzz-cifar10-XXXXXX";

static void remove_folder(void)
{
    for (int32_t i = 1; i <= 5; i++) {
        AUTOFREE char *name = base_format("%s/data_batch_%d.bin", folder, i);
        unlink(name);
    }
    rmdir(folder);
}

/* A folder whose five files are all the same one in memory. */
static void make_folder(const char *target)
{
    if (!mkdtemp(folder))
        abort();
    for (int32_t i = 1; i <= 5; i++) {
        AUTOFREE char *name = base_format("%s/data_batch_%d.bin", folder, i);
        if (symlink(target, name))
            abort();
    }
}

/* Every image of the files can be read, or is named as corrupt, or there is a message. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool made;
    static float image[3 * 32 * 32];
    HELD(err) err = {0};
    const char *path = memory_file(data, size);
    if (!made) {
        make_folder(path);
        atexit(remove_folder);
        made = true;
    }
    struct dataset_spec spec = {.source = SOURCE_CIFAR10, .path = folder, .image = 32};
    OWN(dataset) *dataset = dataset_open(&spec, SPLIT_TRAIN, &err);
    if (!dataset && err.count == 0)
        abort();
    for (int64_t i = 0; dataset && i < dataset_count(dataset); i++) {
        int32_t label = -1;
        if (!dataset_read(dataset, i, 1, true, image, &label) && (label < 0 || label > 9))
            abort();
    }
    return 0;
}
