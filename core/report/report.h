#pragma once

/** @file
 * The answer: numbers of one prediction, as a table for people and as JSON for programs.
 */

#include "core/backend/backend.h"
#include "core/base/base.h"
#include "core/base/json.h"
#include "core/scenario/phase.h"

/** Where the time of one step goes, on the rank that finishes last [s]; sums to time. */
struct breakdown {
    double time;
    double compute;                     /**< forward, loss and backward */
    double exposed_communication;       /**< waiting for a collective while not computing */
    double exposed_row, exposed_column; /**< the same, by the axis waited for */
    double input_wait;                  /**< waiting for input */
    double other;                       /**< optimizer and whatever is left */
};

/** Split the last iteration of @trace. */
struct breakdown report_breakdown(const struct schedule *schedule, const struct trace *trace);

/** The link kind that limits collectives along @axis: highest load over bandwidth when all ranks
 * send at once.  @return an index into fabric.tier_name, or -1 when the axis has one rank. */
int32_t report_bottleneck(const struct fabric *fabric, const struct schedule *schedule,
                          enum axis axis);

/** A finished prediction.  Texts are owned. */
struct result {
    const struct scenario *scenario; /**< borrowed */
    char *platform;
    char sha256[65];
    uint64_t schedule_hash; /**< of the last phase */
    uint64_t platform_hash; /**< of the numbers it rests on */
    char backend[16], grain[16];
    struct grid grid;
    int32_t devices, nodes;
    struct breakdown step;      /**< of the last phase */
    double step_low, step_high; /**< its 90 % interval [s]; NAN where none was drawn */
    double images_per_s;        /**< of the last phase */
    double scaling_efficiency;
    int32_t baseline_devices;
    double baseline_images_per_s;
    struct plan plan;        /**< (phase_count) phases; borrowed */
    double *phase_step_time; /**< (phase_count) [s] */
    double evaluation_s;     /**< all evaluations together */
    double startup_s;        /**< as the scenario states it */
    double time_to_train_s;  /**< all steps, evaluations and the start-up */
    char *bound_by;          /**< "compute", "communication" or "input" */
    char *sentence;          /**< one plain sentence */
    char **assumption;       /**< (assumption_count) */
    int32_t assumption_count;
    char **warning; /**< (warning_count) */
    int32_t warning_count;
};

/** Append an assumption or warning; takes ownership of @text. */
void result_add(char ***list, int32_t *count, char *text);

/** The result as JSON, schema "foretrain/result/1". */
struct json *result_json(const struct result *result);

/** Append the result as a table and a sentence. */
void result_print(struct text *out, const struct result *result);

/** Release. */
void result_release(struct result *result);
