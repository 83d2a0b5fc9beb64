#include "exec/cuda/pictures/feed.h"

#include <pthread.h>

#include "exec/cuda/kernels/kernels.h"
#include "exec/cuda/runtime/check.h"

/* Arrays of one batch, in either memory. */
struct arrays {
    uint8_t *pixels; /* (batch) places */
    struct crop *crop;
    int32_t *label;
};

/* A batch on its way. */
struct parcel {
    struct arrays host, device;
    cudaEvent_t ready;   /* the device has it */
    cudaEvent_t cropped; /* the device is done with it */
};

struct feed {
    struct device_source source;
    int32_t batch, size;
    int device;
    size_t place;          /* bytes of a picture */
    char *memory, *pinned; /* all parcels' */
    struct parcel parcel[FEED_AHEAD];
    cudaStream_t stream;
    pthread_t thread;
    bool started;

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    int64_t filled, taken; /* batches, since the first */
    bool stop;
};

/* ---- memory ---- */

/* Assign @count elements of @size bytes from @base; NULL: only count the bytes. */
static void *take(char *base, size_t *used, int32_t count, size_t size)
{
    void *place = base ? base + *used : NULL;
    *used += ((size_t)count * size + 255) / 256 * 256;
    return place;
}

/* Bytes of a batch. */
static size_t lay_out(struct arrays *arrays, char *base, int32_t batch, int32_t size)
{
    size_t used = 0;
    arrays->pixels = take(base, &used, batch, (size_t)crop_place(size));
    arrays->crop = take(base, &used, batch, sizeof(*arrays->crop));
    arrays->label = take(base, &used, batch, sizeof(*arrays->label));
    return used;
}

size_t feed_memory(int32_t batch, int32_t size)
{
    struct arrays none;
    return FEED_AHEAD * lay_out(&none, NULL, batch, size);
}

static int allocate(struct feed *feed, struct err *err)
{
    size_t bytes = feed_memory(feed->batch, feed->size);
    if (cudaMalloc((void **)&feed->memory, bytes) != cudaSuccess) {
        cudaGetLastError(); /* or the next launch would be blamed */
        return err_add_code(err, 69,
                            "%d batches of pictures take %.2f GB on the GPU, which are not free: "
                            "use a smaller batch",
                            FEED_AHEAD, 1e-9 * (double)bytes);
    }
    CUDA_CHECK(cudaMallocHost((void **)&feed->pinned, bytes));
    for (size_t i = 0; i < FEED_AHEAD; i++) {
        struct parcel *parcel = &feed->parcel[i];
        size_t begin = i * (bytes / FEED_AHEAD);
        lay_out(&parcel->device, feed->memory + begin, feed->batch, feed->size);
        lay_out(&parcel->host, feed->pinned + begin, feed->batch, feed->size);
    }
    return 0;
}

/* ---- the thread ---- */

static void copy(const struct feed *feed, void *to, const void *from, size_t size)
{
    CUDA_CHECK(cudaMemcpyAsync(to, from, size, cudaMemcpyHostToDevice, feed->stream));
}

/* Only the used part of each place: on average less than half of it. */
static void copy_batch(const struct feed *feed, const struct parcel *parcel)
{
    const struct arrays *host = &parcel->host, *device = &parcel->device;
    for (int32_t i = 0; i < feed->batch; i++) {
        size_t used = (size_t)3 * (size_t)host->crop[i].height * (size_t)host->crop[i].width;
        assert(used <= feed->place);
        copy(feed, device->pixels + (size_t)i * feed->place, host->pixels + (size_t)i * feed->place,
             used);
    }
    copy(feed, device->crop, host->crop, (size_t)feed->batch * sizeof(*host->crop));
    copy(feed, device->label, host->label, (size_t)feed->batch * sizeof(*host->label));
}

static void fill(struct feed *feed, struct parcel *parcel)
{
    CUDA_CHECK(cudaEventSynchronize(parcel->ready)); /* then its pinned memory is free */
    feed->source.next_pictures(feed->source.context, parcel->host.pixels, parcel->host.crop,
                               parcel->host.label);
    CUDA_CHECK(cudaStreamWaitEvent(feed->stream, parcel->cropped, 0));
    copy_batch(feed, parcel);
    CUDA_CHECK(cudaEventRecord(parcel->ready, feed->stream));
}

