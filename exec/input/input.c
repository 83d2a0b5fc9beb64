#include "exec/input/input.h"

#include <pthread.h>

enum { ROUNDS = 8 };

/* Numbers below left * right as pairs; left is about the root of the count, so few numbers are too
 * large and the walk is short. */
struct radix {
    int64_t left, right;
};

static struct radix split_count(int64_t count)
{
    int64_t left = (int64_t)sqrt((double)count);
    while (left * left < count)
        left++;
    return (struct radix){left, (count + left - 1) / left};
}

static int64_t shift(uint64_t seed, uint64_t epoch, int32_t round, int64_t value, int64_t below)
{
    double uniform = base_uniform(seed, epoch, (uint64_t)round, (uint64_t)value);
    return (int64_t)(uniform * (double)below);
}

static int64_t permute(uint64_t seed, uint64_t epoch, struct radix radix, int64_t number)
{
    int64_t left = number / radix.right, right = number % radix.right;
    for (int32_t i = 0; i < ROUNDS; i++) {
        if (i % 2)
            right = (right + shift(seed, epoch, i, left, radix.right)) % radix.right;
        else
            left = (left + shift(seed, epoch, i, right, radix.left)) % radix.left;
    }
    return left * radix.right + right;
}

struct sample sampler_at(uint64_t seed, int64_t count, int64_t position)
{
    assert(count >= 1 && position >= 0);
    struct radix radix = split_count(count);
    struct sample sample = {(uint64_t)(position / count), position % count};
    do
        sample.index = permute(seed, sample.epoch, radix, sample.index);
    while (sample.index >= count);
    return sample;
}

/* A batch being filled. */
struct slot {
    void *data;        /* (local) images or places of pictures */
    struct crop *crop; /* (local) of pictures; else NULL */
    int32_t *label;    /* (local) */
    bool *stands_in;   /* (local) for a corrupt image */
    int32_t left;      /* images still to come; guarded by the lock */
};

struct input {
    const struct dataset *dataset;
    struct input_job job;
    int64_t size;      /* bytes of an image or of a place */
    struct slot *slot; /* (prefetch) batch b is in slot b % prefetch */
    pthread_t *thread; /* (threads) */

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t free, ready;
    int64_t begun;   /* images given to threads, since the first batch */
    int64_t batches; /* given out */
    int64_t replaced;
    double wait_s;
    bool stop;
};

static int read_sample(const struct input *input, struct sample sample, const struct slot *batch,
                       int64_t place)
{
    void *data = (char *)batch->data + place * input->size;
    if (!input->job.pictures)
        return dataset_read(input->dataset, sample.index, sample.epoch, input->job.augment, data,
                            batch->label + place);
    return dataset_read_picture(input->dataset, sample.index, sample.epoch, input->job.augment,
                                data, batch->crop + place, batch->label + place);
}

/* Read the image at @position, or the next readable one of its epoch, to @place of @batch. */
static void read_at(const struct input *input, int64_t position, const struct slot *batch,
                    int64_t place)
{
    enum { PATIENCE = 1000 };
    int64_t count = dataset_count(input->dataset), start = position - position % count;
    int64_t limit = count < PATIENCE ? count : PATIENCE;
    for (int64_t i = 0; i < limit; i++) {
        struct sample sample =
            sampler_at(input->job.seed, count, start + (position - start + i) % count);
        if (!read_sample(input, sample, batch, place)) {
            batch->stands_in[place] = i > 0;
            return;
        }
    }
    fprintf(stderr, "error: %" PRId64 " samples in a row cannot be read; the run ends\n", limit);
    _exit(65);
}

/* Get the next image to read.  False if there will be none. */
static bool take(struct input *input, int64_t *number)
{
    const struct input_job *job = &input->job;
    while (!input->stop && input->begun / job->local - input->batches >= job->prefetch)
        pthread_cond_wait(&input->free, &input->lock);
    *number = input->begun++;
    return !input->stop;
}

static void *work(void *argument)
{
    struct input *input = argument;
    const struct input_job *job = &input->job;
    int64_t number;
    pthread_mutex_lock(&input->lock);
    while (take(input, &number)) {
        pthread_mutex_unlock(&input->lock);
        int64_t batch = number / job->local, place = number % job->local;
        int64_t before = (batch * job->ranks + job->rank) * job->local; /* in the stream */
        struct slot *slot = &input->slot[batch % job->prefetch];
        read_at(input, job->position + before + place, slot, place);
        pthread_mutex_lock(&input->lock);
        if (--slot->left == 0)
            pthread_cond_signal(&input->ready);
    }
    pthread_mutex_unlock(&input->lock);
    return NULL;
}

