#pragma once

/** @file
 * `foretrain show model`: the layers of a network with their exact counts.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/base.h"
#include "core/base/err.h"

/** Append network @name at @image pixels as a table, or @as_json "foretrain/model/1".
 * @return 0, or -1 as network_build(). */
int show_model(const char *name, int32_t image, bool as_json, struct text *out, struct err *err);
