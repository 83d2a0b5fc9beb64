#pragma once

/** @file
 * The order of images in the stream of a run.
 *
 * A run is one stream of positions 0, 1, 2, ...; each epoch is a permutation of all images.  A
 * global batch is the next ranks x local positions, and rank r has the r-th slice of it.  So the
 * images of a step depend on the seed and the batch size, and not on the number of ranks, threads
 * or restarts.
 */

#include <stdint.h>

/** A position of the stream, looked up. */
struct sample {
    uint64_t epoch; /**< position / count */
    int64_t index;  /**< of the image */
};

/** The image at @position (at least 0) of a stream over @count images (at least 1).  Needs no
 * memory: a Feistel network over numbers in mixed radix, repeated along its cycle until the result
 * is below @count.  Source: Black, Rogaway: Ciphers with Arbitrary Finite Domains (2002). */
struct sample sampler_at(uint64_t seed, int64_t count, int64_t position);
