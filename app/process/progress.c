#include "app/process/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/process/process.h"
#include "core/base/base.h"

static const char mark[] = "progress ";

void progress_read(struct progress *progress, int talk)
{
    struct stat status;
    char end[256];
    if (fstat(talk, &status))
        return;
    off_t from = status.st_size < (off_t)sizeof(end) ? 0 : status.st_size - (off_t)sizeof(end) + 1;
    ssize_t got = pread(talk, end, sizeof(end) - 1, from);
    end[got > 0 ? got : 0] = '\0';
    for (char *line = strstr(end, mark), *stop; line; line = strstr(line + 1, mark)) {
        struct progress found = *progress;
        stop = strchr(line, '\n');
        if (!stop || sscanf(line + strlen(mark), "%" SCNd64 "%" SCNd64 "%lf", &found.done,
                            &found.total, &found.seconds) != 3)
            continue;
        found.begun = progress->total ? progress->begun : base_seconds(CLOCK_MONOTONIC);
        *progress = found;
    }
}

const char *progress_skip(const char *talk)
{
    while (!strncmp(talk, mark, strlen(mark))) {
        talk += strcspn(talk, "\n");
        talk += *talk == '\n';
    }
    return talk;
}

double progress_estimate(const struct progress *progress)
{
    if (progress->done <= 0 || progress->seconds < 1.0)
        return 0.0;
    return progress->seconds * (double)progress->total / (double)progress->done;
}

double progress_left(const struct progress *progress)
{
    if (progress->done <= 0)
        return 0.0;
    double rest = (double)(progress->total - progress->done) / (double)progress->done;
    return rest * (base_seconds(CLOCK_MONOTONIC) - progress->begun);
}
