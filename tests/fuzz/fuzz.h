#pragma once

/** @file
 * What harnesses share.
 */

#include <sys/mman.h>

#include "tests/own.h"

/** One input: what it does with bytes that a fuzzer made up.  @return 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** The path of a file in memory with @size bytes of @data; every call fills the same one. */
static inline const char *memory_file(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[32];
    if (fd < 0) {
        fd = memfd_create("fuzz", 0);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    }
    if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    return path;
}
