#pragma once

/** @file
 * A prediction as a page (app/page/html.h).
 */

#include "app/page/html.h"
#include "app/predict/predict.h"
#include "core/report/exchanges.h"

/** What is shown.  All pointers are borrowed. */
struct predict_page {
    const struct prediction *prediction;
    const char *path; /**< of the job */
    const struct predict_options *options;
    const struct report_exchanges *exchanges; /**< of its step */
    double published; /**< the scaling efficiency that somebody measured; NAN: none */
};

/** Write @what as a page to @file: the JSON, the curve of fewer nodes, the lanes of a few ranks and
 * the load of links.  @return 0, or -1: it cannot be written (exit codes 73, 74). */
int predict_page(const char *file, const struct predict_page *what, struct err *err);
