#pragma once

/** @file
 * Where the images of a run come from.  Here, and not with the readers in exec/input, because the
 * scenario names them too.
 */

#include <stdbool.h>

/** The words of dataset_source_names. */
enum dataset_source {
    SOURCE_SYNTHETIC,   /**< noise made once: measures everything but input */
    SOURCE_PROCEDURAL,  /**< gratings and shapes, drawn as they are needed: can be learned */
    SOURCE_IMAGEFOLDER, /**< a folder of JPEG files per class, as torchvision reads it */
    SOURCE_WEBDATASET,  /**< tar files of key.jpg and key.cls */
    SOURCE_CIFAR10,     /**< the binary files of CIFAR-10 */
    SOURCE_PACK,        /**< decoded images in one file, written by `foretrain data pack` */
    SOURCE_TOKENS,      /**< text as a flat file of numbers of 16 bits */
    SOURCE_COUNT
};

/** "synthetic", "procedural", "imagefolder", "webdataset", "cifar10", "pack", "tokens",
 * NULL-terminated, in the order of enum dataset_source. */
extern const char *const dataset_source_names[];

/** Whether images of @source are JPEG files. */
bool source_is_jpeg(enum dataset_source source);

/** Whether images of @source are pictures, which a device can crop and resize itself. */
bool source_has_pictures(enum dataset_source source);

/** What a device holds of pictures that it crops itself: exec/input/picture/crop.h. */
enum {
    PICTURE_PLACE = 12, /**< bytes of one, for each pixel of the image it becomes */
    PICTURE_AHEAD = 2   /**< batches that are held */
};
