#include "tests/exec/input/fixture.h"
#include "tests/test.h"

enum { SIDE = 32, FLOATS = 3 * SIDE * SIDE, RECORD = 1 + FLOATS };

static struct dataset *made(enum dataset_source source, int32_t classes, uint64_t seed,
                            enum split split)
{
    struct dataset_spec spec = {.source = source,
                                .image = SIDE,
                                .classes = classes,
                                .seed = seed,
                                .train_images = 1000,
                                .validation_images = 400};
    return opened(&spec, split);
}

static int32_t read_image(const struct dataset *dataset, int64_t index, uint64_t epoch,
                          bool augment, float *image)
{
    int32_t label = -1;
    assert_int_equal(dataset_read(dataset, index, epoch, augment, image, &label), 0);
    return label;
}

TEST(made_images_have_about_zero_mean_and_unit_deviation)
{
    static const enum dataset_source source[] = {SOURCE_SYNTHETIC, SOURCE_PROCEDURAL};
    for (int32_t i = 0; i < 2; i++) {
        OWN(dataset) *dataset = made(source[i], 10, 1, SPLIT_TRAIN);
        double sum = 0, squares = 0;
        for (int64_t j = 0; j < 400; j++) {
            float image[FLOATS];
            read_image(dataset, j, 0, false, image);
            for (int32_t k = 0; k < FLOATS; k++) {
                sum += image[k];
                squares += image[k] * image[k];
            }
        }
        assert_true(fabs(sum / (400 * FLOATS)) < 0.1);
        assert_true(fabs(sqrt(squares / (400 * FLOATS)) - 1) < 0.2);
    }
}

TEST(made_images_follow_from_seed_split_and_index)
{
    static const enum dataset_source source[] = {SOURCE_SYNTHETIC, SOURCE_PROCEDURAL};
    for (int32_t i = 0; i < 2; i++) {
        struct dataset *some[] = {
            made(source[i], 10, 1, SPLIT_TRAIN), made(source[i], 10, 1, SPLIT_TRAIN),
            made(source[i], 10, 2, SPLIT_TRAIN), made(source[i], 10, 1, SPLIT_VALIDATION)};
        float first[FLOATS], image[FLOATS];
        int32_t label = read_image(some[0], 17, 0, false, first);
        assert_int_equal(label, 7);
        for (int32_t j = 1; j < 4; j++) {
            assert_int_equal(read_image(some[j], 17, 5, false, image), label);
            assert_true((memcmp(first, image, sizeof(image)) == 0) == (j == 1));
        }
        read_image(some[0], 27, 0, false, image);
        assert_memory_not_equal(first, image, sizeof(image));
        for (int32_t j = 0; j < 4; j++)
            dataset_close(some[j]);
    }
}

TEST(procedural_images_are_new_in_each_epoch_when_augmented)
{
    OWN(dataset) *dataset = made(SOURCE_PROCEDURAL, 10, 1, SPLIT_TRAIN);
    float a[FLOATS], b[FLOATS];
    assert_int_equal(read_image(dataset, 3, 1, true, a), read_image(dataset, 3, 2, true, b));
    assert_memory_not_equal(a, b, sizeof(a));
    read_image(dataset, 3, 1, true, b);
    assert_memory_equal(a, b, sizeof(a));
}

/* Not zeros, and no signal. */
TEST(tokens_of_a_file_that_is_cut_short_while_it_is_read_are_missed)
{
    enum { LENGTH = 8, SEQUENCES = 1024 };
    static uint8_t bytes[2 * (LENGTH * SEQUENCES + 1)];
    char path[] = "/tmp/tokens-XXXXXX";
    int file = mkstemp(path);
    assert_int_equal(write(file, bytes, sizeof(bytes)), sizeof(bytes));
    struct dataset_spec spec = {
        .source = SOURCE_TOKENS, .path = path, .sequence = LENGTH, .classes = 61};
    OWN(dataset) *dataset = opened(&spec, SPLIT_TRAIN);
    float tokens[LENGTH];
    int32_t label;
    assert_int_equal(dataset_read(dataset, SEQUENCES - 1, 0, false, tokens, &label), 0);
    assert_int_equal(ftruncate(file, 2 * LENGTH), 0);
    for (int64_t index = 0; index < SEQUENCES; index += SEQUENCES - 1)
        assert_int_equal(dataset_read(dataset, index, 0, false, tokens, &label), -1);
    HELD(text) messages = {0};
    assert_int_equal(dataset_corrupt(dataset, &messages), 2);
    assert_non_null(strstr(messages.data, ": cannot be read at 16: the file ends early"));
    close(file);
    unlink(path);
}

