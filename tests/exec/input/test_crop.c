/** @file
 * dataset_read_picture(): what a device makes of pictures is what dataset_read() gives.
 */

#include "exec/input/pack/pack.h"
#include "exec/input/picture/jpeg.h"
#include "tests/exec/input/fixture.h"
#include "tests/test.h"

enum { SIDE = 32, FLOATS = 3 * SIDE * SIDE, EPOCHS = 12 };

/* Of every shrink, narrow, small, smaller than an image, one pixel, and of ink. */
static const struct form forms[] = {
    {480, 360, 3, 2, 90, false, 1},  {90, 70, 3, 2, 90, false, 2},
    {60, 110, 3, 1, 80, true, 3},    {300, 20, 3, 1, 90, false, 4},
    {9, 200, 3, 2, 90, false, 5},    {20, 26, 1, 1, 90, false, 6},
    {1, 1, 3, 1, 90, false, 7},      {64, 64, 3, 12, 90, false, 8},
    {128, 128, 3, 2, 50, false, 9},  {90, 70, 4, 1, 90, false, 10},
    {129, 128, 3, 2, 50, false, 11}, {120, 120, 3, 1, 100, false, 12},
};
enum { COUNT = sizeof(forms) / sizeof(*forms) };

static struct dataset *opened_at(enum dataset_source source, const char *path)
{
    struct dataset_spec spec = {
        .source = source, .path = path, .validation_path = path, .image = SIDE, .seed = 3};
    return opened(&spec, SPLIT_TRAIN);
}

/* Image i is forms[i]. */
static struct dataset *folder(void **state)
{
    for (int32_t i = 0; i < COUNT; i++)
        fixture_write_jpeg(fixture_path(state, "f/a/%02d.jpg", i), &forms[i]);
    return opened_at(SOURCE_IMAGEFOLDER, fixture_path(state, "f"));
}

static struct dataset *shards(void **state)
{
    struct text tar = {0};
    for (int32_t i = 0; i < COUNT; i++) {
        int64_t size;
        AUTOFREE uint8_t *data = fixture_jpeg(&forms[i], &size);
        AUTOFREE char *name = base_format("%02d.jpg", i), *class = base_format("%02d.cls", i);
        fixture_tar(&tar, name, '0', data, size);
        fixture_tar(&tar, class, '0', "0", 1);
    }
    fixture_tar_end(&tar);
    fixture_write(fixture_path(state, "s.tar"), tar.data, tar.length);
    text_release(&tar);
    return opened_at(SOURCE_WEBDATASET, fixture_path(state, "s.tar"));
}

/* --- what a device makes of a picture, in plain loops: from struct crop alone, in floats --- */

static void check_span(const struct crop_span *span, int32_t size)
{
    assert_true(span->begin >= 0 && span->end <= size && span->begin < span->end);
    assert_true(span->length > 0);
}

static float weight(const struct crop_span *span, int32_t result, int32_t pixel)
{
    float scale = span->length / (float)SIDE;
    float centre = span->start + ((float)result + 0.5F) * scale;
    return fmaxf(0, 1 - fabsf((float)pixel + 0.5F - centre) / fmaxf(scale, 1));
}

static void one(const uint8_t *pixels, const struct crop *crop, int32_t column, int32_t row,
                float *to)
{
    const struct tint tint = tint_imagenet;
    float sum[3] = {0}, total = 0;
    for (int32_t y = crop->y.begin; y < crop->y.end; y++) {
        float share = weight(&crop->y, row, y);
        for (int32_t x = crop->x.begin; share > 0 && x < crop->x.end; x++) {
            float both = share * weight(&crop->x, column, x);
            total += both;
            for (int32_t c = 0; both > 0 && c < 3; c++)
                sum[c] += both * (float)pixels[3 * ((int64_t)y * crop->width + x) + c];
        }
    }
    for (int32_t c = 0; c < 3; c++)
        to[c] = sum[c] / total * tint.scale[c] + tint.shift[c];
}

/* Crop, resize, flip and normalise the pixels of a picture. */
static void make_image(const uint8_t *pixels, const struct crop *crop, float image[FLOATS])
{
    check_span(&crop->x, crop->width);
    check_span(&crop->y, crop->height);
    for (int32_t row = 0; row < SIDE; row++)
        for (int32_t column = 0; column < SIDE; column++)
            one(pixels, crop, crop->flip ? SIDE - 1 - column : column, row,
                image + (int64_t)3 * (row * SIDE + column));
}

/* --- comparisons --- */

