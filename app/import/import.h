#pragma once

/** @file
 * A cluster from foreign files: the draft of a platform, and lists of the data found and the
 * assumptions made.
 *
 * A reader reads one kind of file and fills the draft; import_finish() fills the gaps with listed
 * assumptions and writes the platform (in the form of core/platform/platform.h).  So every reader's
 * platform is complete, and every number in it has a source.
 */

#include "app/cli/request.h"
#include "app/import/import_fit.h"
#include "core/network/nccl.h"
#include "core/network/wiring.h"
#include "core/platform/platform.h"

/** What NCCL makes of the inside of a node. */
struct import_nccl {
    enum nccl_intra intra;
    int32_t channels; /**< 0: not known, nor anything else here */
    char *why;        /**< of channels, which is assumed; owned */
    struct quantity bandwidth;

    /* Beside a base: what was measured on `nodes` nodes. */
    struct nccl_correction correction[CURVE_ROWS]; /**< (corrections) */
    int32_t corrections, version, nodes;
    bool no_sharp;
};

enum {
    IMPORT_LINK_LIMIT = 10, /**< kinds of cable inside a node */
    IMPORT_TIER_LIMIT = 4,
};

/** A size of a message and its times [s]. */
struct import_size {
    double bytes, measured, predicted;
    bool fitted;
};

/** What ran on a device under one name. */
struct import_kernel {
    char *name; /**< owned */
    const char *activity;
    int64_t count;
    double total, least; /**< [s] */
};

/** A kind of work in a step [s]. */
struct import_work {
    const char *kind;
    double measured, predicted;
};

/** What a log of training reports; 0: not known. */
struct import_steps {
    double seconds, tokens; /**< of a step [s]; of a device [1/s]: one of both */
    double spread;          /**< standard deviation, relative */
    int64_t count, devices, batch, tensor, pipeline; /**< 0: not reported */
};

/** What only programs are told; 0: not known. */
struct import_result {
    struct curve_piece line[CURVE_PIECES]; /**< (lines) */
    struct import_size size[CURVE_ROWS];   /**< (sizes) */
    struct import_work work[16];           /**< (works) */
    struct import_kernel *kernel;          /**< (kernels) owned */
    int32_t lines, sizes, works, ranks, nodes;
    int64_t kernels, steps;
    double residual, spread;         /**< relative */
    double bus_bandwidth, bandwidth; /**< [bytes/s] */
    double latency;                  /**< of a message [s] */
    double step_mean, step_least;    /**< [s] */
    double flops, efficiency;        /**< of matrix products [FLOP/s]; of the roofline */
    double speed, speed_spread;      /**< of devices, over what is predicted; relative */
};

/** The draft so far.  A quantity without a source is unknown.  Start from {0} with `file` set;
 * release with import_release(). */
struct import {
    const char *kind; /**< of file: what the user calls it; borrowed */
    const char *file; /**< as the user gave it; borrowed */
    char *base_name;  /**< of the file, for sources; owned */
    char *description;
    char *device; /**< a name in platforms/devices, or NULL */
    char *base;   /**< the platform that the file extends, a name or a path; NULL: none */
    int64_t nodes;
    int32_t cards; /**< of a node, where the file knows no more of it; 0: not known */
    struct wiring wiring;
    struct link_record link[IMPORT_LINK_LIMIT]; /**< by cable.kind */
    int32_t link_count;
    struct link_record nic;
    struct tier_record tier[IMPORT_TIER_LIMIT]; /**< smallest first; the name is the uplink's; 0:
                                                     not known, of rails: one */
    int32_t tier_count;
    struct import_nccl nccl;
    struct quantity inside, between; /**< the transport's [s per message] */
    struct import_steps steps;
    bool no_platform;                         /**< nor anything else of a platform */
    bool written;                             /**< by the reader itself */
    const char *written_to;                   /**< the platform file; NULL: none; borrowed */
    struct text understood, assumed, warning; /**< a line each */
    struct text comparison; /**< a table of times measured and predicted, or empty */
    struct import_result result;
};

/** Read the whole of @path.
 * @return 0, or -1: it cannot be read (exit code 66), is empty, larger than 1 GiB, or has a NUL. */
int import_load(const char *path, struct text *out, struct err *err);