static void start_threads(struct input *input)
{
    input->thread = base_alloc(input->job.threads, sizeof(*input->thread));
    for (int32_t i = 0; i < input->job.threads; i++) {
        int status = pthread_create(&input->thread[i], NULL, work, input);
        if (status) {
            fprintf(stderr, "cannot start input thread %d: %s\n", i, strerror(status));
            exit(71);
        }
    }
}

static void open_slot(const struct input *input, struct slot *slot)
{
    int64_t local = input->job.local;
    *slot = (struct slot){
        .left = input->job.local,
        .data = base_alloc(local * input->size, 1),
        .crop = input->job.pictures ? base_alloc(local, sizeof(struct crop)) : NULL,
        .label = base_alloc(local, sizeof(int32_t)),
        .stands_in = base_alloc(local, sizeof(bool)),
    };
}

struct input *input_new(const struct dataset *dataset, const struct input_job *job)
{
    assert(job->rank >= 0 && job->rank < job->ranks && job->local >= 1);
    assert(job->threads >= 1 && job->prefetch >= 1 && job->position >= 0);
    assert(!job->pictures || dataset_has_pictures(dataset));
    struct input *input = base_alloc(1, sizeof(*input));
    int32_t side = dataset_image(dataset);
    int64_t image = dataset_floats(dataset) * (int64_t)sizeof(float);
    input->dataset = dataset;
    input->job = *job;
    input->size = job->pictures ? crop_place(side) : image;
    input->slot = base_alloc(job->prefetch, sizeof(*input->slot));
    for (int32_t i = 0; i < job->prefetch; i++)
        open_slot(input, &input->slot[i]);
    pthread_mutex_init(&input->lock, NULL);
    pthread_cond_init(&input->free, NULL);
    pthread_cond_init(&input->ready, NULL);
    start_threads(input);
    return input;
}

/* Wait for the next batch. */
static struct slot *await_batch(struct input *input)
{
    struct slot *slot = &input->slot[input->batches % input->job.prefetch];
    double begin = base_seconds(CLOCK_MONOTONIC);
    pthread_mutex_lock(&input->lock);
    while (slot->left)
        pthread_cond_wait(&input->ready, &input->lock);
    input->wait_s += base_seconds(CLOCK_MONOTONIC) - begin;
    pthread_mutex_unlock(&input->lock);
    return slot;
}

/* Its images were copied: return their place to the threads. */
static void end_batch(struct input *input, struct slot *slot, int32_t *label)
{
    int32_t local = input->job.local, replaced = 0;
    memcpy(label, slot->label, (size_t)local * sizeof(int32_t));
    for (int32_t i = 0; i < local; i++)
        replaced += slot->stands_in[i];

    pthread_mutex_lock(&input->lock);
    input->replaced += replaced;
    slot->left = local;
    input->batches++;
    pthread_cond_broadcast(&input->free);
    pthread_mutex_unlock(&input->lock);
}

void input_next(struct input *input, float *images, int32_t *label)
{
    assert(!input->job.pictures);
    struct slot *slot = await_batch(input);
    memcpy(images, slot->data, (size_t)(input->job.local * input->size));
    end_batch(input, slot, label);
}

void input_next_pictures(struct input *input, uint8_t *pixels, struct crop *crop, int32_t *label)
{
    assert(input->job.pictures);
    struct slot *slot = await_batch(input);
    for (int64_t i = 0; i < input->job.local; i++) {
        crop[i] = slot->crop[i];
        memcpy(pixels + i * input->size, (const char *)slot->data + i * input->size,
               (size_t)3 * (size_t)crop[i].width * (size_t)crop[i].height);
    }
    end_batch(input, slot, label);
}

struct input_report input_report(struct input *input)
{
    pthread_mutex_lock(&input->lock);
    struct input_report report = {input->batches, input->replaced, input->wait_s};
    pthread_mutex_unlock(&input->lock);
    return report;
}

static void close_slot(struct slot *slot)
{
    free(slot->data);
    free(slot->crop);
    free(slot->label);
    free(slot->stands_in);
}

void input_free(struct input *input)
{
    if (!input)
        return;
    pthread_mutex_lock(&input->lock);
    input->stop = true;
    pthread_cond_broadcast(&input->free);
    pthread_mutex_unlock(&input->lock);
    for (int32_t i = 0; i < input->job.threads; i++)
        pthread_join(input->thread[i], NULL);
    for (int32_t i = 0; i < input->job.prefetch; i++)
        close_slot(&input->slot[i]);
    pthread_mutex_destroy(&input->lock);
    pthread_cond_destroy(&input->free);
    pthread_cond_destroy(&input->ready);
    free(input->thread);
    free(input->slot);
    free(input);
}
