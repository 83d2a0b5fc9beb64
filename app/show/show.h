#pragma once

/** @file
 * `foretrain show model`: the layers of a network with their exact counts.
 */

#include <stdint.h>

#include "core/base/answer.h"
#include "core/base/base.h"
#include "core/base/err.h"
#include <stdbool.h>

/** What is printed. */
enum show_model_form { SHOW_MODEL_TABLE, SHOW_MODEL_JSON, SHOW_MODEL_YAML };

/** The answer as JSON. */
extern const struct answer_columns model_columns;

/** Append network @name at @image pixels (0: 224) or @sequence tokens (0: its own), or of a file,
 * as a table, as JSON or as a network file.
 * @return 0, or -1 as network_open(). */
int show_model(const char *name, int32_t image, int32_t sequence, enum show_model_form form,
               struct text *out, struct err *err);

/* ---- foretrain show convergence ---- */

/** What is asked for. */
struct show_convergence {
    int32_t recipe;  /**< an index in convergence_recipes; -1: all */
    int32_t batch;   /**< only this global batch; 0: all of the curves, and powers of two between */
    bool accuracies; /**< what others reached, and as text or CSV nothing else */
    bool json;       /**< as JSON */
    const char *points; /**< measured ones instead of recipes, "32:3.5,64:4,...": batch and epochs;
                             several of one batch are runs; NULL: none */
};

/** The answer as JSON. */
extern const struct answer_columns convergence_columns;

/** Check @what.  @return 0, or -1 (exit code 64): points that are none, fewer than three batches,
 * points beside a recipe or a batch, accuracies beside any of them. */
int show_convergence_check(const struct show_convergence *what, struct err *err);

/** Append the tables of a checked @what; as text accuracies only where nothing is chosen. */
void show_convergence(const struct show_convergence *what, struct text *out);

/** The curves or the accuracies as rows of one table. */
struct json *show_convergence_rows(const struct show_convergence *what);
