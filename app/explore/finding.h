#pragma once

/** @file
 * What one point of a sweep comes to: a row of its table.
 */

#include "app/predict/predict.h"
#include "core/base/json.h"
#include "core/price/price.h"

/** Whether a point was answered. */
enum finding_status {
    FINDING_NONE, /**< not yet */
    FINDING_OK,
    FINDING_REFUSED, /**< what is asked for makes no job: exit codes 64 to 69 */
    FINDING_FAILED,  /**< something broke */
};

/** "", "ok", "refused", "failed". */
extern const char *const finding_status_names[];

/** One point, with NAN where there is no number.  Start from {0}; release with finding_release().
 */
struct finding {
    enum finding_status status;
    int32_t code;         /**< the exit code that `predict` would have */
    int32_t backend;      /**< enum backend_choice */
    struct range step;    /**< one training step of the last phase [s] */
    double images_per_s;  /**< in the last phase; samples where they are no pictures */
    double efficiency;    /**< scaling, as `predict` has it: strong where the last phase gives a
                               global batch */
    struct range seconds; /**< to the target, or of the whole training where the job has epochs */
    double epochs, device_hours;
    double cost;   /**< in the currency of the prices */
    double energy; /**< [kWh] */
    double ratio;  /**< of a checked point: the simulated step over that in closed form */
    char *reason;  /**< one line; NULL: it is FINDING_OK; owned */
};

/** Predict the job at @path with @options on @backend into zeroed @finding, with intervals from
 * @draws draws and what @prices (NULL: none) make of it; warnings about files go to @err, which
 * gets no messages. */
void finding_find(struct finding *finding, const char *path, const struct predict_options *options,
                  enum backend_choice backend, int32_t draws, const struct price_file *prices,
                  struct err *err);

/** Make zeroed @finding one that failed: the messages of @err, of which the first line stays. */
void finding_fail(struct finding *finding, enum backend_choice backend, struct err *err);

/** Its columns but the code. */
extern const struct answer_columns finding_columns;

/** Read what answer_put() put, and the member "code", into zeroed @finding.
 * @return whether it is complete. */
bool finding_read(struct finding *finding, const struct json *row);

void finding_release(struct finding *finding);
