#pragma once

/** @file
 * `calibrate device` and `calibrate cluster` on this machine.
 */

#include "app/calibrate/calibrate_run.h"
#include "app/cli/request.h"

/** How each file of a calibration begins. */
#define CALIBRATE_FILE "# Written by foretrain calibrate"

enum { CALIBRATE_BUDGET = 120 /**< of two minutes of patience.  Our choice [s] */ };

/** What the user asked for. */
struct calibrate_request {
    struct request head;
    struct machine_options machine;
    struct measure_list *list; /**< its networks and batches; borrowed */
    struct exchange_options exchange;
    const char *directory; /**< the file to write; NULL: none */
    const char *bytes;     /**< messages to time */
    const char *device;    /**< of the cluster's file; NULL: measured too */
    bool cluster;          /**< calibrate cluster, not device */
    bool oversubscribe;    /**< more ranks than cores may take turns */
    int32_t budget;        /**< time to measure for [s] */
    bool strict;           /**< what is disturbed is an error, not a wide spread */
    bool overwrite;        /**< files that no calibration wrote */
};

/** The columns of the answers. */
extern const struct answer_columns machine_device_columns, machine_cluster_columns;

/** Measure this machine's device and write its file.  Of @request: networks, batches, threads,
 * device, dtype, repeats, directory (the file; NULL: none), json.
 * @return 0 with the answer in @out, or -1: the messages of machine_measure(), a name without .yaml
 * (exit code 64), a file that cannot be written (73). */
int calibrate_device(const struct calibrate_request *request, struct text *out, struct err *err);

/** Measure how ranks on this machine exchange and disturb each other,
 * and write a platform file.  Of @request: as above, started (ranks), bytes,
 * gradients, oversubscribe, device (the file's).  @return as calibrate_device(). */
int calibrate_cluster(const struct calibrate_request *request, struct text *out, struct err *err);

/** The device of the steps of @machine: append it for people, or as JSON, and write its file.
 * @return 0, or -1: the fit does not converge, or messages of calibrate_device() on its file. */
int calibrate_device_of(const struct machine *machine, const struct calibrate_request *request,
                        double spread, struct text *out, struct err *err);

/** Check before anything is measured that @path can be written, and may be.
 * @return 0, or -1 (exit code 73): as file_check_own() and file_fresh_open(). */
int calibrate_check_file(const char *path, const struct calibrate_request *request,
                         struct err *err);

/** Check before anything is measured that a GPU, if that is measured, has a name for the file.
 * @return 0, or -1 (exit code 69): nvidia-smi does not tell. */
int calibrate_check_gpu(const struct calibrate_request *request, struct err *err);

/** "measured by foretrain calibrate on HOST, DATE: WHAT", without quotes and backslashes; owned. */
char *calibrate_source(const char *what);

/** The command line, with what device and cluster both measure; the caller frees it. */
char *calibrate_command(const struct calibrate_request *request);
