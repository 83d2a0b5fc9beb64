#include "exec/world/watch.h"

#include <stdlib.h>

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

void watch_release(struct watch *watch)
{
    free(watch->peer);
    *watch = (struct watch){0};
}

void watch_hear(struct watched *peer, const struct beat *beat, double now)
{
    peer->when = now;
    peer->gone = beat->last;
    if (!peer->gone)
        peer->heard = *beat;
}

void watch_describe(struct text *out, const struct watch *watch, int32_t rank)
{
    const struct identity *who = &watch->who[rank];
    text_add(out, "foretrain-exec: rank %d of %d (host %s, pid %lld)", rank, watch->ranks,
             who->host, (long long)who->process);
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
    double held_up = now - watch->checked - 2 * watch->period_s;
    for (int32_t i = 0; i < watch->count && held_up > 0; i++)
        watch->peer[i].when += held_up;
    watch->checked = now;
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
        watch_describe(out, watch, peer->rank);
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

static bool is_to_blame(const struct beat *beat, const struct beat *least, bool all_wait)
{
    return all_wait ? !is_behind(least, beat) : !beat->waiting;
}

static void describe_stalled(const struct watch *watch, const struct beat *beat,
                             const struct beat *least, bool all_wait, struct text *out)
{
    for (int32_t rank = 0; rank < watch->ranks; rank++) {
        if (!is_to_blame(&beat[rank], least, all_wait))
            continue;
        watch_describe(out, watch, rank);
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
    struct beat *beat = base_alloc(watch->ranks, sizeof(*beat));
    bool found = collect(watch, own, now, beat) && find_stalled(watch, beat, out);
    free(beat);
    return found;
}
