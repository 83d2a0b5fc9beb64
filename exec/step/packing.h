#pragma once

/** @file
 * The part of the flat gradients that each bucket exchanges.
 *
 * Buckets follow each other without gaps, in the order of exec/step/layout.h, since a tensor may
 * span two of them (core/schedule/bucket.h).  For a transport that needs aligned data
 * (comm_ops.alignment), each border between two buckets moves down to a multiple of a unit:
 * `alignment` elements for every rank of a row, or of the axis along which the optimizer is
 * sharded.  The elements that a bucket loses are sent with the next one, which is ready later, and
 * gathered with it, which is earlier.  After the last gradient, zeros fill the last unit.  So all
 * blocks of a row are equal, and their offsets and sizes are multiples of `alignment` elements.
 *
 * Schedules and predictions use bytes without padding and with original borders.  For ResNet-50's
 * 25 557 032 gradients, aligned to 64, 472 more are sent with 8 columns (0.002 %), and 3544 more
 * with 72 (0.014 %).
 */

#include "core/schedule/schedule.h"

/** A part of a flat array, in elements. */
struct slice {
    int64_t offset, elements;
};

/** The buckets of a schedule.  Read freely. */
struct packing {
    struct slice *bucket; /**< (buckets) an empty one is not exchanged */
    int32_t buckets;
    int64_t exchanged; /**< gradients of all buckets */
    int64_t elements;  /**< covered by the buckets, with padding */
};

/** Pack the buckets of @stage of @schedule, whose bytes are of type @payload.  @alignment: see
 * comm_ops; 0: borders stay, and nothing is padded.  Release with packing_release(). */
struct packing packing_build(const struct schedule *schedule, int32_t stage, enum dtype payload,
                             int64_t alignment);

void packing_release(struct packing *packing);

/** The block of @slice on @rank of @grid after a reduce-scatter along @axis: if its ranks do not
 * divide the slice, the first blocks have one element more. */
struct slice packing_block(struct slice slice, struct grid grid, enum axis axis, int32_t rank);

/** The parts of the flat arrays that @rank updates by @schedule, one for each bucket; NULL: the
 * optimizer is not sharded.  The caller frees it. */
struct slice *packing_shard(const struct packing *packing, const struct schedule *schedule,
                            int32_t rank);

/** The elements of @slice (count). */
int64_t slice_elements(const struct slice *slice, int32_t count);

/** What both have; without elements if that is nothing. */
struct slice slice_overlap(struct slice a, struct slice b);

/** Copy @slice (count) of @flat one behind the other to @dense. */
void slice_pack(const struct slice *slice, int32_t count, const float *flat, float *dense);

/** The way back. */
void slice_unpack(const struct slice *slice, int32_t count, const float *dense, float *flat);
