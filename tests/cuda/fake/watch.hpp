#pragma once

/** @file
 * Races between streams of the software runtime, whatever the order in which it ran their work.
 *
 * Every piece of work on a stream is one step of a line; so is one on another lane of a graph.  A
 * line knows how much of each other is over before its next step: by events, graphs, and what the
 * host had waited for when it issued it.  Two accesses of the same device memory of which one
 * writes, where the later does not know that the earlier is over, end the process (fake::misuse()).
 *
 * Nothing is watched unless tests/cuda/fake/watch_kernels.cpp is in the program, because only
 * kernels compiled for it tell what they access.
 */

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace fake
{

/** By line: how many of its steps are over. */
using times = std::vector<uint32_t>;

/** Whether accesses are watched; set before main() or never. */
extern bool watching;

/** A line of its own; its steps are counted on from those of its last owner. */
size_t take_line();

/** Give @line back: its work is over. */
void give_line(size_t line);

/** Add to @to what @from knows. */
void learn(times &to, const times &from);

/** What the host knows. */
times host_knows();

/** The host has waited for what @known knows. */
void host_learns(const times &known);

/** Begin the next step of @line, which knows @known and @before. */
void step(times &known, size_t line, const times &before);

/** How many steps of @line have begun. */
uint32_t begun_of(size_t line);

/** Count @steps of @line that had their numbers beforehand. */
void count_steps(size_t line, uint32_t steps);

/** While it lives, its thread runs a step of @line, which may go on to learn. */
class working
{
  public:
    working(size_t line, const times &known);
    ~working();
    working(const working &) = delete;
    working &operator=(const working &) = delete;

  private:
    size_t line;
    const times *known;
    uint32_t event;
};

/** A thread of a kernel, between two barriers of its block; all 0: none. */
struct visit {
    uint32_t block; /**< its number + 1 */
    uint16_t thread, barriers;
};

/** What threads did with a byte in one launch, or one block. */
struct touch {
    uint32_t when;
    visit writer, reader[2]; /**< the last one, and two that read since the same barrier */
};

/** Run @work, a step of stream 0, which the host does not wait for. */
void run_on_stream_0(const std::function<void()> &work);

/** Now it does. */
void wait_for_stream_0();

/** Device memory with what is known of it. */
struct region {
    const char *begin;
    size_t size;
    struct turn *turn; /**< of every other byte: the steps that came last */
    touch *touches;    /**< of every byte */
    uint32_t first;    /**< the step that last wrote all of it at once, or 0, */
    bool divided;      /**< before parts of it were accessed */
};

/** Take note of device memory. */
void add_region(const void *begin, size_t size);

/** Forget it. */
void drop_region(const void *begin);

/** The region with @place, or with size 0; valid while that memory is. */
region find_region(const void *place);

/** Memory for @count elements of @size bytes, all 0, of which only what is used counts. */
void *reserve(size_t count, size_t size);

/** The address of @code in the program's file, for addr2line. */
size_t code_place(const void *code);

/** This thread's step, or the host, accesses @size bytes in @region.  @what and @code, an address
 * in the program or NULL, name it in messages. */
void access(const region &region, const void *place, size_t size, bool writes, const char *what,
            const void *code);

} // namespace fake
