/** @file
 * What the device makes of pictures, against the CPU, and how many a second it takes in without
 * training on them: from a pack, and from JPEG files.
 *
 * Usage: input_check FILES BATCH SIZE THREADS SECONDS: files to be made (at least a batch), images
 * of a batch, their side, threads that read, and how long to measure each way.
 *
 * Prints JSON: for each way its `name`, the distance of images to the CPU's (`mean`, `worst`
 * [levels of 255]), whether `labels` are equal, and `images_per_s` with random crops.
 */

#include "exec/cuda/pictures/feed.h"
#include "exec/cuda/runtime/check.h"
#include "exec/input/input.h"
#include "exec/input/pack/pack.h"
#include "exec/input/picture/jpeg.h"
#include "exec/world/world.h"
#include "tests/exec/input/fixture.h"

enum { CHANNELS = 8, CLASSES = 2 };

/* What to do. */
struct task {
    int32_t files, batch, size, threads;
    double seconds;
};

/* Pictures from somewhere, on their way to the device. */
struct way {
    const char *name;
    struct dataset *dataset;
    struct input *input;
};

static _Noreturn void give_up(const struct err *err)
{
    fputs(err->text, stderr);
    exit(err->exit_code);
}

/* ---- data ---- */

/* Sides of 1.3 to 2.2 images, so that each picture fits its place. */
static void write_files(void **state, const struct task *task)
{
    for (int32_t i = 0; i < task->files; i++) {
        struct form form = {.width = task->size * (130 + i * 37 % 90) / 100,
                            .height = task->size * (130 + i * 53 % 90) / 100,
                            .components = i % 11 == 7 ? 1 : 3,
                            .subsampling = i % 3 == 1 ? 1 : 2,
                            .quality = 90,
                            .progressive = i % 32 == 31,
                            .seed = (uint32_t)i};
        fixture_write_jpeg(fixture_path(state, "f/%d/%d.jpg", i % CLASSES, i), &form);
    }
}

static const char *write_pack(void **state, const struct task *task)
{
    struct err err = {0};
    struct pack_summary summary;
    struct pack_job job = {.from = fixture_path(state, "f"),
                           .to = fixture_path(state, "p.pack"),
                           .split = SPLIT_TRAIN,
                           .shorter = 4 * task->size,
                           .threads = task->threads};
    if (pack_write(&job, &summary, &err))
        give_up(&err);
    return job.to;
}

static struct dataset *open_data(enum dataset_source source, const char *path,
                                 const struct task *task)
{
    struct err err = {0};
    struct dataset_spec spec = {
        .source = source, .path = path, .validation_path = path, .image = task->size, .seed = 1};
    struct dataset *dataset = dataset_open(&spec, SPLIT_TRAIN, &err);
    if (!dataset)
        give_up(&err);
    return dataset;
}

static struct input *open_input(const struct way *way, const struct task *task, bool pictures,
                                bool augment)
{
    struct input_job job = {.ranks = 1,
                            .local = task->batch,
                            .threads = task->threads,
                            .prefetch = 4,
                            .seed = 1,
                            .augment = augment,
                            .pictures = pictures};
    return input_new(way->dataset, &job);
}

/* ---- the device's side ---- */

static void next_pictures(void *context, uint8_t *pixels, struct crop *crop, int32_t *label)
{
    const struct way *way = context;
    input_next_pictures(way->input, pixels, crop, label);
}

/* A feed at work, and where it puts images. */
struct bench {
    struct feed *feed;
    cudaStream_t stream;
    float *images;
    int32_t *label;
};

static void open_bench(struct bench *bench, struct way *way, const struct task *task, bool augment)
{
    struct err err = {0};
    struct device_source source = {
        .next_pictures = next_pictures, .tint = tint_imagenet, .context = way};
    size_t floats = (size_t)task->batch * (size_t)task->size * (size_t)task->size * CHANNELS;
    way->input = open_input(way, task, true, augment);
    CUDA_CHECK(cudaStreamCreateWithFlags(&bench->stream, cudaStreamNonBlocking));
    CUDA_CHECK(cudaMalloc((void **)&bench->images, floats * sizeof(float)));
    CUDA_CHECK(cudaMalloc((void **)&bench->label, (size_t)task->batch * sizeof(int32_t)));
    if (feed_open(&bench->feed, &source, task->batch, task->size, &err))
        give_up(&err);
}

