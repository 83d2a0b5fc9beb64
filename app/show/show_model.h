#pragma once

/** @file
 * `foretrain show model`: the layers of a network with their exact counts.
 */

#include <stdint.h>

#include "core/base/answer.h"
#include "core/base/err.h"

/** What is printed. */
enum show_model_form { SHOW_MODEL_TABLE, SHOW_MODEL_JSON, SHOW_MODEL_YAML };

/** The answer as JSON. */
extern const struct answer_columns model_columns;

/** Append network @name at @image pixels (0: 224), or of a file, as a table, as JSON or as
 * a network file.
 * @return 0, or -1 as network_open(), or: an image size for a file that has its own (exit code
 * 64). */
int show_model(const char *name, int32_t image, enum show_model_form form, struct text *out,
               struct err *err);
