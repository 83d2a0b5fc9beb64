#include "exec/input/pack/pack.h"

#include <libgen.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "core/base/file.h"
#include "exec/input/dataset.h"
#include "exec/input/picture/jpeg.h"
#include "exec/input/picture/picture.h"
#include "exec/input/reader.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "packs are read as they lie in memory");
_Static_assert(sizeof(struct pack_header) == 56, "no padding");
_Static_assert(sizeof(struct pack_entry) == 32, "no padding");

/* The line ends break when a file is sent as text. */
static const char magic[8] = "ftpack\r\n";

/* Detects damaged records. */
static uint64_t hash_bytes(const void *data, int64_t size)
{
    return XXH3_64bits(data, (size_t)size);
}

int pack_header_check(const struct pack_header *header, const char *name, int64_t size,
                      struct err *err)
{
    if (memcmp(header->magic, magic, sizeof(magic)) != 0)
        return err_add(err, "%s: not a pack; 'foretrain data pack' writes them", name);
    if (header->version != PACK_VERSION)
        return err_add(err,
                       "%s: a pack of version %u, but this program reads version %d: pack it again",
                       name, header->version, PACK_VERSION);
    uint64_t entries = ((uint64_t)size - header->index) / sizeof(struct pack_entry);
    if (header->index % PACK_PAGE || header->index < PACK_PAGE || header->index >= (uint64_t)size ||
        header->count > entries)
        return err_add(err,
                       "%s: a damaged pack, or cut short: its index of %" PRIu64
                       " images should begin at %" PRIu64 ", but it has %" PRId64 " bytes",
                       name, header->count, header->index, size);
    if ((uint64_t)size != header->index + header->count * sizeof(struct pack_entry))
        return err_add(err, "%s: a damaged pack: bytes behind the index", name);
    if (header->count < 1 || header->classes < 1 || header->classes > INT32_MAX ||
        header->split >= SPLIT_COUNT)
        return err_add(err, "%s: a damaged pack: %" PRIu64 " images, %u classes, split %u", name,
                       header->count, header->classes, header->split);
    return 0;
}

int pack_entry_check(const struct pack_header *header, const struct pack_entry *entry,
                     const char *name, int64_t number, struct err *err)
{
    uint64_t pixels = (uint64_t)entry->width * entry->height;
    if (pixels < 1 || pixels > PICTURE_PIXEL_LIMIT)
        return err_add(err, "%s: a damaged pack: image %" PRId64 " of %u x %u pixels", name, number,
                       entry->width, entry->height);
    if (entry->offset < PACK_PAGE || entry->offset > header->index ||
        3 * pixels > header->index - entry->offset)
        return err_add(err, "%s: a damaged pack: image %" PRId64 " at byte %" PRIu64, name, number,
                       entry->offset);
    if (entry->label >= header->classes || entry->zero)
        return err_add(err, "%s: a damaged pack: image %" PRId64 " of class %u of %u", name, number,
                       entry->label, header->classes);
    return 0;
}

static int64_t entries_size(const struct pack_header *header)
{
    return (int64_t)(header->count * sizeof(struct pack_entry));
}

static int read_header(struct pack_file *pack, struct err *err)
{
    struct pack_header *header = &pack->header;
    const struct file *file = &pack->file;
    if (file->size < PACK_PAGE)
        return err_add(err, "%s: not a pack: %" PRId64 " bytes are too few", file->path,
                       file->size);
    if (file_load(file, 0, sizeof(*header), header, err) ||
        pack_header_check(header, file->path, file->size, err))
        return -1;
    if (header->header_hash != hash_bytes(header, offsetof(struct pack_header, header_hash)))
        return err_add(err, "%s: a damaged pack: its header is not what was written", file->path);
    return 0;
}

