#pragma once

/** @file
 * What a prediction rests on that nobody measured or published.
 */

#include "app/predict/prediction.h"

/** Add the assumptions to prediction->result, which is complete but for them: each assumed number
 * that plays a part (half as good, it would change the closed form of the last phase or of the
 * baseline), and what the program decided or left out. */
void assumption_list(struct prediction *prediction);
