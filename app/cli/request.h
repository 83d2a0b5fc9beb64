#pragma once

/** @file
 * What the user asked for: parts that the records of several commands share, and the rows of
 * options that several commands take.
 *
 * Each command has a record of its own, which begins with a struct request and holds nothing that
 * its options do not set.  A row means the same in every command, so foretrain can pass a request
 * to a child word by word.
 */

#include "app/cli/option.h"
#include "core/backend/backend.h"
#include "core/collective/collective.h"

/** Words of --device: the index in device_words. */
enum device_choice { DEVICE_CPU, DEVICE_CPU_NAIVE, DEVICE_CUDA, DEVICE_REPLAY };

/** The devices of `train`, NULL-terminated, in the order of enum device_choice. */
extern const char *const device_words[];

enum {
    REQUEST_RANKS_MOST = 64, /**< ranks of a job that start without --ranks.  Our choice */
    REQUEST_REPEATS = 8,     /**< the default of --repeats */
    REQUEST_TIMEOUT = 30,    /**< the default of --timeout [s] */
};

/** The first member of every record.  Texts are borrowed from argv. */
struct request {
    struct texts argument; /**< what is no option: JOB, ... */
    struct texts given;    /**< the options: "--name=value" */
    bool help, json;
    const char *csv; /**< file for the table, "-": standard output; NULL: none */
};

/** What ranks compute on. */
struct compute_options {
    int32_t started; /**< ranks to start; 0: one per device of the job */
    int32_t device;  /**< index in device_words */
    int32_t threads; /**< per rank; 0: an equal share of the machine's cores */
};

/** How steps are measured. */
struct machine_options {
    struct compute_options compute;
    const char *networks, *batches;
    int32_t dtype;   /**< enum dtype, of the arithmetic */
    int32_t repeats; /**< of what is measured */
    int32_t limit;   /**< time for one round of all [ms]; 0: none */
    int32_t most;    /**< time after which no further batch begins [ms]; 0: none */
};

enum {
    STEPS_REPEATS_LEAST = 4, /**< of machine_options: quartiles need them */
    REPEATS_MOST = 1000      /**< of both: a mistyped number must not run for hours */
};

/** How an all-reduce is measured. */
struct exchange_options {
    int32_t algorithm; /**< enum algorithm */
    int32_t channels;  /**< a word of channel_names */
    const char *chunk; /**< size of a tree's chunks, or NULL */
    int32_t gradients; /**< enum dtype, that they travel in */
    int32_t repeats;   /**< of what is measured */
};

/** Before any option is read. */
#define EXCHANGE_DEFAULTS .algorithm = ALGORITHM_RING, .repeats = REQUEST_REPEATS

/** The base name of @path, the value of @option ("--to"), without .yaml; the caller frees it.  NULL
 * (exit code 64) if @path does not end in .yaml. */
char *request_yaml_name(const char *option, const char *path, struct err *err);

/** Whether the CSV is all that is printed. */
bool csv_is_answer(const struct request *request);

/** Write @rows, an array of objects that is released, as CSV where @request wants it: to a file,
 * whole or not at all, or onto @out.  @columns give the first line where there is no row; NULL:
 * there always is one.
 * @return 0, or -1: the file cannot be written (exit codes 73, 74). */
int csv_write(const struct request *request, struct json *rows,
              const struct answer_columns *columns, struct text *out, struct err *err);

/** --help, and the end of a table. */
#define ROW_LAST                                                                                   \
    ROW_HELP,                                                                                      \
    {                                                                                              \
        0                                                                                          \
    }

/** The rows, which set the member at the offset @at of the record.  A command lists those it takes;
 * those with "..." take what they need, too: ROW_ORDER(AT(order), .needs = "platform"). */
#define ROW_HELP                                                                                   \
    OPTION_ROW("help", 'h', OPTION_FLAG, offsetof(struct request, help), .help = "Print this")
#define ROW_JSON                                                                                   \
    OPTION_ROW("json", 'j', OPTION_FLAG, offsetof(struct request, json),                           \
               .help = "Print one JSON object")
#define ROW_CSV(what)                                                                              \
    OPTION_ROW("csv", 0, OPTION_OUTPUT, offsetof(struct request, csv), "FILE", NULL,               \
               "Write " what " as CSV; -: print it and nothing else")
