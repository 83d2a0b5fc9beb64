#include "exec/input/dataset.h"

#include <pthread.h>

#include "exec/input/reader.h"

/* What reading threads share, under one lock. */
struct shared {
    pthread_mutex_t lock;
    struct scratch *idle; /* (idle_count) scratches that no thread has */
    int32_t idle_count;
    uint8_t *corrupt; /* (count) one bit per image; NULL until there is one */
    int64_t corrupt_count;
    struct text messages;
};

struct dataset {
    const struct reader_ops *ops;
    struct reader reader;
    bool strict;
    struct shared *shared;
};

static const struct reader_ops *const readers[] = {
    [SOURCE_SYNTHETIC] = &reader_synthetic,     [SOURCE_PROCEDURAL] = &reader_procedural,
    [SOURCE_IMAGEFOLDER] = &reader_imagefolder, [SOURCE_WEBDATASET] = &reader_webdataset,
    [SOURCE_CIFAR10] = &reader_cifar10,         [SOURCE_PACK] = &reader_pack,
    [SOURCE_TOKENS] = &reader_tokens,
};
static_assert(ARRAY_SIZE(readers) == SOURCE_COUNT, "a reader per source");

/* As the job says. */
static int64_t samples_of(const struct dataset_spec *spec, enum split split)
{
    return split == SPLIT_TRAIN ? spec->train_images : spec->validation_images;
}

/* The sources that need a path, and those that need one for each split. */
static int check_paths(const struct dataset_spec *spec, enum split split, struct err *err)
{
    const char *name = dataset_source_names[spec->source];
    bool made = spec->source <= SOURCE_PROCEDURAL;
    if (made && (spec->path || spec->validation_path))
        return err_usage(err, "samples of source %s are made, so no path is read: leave out %s",
                         name, spec->path ? spec->path : spec->validation_path);
    if (made && samples_of(spec, split) < 1)
        return err_usage(err, "samples of source %s are made, so their number must be given", name);
    if (!made && !spec->path)
        return err_usage(err, "source %s needs a path", name);
    if (spec->source == SOURCE_CIFAR10 && spec->validation_path)
        return err_usage(err, "%s holds the validation samples too: leave out %s", spec->path,
                         spec->validation_path);
    bool two = spec->source == SOURCE_WEBDATASET || spec->source == SOURCE_PACK ||
               spec->source == SOURCE_TOKENS;
    if (two && split == SPLIT_VALIDATION && !spec->validation_path)
        return err_usage(err, "source %s needs a path of the validation samples", name);
    return 0;
}

/* NULL: the source has no such samples. */
static const struct reader_ops *reader_of(const struct dataset_spec *spec, struct err *err)
{
    bool made = spec->source <= SOURCE_PROCEDURAL;
    if (made && spec->sequence)
        return spec->source == SOURCE_PROCEDURAL ? &reader_made_tokens : &reader_noise_tokens;
    if (!spec->sequence == (spec->source != SOURCE_TOKENS))
        return readers[spec->source];
    err_usage(err, "source %s has %s, but the network reads %s: use source %s",
              dataset_source_names[spec->source], spec->sequence ? "images" : "tokens",
              spec->sequence ? "tokens" : "images", spec->sequence ? "tokens" : "imagefolder");
    return NULL;
}

/* Check the numbers found against the spec. */
static int check_found(const struct reader *reader, const struct dataset_spec *spec,
                       enum split split, struct err *err)
{
    static const char *const word[] = {"training", "validation"}, *const key[] = {"train",
                                                                                  "validation"};
    int64_t wanted = samples_of(spec, split);
    const char *path =
        split == SPLIT_VALIDATION && spec->validation_path ? spec->validation_path : spec->path;
    if (wanted && wanted != reader->count)
        return err_add(err,
                       "%s: %" PRId64 " %s samples, but the job says %" PRId64
                       " (training.dataset.%s_images)",
                       path, reader->count, word[split], wanted, key[split]);
    if (spec->classes && spec->classes != reader->classes)
        return err_add(err, "%s: %d classes, but the job says %d (model.classes)", path,
                       reader->classes, spec->classes);
    return 0;
}

struct dataset *dataset_open(const struct dataset_spec *spec, enum split split, struct err *err)
{
    assert(spec->source < SOURCE_COUNT && split < SPLIT_COUNT && spec->image >= 0);
    struct reader reader = {.count =
                                spec->source <= SOURCE_PROCEDURAL ? samples_of(spec, split) : 0,
                            .classes = spec->classes,
                            .image = spec->image,
                            .sequence = spec->sequence,
                            .seed = base_hash(spec->seed, &split, sizeof(split))};
    const struct reader_ops *ops = reader_of(spec, err);
    if (!ops)
        return NULL;
    if (spec->image < 1 && !spec->sequence) {
        err_usage(err, "images need a size of at least 1 pixel");
        return NULL;
    }
    if (check_paths(spec, split, err) || (ops->open && ops->open(&reader, spec, split, err)))
        return NULL;
    assert(reader.count >= 1 && reader.classes >= 1);
    if (check_found(&reader, spec, split, err)) {
        if (ops->close)
            ops->close(&reader);
        return NULL;
    }
    struct dataset *dataset = base_alloc(1, sizeof(*dataset));
    *dataset = (struct dataset){ops, reader, spec->strict, base_alloc(1, sizeof(struct shared))};
    pthread_mutex_init(&dataset->shared->lock, NULL);
    return dataset;
}

