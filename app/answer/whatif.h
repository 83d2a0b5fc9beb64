#pragma once

/** @file
 * Sliders of a page: the job in closed form, again, with other numbers (app/wasm, in the browser).
 */

#include "app/page/html.h"
#include "app/predict/predict.h"

/** What stands behind the sliders of @prediction of the job at @path: "closed_form", its figures by
 * the back end analytic, whatever made @prediction (left out where that has no answer); "wishes",
 * what @options ask beyond the files: order, noise, ignore_memory, iterations; "controls", each
 * with a key, a label, "values": pairs of the value in JSON and in words, and "start", the index of
 * the job's own; "files", which the job names, as they are after the assignments of @options.  The
 * caller releases it.
 * @return NULL: this program has no core for browsers, or a file cannot be read again. */
struct json *whatif_json(const struct prediction *prediction, const char *path,
                         const struct predict_options *options);

/** Append the section that app/page/whatif.js brings to life, unless @whatif is NULL, has no closed
 * form or is longer than PAGE_DATA_LIMIT; borrowed until the page is written. */
void whatif_section(struct page *page, const struct json *whatif);
