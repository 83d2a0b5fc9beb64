#include "core/backend/chains.h"

/* What each step waits for, and how many wait for it. */
struct waits {
    struct dep *before; /* of step s those from begin[s] to begin[s + 1] */
    int32_t *begin;     /* (steps + 1) */
    int32_t *followers; /* (steps) */
    int32_t *path;      /* (steps) each of one path waits for those that are on it before */
    bool *passed;       /* (steps) whether it is not the last of its path */
    int32_t count, paths, repeats;
};

OWN_RELEASE(waits, it->before, it->begin, it->followers, it->path, it->passed)

/* Whether one of the steps from @from to @to waits for @before, which need not be said then. */
static bool is_implied(const struct waits *waits, int32_t from, int32_t to, struct dep before)
{
    for (int32_t i = from; i < to; i++) {
        struct dep other = waits->before[i];
        if (other.distance || other.step == before.step)
            continue;
        if (!before.distance && before.step < other.step &&
            waits->path[before.step] == waits->path[other.step])
            return true;
        for (int32_t k = waits->begin[other.step]; k < waits->begin[other.step + 1]; k++)
            if (waits->before[k].step == before.step &&
                waits->before[k].distance <= before.distance)
                return true;
    }
    return false;
}

static void add(struct waits *waits, int32_t from, struct dep before)
{
    for (int32_t i = from; i < waits->count; i++)
        if (waits->before[i].step == before.step && waits->before[i].distance == before.distance)
            return;
    waits->before[waits->count++] = before;
}

/* The step that was last on @lane, of the iteration before if there was none in this one. */
static void add_lane(struct waits *waits, int32_t from, const int32_t *last, const int32_t *latest,
                     int32_t lane)
{
    if (lane < 0)
        return;
    bool here = last[lane] >= 0;
    add(waits, from, (struct dep){here ? last[lane] : latest[lane], !here});
}

static void set_last(int32_t *last, const struct step_turn *turn, int32_t id)
{
    last[turn->lane] = id;
    if (turn->other >= 0)
        last[turn->other] = id;
}

static void wait_for(struct waits *waits, const struct schedule *schedule, int32_t id,
                     const int32_t *last, const int32_t *latest)
{
    const struct step_turn *turn = &schedule->turn[id];
    int32_t from = waits->count, kept = from;
    waits->begin[id] = from;
    add_lane(waits, from, last, latest, turn->lane);
    add_lane(waits, from, last, latest, turn->other);
    for (int32_t i = turn->dep_begin; i < turn->dep_end; i++)
        add(waits, from, schedule->dep[i]);
    int32_t all = waits->count;
    for (int32_t i = from; i < all; i++)
        if (!is_implied(waits, i + 1, all, waits->before[i]) &&
            !is_implied(waits, from, kept, waits->before[i]))
            waits->before[kept++] = waits->before[i];
    waits->path[id] = -1;
    for (int32_t i = from; i < kept; i++) {
        struct dep before = waits->before[i];
        waits->followers[before.step]++;
        if (waits->path[id] >= 0 || before.distance || waits->passed[before.step])
            continue;
        waits->path[id] = waits->path[before.step];
        waits->passed[before.step] = true;
    }
    if (waits->path[id] < 0)
        waits->path[id] = waits->paths++;
    waits->count = waits->begin[id + 1] = kept;
}

static struct waits waits_new(const struct schedule *schedule)
{
    int32_t steps = schedule->step_count, lanes = schedule_stages(schedule) * LANE_COUNT;
    AUTOFREE int32_t *last = base_alloc(lanes, sizeof(*last));
    AUTOFREE int32_t *latest = base_alloc(lanes, sizeof(*latest));
    struct waits waits = {
        .before = base_alloc(schedule->dep_count + 2 * (int64_t)steps, sizeof(*waits.before)),
        .begin = base_alloc(steps + 1, sizeof(*waits.begin)),
        .followers = base_alloc(steps, sizeof(*waits.followers)),
        .path = base_alloc(steps, sizeof(*waits.path)),
        .passed = base_alloc(steps, sizeof(*waits.passed))};
    for (int32_t lane = 0; lane < lanes; lane++)
        last[lane] = -1;
    for (int32_t id = 0; id < steps; id++)
        set_last(latest, &schedule->turn[id], id);
    for (int32_t id = 0; id < steps; id++) {
        if (schedule->turn[id].repeats) { /* which asks when another ended */
            waits.followers[schedule->step[id].repeat.since] += 2;
            waits.repeats++;
        }
        wait_for(&waits, schedule, id, last, latest);
        set_last(last, &schedule->turn[id], id);
    }
    return waits;
}

