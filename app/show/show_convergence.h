#pragma once

/** @file
 * `foretrain show convergence`: epochs to an accuracy against the batch, and accuracies that others
 * reached.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/base.h"
#include "core/base/json.h"

/** What is asked for. */
struct show_convergence {
    int32_t recipe;  /**< an index in convergence_recipes; -1: all */
    int32_t batch;   /**< only this global batch; 0: all of the curves, and powers of two between */
    bool accuracies; /**< what others reached, and as text or CSV nothing else */
    bool json;       /**< "foretrain/convergence/1" */
};

/** Append the tables; as text accuracies only where neither recipe nor batch is chosen. */
void show_convergence(const struct show_convergence *what, struct text *out);

/** The curves or the accuracies as rows of one table. */
struct json *show_convergence_rows(const struct show_convergence *what);
