#pragma once

/** @file
 * Measurements of a device: the times of single steps, and the efficiency of each class of steps on
 * the roofline.
 *
 * Both parts of a device file are optional, and `foretrain calibrate device` writes them.  A step
 * of a measured shape has the measured time.  Between two measured amounts of work (images, or the
 * optimizer's parameters) the time is linear.  Below the smallest amount it is linear down to the
 * cost of empty kernels, and that line continues above the largest amount.  So the time is monotone
 * in the amount, and exact where it was measured.  A step of another shape has the roofline's time
 * at the efficiency of its class, or at the device's if the class was not measured.
 */

#include "core/platform/platform.h"
#include "core/schedule/schedule.h"

/** How much of the roofline the steps of one class reach. */
struct device_class {
    int32_t op;                 /**< enum compute_op */
    int32_t layer;              /**< enum layer_op, or LAYER_OP_COUNT for loss and optimizer */
    int32_t dtype;              /**< enum dtype */
    struct quantity efficiency; /**< of peak and of memory bandwidth */
    double efficiency_sd;       /**< standard deviation of log efficiency */
    double residual;            /**< standard deviation of a step's log time about the fit */
    int64_t rows;               /**< number of its steps */
};

/** One shape of steps that was measured. */
struct device_row {
    int32_t op;     /**< enum compute_op */
    char *shape;    /**< as step.compute.shape */
    int32_t dtype;  /**< enum dtype */
    int64_t amount; /**< as step.compute.amount */
    double time;    /**< [s] */
    double spread;  /**< distance between the quartiles of its runs, relative */
};

/** A profile that the classes were fitted to. */
struct device_profile {
    char *network;
    int64_t batch; /**< images on a device */
    double spread; /**< standard deviation of its steps, relative */
};

/** The spread of the profile of @network with @batch images on @device; negative: there is none. */
double device_profiled(const struct device *device, const char *network, int64_t batch);

/** The class of @step on @device, or NULL; borrowed. */
const struct device_class *device_find_class(const struct device *device, const struct step *step);

/** Seconds measured on @device for the shape of @step, or negative: not measured. */
double device_measured(const struct device *device, const struct step *step);

/** Check beyond single rows of a device file: no shape may take less time for more work, and no
 * amount or class may occur twice.
 * @return 0, or -1: located messages below @root. */
int device_check(const struct device *device, const struct node *root, struct err *err);

/** The rows of the lists `classes`, `profiles` and `measured.steps`, for
 * core/platform/platform_fields.c. */
extern const struct field_table device_class_table, device_profile_table, device_row_table;
