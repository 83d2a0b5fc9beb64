#pragma once

/** @file
 * Loss scaling: the factor of the loss that keeps small gradients from vanishing in 16 bits.
 *
 * A step whose gradients overflow is skipped.  A dynamic scale is then halved, and doubled after
 * training.loss_scale.interval steps without overflow; a static one does not change.  If everything
 * is fp32, no other batch or scale would prevent an overflow: such a run has diverged.  Source:
 * Micikevicius et al. 2018, "Mixed precision training", section 3.2.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/scenario/scenario.h"

enum {
    LOSS_SCALE_SKIP_LIMIT = 100, /**< skipped steps in a row that end a run in any case */
};

/** The scale and its history.  A resumed run restores value, good_steps and skipped. */
struct loss_scale {
    double value;
    int64_t good_steps; /**< since the last change or skipped step */
    int64_t skipped;    /**< steps of the whole run */
    int64_t in_a_row;   /**< of them the last ones */
};

/** As the run starts. */
struct loss_scale loss_scale_init(const struct scenario *scenario);

/** Update @loss_scale for the next step, after a finished step with or without @overflow.  The
 * value stays in the range of training.loss_scale.initial: 1e-9 to 2^40.
 * @return 0, or -1 when the network itself has diverged: an overflow in fp32 with a static scale,
 * or LOSS_SCALE_SKIP_LIMIT or more skipped steps in a row. */
int loss_scale_update(struct loss_scale *loss_scale, bool overflow,
                      const struct scenario *scenario);
