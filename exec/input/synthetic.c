#include "exec/input/reader.h"

enum { DISTINCT = 64 /* images; more would only cost memory */ };

struct store {
    float *image; /* (distinct, image, image, 3) */
    int64_t distinct;
};

static int synthetic_open(struct reader *reader, const struct dataset_spec *spec, enum split split,
                          struct err *err)
{
    if (reader->classes < 1)
        return err_usage(err, "images of source synthetic need a number of classes");
    struct store *store = reader->store = base_alloc(1, sizeof(*store));
    store->distinct = reader->count < DISTINCT ? reader->count : DISTINCT;
    int64_t floats = store->distinct * 3 * reader->image * reader->image;
    store->image = base_alloc(floats, sizeof(float));
    for (int64_t i = 0; i < floats; i++) /* uniform, of deviation 1 */
        store->image[i] =
            (float)(3.4641016151377544 * (base_uniform(reader->seed, 0, 2, (uint64_t)i) - 0.5));
    return 0;
}

static void synthetic_close(struct reader *reader)
{
    free(reader->store->image);
    free(reader->store);
}

static int synthetic_read(const struct reader *reader, const struct reading *reading,
                          struct err *err)
{
    const struct store *store = reader->store;
    int64_t floats = (int64_t)3 * reader->image * reader->image;
    memcpy(reading->image, store->image + reading->index % store->distinct * floats,
           (size_t)floats * sizeof(float));
    *reading->label = (int32_t)(reading->index % reader->classes);
    return 0;
}

const struct reader_ops reader_synthetic = {synthetic_open, synthetic_close, synthetic_read, false};
