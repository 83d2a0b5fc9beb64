#pragma once

/** @file
 * What one point of a sweep comes to: a row of its table.
 */

#include "app/predict/prediction.h"
#include "core/base/json.h"
#include "core/price/price.h"

/** The numbers of a point, NAN where there is none. */
enum finding_value {
    FINDING_STEP_S, /**< one training step of the last phase */
    FINDING_STEP_LOW,
    FINDING_STEP_HIGH,
    FINDING_IMAGES_PER_S,
    FINDING_SCALING, /**< as `predict` has it: strong where the last phase gives a global batch */
    FINDING_TIME_S,  /**< to the target, or of the whole training where the job has epochs */
    FINDING_TIME_LOW,
    FINDING_TIME_HIGH,
    FINDING_EPOCHS,
    FINDING_DEVICE_HOURS,
    FINDING_COST,   /**< in the currency of the prices */
    FINDING_ENERGY, /**< [kWh] */
    FINDING_RATIO,  /**< of a checked point: the simulated step over that in closed form */
    FINDING_VALUES
};

/** "step_s", ... */
extern const char *const finding_names[FINDING_VALUES];

/** Whether a point was answered. */
enum finding_status {
    FINDING_NONE, /**< not yet */
    FINDING_OK,
    FINDING_REFUSED, /**< what is asked for makes no job: exit codes 64 to 69 */
    FINDING_FAILED,  /**< something broke */
};

/** "", "ok", "refused", "failed". */
extern const char *const finding_status_names[];

/** One point.  Start from {0}; release with finding_release(). */
struct finding {
    enum finding_status status;
    int32_t code;    /**< the exit code that `predict` would have */
    int32_t backend; /**< enum backend_choice */
    double value[FINDING_VALUES];
    char *reason; /**< one line; NULL: it is FINDING_OK; owned */
};

/** Predict the job at @path with @options on @backend into zeroed @finding, with intervals from
 * @draws draws and what @prices (NULL: none) make of it; warnings about files go to @err, which
 * gets no messages. */
void finding_find(struct finding *finding, const char *path, const struct predict_options *options,
                  enum backend_choice backend, int32_t draws, const struct price_file *prices,
                  struct err *err);

/** Make zeroed @finding one that failed: the messages of @err, of which the first line stays. */
void finding_fail(struct finding *finding, enum backend_choice backend, const struct err *err);

/** Put all members of @finding into @row, but not its code. */
void finding_put(struct json *row, const struct finding *finding);

/** Read what finding_put() put, and the member "code", into zeroed @finding.
 * @return whether it is complete. */
bool finding_read(struct finding *finding, const struct json *row);

void finding_release(struct finding *finding);
