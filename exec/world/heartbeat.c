/* Beats go the way of all other messages, so that they also fail when those do.  Rank 0 has a link
 * to every other rank, these have one to rank 0. */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/base.h"
#include "exec/world/plane.h"
#include "exec/world/world.h"

/* What a rank tells of itself. */
struct beat {
    int64_t step;
    int32_t bucket;
    int32_t waiting, last; /* flags; last: the sender stops watching */
    double age_s;          /* of its progress */
};

/* Who a rank is. */
struct identity {
    char host[64];
    int64_t process;
};

/* To one other rank. */
struct link {
    int32_t rank;
    struct parcel *in, *out;
    struct beat arriving, leaving; /* the buffers of these */
    struct beat heard;
    double when; /* it was heard */
    bool gone, left;
};

static struct {
    bool running;
    double timeout_s, period_s;
    int32_t count; /* of links */
    struct link *link;
    struct identity *who; /* of all ranks */
    struct beat *beat;    /* of all ranks, on rank 0 */
    pthread_t thread;
    pthread_mutex_t lock; /* of stop */
    pthread_cond_t stopped;
    bool stop;
    _Atomic(const char *) advice;
} heart;

static struct beat own_beat(bool last)
{
    struct liveness own = world_last_progress();
    return (struct beat){.step = own.step,
                         .bucket = own.bucket,
                         .waiting = own.waiting,
                         .last = last,
                         .age_s = own.age_s};
}

static void listen(struct link *link)
{
    link->in = plane_receive(PLANE_BEATS, link->rank, &link->arriving, sizeof(link->arriving));
}

static void hear(struct link *link)
{
    while (!link->gone && plane_done(&link->in)) {
        link->when = world_now();
        link->gone = link->arriving.last;
        if (link->gone)
            return;
        link->heard = link->arriving;
        listen(link);
    }
}

/* Nothing is sent while the beat before is still on its way. */
static void tell(struct link *link, bool last)
{
    if (!plane_done(&link->out) || link->left)
        return;
    link->leaving = own_beat(last);
    link->left = last;
    link->out = plane_send(PLANE_BEATS, link->rank, &link->leaving, sizeof(link->leaving));
}

static void describe(struct text *out, int32_t rank)
{
    const struct identity *who = &heart.who[rank];
    text_add(out, "foretrain-exec: rank %d of %d (host %s, pid %lld)", rank, world_self().ranks,
             who->host, (long long)who->process);
}

static void describe_place(struct text *out, const struct beat *beat)
{
    text_add(out, "step %lld", (long long)beat->step);
    if (beat->bucket >= 0)
        text_add(out, " bucket %d", beat->bucket);
}

/* Does not return. */
static void give_up(struct text *out)
{
    const char *advice = atomic_load(&heart.advice);
    if (advice)
        text_add(out, "foretrain-exec: %s\n", advice);
    fputs(out->data, stderr);
    text_release(out);
    world_abort(71);
}

/* Ranks above 0 all miss rank 0 at the same time: the first of them that can speaks, and has two
 * seconds to end the job before the next one does. */
static double patience_with(int32_t rank, bool lost)
{
    int32_t turn = world_self().rank - 1;
    return (lost ? 0 : heart.timeout_s) + (rank == 0 ? 2 * (turn < 8 ? turn : 8) : 0);
}

static void check_silence(void)
{
    struct text out = {0};
    double now = world_now();
    for (int32_t i = 0; i < heart.count; i++) {
        const struct link *link = &heart.link[i];
        bool lost = plane_lost(link->rank);
        if (link->gone || now - link->when <= patience_with(link->rank, lost))
            continue;
        describe(&out, link->rank);
        text_add(&out, lost ? " has ended or was killed; its last sign of life was at "
                            : " has not answered since ");
        describe_place(&out, &link->heard);
        text_add(&out, ", %.0f s ago\n", now - link->when);
    }
    if (out.length)
        give_up(&out);
}

static bool is_behind(const struct beat *a, const struct beat *b)
{
    return a->step < b->step || (a->step == b->step && a->bucket < b->bucket);
}

static bool is_to_blame(const struct beat *beat, const struct beat *least, bool all_wait)
{
    return all_wait ? !is_behind(least, beat) : !beat->waiting;
}

static void describe_stalled(const struct beat *beat, const struct beat *least, bool all_wait)
{
    struct text out = {0};
    for (int32_t rank = 0; rank < world_self().ranks; rank++) {
        if (!is_to_blame(&beat[rank], least, all_wait))
            continue;
        describe(&out, rank);
        text_add(&out, " is alive but has not gone on since ");
        describe_place(&out, &beat[rank]);
        text_add(&out, ", %.0f s ago%s\n", beat[rank].age_s,
                 all_wait ? ": all ranks wait for each other" : ", while others wait for it");
    }
    give_up(&out);
}