static void take_batch(struct bench *bench)
{
    feed_crop(bench->feed, bench->stream, DTYPE_FP32, CHANNELS, bench->images, bench->label);
    CUDA_CHECK(cudaStreamSynchronize(bench->stream));
}

static void close_bench(struct bench *bench, struct way *way)
{
    feed_close(bench->feed);
    input_free(way->input);
    CUDA_CHECK(cudaStreamDestroy(bench->stream));
    CUDA_CHECK(cudaFree(bench->images));
    CUDA_CHECK(cudaFree(bench->label));
}

/* ---- one way ---- */

/* Distance of the device's images to the CPU's, in levels. */
static void add_distance(struct json *said, const float *device, const float *host, int64_t pixels)
{
    struct tint tint = tint_imagenet;
    double sum = 0, worst = 0;
    for (int64_t i = 0; i < pixels; i++)
        for (int32_t c = 0; c < 3; c++) {
            double apart =
                fabs((double)(device[i * CHANNELS + c] - host[3 * i + c]) / (double)tint.scale[c]);
            sum += apart;
            worst = apart <= worst ? worst : apart; /* also what is not a number */
        }
    json_put_real(said, "mean", sum / (3 * (double)pixels));
    json_put_real(said, "worst", worst);
}

static void compare(struct way *way, const struct task *task, struct json *said)
{
    struct bench bench;
    int64_t pixels = (int64_t)task->batch * task->size * task->size;
    float *device = base_alloc(pixels * CHANNELS, sizeof(*device));
    float *host = base_alloc(pixels * 3, sizeof(*host));
    int32_t *label = base_alloc(2 * task->batch, sizeof(*label));
    size_t labels = (size_t)task->batch * sizeof(*label);
    struct input *input = open_input(way, task, false, false);
    input_next(input, host, label);
    input_free(input);
    open_bench(&bench, way, task, false);
    take_batch(&bench);
    CUDA_CHECK(cudaMemcpy(device, bench.images, (size_t)(pixels * CHANNELS) * sizeof(*device),
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(label + task->batch, bench.label, labels, cudaMemcpyDeviceToHost));
    close_bench(&bench, way);
    add_distance(said, device, host, pixels);
    json_put(said, "labels", json_new_boolean(!memcmp(label, label + task->batch, labels)));
    free(device);
    free(host);
    free(label);
}

/* The first batches find everything cold. */
static void measure(struct way *way, const struct task *task, struct json *said)
{
    struct bench bench;
    int64_t batches = 0;
    open_bench(&bench, way, task, true);
    for (int32_t i = 0; i < 4; i++)
        take_batch(&bench);
    double begin = base_seconds(CLOCK_MONOTONIC), end = begin;
    for (; end - begin < task->seconds; end = base_seconds(CLOCK_MONOTONIC), batches++)
        take_batch(&bench);
    close_bench(&bench, way);
    json_put_real(said, "images_per_s", (double)(batches * task->batch) / (end - begin));
}

static struct json *try_way(struct way *way, const struct task *task)
{
    struct json *said = json_new_object();
    json_put_text(said, "name", way->name);
    compare(way, task, said);
    measure(way, task, said);
    return said;
}

static void run(void **state, const struct task *task)
{
    struct json *said = json_new_object(), *ways = json_new_array();
    write_files(state, task);
    struct dataset *files = open_data(SOURCE_IMAGEFOLDER, fixture_path(state, "f"), task);
    struct dataset *pack =
        decoder_present() ? open_data(SOURCE_PACK, write_pack(state, task), task) : NULL;
    struct way way[] = {{"pack", pack, NULL}, {"JPEG", files, NULL}};
    for (size_t i = 0; i < sizeof(way) / sizeof(*way); i++)
        if (way[i].dataset)
            json_append(ways, try_way(&way[i], task));
    json_put(said, "ways", ways);
    struct text text = {0};
    json_print_line(&text, said, 6);
    puts(text.data);
    text_release(&text);
    json_free(said);
    dataset_close(files);
    dataset_close(pack);
}

int main(int argc, char **argv)
{
    void *state;
    world_start(&argc, &argv);
    if (argc != 6 || fixture_setup(&state))
        return 64;
    struct task task = {atoi(argv[1]), atoi(argv[2]), atoi(argv[3]), atoi(argv[4]), atof(argv[5])};
    run(&state, &task);
    fixture_teardown(&state);
    world_stop();
    return 0;
}
