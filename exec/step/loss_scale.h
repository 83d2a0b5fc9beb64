#pragma once

/** @file
 * Loss scaling: what the loss is multiplied by so that small gradients survive 16 bits.
 *
 * A step whose gradients overflow is skipped.  A dynamic scale is halved then, and doubled after
 * training.loss_scale.interval steps without; a static one stays as it is.  In fp32 all the way
 * nothing overflows that another batch or scale would mend: such a run has diverged.
 * Source: Micikevicius et al. 2018, "Mixed precision training", section 3.2.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/scenario/scenario.h"

enum {
    LOSS_SCALE_SKIP_LIMIT = 100, /**< skipped steps in a row that end a run in any case */
};

/** The scale, and how it came about.  On resuming, value, good_steps and skipped are set to what
 * they were. */
struct loss_scale {
    double value;
    int64_t good_steps; /**< since it last changed, or a step was last skipped */
    int64_t skipped;    /**< steps of the whole run */
    int64_t in_a_row;   /**< of them the last ones */
};

/** As the run starts. */
struct loss_scale loss_scale_init(const struct scenario *scenario);

/** Take note of a finished step and whether its gradients overflowed: @loss_scale is for the next.
 * The value stays within what training.loss_scale.initial may be: 1e-9 to 2^40.
 * @return 0, or -1 when the network itself has diverged: an overflow in fp32 with a static scale,
 * or LOSS_SCALE_SKIP_LIMIT steps or more in a row that were skipped. */
int loss_scale_update(struct loss_scale *loss_scale, bool overflow,
                      const struct scenario *scenario);
