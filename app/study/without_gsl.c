/** @file
 * Replaces the commands that fit or draw in builds without GSL: they are refused, and predictions
 * have no interval.
 */

#include <math.h>
#include <string.h>

#include "app/cli/command.h"
#include "app/import/import_fit.h"
#include "app/predict/explain.h"
#include "app/predict/likely.h"
#include "app/predict/uncertainty.h"

struct uncertainty uncertainty_of(const struct job *job)
{
    return (struct uncertainty){0};
}

double uncertainty_quantity(const struct quantity *quantity)
{
    return 0;
}

bool uncertainty_is_unknown(const struct device *device)
{
    return !strcmp(device->name, "ideal");
}

double *uncertainty_draw(const struct task *task, int32_t count, double extra,
                         const struct uncertainty *uncertainty)
{
    return NULL;
}

struct interval uncertainty_interval(double *sample, int32_t count)
{
    return (struct interval){NAN, NAN};
}

int likely_find(struct prediction *prediction, const struct predict_options *options, int32_t draws,
                enum backend_choice backend, double cpu, struct err *err)
{
    struct result *result = &prediction->result;
    if (prediction->job.unknowns.count)
        result_add(&result->warning, &result->warning_count,
                   base_copy("unknown inputs are in their centre: this foretrain was built without "
                             "GSL and states no intervals"));
    return 0;
}

int explanation_draw(struct explanation *explanation, const struct predict_options *options,
                     const struct unknowns *all, struct err *err)
{
    return 0;
}

void explanation_difference_likely(const struct explanation *a, const struct explanation *b,
                                   struct cause cause[CAUSE_COUNT], struct interval *efficiency)
{
    *efficiency = (struct interval){NAN, NAN};
}

int curve_fit_lines(struct curve_fit *fit, struct curve *curve, struct err *err)
{
    return err_add_code(err, 69,
                        "times are fitted with GSL, which this foretrain was built without");
}

void curve_fit_from(struct curve_piece *piece, const struct curve *curve, int32_t first)
{
    *piece = (struct curve_piece){0};
}

double curve_spread(double squares, int32_t rows)
{
    return NAN;
}

static const struct option options[] = {ROW_LAST};

#define NOT_HERE(word)                                                                             \
    const struct command command_##word = {                                                        \
        .name = #word,                                                                             \
        .synopsis = "",                                                                            \
        .help = "not in this build: it needs GSL",                                                 \
        .examples = "",                                                                            \
        .options = options,                                                                        \
        .missing = "GSL (-Dgsl=enabled)",                                                          \
    }

NOT_HERE(calibrate);
NOT_HERE(plan);
NOT_HERE(published);
