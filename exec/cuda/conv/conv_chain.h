#pragma once

/** @file
 * Times of the chains of enum conv_chain: the convolutions and our kernels themselves, one after
 * the other on one stream, on memory of their own.
 */

#include "exec/cuda/conv/conv.h"

/** What to time. */
struct conv_chain_job {
    const struct conv_plan *const *plan; /**< (CONV_OP_COUNT), borrowed: those the chains take */
    struct conv_shape shape;
    const struct conv_plan *const *narrow; /**< the same of CONV_CHAIN_IMAGES_NARROW, or NULL */
};

/** Time the chains in @wanted of @job (struct conv_chain_job), in turns: see conv_measure.  It
 * takes memory for about five to seven arrays of the convolution, released afterwards.
 * @return 0, or -1: there is no room for it, or the device failed. */
int conv_chain_measure(void *job, uint32_t wanted, double seconds[CONV_CHAIN_COUNT]);