static int read_index(struct pack_file *pack, struct err *err)
{
    const struct pack_header *header = &pack->header;
    const struct file *file = &pack->file;
    pack->entry = base_alloc((int64_t)header->count, sizeof(*pack->entry));
    if (file_load(file, (int64_t)header->index, entries_size(header), pack->entry, err))
        return -1;
    if (header->index_hash != hash_bytes(pack->entry, entries_size(header)))
        return err_add(err, "%s: a damaged pack: its index is not what was written", file->path);
    for (int64_t i = 0; i < (int64_t)header->count; i++)
        if (pack_entry_check(header, &pack->entry[i], file->path, i, err))
            return -1;
    return 0;
}

int pack_file_open(struct pack_file *pack, const char *path, struct err *err)
{
    *pack = (struct pack_file){0};
    if (file_open(&pack->file, path, err))
        return -1;
    if (read_header(pack, err) || read_index(pack, err)) {
        pack_file_close(pack);
        return -1;
    }
    return 0;
}

/* The pixels of image @number. */
static int read_pixels(const struct pack_file *pack, int64_t number, struct buffer *pixels,
                       struct err *err)
{
    const struct pack_entry *entry = &pack->entry[number];
    int64_t size = (int64_t)3 * entry->width * entry->height;
    uint8_t *record = buffer_reserve(pixels, size);
    if (file_load(&pack->file, (int64_t)entry->offset, size, record, err))
        return -1;
    if (hash_bytes(record, size) != entry->hash)
        return err_add(err, "%s: image %" PRId64 " is not what was written", pack->file.path,
                       number);
    return 0;
}

void pack_file_close(struct pack_file *pack)
{
    file_close(&pack->file);
    free(pack->entry);
    *pack = (struct pack_file){0};
}

/* ---- checking ---- */

static struct pack_summary summarise(const struct pack_header *header,
                                     const struct pack_entry *entry, int64_t bytes)
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
        failed |= read_pixels(&pack, i, &pixels, err);
    if (!failed)
        *summary = summarise(&pack.header, pack.entry, pack.file.size);
    pack_file_close(&pack);
    return failed;
}

/* ---- writing ---- */

enum { CHUNK = 64 /* images per thread between two writes */ };

/* One image on its way. */
struct item {
    struct buffer pixels;
    struct pack_entry entry;
    struct err err;
};

/* Images that threads decode while nothing is written. */
struct chunk {
    const struct pack_job *job;
    const struct catalog *catalog;
    int64_t first, count;
    atomic_llong next;
    struct item *item; /* (CHUNK * threads) */
};

struct worker {
    pthread_t thread;
    struct chunk *chunk;
    struct scratch scratch;
    struct buffer floats;
};

static void to_bytes(const float *from, uint8_t *to, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float value = from[i] + 0.5F;
        to[i] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
    }
}

static int decode(struct worker *worker, const char *name, int64_t size, struct item *item)
{
    struct scratch *scratch = &worker->scratch;
    struct picture picture;
    int32_t width, height;
    if (!scratch->decoder)
        scratch->decoder = decoder_new();
    if (decoder_open(scratch->decoder, name, scratch->bytes.data, size, &width, &height,
                     &item->err))
        return -1;
    struct view view = view_whole(width, height, worker->chunk->job->shorter);
    AUTORELEASE(resize) struct resize resize = resize_new(&view, 1, width, height);
    int failed =
        decoder_read(scratch->decoder, resize.need, 1, &scratch->pixels, &picture, &item->err);
    int64_t count = (int64_t)3 * view.columns * view.rows;
    if (!failed) {
        float *floats = buffer_reserve(&worker->floats, count * (int64_t)sizeof(float));
        resize_run(&resize, &picture, &tint_none, &scratch->row, floats);
        to_bytes(floats, buffer_reserve(&item->pixels, count), count);
        item->entry.hash = hash_bytes(item->pixels.data, count);
        item->entry.width = (uint32_t)view.columns;
        item->entry.height = (uint32_t)view.rows;
    }
    return failed;
}

