#pragma once

/** @file
 * One image on its way from a source to its reader: cropped, resized and normalised here, or as a
 * picture with a crop (exec/input/picture/crop.h) for others to do so.
 */

#include <stdbool.h>
#include <stdint.h>

#include "exec/input/picture/crop.h"
#include "exec/input/picture/picture.h"
#include "exec/input/picture/scratch.h"

/** One image to be read. */
struct reading {
    int64_t index;
    uint64_t epoch;
    bool augment;
    struct scratch *scratch;
    float *image;      /**< (image, image, 3); NULL: a picture is wanted */
    uint8_t *pixels;   /**< (crop_place()) of a picture */
    struct crop *crop; /**< set on success when a picture is wanted */
    bool file;         /**< a JPEG file may stay undecoded */
    int32_t *label;    /**< set on success */
};

/** The part of a picture of @width x @height in an image of @image x @image, by the recipe of the
 * split with @seed. */
struct view reading_view(const struct reading *reading, int32_t image, uint64_t seed, int32_t width,
                         int32_t height);

/** Give @picture, decoded at 1/@shrink of its size to @width x @height pixels, with a box that
 * covers picture_need() of @view.  A picture that does not fit its place is resized to @image x
 * @image and rounded to bytes. */
void reading_give(const struct reading *reading, int32_t image, const struct view *view,
                  int32_t shrink, int32_t width, int32_t height, const struct picture *picture);

/** Give a JPEG file of @size bytes undecoded, which has @width x @height pixels.
 * @return whether it fits; nothing is written otherwise. */
bool reading_give_file(const struct reading *reading, int32_t image, const struct view *view,
                       const void *data, int64_t size, int32_t width, int32_t height);
