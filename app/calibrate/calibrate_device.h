#pragma once

/** @file
 * From measured steps to a device file: peaks, one efficiency for each class of steps, one cost per
 * kernel (app/study/fit.h), and the steps themselves.
 */

#include "app/calibrate/calibrate_run.h"
#include "core/platform/device_table.h"

/** One class, fitted. */
struct device_fit_class {
    int32_t op, layer, dtype; /**< as in struct device_class */
    double efficiency, efficiency_sd;
    double residual; /**< standard deviation of a step's log time about the fit */
    int32_t rows;
};

/** The device of a machine, as fitted to its steps.  Start from {0}; release with
 * device_fit_release(). */
struct device_fit {
    struct machine_step *row;       /**< (rows) by shape, op, type and amount; texts borrowed */
    struct device_fit_class *class; /**< (classes) owned */
    int32_t rows, classes;
    double peak[DTYPE_COUNT]; /**< the highest speed of any step [FLOP/s]; 0: no such step */
    double moved;             /**< the highest memory traffic of any step [bytes/s] */
    double copied;            /**< memory traffic of the largest copy [bytes/s]; 0: there is none */
    int64_t copied_bytes;     /**< size of that copy, read once and written once */
    double bandwidth;         /**< the larger of the two */
    double math, memory;      /**< medians of the classes with arithmetic, and without */
    double overhead;          /**< [s] per kernel */
    double overhead_sd;       /**< of its logarithm */
    double between;           /**< [s] from an iteration to the next, median of the trials */
};

/** Memory traffic of a copy, reads and writes [bytes/s]. */
double device_copy_speed(const struct machine_copy *copy);

/** Fit the steps of @machine, whose texts are borrowed, into zeroed @fit.
 * @return 0, or -1: no convergence. */
int device_fit_make(struct device_fit *fit, const struct machine *machine, struct err *err);

/** Seconds of @row by the fit alone, as for a step of a shape that was not measured. */
double device_fit_predict(const struct device_fit *fit, const struct machine_step *row);

/** Seconds of all steps of @trial by the fit alone. */
double device_fit_trial(const struct device_fit *fit, const struct machine_trial *trial);

/** How each file of a calibration begins. */
#define CALIBRATE_FILE "# Written by foretrain calibrate"

/** The texts of a device file. */
struct device_text {
    const char *name;        /**< of the file */
    const char *description; /**< one line for people */
    const char *source;      /**< origin, date and command of the measurement */
    double memory;           /**< [bytes] */
    const char *memory_source;
    int32_t compute_capability; /**< of CUDA: 10 * major + minor; 0: none */
    double spread;              /**< of all times between rounds, relative standard deviation */
};

/** Append the device file. */
void device_fit_write(struct text *out, const struct device_fit *fit, const struct machine *machine,
                      const struct device_text *text);

void device_fit_release(struct device_fit *fit);
