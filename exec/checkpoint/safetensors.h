#pragma once

/** @file
 * The safetensors format: tensors by name in one file that runs no code when it is read.
 *
 *     8 bytes   length of the header, little-endian
 *     header    JSON: {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
 *     data      the tensors, each in C order, little-endian
 *
 * Offsets count from the start of the data.  The reader is strict: tensors follow each other
 * without holes or overlaps, fill the data to its end, have as many bytes as their shape and type
 * say, and no name twice; "__metadata__" may map texts to texts.  The writer pads the header with
 * blanks to a multiple of 8 bytes.
 * Source: github.com/huggingface/safetensors, README.md, "Format".  Its limit of the header is 100
 * MB; ours is 16 MiB, some 200000 tensors, because memory and time follow it: 20 times as much.
 */

#include "core/base/base.h"

/** Types of elements; others are refused. */
enum safetensors_type {
    SAFETENSORS_F32,
    SAFETENSORS_F16,
    SAFETENSORS_BF16,
    SAFETENSORS_I64,
    SAFETENSORS_TYPE_COUNT
};

enum {
    SAFETENSORS_RANK_LIMIT = 8, /**< dimensions of a tensor */
};

/** "F32", "F16", "BF16", "I64", NULL-terminated, in the order of enum safetensors_type. */
extern const char *const safetensors_type_names[];

/** One tensor. */
struct safetensors_tensor {
    char *name; /**< owned by the header */
    enum safetensors_type type;
    int32_t rank; /**< dimensions: 0 for a single number */
    int64_t shape[SAFETENSORS_RANK_LIMIT];
    int64_t elements; /**< product of the shape */
    int64_t begin;    /**< from the start of the data [bytes] */
    int64_t bytes;
};

/** All tensors of a file in the order of their data.  Start from {0}. */
struct safetensors {
    struct safetensors_tensor *tensor; /**< (count) owned */
    int64_t count;
    int64_t data;  /**< where the data starts in the file [bytes]; set by the reader */
    int64_t bytes; /**< of the data */
};

/** Append a tensor; @shape has @rank (at most SAFETENSORS_RANK_LIMIT) dimensions. */
void safetensors_add(struct safetensors *file, const char *name, enum safetensors_type type,
                     int32_t rank, const int64_t *shape);

/** Append length and header, which precede the data. */
void safetensors_print_header(struct text *out, const struct safetensors *file);

/** Read length and header from @size bytes at @content, the whole file @name.
 * @return 0, or -1 with one message that names the file, and the tensor where there is one: too
 * short, a header that is no JSON or not of the form above, a type or number of dimensions that
 * foretrain does not read, holes, overlaps, missing or left-over bytes.  On success release with
 * safetensors_release(). */
int safetensors_read_header(struct safetensors *file, const char *name, const void *content,
                            int64_t size, struct err *err);

void safetensors_release(struct safetensors *file);

/** The tensor of that name, or NULL.  Borrowed. */
const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name);

/** Append the shape as "[64, 3, 7, 7]". */
void safetensors_print_shape(struct text *out, const struct safetensors_tensor *tensor);

/** Widen @count elements of @type from @data, which needs no alignment, to @out.  Exact, except I64
 * beyond 2^24, which is rounded. */
void safetensors_widen(enum safetensors_type type, const void *data, int64_t count, float *out);