TEST(what_cannot_be_made_is_refused)
{
    struct dataset_spec spec = {.source = SOURCE_PROCEDURAL, .image = SIDE, .classes = 10};
    assert_refused(&spec, SPLIT_TRAIN, 64, "their number must be given");
    spec.train_images = 100;
    assert_refused(&spec, SPLIT_VALIDATION, 64, "their number must be given");
    spec.classes = 9;
    assert_refused(&spec, SPLIT_TRAIN, 64, "an even number of classes from 2 to 32, not 9");
    spec.classes = 34;
    assert_refused(&spec, SPLIT_TRAIN, 64, "not 34");
    spec.classes = 10;
    spec.image = 4;
    assert_refused(&spec, SPLIT_TRAIN, 64, "must have 8 to 1024 pixels per side, not 4");
    spec.image = 0;
    assert_refused(&spec, SPLIT_TRAIN, 64, "a size of at least 1 pixel");
    spec.source = SOURCE_SYNTHETIC;
    spec.image = 8;
    spec.classes = 0;
    assert_refused(&spec, SPLIT_TRAIN, 64, "need a number of classes");
}

/* Byte of a CIFAR-10 record: a label, or a pixel of a plane. */
static uint8_t cifar_byte(int64_t image, int32_t at)
{
    if (at == 0)
        return (uint8_t)(image % 10);
    return (uint8_t)(256 * base_uniform(1, (uint64_t)image, (uint64_t)at, 0));
}

/* Five files of 1 to 5 images and one of 3. */
static const char *make_cifar(void **state, const char *folder)
{
    int64_t image = 0;
    for (int32_t i = 1; i <= 6; i++) {
        int32_t count = i <= 5 ? i : 3;
        AUTOFREE uint8_t *data = base_alloc(count, RECORD);
        for (int32_t j = 0; j < count; j++, image++)
            for (int32_t k = 0; k < RECORD; k++)
                data[j * RECORD + k] = cifar_byte(image, k);
        const char *path = i <= 5 ? fixture_path(state, "%s/data_batch_%d.bin", folder, i)
                                  : fixture_path(state, "%s/test_batch.bin", folder);
        fixture_write(path, data, (int64_t)count * RECORD);
    }
    return fixture_path(state, "%s", folder);
}

static float cifar_value(int64_t image, int32_t x, int32_t y, int32_t c)
{
    static const float mean[] = {125.3F, 123.0F, 113.9F}, deviation[] = {63.0F, 62.1F, 66.7F};
    bool outside = x < 0 || y < 0 || x >= SIDE || y >= SIDE;
    float byte = outside ? 0 : cifar_byte(image, 1 + (c * SIDE + y) * SIDE + x);
    return (byte - mean[c]) / deviation[c];
}

TEST_IN_FOLDER(cifar10_planes_become_pixels)
{
    struct dataset_spec spec = {.source = SOURCE_CIFAR10, .image = SIDE};
    spec.path = make_cifar(state, "c");
    spec.classes = 10;
    OWN(dataset) *train = opened(&spec, SPLIT_TRAIN), *test = opened(&spec, SPLIT_VALIDATION);
    float image[FLOATS];
    assert_int_equal(dataset_count(train), 15);
    assert_int_equal(dataset_count(test), 3);
    for (int64_t i = 0; i < 18; i++) {
        assert_int_equal(read_image(i < 15 ? train : test, i % 15, 0, false, image), i % 10);
        for (int32_t j = 0; j < FLOATS; j++)
            assert_true(image[j] == cifar_value(i, j / 3 % SIDE, j / 3 / SIDE, j % 3));
    }
}

