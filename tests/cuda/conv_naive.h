#pragma once

/** @file
 * What tests may see of convolutions in software (tests/cuda/conv_naive.c).
 */

#include "exec/cuda/conv/conv.h"

/** Runs issued so far, by op; written by tests, too. */
extern int64_t conv_naive_runs[CONV_OP_COUNT];
