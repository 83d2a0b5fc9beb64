/* Beats use the transport of all other messages, so that they fail when those fail.  Rank 0 has a
 * link to every other rank, these have one to rank 0. */

#include <pthread.h>

#include "exec/world/plane.h"
#include "exec/world/watch.h"

/* To one other rank. */
struct link {
    struct watched *peer; /* borrowed from the watch */
    struct parcel *in, *out;
    struct beat arriving, leaving; /* the buffers of these */
    bool left;                     /* our last beat is on its way */
};

static struct {
    bool running;
    struct watch watch;
    struct link *link;    /* (watch.count) */
    struct identity *who; /* of all ranks */
    pthread_t thread;
    pthread_mutex_t lock; /* of stop */
    pthread_cond_t stopped;
    bool stop;
    const char *advice; /* borrowed */
} heart;

static struct beat own_beat(bool last)
{
    struct liveness own = world_last_progress();
    return (struct beat){.step = own.step,
                         .bucket = own.bucket,
                         .waiting = own.waiting,
                         .last = last,
                         .age_s = own.age_s,
                         .late_s = heart.watch.late_s};
}

static void listen(struct link *link)
{
    link->in =
        plane_receive(PLANE_BEATS, link->peer->rank, &link->arriving, sizeof(link->arriving));
}

static void hear(struct link *link)
{
    while (!link->peer->gone && plane_done(&link->in)) {
        watch_hear(link->peer, &link->arriving, world_now());
        if (!link->peer->gone)
            listen(link);
    }
}

/* Nothing is sent while the previous beat is still on its way. */
static void tell(struct link *link, bool last)
{
    if (!plane_done(&link->out) || link->left)
        return;
    link->leaving = own_beat(last);
    link->left = last;
    if (heart.watch.rank != 0)
        heart.watch.late_s = 0;
    link->out = plane_send(PLANE_BEATS, link->peer->rank, &link->leaving, sizeof(link->leaving));
}

/* Does not return. */
static void give_up(struct text *out)
{
    if (heart.advice)
        text_add(out, "foretrain-exec: %s\n", heart.advice);
    fputs(out->data, stderr);
    text_release(out);
    world_abort(71);
}

/* The lock is held for microseconds at a time, unless a call of MPI has got stuck. */
static void lock_or_give_up(void)
{
    if (world_try_lock(heart.watch.timeout_s))
        return;
    struct text out = {0};
    watch_name(&out, &heart.watch, heart.watch.rank);
    text_add(&out, " has been inside one call of MPI for %.0f s\n", heart.watch.timeout_s);
    give_up(&out);
}

/* @return whether all links are closed on both sides. */
static bool beat_once(bool stop)
{
    bool closed = true;
    lock_or_give_up();
    for (int32_t i = 0; i < heart.watch.count; i++) {
        struct link *link = &heart.link[i];
        hear(link);
        tell(link, stop);
        closed &= plane_done(&link->out) && link->peer->gone && link->left;
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
    for (bool stop = false, closed = false; !closed;) {
        closed = beat_once(stop);
        AUTORELEASE(text) struct text out = {0};
        struct beat own = own_beat(false);
        if (watch_check(&heart.watch, &own, world_now(), &out))
            give_up(&out);
        fputs(out.data ? out.data : "", stderr);
        if (stop)
            nanosleep(&short_nap, NULL);
        else
            stop = sleep_until_stop(heart.watch.period_s);
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
    heart.link = base_alloc(heart.watch.count, sizeof(*heart.link));
    world_lock();
    for (int32_t i = 0; i < heart.watch.count; i++) {
        heart.link[i].peer = &heart.watch.peer[i];
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
    heart.advice = advice;
    heart.stop = false;
    introduce();
    watch_init(&heart.watch, world_self().rank, world_self().ranks, timeout_s,
               timeout_s / 4 < longest_period ? timeout_s / 4 : longest_period, heart.who,
               world_now());
    open_links();
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

void world_describe(struct text *out, int32_t rank)
{
    text_add(out, "rank %d of %d", rank, world_self().ranks);
    if (heart.running)
        watch_describe(out, &heart.who[rank]);
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
    watch_release(&heart.watch);
    free(heart.link);
    free(heart.who);
    heart.running = false;
}
