#pragma once

/** @file
 * What tests may say to, and see of, convolutions in software (tests/cuda/conv_naive.c).
 */

#include "exec/cuda/conv/conv.h"

/** What a library that is opened does.  $FORETRAIN_TEST_APART sets slow_to_apply.  All plans take 1
 * us, and so do all passes, of which the first of each kind is timed all the same: what does more
 * at once is chosen.  $FORETRAIN_TEST_APART sets slow_to_norm, too. */
struct conv_naive {
    bool slow_to_apply;          /**< ops that apply factors take a second */
    bool slow_to_norm;           /**< so do those that go back through batch norm */
    int64_t runs[CONV_OP_COUNT]; /**< issued so far */
};

/** The one of the process; written by tests, too. */
extern struct conv_naive conv_naive;
