#include "exec/socket_link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/base/base.h"

/* After the channels of exec/world/plane.h: the job ends with the exit code in `bytes`; goodbye. */
enum { FRAME_END = PLANE_CHANNEL_COUNT, FRAME_GOODBYE };

/* What stands before each message. */
struct frame {
    int32_t kind;
    int32_t unused;
    int64_t bytes; /* that follow */
};

struct parcel {
    struct parcel *next;
    struct frame frame;
    int32_t rank;
    bool receives, done;
    char *data;
    int64_t moved; /* of the frame and the data */
};

/* What has arrived and was not asked for yet. */
struct arrival {
    struct arrival *next;
    int64_t bytes, got;
    char data[];
};

struct queue {
    struct arrival *first, **last;
};

/* To one other rank. */
struct link {
    int fd; /* -1: none */
    bool left, lost, told;
    struct parcel *out, **out_last;
    struct frame frame; /* coming in */
    size_t frame_got;
    struct arrival *coming; /* NULL: its frame is not there yet */
    struct queue arrived[PLANE_CHANNEL_COUNT];
};

static struct {
    struct link *link; /* (count) by rank */
    int32_t count;
    struct link_events events;
    int wake[2]; /* a pipe to the thread's poll() */
    bool watched, stopping;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t moved; /* something arrived, was sent, or was lost */
} links = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

/* ---- sending, under the lock ---- */

static void lose(struct link *link)
{
    link->lost = !link->left;
    close(link->fd);
    link->fd = -1;
    pthread_cond_broadcast(&links.moved);
}

/* @return whether the parcel is on its way as a whole. */
static bool send_parcel(struct link *link, struct parcel *parcel)
{
    const int64_t head = sizeof(parcel->frame);
    bool has_data = parcel->frame.kind < PLANE_CHANNEL_COUNT;
    int64_t size = head + (has_data ? parcel->frame.bytes : 0);
    while (parcel->moved < size) {
        bool in_head = parcel->moved < head;
        const char *from = in_head ? (const char *)&parcel->frame + parcel->moved
                                   : parcel->data + (parcel->moved - head);
        int64_t left = (in_head ? head : size) - parcel->moved;
        int more = in_head && size > head ? MSG_MORE : 0;
        ssize_t part = send(link->fd, from, (size_t)left, MSG_NOSIGNAL | MSG_DONTWAIT | more);
        if (part < 0 && errno == EINTR)
            continue;
        if (part < 0)
            return false; /* the thread finds out what is wrong with the connection */
        parcel->moved += part;
    }
    return true;
}

static void flush(struct link *link)
{
    while (link->out && link->fd >= 0 && send_parcel(link, link->out)) {
        struct parcel *parcel = link->out;
        link->out = parcel->next;
        if (!link->out)
            link->out_last = &link->out;
        if (parcel->frame.kind < PLANE_CHANNEL_COUNT)
            parcel->done = true;
        else
            free(parcel); /* nobody waits for it */
        pthread_cond_broadcast(&links.moved);
    }
}

static void wake_thread(void)
{
    ssize_t ignored = write(links.wake[1], "", 1); /* a full pipe wakes it as well */
    (void)ignored;
}

static void put(struct link *link, struct parcel *parcel)
{
    *link->out_last = parcel;
    link->out_last = &parcel->next;
    flush(link);
    if (link->out)
        wake_thread();
}

static void put_word(struct link *link, int32_t kind, int64_t value)
{
    struct parcel *parcel = base_alloc(1, sizeof(*parcel));
    parcel->frame = (struct frame){.kind = kind, .bytes = value};
    put(link, parcel);
}

/* ---- what arrives, under the lock ---- */

