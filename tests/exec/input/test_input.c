#include "exec/input/input.h"

#include "tests/child.h"
#include "tests/exec/input/fixture.h"
#include "tests/test.h"

OWNED(input, input_free)

enum { SIDE = 16, FLOATS = 3 * SIDE * SIDE, COUNT = 50, RECORD = 3073 };

static struct dataset *procedural(void)
{
    struct dataset_spec spec = {.source = SOURCE_PROCEDURAL,
                                .image = SIDE,
                                .classes = 10,
                                .seed = 1,
                                .train_images = COUNT};
    return opened(&spec, SPLIT_TRAIN);
}

/* Batches in memory. */
struct batches {
    float *image; /* (images, ...) */
    int32_t *label;
    int64_t images;
};

static void batches_release(struct batches *batches)
{
    free(batches->image);
    free(batches->label);
}

/* The first @count batches of @job. */
static struct batches run(const struct dataset *dataset, const struct input_job *job, int32_t count)
{
    int64_t side = dataset_image(dataset), floats = 3 * side * side;
    struct batches batches = {.images = (int64_t)count * job->local};
    batches.image = base_alloc(batches.images * floats, sizeof(float));
    batches.label = base_alloc(batches.images, sizeof(int32_t));
    OWN(input) *input = input_new(dataset, job);
    for (int64_t i = 0; i < count; i++)
        input_next(input, batches.image + i * job->local * floats, batches.label + i * job->local);
    assert_int_equal(input_report(input).batches, count);
    return batches;
}

TEST(batches_do_not_depend_on_threads_or_prefetch)
{
    OWN(dataset) *dataset = procedural();
    struct input_job job = {.ranks = 1, .local = 7, .threads = 1, .prefetch = 1, .augment = true};
    HELD(batches) one = run(dataset, &job, 20);
    for (job.threads = 1; job.threads <= 4; job.threads++)
        for (job.prefetch = 1; job.prefetch <= 5; job.prefetch += 2) {
            HELD(batches) other = run(dataset, &job, 20);
            assert_int_equal(one.images, other.images);
            assert_memory_equal(one.label, other.label, (size_t)one.images * sizeof(int32_t));
            assert_memory_equal(one.image, other.image,
                                (size_t)one.images * FLOATS * sizeof(float));
        }
}

TEST(ranks_share_the_batch_of_one)
{
    OWN(dataset) *dataset = procedural();
    struct input_job job = {.ranks = 1, .local = 8, .threads = 2, .prefetch = 2, .augment = true};
    HELD(batches) one = run(dataset, &job, 15);
    for (job.ranks = 2; job.ranks <= 4; job.ranks *= 2) {
        job.local = 8 / job.ranks;
        for (job.rank = 0; job.rank < job.ranks; job.rank++) {
            HELD(batches) part = run(dataset, &job, 15);
            for (int64_t i = 0; i < part.images; i++) {
                int64_t at = i / job.local * 8 + job.rank * job.local + i % job.local;
                assert_int_equal(part.label[i], one.label[at]);
                assert_memory_equal(part.image + i * FLOATS, one.image + at * FLOATS,
                                    FLOATS * sizeof(float));
            }
        }
    }
}

TEST(a_restart_goes_on_where_the_run_stopped)
{
    OWN(dataset) *dataset = procedural();
    struct input_job job = {.ranks = 1, .local = 6, .threads = 2, .prefetch = 3, .augment = true};
    HELD(batches) whole = run(dataset, &job, 30);
    job.position = 11 * 6; /* over an epoch's end */
    HELD(batches) rest = run(dataset, &job, 19);
    assert_memory_equal(rest.image, whole.image + (int64_t)11 * 6 * FLOATS,
                        (size_t)rest.images * FLOATS * sizeof(float));
}

TEST(batches_are_what_stands_in_the_stream)
{
    OWN(dataset) *dataset = procedural();
    struct input_job job = {.ranks = 1,
                            .local = 9,
                            .threads = 3,
                            .prefetch = 2,
                            .seed = 77,
                            .position = 1000,
                            .augment = true};
    HELD(batches) batches = run(dataset, &job, 12);
    for (int64_t i = 0; i < batches.images; i++) {
        struct sample sample = sampler_at(77, COUNT, 1000 + i);
        float image[FLOATS];
        int32_t label = -1;
        assert_int_equal(dataset_read(dataset, sample.index, sample.epoch, true, image, &label), 0);
        assert_int_equal(label, batches.label[i]);
        assert_memory_equal(image, batches.image + i * FLOATS, sizeof(image));
    }
}

