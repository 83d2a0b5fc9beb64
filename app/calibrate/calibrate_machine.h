#pragma once

/** @file
 * `calibrate device` and `calibrate cluster` on this machine, and the steps of training that both
 * measure by `foretrain-exec measure`, round after round.
 *
 * Disturbances can only lengthen a step, so the result for each network and batch is its fastest
 * round.  Rounds continue until the two fastest of every network and batch agree, within limits of
 * rounds and time.  Where there is no time for all batches, the last ones are left out.
 */

#include "app/cli/measure_list.h"
#include "app/train/machine.h"

/** The time a calibration may take, divided among parts, in order; what a part leaves, the next
 * ones have.  A part measures in rounds: the first always runs, another one if it ends in time,
 * taking as long as the longest so far.  On stderr is what is measured and the time that is left.
 * Start with budget_open(), end with budget_close(). */
struct budget {
    double seconds;              /**< of all */
    double end, part_end;        /**< by the monotonic clock [s] */
    double round_begin, longest; /**< of the part's rounds [s] */
    int32_t rounds;              /**< of the part that began */
    const char *what;            /**< is measured; borrowed */
    bool strict;                 /**< what is disturbed is an error, not a wide spread */
    bool terminal;               /**< stderr is one */
};

/** @seconds from now on. */
struct budget budget_open(double seconds, bool strict);

/** Begin a part, called @what, with the fraction @share of the time that is left. */
void budget_part(struct budget *budget, const char *what, double share);

/** Whether a round more may begin; then it has begun. */
bool budget_next(struct budget *budget);

/** The time of the part [s]. */
double budget_of_part(const struct budget *budget);

/** Remove the line on the terminal; say how long it took where that is a fifth too much. */
void budget_close(struct budget *budget);

enum {
    MACHINE_ROUNDS_LEAST = 2, /**< rounds, at least */
    MACHINE_ROUNDS_MOST = 8   /**< and at most */
};

/** Maximum relative difference of the two fastest rounds for them to agree. */
#define MACHINE_AGREE 0.03
/** Beyond this difference after the last round, the result is disturbed.  Our choice. */
#define MACHINE_DISTURBED 0.10
/** A relative standard deviation where only one round was: nothing of its spread is known.  Our
 * choice: as of an assumed number. */
#define MACHINE_UNKNOWN 0.30

/** Measure the networks, batches (of @list, too), threads, device, precision and repeats of
 * @options on one device into zeroed @machine, within the part of @budget that has begun.
 * @return 0, or -1: no foretrain-exec or mpirun (exit code 69), its own messages and exit codes, an
 * answer that is none (70), rounds that do not agree though @budget is strict (75). */
int machine_measure(struct machine *machine, const struct machine_options *options,
                    const struct measure_list *list, struct budget *budget, struct err *err);

/** The relative standard deviation of its times that rounds show, or MACHINE_UNKNOWN. */
double machine_spread(const struct machine *machine);

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
    bool kernels;          /**< print each shape, not classes of them */
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
