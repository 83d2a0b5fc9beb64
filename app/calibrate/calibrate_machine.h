#pragma once

/** @file
 * `calibrate device` and `calibrate cluster` on this machine.
 */

#include "app/calibrate/calibrate_device.h"
#include "app/cli/request.h"

/** Measure this machine's device and write its file.  Of @request: networks, batches, threads,
 * device, dtype, repeats, directory (the file; NULL: none), json.
 * @return 0 with the answer in @out, or -1: the messages of machine_measure(), a name that does not
 * end in .yaml (exit code 64), a file that cannot be written (73). */
int calibrate_device(const struct request *request, struct text *out, struct err *err);

/** Measure how ranks on this machine, or in the lab of request->lab, exchange and disturb each
 * other and write a platform file.  Of @request: as above, started (ranks), platform (the device
 * file).
 * @return 0, or -1: likewise. */
int calibrate_cluster(const struct request *request, struct text *out, struct err *err);

/** "measured by foretrain calibrate on HOST, DATE: WHAT", without quotes and backslashes.  The
 * caller frees it. */
char *calibrate_source(const char *what);

/** What was done as a command line of a device; the caller frees it. */
char *calibrate_command(const char *kind, const struct request *request);

/** The base name of @path without .yaml; the caller frees it.  NULL (exit code 64) when it does not
 * end so. */
char *calibrate_name(const char *path, struct err *err);
