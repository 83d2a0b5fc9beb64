#pragma once

/** @file
 * Vectors of 16 floats, and activations cut into strips for them; only for exec/cpu/kernels*.c.
 *
 * A strip is up to 16 neighbouring channels over some pixels: the data of one call of an innermost
 * loop.  Compiled for each width of vector registers; the machine chooses when it loads.
 */

#include "exec/cpu/dnnl/kernels.h"
#include "exec/step/vectors.h"

/** Floats of a vector. */
enum { LANES = 16 };

/** As wide as the widest registers; narrower machines use several. */
typedef float vector __attribute__((vector_size(64)));
/** The result of comparing two: -1 or 0. */
typedef int32_t vector_mask __attribute__((vector_size(64)));

/* These functions exist only inside others, so how vectors are passed does not matter. */
#pragma GCC diagnostic ignored "-Wpsabi"

/** The first @width floats at @from, then zeros. */
INLINE vector load(const float *from, int64_t width)
{
    vector v = {0};
    if (width == LANES)
        memcpy(&v, from, sizeof(v));
    else
        memcpy(&v, from, (size_t)width * sizeof(float));
    return v;
}

/** Write the first @width floats of @v. */
INLINE void store(float *to, vector v, int64_t width)
{
    if (width == LANES)
        memcpy(to, &v, sizeof(v));
    else
        memcpy(to, &v, (size_t)width * sizeof(float));
}

/** @v where @mask is set, else 0. */
INLINE vector keep(vector_mask mask, vector v)
{
    return (vector)((vector_mask)v & mask);
}

/** Where a ReLU that stops at @top lets @v pass. */
INLINE vector_mask inside(vector v, float top)
{
    const vector zero = {0};
    return (v > zero) & (v < zero + top);
}

/** Up to 16 channels over `rows` pixels. */
struct strip {
    int64_t offset;       /**< of the first element */
    int64_t rows, stride; /**< pixels, and how far apart they are */
    int64_t width;        /**< channels */
    int64_t channel;      /**< the first, in the whole shape */
    int64_t unit, lane;   /**< of which unit, and its first channel within the block */
};

/** A shape cut into units of pixels of one block, of about 64 KiB. */
struct cut {
    int64_t rows;   /**< pixels of a unit; the last of a block may have fewer */
    int64_t chunks; /**< units of a block */
    int64_t units;  /**< of the shape */
};

/** Cut @shape. */
INLINE struct cut cut_shape(const struct blocked *shape)
{
    int64_t rows = 16384 / shape->block;
    rows = rows < 16 ? 16 : rows > 512 ? 512 : rows;
    int64_t chunks = (shape->pixels + rows - 1) / rows;
    return (struct cut){rows, chunks, shape->images * (shape->channels / shape->block) * chunks};
}
