#pragma once

/** @file
 * Networks and batches to measure, for `calibrate device` and foretrain-exec.
 */

#include <stdint.h>

#include "core/base/err.h"

/** A network at one size. */
struct measure_network {
    char *name;      /**< owned */
    int32_t image;   /**< [pixels]; 0: no square image */
    int32_t classes; /**< usual number for a classifier of this size */
};

/** Several.  Start from {0}; release with measure_list_release(). */
struct measure_list {
    struct measure_network *network; /**< (networks) owned */
    int64_t *batch;                  /**< (batches) images, ascending as given; owned */
    int32_t networks, batches;
};

/** Read "resnet20,resnet50@64" and "8,32": without pixels a network has its usual size, and a file
 * its own.  Either
 * text may be NULL. @return 0, or -1 with exit code 64: no network, an unknown network, no
 * batch. */
int measure_list_read(struct measure_list *list, const char *networks, const char *batches,
                      struct err *err);

void measure_list_release(struct measure_list *list);
