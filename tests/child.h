#pragma once

/** @file
 * Functions that run in a process of their own.
 */

#include <sys/wait.h>

#include "core/base/base.h"
#include "tests/assert.h"

/** Call @function in a child; what it writes to @file (STDOUT_FILENO or STDERR_FILENO) is appended
 * to @said.  @return its exit code, what @function returns if it does; the test fails when it dies.
 */
static inline int child_run(int (*function)(const void *argument), const void *argument, int file,
                            struct text *said)
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], file);
        close(ends[0]);
        close(ends[1]);
        int code = function(argument);
        fflush(NULL);
        _exit(code);
    }
    close(ends[1]);
    char part[4096];
    for (ssize_t size; (size = read(ends[0], part, sizeof(part))) > 0;)
        text_append(said, part, size);
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status))
        fail_msg("the child died of signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}
