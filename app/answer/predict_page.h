#pragma once

/** @file
 * A prediction as a page (app/page/html.h).
 */

#include "app/page/html.h"
#include "app/predict/predict.h"
#include "core/base/json.h"
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

/* ---- app/answer/failing_page.c ---- */

/** The expected time to train by the work between checkpoints, around the best and in this job
 * (own): interval_s, checkpoints, time_to_train_s; none if nothing fails.  The caller releases it.
 */
struct json *failing_rows(const struct toll *toll);

/** Append what failures and checkpoints add, if the job of @all, the page's JSON, has any. */
void failing_add(struct page *page, const struct json *all);

/* ---- fewer nodes ---- */

/** @prediction of the job at @path with @options, and the same on 1, 2, 4, ... nodes, where the
 * program chooses the grid: nodes, devices, own ("this job", or null), backend, step_s and its
 * parts, images_per_s, scaling_efficiency, time_to_train_s, each with _low and _high where it has
 * an interval.  A number of nodes that makes no job has a "reason" instead.
 *
 * Other points than the job's own are in closed form.  If the job was simulated they have the
 * factors that make its closed form its answer: *@exposed that of the communication that nothing
 * hides (NAN: no simulation), and constant ones of efficiency and time to train. */
struct json *curve_rows(const struct prediction *prediction, const char *path,
                        const struct predict_options *options, double *exposed);

/* ---- sliders (app/wasm, in the browser) ---- */

/** What stands behind the sliders of @prediction of the job at @path: "wishes", what @options ask
 * beyond the files: order, noise, ignore_memory, iterations; "controls", each with a key, a label,
 * "values": pairs of the value in JSON and in words, and "start", the index of the job's own;
 * "files", which the job names, as they are after the assignments of @options.  The caller releases
 * it.
 * @return NULL: this program has no core for browsers, or a file cannot be read again. */
struct json *whatif_json(const struct prediction *prediction, const char *path,
                         const struct predict_options *options);

/** Append the section that app/page/whatif.js brings to life, unless @whatif is NULL or longer than
 * PAGE_DATA_LIMIT; borrowed until the page is written. */
void whatif_section(struct page *page, const struct json *whatif);