/* @return bytes read, 0 when there are none now, -1 when the connection is over. */
static ssize_t read_some(struct link *link, void *to, size_t size)
{
    ssize_t part = recv(link->fd, to, size, MSG_DONTWAIT);
    if (part < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return part <= 0 ? -1 : part;
}

static void file_arrival(struct link *link)
{
    struct queue *queue = &link->arrived[link->frame.kind];
    *queue->last = link->coming;
    queue->last = &link->coming->next;
    link->coming = NULL;
    link->frame_got = 0;
    pthread_cond_broadcast(&links.moved);
}

/* A frame is whole.  @return the exit code that it ends the job with, or -1. */
static int open_frame(struct link *link)
{
    const int64_t absurd = INT64_C(1) << 40;
    const struct frame *frame = &link->frame;
    link->frame_got = 0;
    if (frame->kind == FRAME_END)
        return (int)frame->bytes;
    if (frame->kind == FRAME_GOODBYE) {
        link->left = true;
        pthread_cond_broadcast(&links.moved);
    } else if (frame->kind < 0 || frame->kind > FRAME_GOODBYE || frame->bytes < 0 ||
               frame->bytes > absurd) {
        lose(link);
    } else {
        link->frame_got = sizeof(*frame);
        link->coming = base_alloc(1, sizeof(struct arrival) + (size_t)frame->bytes);
        link->coming->bytes = frame->bytes;
        if (frame->bytes == 0)
            file_arrival(link);
    }
    return -1;
}

/* @return as open_frame(). */
static int take_in(struct link *link)
{
    for (int code = -1; link->fd >= 0;) {
        struct arrival *coming = link->coming;
        char *to = coming ? coming->data + coming->got : (char *)&link->frame + link->frame_got;
        size_t size =
            coming ? (size_t)(coming->bytes - coming->got) : sizeof(link->frame) - link->frame_got;
        ssize_t part = read_some(link, to, size);
        if (part < 0)
            lose(link);
        if (part <= 0)
            return -1;
        if (!coming) {
            link->frame_got += (size_t)part;
            if (link->frame_got == sizeof(link->frame))
                code = open_frame(link);
        } else {
            coming->got += part;
            if (coming->got == coming->bytes)
                file_arrival(link);
        }
        if (code >= 0)
            return code;
    }
    return -1;
}

/* ---- the thread ---- */

static void drain_wake(void)
{
    char buffer[64];
    while (read(links.wake[0], buffer, sizeof(buffer)) > 0)
        continue;
}

/* A rank whose loss the thread has to tell itself, or -1. */
static int32_t untold_loss(void)
{
    for (int32_t rank = 0; rank < links.count && !links.watched && !links.stopping; rank++)
        if (links.link[rank].lost && !links.link[rank].told) {
            links.link[rank].told = true;
            return rank;
        }
    return -1;
}

/* All that is to be done after a poll.  @return as open_frame(). */
static int attend(int32_t *lost)
{
    int code = -1;
    for (int32_t rank = 0; rank < links.count && code < 0; rank++) {
        struct link *link = &links.link[rank];
        if (link->fd < 0)
            continue;
        code = take_in(link);
        flush(link);
    }
    *lost = untold_loss();
    return code;
}

static bool over(void)
{
    bool open = false;
    for (int32_t rank = 0; rank < links.count; rank++)
        open |= links.link[rank].fd >= 0 && (!links.link[rank].left || links.link[rank].out);
    return links.stopping && !open;
}

static void *run(void *unused)
{
    struct pollfd *at = base_alloc(links.count + 1, sizeof(*at));
    for (bool done = false; !done;) {
        int code;
        int32_t lost;
        pthread_mutex_lock(&links.lock);
        for (int32_t rank = 0; rank < links.count; rank++) {
            const struct link *link = &links.link[rank];
            at[rank] = (struct pollfd){.fd = link->left && !link->out ? -1 : link->fd,
                                       .events = (short)(POLLIN | (link->out ? POLLOUT : 0))};
        }
        pthread_mutex_unlock(&links.lock);
        at[links.count] = (struct pollfd){.fd = links.wake[0], .events = POLLIN};
        poll(at, (nfds_t)links.count + 1, -1);
        drain_wake();
        pthread_mutex_lock(&links.lock);
        code = attend(&lost);
        done = over();
        pthread_mutex_unlock(&links.lock);
        if (code >= 0)
            links.events.ended(code);
        if (lost >= 0)
            links.events.lost(lost);
    }
    free(at);
    return unused;
}

/* ---- for the callers ---- */

void link_start(const struct socket_peer *peer, int32_t count, const struct link_events *events)
{
    links.link = base_alloc(count, sizeof(*links.link));
    links.count = count;
    links.events = *events;
    links.watched = links.stopping = false;
    for (int32_t rank = 0; rank < count; rank++) {
        struct link *link = &links.link[rank];
        link->fd = peer[rank].fd;
        link->out_last = &link->out;
        for (int32_t i = 0; i < PLANE_CHANNEL_COUNT; i++)
            link->arrived[i].last = &link->arrived[i].first;
    }
    int status = pipe2(links.wake, O_CLOEXEC | O_NONBLOCK) ? errno : 0;
    if (!status)
        status = pthread_create(&links.thread, NULL, run, NULL);
    if (status) {
        fprintf(stderr, "foretrain-exec: cannot start a thread: %s\n", strerror(status));
        _exit(71);
    }
}

void link_stop(void)
{
    pthread_mutex_lock(&links.lock);
    links.stopping = true;
    for (int32_t rank = 0; rank < links.count; rank++)
        if (links.link[rank].fd >= 0)
            put_word(&links.link[rank], FRAME_GOODBYE, 0);
    pthread_mutex_unlock(&links.lock);
    wake_thread();
    pthread_join(links.thread, NULL);
    for (int32_t rank = 0; rank < links.count; rank++)
        if (links.link[rank].fd >= 0)
            close(links.link[rank].fd);
    close(links.wake[0]);
    close(links.wake[1]);
    free(links.link);
    links.link = NULL;
    links.count = 0;
}

static bool lock_soon(void)
{
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec++;
    return pthread_mutex_timedlock(&links.lock, &deadline) == 0;
}

/* A little later, so that nothing that still arrives resets the connection before it was read. */
void link_end(int code, int32_t except)
{
    const struct timespec nap = {.tv_nsec = 20000000};
    bool open = lock_soon();
    for (int32_t rank = 0; open && rank < links.count; rank++)
        if (links.link[rank].fd >= 0 && rank != except)
            put_word(&links.link[rank], FRAME_END, code);
    for (int32_t tries = 0; open && tries < 50; tries++) {
        open = false;
        for (int32_t rank = 0; rank < links.count; rank++) {
            flush(&links.link[rank]);
            open |= links.link[rank].fd >= 0 && links.link[rank].out;
        }
        nanosleep(&nap, NULL);
    }
}

struct parcel *link_send(enum plane_channel channel, int32_t rank, const void *data, int64_t bytes)
{
    struct parcel *parcel = base_alloc(1, sizeof(*parcel));
    *parcel = (struct parcel){
        .frame = {.kind = channel, .bytes = bytes}, .rank = rank, .data = (char *)(uintptr_t)data};
    pthread_mutex_lock(&links.lock);
    put(&links.link[rank], parcel);
    pthread_mutex_unlock(&links.lock);
    return parcel;
}

struct parcel *link_receive(enum plane_channel channel, int32_t rank, void *data, int64_t bytes)
{
    struct parcel *parcel = base_alloc(1, sizeof(*parcel));
    *parcel = (struct parcel){
        .frame = {.kind = channel, .bytes = bytes}, .rank = rank, .receives = true, .data = data};
    return parcel;
}

/* Hand over what has arrived. */
static void collect(struct parcel *parcel)
{
    struct queue *queue = &links.link[parcel->rank].arrived[parcel->frame.kind];
    struct arrival *arrival = queue->first;
    if (!parcel->receives || parcel->done || !arrival)
        return;
    queue->first = arrival->next;
    if (!queue->first)
        queue->last = &queue->first;
    if (arrival->bytes != parcel->frame.bytes) {
        fprintf(stderr,
                "foretrain-exec: rank %d sent %lld bytes where %lld were expected: are all ranks "
                "the same program?\n",
                parcel->rank, (long long)arrival->bytes, (long long)parcel->frame.bytes);
        _exit(70);
    }
    if (arrival->bytes > 0)
        memcpy(parcel->data, arrival->data, (size_t)arrival->bytes);
    free(arrival);
    parcel->done = true;
}

static bool finish(struct parcel **parcel)
{
    if (!*parcel)
        return true;
    collect(*parcel);
    if (!(*parcel)->done)
        return false;
    free(*parcel);
    *parcel = NULL;
    return true;
}

bool link_done(struct parcel **parcel)
{
    pthread_mutex_lock(&links.lock);
    bool done = finish(parcel);
    pthread_mutex_unlock(&links.lock);
    return done;
}

void link_wait(struct parcel **parcel)
{
    pthread_mutex_lock(&links.lock);
    while (!finish(parcel))
        pthread_cond_wait(&links.moved, &links.lock);
    pthread_mutex_unlock(&links.lock);
}

bool link_lost(int32_t rank)
{
    pthread_mutex_lock(&links.lock);
    bool lost = rank < links.count && links.link[rank].lost;
    pthread_mutex_unlock(&links.lock);
    return lost;
}

void link_watch(bool watched)
{
    pthread_mutex_lock(&links.lock);
    links.watched = watched;
    pthread_mutex_unlock(&links.lock);
    wake_thread();
}
