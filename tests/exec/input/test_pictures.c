/** @file
 * Batches of pictures: input_next_pictures().
 */

#include "exec/input/input.h"
#include "tests/exec/input/fixture.h"
#include "tests/test.h"

OWNED(input, input_free)

enum { SIDE = 24, PLACE = 12 * SIDE * SIDE, COUNT = 10, SEED = 5 };

/* What image 2 and 5 have, of ten. */
enum damage { NONE, HEADER, CUT_SHORT, INSIDE };

/* The bytes of image @number. */
static uint8_t *bytes_of(int32_t number, enum damage damage, int64_t *size)
{
    struct form form = {60 + 9 * (number % 5), 50 + 7 * (number % 3), 3, 1 + number % 2, 60,
                        number % 4 == 3,       (uint32_t)number};
    uint8_t *data = fixture_jpeg(&form, size);
    if (number != 2 && number != 5)
        return data;
    if (damage == HEADER)
        *size = 300; /* of about 620 */
    if (damage == CUT_SHORT || damage == INSIDE)
        *size -= 120; /* of at least 300 that are pixels */
    if (damage == HEADER || damage == INSIDE) {
        data[*size - 2] = 0xff; /* as if all were well */
        data[*size - 1] = 0xd9;
    }
    return data;
}

static struct dataset *folder(void **state, enum damage damage)
{
    for (int32_t i = 0; i < COUNT; i++) {
        int64_t size;
        AUTOFREE uint8_t *data = bytes_of(i, damage, &size);
        fixture_write(fixture_path(state, "f/%d/%d.jpg", i, i), data, size);
    }
    const char *path = fixture_path(state, "f");
    struct dataset_spec spec = {.source = SOURCE_IMAGEFOLDER,
                                .path = path,
                                .validation_path = path,
                                .image = SIDE,
                                .seed = 3};
    return opened(&spec, SPLIT_TRAIN);
}

static struct input_job job_of(int32_t local)
{
    return (struct input_job){.ranks = 1,
                              .local = local,
                              .threads = 2,
                              .prefetch = 2,
                              .seed = SEED,
                              .augment = true,
                              .pictures = true};
}

/* A batch that was given out. */
struct given {
    uint8_t *pixels;
    struct crop *crop;
    int32_t *label;
    bool augment; /* how it is made */
};

static struct given room(const struct input_job *job)
{
    return (struct given){base_alloc(job->local, PLACE),
                          base_alloc(job->local, sizeof(struct crop)),
                          base_alloc(job->local, sizeof(int32_t)), job->augment};
}

static void given_release(struct given *given)
{
    free(given->pixels);
    free(given->crop);
    free(given->label);
}

static int64_t bytes_used(const struct crop *crop)
{
    return (int64_t)3 * crop->width * crop->height;
}

/* Whether @place of the batch is image @index as the dataset has it. */
static void assert_picture(const struct dataset *dataset, const struct given *given, int64_t place,
                           struct sample sample)
{
    uint8_t pixels[PLACE];
    struct crop crop;
    int32_t label = -1;
    assert_int_equal(dataset_read_picture(dataset, sample.index, sample.epoch, given->augment,
                                          pixels, &crop, &label),
                     0);
    assert_int_equal(given->label[place], label);
    assert_int_equal(label, sample.index); /* a class each */
    assert_memory_equal(&given->crop[place], &crop, sizeof(crop));
    assert_memory_equal(given->pixels + place * PLACE, pixels, (size_t)bytes_used(&crop));
}

TEST_IN_FOLDER(batches_are_what_stands_in_the_stream_on_any_number_of_threads)
{
    enum { LOCAL = 7, BATCHES = 6 };
    OWN(dataset) *dataset = folder(state, NONE);
    struct input_job job = job_of(LOCAL);
    HELD(given) given = room(&job);
    for (int32_t threads = 1; threads <= 4; threads++) {
        job.threads = threads;
        job.prefetch = 1 + threads % 3;
        job.position = 40;
        OWN(input) *input = input_new(dataset, &job);
        for (int64_t b = 0; b < BATCHES; b++) {
            input_next_pictures(input, given.pixels, given.crop, given.label);
            for (int64_t i = 0; i < LOCAL; i++)
                assert_picture(dataset, &given, i, sampler_at(SEED, COUNT, 40 + b * LOCAL + i));
        }
        assert_int_equal(input_report(input).batches, BATCHES);
        assert_int_equal(input_report(input).replaced, 0);
    }
}

/* The first sound image at @position of the stream or behind it. */
static struct sample sound(int64_t position)
{
    int64_t start = position - position % COUNT, place = position % COUNT;
    struct sample sample;
    while ((sample = sampler_at(SEED, COUNT, start + place)).index == 2 || sample.index == 5)
        place = (place + 1) % COUNT;
    return sample;
}

static void assert_named(const struct dataset *dataset, int64_t count)
{
    HELD(text) messages = {0};
    assert_int_equal(dataset_corrupt(dataset, &messages), count);
    if (count) {
        assert_has(messages.data, "f/2/2.jpg");
        assert_has(messages.data, "f/5/5.jpg");
    }
}

/* Three epochs of files of which two cannot be used. */
TEST_IN_FOLDER(a_file_without_a_header_an_end_or_sound_pixels_is_replaced)
{
    for (enum damage damage = HEADER; damage <= INSIDE; damage++) {
        OWN(dataset) *dataset = folder(state, damage);
        struct input_job job = job_of(COUNT);
        job.augment = false; /* all of a picture counts */
        OWN(input) *input = input_new(dataset, &job);
        HELD(given) given = room(&job);
        for (int64_t b = 0; b < 3; b++) {
            input_next_pictures(input, given.pixels, given.crop, given.label);
            for (int64_t i = 0; i < COUNT; i++)
                assert_picture(dataset, &given, i, sound(b * COUNT + i));
        }
        assert_int_equal(input_report(input).replaced, 6);
        assert_named(dataset, 2);
    }
}

/* Of each place only what is used is written: what is behind it is the caller's. */
TEST_IN_FOLDER(no_more_is_written_than_a_picture_takes)
{
    enum { LOCAL = 5 };
    OWN(dataset) *dataset = folder(state, NONE);
    struct input_job job = job_of(LOCAL);
    HELD(given) given = room(&job);
    OWN(input) *input = input_new(dataset, &job);
    memset(given.pixels, 0x5a, (size_t)LOCAL * PLACE);
    input_next_pictures(input, given.pixels, given.crop, given.label);
    for (int32_t i = 0; i < LOCAL; i++)
        for (int64_t at = bytes_used(&given.crop[i]); at < PLACE; at++)
            assert_int_equal(given.pixels[(int64_t)i * PLACE + at], 0x5a);
}
