#pragma once

/** @file
 * Number formats of weights, activations and gradients; core/base/unit.c has what they are called.
 */

#include <stdint.h>

/** Number format. */
enum dtype { DTYPE_FP32, DTYPE_FP16, DTYPE_BF16, DTYPE_COUNT };

/** "fp32", "fp16", "bf16", NULL-terminated, in the order of enum dtype. */
extern const char *const dtype_names[];

/** Size of one element [bytes]. */
int32_t dtype_size(enum dtype dtype);

/** What a product of matrices reads its inputs in, with a scale for each or for each few of them,
 * where that is narrower than the arithmetic of all else. */
enum products { PRODUCTS_COMPUTE, PRODUCTS_FP8, PRODUCTS_FP4, PRODUCTS_COUNT };

/** "compute", "fp8", "fp4", NULL-terminated, in the order of enum products. */
extern const char *const product_names[];