#define ROW_SET(at)                                                                                \
    OPTION_ROW("set", 's', OPTION_TEXTS, at, "KEY=VALUE", NULL,                                    \
               "Override one key of the scenario, of its platform (platform.KEY) or device "       \
               "(device.KEY); may be repeated")

/** Keys that have a short option. */
extern const char *const nodes_keys[], *const platform_keys[], *const batch_keys[],
                                                                   *const algorithm_keys[];

/** Short for assignments to the list at the offset @at. */
#define ROW_SET_NODES(at)                                                                          \
    OPTION_ROW("nodes", 'n', OPTION_ASSIGN, at, "N", nodes_keys, "Short for --set cluster.nodes=N")
#define ROW_SET_PLATFORM(at)                                                                       \
    OPTION_ROW("platform", 0, OPTION_ASSIGN, at, "NAME", platform_keys,                            \
               "Short for --set cluster.platform=NAME")
#define ROW_SET_BATCH(at)                                                                          \
    OPTION_ROW("batch", 0, OPTION_ASSIGN, at, "N", batch_keys, "Images per device, in all phases")
#define ROW_SET_ALGORITHM(at)                                                                      \
    OPTION_ROW("algorithm", 'a', OPTION_ASSIGN, at, "NAME", algorithm_keys,                        \
               "Short for --set allreduce.algorithm=NAME")
#define ROW_SET_SHORT(at) ROW_SET(at), ROW_SET_NODES(at), ROW_SET_BATCH(at), ROW_SET_ALGORITHM(at)
#define ROW_SET_ALL(at)   ROW_SET_SHORT(at), ROW_SET_PLATFORM(at)
#define ROW_BACKEND(at)                                                                            \
    OPTION_ROW("backend", 'b', OPTION_WORD, at, NULL, backend_words,                               \
               "Closed form, or simulation (default when installed)")
#define ROW_GRAIN(at)                                                                              \
    OPTION_ROW("grain", 'g', OPTION_WORD, at, NULL, grain_names,                                   \
               "Granularity of the simulation (default: auto)")
#define ROW_ORDER(...)                                                                             \
    OPTION_ROW("order", 0, OPTION_WORD, .words = rank_order_names,                                 \
               .help = "Ranks fill nodes along rows or columns of the grid (default: row)",        \
               .offset = __VA_ARGS__)
#define ROW_ITERATIONS(at)                                                                         \
    OPTION_ROW("iterations", 'i', OPTION_INTEGER, at, "N", NULL,                                   \
               "Training steps to walk; the last counts (default: 1, or 2 with input or noise)")
#define ROW_NOISE(at)                                                                              \
    OPTION_ROW("noise", 0, OPTION_WORD, at, NULL, noise_words,                                     \
               "Jitter and slow ranks: the expectation (default), one draw by the seed, or none")
#define ROW_IGNORE_MEMORY(at)                                                                      \
    OPTION_ROW("ignore-memory", 0, OPTION_FLAG, at,                                                \
               .help = "Predict batches that do not fit the memory of a device")
#define ROW_TRACED_RANKS(at)                                                                       \
    OPTION_ROW("traced-ranks", 0, OPTION_INTEGER, at, "N", NULL,                                   \
               "Ranks whose steps are recorded; 0: all (default: 4)", .zero = true)
#define ROW_SPANS(at)                                                                              \
    OPTION_ROW("spans", 0, OPTION_OUTPUT, at, "FILE", NULL,                                        \
               "Write when each step ran on each rank, as text")
#define ROW_REPORT(...)                                                                            \
    OPTION_ROW("report", 0, OPTION_OUTPUT, .argument = "FILE.html",                                \
               .help = "Write the answer as a page with pictures, which opens without a network",  \
               .offset = __VA_ARGS__)
#define ROW_PRICES(at)                                                                             \
    OPTION_ROW("prices", 0, OPTION_TEXT, at, "NAME", NULL,                                         \
               "A name in prices/ or a file: adds cost, energy and carbon")
#define ROW_PHASE(at)                                                                              \
    OPTION_ROW("phase", 'p', OPTION_INTEGER, at, "N", NULL,                                        \
               "Which phase, from 1 (default: the last)")
