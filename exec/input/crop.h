#pragma once

/** @file
 * Pictures on their way to a device that crops, resizes, flips and normalises them itself.
 *
 * Pictures of one batch lie in places of the same size, one after the other: crop_place() bytes
 * each, of which a picture takes the first ones.  A place holds either pixels or, with `file` not
 * 0, a whole JPEG file that the device decodes first.  The filter and its edges are those of
 * exec/input/picture.h.
 *
 * Pixels may have been decoded at 1/2, 1/4 or 1/8 of the size of their JPEG file, by libjpeg's
 * scaling, where the crop is that much larger than the image; a file is decoded at full size, and
 * all of the way down is left to the filter.  The two then give slightly different images.
 */

#include <stdint.h>

#include "core/scenario/source.h"

/** What the bytes of each channel become: byte * scale + shift. */
struct tint {
    float scale[3], shift[3];
};

/** One direction of a crop, in pixels of the picture: `length` from `start` on is resized to the
 * image's side; pixels before `begin` and from `end` on do not count. */
struct crop_span {
    float start, length;
    int32_t begin, end;
};

/** What a place holds, and what of it is shown. */
struct crop {
    int32_t file;          /**< bytes of a JPEG file; 0: pixels (height, width, 3), red first */
    int32_t height, width; /**< of the picture, in the file too [pixels] */
    struct crop_span x, y;
    int32_t flip; /**< 1: mirrored left to right */
};

/** Bytes of a place for images of @size x @size: four pixels for each of the image, which is what a
 * picture has at most when its crop is decoded at the smallest size that is not too small, but for
 * a narrow one. */
static inline int64_t crop_place(int32_t size)
{
    return (int64_t)PICTURE_PLACE * size * size;
}

/** Most bytes of the pixels (height, width, 3) of a file that is left to the device. */
static inline int64_t crop_decoded(int32_t size)
{
    return (int64_t)3 * PICTURE_FILE_PIXELS * size * size;
}