/** Add a line to the list of data found. */
void import_note(struct import *import, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Add a line to the list of assumptions. */
void import_assume(struct import *import, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Add a line to the list of what makes the platform of little use as it is. */
void import_warn(struct import *import, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Set @quantity, unless it is known already. */
void import_set(struct quantity *quantity, double value, enum provenance provenance,
                const char *format, ...) __attribute__((format(printf, 4, 5)));

/** The kind of cable called @name, added when it is new and there is room, else the last.
 * @return its index. */
int32_t import_add_link(struct import *import, const char *name);

/** Connect two vertices by a cable of kind @link, unless they are already connected or the same. */
void import_connect(struct import *import, int32_t a, int32_t b, int32_t link);

/** What a driver calls a device of platforms/devices: all texts are in the model's name, the first
 * as whole words. */
struct driver {
    const char *device;
    const char *word[3]; /**< in any case; NULL: no more */
};

/** The rows of drivers.csv, of which the first that fits counts; ends with device NULL. */
extern const struct driver known_drivers[];

/** Set the device that a driver calls @model ("NVIDIA A100-SXM4-80GB"), or warn that we have no
 * such device. */
void import_set_device(struct import *import, const char *model);

/** How each file that an import writes begins. */
#define IMPORT_FILE "# Written by foretrain import"

/** What the user asked for. */
struct import_request {
    struct request head;
    const char *to;       /**< the platform file to write; NULL: none */
    const char *platform; /**< whose nodes are taken; NULL: nobody's */
    const char *job;      /**< whose prediction stands beside a trace; NULL: none */
    int32_t nodes, ranks; /**< 0: as the file says */
    const char *with; /**< what `to` was of earlier traces, which are fitted together; or NULL */
    bool overwrite;   /**< any file at `to` */
};

/** The columns of the answer. */
extern const struct answer_columns import_columns;

/** Fill gaps, write the platform to @request->to (if given), and append the data found, the
 * assumptions and the written file, for people or as JSON. @return 0, or -1: the platform cannot be
 * written (exit codes 73, 74), or the file does not describe a complete platform. */
int import_finish(struct import *import, const struct import_request *request, struct text *out,
                  struct err *err);

void import_release(struct import *import);

/** A reader of one kind of file: fills @import from its file; @request has the options.
 * @return 0, or -1 with messages that give file and line: the file has no usable data. */
typedef int import_reader(struct import *import, const struct import_request *request,
                          struct err *err);

/** Any kind that foretrain-read knows: import_draft.h. */
import_reader import_draft;

/** A log of training, whose steps a job's are compared with: which speed of devices makes them
 * equal. */
import_reader import_log;

/** A Chrome trace as PyTorch's profiler writes, or foretrain's own. */
import_reader import_trace;

/* ---- from times by size to the links of a platform ---- */

/** The one line that a platform can hold. */
struct curve_line {
    double latency, bandwidth; /**< [s], [bytes/s] */
    int32_t first;             /**< the row of the sorted curve from which on it is fitted */
};

/** Take two ranks on @nodes nodes, 1 or 2: seconds by size of one message (@latency) and of
 * messages in flight together (@bandwidth); one of both may be empty.  Latency follows from the
 * first; bandwidth from the second, where it is there, at the sizes that gradients have.  @return
 * 0, or -1: the messages of import_fit_line(). */
int import_fit_pair(struct import *import, struct curve *latency, struct curve *bandwidth,
                    int32_t nodes, struct err *err);

/** Interpret @curve as all-reduces of @ranks ranks on @nodes nodes, as rings of 2 (ranks - 1)
 * messages of one rank-th of the bytes; this gives bandwidth and latency of the links of a platform
 * with equal nodes.  @return 0, or -1: unequal numbers of ranks per node, or the messages of
 * import_fit_line(). */
int import_fit_ring(struct import *import, struct curve *curve, int32_t ranks, int32_t nodes,
                    struct err *err);

/** Compare @curve, the times of all-reduces of @ranks ranks on @nodes nodes, with NCCL's own model
 * of request->platform or of one of the library whose nodes have as many of these devices; this
 * gives the corrections of a platform that extends that one.
 * @return 0, 1: there is none, -1: messages about request->platform. */
int import_fit_nccl(struct import *import, const struct import_request *request,
                    const struct curve *curve, int32_t ranks, int32_t nodes, struct err *err);

/* ---- drafts ---- */

/* What foretrain-read prints of a file of another tool: the draft of a platform, as JSON.
 *
 * A draft is an object.  Numbers are in SI; [value, provenance, source] is a quantity.
 *
 * | member | meaning |
 * |---|---|
 * | understood, assumed, warnings | lines for people |
 * | description | text |
 * | device, model | of platforms/devices; what a driver calls one |
 * | nodes, cards | how many; cards of a node of which the file knows no more |
 * | vertices | [devices, switches, CPUs, cards] of a node |
 * | links | kinds of cable: {name, bandwidth, efficiency} |
 * | cables | [vertex, vertex, kind of cable]; vertices are numbered as in core/network/wiring.h |
 * | nic | {bandwidth, efficiency} of a card |
 * | tiers | smallest first: {name, nodes, uplinks (0: not known), rails, bandwidth} |
 * | nccl | {intra, channels, why, bandwidth} |
 * | steps | of a run: {seconds or tokens, spread, count, devices, batch, tensor, pipeline} |
 * | times | all-reduces: {ranks, nodes, rows: [[bytes, seconds], ...]}; nccl: version, where NCCL
 * ran | | pair | messages of two ranks: {nodes, latency: rows, bandwidth: rows} |
 *
 * The program is written in Python and optional; app/readers has its sources. */

/** Run foretrain-read for a file @name of kind @kind, whose content is the open file @input; of
 * ONNX, @ranks is 1 where operations that are not known count by the bytes they move.
 * @return its answer, to be released with json_free(), or NULL: Python or the program is not there
 * (exit code 69), the program's message and exit code, that it was killed (70). */
struct json *import_run_reader(const char *kind, const char *name, int input, int32_t ranks,
                               int32_t nodes, struct err *err);
