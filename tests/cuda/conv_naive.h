#pragma once

/** @file
 * What tests may say to, and see of, convolutions in software (tests/cuda/conv_naive.c).
 */

#include "exec/cuda/conv/conv.h"

/** What a library that is opened does.   $FORETRAIN_TEST_APART sets all that are slow.
 * All plans take 1 us, and chains the less the more they merge; the first of each kind in a
 * process is timed all the same. */
struct conv_naive {
    bool slow_to_apply;          /**< ops that apply factors take a second */
    bool slow_to_norm;           /**< so do those that go back through batch norm */
    bool slow_to_add;            /**< so do those of them at the end of a block */
    bool slow_to_end;            /**< so do those that write the value of a block */
    bool merges_pools;           /**< pools that apply batch norm do not */
    bool narrows;                /**< nor does a convolution of images with 4 channels */
    double takes[CONV_OP_COUNT]; /**< each run puts the clock forward by so much [s] */
    double once;                 /**< so does the next run, of any op */
    int64_t runs[CONV_OP_COUNT]; /**< issued so far */
};

/** The one of the process; written by tests, too. */
extern struct conv_naive conv_naive;
