#include "exec/input/picture/jpeg.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

#include "core/base/base.h"
#include "exec/input/picture/other.h"

struct decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr manager;
    jmp_buf failure;
    char reason[JMSG_LENGTH_MAX];
    char *name;       /* of the file */
    enum other other; /* it is no JPEG, but one of these */
    const uint8_t *data;
    int64_t size;
};

bool decoder_present(void)
{
    return true;
}

/* libjpeg calls this; it must not return. */
static void give_up(j_common_ptr jpeg)
{
    struct decoder *decoder = jpeg->client_data;
    jpeg->err->format_message(jpeg, decoder->reason);
    longjmp(decoder->failure, 1);
}

/* Warnings without effect on pixels are common in ImageNet; others mean invented pixels. */
static void judge(j_common_ptr jpeg, int level)
{
    static const int harmless[] = {JWRN_ADOBE_XFORM, JWRN_BOGUS_PROGRESSION, JWRN_EXTRANEOUS_DATA,
                                   JWRN_JFIF_MAJOR, JWRN_TOO_MUCH_DATA};
    if (level >= 0)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(harmless); i++)
        if (jpeg->err->msg_code == harmless[i])
            return;
    give_up(jpeg);
}

struct decoder *decoder_new(void)
{
    struct decoder *decoder = base_alloc(1, sizeof(*decoder));
    decoder->jpeg.err = jpeg_std_error(&decoder->manager);
    decoder->manager.error_exit = give_up;
    decoder->manager.emit_message = judge;
    decoder->jpeg.client_data = decoder;
    if (setjmp(decoder->failure)) {
        fprintf(stderr, "libjpeg does not start: %s\n", decoder->reason);
        exit(71);
    }
    jpeg_create_decompress(&decoder->jpeg);
    return decoder;
}

void decoder_free(struct decoder *decoder)
{
    if (!decoder)
        return;
    jpeg_destroy_decompress(&decoder->jpeg);
    free(decoder->name);
    free(decoder);
}

