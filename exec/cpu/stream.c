#include "exec/cpu/stream.h"

#include <pthread.h>

#include "exec/world/world.h"

struct command {
    struct command *next;
    void (*run)(void *argument);
    max_align_t argument[]; /* of any type */
};

struct stream {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct command *first, **last;
    bool closing;
    double released; /* used on its own thread only */
};

/* Records are counted, so that a wait means the records issued before it and no later ones. */
struct event {
    pthread_mutex_t lock;
    pthread_cond_t happened;
    int64_t issued, completed;
    double time;
    double busy; /* what the recording thread had computed until then */
    const struct stream *recorder;
};

/* What a stream does with an event. */
struct point {
    struct event *event;
    struct stream *stream; /* that does it; NULL: any other thread */
    int64_t number;
};

static struct command *next_command(struct stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    while (!stream->first && !stream->closing)
        pthread_cond_wait(&stream->filled, &stream->lock);
    struct command *command = stream->first;
    if (command && !(stream->first = command->next))
        stream->last = &stream->first;
    pthread_mutex_unlock(&stream->lock);
    return command;
}

static void *work(void *argument)
{
    struct stream *stream = argument;
    struct command *command;
    while ((command = next_command(stream))) {
        command->run(command->argument);
        free(command);
    }
    return NULL;
}

static struct stream *stream_new(void)
{
    struct stream *stream = base_alloc(1, sizeof(*stream));
    stream->last = &stream->first;
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->filled, NULL);
    int status = pthread_create(&stream->thread, NULL, work, stream);
    if (status) {
        fprintf(stderr, "foretrain-exec: cannot start a thread: %s\n", strerror(status));
        exit(71);
    }
    return stream;
}

static void stream_free(struct stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->closing = true;
    pthread_cond_signal(&stream->filled);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
    pthread_cond_destroy(&stream->filled);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

void cpu_stream_issue(struct stream *stream, void (*run)(void *argument), const void *argument,
                      size_t size)
{
    struct command *command = base_alloc(1, sizeof(*command) + size);
    command->run = run;
    memcpy(command->argument, argument, size);
    pthread_mutex_lock(&stream->lock);
    *stream->last = command;
    stream->last = &command->next;
    pthread_cond_signal(&stream->filled);
    pthread_mutex_unlock(&stream->lock);
}

static struct event *event_new(void)
{
    struct event *event = base_alloc(1, sizeof(*event));
    pthread_mutex_init(&event->lock, NULL);
    pthread_cond_init(&event->happened, NULL);
    return event;
}

static void event_free(struct event *event)
{
    pthread_cond_destroy(&event->happened);
    pthread_mutex_destroy(&event->lock);
    free(event);
}

static void happen(void *argument)
{
    const struct point *point = argument;
    struct event *event = point->event;
    pthread_mutex_lock(&event->lock);
    event->time = base_seconds(CLOCK_MONOTONIC);
    event->busy = base_seconds(CLOCK_THREAD_CPUTIME_ID);
    event->recorder = point->stream;
    event->completed = point->number;
    pthread_cond_broadcast(&event->happened);
    pthread_mutex_unlock(&event->lock);
    world_progress("step"); /* a long step of the schedule is many of these */
}

static void await(void *argument)
{
    const struct point *point = argument;
    struct event *event = point->event;
    struct stream *stream = point->stream;
    pthread_mutex_lock(&event->lock);
    while (event->completed < point->number)
        pthread_cond_wait(&event->happened, &event->lock);
    if (stream && event->recorder != stream && stream->released < event->time)
        stream->released = event->time;
    pthread_mutex_unlock(&event->lock);
}

static struct point latest(struct event *event, struct stream *stream, bool another)
{
    pthread_mutex_lock(&event->lock);
    event->issued += another;
    struct point point = {event, stream, event->issued};
    pthread_mutex_unlock(&event->lock);
    return point;
}

static void stream_record(struct stream *stream, struct event *event)
{
    struct point point = latest(event, stream, true);
    cpu_stream_issue(stream, happen, &point, sizeof(point));
}

static void stream_wait(struct stream *stream, struct event *event)
{
    struct point point = latest(event, stream, false);
    cpu_stream_issue(stream, await, &point, sizeof(point));
}

static void event_synchronize(struct event *event)
{
    struct point point = latest(event, NULL, false);
    await(&point);
}

/* Seconds between two events, by the monotonic clock. */
static double cpu_event_seconds(struct event *from, struct event *to)
{
    return to->time - from->time;
}

static double when(struct event *event)
{
    return event->time;
}

double cpu_event_busy(struct event *from, struct event *to)
{
    return to->busy - from->busy;
}

double cpu_stream_released(const struct stream *stream)
{
    return stream->released;
}

const struct stream_ops cpu_stream_ops = {
    .stream_new = stream_new,
    .stream_free = stream_free,
    .event_new = event_new,
    .event_free = event_free,
    .record = stream_record,
    .wait = stream_wait,
    .synchronize = event_synchronize,
    .seconds = cpu_event_seconds,
    .when = when,
};