static bool resized_here(const struct crop *crop)
{
    const struct crop_span *x = &crop->x, *y = &crop->y;
    return crop->width == SIDE && crop->height == SIDE && x->start == 0 && y->start == 0 &&
           x->length == SIDE && y->length == SIDE && !crop->flip;
}

/* The greatest difference between the image and what is made of the picture. */
static double difference(const struct dataset *dataset, int64_t index, uint64_t epoch, bool augment,
                         const struct crop *crop, const uint8_t *pixels)
{
    float image[FLOATS], made[FLOATS];
    int32_t label;
    double most = 0;
    assert_int_equal(dataset_read(dataset, index, epoch, augment, image, &label), 0);
    make_image(pixels, crop, made);
    for (int32_t i = 0; i < FLOATS; i++)
        most = fmax(most, fabs(image[i] - made[i]));
    return most;
}

/* How often what happened. */
struct seen {
    int32_t flipped, resized, stored;
};

static void check_picture(const struct dataset *dataset, int64_t index, uint64_t epoch,
                          bool augment, struct seen *seen)
{
    uint8_t pixels[12 * SIDE * SIDE];
    struct crop crop;
    int32_t label = -1;
    assert_int_equal(dataset_read_picture(dataset, index, epoch, augment, pixels, &crop, &label),
                     0);
    assert_int_equal(label, 0);
    assert_true((int64_t)3 * crop.width * crop.height <= crop_place(SIDE));
    bool resized = resized_here(&crop);
    double off = difference(dataset, index, epoch, augment, &crop, pixels);
    const double byte = 1 / (255 * 0.224); /* what is rounded to one is off by half of it */
    if (off > (resized ? byte / 2 + 1e-4 : 1e-4))
        fail_msg("picture %d, epoch %d: %g", (int)index, (int)epoch, off);
    seen->flipped += crop.flip;
    seen->resized += resized;
    seen->stored += !resized;
}

static void check_dataset(struct dataset *dataset)
{
    struct seen seen = {0};
    assert_true(dataset_has_pictures(dataset));
    for (int64_t i = 0; i < dataset_count(dataset); i++) {
        check_picture(dataset, i, 0, false, &seen);
        for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
            check_picture(dataset, i, epoch, true, &seen);
    }
    assert_true(seen.flipped > 20 && seen.resized > 5 && seen.stored > 60);
    dataset_close(dataset);
}

TEST_IN_FOLDER(pictures_of_a_folder_are_cropped_to_its_images)
{
    check_dataset(folder(state));
}

TEST_IN_FOLDER(pictures_of_shards_are_cropped_to_their_images)
{
    check_dataset(shards(state));
}

TEST_IN_FOLDER(pictures_of_a_pack_are_cropped_to_its_images)
{
    struct pack_summary summary;
    if (!decoder_present())
        skip();
    dataset_close(folder(state));
    struct pack_job job = {.from = fixture_path(state, "f"),
                           .to = fixture_path(state, "f.ftp"),
                           .shorter = 100,
                           .threads = 1};
    assert_int_equal(pack_write(&job, &summary, &err), 0);
    check_dataset(opened_at(SOURCE_PACK, job.to));
}

/* Of a square picture of @side the middle is seven eighths. */
static bool middle_is_resized_here(void **state, int32_t side)
{
    struct form form = {side, side, 3, 1, 90, false, 1};
    struct seen seen = {0};
    fixture_write_jpeg(fixture_path(state, "m%d/a/1.jpg", side), &form);
    OWN(dataset) *dataset = opened_at(SOURCE_IMAGEFOLDER, fixture_path(state, "m%d", side));
    check_picture(dataset, 0, 0, false, &seen);
    return seen.resized;
}

TEST_IN_FOLDER(a_crop_is_resized_here_only_when_it_does_not_fit)
{
    /* (32 results of n / 37 pixels and the triangles' halves of two) squared, in 64 x 64. */
    assert_false(middle_is_resized_here(state, 70)); /* 60.5 + 1.9 */
    assert_true(middle_is_resized_here(state, 74));  /* 64 + 2 */
}

TEST(only_files_and_packs_have_pictures)
{
    struct dataset_spec spec = {.image = SIDE, .classes = 10, .train_images = 10};
    for (int32_t i = 0; i < 2; i++) {
        spec.source = i ? SOURCE_PROCEDURAL : SOURCE_SYNTHETIC;
        OWN(dataset) *dataset = dataset_open(&spec, SPLIT_TRAIN, &err);
        assert_non_null(dataset);
        assert_false(dataset_has_pictures(dataset));
    }
}