static void make(struct worker *worker, int64_t number)
{
    const struct chunk *chunk = worker->chunk;
    const struct catalog *catalog = chunk->catalog;
    struct item *item = &chunk->item[number];
    int64_t index = chunk->first + number;
    item->entry =
        (struct pack_entry){.label = (uint32_t)catalog->ops->label(catalog->listing, index)};
    int64_t size = catalog->ops->fetch(catalog->listing, index, &worker->scratch.bytes, &item->err);
    if (size < 0)
        return;
    AUTOFREE char *name = catalog->ops->name(catalog->listing, index);
    decode(worker, name, size, item);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct chunk *chunk = worker->chunk;
    int64_t number;
    while ((number = atomic_fetch_add(&chunk->next, 1)) < chunk->count)
        make(worker, number);
    return NULL;
}

/* Decode the chunk on all threads, the calling one among them. */
static void make_chunk(struct worker *worker, int32_t threads)
{
    int32_t started = 1;
    while (started < threads &&
           !pthread_create(&worker[started].thread, NULL, work, &worker[started]))
        started++; /* fewer threads are slower, and all */
    work(&worker[0]);
    for (int32_t i = 1; i < started; i++)
        pthread_join(worker[i].thread, NULL);
}

/* The pack being written. */
struct pack_writer {
    struct file_fresh file;
    int64_t size; /* written so far [bytes] */
    struct pack_header header;
    struct pack_entry *entry; /* (header.count) */
    int64_t left_out;
};

static int fail(const struct pack_writer *writer, struct err *err)
{
    return err_add_code(err, 74, "%s: cannot be written: %s", writer->file.path, strerror(errno));
}

static int put(struct pack_writer *writer, const void *data, int64_t size, struct err *err)
{
    writer->size += size;
    bool whole = fwrite(data, 1, (size_t)size, writer->file.stream) == (size_t)size;
    return whole ? 0 : fail(writer, err);
}

/* Zeros up to a whole page; in front of all a page of them, for the header. */
static int pad(struct pack_writer *writer, struct err *err)
{
    static const char zero[PACK_PAGE];
    int64_t over = writer->size % PACK_PAGE;
    return put(writer, zero, over || !writer->size ? PACK_PAGE - over : 0, err);
}

/* Report that the image is left out; with `strict` that is an error. */
static int leave_out(struct pack_writer *writer, const struct pack_job *job, struct item *item,
                     struct err *err)
{
    const char *reason = err_reason(&item->err);
    if (job->strict)
        return err_add_code(err, item->err.exit_code, "%s", reason);
    if (++writer->left_out <= DATASET_WARNING_LIMIT)
        fprintf(stderr, "warning: %s; image left out\n", reason);
    return 0;
}

static int write_item(struct pack_writer *writer, const struct pack_job *job, struct item *item,
                      struct err *err)
{
    if (item->err.count) {
        int failed = leave_out(writer, job, item, err);
        err_release(&item->err);
        return failed;
    }
    int64_t count = (int64_t)writer->header.count;
    item->entry.offset = (uint64_t)writer->size;
    writer->entry = base_room(writer->entry, count, sizeof(*writer->entry));
    writer->entry[count] = item->entry;
    writer->header.count++;
    return put(writer, item->pixels.data, (int64_t)3 * item->entry.width * item->entry.height, err);
}

static int write_records(struct pack_writer *writer, const struct pack_job *job,
                         struct chunk *chunk, struct worker *worker, struct err *err)
{
    int64_t total = chunk->catalog->count, room = (int64_t)CHUNK * job->threads;
    int failed = 0;
    for (int64_t first = 0; first < total && !failed; first += chunk->count) {
        chunk->first = first;
        chunk->count = total - first < room ? total - first : room;
        chunk->next = 0;
        make_chunk(worker, job->threads);
        for (int64_t i = 0; i < chunk->count && !failed; i++)
            failed = write_item(writer, job, &chunk->item[i], err);
        if (job->progress)
            job->progress(first + chunk->count, total);
    }
    if (!failed && writer->header.count == 0)
        failed = err_add(err, "%s: no image can be read", job->from);
    return failed;
}

