/** @file
 * Replaces what fits in builds without GSL: it is refused.
 */

#include "app/cli/command.h"
#include "app/import/import_fit.h"

int curve_fit_lines(struct curve_fit *fit, const struct curve *curve, struct err *err)
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

const struct command command_calibrate = {
    .name = "calibrate",
    .synopsis = "",
    .help = "not in this build: it needs GSL",
    .examples = "",
    .options = options,
    .missing = "GSL (-Dgsl=enabled)",
};
