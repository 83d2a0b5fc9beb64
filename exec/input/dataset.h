#pragma once

/** @file
 * Images with labels, by index, from any source.
 *
 * Invariants: the result of dataset_read() is a function of only (spec, split, index, epoch,
 * augment), so threads, ranks and restarts do not change a batch.  Any number of threads may read a
 * dataset at once; open and close need exclusive access.
 *
 * Images are (image, image, 3) floats, rows of pixels of red, green, blue, minus the mean of the
 * channel, divided by its standard deviation:
 * - imagefolder, webdataset, pack: mean 0.485 0.456 0.406, deviation 0.229 0.224 0.225 of values in
 *   [0, 1].  Source: torchvision's image-classification recipe (references/classification).
 * - cifar10: mean 125.3 123.0 113.9, deviation 63.0 62.1 66.7 of values in [0, 255], over all
 * pixels of the training images.  Source: facebook/fb.resnet.torch, datasets/cifar10.lua.
 * - synthetic, procedural: made with about zero mean and unit deviation.
 *
 * A sequence is its tokens as floats, and its label the token that follows them.  Sequences of a
 * file lie one behind the other; with augmentation each epoch begins at another token of the first.
 * procedural: seven of eight tokens are the sum of the two before them, modulo the vocabulary.
 *
 * With augmentation, JPEG sources and pack take a random crop of 8 to 100 % of the area with an
 * aspect of 3/4 to 4/3 and flip every other image; cifar10 moves the image by up to 4 pixels and
 * flips; procedural draws a new image of the same class; synthetic ignores it.  Without, JPEG
 * sources and pack resize the shorter side to round(image * 256 / 224) and take the middle.
 */

#include "core/base/base.h"
#include "core/scenario/source.h"
#include "exec/input/picture/crop.h"

/** Which part of the data. */
enum split { SPLIT_TRAIN, SPLIT_VALIDATION, SPLIT_COUNT };

/** What to open.  Texts are borrowed during dataset_open(). */
struct dataset_spec {
    enum dataset_source source;
    /** imagefolder: the folder that holds train/ and val/, or, with a validation_path, the folder
     * of the training classes.  webdataset: tar files, with * ? [] and {000..146}.  cifar10: the
     * folder of data_batch_1.bin.  pack: the file.  Else NULL. */
    const char *path;
    const char *validation_path; /**< like path; NULL with synthetic, procedural and cifar10 */
    int32_t image;               /**< height and width [pixels]; 32 with cifar10 */
    int32_t sequence;            /**< tokens of a sample; 0: samples are images */
    int32_t classes;             /**< 0: as many as there are; of sequences the vocabulary */
    uint64_t seed;               /**< of augmentation, and of images that are made */
    int64_t train_images;        /**< required number; 0: any number */
    int64_t validation_images;   /**< the same of the other split */
    bool augment;                /**< for the caller, who passes it to input_new() */
    bool strict;                 /**< a corrupt image ends the process */
};

/** An open split. */
struct dataset;

/** Open @split of @spec: lists files or reads an index, but no image.
 * @return the dataset, released with dataset_close(), or NULL: no path, or one too many (exit code
 * 64); a file or folder that cannot be read (66); counts or classes other than the spec's, an empty
 * class, a malformed file (65); a source that this build lacks (69). */
struct dataset *dataset_open(const struct dataset_spec *spec, enum split split, struct err *err);

/** Release; accepts NULL.  Nothing may be reading. */
void dataset_close(struct dataset *dataset);

/** Images in the split, at least 1. */
int64_t dataset_count(const struct dataset *dataset);

/** Floats of a sample of dataset_read(). */
int64_t dataset_floats(const struct dataset *dataset);

/** Height and width of the images of dataset_read() [pixels]. */
int32_t dataset_image(const struct dataset *dataset);

/** Read image @index (less than the count) into @image (image, image, 3) and @label; @epoch matters
 * only for augmentation.  @image may be written even on failure.  @return 0, or -1 for a corrupt or
 * unreadable image, which is named on stderr the first time, with at most DATASET_WARNING_LIMIT in
 * all.  With `strict` the process ends instead, with exit code 65. */
int dataset_read(const struct dataset *dataset, int64_t index, uint64_t epoch, bool augment,
                 float *image, int32_t *label);

/** Whether dataset_read_picture() works: for JPEG sources and pack. */
bool dataset_has_pictures(const struct dataset *dataset);

/** As dataset_read(), before the image is cropped, resized and normalised: fill @pixels
 * (crop_place()), @crop and @label.  A picture whose crop does not fit its place was resized to the
 * image and rounded to bytes.  Only with dataset_has_pictures(). */
int dataset_read_picture(const struct dataset *dataset, int64_t index, uint64_t epoch, bool augment,
                         uint8_t *pixels, struct crop *crop, int32_t *label);

enum { DATASET_WARNING_LIMIT = 20 /**< corrupt images that are named */ };

/** Number of corrupt images so far, each counted once.  The messages about the named ones are
 * appended to @messages, a line each, unless it is NULL. */
int64_t dataset_corrupt(const struct dataset *dataset, struct text *messages);
