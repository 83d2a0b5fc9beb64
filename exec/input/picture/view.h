#pragma once

/** @file
 * The part of a picture that becomes an image.
 */

#include <stdbool.h>
#include <stdint.h>

/** A rectangle of a picture is resized to target_width x target_height, and a window of that is
 * used, perhaps flipped left to right. */
struct view {
    double x, y, width, height;          /**< the rectangle [pixels of the picture] */
    int32_t target_width, target_height; /**< [pixels] */
    int32_t left, top, columns, rows;    /**< the window [pixels of the target] */
    bool flip;
};

/** A random crop of a picture of @width x @height, resized to @image x @image: 8 to 100 % of the
 * area, aspect 3/4 to 4/3, half of them flipped; a function of (seed, epoch, index).
 * Source: torchvision.transforms.RandomResizedCrop with its ten trials and its fallback, and
 * RandomHorizontalFlip. */
struct view view_random(int32_t width, int32_t height, int32_t image, uint64_t seed, uint64_t epoch,
                        int64_t index);

/** The middle of a picture whose shorter side is resized to round(image * 256 / 224).
 * Source: torchvision.transforms.Resize and CenterCrop, with their rounding. */
struct view view_middle(int32_t width, int32_t height, int32_t image);

/** The whole picture with its shorter side resized to @shorter pixels, or unchanged if that is not
 * smaller. */
struct view view_whole(int32_t width, int32_t height, int32_t shorter);

/** The greatest of 1, 2, 4 and 8 by which a picture can be scaled down first so that resizing the
 * rectangle does not enlarge it. */
int32_t view_shrink(const struct view *view);
