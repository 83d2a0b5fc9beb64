#pragma once

/** @file
 * Decoded pixels, and their resizing to a network's input.
 *
 * The filter is a triangle ("bilinear") that is widened by the scale where the picture gets smaller
 * (antialiased): the weights of Pillow's BILINEAR and of torchvision's Resize with antialias=True.
 * Unlike Pillow it does not round to bytes between the two directions.  The arithmetic is the same,
 * bit by bit, on every machine.
 */

#include <stdbool.h>
#include <stdint.h>

#include "exec/input/picture/crop.h"
#include "exec/input/picture/scratch.h"
#include "exec/input/picture/view.h"

enum {
    PICTURE_PIXELS_PER_BYTE = 512, /**< of a file.  Source: ITU-T T.81, F.1.2.1 and G.1.2.1: each
                                        block of 8 x 8 has a code of at least 1 bit */
    PICTURE_PIXEL_LIMIT = 1 << 27, /**< of a file; larger ones are treated as damaged */
};

/** A part of a picture [pixels]. */
struct box {
    int32_t x, y, width, height;
};

/** Pixels of red, green, blue: those of @box of a picture. */
struct picture {
    const uint8_t *pixel; /**< (box.height, box.width, 3); at least 64 bytes more can be read */
    int64_t stride;       /**< [bytes] from one row to the next */
    struct box box;
};

/** Normalisation by the mean and the standard deviation of ImageNet, see exec/input/dataset.h. */
extern const struct tint tint_imagenet;

/** As they are. */
extern const struct tint tint_none;

/** The part that @view needs of a picture that is decoded at 1/@shrink of its size, to @width x
 * @height pixels. */
struct box picture_need(const struct view *view, int32_t shrink, int32_t width, int32_t height);

/** @view of the same picture as a crop of its stored pixels, those of @box.
 */
struct crop picture_crop(const struct view *view, int32_t shrink, int32_t width, int32_t height,
                         const struct box *box);

/** The weights of one direction; private to picture.c. */
struct direction {
    int32_t count, taps; /**< number of results, and of pixels in the sum of each */
    int32_t *first;      /**< (count) [pixels of the picture] */
    float *weight;       /**< (count, taps) */
};

/** A resizing.  Release with resize_release(). */
struct resize {
    struct box need; /**< picture_need() */
    struct direction x, y;
    bool flip;
};

/** Compute the weights for @view of a picture that is decoded at 1/@shrink of its size, to @width x
 * @height pixels. */
struct resize resize_new(const struct view *view, int32_t shrink, int32_t width, int32_t height);

/** Resize @picture, whose box covers resize->need, to @image (rows, columns, 3) of the view; @row
 * is scratch. */
void resize_run(const struct resize *resize, const struct picture *picture, const struct tint *tint,
                struct buffer *row, float *image);

void resize_release(struct resize *resize);
