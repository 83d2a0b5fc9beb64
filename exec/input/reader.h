#pragma once

/** @file
 * The inner interface of exec/input: a source of images, as dataset.c uses it.
 *
 * A reader is opened once and then only read, by many threads at a time.  Each thread has its own
 * scratch memory.
 */

#include "exec/input/dataset.h"
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
    int32_t *label;    /**< set on success */
};

/** The part of a picture of @width x @height in an image of side @image, by split and @seed. */
struct view reading_view(const struct reading *reading, int32_t image, uint64_t seed, int32_t width,
                         int32_t height);

/** Give @picture, decoded at 1/@shrink of its size to @width x @height pixels, with a box that
 * covers picture_need() of @view.  A picture that does not fit its place is resized to @image x
 * @image and rounded to bytes. */
void reading_give(const struct reading *reading, int32_t image, const struct view *view,
                  int32_t shrink, int32_t width, int32_t height, const struct picture *picture);

/** An open source of one split. */
struct reader {
    int64_t count;       /**< images, at least 1 */
    int32_t classes;     /**< labels are less; at least 1 */
    int32_t image;       /**< height and width of the images [pixels] */
    int32_t sequence;    /**< tokens of a sample; 0: samples are images */
    uint64_t seed;       /**< of this split: no other split draws the same numbers */
    struct store *store; /**< the source's data; each defines its own */
};

/** One kind of source. */
struct reader_ops {
    /** Fill count, classes and store; classes are as in @spec, as is the count of a source that
     * makes its samples; image, sequence and seed are given.  The caller has checked the spec's
     * paths, and checks classes and counts.  NULL: nothing is to be filled.
     * @return 0, or -1 with a message; nothing is kept then. */
    int (*open)(struct reader *reader, const struct dataset_spec *spec, enum split split,
                struct err *err);
    /** Release the store; NULL: there is none. */
    void (*close)(struct reader *reader);
    /** Read one image.  @return 0, or -1 with a message that names the image. */
    int (*read)(const struct reader *reader, const struct reading *reading, struct err *err);
    bool pictures; /**< readings may ask for pictures */
};

/** Noise. */
extern const struct reader_ops reader_synthetic;

/** Gratings with a shape. */
extern const struct reader_ops reader_procedural;

/** Binary files of CIFAR-10. */
extern const struct reader_ops reader_cifar10;

/** A folder of JPEG files per class. */
extern const struct reader_ops reader_imagefolder;

/** Tar files of JPEG files. */
extern const struct reader_ops reader_webdataset;

/** Sequences that follow a rule. */
extern const struct reader_ops reader_made_tokens;

/** Sequences of noise. */
extern const struct reader_ops reader_noise_tokens;

/** Sequences of a file. */
extern const struct reader_ops reader_tokens;

/** A file of decoded images. */
extern const struct reader_ops reader_pack;
