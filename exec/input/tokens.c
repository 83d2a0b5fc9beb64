#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "exec/input/reader.h"

/* Sequences of tokens: of a file, or made by a rule. */

/* A file of numbers of 16 bits, little endian; NULL: tokens are made. */
struct store {
    const uint8_t *data;
    int64_t tokens;
    char *path;
};

/* ---- made ---- */

/* Seven of eight tokens are the sum of the two before them, modulo the vocabulary; others, and with
 * `synthetic` all, are drawn. */
static void make(const struct reader *reader, const struct reading *reading, bool rule,
                 float *image, int32_t *label)
{
    uint64_t epoch = reading->augment ? reading->epoch : 0;
    int64_t before = 0, last = 0;
    for (int32_t i = 0; i <= reader->sequence; i++) {
        double drawn = base_uniform(reader->seed, epoch, (uint64_t)reading->index, (uint64_t)i) * 8;
        int64_t token = (int64_t)(drawn * reader->classes) % reader->classes;
        if (rule && i > 1 && drawn >= 1)
            token = (before + last) % reader->classes;
        before = last;
        last = token;
        if (i < reader->sequence)
            image[i] = (float)token;
    }
    *label = (int32_t)last;
}

static int made_open(struct reader *reader, const struct dataset_spec *spec, enum split split,
                     struct err *err)
{
    reader->count = split == SPLIT_TRAIN ? spec->train_images : spec->validation_images;
    reader->classes = spec->classes;
    if (reader->count < 1)
        return err_add_code(err, 64, "sequences are generated, so their number must be given");
    return 0;
}

static void made_close(struct reader *reader)
{
}

static int rule_read(const struct reader *reader, const struct reading *reading, struct err *err)
{
    make(reader, reading, true, reading->image, reading->label);
    return 0;
}

static int noise_read(const struct reader *reader, const struct reading *reading, struct err *err)
{
    make(reader, reading, false, reading->image, reading->label);
    return 0;
}

const struct reader_ops reader_made_tokens = {made_open, made_close, rule_read, false};
const struct reader_ops reader_noise_tokens = {made_open, made_close, noise_read, false};

/* ---- files ---- */

static int map(struct store *store, const char *path, struct err *err)
{
    struct stat found;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &found) != 0 || !S_ISREG(found.st_mode)) {
        if (file >= 0)
            close(file);
        return err_add_code(err, 66, "%s: cannot be read as a file of tokens", path);
    }
    void *data = found.st_size > 0
                     ? mmap(NULL, (size_t)found.st_size, PROT_READ, MAP_SHARED, file, 0)
                     : MAP_FAILED;
    close(file);
    if (found.st_size % 2)
        err_add(err, "%s: %lld bytes are no whole number of tokens of 2 bytes: truncated?", path,
                (long long)found.st_size);
    else if (data == MAP_FAILED)
        err_add(err, "%s: no tokens", path);
    else
        *store = (struct store){data, found.st_size / 2, base_copy(path)};
    if (err->count && data != MAP_FAILED)
        munmap(data, (size_t)found.st_size);
    return err->count ? -1 : 0;
}

static void tokens_close(struct reader *reader)
{
    munmap((void *)(uintptr_t)reader->store->data, (size_t)(2 * reader->store->tokens));
    free(reader->store->path);
    free(reader->store);
}

/* One token follows the last sequence, and epochs begin at different places of the first. */
static int tokens_open(struct reader *reader, const struct dataset_spec *spec, enum split split,
                       struct err *err)
{
    struct store *store = base_alloc(1, sizeof(*store));
    const char *path = split == SPLIT_VALIDATION ? spec->validation_path : spec->path;
    if (map(store, path, err)) {
        free(store);
        return -1;
    }
    reader->store = store;
    reader->classes = spec->classes;
    reader->count =
        (store->tokens - 1) / reader->sequence - (split == SPLIT_TRAIN && spec->augment);
    if (reader->count >= 1)
        return 0;
    err_add(err, "%s: %" PRId64 " tokens are fewer than a sequence of %d and the token after it%s",
            path, store->tokens, reader->sequence,
            spec->augment ? ", twice where augmentation moves their begin" : "");
    tokens_close(reader);
    return -1;
}

static int tokens_read(const struct reader *reader, const struct reading *reading, struct err *err)
{
    const struct store *store = reader->store;
    int64_t first = reading->index * reader->sequence;
    if (reading->augment)
        first += (int64_t)(base_uniform(reader->seed, reading->epoch, 7, 0) * reader->sequence);
    for (int32_t i = 0; i <= reader->sequence; i++) {
        int32_t token = store->data[2 * (first + i)] | store->data[2 * (first + i) + 1] << 8;
        if (token >= reader->classes)
            return err_add(err, "%s: token %d, number %" PRId64 ", is beyond a vocabulary of %d",
                           store->path, token, first + i, reader->classes);
        if (i < reader->sequence)
            reading->image[i] = (float)token;
        else
            *reading->label = token;
    }
    return 0;
}

const struct reader_ops reader_tokens = {tokens_open, tokens_close, tokens_read, false};
