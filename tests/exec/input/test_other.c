/* PNG and WebP files under the name of a JPEG. */

#include <zlib.h>

#include "config.h"
#include "exec/input/picture/jpeg.h"
#include "exec/input/picture/other.h"
#include "tests/exec/input/fixture.h"
#include "tests/test.h"

OWNED(decoder, decoder_free)

static void add_number(struct text *file, uint32_t value)
{
    for (int32_t shift = 24; shift >= 0; shift -= 8)
        text_append(file, (char[]){(char)(value >> shift)}, 1);
}

static void add_chunk(struct text *file, const char *type, const void *data, int64_t size)
{
    add_number(file, (uint32_t)size);
    int64_t from = file->length;
    text_append(file, type, 4);
    text_append(file, data, size);
    add_number(file, (uint32_t)crc32(0, (const Bytef *)file->data + from, (uInt)(size + 4)));
}

/* A PNG of rows of @stride bytes, each behind its filter.  Source: RFC 2083. */
static struct text png(int32_t width, int32_t height, int32_t depth, int32_t type,
                       const uint8_t *rows, int64_t size)
{
    struct text file = {0}, header = {0};
    text_append(&file, "\x89PNG\r\n\x1a\n", 8);
    add_number(&header, (uint32_t)width);
    add_number(&header, (uint32_t)height);
    text_append(&header, (char[]){(char)depth, (char)type, 0, 0, 0}, 5);
    add_chunk(&file, "IHDR", header.data, header.length);
    text_release(&header);
    if (type == 3)
        add_chunk(&file, "PLTE", "\x01\x02\x03\xff\x80\x00", 6);
    uint8_t packed[4096];
    uLongf length = sizeof(packed);
    assert_int_equal(compress(packed, &length, rows, (uLong)size), Z_OK);
    add_chunk(&file, "IDAT", packed, (int64_t)length);
    add_chunk(&file, "IEND", "", 0);
    return file;
}

/* Decode @file at 1/@shrink; the first @count bytes must be @pixels.  @pixels NULL: it is refused
 * with
 * @message. */
static void check(const struct text *file, int32_t shrink, const void *pixels, size_t count,
                  const char *message)
{
    OWN(decoder) *decoder = decoder_new();
    HELD(buffer) buffer = {0};
    struct picture picture;
    int32_t width = 0, height = 0;
    int status = decoder_open(decoder, "a.JPEG", (const uint8_t *)file->data, file->length, &width,
                              &height, &err);
    struct box box = {0, 0, width, height};
    if (!status)
        status = decoder_read(decoder, box, shrink, &buffer, &picture, &err);
    if (!pixels) {
        assert_fails(status, 65, message);
        return;
    }
    assert_int_equal(status, 0);
    assert_memory_equal(picture.pixel, pixels, count);
}

#if HAVE_PNG

TEST(every_kind_of_png_becomes_rgb)
{
    static const struct {
        int32_t depth, type;
        const char *rows;
        int64_t size;
        const char *pixels;
    } kind[] = {
        {8, 2, "\0\x10\x20\x30\x40\x50\x60", 7, "\x10\x20\x30\x40\x50\x60"},
        {8, 0, "\0\x10\xf0", 3, "\x10\x10\x10\xf0\xf0\xf0"},
        {16, 0, "\0\x10\x99\xf0\x99", 5, "\x10\x10\x10\xf0\xf0\xf0"},
        {1, 0, "\0\x40", 2, "\0\0\0\xff\xff\xff"},
        {8, 3, "\0\0\x01", 3, "\x01\x02\x03\xff\x80\0"},
        {1, 3, "\0\x40", 2, "\x01\x02\x03\xff\x80\0"},
        {8, 4, "\0\x10\0\xf0\x80", 5, "\x10\x10\x10\xf0\xf0\xf0"},
        {8, 6, "\0\x10\x20\x30\0\x40\x50\x60\xff", 9, "\x10\x20\x30\x40\x50\x60"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(kind); i++) {
        HELD(text)
        file = png(2, 1, kind[i].depth, kind[i].type, (const uint8_t *)kind[i].rows, kind[i].size);
        check(&file, 1, kind[i].pixels, 6, NULL);
    }
}

TEST(a_smaller_png_has_the_mean_of_its_pixels)
{
    HELD(text) file = png(3, 2, 8, 0, (const uint8_t *)"\0\x10\x20\x30\0\x30\x40\x50", 8);
    check(&file, 2, "\x28\x28\x28\x40\x40\x40", 6, NULL);
}

TEST(a_damaged_png_is_refused)
{
    HELD(text) file = png(2, 1, 8, 0, (const uint8_t *)"\0\x10\xf0", 3);
    for (int64_t size = 8; size < file.length - 12; size += 3) { /* without its end it is whole */
        struct text cut = {.data = file.data, .length = size};
        check(&cut, 1, NULL, 0, "a.JPEG: damaged PNG: ");
    }
    file.data[file.length - 20] ^= 1;
    check(&file, 1, NULL, 0, "a.JPEG: damaged PNG: ");
    HELD(text) large = png(30000, 30000, 8, 0, (const uint8_t *)"\0\x10\xf0", 3);
    check(&large, 1, NULL, 0, "a.JPEG: not plausible: 30000 x 30000 pixels");
    HELD(text) dense = png(8000, 8000, 8, 0, (const uint8_t *)"\0\x10\xf0", 3);
    check(&dense, 1, NULL, 0, "a.JPEG: not plausible: 8000 x 8000 pixels");
}

#endif

#if HAVE_WEBP

/* Written by Pillow 9.4: Image.new("RGB", (2, 2), (200, 100, 50)), lossless. */
static const char webp[] =
    "RIFF\x1e\0\0\0WEBPVP8L\x11\0\0\0/\x01\x40\0\0\x07\x50\xb2\x22\x57\xa6\xff\x81\x88\xe8\x7f\0\0";

TEST(a_webp_becomes_rgb)
{
    struct text file = {.data = (char *)webp, .length = sizeof(webp) - 1};
    check(&file, 1, "\xc8\x64\x32\xc8\x64\x32\xc8\x64\x32\xc8\x64\x32", 12, NULL);
    check(&file, 2, "\xc8\x64\x32", 3, NULL);
    file.length = 30;
    check(&file, 1, NULL, 0, "a.JPEG: damaged WebP: ");
}

#endif

TEST(others_are_told_by_their_first_bytes)
{
    assert_int_equal(other_of((const uint8_t *)"RIFF....WAVEfmt ", 16), OTHER_NONE);
    assert_int_equal(other_of((const uint8_t *)"RIFF....WEBPVP8 ", 16), OTHER_WEBP);
    assert_int_equal(other_of((const uint8_t *)"\x89PNG\r\n\x1a\n", 8), OTHER_PNG);
    assert_int_equal(other_of((const uint8_t *)"\x89PNG", 4), OTHER_NONE);
}
