/** @file
 * What kernels access, told by the calls that a compiler inserts for its thread sanitizer
 * (-fsanitize=thread), which is not linked.
 *
 * Ends the process where two threads of a launch access a byte, one of them writes, and no barrier
 * of their block is between; where a block reads shared memory that it has not written; where a
 * kernel leaves its allocation, or accesses memory of the host that is not pinned.  A warp's
 * exchanges order nothing, as on a GPU.  Passes accesses on to watch.hpp.
 */

#include "tests/cuda/fake/emulate_now.hpp"
#include "tests/cuda/fake/fake_inner.hpp"
#include "tests/cuda/fake/watch.hpp"

extern const char __data_start, _end; /* of the linker: variables, shared memory among them */

using namespace fake;

namespace
{

region shared;

__attribute__((constructor)) void begin()
{
    size_t size = size_t(&_end - &__data_start);
    shared = {&__data_start, size, nullptr, static_cast<touch *>(reserve(size, sizeof(touch))), 0,
              true};
    watching = true;
}

template <typename T> bool is_in(const char *place, const T &what)
{
    return size_t(place - reinterpret_cast<const char *>(&what)) < sizeof(what);
}

bool is_builtin(const char *place)
{
    return is_in(place, threadIdx) || is_in(place, blockIdx) || is_in(place, blockDim) ||
           is_in(place, gridDim);
}

visit me()
{
    unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    return {blockIdx.y * gridDim.x + blockIdx.x + 1, (uint16_t)thread,
            (uint16_t)emulate_now.barriers};
}

[[noreturn]] void wrong(const char *what, const char *place)
{
    misuse("%s: %p, kernel at 0x%zx, thread %u of block %u", what, (const void *)place,
           code_place(emulate_call_now->kernel), me().thread, me().block - 1);
}

/* Whether a thread does both, or a barrier is between; both are in one launch, or one block. */
bool is_ordered(visit before, visit now)
{
    return before.block == now.block &&
           (before.thread == now.thread || before.barriers != now.barriers);
}

void check_visit(visit before, visit now, const char *place)
{
    if (before.block != 0 && !is_ordered(before, now))
        wrong("two threads access a byte, and no barrier is between", place);
}

/* @return whether the launch has not accessed the byte so before. */
bool visit_byte(touch &touch, visit now, uint32_t when, bool writes, const char *place)
{
    if (touch.when != when)
        touch = {when, {}, {}};
    check_visit(touch.writer, now, place);
    for (visit reader : touch.reader)
        if (writes)
            check_visit(reader, now, place);
    bool first = writes ? touch.writer.block == 0 : touch.reader[0].block == 0;
    if (writes)
        touch.writer = now;
    else
        touch.reader[!first && !is_ordered(touch.reader[0], now)] = now;
    return first;
}

void visit_shared(const char *place, size_t size, bool writes)
{
    visit now = me();
    for (size_t i = 0; i < size; i++) {
        touch &touch = shared.touches[place + i - shared.begin];
        if (!writes && (touch.when != emulate_now.blocks || touch.writer.block == 0))
            wrong("shared memory is read that the block has not written", place + i);
        visit_byte(touch, now, emulate_now.blocks, writes, place + i);
    }
}

void visit_device(const region &region, const char *place, size_t size, bool writes)
{
    bool any = false;
    visit now = me();
    if (place + size > region.begin + region.size)
        wrong("an access beyond an allocation", place);
    for (size_t i = 0; i < size; i++)
        any |= visit_byte(region.touches[place + i - region.begin], now, emulate_now.launches,
                          writes, place + i);
    if (any)
        access(region, place, size, writes, "a kernel", emulate_call_now->kernel);
}

void visit_bytes(const void *at, size_t size, bool writes)
{
    static region last;
    static uint32_t when;
    const char *place = static_cast<const char *>(at);
    const emulate_call *call = emulate_call_now;
    if (!call || is_builtin(place) || emulate_on_stack(place) ||
        size_t(place - static_cast<const char *>(call->parameters)) < call->size)
        return;
    if (size_t(place - shared.begin) < shared.size) {
        visit_shared(place, size, writes);
        return;
    }
    if (size_t(place - last.begin) >= last.size || when != emulate_now.launches)
        last = find_region(place);
    when = emulate_now.launches;
    if (last.size > 0)
        visit_device(last, place, size, writes);
    else if (!is_pinned(place))
        wrong("a kernel accesses what is not the device's memory", place);
}

} // namespace

/* ---- the compiler's calls ---- */

extern "C" {

void __tsan_init(void);
void __tsan_read_range(const void *place, size_t size);
void __tsan_write_range(const void *place, size_t size);

void __tsan_init(void)
{
}

void __tsan_read_range(const void *place, size_t size)
{
    visit_bytes(place, size, false);
}

void __tsan_write_range(const void *place, size_t size)
{
    visit_bytes(place, size, true);
}

#define CALL(name, size, writes)                                                                   \
    void __tsan_##name(const void *place);                                                         \
    void __tsan_##name(const void *place)                                                          \
    {                                                                                              \
        visit_bytes(place, size, writes);                                                          \
    }
CALL(read1, 1, false)
CALL(read2, 2, false)
CALL(read4, 4, false)
CALL(read8, 8, false)
CALL(read16, 16, false)
CALL(write1, 1, true)
CALL(write2, 2, true)
CALL(write4, 4, true)
CALL(write8, 8, true)
CALL(write16, 16, true)
CALL(unaligned_read2, 2, false)
CALL(unaligned_read4, 4, false)
CALL(unaligned_read8, 8, false)
CALL(unaligned_read16, 16, false)
CALL(unaligned_write2, 2, true)
CALL(unaligned_write4, 4, true)
CALL(unaligned_write8, 8, true)
CALL(unaligned_write16, 16, true)
}
