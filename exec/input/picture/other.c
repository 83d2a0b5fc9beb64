#include "exec/input/picture/other.h"

#include <setjmp.h>

#include "config.h"
#include "core/base/base.h"

#if HAVE_PNG
#include <png.h>
#endif
#if HAVE_WEBP
#include <webp/decode.h>
#endif

static const char *const names[] = {[OTHER_PNG] = "PNG", [OTHER_WEBP] = "WebP"};

/* Of a file, at most.  Source: deflate reaches 1032 : 1, and PNG has pixels of one bit; WebP has
 * pixels without a bit of their own. */
enum { PIXELS_PER_BYTE = 8 * 1032 };

enum other other_of(const uint8_t *data, int64_t size)
{
    if (size >= 8 && !memcmp(data, "\x89PNG\r\n\x1a\n", 8))
        return OTHER_PNG;
    bool webp = size >= 16 && !memcmp(data, "RIFF", 4) && !memcmp(data + 8, "WEBP", 4);
    return webp ? OTHER_WEBP : OTHER_NONE;
}

static int damaged(enum other other, const char *name, const char *why, struct err *err)
{
    return err_add(err, "%s: damaged %s: %s", name, names[other], why);
}

#if HAVE_PNG

/* A file on its way through libpng. */
struct source {
    const uint8_t *at, *end;
    char why[96];
};

static void give(png_structp png, png_bytep out, png_size_t size)
{
    struct source *source = png_get_io_ptr(png);
    if (size > (size_t)(source->end - source->at))
        png_error(png, "it ends early");
    memcpy(out, source->at, size);
    source->at += size;
}

static _Noreturn void fail(png_structp png, png_const_charp why)
{
    struct source *source = png_get_error_ptr(png);
    snprintf(source->why, sizeof(source->why), "%s", why);
    png_longjmp(png, 1);
}

static void ignore(png_structp png, png_const_charp why)
{
}

/* Read the header into @width and @height, and pixels (height, width, 3) unless @row is NULL. */
static int read_png(const char *name, const uint8_t *data, int64_t size, int32_t *width,
                    int32_t *height, uint8_t *row, struct err *err)
{
    struct source source = {data, data + size, ""};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, fail, ignore);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info)
        base_out_of_memory(0);
    int failed = setjmp(png_jmpbuf(png));
    if (!failed) {
        png_set_read_fn(png, &source, give);
        png_read_info(png, info);
        *width = (int32_t)png_get_image_width(png, info);
        *height = (int32_t)png_get_image_height(png, info);
        if (row) {
            png_set_expand(png);
            png_set_strip_16(png);
            png_set_strip_alpha(png);
            png_set_gray_to_rgb(png);
            int passes = png_set_interlace_handling(png);
            png_read_update_info(png, info);
            for (int32_t pass = 0; pass < passes; pass++)
                for (int32_t y = 0; y < *height; y++)
                    png_read_row(png, row + (int64_t)3 * *width * y, NULL);
        }
    }
    png_destroy_read_struct(&png, &info, NULL);
    return failed ? damaged(OTHER_PNG, name, source.why, err) : 0;
}

#else

static int read_png(const char *name, const uint8_t *data, int64_t size, int32_t *width,
                    int32_t *height, uint8_t *row, struct err *err)
{
    return err_add(err, "%s: a PNG, which this build does not read (libpng-dev)", name);
}

#endif

#if HAVE_WEBP

static int read_webp(const char *name, const uint8_t *data, int64_t size, int32_t *width,
                     int32_t *height, uint8_t *row, struct err *err)
{
    WebPBitstreamFeatures found;
    if (WebPGetFeatures(data, (size_t)size, &found) != VP8_STATUS_OK)
        return damaged(OTHER_WEBP, name, "its header", err);
    if (found.has_animation)
        return err_add(err, "%s: an animation", name);
    *width = found.width;
    *height = found.height;
    int stride = 3 * found.width;
    if (row &&
        !WebPDecodeRGBInto(data, (size_t)size, row, (size_t)stride * (size_t)found.height, stride))
        return damaged(OTHER_WEBP, name, "its pixels, or it ends early", err);
    return 0;
}

#else

static int read_webp(const char *name, const uint8_t *data, int64_t size, int32_t *width,
                     int32_t *height, uint8_t *row, struct err *err)
{
    return err_add(err, "%s: a WebP, which this build does not read (libwebp-dev)", name);
}

#endif

static int read_any(enum other other, const char *name, const uint8_t *data, int64_t size,
                    int32_t *width, int32_t *height, uint8_t *row, struct err *err)
{
    return (other == OTHER_PNG ? read_png : read_webp)(name, data, size, width, height, row, err);
}

int other_open(enum other other, const char *name, const uint8_t *data, int64_t size,
               int32_t *width, int32_t *height, struct err *err)
{
    if (read_any(other, name, data, size, width, height, NULL, err))
        return -1;
    int64_t pixels = (int64_t)*width * *height;
    if (pixels < 1 || pixels > PICTURE_PIXEL_LIMIT || pixels > size * PIXELS_PER_BYTE)
        return err_add(err, "%s: not plausible: %d x %d pixels in %lld bytes", name, *width,
                       *height, (long long)size);
    return 0;
}

/* In place: each pixel becomes the mean of up to @shrink x @shrink. */
static void shrink_by(uint8_t *pixel, int32_t *width, int32_t *height, int32_t shrink)
{
    int32_t columns = (*width + shrink - 1) / shrink, rows = (*height + shrink - 1) / shrink;
    uint8_t *out = pixel;
    for (int32_t y = 0; y < rows; y++)
        for (int32_t x = 0; x < columns; x++)
            for (int32_t c = 0; c < 3; c++) {
                int32_t sum = 0, count = 0;
                for (int32_t v = y * shrink; v < *height && v < (y + 1) * shrink; v++)
                    for (int32_t u = x * shrink; u < *width && u < (x + 1) * shrink; u++, count++)
                        sum += pixel[3 * ((int64_t)v * *width + u) + c];
                *out++ = (uint8_t)((sum + count / 2) / count);
            }
    *width = columns;
    *height = rows;
}

int other_read(enum other other, const char *name, const uint8_t *data, int64_t size,
               int32_t shrink, struct buffer *pixels, struct picture *picture, struct err *err)
{
    int32_t width, height;
    if (other_open(other, name, data, size, &width, &height, err))
        return -1;
    uint8_t *row = buffer_reserve(pixels, (int64_t)3 * width * height);
    if (read_any(other, name, data, size, &width, &height, row, err))
        return -1;
    if (shrink > 1)
        shrink_by(row, &width, &height, shrink);
    *picture =
        (struct picture){.pixel = row, .stride = (int64_t)3 * width, .box = {0, 0, width, height}};
    return 0;
}