#define ROW_BASELINE(at)                                                                           \
    OPTION_ROW("baseline", 0, OPTION_FLAG, at, .help = "The baseline instead of a phase")
#define ROW_IMAGE(at)                                                                              \
    OPTION_ROW("image", 0, OPTION_INTEGER, at, "PIXELS", NULL,                                     \
               "Height and width of the input (default: 224)")
#define ROW_PLATFORM(at)                                                                           \
    OPTION_ROW("platform", 0, OPTION_TEXT, at, "NAME", NULL, "A name in platforms/ or a file")
#define ROW_GRID(at)                                                                               \
    OPTION_ROW("grid", 0, OPTION_TEXT, at, "CxR", NULL, "Columns x rows of ranks: 64x64")
#define ROW_ALGORITHM(at)                                                                          \
    OPTION_ROW("algorithm", 'a', OPTION_WORD, at, NULL, algorithm_names,                           \
               "How to all-reduce (default: ring)")
#define ROW_CHUNK(at)                                                                              \
    OPTION_ROW("chunk", 0, OPTION_TEXT, at, "SIZE", NULL,                                          \
               "Chunks that follow each other through a tree (default: all at once)")
#define ROW_BYTES(at)                                                                              \
    OPTION_ROW(                                                                                    \
        "bytes", 0, OPTION_TEXT, at, "SIZES", NULL,                                                \
        "100MB, a list 1MB,10MB or a range 1MB..64MB:x2 (default: 100MB); as in nccl-tests, 8 is " \
        "bytes, and K, M, G alone are powers of 1024: 8..1G:x2")
#define ROW_GRADIENTS(at)                                                                          \
    OPTION_ROW("gradients", 0, OPTION_WORD, at, NULL, dtype_names,                                 \
               "Type of the numbers on the wire; --bytes counts bytes on the wire "                \
               "(default: fp32)")
#define ROW_REPEATS(at)                                                                            \
    OPTION_ROW("repeats", 0, OPTION_INTEGER, at, "N", NULL,                                        \
               "Undisturbed runs to measure; the lower quartile counts (default: 8)")
#define ROW_STARTED(at)                                                                            \
    OPTION_ROW("ranks", 'n', OPTION_INTEGER, at, "N", NULL,                                        \
               "Ranks to start on this machine (default: the devices of the job)")
#define ROW_DEVICE(at)                                                                             \
    OPTION_ROW("device", 'd', OPTION_WORD, at, NULL, device_words,                                 \
               "What to compute on: oneDNN, plain loops for checking, an NVIDIA GPU per rank, or " \
               "nothing, in the time predicted for the platform")
#define ROW_THREADS(at)                                                                            \
    OPTION_ROW("threads", 0, OPTION_INTEGER, at, "N", NULL,                                        \
               "Threads per rank (default: the cores of the machine, shared out)")
#define ROW_TIMEOUT(at)                                                                            \
    OPTION_ROW("timeout", 0, OPTION_INTEGER, at, "SECONDS", NULL,                                  \
               "Abort if a rank is silent this long; 0: never (default: 30)", .zero = true)
#define ROW_NETWORKS(at)                                                                           \
    OPTION_ROW("networks", 0, OPTION_TEXT, at, "LIST", NULL,                                       \
               "What to train while steps are timed: resnet20,resnet50@64 (with 64 pixels), "      \
               "transformer:layers=2:hidden=64:heads=4:vocab=512:sequence=64")
#define ROW_BATCHES(at)                                                                            \
    OPTION_ROW("batch", 0, OPTION_TEXT, at, "LIST", NULL, "Images per step: 8,32")
#define ROW_DTYPE(at)                                                                              \
    OPTION_ROW("precision", 0, OPTION_WORD, at, NULL, dtype_names,                                 \
               "Of the arithmetic (default: fp32)")
#define ROW_REPLACE(at, what)                                                                      \
    OPTION_ROW("overwrite", 0, OPTION_FLAG, at,                                                    \
               .help = "Replace files that this command did not write", .needs = what)
#define ROW_DIRECTORY(at)                                                                          \
    OPTION_ROW("out", 'o', OPTION_FOLDER, at, "DIR", NULL,                                         \
               "Directory for checkpoints and log files",                                          \
               .holds = "@(run.json|job.*|steps.*|evaluations.csv|*ckpt-*|*snapshot-*)")