/* How far the image was moved, and whether it was mirrored; fails when neither explains it. */
static void find_move(const float *image, int64_t index, int32_t *right, int32_t *down, bool *flip)
{
    for (int32_t i = 0; i < 9 * 9 * 2; i++) {
        int32_t r = i % 9 - 4, d = i / 9 % 9 - 4, turned = i / 81, j = 0;
        for (; j < FLOATS; j++) {
            int32_t column = j / 3 % SIDE, x = (turned ? SIDE - 1 - column : column) - r;
            if (image[j] != cifar_value(index, x, j / 3 / SIDE - d, j % 3))
                break;
        }
        if (j == FLOATS) {
            *right = r, *down = d, *flip = turned;
            return;
        }
    }
    fail_msg("image %d is neither moved nor mirrored", (int)index);
}

TEST_IN_FOLDER(cifar10_is_augmented_by_moving_and_mirroring)
{
    struct dataset_spec spec = {.source = SOURCE_CIFAR10, .image = SIDE, .seed = 4};
    spec.path = make_cifar(state, "c");
    OWN(dataset) *train = opened(&spec, SPLIT_TRAIN);
    int32_t moved[9] = {0}, dropped[9] = {0}, mirrored = 0, right = 0, down = 0;
    bool flip = false;
    for (int64_t i = 0; i < 900; i++) {
        float image[FLOATS];
        read_image(train, i % 15, (uint64_t)i / 15, true, image);
        find_move(image, i % 15, &right, &down, &flip);
        moved[right + 4]++, dropped[down + 4]++;
        mirrored += flip;
    }
    for (int32_t i = 0; i < 9; i++) { /* 100 each are expected, the deviation is 9.4 */
        assert_in_range(moved[i], 60, 140);
        assert_in_range(dropped[i], 60, 140);
    }
    assert_in_range(mirrored, 390, 510);
}

TEST_IN_FOLDER(cifar10_in_the_folder_of_its_archive_is_found)
{
    make_cifar(state, "d/cifar-10-batches-bin");
    struct dataset_spec spec = {.source = SOURCE_CIFAR10, .image = SIDE};
    spec.path = fixture_path(state, "d");
    OWN(dataset) *train = opened(&spec, SPLIT_TRAIN);
    assert_int_equal(dataset_count(train), 15);
}

TEST_IN_FOLDER(malformed_cifar10_is_refused)
{
    struct dataset_spec spec = {.source = SOURCE_CIFAR10, .image = SIDE};
    spec.path = make_cifar(state, "c");
    spec.train_images = 50000;
    assert_refused(&spec, SPLIT_TRAIN, 65, ": 15 training samples, but the job says 50000 ");
    spec.train_images = 0;
    spec.image = 224;
    assert_refused(&spec, SPLIT_TRAIN, 65, "has images of 32 pixels, but 224 were asked for");
    spec.image = SIDE;
    fixture_write(fixture_path(state, "c/data_batch_3.bin"), "short", 5);
    assert_refused(&spec, SPLIT_TRAIN, 65, "data_batch_3.bin: 5 bytes are no whole number");
    fixture_write(fixture_path(state, "c/test_batch.bin"), "", 0);
    assert_refused(&spec, SPLIT_VALIDATION, 65, "test_batch.bin: 0 bytes");
    remove(fixture_path(state, "c/data_batch_1.bin"));
    assert_refused(&spec, SPLIT_TRAIN, 66, "data_batch_1.bin: cannot be read: No such file");
}

TEST_IN_FOLDER(a_label_that_is_none_is_a_corrupt_image)
{
    struct dataset_spec spec = {.source = SOURCE_CIFAR10, .image = SIDE};
    spec.path = make_cifar(state, "c");
    uint8_t record[RECORD] = {10};
    fixture_write(fixture_path(state, "c/data_batch_1.bin"), record, RECORD);
    OWN(dataset) *train = opened(&spec, SPLIT_TRAIN);
    float image[FLOATS];
    int32_t label = -1;
    HELD(text) messages = {0};
    for (int32_t i = 0; i < 3; i++)
        assert_int_equal(dataset_read(train, 0, (uint64_t)i, false, image, &label), -1);
    assert_int_equal(dataset_read(train, 1, 0, false, image, &label), 0);
    assert_int_equal(dataset_corrupt(train, &messages), 1);
    assert_has(messages.data, "data_batch_1.bin: image 0 has label 10");
    assert_null(strchr(strchr(messages.data, '\n') + 1, '\n'));
}