void dataset_close(struct dataset *dataset)
{
    if (!dataset)
        return;
    AUTOFREE struct shared *shared = dataset->shared;
    if (dataset->ops->close)
        dataset->ops->close(&dataset->reader);
    for (int32_t i = 0; i < shared->idle_count; i++)
        scratch_release(&shared->idle[i]);
    pthread_mutex_destroy(&shared->lock);
    text_release(&shared->messages);
    free(shared->corrupt);
    free(shared->idle);
    free(dataset);
}

int64_t dataset_count(const struct dataset *dataset)
{
    return dataset->reader.count;
}

int64_t dataset_floats(const struct dataset *dataset)
{
    int64_t image = dataset->reader.image;
    return dataset->reader.sequence ? dataset->reader.sequence : 3 * image * image;
}

int32_t dataset_image(const struct dataset *dataset)
{
    return dataset->reader.image;
}

static struct scratch take_scratch(struct shared *shared)
{
    struct scratch scratch = {0};
    pthread_mutex_lock(&shared->lock);
    if (shared->idle_count)
        scratch = shared->idle[--shared->idle_count];
    pthread_mutex_unlock(&shared->lock);
    return scratch;
}

static void give_scratch(struct shared *shared, struct scratch scratch)
{
    pthread_mutex_lock(&shared->lock);
    BASE_NEXT(shared->idle, shared->idle_count) = scratch;
    pthread_mutex_unlock(&shared->lock);
}

/* Mark the image; true when it was not marked before. */
static bool mark(struct shared *shared, int64_t count, int64_t index)
{
    uint8_t bit = (uint8_t)(1 << index % 8);
    if (!shared->corrupt)
        shared->corrupt = base_alloc(count / 8 + 1, 1);
    bool news = !(shared->corrupt[index / 8] & bit);
    shared->corrupt[index / 8] |= bit;
    shared->corrupt_count += news;
    return news;
}

/* Printed while the lock is held, so that lines of several threads do not mix. */
static void report(const struct dataset *dataset, int64_t index, struct err *found)
{
    struct shared *shared = dataset->shared;
    const char *reason = err_reason(found);
    if (dataset->strict) {
        /* Other threads may still run: their memory must not be released. */
        fprintf(stderr, "error: %s; strict, so the run ends\n", reason);
        _exit(65);
    }
    pthread_mutex_lock(&shared->lock);
    if (mark(shared, dataset->reader.count, index) &&
        shared->corrupt_count <= DATASET_WARNING_LIMIT) {
        const char *what = dataset->reader.sequence ? "sequence" : "image";
        fprintf(stderr, "warning: %s; %s left out\n", reason, what);
        text_add(&shared->messages, "%s\n", reason);
        if (shared->corrupt_count == DATASET_WARNING_LIMIT)
            fprintf(stderr, "warning: further corrupt %ss are counted, but not named\n", what);
    }
    pthread_mutex_unlock(&shared->lock);
}

static int run_reading(const struct dataset *dataset, struct reading reading)
{
    assert(reading.index >= 0 && reading.index < dataset->reader.count);
    struct scratch scratch = take_scratch(dataset->shared);
    AUTORELEASE(err) struct err err = {0};
    reading.scratch = &scratch;
    int failed = dataset->ops->read(&dataset->reader, &reading, &err);
    give_scratch(dataset->shared, scratch);
    if (failed)
        report(dataset, reading.index, &err);
    return failed;
}

int dataset_read(const struct dataset *dataset, int64_t index, uint64_t epoch, bool augment,
                 float *image, int32_t *label)
{
    return run_reading(
        dataset,
        (struct reading){
            .index = index, .epoch = epoch, .augment = augment, .image = image, .label = label});
}

bool dataset_has_pictures(const struct dataset *dataset)
{
    return dataset->ops->pictures;
}

int dataset_read_picture(const struct dataset *dataset, int64_t index, uint64_t epoch, bool augment,
                         uint8_t *pixels, struct crop *crop, int32_t *label)
{
    assert(dataset_has_pictures(dataset));
    return run_reading(dataset, (struct reading){.index = index,
                                                 .epoch = epoch,
                                                 .augment = augment,
                                                 .pixels = pixels,
                                                 .crop = crop,
                                                 .label = label});
}

int64_t dataset_corrupt(const struct dataset *dataset, struct text *messages)
{
    struct shared *shared = dataset->shared;
    pthread_mutex_lock(&shared->lock);
    int64_t count = shared->corrupt_count;
    if (messages && shared->messages.data)
        text_append(messages, shared->messages.data, shared->messages.length);
    pthread_mutex_unlock(&shared->lock);
    return count;
}
