#pragma once

/** @file
 * One table of kernels for each set of instructions; only for exec/step/half*.c.
 *
 * Every table gives the same bits.
 */

#include <stdint.h>

/** The kernels for fp16 or bf16, on arrays of @count numbers. */
struct half_conversions {
    void (*from)(int64_t count, const float *from, uint16_t *to); /**< half_from_float() */
    void (*to)(int64_t count, const uint16_t *from, float *to);   /**< half_to_float() */
    void (*add)(int64_t count, const uint16_t *from, float *to);  /**< half_add() */
    void (*round)(int64_t count, float *values);                  /**< half_round() */
};

/** One set of instructions. */
struct half_kernels {
    struct half_conversions fp16, bf16;
    void (*add)(int64_t count, const float *from, float *to); /**< half_add() of fp32 */
};

extern const struct half_kernels half_avx2; /**< half_avx2.c: AVX2 and F16C */
