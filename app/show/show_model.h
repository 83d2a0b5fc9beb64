#pragma once

/** @file
 * `foretrain show model`: the layers of a network with their exact counts.
 */

#include "app/cli/request.h"

/** Append network @name at request->image pixels as a table, or as JSON "foretrain/model/1".
 * @return 0, or -1 as network_build(). */
int show_model(const char *name, const struct request *request, struct text *out, struct err *err);
