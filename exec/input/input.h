#pragma once

/** @file
 * The batches of one rank, read ahead by threads.
 *
 * Invariants: the n-th batch is a function of only (dataset, seed, position, rank, ranks, local,
 * n).  At most `prefetch` batches are held.  A corrupt image is replaced by the next one of its
 * epoch's permutation that can be read; when 1000 in a row, or all, cannot be read, the process
 * ends with exit code 65.
 */

#include "exec/input/dataset.h"
#include "exec/input/picture/crop.h"

/* The order of images in the stream of a run.
 *
 * A run is one stream of positions 0, 1, 2, ...; each epoch is a permutation of all images.  A
 * global batch is the next ranks x local positions, and rank r has the r-th slice of it.  So the
 * images of a step depend on the seed and the batch size, and not on the number of ranks, threads
 * or restarts. */

/** A position of the stream, looked up. */
struct sample {
    uint64_t epoch; /**< position / count */
    int64_t index;  /**< of the image */
};

/** The image at @position (at least 0) of a stream over @count images (at least 1).  Needs no
 * memory: a Feistel network over numbers in mixed radix, repeated along its cycle until the result
 * is below @count.  Source: Black, Rogaway: Ciphers with Arbitrary Finite Domains (2002). */
struct sample sampler_at(uint64_t seed, int64_t count, int64_t position);

/** The batches to make. */
struct input_job {
    int32_t rank, ranks;
    int32_t local;    /**< images per rank and batch */
    int32_t threads;  /**< that read, at least 1 */
    int32_t prefetch; /**< batches held, at least 1 */
    uint64_t seed;    /**< of the order */
    int64_t position; /**< of the stream where the first global batch begins */
    bool augment;
    bool pictures; /**< decoded pixels that the caller crops, of dataset_has_pictures() */
};

/** What it took. */
struct input_report {
    int64_t batches;  /**< given out */
    int64_t replaced; /**< images that replace a corrupt one */
    double wait_s;    /**< that they were waited for [s] */
};

/** Batches in the making. */
struct input;

/** Start to read ahead from @dataset, which is borrowed until input_free(). */
struct input *input_new(const struct dataset *dataset, const struct input_job *job);

/** Wait for the next batch: @images (local, image, image, 3) and @label (local), of a job without
 * pictures.  The next call gives the batch ranks x local positions further on. */
void input_next(struct input *input, float *images, int32_t *label);

/** input_next() of a job with pictures: @pixels (local, crop_place()), @crop (local) and @label
 * (local), as dataset_read_picture() fills them.  Writes only the used part of each place. */
void input_next_pictures(struct input *input, uint8_t *pixels, struct crop *crop, int32_t *label);

/** What it took so far. */
struct input_report input_report(struct input *input);

/** Stop the threads and release; accepts NULL. */
void input_free(struct input *input);
