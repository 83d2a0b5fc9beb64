#pragma once

/** @file
 * A table of published training runs, as text with commas: jobs to predict, and their measurements.
 *
 * The first line names the columns, in any order; unknown columns are left out with a note, and
 * cells may be empty.  Cells may be quoted as in RFC 4180 ("a ""b"", c").  Numbers are in the units
 * of the column's name.
 */

#include <stdint.h>

#include "core/base/base.h"
#include "core/base/err.h"

enum {
    PUBLISHED_ROW_LIMIT = 100000, /**< rows read, at most */
};

/** One run.  Texts are never NULL; an empty cell is "" or NAN. */
struct published_row {
    int32_t line;               /**< in the file, from 1 */
    const char *round;          /**< "v1.1" */
    const char *submitter;      /**< "NVIDIA" */
    const char *system;         /**< "dgxa100_n540_ngc21.09_mxnet" */
    const char *family;         /**< acc_family: "A100" */
    const char *form;           /**< "SXM" or "PCIe" */
    const char *intra_link;     /**< "NVLink3", "PCIe4" */
    const char *intra_topology; /**< "NVSwitch", "PCIe tree" */
    const char *fabric;         /**< "InfiniBand" */
    const char *scheduling;     /**< allreduce_scheduling */
    double nodes, per_node, devices;
    double intra_bandwidth;     /**< intra_GBps: of one device, both directions [GB/s] */
    double nics, nic_bandwidth; /**< per node; of one [Gb/s] */
    double node_bandwidth;      /**< node_inter_Gbps: all NICs together [Gb/s] */
    double global_batch, batch; /**< images; per device */
    double steps_per_epoch, step_ms, epochs;
    double rate, device_rate; /**< ips of all devices, and of one [images/s] */
    double train_min;         /**< ttt_min_scored: from start to target accuracy [min] */
    double trust;             /**< 3: several runs that agree on known hardware; less: doubts */
    double eval_s, first_s;   /**< eval_s_total and warmup_excess_s */
};

enum { PUBLISHED_EPOCH = 1281167 /**< images of ImageNet's training set */ };

/** All rows.  Start from {0}; release with published_release(). */
struct published {
    struct published_row *row; /**< (count) */
    int32_t count;
    char **text; /**< (text_count) cells, owned; rows borrow from them */
    int32_t text_count;
    char *note; /**< columns left out, as one sentence, or NULL; owned */
};

/** Read @path into zeroed @table.
 * @return 0, or -1: not readable (66), or located messages: no such column, a column twice, a row
 * with too few or too many cells, an open quote, not a number, a negative number, no rows. */
int published_read(struct published *table, const char *path, struct err *err);

/** The same from the text of a file called @name. */
int published_read_text(struct published *table, const char *name, const char *text,
                        struct err *err);

void published_release(struct published *table);