/* The formats of files that are named .jpg but are not JPEG. */
static const char *guess(const uint8_t *data, int64_t size)
{
    static const struct {
        const char *start, *name;
    } kind[] = {
        {"\x89PNG", "a PNG"}, {"GIF8", "a GIF"}, {"BM", "a BMP"},    {"RIFF", "a WebP"},
        {"II*", "a TIFF"},    {"MM", "a TIFF"},  {"<", "HTML, XML"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(kind); i++)
        if (size >= 4 && !memcmp(data, kind[i].start, strlen(kind[i].start)))
            return kind[i].name;
    return "something else";
}

/* Starts of scans: 0xff within one is followed by 0.  Those of a preview count, too. */
static int64_t count_scans(const uint8_t *data, int64_t size)
{
    static const uint8_t marker[] = {0xff, 0xda};
    int64_t count = 0;
    for (const uint8_t *at = data;
         (at = memmem(at, (size_t)(data + size - at), marker, sizeof(marker))); at += 2)
        count++;
    return count;
}

/* Whether time and memory are in proportion to the file.  Each scan may go over all pixels. */
static int check_cost(struct decoder *decoder, const uint8_t *data, int64_t size, struct err *err)
{
    struct jpeg_decompress_struct *jpeg = &decoder->jpeg;
    int64_t pixels = (int64_t)jpeg->image_width * jpeg->image_height;
    if (pixels > PICTURE_PIXEL_LIMIT || pixels > size * PICTURE_PIXELS_PER_BYTE)
        return err_add(err, "%s: not plausible: %u x %u pixels in %lld bytes", decoder->name,
                       jpeg->image_width, jpeg->image_height, (long long)size);
    int64_t scans = jpeg_has_multiple_scans(jpeg) ? count_scans(data, size) : 1;
    if (scans > JPEG_SCAN_LIMIT)
        return err_add(err, "%s: not plausible: %lld scans, at most %d are decoded", decoder->name,
                       (long long)scans, JPEG_SCAN_LIMIT);
    return 0;
}

static int refuse(struct decoder *decoder, struct err *err)
{
    jpeg_abort_decompress(&decoder->jpeg);
    return err_add(err, "%s: damaged JPEG: %s", decoder->name, decoder->reason);
}

int decoder_open(struct decoder *decoder, const char *name, const uint8_t *data, int64_t size,
                 int32_t *width, int32_t *height, struct err *err)
{
    struct jpeg_decompress_struct *jpeg = &decoder->jpeg;
    if (size == 0)
        return err_add(err, "%s: not a JPEG: the file is empty", name);
    free(decoder->name);
    decoder->name = base_copy(name);
    decoder->data = data;
    decoder->size = size;
    decoder->other = other_of(data, size);
    if (decoder->other)
        return other_open(decoder->other, name, data, size, width, height, err);
    if (size < 2 || data[0] != 0xff || data[1] != 0xd8)
        return err_add(err, "%s: not a JPEG: it begins like %s", name, guess(data, size));
    if (setjmp(decoder->failure))
        return refuse(decoder, err);
    jpeg_abort_decompress(jpeg); /* perhaps only the header of the previous file was read */
    jpeg_mem_src(jpeg, data, (unsigned long)size);
    jpeg_read_header(jpeg, TRUE);
    if (check_cost(decoder, data, size, err)) {
        jpeg_abort_decompress(jpeg);
        return -1;
    }
    *width = (int32_t)jpeg->image_width;
    *height = (int32_t)jpeg->image_height;
    return 0;
}

/* With Adobe's marker the stored value is the ink's complement (@turn 0), else the ink (255). */
static void cmyk_to_rgb(uint8_t *row, int32_t width, uint8_t turn)
{
    for (int32_t i = 0; i < width; i++) {
        int32_t paper = row[4 * i + 3] ^ turn;
        for (int32_t c = 0; c < 3; c++)
            row[3 * i + c] = (uint8_t)(((row[4 * i + c] ^ turn) * paper + 127) / 255);
    }
}

/* Begin, and leave out the columns that are not needed.  Some more are decoded on both sides,
 * because colour is interpolated from neighbours. */
static struct box start(struct jpeg_decompress_struct *jpeg, struct box box, int32_t shrink)
{
    enum { MARGIN = 4 };
    bool inks = jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK;
    jpeg->out_color_space = inks ? JCS_CMYK : JCS_RGB;
    jpeg->scale_num = 1;
    jpeg->scale_denom = (unsigned)shrink;
    jpeg_start_decompress(jpeg);
    JDIMENSION left = box.x > MARGIN ? (JDIMENSION)(box.x - MARGIN) : 0;
    JDIMENSION right = (JDIMENSION)(box.x + box.width + MARGIN);
    if (right > jpeg->output_width)
        right = jpeg->output_width;
    JDIMENSION width = right - left;
    if (width < jpeg->output_width)
        jpeg_crop_scanline(jpeg, &left, &width);
    return (struct box){(int32_t)left, box.y, (int32_t)jpeg->output_width, box.height};
}

static void decode(struct jpeg_decompress_struct *jpeg, struct box box, int32_t shrink,
                   struct buffer *pixels, struct picture *picture)
{
    box = start(jpeg, box, shrink);
    int64_t stride = (int64_t)jpeg->output_components * box.width;
    uint8_t *row = buffer_reserve(pixels, stride * box.height);
    *picture = (struct picture){.pixel = row, .stride = stride, .box = box};
    if (box.y > 0)
        jpeg_skip_scanlines(jpeg, (JDIMENSION)box.y);
    for (int32_t i = 0; i < box.height; i++, row += stride) {
        jpeg_read_scanlines(jpeg, &row, 1);
        if (jpeg->out_color_space == JCS_CMYK)
            cmyk_to_rgb(row, box.width, jpeg->saw_Adobe_marker ? 0 : 255);
    }
    jpeg_abort_decompress(jpeg);
}

int decoder_read(struct decoder *decoder, struct box box, int32_t shrink, struct buffer *pixels,
                 struct picture *picture, struct err *err)
{
    if (decoder->other)
        return other_read(decoder->other, decoder->name, decoder->data, decoder->size, shrink,
                          pixels, picture, err);
    if (setjmp(decoder->failure))
        return refuse(decoder, err);
    decode(&decoder->jpeg, box, shrink, pixels, picture);
    return 0;
}
