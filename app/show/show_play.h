#pragma once

/** @file
 * `foretrain show collective --play`: what show_holdings() drew, one round after another in place.
 */

#include "core/base/base.h"
#include "core/base/err.h"

/** Print @drawn to the terminal at standard output: what stands before the first round once, then
 * each round over the one before, after @seconds, or with 0 when Enter is pressed.
 * @return 0, or -1 with exit code 64: standard output is no terminal, or too small a one. */
int show_play(const struct text *drawn, double seconds, struct err *err);
