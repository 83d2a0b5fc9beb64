#include "exec/input/files/file.h"
#include "exec/input/reader.h"

/* Sequences of tokens: of a file, or made by a rule. */

/* A file of numbers of 2 or 4 bytes, little endian; NULL: tokens are made. */
struct store {
    struct file file;
    int64_t head, tokens; /* of bytes, before so many tokens */
    int32_t width;
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

const struct reader_ops reader_made_tokens = {NULL, NULL, rule_read, false};
const struct reader_ops reader_noise_tokens = {NULL, NULL, noise_read, false};

/* ---- files ---- */

static int64_t token_at(const uint8_t *bytes, int32_t width, int64_t index)
{
    int64_t token = 0;
    for (int32_t i = width - 1; i >= 0; i--)
        token = token << 8 | bytes[index * width + i];
    return token;
}

/* Files that begin with 256 numbers of 32 bits say what follows: a number that means a width, a
 * version, how many tokens.  Source: llm.c, dev/data/data_common.py.  Others are as wide as the
 * vocabulary of @classes needs. */
static int find_tokens(struct store *store, int32_t classes, struct err *err)
{
    enum { HEAD = 256 * 4, NARROW = 20240520, WIDE = 20240801, LOOKED_AT = 8192 };
    const struct file *file = &store->file;
    int32_t head[3] = {0}, zeros = 0;
    uint8_t bytes[2 * LOOKED_AT];
    if (file->size >= HEAD && file_load(file, 0, sizeof(head), head, err))
        return -1;
    bool has_head = head[0] == NARROW || head[0] == WIDE;
    store->width = head[0] == WIDE || (!has_head && classes > UINT16_MAX + 1) ? 4 : 2;
    store->head = has_head ? HEAD : 0;
    store->tokens = (file->size - store->head) / store->width;
    if (has_head && store->tokens != head[2])
        return err_add(err, "%s: %" PRId64 " tokens, but its head says %d: truncated?", file->path,
                       store->tokens, head[2]);
    if (file->size % store->width)
        return err_add(
            err, "%s: %" PRId64 " bytes are no whole number of tokens of %d bytes: truncated?",
            file->path, file->size, store->width);
    int64_t count = store->tokens < LOOKED_AT ? store->tokens : LOOKED_AT;
    if (file_load(file, store->head, 2 * count, bytes, err))
        return -1;
    for (int64_t i = 1; i < count && store->width == 2; i += 2)
        zeros += token_at(bytes, 2, i) == 0 && token_at(bytes, 2, i - 1) > 0;
    return zeros <= 8 || zeros <= count / 4
               ? 0
               : err_add(err,
                         "%s: most second numbers of 16 bits are 0: tokens of 32 bits, which are "
                         "read with a head, or where model.vocab is above 65536",
                         file->path);
}

static void tokens_close(struct reader *reader)
{
    file_close(&reader->store->file);
    free(reader->store);
}

/* One token follows the last sequence, and epochs begin at different places of the first. */
static int tokens_open(struct reader *reader, const struct dataset_spec *spec, enum split split,
                       struct err *err)
{
    struct store *store = reader->store = base_alloc(1, sizeof(*store));
    const char *path = split == SPLIT_VALIDATION ? spec->validation_path : spec->path;
    int failed = file_open(&store->file, path, err) || find_tokens(store, spec->classes, err);
    reader->count =
        (store->tokens - 1) / reader->sequence - (split == SPLIT_TRAIN && spec->augment);
    if (!failed && reader->count < 1)
        failed = err_add(
            err, "%s: %" PRId64 " tokens are fewer than a sequence of %d and the token after it%s",
            path, store->tokens, reader->sequence,
            spec->augment ? ", twice where augmentation moves their begin" : "");
    if (failed)
        tokens_close(reader);
    return failed ? -1 : 0;
}

static int tokens_read(const struct reader *reader, const struct reading *reading, struct err *err)
{
    const struct store *store = reader->store;
    int64_t first = reading->index * reader->sequence;
    if (reading->augment)
        first += (int64_t)(base_uniform(reader->seed, reading->epoch, 7, 0) * reader->sequence);
    int64_t size = (int64_t)(reader->sequence + 1) * store->width;
    uint8_t *bytes = buffer_reserve(&reading->scratch->bytes, size);
    if (file_load(&store->file, store->head + first * store->width, size, bytes, err))
        return -1;
    for (int32_t i = 0; i <= reader->sequence; i++) {
        int64_t token = token_at(bytes, store->width, i);
        if (token >= reader->classes)
            return err_add(
                err, "%s: token %" PRId64 ", number %" PRId64 ", is beyond a vocabulary of %d",
                store->file.path, token, first + i, reader->classes);
        if (i < reader->sequence)
            reading->image[i] = (float)token;
        else
            *reading->label = (int32_t)token;
    }
    return 0;
}

const struct reader_ops reader_tokens = {tokens_open, tokens_close, tokens_read, false};