static int write_all(struct pack_writer *writer, const struct pack_job *job,
                     const struct catalog *catalog, struct err *err)
{
    struct chunk chunk = {.job = job, .catalog = catalog};
    int64_t room = (int64_t)CHUNK * job->threads;
    chunk.item = base_alloc(room, sizeof(*chunk.item));
    AUTOFREE struct worker *worker = base_alloc(job->threads, sizeof(*worker));
    for (int32_t i = 0; i < job->threads; i++)
        worker[i].chunk = &chunk;
    int failed = pad(writer, err) || write_records(writer, job, &chunk, worker, err);
    for (int64_t i = 0; i < room; i++) {
        buffer_release(&chunk.item[i].pixels);
        err_release(&chunk.item[i].err);
    }
    for (int32_t i = 0; i < job->threads; i++) {
        scratch_release(&worker[i].scratch);
        buffer_release(&worker[i].floats);
    }
    free(chunk.item);
    return failed ? -1 : 0;
}

static int write_index(struct pack_writer *writer, struct err *err)
{
    struct pack_header *header = &writer->header;
    int64_t size = (int64_t)(header->count * sizeof(*writer->entry));
    if (pad(writer, err))
        return -1;
    header->index = (uint64_t)writer->size;
    header->index_hash = hash_bytes(writer->entry, size);
    header->header_hash = hash_bytes(header, offsetof(struct pack_header, header_hash));
    if (put(writer, writer->entry, size, err))
        return -1;
    FILE *stream = writer->file.stream;
    bool whole = !fseek(stream, 0, SEEK_SET) && fwrite(header, sizeof(*header), 1, stream) == 1;
    return whole ? 0 : fail(writer, err);
}

static int open_catalog(struct catalog *catalog, const char *from, struct err *err)
{
    struct stat status;
    bool folder = stat(from, &status) == 0 && S_ISDIR(status.st_mode);
    return folder ? catalog_open_folder(catalog, from, err)
                  : catalog_open_shards(catalog, from, err);
}

static int write_pack(struct pack_writer *writer, const struct pack_job *job,
                      const struct catalog *catalog, struct err *err)
{
    if (file_fresh_open(&writer->file, job->to, err))
        return -1;
    int failed = write_all(writer, job, catalog, err) || write_index(writer, err);
    AUTOFREE char *path = base_copy(job->to);
    return file_fresh_close(&writer->file, failed, NULL, err) ||
                   file_sync_directory(dirname(path), err)
               ? -1
               : 0;
}

int pack_write(const struct pack_job *job, struct pack_summary *summary, struct err *err)
{
    struct pack_writer writer = {.header = {.version = PACK_VERSION}};
    struct catalog catalog = {0};
    if (!decoder_present())
        return err_add_code(err, 69,
                            "this build cannot pack: it was made without libjpeg (libjpeg-dev)");
    if (open_catalog(&catalog, job->from, err))
        return -1;
    memcpy(writer.header.magic, magic, sizeof(magic));
    writer.header.classes = (uint32_t)catalog.classes;
    writer.header.split = (uint32_t)job->split;
    writer.header.shorter = (uint32_t)job->shorter;
    int failed = write_pack(&writer, job, &catalog, err);
    if (!failed) {
        *summary = summarise(&writer.header, writer.entry, writer.size);
        summary->left_out = writer.left_out;
    }
    free(writer.entry);
    catalog_close(&catalog);
    return failed;
}

/* ---- the reader ---- */

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
    if (read_pixels(pack, reading->index, &scratch->pixels, err))
        return -1;
    struct view view = reading_view(reading, reader->image, reader->seed, width, height);
    struct picture picture = {scratch->pixels.data, (int64_t)3 * width, {0, 0, width, height}};
    reading_give(reading, reader->image, &view, 1, width, height, &picture);
    *reading->label = (int32_t)entry->label;
    return 0;
}

const struct reader_ops reader_pack = {pack_open, pack_close, pack_read, true};
