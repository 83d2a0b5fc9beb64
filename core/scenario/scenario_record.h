#pragma once

/** @file
 * Inner side of scenario.h: what its files share.
 */

#include "core/scenario/scenario.h"

/** Check the values of @scenario, read from @root, against each other; faults are located where
 * the value stands.  @return 0, or -1 with all faults. */
int scenario_check(const struct scenario *scenario, const struct node *root, struct err *err);
