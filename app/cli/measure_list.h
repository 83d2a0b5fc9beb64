#pragma once

/** @file
 * Networks and batches to measure, for `calibrate device` and foretrain-exec.
 */

#include "core/base/err.h"

/* The sizes of --bytes: "100MB", "1MB,10MB", "1MB..64MB:x2"; as in nccl-tests, "8" is bytes, and
 * "64K", "1M" and "1G" are binary. */

/** Start from {0}; release with sizes_release(). */
struct sizes {
    int64_t *item; /**< (count) [bytes]; owned */
    int32_t count;
};

/** Append the sizes of @text.
 * @return 0, or -1 with exit code 64: no size, less than 1 B or 9 EB and more, a range without a
 * factor above 1, more than 1000 sizes. */
int sizes_read(struct sizes *sizes, const char *text, struct err *err);

/** One size, of --chunk; 0 for NULL.
 * @return 0, or -1 with exit code 64: no size, less than 1 B or 9 EB and more. */
int chunk_read(int64_t *bytes, const char *text, struct err *err);

void sizes_release(struct sizes *sizes);

/** A network at one size. */
struct measure_network {
    char *name;            /**< owned */
    const char *optimizer; /**< that trains such networks: "sgd", "adamw" */
    char *keys;            /**< of the scenario's model, as YAML: "network: toy, image: 8"; owned */
    int32_t image;         /**< [pixels]; 0: no square image */
    int32_t classes;       /**< usual number for a classifier of this size */
};

/** Several.  Start from {0}; release with measure_list_release(). */
struct measure_list {
    struct measure_network *network; /**< (networks) owned */
    int64_t *batch;                  /**< (batches) images, ascending as given; owned */
    int32_t networks, batches;
};

/** Read "resnet20,resnet50@64,transformer:layers=2:hidden=64" and "8,32": without pixels a network
 * has its usual size, and a file its own; the keys of a transformer are those of the scenario's
 * model, and checked with it.  Either text may be NULL.
 * @return 0, or -1 with exit code 64: no network, an unknown one, keys of another, no batch. */
int measure_list_read(struct measure_list *list, const char *networks, const char *batches,
                      struct err *err);

void measure_list_release(struct measure_list *list);
