#include "exec/world/watch.h"

void watch_init(struct watch *watch, int32_t rank, int32_t ranks, double timeout_s, double period_s,
                const struct identity *who, double now)
{
    int32_t count = rank == 0 ? ranks - 1 : 1;
    *watch = (struct watch){.rank = rank,
                            .ranks = ranks,
                            .timeout_s = timeout_s,
                            .period_s = period_s,
                            .count = count,
                            .peer = base_alloc(count, sizeof(*watch->peer)),
                            .who = who,
                            .checked = now};
    for (int32_t i = 0; i < count; i++)
        watch->peer[i] =
            (struct watched){.rank = rank == 0 ? 1 + i : 0, .heard = {.bucket = -1}, .when = now};
}

RELEASE(watch, it->peer)

void watch_hear(struct watched *peer, const struct beat *beat, double now)
{
    double late_s = fmax(peer->heard.late_s, beat->late_s); /* the one before may be untold */
    peer->when = now;
    peer->gone = beat->last;
    if (!peer->gone)
        peer->heard = *beat;
    peer->heard.late_s = late_s;
}

void watch_describe(struct text *out, const struct identity *who)
{
    text_add(out, " (host %s, pid %lld)", who->host, (long long)who->process);
}

void watch_name(struct text *out, const struct watch *watch, int32_t rank)
{
    text_add(out, "foretrain-exec: rank %d of %d", rank, watch->ranks);
    watch_describe(out, &watch->who[rank]);
}

static void describe_place(struct text *out, const struct beat *beat)
{
    text_add(out, "step %lld", (long long)beat->step);
    if (beat->bucket >= 0)
        text_add(out, " bucket %d", beat->bucket);
}

/* A watcher that was delayed between two checks grants the others the same delay. */
static void forgive(struct watch *watch, double now)
{
    const double counts = 0.9; /* [s]: our choice; a stop of 2 s is seen as 1 to 2 */
    double late = now - watch->checked - watch->period_s, held_up = late - watch->period_s;
    for (int32_t i = 0; i < watch->count && held_up > 0; i++)
        watch->peer[i].when += held_up;
    if (late > counts) {
        watch->late_s = fmax(watch->late_s, late);
        watch->excused = now + 3 * watch->period_s;
    }
    watch->checked = now;
}

static void tell_late(const struct watch *watch, int32_t rank, double late_s, struct text *out)
{
    if (!(late_s > 0))
        return;
    watch_name(out, watch, rank);
    text_add(out, " did not run for %.1f s\n", late_s);
}

/* Where all ranks were stopped together, only rank 0 is named. */
static void find_late(struct watch *watch, double now, struct text *out)
{
    tell_late(watch, 0, watch->late_s, out);
    watch->late_s = 0;
    for (int32_t i = 0; i < watch->count; i++) {
        struct watched *peer = &watch->peer[i];
        if (now > watch->excused)
            tell_late(watch, peer->rank, peer->heard.late_s, out);
        peer->heard.late_s = 0;
    }
}

/* Ranks above 0 all miss rank 0 at the same time: the first of them reports it, and has two seconds
 * to end the job before the next one does. */
static double patience_with(const struct watch *watch, int32_t rank)
{
    int32_t turn = watch->rank - 1;
    return watch->timeout_s + (rank == 0 ? 2 * (turn < 8 ? turn : 8) : 0);
}

static bool find_silent(const struct watch *watch, double now, struct text *out)
{
    bool found = false;
    for (int32_t i = 0; i < watch->count; i++) {
        const struct watched *peer = &watch->peer[i];
        if (peer->gone || now - peer->when <= patience_with(watch, peer->rank))
            continue;
        watch_name(out, watch, peer->rank);
        text_add(out, " has not answered since ");
        describe_place(out, &peer->heard);
        text_add(out, ", %.0f s ago\n", now - peer->when);
        found = true;
    }
    return found;
}

static bool is_behind(const struct beat *a, const struct beat *b)
{
    return a->step < b->step || (a->step == b->step && a->bucket < b->bucket);
}

static void describe_stalled(const struct watch *watch, const struct beat *beat,
                             const struct beat *least, bool all_wait, struct text *out)
{
    for (int32_t rank = 0; rank < watch->ranks; rank++) {
        if (all_wait ? is_behind(least, &beat[rank]) : beat[rank].waiting)
            continue;
        watch_name(out, watch, rank);
        text_add(out, " is alive but has not gone on since ");
        describe_place(out, &beat[rank]);
        text_add(out, ", %.0f s ago%s\n", beat[rank].age_s,
                 all_wait ? ": all ranks wait for each other" : ", while others wait for it");
    }
}

/* @beat (ranks) as they are now.  @return false: a rank has stopped watching. */
static bool collect(const struct watch *watch, const struct beat *own, double now,
                    struct beat *beat)
{
    beat[0] = *own;
    for (int32_t i = 0; i < watch->count; i++) {
        const struct watched *peer = &watch->peer[i];
        if (peer->gone)
            return false;
        beat[peer->rank] = peer->heard;
        beat[peer->rank].age_s += now - peer->when;
    }
    return true;
}

static bool find_stalled(const struct watch *watch, const struct beat *beat, struct text *out)
{
    const struct beat *least = beat;
    bool all_wait = true, some_wait = false;
    for (int32_t rank = 0; rank < watch->ranks; rank++) {
        if (beat[rank].age_s <= watch->timeout_s)
            return false;
        all_wait &= beat[rank].waiting;
        some_wait |= beat[rank].waiting;
        least = is_behind(&beat[rank], least) ? &beat[rank] : least;
    }
    if (some_wait)
        describe_stalled(watch, beat, least, all_wait, out);
    return some_wait;
}

bool watch_check(struct watch *watch, const struct beat *own, double now, struct text *out)
{
    forgive(watch, now);
    if (find_silent(watch, now, out))
        return true;
    if (watch->rank != 0)
        return false;
    find_late(watch, now, out);
    AUTOFREE struct beat *beat = base_alloc(watch->ranks, sizeof(*beat));
    return collect(watch, own, now, beat) && find_stalled(watch, beat, out);
}
