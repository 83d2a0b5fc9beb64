#pragma once

/** @file
 * Tests in C++ of what ends the process.
 */

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include <sys/wait.h>
#include <unistd.h>

/** Of expect(). */
static int failures;

/** Print whether @what @holds. */
static inline void expect(bool holds, const char *what)
{
    printf("%s %s\n", holds ? "ok    " : "FAILED", what);
    failures += !holds;
}

/** Run @wrong in a child, which must abort with @message. */
static inline void refuses(const char *message, const std::function<void()> &wrong)
{
    int ends[2];
    char text[1000] = "";
    fflush(nullptr);
    if (pipe(ends) != 0)
        exit(1);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        wrong();
        _exit(0);
    }
    close(ends[1]);
    for (size_t got = 0; got < sizeof(text) - 1;) {
        ssize_t more = read(ends[0], text + got, sizeof(text) - 1 - got);
        if (more <= 0)
            break;
        got += (size_t)more;
    }
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    expect(!WIFEXITED(status) || WEXITSTATUS(status) != 0, message);
    expect(strstr(text, message), "... and says so");
    if (!strstr(text, message))
        printf("it said: %s\n", text);
}
