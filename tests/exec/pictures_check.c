/** @file
 * Trains on JPEG files with a device that takes pictures, ahead of the iterations and on a thread
 * of its own as a GPU's feed does, and checks that the losses are those of a device that takes
 * images: over two phases, and where augmentation ends in the middle of the first.
 *
 * Usage: pictures_check COLUMNS ROWS, on COLUMNS * ROWS ranks.
 */

#include <pthread.h>

#include "exec/cpu/device_naive.h"
#include "exec/input/input.h"
#include "exec/measure/devices.h"
#include "tests/exec/input/crop_reference.h"
#include "tests/exec/input/fixture.h"
#include "tests/exec/train_fixture.h"

enum { SIDE = 16, CLASSES = 4, EACH = 6, AHEAD = 2, STEPS = 12, CHANGE = 5, CORRUPT = 7 };

/* ---- a device that crops ---- */

/* A batch on its way. */
struct pictures {
    uint8_t *pixels;
    struct crop *crop;
    int32_t *label;
};

/* What stands before the device. */
static struct {
    struct device_source source;
    int32_t batch;
    uint64_t seed;
    int64_t position; /* of the next batch in the stream */
    struct pictures slot[AHEAD];
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    int64_t read, used; /* batches */
    bool stop;
} feed = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* Whether a batch is the next of the stream. */
static void check_labels(const int32_t *label)
{
    struct exec_world world = world_self();
    for (int32_t i = 0; i < feed.batch; i++) {
        int64_t position = feed.position + world.rank * feed.batch + i;
        int64_t index = sampler_at(feed.seed, CLASSES * EACH, position).index;
        check(label[i] == index / EACH || index == CORRUPT,
              "batches come as they stand in the stream");
    }
    feed.position += world.ranks * feed.batch;
}

static void *read_ahead(void *unused)
{
    pthread_mutex_lock(&feed.lock);
    while (!feed.stop) {
        if (feed.read - feed.used == AHEAD) {
            pthread_cond_wait(&feed.changed, &feed.lock);
            continue;
        }
        struct pictures *pictures = &feed.slot[feed.read % AHEAD];
        pthread_mutex_unlock(&feed.lock);
        feed.source.next_pictures(feed.source.context, pictures->pixels, pictures->crop,
                                  pictures->label);
        check_labels(pictures->label);
        pthread_mutex_lock(&feed.lock);
        feed.read++;
        pthread_cond_broadcast(&feed.changed);
    }
    pthread_mutex_unlock(&feed.lock);
    return unused;
}

static void next_cropped(void *context, float *images, int32_t *label)
{
    (void)context;
    pthread_mutex_lock(&feed.lock);
    while (feed.read == feed.used)
        pthread_cond_wait(&feed.changed, &feed.lock);
    pthread_mutex_unlock(&feed.lock);
    const struct pictures *pictures = &feed.slot[feed.used % AHEAD];
    for (int64_t i = 0; i < feed.batch; i++)
        crop_reference(pictures->pixels + i * crop_place(SIDE), &pictures->crop[i],
                       &feed.source.tint, SIDE, images + 3 * i * SIDE * SIDE);
    memcpy(label, pictures->label, (size_t)feed.batch * sizeof(int32_t));
    pthread_mutex_lock(&feed.lock);
    feed.used++;
    pthread_cond_broadcast(&feed.changed);
    pthread_mutex_unlock(&feed.lock);
}

static int open_cropping(struct device_state **state, const struct device_job *job, struct err *err)
{
    struct device_job inner = *job;
    check(job->source.next_pictures, "the source has pictures");
    feed.source = job->source;
    feed.batch = job->batch;
    feed.seed = (uint64_t)job->scenario->seed;
    feed.position = job->batch * world_self().ranks == 8 ? 0 : 48; /* the phase's first */
    feed.read = feed.used = 0;
    feed.stop = false;
    for (int32_t i = 0; i < AHEAD; i++)
        feed.slot[i] = (struct pictures){base_alloc(job->batch, crop_place(SIDE)),
                                         base_alloc(job->batch, sizeof(struct crop)),
                                         base_alloc(job->batch, sizeof(int32_t))};
    check(!pthread_create(&feed.thread, NULL, read_ahead, NULL), "a thread starts");
    inner.source = (struct device_source){.next = next_cropped};
    return device_naive_ops.open(state, &inner, err);
}

