#include "core/base/gzip.h"

#include <zlib.h>

enum {
    WINDOW = 15 + 16, /* the largest one; with gzip's head and checksum */
    MEMORY = 8,       /* zlib's default */
    PIECE = 1 << 16,
};

bool gzip_named(const char *path)
{
    size_t length = strlen(path);
    return length >= 3 && !strcmp(path + length - 3, ".gz");
}

static void *take(void *unused, unsigned count, unsigned size)
{
    return base_alloc(count, size);
}

static void give(void *unused, void *memory)
{
    free(memory);
}

/* zlib takes at most 4 GB at once. */
static void feed(z_stream *stream, const struct text *text, int64_t *taken)
{
    if (stream->avail_in > 0)
        return;
    int64_t left = text->length - *taken, most = INT32_MAX;
    stream->next_in = (Bytef *)(text->data + *taken);
    stream->avail_in = (uInt)(left < most ? left : most);
    *taken += stream->avail_in;
}

void gzip_write(FILE *file, const struct text *text)
{
    unsigned char piece[PIECE] = {0};
    z_stream stream = {.zalloc = take, .zfree = give};
    int64_t taken = 0;
    int state = deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, WINDOW, MEMORY,
                             Z_DEFAULT_STRATEGY);
    assert(state == Z_OK);
    while (state == Z_OK) {
        feed(&stream, text, &taken);
        stream.next_out = piece;
        stream.avail_out = PIECE;
        state = deflate(&stream, taken < text->length ? Z_NO_FLUSH : Z_FINISH);
        fwrite(piece, 1, PIECE - stream.avail_out, file);
    }
    deflateEnd(&stream);
}

int gzip_expand(struct text *text, int64_t limit, const char *path, struct err *err)
{
    char piece[PIECE];
    z_stream stream = {.zalloc = take, .zfree = give};
    struct text whole = {0};
    int64_t taken = 0;
    if (text->length < 2 || memcmp(text->data, "\x1f\x8b", 2) != 0)
        return 0;
    int state = inflateInit2(&stream, WINDOW);
    assert(state == Z_OK);
    while (state == Z_OK && whole.length <= limit) {
        feed(&stream, text, &taken);
        stream.next_out = (Bytef *)piece;
        stream.avail_out = PIECE;
        state = inflate(&stream, Z_NO_FLUSH);
        text_append(&whole, piece, PIECE - stream.avail_out);
        /* Several members may follow each other. */
        if (state == Z_STREAM_END && (stream.avail_in > 0 || taken < text->length))
            state = inflateReset(&stream);
    }
    inflateEnd(&stream);
    if (state == Z_STREAM_END && whole.length <= limit) {
        text_release(text);
        *text = whole;
        return 0;
    }
    text_release(&whole);
    if (state == Z_OK || state == Z_STREAM_END)
        return err_add(err,
                       "%s: holds more than %" PRId64 " MB, compressed: take the part you need",
                       path, limit / 1000000);
    return err_add(err, "%s: damaged compressed text: %s", path,
                   state == Z_BUF_ERROR ? "it ends too early" : zError(state));
}
