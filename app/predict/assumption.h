#pragma once

/** @file
 * What a prediction rests on that nobody measured or published.
 */

#include "app/predict/prediction.h"

/** Whether training with the batches of a job is known to converge. */
enum batch_known {
    BATCH_CONVERGES, /**< a published run of the network had as many images a step */
    BATCH_BEYOND,    /**< all had fewer, or the recipe has no such batch */
    BATCH_NOT_KNOWN, /**< no run of the network is known */
};

/** "converges", "beyond all runs", "not known", NULL. */
extern const char *const batch_known_words[];

/** Whether epochs of @scenario follow from its batch, or its network has runs with batches. */
bool batch_has_runs(const struct scenario *scenario);

/** What is known of the batches of @prediction, whose phases are planned. */
enum batch_known batch_known(const struct prediction *prediction);

/** Add the assumptions to prediction->result, which is complete but for them: each assumed number
 * that plays a part (half as good, it would change the closed form of the last phase or of the
 * baseline), and what the program decided or left out. */
void assumption_list(struct prediction *prediction);
