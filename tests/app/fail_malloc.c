/* Loaded before libc: the FAIL_MALLOC-th request for memory of the program FAIL_PROGRAM fails. With
 * 0 none does, and a line at the end counts them. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static long fatal = -1, count;

__attribute__((constructor)) static void begin(void)
{
    const char *number = getenv("FAIL_MALLOC"), *program = getenv("FAIL_PROGRAM");
    if (number && program && !strcmp(program, program_invocation_short_name))
        fatal = atol(number);
}

__attribute__((destructor)) static void end(void)
{
    if (fatal == 0)
        fprintf(stderr, "requests: %ld\n", count);
}

static int fails(void)
{
    if (fatal < 0 || __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED) != fatal)
        return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t number, size_t size)
{
    return fails() ? NULL : __libc_calloc(number, size);
}

void *realloc(void *old, size_t size)
{
    return fails() ? NULL : __libc_realloc(old, size);
}
