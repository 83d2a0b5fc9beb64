#include "tests/cuda/fake/emulate.hpp"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include <sys/mman.h>
#include <ucontext.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace
{

constexpr unsigned WARP = 32, MOST_THREADS = 1024;
constexpr size_t LARGEST = 16;         /* bytes that a lane gives at once */
constexpr size_t STACK = 256UL * 1024; /* only what is touched takes memory */

enum class state { ready, at_barrier, at_exchange, ended };

/* Where to go on. */
struct place {
#ifdef __x86_64__
    void *top; /* of its stack, with what a function must keep */
#else
    ucontext_t context;
#endif
};

/* A thread of a block on a stack of its own. */
struct fiber {
    struct place place; /* where it waits */
    void *stack;
    void *fake_stack; /* the sanitizer's */
    enum state state;
    uint3 index;
    unsigned exchanges;              /* so far */
    unsigned char given[2][LARGEST]; /* by turns: nobody is two exchanges ahead */
};

std::mutex lock; /* kernels' shared memory is static: one launch at a time */
bool backwards;
std::atomic<int64_t> launches;
std::vector<std::unique_ptr<fiber>> fibers;
struct place scheduler;
const void *scheduler_stack;
size_t scheduler_size;
fiber *current; /* NULL: the thread has no stack of its own */
const std::function<void()> *running;

[[noreturn]] __attribute__((format(printf, 1, 2))) void wrong(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("wrong use of the device: ", stderr);
    vfprintf(stderr, format, list);
    fprintf(stderr, "; thread (%u, %u) of block (%u, %u)\n", threadIdx.x, threadIdx.y, blockIdx.x,
            blockIdx.y);
    va_end(list);
    abort();
}

/* ---- jumping from stack to stack ---- */

void live();

#ifdef __x86_64__
/* swapcontext() would ask the kernel each time for the signals that are blocked. */
asm(".pushsection .text\n"
    ".type emulate_jump, @function\n"
    "emulate_jump:\n"
    "push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
    "mov %rsp, (%rdi)\n"
    "mov %rsi, %rsp\n"
    "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp\n"
    "ret\n"
    ".size emulate_jump, . - emulate_jump\n"
    ".popsection\n");

extern "C" void emulate_jump(void **from, void *to);

void go(struct place *from, const struct place *to)
{
    emulate_jump(&from->top, to->top);
}

/* As if live() had been called and had jumped away at once: six registers, and where to return to;
 * above it one place more, for functions begin with their stack 8 bytes beside a multiple of 16. */
void prepare(struct place *place, void *stack)
{
    void **top = reinterpret_cast<void **>(static_cast<char *>(stack) + STACK) - 8;
    top[6] = reinterpret_cast<void *>(live);
    place->top = top;
}
#else
void go(struct place *from, const struct place *to)
{
    swapcontext(&from->context, &to->context);
}

void prepare(struct place *place, void *stack)
{
    getcontext(&place->context);
    place->context.uc_stack.ss_sp = stack;
    place->context.uc_stack.ss_size = STACK;
    place->context.uc_link = nullptr;
    makecontext(&place->context, live, 0);
}
#endif

/* ---- switching; the sanitizer wants to know on which stack it is ---- */

void leave([[maybe_unused]] void **fake, [[maybe_unused]] const void *stack,
           [[maybe_unused]] size_t size)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(fake, stack, size);
#endif
}

void arrive([[maybe_unused]] void *fake, [[maybe_unused]] const void **stack,
            [[maybe_unused]] size_t *size)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake, stack, size);
#endif
}

/* Let @fiber go on until it waits or ends. */
void resume(fiber *fiber)
{
    void *fake = nullptr;
    current = fiber;
    threadIdx = fiber->index;
    leave(&fake, fiber->stack, STACK);
    go(&scheduler, &fiber->place);
    arrive(fake, nullptr, nullptr);
    current = nullptr;
}

/* Back to the scheduler, until it resumes this fiber. */
void pause(enum state state)
{
    fiber *self = current;
    self->state = state;
    leave(&self->fake_stack, scheduler_stack, scheduler_size);
    go(&self->place, &scheduler);
    arrive(self->fake_stack, &scheduler_stack, &scheduler_size);
}

/* A fiber runs one thread after another, for ever. */
void live()
{
    arrive(nullptr, &scheduler_stack, &scheduler_size);
    for (;;) {
        (*running)();
        pause(state::ended);
    }
}

void add_fiber()
{
    auto added = std::make_unique<fiber>();
    void *stack = mmap(nullptr, STACK, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) {
        perror("mmap");
        abort();
    }
    added->stack = stack;
    prepare(&added->place, stack);
    fibers.push_back(std::move(added));
}

