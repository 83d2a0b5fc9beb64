#pragma once

/** @file
 * Decoded pixels, and their resizing to a network's input.
 *
 * The filter is a triangle ("bilinear") that is widened by the scale where the picture gets smaller
 * (antialiased): the weights of Pillow's BILINEAR and of torchvision's Resize with antialias=True.
 * Unlike Pillow it does not round to bytes between the two directions.  The arithmetic is the same,
 * bit by bit, on every machine.
 */

#include "exec/input/picture/crop.h"
#include "exec/input/picture/scratch.h"

/* The part of a picture that becomes an image. */

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

/** The whole picture, its shorter side resized to @shorter pixels unless that is not smaller. */
struct view view_whole(int32_t width, int32_t height, int32_t shorter);

/** The greatest of 1, 2, 4 and 8 by which a picture can be scaled down first so that resizing the
 * rectangle does not enlarge it. */
int32_t view_shrink(const struct view *view);

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

/** As they are. */
extern const struct tint tint_none;

/** The part that @view needs of a picture decoded at 1/@shrink, to @width x @height pixels. */
struct box picture_need(const struct view *view, int32_t shrink, int32_t width, int32_t height);

/** @view of a picture as a crop of its stored pixels, those of @box. */
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

/** Compute the weights for @view of a picture decoded at 1/@shrink, to @width x @height pixels. */
struct resize resize_new(const struct view *view, int32_t shrink, int32_t width, int32_t height);

/** Resize @picture, whose box covers resize->need, to @image (rows, columns, 3) of the view; @row
 * is scratch. */
void resize_run(const struct resize *resize, const struct picture *picture, const struct tint *tint,
                struct buffer *row, float *image);

void resize_release(struct resize *resize);
