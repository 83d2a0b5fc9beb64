#pragma once

/** @file
 * Pictures for a device that crops, resizes, flips and normalises them itself.
 *
 * Pictures of one batch are in places of the same size, one after the other: crop_place() bytes
 * each, of which the pixels of a picture are the first.  The filter and its edges are those of
 * exec/input/picture/picture.h.
 *
 * Pixels may have been decoded at 1/2, 1/4 or 1/8 of the size of their JPEG file, by libjpeg's
 * scaling, where the crop is that much larger than the image.
 */

#include <stdint.h>

#include "core/scenario/source.h"

/** The conversion of each channel's bytes: byte * scale + shift. */
struct tint {
    float scale[3], shift[3];
};

/** Normalisation by the mean and the standard deviation of ImageNet, see exec/input/dataset.h. */
extern const struct tint tint_imagenet;

/** One direction of a crop, in pixels of the picture: `length` from `start` on is resized to the
 * image's side; pixels before `begin` and from `end` on are left out. */
struct crop_span {
    float start, length;
    int32_t begin, end;
};

/** The content of a place, and its visible part. */
struct crop {
    int32_t height, width; /**< of the picture (height, width, 3), red first [pixels] */
    struct crop_span x, y;
    int32_t flip; /**< 1: mirrored left to right */
};

/** Bytes of a place for images of @size x @size: four pixels for each of the image.  This is the
 * maximum for a picture whose crop is decoded at the smallest sufficient size, unless narrow. */
static inline int64_t crop_place(int32_t size)
{
    return (int64_t)PICTURE_PLACE * size * size;
}