TEST(stopping_early_is_no_trouble)
{
    OWN(dataset) *dataset = procedural();
    struct input_job job = {.ranks = 1, .local = 64, .threads = 4, .prefetch = 4};
    for (int32_t i = 0; i < 50; i++)
        input_free(input_new(dataset, &job));
    input_free(NULL);
}

/* CIFAR-10 of 5 x @each images; of image i the label is i % 10, and every byte of it i, except that
 * images with i % @period == 0 have a label that is none. */
static struct dataset *cifar(void **state, int32_t each, int32_t period, bool strict)
{
    uint8_t *data = base_alloc(each, RECORD);
    for (int32_t i = 0; i < 5; i++) {
        for (int32_t j = 0; j < each; j++) {
            int32_t number = i * each + j;
            memset(data + j * RECORD, number, RECORD);
            data[j * RECORD] = (uint8_t)(number % period ? number % 10 : 99);
        }
        fixture_write(fixture_path(state, "c/data_batch_%d.bin", i + 1), data,
                      (int64_t)each * RECORD);
    }
    free(data);
    struct dataset_spec spec = {
        .source = SOURCE_CIFAR10, .path = fixture_path(state, "c"), .image = 32, .strict = strict};
    return opened(&spec, SPLIT_TRAIN);
}

TEST_IN_FOLDER(a_corrupt_image_is_replaced_by_the_next_that_can_be_read)
{
    OWN(dataset) *dataset = cifar(state, 10, 7, false);
    const int64_t floats = 3 * 32 * 32;
    struct input_job job = {.ranks = 1, .local = 25, .threads = 3, .prefetch = 2, .seed = 5};
    HELD(batches) batches = run(dataset, &job, 4);
    for (int64_t i = 0; i < batches.images; i++) {
        int64_t start = i / 50 * 50, place = i % 50;
        while (sampler_at(5, 50, start + place).index % 7 == 0)
            place = (place + 1) % 50;
        int64_t index = sampler_at(5, 50, start + place).index;
        assert_int_equal(batches.image[i * floats] * 63.0F + 125.3F + 0.5F, index);
        assert_int_equal(batches.label[i], index % 10);
    }
    HELD(text) messages = {0};
    assert_int_equal(dataset_corrupt(dataset, &messages), 8); /* 0, 7, ... 49 */
    int32_t lines = 0;
    for (const char *at = messages.data; (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(lines, 8);
}

TEST_IN_FOLDER(the_report_counts_what_was_replaced)
{
    OWN(dataset) *dataset = cifar(state, 10, 7, false);
    struct input_job job = {.ranks = 1, .local = 50, .threads = 2, .prefetch = 1, .seed = 5};
    AUTOFREE float *images = base_alloc((int64_t)50 * 3 * 32 * 32, sizeof(float));
    int32_t label[50];
    OWN(input) *input = input_new(dataset, &job);
    for (int32_t i = 0; i < 3; i++)
        input_next(input, images, label);
    struct input_report report = input_report(input);
    assert_int_equal(report.batches, 3);
    assert_int_equal(report.replaced, 24); /* 8 in each epoch, and each batch is one */
    assert_true(report.wait_s > 0);
}

/* Read a batch of a dataset, in a child. */
static int read_batch(const void *argument)
{
    const struct dataset *dataset = argument;
    struct input_job job = {.ranks = 1, .local = 8, .threads = 2, .prefetch = 2, .seed = 5};
    HELD(batches) batches = run(dataset, &job, 10);
    return 0;
}

/* Nothing but corrupt images, and where the job is strict the first one. */
TEST_IN_FOLDER(corrupt_images_may_end_the_run)
{
    for (int32_t strict = 0; strict < 2; strict++) {
        HELD(text) said = {0};
        OWN(dataset) *dataset = cifar(state, 10, strict ? 25 : 1, strict);
        assert_int_equal(child_run(read_batch, dataset, STDERR_FILENO, &said), 65);
        assert_has(said.data, strict ? "error: " : "error: 50 samples in a row cannot be read");
        assert_has(said.data, strict ? "has label 99" : "are counted, but not named");
    }
}

TEST_IN_FOLDER(corrupt_images_are_named_once)
{
    HELD(text) said = {0};
    OWN(dataset) *dataset = cifar(state, 10, 25, false); /* 0 and 25 */
    assert_int_equal(child_run(read_batch, dataset, STDERR_FILENO, &said), 0);
    const char *first = strstr(said.data, "warning: ");
    assert_non_null(first);
    assert_has(first, "has label 99, expected 0 to 9; image left out\n");
    const char *second = strstr(first + 1, "warning: ");
    assert_non_null(second);
    assert_null(strstr(second + 1, "warning: "));
}

/* Whether one epoch has every index once. */
static void check_epoch(uint64_t seed, int64_t count, uint64_t epoch)
{
    AUTOFREE uint8_t *seen = base_alloc(count, 1);
    for (int64_t i = 0; i < count; i++) {
        struct sample sample = sampler_at(seed, count, (int64_t)epoch * count + i);
        assert_true(sample.epoch == epoch);
        assert_in_range(sample.index, 0, count - 1);
        assert_int_equal(seen[sample.index]++, 0);
    }
}

TEST(every_index_stands_once_in_an_epoch)
{
    for (int64_t count = 1; count <= 300; count++)
        for (uint64_t epoch = 0; epoch < 3; epoch++)
            check_epoch(7, count, epoch);
    check_epoch(1, 50000, 11);
    check_epoch(2, 1281167, 89);
}

/* Positions at which two epochs have the same image. */
static int64_t agreements(int64_t count, uint64_t seed_a, uint64_t seed_b, int64_t epoch_a,
                          int64_t epoch_b)
{
    int64_t same = 0;
    for (int64_t i = 0; i < count; i++)
        same += sampler_at(seed_a, count, epoch_a * count + i).index ==
                sampler_at(seed_b, count, epoch_b * count + i).index;
    return same;
}

TEST(epochs_and_seeds_have_orders_of_their_own)
{
    /* One agreement is expected of independent orders; more than 12 has a chance of 1e-10. */
    assert_in_range(agreements(10000, 1, 1, 0, 1), 0, 12);
    assert_in_range(agreements(10000, 1, 2, 0, 0), 0, 12);
    assert_in_range(agreements(10000, 3, 3, 4, 90), 0, 12);
    assert_int_equal(agreements(10000, 5, 5, 6, 6), 10000);
}

/* Chi-squared of how often each index stands at one place, over many seeds. */
static double unevenness(int64_t count, int64_t place, int64_t seeds)
{
    AUTOFREE int64_t *times = base_alloc(count, sizeof(*times));
    double expected = (double)seeds / (double)count, sum = 0;
    for (int64_t seed = 0; seed < seeds; seed++)
        times[sampler_at((uint64_t)seed, count, place).index]++;
    for (int64_t i = 0; i < count; i++)
        sum += ((double)times[i] - expected) * ((double)times[i] - expected) / expected;
    return sum;
}

TEST(every_place_may_have_every_image)
{
    /* Chi-squared has mean n - 1 and variance 2 (n - 1): within 5 deviations. */
    static const int64_t counts[] = {2, 3, 5, 10, 64, 100, 997};
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        int64_t count = counts[i], freedom = count - 1;
        double chance = 5 * __builtin_sqrt(2.0 * (double)freedom);
        assert_true(unevenness(count, 0, 200 * count) < (double)freedom + chance);
        assert_true(unevenness(count, count / 2, 200 * count) < (double)freedom + chance);
        assert_true(unevenness(count, count - 1, 200 * count) < (double)freedom + chance);
    }
}

TEST(neighbours_are_not_kept_together)
{
    const int64_t count = 20000;
    int64_t followed = 0, previous = -2;
    double distance = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t index = sampler_at(9, count, i).index;
        followed += index == previous + 1;
        if (i)
            distance += (double)llabs(index - previous) / (double)count;
        previous = index;
    }
    assert_in_range(followed, 0, 12); /* one is expected */
    /* The mean distance of two random places is 1/3, its deviation 0.2357 / sqrt(n). */
    assert_true(distance / (double)count > 0.3333 - 0.01);
    assert_true(distance / (double)count < 0.3333 + 0.01);
}
