#pragma once

/** @file
 * A whole prediction: what the tasks of a job take, with failures, assumptions and intervals, in
 * one result; and what it comes to in a row of a table: of a sweep, a plan, a comparison.
 */

#include "app/predict/prediction.h"
#include "core/price/price.h"

/** Predict job @path into @prediction, which is zero but for `shared`.
 * @return 0, or -1 with the message of whatever failed first. */
int prediction_make(struct prediction *prediction, const char *path,
                    const struct predict_options *options, struct err *err);

/** prediction_make() of one of many jobs: its result has only nodes, devices, times, images/s,
 * efficiencies and their intervals, from @draws draws; 0: none.
 * @return 0, or -1 with the message of whatever failed first. */
int prediction_screen(struct prediction *prediction, const char *path,
                      const struct predict_options *options, enum backend_choice backend,
                      int32_t draws, struct err *err);

/** Find bound_by and sentence: what a step spends most time on decides, and is named with what it
 * waits for. */
void prediction_find_bound(struct prediction *prediction);

/** Add the warnings of @err to the result, "FILE: TEXT" each, for programs. */
void prediction_add_warnings(struct prediction *prediction, const struct err *err);

/** The answer of @prediction, which is complete; the caller frees it. */
struct json *prediction_json(const struct prediction *prediction);

/** The numbers of such a row, NAN where there is none. */
struct figures {
    int32_t nodes, devices;                   /**< of the last phase */
    struct grid grid;                         /**< {0}: rows and columns mean nothing to the job */
    struct range step;                        /**< one training step of the last phase [s] */
    struct range images_per_s, samples_per_s; /**< in the last phase, one of them */
    struct range efficiency; /**< scaling: strong where the last phase gives a global batch */
    int32_t batch;           /**< enum batch_known */
    struct nccl_use nccl;    /**< in the last phase */
    double use;              /**< of the peak of the devices (MFU), by all of attention; of pictures
                                  NAN */
    double tokens;           /**< of a device, without padding [1/s]; of pictures NAN */
    struct breakdown parts;  /**< of a step of the last phase */
    double epochs;           /**< of all phases; to a target those expected */
    struct usage usage;      /**< bounds of the time: its 90 % interval */
    double least;            /**< the time if no step waited for communication [s] */
    struct range device_hours;
    struct bill bill; /**< of the usage; NAN where nothing is priced */
};

/** Those of a complete @prediction at @prices (NULL: none). */
struct figures figures_of(const struct prediction *prediction, const struct price_file *prices);

/** Of a prediction that failed: no number. */
struct figures figures_none(void);

/** Set device-hours and bill of the usage. */
void figures_price(struct figures *figures, const struct price_file *prices);

/** Their columns: step, rate, efficiency, time, epochs, device-hours, cost, energy, carbon. */
extern const struct answer_columns figures_columns;

/** Columns for processes of ours alone: what a row must know beside. */
extern const struct answer_columns figures_basis_columns;
