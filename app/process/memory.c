/** @file
 * Memory that never fails, also in libraries: malloc() and its kind of a program that links this
 * file.  Libraries take a NULL for the user's mistake (libfyaml: "cannot be read as YAML"), for the
 * end of the text (jansson), or use it.  Not for foretrain-exec: drivers of devices try sizes that
 * they can do without.
 *
 * They stand before those of the C library, or of another allocator that is loaded first.
 */

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Ends at once: what runs at exit and what flushes may need memory.  Nothing of an answer was
 * written: it is kept until it is whole. */
static _Noreturn void end(size_t bytes)
{
    char line[128];
    int length = snprintf(line, sizeof(line), "%s: out of memory: cannot allocate %zu bytes\n",
                          program_invocation_short_name, bytes);
    (void)!write(STDERR_FILENO, line, (size_t)length);
    _exit(71);
}

/* The function of that name behind this file's.  An object of memory that holds it, because ISO C
 * has no conversion from one to the other. */
static void find(const char *name, void *function)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found)
        end(0);
    memcpy(function, &found, sizeof(found));
}

/* What is large is touched in pages of 2 MiB, not of 4 KiB, where the system offers them.  All of
 * the pages that it lies in, since realloc() cannot move a part of them. */
static void *widen(void *memory, size_t size)
{
    size_t within = (size_t)memory % 4096;
    if (size >= (size_t)4 << 20)
        madvise((char *)memory - within, (within + size + 4095) / 4096 * 4096, MADV_HUGEPAGE);
    return memory;
}

void *malloc(size_t size)
{
    static void *(*next)(size_t);
    if (!next)
        find("malloc", &next);
    void *memory = next(size);
    if (!memory)
        end(size);
    return memory;
}

void *calloc(size_t count, size_t size)
{
    static void *(*next)(size_t, size_t);
    if (!next)
        find("calloc", &next);
    void *memory = next(count, size);
    if (!memory)
        end(size && count > SIZE_MAX / size ? SIZE_MAX : count * size);
    return widen(memory, count * size);
}

/* NULL may mean that @size is 0. */
void *realloc(void *old, size_t size)
{
    static void *(*next)(void *, size_t);
    if (!next)
        find("realloc", &next);
    void *memory = next(old, size);
    if (!memory && size > 0)
        end(size);
    return widen(memory, size);
}
