#pragma once

/** @file
 * libforetrain: predictions of distributed training jobs.
 *
 * Open a job, set values, predict, read the answer as JSON:
 *
 *     struct foretrain_error error = {0};
 *     struct foretrain_job *job = foretrain_job_open("job.yaml");
 *     foretrain_job_set(job, "cluster.nodes=64");
 *     struct foretrain_answer *answer = foretrain_predict(job, NULL, &error);
 *     puts(answer ? foretrain_answer_json(answer) : error.text);
 *
 * The library keeps no state, so threads may use jobs of their own at the same time.  It starts no
 * process, prints nothing and reads only the files that a job names.  It ends the process in one
 * case: no memory is left.
 */

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Of this header; it grows when a function or a struct below changes. */
#define FORETRAIN_API 1

/** The version of the library, "0.1.0", and the FORETRAIN_API that it was built with. */
const char *foretrain_version(void);
int foretrain_api(void);

/** Why a call failed.  Start from {0}; release with foretrain_error_release(). */
struct foretrain_error {
    int code;   /**< as foretrain exits: 64 wrong use, 65 wrong data, 66 no such file, 69 not
                     available, 70 a fault of ours, 71 of the system */
    char *text; /**< messages for people, "job.yaml:3:9: error: ..." with the line and a mark
                     below it */
};

/** Set @error, from a callback; @text is copied. */
void foretrain_error_set(struct foretrain_error *error, int code, const char *text);

void foretrain_error_release(struct foretrain_error *error);

/** A job that is to be predicted.  Nothing of it is read before foretrain_predict(). */
struct foretrain_job;

/** The job at @path.  Platforms, devices, software and networks are found as the command line finds
 * them: in platforms/ beside the library or in its share/foretrain, or in $FORETRAIN_DATADIR. */
struct foretrain_job *foretrain_job_open(const char *path);

/** The job @text, called @name in messages; files that it names are looked up in @name's folder. */
struct foretrain_job *foretrain_job_open_text(const char *name, const char *text);

/** Opens documents: the text of @name (of malloc()) with its @length, or NULL: there is none.
 * @name is as it was written: that of the job, "dgx-h100", "./net.yaml". */
typedef char *foretrain_open(void *context, const char *name, size_t *length);

/** The job @name, which @open has, with all that it names; nothing is read from disk. */
struct foretrain_job *foretrain_job_open_with(const char *name, foretrain_open *open,
                                              void *context);

/** Set a value of @job, as --set does: "cluster.nodes=64", "device.memory=80GB". */
void foretrain_job_set(struct foretrain_job *job, const char *assignment);

void foretrain_job_free(struct foretrain_job *job);

/** A simulator, for a caller that can start programs. */
struct foretrain_simulator {
    /** Run foretrain-sim with @document as its standard input and set @output to what it prints (of
     * malloc()).  @return 0, or -1 with @error. */
    int (*run)(void *context, const char *document, char **output, struct foretrain_error *error);
    void *context;
    const char *grain; /**< as --grain has it: "smoothed"; NULL: chosen */
};

/** What was predicted. */
struct foretrain_answer;

/** Predict @job by @simulator, or in closed form if that is NULL.
 * @return the answer, or NULL with @error: also where the grain is none. */
struct foretrain_answer *foretrain_predict(const struct foretrain_job *job,
                                           const struct foretrain_simulator *simulator,
                                           struct foretrain_error *error);

/** The answer as `foretrain predict --json` prints it; `foretrain schema result` describes it.
 * Borrowed. */
const char *foretrain_answer_json(const struct foretrain_answer *answer);

/** The step [s] in each of @count draws of everything uncertain, which the interval is made of;
 * draw k of two jobs shares its random numbers.  NULL: there are none.  Borrowed. */
const double *foretrain_answer_steps(const struct foretrain_answer *answer, int *count);

void foretrain_answer_free(struct foretrain_answer *answer);

#ifdef __cplusplus
}
#endif
