#pragma once

/** @file
 * Memory that a reading thread reuses.
 */

#include <stdint.h>

/** Bytes for any use.  Start from {0}; release with buffer_release(). */
struct buffer {
    void *data;       /**< owned */
    int64_t capacity; /**< [bytes] */
};

/** Room for @size bytes and at least 64 more; the old content is lost.  @return buffer->data. */
void *buffer_reserve(struct buffer *buffer, int64_t size);

void buffer_release(struct buffer *buffer);

/** A JPEG decoder, exec/input/picture/jpeg.h. */
struct decoder;

/** The memory of one thread.  Start from {0}; release with scratch_release(). */
struct scratch {
    struct buffer bytes;     /**< a file */
    struct buffer pixels;    /**< its decoded pixels */
    struct buffer row;       /**< a line of pixels in floats */
    struct buffer image;     /**< a resized image in floats */
    struct decoder *decoder; /**< NULL until one is needed */
};

void scratch_release(struct scratch *scratch);