/* Wait until a batch can be requested.  False if there will be none. */
static bool wait_for_room(struct feed *feed)
{
    while (!feed->stop && feed->filled - feed->taken == FEED_AHEAD)
        pthread_cond_wait(&feed->changed, &feed->lock);
    return !feed->stop;
}

static void *work(void *argument)
{
    struct feed *feed = argument;
    CUDA_CHECK(cudaSetDevice(feed->device));
    pthread_mutex_lock(&feed->lock);
    while (wait_for_room(feed)) {
        struct parcel *parcel = &feed->parcel[feed->filled % FEED_AHEAD];
        pthread_mutex_unlock(&feed->lock);
        fill(feed, parcel);
        pthread_mutex_lock(&feed->lock);
        feed->filled++;
        pthread_cond_signal(&feed->changed);
    }
    pthread_mutex_unlock(&feed->lock);
    return NULL;
}

/* ---- opening and closing ---- */

static int start(struct feed *feed, struct err *err)
{
    int status = pthread_create(&feed->thread, NULL, work, feed);
    feed->started = status == 0;
    return status ? err_add_code(err, 69, "the thread that feeds the GPU does not start: %s",
                                 strerror(status))
                  : 0;
}

int feed_open(struct feed **out, const struct device_source *source, int32_t batch, int32_t size,
              struct err *err)
{
    struct feed *feed = base_alloc(1, sizeof(*feed));
    *feed = (struct feed){
        .source = *source, .batch = batch, .size = size, .place = (size_t)crop_place(size)};
    pthread_mutex_init(&feed->lock, NULL);
    pthread_cond_init(&feed->changed, NULL);
    CUDA_CHECK(cudaGetDevice(&feed->device));
    CUDA_CHECK(cudaStreamCreateWithFlags(&feed->stream, cudaStreamNonBlocking));
    unsigned flags = cudaEventBlockingSync | cudaEventDisableTiming;
    for (size_t i = 0; i < FEED_AHEAD; i++) {
        CUDA_CHECK(cudaEventCreateWithFlags(&feed->parcel[i].ready, flags));
        CUDA_CHECK(cudaEventCreateWithFlags(&feed->parcel[i].cropped, flags));
    }
    if (allocate(feed, err) || start(feed, err)) {
        feed_close(feed);
        return -1;
    }
    *out = feed;
    return 0;
}

static void stop(struct feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    feed->stop = true;
    pthread_cond_signal(&feed->changed);
    pthread_mutex_unlock(&feed->lock);
    pthread_join(feed->thread, NULL);
}

void feed_close(struct feed *feed)
{
    if (!feed)
        return;
    if (feed->started)
        stop(feed);
    CUDA_CHECK(cudaStreamSynchronize(feed->stream));
    for (size_t i = 0; i < FEED_AHEAD; i++) {
        CUDA_CHECK(cudaEventDestroy(feed->parcel[i].ready));
        CUDA_CHECK(cudaEventDestroy(feed->parcel[i].cropped));
    }
    CUDA_CHECK(cudaStreamDestroy(feed->stream));
    CUDA_CHECK(cudaFreeHost(feed->pinned));
    CUDA_CHECK(cudaFree(feed->memory));
    pthread_cond_destroy(&feed->changed);
    pthread_mutex_destroy(&feed->lock);
    free(feed);
}

/* ---- batches ---- */

static struct parcel *wait_for_batch(struct feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    while (feed->filled == feed->taken)
        pthread_cond_wait(&feed->changed, &feed->lock);
    struct parcel *parcel = &feed->parcel[feed->taken % FEED_AHEAD];
    pthread_mutex_unlock(&feed->lock);
    return parcel;
}

void feed_crop(struct feed *feed, cudaStream_t stream, enum dtype type, int32_t to, void *images,
               int32_t *label)
{
    const struct parcel *parcel = wait_for_batch(feed);
    const struct arrays *device = &parcel->device;
    CUDA_CHECK(cudaStreamWaitEvent(stream, parcel->ready, 0));
    kernel_augment(stream, type, feed->batch, feed->size, to, device->pixels, (int64_t)feed->place,
                   device->crop, &feed->source.tint, images);
    CUDA_CHECK(cudaMemcpyAsync(label, device->label, (size_t)feed->batch * sizeof(*label),
                               cudaMemcpyDeviceToDevice, stream));
    CUDA_CHECK(cudaEventRecord(parcel->cropped, stream));
    pthread_mutex_lock(&feed->lock);
    feed->taken++;
    pthread_cond_signal(&feed->changed);
    pthread_mutex_unlock(&feed->lock);
}
