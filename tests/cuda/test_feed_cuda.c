#define OWN_MAIN
#include "exec/cuda/pictures/feed.h"

#include <pthread.h>
#include <stdatomic.h>

#include "exec/cuda/runtime/check.h"
#include "tests/cuda/fake/fake_runtime.h"
#include "tests/test.h"

/* Batches on their way to the device: each once, in order, whole. */

enum {
    SIZE = 16,
    BATCH = 5,
    KINDS = 7,    /* of pictures; each has another width */
    CHANNELS = 8, /* of an image */
    IMAGES = BATCH * SIZE * SIZE * CHANNELS,
    ROUNDS = 24,
    SLOTS = 4 /* that crops fill in turn */
};

/* A picture. */
struct sample {
    int32_t width;
    uint8_t pixels[3 * SIZE * (SIZE + KINDS)]; /* (SIZE, width, 3) */
};

/* Where batches come from; checks how it is asked. */
struct well {
    struct sample sample[KINDS];
    atomic_int given;
    atomic_bool open;
    int32_t slow_ms;
    pthread_t asker;
};

static void sleep_ms(int32_t ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

static const struct sample *sample_of(const struct well *well, int32_t batch, int32_t place)
{
    return &well->sample[(batch * BATCH + place) % KINDS];
}

static void check_asker(struct well *well)
{
    if (well->given == 0)
        well->asker = pthread_self();
    if (!well->open || !pthread_equal(well->asker, pthread_self()))
        abort();
}

static void give(void *context, uint8_t *pixels, struct crop *crop, int32_t *label)
{
    struct well *well = context;
    check_asker(well);
    if (well->slow_ms)
        sleep_ms(well->slow_ms);
    check_asker(well);
    memset(pixels, 0xEE, (size_t)(BATCH * crop_place(SIZE)));
    for (int32_t i = 0; i < BATCH; i++) {
        const struct sample *sample = sample_of(well, well->given, i);
        crop[i] = (struct crop){.height = SIZE, /* the left part, pixel by pixel */
                                .width = sample->width,
                                .x = {0, SIZE, 0, SIZE},
                                .y = {0, SIZE, 0, SIZE}};
        memcpy(pixels + i * crop_place(SIZE), sample->pixels, (size_t)(3 * SIZE * sample->width));
        label[i] = well->given * BATCH + i;
    }
    well->given++;
}

static void open_well(struct well *well, int32_t slow_ms)
{
    *well = (struct well){.slow_ms = slow_ms, .open = true};
    for (int32_t i = 0; i < KINDS; i++) {
        struct sample *sample = &well->sample[i];
        sample->width = SIZE + i;
        for (size_t k = 0; k < sizeof(sample->pixels); k++)
            sample->pixels[k] = (uint8_t)(256 * base_uniform(1, (uint64_t)i, k, 0));
    }
}

/* A feed, and where an iteration has its images. */
struct bench {
    struct well well;
    struct feed *feed;
    cudaStream_t stream;
    float *images[SLOTS]; /* on the device */
    int32_t *label[SLOTS];
    int32_t taken;
};

static void open_bench(struct bench *bench, int32_t slow_ms)
{
    memset(bench, 0, sizeof(*bench));
    open_well(&bench->well, slow_ms);
    struct device_source source = {.next_pictures = give,
                                   .tint = {.scale = {1, 2, 3}, .shift = {0, 10, 20}},
                                   .context = &bench->well};
    int status = feed_open(&bench->feed, &source, BATCH, SIZE, &err);
    assert_ok(status == 0, err);
    assert_int_equal(fake_in_use(), feed_memory(BATCH, SIZE));
    CUDA_CHECK(cudaStreamCreateWithFlags(&bench->stream, cudaStreamNonBlocking));
    for (int32_t i = 0; i < SLOTS; i++) {
        CUDA_CHECK(cudaMalloc((void **)&bench->images[i], IMAGES * sizeof(float)));
        CUDA_CHECK(cudaMalloc((void **)&bench->label[i], BATCH * sizeof(int32_t)));
    }
}

/* Nobody asks the source any more. */
static void close_bench(struct bench *bench)
{
    CUDA_CHECK(cudaStreamDestroy(bench->stream));
    feed_close(bench->feed);
    bench->well.open = false;
    for (int32_t i = 0; i < SLOTS; i++) {
        CUDA_CHECK(cudaFree(bench->images[i]));
        CUDA_CHECK(cudaFree(bench->label[i]));
    }
    assert_int_equal(fake_objects(), 0);
}

/* Issue the next crop. */
static void issue(struct bench *bench)
{
    int32_t slot = bench->taken++ % SLOTS;
    feed_crop(bench->feed, bench->stream, DTYPE_FP32, CHANNELS, bench->images[slot],
              bench->label[slot]);
}

static void expect_batch(const struct bench *bench, int32_t batch)
{
    AUTOFREE float *images = base_alloc(IMAGES, sizeof(float));
    int32_t label[BATCH];
    CUDA_CHECK(cudaMemcpy(images, bench->images[batch % SLOTS], IMAGES * sizeof(float),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(
        cudaMemcpy(label, bench->label[batch % SLOTS], sizeof(label), cudaMemcpyDeviceToHost));
    for (int32_t i = 0; i < BATCH; i++) {
        const struct sample *sample = sample_of(&bench->well, batch, i);
        assert_int_equal(label[i], batch * BATCH + i);
        for (int32_t k = 0; k < SIZE * SIZE * 3; k++) {
            int32_t c = k % 3, x = k / 3 % SIZE, y = k / 3 / SIZE;
            float byte = sample->pixels[(y * sample->width + x) * 3 + c];
            float found = images[((i * SIZE + y) * SIZE + x) * CHANNELS + c];
            if (found != byte * (float)(1 + c) + (float)(10 * c))
                fail_msg("batch %d, picture %d, (%d, %d, %d): %g", batch, i, x, y, c,
                         (double)found);
        }
    }
}

/* Take @rounds pairs of batches. */
static void take(struct bench *bench, int32_t rounds, int32_t slow_ms)
{
    for (int32_t i = 0; i < rounds; i++) {
        issue(bench);
        issue(bench);
        if (slow_ms)
            sleep_ms(slow_ms);
        CUDA_CHECK(cudaStreamSynchronize(bench->stream));
        expect_batch(bench, bench->taken - 2);
        expect_batch(bench, bench->taken - 1);
    }
}

TEST(batches_come_once_and_in_order)
{
    for (int32_t how = 0; how < 3; how++) {
        struct bench bench;
        open_bench(&bench, how == 1 ? 2 : 0);
        take(&bench, ROUNDS / 2, how == 2 ? 2 : 0);
        close_bench(&bench);
    }
}

TEST(no_more_than_two_batches_are_read_ahead)
{
    struct bench bench;
    open_bench(&bench, 0);
    for (int32_t i = 0; i < SLOTS; i++) {
        for (int32_t waited = 0; bench.well.given < i + FEED_AHEAD && waited < 5000; waited++)
            sleep_ms(1);
        sleep_ms(10);
        assert_int_equal(bench.well.given, i + FEED_AHEAD);
        issue(&bench);
    }
    CUDA_CHECK(cudaStreamSynchronize(bench.stream)); /* no crop may have run before */
    for (int32_t i = 0; i < SLOTS; i++)
        expect_batch(&bench, i);
    close_bench(&bench);
}

TEST(it_ends_at_any_time)
{
    for (int32_t how = 0; how < 8; how++) {
        struct bench bench;
        open_bench(&bench, how % 2 * 5);
        for (int32_t i = 0; i < how / 2; i++)
            issue(&bench);
        close_bench(&bench);
        assert_true(bench.well.given <= how / 2 + FEED_AHEAD);
    }
}

TEST(too_little_memory_is_a_message)
{
    struct feed *feed = NULL;
    struct device_source source = {.next_pictures = give};
    fake_capacity(feed_memory(BATCH, SIZE) - 1);
    assert_fails(feed_open(&feed, &source, BATCH, SIZE, &err), 69,
                 "which are not free: use a smaller batch");
    assert_null(feed);
    assert_int_equal(fake_objects(), 0);
    fake_capacity((size_t)1 << 30);
}

int main(void)
{
    int failed = cmocka_run_group_tests_name("at once", tests, NULL, NULL);
    fake_lazy(true);
    return failed + cmocka_run_group_tests_name("as late as possible", tests, NULL, NULL);
}
