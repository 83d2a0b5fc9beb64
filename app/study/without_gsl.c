/** @file
 * Replaces the commands that fit or draw in builds without GSL: they are refused, and predictions
 * have no interval.
 */

#include <math.h>

#include "app/cli/command.h"
#include "app/import/import_fit.h"
#include "app/predict/uncertainty.h"

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

static const struct option options[] = {ROW_LAST};

const struct command command_calibrate = {
    .name = "calibrate",
    .synopsis = "",
    .help = "not in this build: it needs GSL",
    .examples = "",
    .options = options,
    .missing = "GSL (-Dgsl=enabled)",
};

const struct command command_published = {
    .name = "published",
    .synopsis = "",
    .help = "not in this build: it needs GSL",
    .examples = "",
    .options = options,
    .missing = "GSL (-Dgsl=enabled)",
};
