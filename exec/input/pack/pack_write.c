#include <libgen.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "exec/input/files/file.h"
#include "exec/input/pack/pack_file.h"
#include "exec/input/picture/jpeg.h"
#include "exec/input/picture/picture.h"

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
    struct pack_writer writer = {0};
    struct catalog catalog = {0};
    if (!decoder_present())
        return err_add_code(err, 69,
                            "this build cannot pack: it was made without libjpeg (libjpeg-dev)");
    if (open_catalog(&catalog, job->from, err))
        return -1;
    pack_header_init(&writer.header);
    writer.header.classes = (uint32_t)catalog.classes;
    writer.header.split = (uint32_t)job->split;
    writer.header.shorter = (uint32_t)job->shorter;
    int failed = write_pack(&writer, job, &catalog, err);
    if (!failed) {
        *summary = pack_summarise(&writer.header, writer.entry, writer.size);
        summary->left_out = writer.left_out;
    }
    free(writer.entry);
    catalog_close(&catalog);
    return failed;
}
