#pragma once

/** @file
 * A crew: worker processes that do the items of a list, and this process, which takes their
 * answers.
 *
 * Workers are forked, so they know all that this process knows.  Each takes the next item that
 * nobody has.  An answer is one line.  A worker that dies costs its item, no more.  Workers die
 * with this process.
 */

#include <stdint.h>

#include "core/base/base.h"
#include "core/base/err.h"

/** What to do. */
struct crew {
    int32_t workers; /**< at least 1 */
    void *context;

    /** In a worker: do item @index and append whole lines of at most CREW_LINE characters each. May
     * not print. */
    void (*work)(void *context, int64_t index, struct text *lines);

    /** Here: take whole @lines (@length characters) in the order in which they came.
     * @return 0, or -1 with a message: the crew ends. */
    int (*take)(void *context, const char *lines, int64_t length, struct err *err);

    /** Here: the worker of item @index died; @how is "it was ended by signal 11".
     * @return as take. */
    int (*lose)(void *context, int64_t index, const char *how, struct err *err);

    /** Here, once a second. */
    void (*tick)(void *context);
};

enum {
    CREW_LINE = 4000, /**< a pipe takes 4096 at once: lines of two workers never mix */
};

/** Do the items 0 to @count - 1.
 * @return 0, or -1 with a message: what take or lose says, SIGINT came (exit code 130), no process
 * can be started (71).  Then no worker runs any more. */
int crew_run(const struct crew *crew, int64_t count, struct err *err);
