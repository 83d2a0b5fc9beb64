#pragma once

/** @file
 * The journal of a sweep: one line of JSON per finished point, so that a sweep that was killed goes
 * on instead of beginning again.
 *
 * The first line says which sweep it is.  The same line may stand again further on, so journals of
 * the shards of one sweep can be put together with cat(1).  A line without its end is one that was
 * being written, and is dropped.
 */

#include "core/base/err.h"
#include "core/base/json.h"

/** An open journal, which no other process writes.  Start from {0}. */
struct journal {
    char *path;    /**< owned; NULL: there is none, and nothing is kept */
    int fd;        /**< with a path; -1: not open */
    double synced; /**< base_seconds(CLOCK_MONOTONIC) when it was last brought to the disk [s] */
};

/** Open or begin the journal at @path (NULL: none) of the sweep that @head says, and call @take for
 * each point in it; @take returns whether it is one.
 * @return 0, or -1: not writable (exit code 73, 74), of another sweep, a damaged line, no journal
 * (65), another process has it (75). */
int journal_open(struct journal *journal, const char *path, const struct json *head,
                 bool (*take)(void *context, const struct json *point), void *context,
                 struct err *err);

/** Append the lines of @text, each with its end, and bring the journal to the disk if it was not
 * for a second.  @return 0, or -1 (exit code 74) with the system's reason. */
int journal_add(struct journal *journal, const char *text, int64_t length, struct err *err);

/** Remove it, which nobody needs any more, and release.
 * @return 0, or -1 (exit code 74) with the system's reason. */
int journal_remove(struct journal *journal, struct err *err);

/** Bring it to the disk and close it. */
void journal_release(struct journal *journal);
