#pragma once

/** @file
 * Layers of transformers on CPUs: one table of kinds for all devices there.
 *
 * Values are (image, position, feature), also those of pictures; those between the two products of
 * attention (image, head, query, key).  Everything is fp32 but what products read, where a device
 * rounds it; sums over positions and features are in fp64 unless a matrix product forms them. Parts
 * that threads share depend only on the shapes, so that results have the same bits on any number of
 * threads, as far as the products have.
 *
 * GELU is x times the normal distribution's function; attention's scores are divided by the root of
 * a head's features; norms add 1e-5 to variances: as torch.nn.functional's defaults.  Rotary
 * positions turn the features i and i + half of each head by position / 10000^(i / half) (Su et al.
 * 2021).
 */

#include "core/schedule/model.h"

/** One product c += scale * a b, or c = scale * a b if it writes, of matrices that lie in rows: a
 * (rows, inner), or (inner, rows) if across_a; b (inner, columns), or (columns, inner) if across_b;
 * c (rows, columns).  `next` are the elements from one row to the next. */
struct product {
    bool across_a, across_b, writes;
    bool again; /**< the product before had this a */
    int64_t rows, columns, inner;
    float scale;
    const float *a, *b;
    float *c;
    int64_t next_a, next_b, next_c;
    int32_t owner; /**< 1 + the layer all of whose weights b is; 0: it is something else */
};

struct device_state; /* as in exec/step/device.h */

/** How the device of @state multiplies; threads may call it side by side. */
typedef void multiplier(struct device_state *state, const struct product *product);

/** What a dropout drops: a function of these numbers alone, never of a rank. */
struct draw {
    uint64_t seed, step, layer;
    int64_t first, each; /**< the number of the first value of all samples of a step that an image
                              has, and from one image to the next; each 0: nothing is dropped */
};

/** Layers of attention, the most of those that are computed by blocks together. */
enum { SEQUENCE_ATTENDS = 4 };

/** One layer at work.  Gradients are added to. */
struct sequence {
    const struct layer *layer;
    int64_t images;
    bool back;
    const float *x[2];    /**< of both inputs; the tokens of an embedding */
    int32_t features;     /**< of the second input */
    bool spread;          /**< which has one position that all of the first have */
    int64_t first;        /**< the token of the table's first row; other ranks have others */
    int64_t at, length;   /**< the first position, of so many that follow one another again */
    const float *w, *b;   /**< weights and biases; NULL: none */
    int32_t owner;        /**< the layer that has these weights */
    float *y;             /**< output */
    float *saved;         /**< (sequence_saved()) of each image, for backward */
    const float *dy;      /**< gradient of y */
    float *dx[2];         /**< of the inputs; NULL: not wanted */
    float *dw, *db;       /**< of weights and biases; NULL: not wanted */
    bool fresh;           /**< products write these gradients; else they add */
    bool again;           /**< the last that ran went back through this layer, for its input */
    struct draw draw;     /**< of a dropout */
    multiplier *multiply; /**< of the device */
    struct device_state *state;
    int32_t threads;
    /* of attention */
    const struct sequence *before; /**< computed by blocks with this, its last; NULL: it is not */
    float *room;                   /**< (threads, sequence_room()) for that */
    int64_t query, rows;           /**< a block's first query, and how many; 0: all */
    int64_t keys;                  /**< that these see */
};

/** Whether this file computes @layer. */
bool sequence_takes(const struct layer *layer);

/** Floats that forward keeps of an image beside its output. */
int64_t sequence_saved(const struct layer *layer);

/** Floats that a thread needs for attention by blocks. */
int64_t sequence_room(int64_t positions);

/** Fill @product with those that the layer needs, forward and for both gradients, of one image and
 * head if it has some for each.  @return how many: none, or all. */
int32_t sequence_products(const struct sequence *sequence, struct product product[PASS_COUNT]);

/** Write y, or if it goes back, add to the gradients that are wanted. */
void sequence_run(const struct sequence *sequence);

/** The product in plain loops, with sums in fp64. */
void sequence_multiply(struct device_state *state, const struct product *product);
