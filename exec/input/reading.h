#pragma once

/** @file
 * One image on its way from a source to whoever asked for it: cropped, resized and normalised here,
 * or as a picture with a crop (exec/input/crop.h) that others do this with.
 */

#include <stdbool.h>
#include <stdint.h>

#include "exec/input/crop.h"
#include "exec/input/picture.h"
#include "exec/input/scratch.h"

/** One image to be read. */
struct reading {
    int64_t index;
    uint64_t epoch;
    bool augment;
    struct scratch *scratch;
    float *image;      /**< (image, image, 3); NULL: a picture is wanted */
    uint8_t *pixels;   /**< (crop_place()) of a picture */
    struct crop *crop; /**< set on success when a picture is wanted */
    bool file;         /**< a JPEG file may be left as it is */
    int32_t *label;    /**< set on success */
};

/** Which part of a picture of @width x @height an image of @image x @image shows, by the recipe of
 * the split with @seed. */
struct view reading_view(const struct reading *reading, int32_t image, uint64_t seed, int32_t width,
                         int32_t height);

/** Give what was decoded at 1/@shrink of its size, then @width x @height pixels: @picture, whose
 * box covers picture_need() of @view.  A picture that does not fit its place is resized to @image x
 * @image and rounded to bytes. */
void reading_give(const struct reading *reading, int32_t image, const struct view *view,
                  int32_t shrink, int32_t width, int32_t height, const struct picture *picture);

/** Give a JPEG file of @size bytes, which become @width x @height pixels, as it is.
 * @return whether it fits; nothing is written otherwise. */
bool reading_give_file(const struct reading *reading, int32_t image, const struct view *view,
                       const void *data, int64_t size, int32_t width, int32_t height);