/* On rank 0. */
static void check_progress(void)
{
    struct beat *beat = heart.beat, *least = beat;
    bool all_wait = true, some_wait = false;
    double now = world_now();
    beat[0] = own_beat(false);
    for (int32_t i = 0; i < heart.count; i++) {
        if (heart.link[i].gone)
            return;
        beat[1 + i] = heart.link[i].heard;
        beat[1 + i].age_s += now - heart.link[i].when;
    }
    for (int32_t i = 0; i <= heart.count; i++) {
        if (beat[i].age_s <= heart.timeout_s)
            return;
        all_wait &= beat[i].waiting;
        some_wait |= beat[i].waiting;
        least = is_behind(&beat[i], least) ? &beat[i] : least;
    }
    if (some_wait)
        describe_stalled(beat, least, all_wait);
}

/* The lock is held for microseconds at a time, unless a call of MPI has got stuck. */
static void lock_or_give_up(void)
{
    if (world_try_lock(heart.timeout_s))
        return;
    struct text out = {0};
    describe(&out, world_self().rank);
    text_add(&out, " has been inside one call of %s for %.0f s\n", plane_name, heart.timeout_s);
    give_up(&out);
}

/* @return whether all links are closed on both sides. */
static bool beat_once(bool stop)
{
    bool closed = true;
    lock_or_give_up();
    for (int32_t i = 0; i < heart.count; i++) {
        struct link *link = &heart.link[i];
        hear(link);
        tell(link, stop);
        closed &= plane_done(&link->out) && link->gone && link->left;
    }
    world_unlock();
    return stop && closed;
}

static bool sleep_until_stop(double seconds)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    int64_t ns = end.tv_nsec + (int64_t)(seconds * 1e9);
    end.tv_sec += ns / 1000000000;
    end.tv_nsec = ns % 1000000000;
    pthread_mutex_lock(&heart.lock);
    while (!heart.stop && pthread_cond_timedwait(&heart.stopped, &heart.lock, &end) != ETIMEDOUT)
        continue;
    bool stop = heart.stop;
    pthread_mutex_unlock(&heart.lock);
    return stop;
}

static void *watch(void *unused)
{
    const struct timespec short_nap = {.tv_nsec = 200000};
    for (bool stop = false; !beat_once(stop);) {
        check_silence();
        if (world_self().rank == 0)
            check_progress();
        if (stop)
            nanosleep(&short_nap, NULL);
        else
            stop = sleep_until_stop(heart.period_s);
    }
    return unused;
}

static void introduce(void)
{
    struct identity own = {.process = getpid()};
    void *all;
    gethostname(own.host, sizeof(own.host) - 1);
    int64_t bytes = world_self().ranks * (int64_t)sizeof(own);
    world_gather(&own, sizeof(own), &all);
    heart.who = all ? all : base_alloc(bytes, 1);
    world_broadcast(heart.who, bytes, 0);
}

static void open_links(void)
{
    struct exec_world self = world_self();
    heart.count = self.rank == 0 ? self.ranks - 1 : 1;
    heart.link = base_alloc(heart.count, sizeof(*heart.link));
    heart.beat = base_alloc(self.ranks, sizeof(*heart.beat));
    world_lock();
    for (int32_t i = 0; i < heart.count; i++) {
        heart.link[i] = (struct link){
            .rank = self.rank == 0 ? 1 + i : 0, .heard = {.bucket = -1}, .when = world_now()};
        listen(&heart.link[i]);
    }
    world_unlock();
}

void world_heartbeat_start(double timeout_s, const char *advice)
{
    const double longest_period = 1;
    pthread_condattr_t monotonic;
    if (heart.running || timeout_s <= 0 || world_self().ranks == 1)
        return;
    world_heartbeat_advise(advice);
    heart.timeout_s = timeout_s;
    heart.period_s = timeout_s / 4 < longest_period ? timeout_s / 4 : longest_period;
    heart.stop = false;
    introduce();
    open_links();
    plane_watch(true);
    pthread_mutex_init(&heart.lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&heart.stopped, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int status = pthread_create(&heart.thread, NULL, watch, NULL);
    if (status) {
        fprintf(stderr, "foretrain-exec: cannot start a thread: %s\n", strerror(status));
        world_abort(71);
    }
    heart.running = true;
}

void world_heartbeat_advise(const char *advice)
{
    atomic_store(&heart.advice, advice);
}

void world_heartbeat_stop(void)
{
    if (!heart.running)
        return;
    pthread_mutex_lock(&heart.lock);
    heart.stop = true;
    pthread_cond_signal(&heart.stopped);
    pthread_mutex_unlock(&heart.lock);
    pthread_join(heart.thread, NULL);
    pthread_cond_destroy(&heart.stopped);
    pthread_mutex_destroy(&heart.lock);
    plane_watch(false);
    free(heart.link);
    free(heart.beat);
    free(heart.who);
    heart.running = false;
}
