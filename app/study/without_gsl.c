/** @file
 * What stands in for the commands that fit or draw when foretrain is built without GSL: they are
 * refused, and predictions carry no interval.
 */

#include <math.h>

#include "app/cli/command.h"
#include "app/cli/measure_list.h"
#include "app/import/import_fit.h"
#include "app/predict/uncertainty.h"

static int refuse(const struct request *request, struct text *out, struct err *err)
{
    (void)request;
    (void)out;
    return err_add_code(err, 69, "this foretrain was built without GSL (-Dgsl=enabled)");
}

struct uncertainty uncertainty_of(const struct job *job, bool several_nodes)
{
    (void)job;
    (void)several_nodes;
    return (struct uncertainty){0};
}

struct interval uncertainty_step(const struct point *point, const struct trace *trace, double extra,
                                 const struct uncertainty *uncertainty)
{
    (void)point;
    (void)trace;
    (void)extra;
    (void)uncertainty;
    return (struct interval){NAN, NAN};
}

int curve_fit_lines(struct curve_fit *fit, struct curve *curve, struct err *err)
{
    (void)fit;
    (void)curve;
    return err_add_code(err, 69,
                        "times are fitted with GSL, which this foretrain was built without");
}

/* Those of both commands, so that the answer is always the same. */
static const struct option *const options[] = {
    &option_from_row,
    &option_to_row,
    &option_without_row,
    &option_backend_row,
    &option_json_row,
    &option_keep_row,
    &option_directory_row,
    &option_networks_row,
    &option_batches_row,
    &option_dtype_row,
    &option_threads_row,
    &option_device_row,
    &option_repeats_row,
    &option_started_row,
    &option_lab_row,
    &option_help_row,
    NULL,
};

const struct command command_calibrate = {
    .name = "calibrate",
    .synopsis = "",
    .help = "not in this build: it needs GSL",
    .examples = "",
    .options = options,
    .maximum = INT32_MAX,
    .run = refuse,
};

const struct command command_published = {
    .name = "published",
    .synopsis = "",
    .help = "not in this build: it needs GSL",
    .examples = "",
    .options = options,
    .maximum = INT32_MAX,
    .run = refuse,
};