/* ---- blocks ---- */

uint3 index_of(unsigned thread)
{
    return {thread % blockDim.x, thread / blockDim.x % blockDim.y,
            thread / blockDim.x / blockDim.y};
}

void start(unsigned thread)
{
    while (fibers.size() <= thread)
        add_fiber();
    fiber *fiber = fibers[thread].get();
    fiber->state = state::ready;
    fiber->index = index_of(thread);
    fiber->exchanges = 0;
}

/* Let go those threads from @first to @end - 1 that wait for each other, if all do. */
bool release(unsigned first, unsigned end, enum state waiting)
{
    for (unsigned i = first; i < end; i++)
        if (fibers[i]->state != waiting)
            return false;
    for (unsigned i = first; i < end; i++)
        fibers[i]->state = state::ready;
    return true;
}

/* Run the threads from @first to @end - 1, a warp, until each waits for the block or has ended. */
void run_warp(unsigned first, unsigned end)
{
    do {
        for (unsigned i = first; i < end; i++) {
            fiber *fiber = fibers[backwards ? first + end - 1 - i : i].get();
            if (fiber->state == state::ready)
                resume(fiber);
        }
    } while (release(first, end, state::at_exchange));
}

unsigned count_in(unsigned threads, enum state state)
{
    unsigned count = 0;
    for (unsigned i = 0; i < threads; i++)
        count += fibers[i]->state == state;
    return count;
}

/* Thread 0 waits already; run it and the others to their ends. */
void run_together(unsigned threads)
{
    for (unsigned i = 1; i < threads; i++)
        start(i);
    do {
        for (unsigned i = 0; i < threads; i += WARP) {
            unsigned first = backwards ? (threads - 1) / WARP * WARP - i : i;
            run_warp(first, first + WARP < threads ? first + WARP : threads);
        }
    } while (release(0, threads, state::at_barrier));
    unsigned ended = count_in(threads, state::ended);
    if (ended < threads)
        wrong("of %u threads %u wait at a barrier and %u for their warp, but %u have ended",
              threads, count_in(threads, state::at_barrier), count_in(threads, state::at_exchange),
              ended);
}

void run_block(unsigned threads)
{
    start(0);
    resume(fibers[0].get());
    if (fibers[0]->state != state::ended) {
        run_together(threads);
        return;
    }
    for (unsigned i = 1; i < threads; i++) {
        threadIdx = index_of(backwards ? threads - i : i);
        (*running)();
    }
}

void check(dim3 grid, dim3 block)
{
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    if (threads < 1 || threads > MOST_THREADS || block.z > 64)
        wrong("blocks of %u x %u x %u threads", block.x, block.y, block.z);
    if (grid.x < 1 || grid.x > INT32_MAX || grid.y < 1 || grid.y > 65535 || grid.z != 1)
        wrong("a grid of %u x %u x %u blocks", grid.x, grid.y, grid.z);
}

} // namespace

void emulate_run(dim3 grid, dim3 block, const std::function<void()> &body)
{
    std::lock_guard<std::mutex> guard(lock);
    check(grid, block);
    gridDim = grid;
    blockDim = block;
    running = &body;
    uint64_t blocks = (uint64_t)grid.x * grid.y;
    for (uint64_t i = 0; i < blocks; i++) {
        uint64_t at = backwards ? blocks - 1 - i : i;
        blockIdx = {(unsigned)(at % grid.x), (unsigned)(at / grid.x), 0};
        run_block(block.x * block.y * block.z);
    }
}

void __syncthreads()
{
    if (!current)
        wrong("waits at a barrier, but thread 0 has ended without");
    pause(state::at_barrier);
}

void emulate_exchange(unsigned mask, void *value, size_t size, int distance)
{
    if (mask != 0xffffffffU || size > LARGEST)
        wrong("an exchange that is not emulated: mask %#x, %zu bytes", mask, size);
    if (!current)
        wrong("waits for its warp, but thread 0 has ended without");
    fiber *self = current;
    unsigned turn = self->exchanges++ % 2;
    memcpy(self->given[turn], value, size);
    pause(state::at_exchange);
    unsigned thread = (self->index.z * blockDim.y + self->index.y) * blockDim.x + self->index.x;
    memcpy(value, fibers[thread ^ (unsigned)distance]->given[turn], size);
}

void emulate_count()
{
    launches++;
}

int64_t emulate_launches(void)
{
    return launches;
}

void emulate_backwards(bool turned)
{
    std::lock_guard<std::mutex> guard(lock);
    backwards = turned;
}