/* The step that @id follows at once, which nothing else does, or -1. */
static int32_t leader(const struct waits *waits, const struct schedule *schedule, int32_t id)
{
    if (schedule->turn[id].repeats || waits->begin[id + 1] != waits->begin[id] + 1)
        return -1;
    struct dep before = waits->before[waits->begin[id]];
    bool alone = !before.distance && waits->followers[before.step] == 1;
    return alone && !schedule->turn[before.step].repeats ? before.step : -1;
}

/* Where each chain's end is kept: where that of another was, once the last that asks for it has
 * run. What the next iteration asks for is kept apart. */
static void find_slots(struct chains *chains)
{
    AUTOFREE int32_t *until = base_alloc(chains->count, sizeof(*until));
    AUTOFREE int32_t *unused = base_alloc(chains->count, sizeof(*unused));
    int32_t left = 0;
    for (int32_t c = 0; c < chains->count; c++)
        for (int32_t i = chains->chain[c].begin; i < chains->chain[c + 1].begin; i++) {
            struct dep before = chains->before[i];
            int32_t *last = &until[before.step];
            *last = before.distance ? INT32_MAX : c > *last ? c : *last;
            chains->chain[before.step].leads |= !before.distance;
        }
    for (int32_t c = 0; c < chains->count; c++) {
        struct chain *own = &chains->chain[c];
        own->slot = left ? unused[--left] : chains->slots++;
        for (int32_t i = own->begin; i < own[1].begin; i++)
            if (until[chains->before[i].step] == c) {
                until[chains->before[i].step] = -1;
                unused[left++] = chains->chain[chains->before[i].step].slot;
            }
    }
    for (int32_t i = 0; i < chains->chain[chains->count].begin; i++)
        chains->before[i].step = chains->chain[chains->before[i].step].slot;
}

struct chains chains_new(const struct schedule *schedule)
{
    struct chains chains = {0};
    AUTORELEASE(waits) struct waits waits = waits_new(schedule);
    chains.of = base_alloc(schedule->step_count, sizeof(*chains.of));
    chains.chain = base_alloc(schedule->step_count + 1, sizeof(*chains.chain));
    chains.before = base_alloc(waits.count + waits.repeats, sizeof(*chains.before));
    int32_t end = 0;
    for (int32_t id = 0; id < schedule->step_count; id++) {
        int32_t first = leader(&waits, schedule, id);
        if (first >= 0) {
            chains.of[id] = chains.of[first];
            continue;
        }
        const struct step *step = &schedule->step[id];
        if (schedule->turn[id].repeats) {
            chains.chain[chains.count].times = step->repeat.times;
            chains.before[end++] = (struct dep){step->repeat.since, 0};
        }
        for (int32_t i = waits.begin[id]; i < waits.begin[id + 1]; i++)
            chains.before[end++] = waits.before[i];
        chains.of[id] = chains.count++;
        chains.chain[chains.count].begin = end;
    }
    for (int32_t i = 0; i < end; i++)
        chains.before[i].step = chains.of[chains.before[i].step];
    find_slots(&chains);
    chains.seconds = base_alloc(chains.count, sizeof(*chains.seconds));
    chains.end = base_alloc(2 * (int64_t)chains.slots, sizeof(*chains.end));
    return chains;
}

/* The later one of each pair (CHAINS_WIDE). */
static void later(double *time, const double *other)
{
    for (int k = 0; k < CHAINS_WIDE; k++)
        time[k] = other[k] > time[k] ? other[k] : time[k];
}

/* When the last chain of @iteration ends, into zeroed @last (CHAINS_WIDE) [s]. */
static void walk(const struct chains *chains, int32_t iteration, double *last)
{
    double(*all)[CHAINS_WIDE] = chains->end + (int64_t)iteration * chains->slots;
    for (int32_t c = 0; c < chains->count; c++) {
        const struct chain *own = &chains->chain[c];
        double begin[CHAINS_WIDE] = {0}, end[CHAINS_WIDE];
        for (int32_t i = own->begin; i < own[1].begin; i++) {
            struct dep before = chains->before[i];
            if (before.distance <= iteration)
                later(begin, all[before.step - (int64_t)before.distance * chains->slots]);
        }
        for (int k = 0; k < CHAINS_WIDE; k++)
            end[k] = begin[k] + chains->seconds[c][k];
        for (int k = 0; own->times && k < CHAINS_WIDE; k++)
            end[k] += own->times * (begin[k] - all[chains->before[own->begin].step][k]);
        if (!own->leads)
            later(last, end);
        memcpy(all[own->slot], end, sizeof(end));
    }
}

void chains_step(const struct chains *chains, double *step)
{
    double first[CHAINS_WIDE] = {0}, both[CHAINS_WIDE] = {0};
    walk(chains, 0, first);
    walk(chains, 1, both);
    for (int k = 0; k < CHAINS_WIDE; k++)
        step[k] = both[k] - first[k];
}

RELEASE(chains, it->of, it->before, it->chain, it->seconds, it->end)