static void close_cropping(struct device_state *state)
{
    pthread_mutex_lock(&feed.lock);
    feed.stop = true;
    pthread_cond_broadcast(&feed.changed);
    pthread_mutex_unlock(&feed.lock);
    pthread_join(feed.thread, NULL);
    /* Until it is closed a device may ask. */
    feed.source.next_pictures(feed.source.context, feed.slot[0].pixels, feed.slot[0].crop,
                              feed.slot[0].label);
    for (int32_t i = 0; i < AHEAD; i++) {
        free(feed.slot[i].pixels);
        free(feed.slot[i].crop);
        free(feed.slot[i].label);
    }
    device_naive_ops.close(state);
}

/* ---- jobs ---- */

/* Two phases of 6 steps; from 1.5 epochs on, at image 36 and from step 5, nothing is augmented. */
static const char *const text =
    "version: 1\n"
    "model: {network: toy, image: 16, classes: 4}\n"
    "cluster: {platform: none, nodes: 1, devices_per_node: 1}\n"
    "training:\n"
    "  dataset: {source: imagefolder, path: %s, validation_path: %s, train_images: 24}\n"
    "  phases: [{epochs: 2, global_batch: 8}, {epochs: 1, global_batch: 4}]\n"
    "  learning_rate: {base: 0.02}\n"
    "  collapse: {epochs: 1.5, learning_rate: 0.02, augment: %s}\n"
    "allreduce: {algorithm: torus2d, bucket: 20 kB, overlap: backward}\n";

/* Small enough for every crop to fit its place; one is no JPEG file. */
static const char *write_images(void **state)
{
    for (int32_t i = 0; i < CLASSES * EACH; i++) {
        struct form form = {22 + i % 9, 30 - i % 7, 3, 1, 90, false, (uint32_t)i};
        const char *path = fixture_path(state, "f/%d/%d.jpg", i / EACH, i % EACH);
        fixture_write_jpeg(path, &form);
        if (i == CORRUPT)
            fixture_write(path, "none", 4);
    }
    return fixture_path(state, "f");
}

/* Train on the files in @path; with @augment what is random stays so to the end. */
static struct train_result train(const char *path, bool augment, struct grid grid,
                                 const struct device_ops *ops)
{
    HELD(err) err = {0};
    HELD(fixture) fixture = {0};
    struct train_result result = {0};
    AUTOFREE char *job = base_format(text, path, path, augment ? "true" : "false");
    fixture_open(&fixture, job, grid, ops, transport_find("cpu-naive"));
    check(!train_run(&fixture.job, &result, &err), err.text ? err.text : "the job runs");
    return result;
}

/* Weights and sums of the filter are rounded in another way. */
static void compare(const struct train_result *images, const struct train_result *pictures)
{
    double most = 0;
    check(images->steps == STEPS && pictures->steps == STEPS, "all steps were done");
    for (int32_t i = 0; i < STEPS && i < pictures->steps; i++)
        most = fmax(most, fabs(images->loss[i] - pictures->loss[i]));
    printf("rank %d: losses differ by at most %g\n", world_self().rank, most);
    check(most < 1e-4, "the losses are the same");
    check(images->skipped_images > 0, "an image was replaced");
    check(pictures->skipped_images >= images->skipped_images, "it was replaced there too");
}

/* Augmentation ends with the batch where the job says so, however far ahead that was read. */
static void check_change(const struct train_result *changed, const struct train_result *all)
{
    int32_t same = 0;
    while (same < STEPS && changed->loss[same] == all->loss[same])
        same++;
    check(same == CHANGE, "augmentation ends where the job says so");
}

int main(int argc, char **argv)
{
    void *state;
    world_start(&argc, &argv);
    struct grid grid = {.columns = argc > 1 ? atoi(argv[1]) : 1,
                        .rows = argc > 2 ? atoi(argv[2]) : 1};
    const struct device_ops *naive = &device_naive_ops;
    struct device_ops cropping = device_naive_ops;
    cropping.crops = true;
    cropping.open = open_cropping;
    cropping.close = close_cropping;
    check(!fixture_setup(&state), "there is a folder");
    const char *path = write_images(&state);
    struct train_result result[] = {train(path, false, grid, naive), train(path, true, grid, naive),
                                    train(path, false, grid, &cropping),
                                    train(path, true, grid, &cropping)};
    check_change(&result[0], &result[1]);
    check_change(&result[2], &result[3]);
    compare(&result[0], &result[2]);
    for (int32_t i = 0; i < 4; i++)
        train_result_release(&result[i]);
    fixture_teardown(&state);
    return ranks_end();
}
