/** @file
 * Replaces the commands that fit or draw in builds without GSL: they are refused, and predictions
 * have no interval.
 */

#include <math.h>

#include "app/cli/command.h"
#include "app/import/import_fit.h"
#include "app/predict/uncertainty.h"

static int refuse(const void *record, struct text *out, struct err *err)
{
    (void)record;
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

struct refused_request {
    struct request head;
    struct machine_options machine;
    int32_t backend;
    const char *text;
};

/* The options of both commands, so that the answer is always the same. */
#define AT(member) offsetof(struct refused_request, member)

static const struct option options[] = {ROW_FROM(AT(text)),
                                        ROW_TO(AT(text)),
                                        ROW_WITHOUT(AT(text)),
                                        ROW_BACKEND(AT(backend)),
                                        ROW_JSON,
                                        ROW_KEEP(AT(text)),
                                        ROW_DIRECTORY(AT(text)),
                                        ROW_NETWORKS(AT(machine.networks)),
                                        ROW_BATCHES(AT(machine.batches)),
                                        ROW_DTYPE(AT(machine.dtype)),
                                        ROW_THREADS(AT(machine.compute.threads)),
                                        ROW_DEVICE(AT(machine.compute.device)),
                                        ROW_REPEATS(AT(machine.repeats)),
                                        ROW_STARTED(AT(machine.compute.started)),
                                        ROW_LAB(AT(text)),
                                        ROW_LAST};

const struct command command_calibrate = {
    .name = "calibrate",
    .synopsis = "",
    .help = "not in this build: it needs GSL",
    .examples = "",
    RECORD(options, struct refused_request, NULL),
    .maximum = INT32_MAX,
    .run = refuse,
};

const struct command command_published = {
    .name = "published",
    .synopsis = "",
    .help = "not in this build: it needs GSL",
    .examples = "",
    RECORD(options, struct refused_request, NULL),
    .maximum = INT32_MAX,
    .run = refuse,
};
