#pragma once

/** @file
 * What a device was seen to take: steps measured one by one, and how much of the roofline each
 * class of steps reaches.
 *
 * Both parts of a device file are optional, and `foretrain calibrate device` writes them.  A step
 * whose shape was measured takes the measured time: between two amounts of work (images, or the
 * optimizer's parameters) on the straight line through both, below the smallest on the line to
 * what its kernels cost without work, above the largest on the line from there.  So it is monotone
 * in the amount, and exact where it was measured.  A step whose shape was not measured takes the
 * roofline at the efficiency of its class, or at the device's where its class was not measured.
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
    int64_t rows;               /**< steps behind it */
};

/** One shape of steps that was measured. */
struct device_row {
    int32_t op;     /**< enum compute_op */
    char *shape;    /**< as step.compute.shape */
    int32_t dtype;  /**< enum dtype */
    int64_t amount; /**< as step.compute.amount */
    double time;    /**< [s] */
    double spread;  /**< of the runs behind it: between their quartiles, relative */
};

/** The class of @step on @device, or NULL; borrowed. */
const struct device_class *device_find_class(const struct device *device, const struct step *step);

/** Seconds that @device was seen to take for the shape of @step, or a negative number where that
 * was not measured. */
double device_measured(const struct device *device, const struct step *step);

/** Drop classes and measured steps. */
void device_forget(struct device *device);

/** Check what the rows of a device file cannot: no shape that takes less time for more work, no
 * amount or class twice.
 * @return 0, or -1: located messages below @root. */
int device_check(const struct device *device, const struct node *root, struct err *err);

/** The rows of the lists `classes` and `measured.steps`, for core/platform/platform_fields.c. */
extern const struct field_table device_class_table, device_row_table;
