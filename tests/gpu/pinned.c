/** @file
 * Lets a GPU work on what tests of kernels hand them: memory of base_alloc() and variables on the
 * stack.
 *
 * base_alloc(), free() and realloc() are wrapped when the program is linked (ld --wrap): memory is
 * pinned, which a GPU addresses as the host does.  The stack of the main thread is pinned where it
 * lies; where a driver refuses that, the program ends with exit status 77.  Kernels end before
 * their launch returns (CUDA_LAUNCH_BLOCKING), so a test may look at once. Slow, and all that a
 * test needs.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

#include "tests/cuda/fake/emulate_order.h"

enum { STACK = 1 << 20, LIVE = 1 << 16 };

/* Pinned memory that is in use. */
static struct {
    void *memory;
    size_t size;
} live[LIVE];
static int32_t live_count;

void *__wrap_base_alloc(int64_t count, size_t size);
void __real_free(void *memory);
void __wrap_free(void *memory);
void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static void need(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "cannot %s: %s\n", what, cudaGetErrorString(error));
    _exit(70);
}

static int32_t place_of(const void *memory)
{
    int32_t i = live_count - 1;
    while (i >= 0 && live[i].memory != memory)
        i--;
    return i;
}

void *__wrap_base_alloc(int64_t count, size_t size)
{
    size_t bytes = (size_t)count * size + !count;
    if (live_count == LIVE)
        need(cudaErrorMemoryAllocation, "keep track of so much memory");
    need(cudaMallocHost(&live[live_count].memory, bytes), "pin memory");
    live[live_count].size = bytes;
    return memset(live[live_count++].memory, 0, bytes);
}

void __wrap_free(void *memory)
{
    int32_t i = memory ? place_of(memory) : -1;
    if (i < 0) {
        __real_free(memory);
        return;
    }
    need(cudaFreeHost(memory), "release memory: a kernel has failed");
    live[i] = live[--live_count];
}

void *__wrap_realloc(void *memory, size_t size)
{
    int32_t i = memory ? place_of(memory) : -1;
    if (i < 0)
        return __real_realloc(memory, size);
    size_t before = live[i].size;
    void *larger = __wrap_base_alloc(1, size);
    memcpy(larger, memory, before < size ? before : size);
    __wrap_free(memory);
    return larger;
}

/* A GPU runs threads in an order of its own. */
void emulate_backwards(bool backwards)
{
    (void)backwards;
}

/* From the top of the stack of main() down to what tests may come to use. */
static void pin_stack(void)
{
    volatile char room[STACK];
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < sizeof(room); i += page)
        room[i] = 0; /* so that the pages are there */
    uintptr_t from = (uintptr_t)room & ~(page - 1);
    uintptr_t to = ((uintptr_t)__builtin_frame_address(0) | (page - 1)) + 1;
    void *there = NULL;
    cudaError_t error = cudaHostRegister((void *)from, to - from, cudaHostRegisterMapped);
    if (!error)
        error = cudaHostGetDevicePointer(&there, (void *)from, 0);
    if (!error && there == (void *)from)
        return;
    printf("cannot pin the stack: %s\n", error ? cudaGetErrorString(error) : "it moves");
    fflush(stdout);
    _exit(77); /* says nothing of our kernels */
}

/* Before the constructor of real_runtime.c, which starts the driver. */
__attribute__((constructor(65000))) static void block(void)
{
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
}

int __real_main(void);
int __wrap_main(void);

/* Pinned from main() on: what main() and its callees put on the stack lies below this frame. */
int __wrap_main(void)
{
    pin_stack();
    int failed = __real_main();
    need(cudaDeviceSynchronize(), "finish");
    return failed;
}
