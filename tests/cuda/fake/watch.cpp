#include "tests/cuda/fake/watch.hpp"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include <sys/mman.h>

#include "tests/cuda/fake/fake_inner.hpp"

extern const char __executable_start; /* of the linker */

namespace fake
{

/* A step that accessed memory. */
struct event {
    size_t line;
    uint32_t step;
    const char *what;
    const void *code;
};

/* Events by number, 0 for none.  The readers since the writer; the fourth takes a place. */
struct turn {
    uint32_t writer, reader[3];
};

bool watching;

namespace
{

constexpr size_t GRAIN = 2; /* bytes of the narrowest number that streams write side by side */
constexpr size_t HOST = 0, STREAM_0 = 1;

struct {
    std::mutex lock; /* of all below */
    std::vector<size_t> free_lines;
    times steps = {0, 0}; /* begun, of each line */
    times host, stream_0;
    std::vector<event> events = {event()};
    std::map<const char *, region> regions;
} all_watched;

thread_local size_t current_line;
thread_local const times *current; /* NULL: the host */
thread_local uint32_t current_event;

void join(times &to, const times &from)
{
    if (to.size() < from.size())
        to.resize(from.size());
    for (size_t i = 0; i < from.size(); i++)
        if (to[i] < from[i])
            to[i] = from[i];
}

uint32_t next_step(times &known, size_t line)
{
    uint32_t next = ++all_watched.steps[line];
    if (known.size() <= line)
        known.resize(line + 1);
    return known[line] = next;
}

/* The number of what this thread does; the host's accesses are steps of their own. */
uint32_t event_now(const char *what, const void *code)
{
    if (current && current_event)
        return current_event;
    uint32_t step = current ? (*current)[current_line] : next_step(all_watched.host, HOST);
    all_watched.events.push_back({current ? current_line : HOST, step, what, code});
    return current_event = (uint32_t)all_watched.events.size() - 1;
}

std::string name_of(const event &event)
{
    char text[200];
    snprintf(text, sizeof(text), "%s (code 0x%zx, line %zu, step %u)", event.what,
             event.code ? code_place(event.code) : 0, event.line, event.step);
    return text;
}

/* Ends the process if step @now does not know that step @before is over. */
void check_order(uint32_t before, uint32_t now, const char *place)
{
    const times &known = current ? *current : all_watched.host;
    const event &one = all_watched.events[before], &other = all_watched.events[now];
    if (one.line < known.size() && known[one.line] >= one.step)
        return;
    misuse("nothing orders %s and %s, which access %p", name_of(one).c_str(),
           name_of(other).c_str(), (const void *)place);
}

/* Take a turn at bytes that came to @first before any; @over is a step that is known to be over. */
void take_turn(turn &turn, uint32_t first, uint32_t now, bool writes, const char *place,
               uint32_t &over)
{
    auto check = [&](uint32_t before) {
        if (before == 0 || before == now || before == over)
            return;
        check_order(before, now, place);
        over = before;
    };
    check(turn.writer ? turn.writer : first);
    for (uint32_t reader : turn.reader)
        if (writes)
            check(reader);
    if (writes) {
        turn = {now, {}};
        return;
    }
    size_t i = 0;
    while (i < 2 && turn.reader[i] != 0 && turn.reader[i] != now)
        i++;
    turn.reader[i] = now;
}

} // namespace

size_t code_place(const void *code)
{
    return size_t(static_cast<const char *>(code) - &__executable_start);
}

size_t take_line()
{
    std::lock_guard<std::mutex> guard(all_watched.lock);
    if (all_watched.free_lines.empty()) {
        all_watched.steps.push_back(0);
        return all_watched.steps.size() - 1;
    }
    size_t line = all_watched.free_lines.back();
    all_watched.free_lines.pop_back();
    return line;
}

void give_line(size_t line)
{
    std::lock_guard<std::mutex> guard(all_watched.lock);
    all_watched.free_lines.push_back(line);
}

void learn(times &to, const times &from)
{
    std::lock_guard<std::mutex> guard(all_watched.lock);
    join(to, from);
}

times host_knows()
{
    std::lock_guard<std::mutex> guard(all_watched.lock);
    return all_watched.host;
}

void host_learns(const times &known)
{
    learn(all_watched.host, known);
}

void step(times &known, size_t line, const times &before)
{
    std::lock_guard<std::mutex> guard(all_watched.lock);
    join(known, before);
    next_step(known, line);
}

uint32_t begun_of(size_t line)
{
    std::lock_guard<std::mutex> guard(all_watched.lock);
    return all_watched.steps[line];
}

void count_steps(size_t line, uint32_t steps)
{
    std::lock_guard<std::mutex> guard(all_watched.lock);
    all_watched.steps[line] += steps;
}

void run_on_stream_0(const std::function<void()> &work)
{
    step(all_watched.stream_0, STREAM_0, host_knows());
    working now(STREAM_0, all_watched.stream_0);
    work();
}

void wait_for_stream_0()
{
    host_learns(all_watched.stream_0);
}

working::working(size_t line, const times &known)
    : line(current_line), known(current), event(current_event)
{
    current_line = line;
    current = &known;
    current_event = 0;
}

working::~working()
{
    current_line = line;
    current = known;
    current_event = event;
}

void *reserve(size_t count, size_t size)
{
    void *memory = mmap(nullptr, count * size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        abort();
    }
    return memory;
}

static size_t turns(size_t size)
{
    return size / GRAIN + 1;
}

void add_region(const void *begin, size_t size)
{
    std::lock_guard<std::mutex> guard(all_watched.lock);
    const char *first = static_cast<const char *>(begin);
    all_watched.regions[first] = {first,
                                  size,
                                  static_cast<turn *>(reserve(turns(size), sizeof(turn))),
                                  static_cast<touch *>(reserve(size + 1, sizeof(touch))),
                                  0,
                                  false};
}

void drop_region(const void *begin)
{
    std::lock_guard<std::mutex> guard(all_watched.lock);
    auto found = all_watched.regions.find(static_cast<const char *>(begin));
    munmap(found->second.turn, turns(found->second.size) * sizeof(turn));
    munmap(found->second.touches, (found->second.size + 1) * sizeof(touch));
    all_watched.regions.erase(found);
}

region find_region(const void *place)
{
    std::lock_guard<std::mutex> guard(all_watched.lock);
    const char *at = static_cast<const char *>(place);
    auto found = all_watched.regions.upper_bound(at);
    if (found == all_watched.regions.begin())
        return {};
    --found;
    return at < found->second.begin + found->second.size ? found->second : region{};
}

void access(const region &region, const void *place, size_t size, bool writes, const char *what,
            const void *code)
{
    std::lock_guard<std::mutex> guard(all_watched.lock);
    fake::region &kept = all_watched.regions[region.begin];
    uint32_t now = event_now(what, code), over = 0;
    size_t from = size_t(static_cast<const char *>(place) - region.begin);
    if (!kept.divided && writes && size == region.size) {
        if (kept.first)
            check_order(kept.first, now, region.begin);
        kept.first = now;
        return;
    }
    kept.divided = true;
    for (size_t i = from / GRAIN; i <= (from + size - 1) / GRAIN; i++)
        take_turn(region.turn[i], kept.first, now, writes, region.begin + i * GRAIN, over);
}

} // namespace fake

void fake_access(const void *place, size_t size, bool writes, const char *what)
{
    fake::region region = fake::find_region(place);
    if (size > 0 && region.size > 0)
        fake::access(region, place, size, writes, what, nullptr);
}
