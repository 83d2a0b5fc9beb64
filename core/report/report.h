#pragma once

/** @file
 * The answer: numbers of one prediction, as a table for people and as JSON for programs.
 */

#include "core/backend/backend.h"
#include "core/price/price.h"
#include "core/report/breakdown.h"
#include "core/report/exchanges.h"
#include "core/report/toll.h"
#include "core/scenario/phase.h"
#include "core/schedule/memory.h"

/** The link kind that limits collectives along @axis: highest load over bandwidth when all ranks
 * send at once.  Where another kind would limit them as soon as that one is twice as fast, @beside
 * (unless NULL) gets " (pcie is 96 % as busy)".
 * @return an index into fabric.tier_name, or -1 when the axis has one rank. */
int32_t report_bottleneck(const struct fabric *fabric, const struct schedule *schedule,
                          enum axis axis, struct text *beside);

/** Images per second of a device, in relation to those of a device of the baseline. */
struct scaling {
    double efficiency;
    struct interval likely;
    int32_t devices;     /**< of the baseline */
    int64_t batch;       /**< images on each of them */
    double images_per_s; /**< of all of them */
};

/** The distribution of the time to a target accuracy, with its interval; all NAN: not drawn. */
struct to_target {
    double median;          /**< [s] */
    struct interval epochs; /**< until it is reached */
    double epochs_share;    /**< of the variance of the time, alone */
};

/** A finished prediction.  Texts are owned. */
struct result {
    const struct scenario *scenario; /**< borrowed */
    char *platform;
    char sha256[65];
    uint64_t schedule_hash; /**< of the last phase */
    uint64_t platform_hash; /**< of the numbers it rests on */
    char backend[16], grain[16];
    char *nccl;       /**< its version, algorithms and protocols; NULL: the job uses none */
    struct grid grid; /**< {0}: rows and columns mean nothing to the job */
    int32_t devices, nodes;
    struct breakdown step;       /**< of the last phase */
    struct interval step_likely; /**< [s] */
    double images_per_s;         /**< of the last phase */
    enum unit images_unit;       /**< UNIT_SAMPLES_PER_SECOND where they are no pictures */
    struct interval images_likely;
    double use, use_causal;    /**< of the devices' peak (MFU), by all or causal attention */
    struct memory_plan memory; /**< of a device in the last phase */
    int64_t memory_total;      /**< of the same */
    int64_t device_memory;     /**< that it has [bytes] */
    double fits;               /**< the probability that it fits; NAN: not known */
    struct scaling weak;       /**< of the same number of images on each device */
    struct scaling strong;     /**< of the same global batch, where the scenario fixes that; else
                                    batch is 0 */
    struct plan plan;          /**< (phase_count) phases; borrowed */
    double *phase_step_time;   /**< (phase_count) [s] */
    double evaluation_s;       /**< all evaluations together */
    double startup_s;          /**< as the scenario states it */
    double time_to_train_s;    /**< all steps, evaluations, the start-up and the toll; with a target
                                    of the mean epochs, with failures expected */
    struct toll toll;          /**< of failures and checkpoints */
    struct interval train_likely;
    struct to_target to_target; /**< if the scenario has a target */
    struct bill bill;           /**< of the time to train; file NULL: not priced */
    struct doubts doubts;       /**< what the intervals come from */
    char *bound_by;             /**< "compute", "communication" or "input" */
    char *sentence;             /**< one plain sentence */
    struct texts assumption, warning;
};

/** Whether every number of it is finite and at least 0; of intervals, also not known (NaN).
 * @return 0, or -1 (exit code 70) with the number that is not. */
int result_check(const struct result *result, struct err *err);

/** "images_per_s", or "samples_per_s" where they are no pictures: the key of the throughput. */
const char *result_speed(const struct result *result);

/** The result and the collectives of its last phase's step as JSON. */
struct json *result_json(const struct result *result, const struct report_exchanges *exchanges);

/** Its columns. */
extern const struct answer_columns result_columns;

/** Append a row of its table: a label, a quantity, and unless that is "" a note. */
void report_row(struct text *out, const char *label, enum unit unit, double value,
                const char *note);

/** Append a row for an interval, if it was drawn. */
void report_interval(struct text *out, const char *label, enum unit unit, double value,
                     struct interval likely);

/** How much of a result is printed. */
enum report_length {
    REPORT_BRIEF, /**< answer, intervals, what bounds it, what is most uncertain: 12 lines */
    REPORT_USUAL, /**< all but the reasons of assumptions */
    REPORT_WHOLE
};

/** What assumptions are about, in order; the last is NULL. */
extern const char *const report_topics[];

/** Of which of them @assumption is. */
int report_topic(const char *assumption);

/** Append the result as a table and a sentence. */
void result_print(struct text *out, const struct result *result, enum report_length length);

void result_release(struct result *result);
