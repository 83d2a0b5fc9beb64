/** @file
 * What stands in for the commands that fit or draw when foretrain is built without GSL: they are
 * refused, and predictions carry no interval.
 */

#include <math.h>

#include "app/command.h"
#include "app/uncertainty.h"

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

/* Those of both commands, so that the answer is always the same. */
static const struct option *const options[] = {
    &option_from_row, &option_to_row,   &option_without_row, &option_backend_row,
    &option_json_row, &option_keep_row, &option_help_row,    NULL,
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
