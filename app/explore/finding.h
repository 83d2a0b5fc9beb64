#pragma once

/** @file
 * What one point of a sweep or a plan comes to, and how workers find it for many of them.
 */

#include "app/predict/predict.h"
#include "core/price/price.h"

/** Whether a point was answered. */
enum finding_status {
    FINDING_NONE, /**< not yet */
    FINDING_OK,
    FINDING_REFUSED, /**< what is asked for makes no job: exit codes 64 to 69 */
    FINDING_FAILED,  /**< something broke */
};

/** One point.  Start from {0}; release with finding_release(). */
struct finding {
    enum finding_status status;
    int32_t code;    /**< the exit code that `predict` would have */
    int32_t backend; /**< enum backend_choice */
    char *reason;    /**< one line; NULL: it is FINDING_OK; owned */
    struct figures figures;
    double ratio; /**< of a checked point: the simulated step over that in closed form */
};

/** Its columns: figures, ratio, back end, status and reason. */
extern const struct answer_columns finding_columns;

void finding_release(struct finding *finding);

/** Many jobs, which differ by assignments, and what is asked of them. */
struct findings {
    const char *job;                       /**< its path; borrowed */
    const struct predict_options *options; /**< borrowed */
    const struct price_file *prices;       /**< or NULL; borrowed */
    enum backend_choice backend;
    int32_t draws;        /**< behind each interval */
    int32_t workers;      /**< at least 1 */
    struct err *warnings; /**< those of files; NULL: they are dropped */
    const char *noun;     /**< of what progress is told on a terminal: "points" */
    void *context;

    /** The assignments of job @index. */
    struct texts (*set)(const void *context, int64_t index);

    /** What it comes to, which this takes over; if its process died it is FINDING_FAILED. */
    void (*take)(void *context, int64_t index, struct finding finding);
};

/** Find jobs 0 to @count - 1.
 * @return 0, or -1 with a message: interrupted (exit code 130), no process can be started (71). */
int findings_find(const struct findings *findings, int64_t count, struct err *err);
