#include <sys/stat.h>

#include "tests/exec/input/fixture.h"
#include "tests/test.h"

enum { SIDE = 32, FLOATS = 3 * SIDE * SIDE };

static const struct form small = {
    .width = 48, .height = 40, .components = 3, .subsampling = 2, .quality = 90};

static struct form numbered(uint32_t seed)
{
    struct form form = small;
    form.seed = seed;
    return form;
}

static struct dataset_spec spec_of(enum dataset_source source, const char *path,
                                   const char *validation_path)
{
    return (struct dataset_spec){
        .source = source, .path = path, .validation_path = validation_path, .image = SIDE};
}

/* Whether image @index looks like that of another dataset. */
static void assert_same_image(const struct dataset *a, int64_t a_index, const struct dataset *b,
                              int64_t b_index, bool augment)
{
    float left[FLOATS], right[FLOATS];
    int32_t label = -1;
    assert_int_equal(dataset_read(a, a_index, 3, augment, left, &label), 0);
    assert_int_equal(dataset_read(b, b_index, 3, augment, right, &label), 0);
    assert_memory_equal(left, right, sizeof(left));
}

static int32_t label_of(const struct dataset *dataset, int64_t index)
{
    float image[FLOATS];
    int32_t label = -1;
    assert_int_equal(dataset_read(dataset, index, 0, false, image, &label), 0);
    return label;
}

/* train/ with classes a (2 images), b (1), c (2), and val/ with one of each. */
static const char *make_folders(void **state)
{
    static const char *const names[] = {"train/c/2.jpg", "train/a/y.JPEG", "train/a/x.jpeg",
                                        "train/b/1.JPG", "train/c/10.jpg", "val/a/1.jpg",
                                        "val/b/1.jpg",   "val/c/1.jpg"};
    for (uint32_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct form form = numbered(i);
        fixture_write_jpeg(fixture_path(state, "f/%s", names[i]), &form);
    }
    return fixture_path(state, "f");
}

TEST_IN_FOLDER(a_folder_has_classes_and_files_in_the_order_of_their_names)
{
    const char *path = make_folders(state);
    struct dataset_spec spec = spec_of(SOURCE_IMAGEFOLDER, path, NULL);
    fixture_write(fixture_path(state, "f/train/a/notes.txt"), "", 0);
    fixture_write(fixture_path(state, "f/train/LICENSE"), "", 0);
    spec.classes = 3;
    OWN(dataset) *train = opened(&spec, SPLIT_TRAIN);
    static const int32_t expected[] = {0, 0, 1, 2, 2};
    assert_int_equal(dataset_count(train), 5);
    for (int64_t i = 0; i < 5; i++)
        assert_int_equal(label_of(train, i), expected[i]);
    /* a/x.jpeg, a/y.JPEG, b/1.JPG, c/10.jpg, c/2.jpg: alone in folders of their own. */
    static const uint32_t seeds[] = {2, 1, 3, 4, 0};
    for (uint32_t i = 0; i < 5; i++) {
        struct form form = numbered(seeds[i]);
        fixture_write_jpeg(fixture_path(state, "g/%u/z/1.jpg", i), &form);
        const char *one = fixture_path(state, "g/%u", i);
        struct dataset_spec alone = spec_of(SOURCE_IMAGEFOLDER, one, one);
        OWN(dataset) *dataset = opened(&alone, SPLIT_TRAIN);
        assert_same_image(train, i, dataset, 0, false);
    }
}

TEST_IN_FOLDER(validation_is_beside_the_training_or_where_it_is_said_to_be)
{
    const char *path = make_folders(state);
    struct dataset_spec spec = spec_of(SOURCE_IMAGEFOLDER, path, NULL);
    OWN(dataset) *beside = opened(&spec, SPLIT_VALIDATION);
    assert_int_equal(dataset_count(beside), 3);
    struct dataset_spec said =
        spec_of(SOURCE_IMAGEFOLDER, fixture_path(state, "f/train"), fixture_path(state, "f/val"));
    OWN(dataset) *there = opened(&said, SPLIT_VALIDATION);
    for (int64_t i = 0; i < 3; i++)
        assert_same_image(beside, i, there, i, false);
}

TEST_IN_FOLDER(validation_has_the_classes_of_training)
{
    const char *path = make_folders(state);
    struct dataset_spec spec = spec_of(SOURCE_IMAGEFOLDER, path, NULL);
    struct form form = numbered(1);
    fixture_write_jpeg(fixture_path(state, "f/train/bb/1.jpg"), &form);
    assert_refused(&spec, SPLIT_VALIDATION, 65, "f/val: class 2 is 'c', but in");
    assert_int_equal(rename(fixture_path(state, "f/train/bb"), fixture_path(state, "f/train/d")),
                     0);
    assert_refused(&spec, SPLIT_VALIDATION, 65, "f/val: class 3 is '(none)', but in");
    /* Where there is only validation, it is taken as it is. */
    spec.path = fixture_path(state, "nowhere"), spec.validation_path = fixture_path(state, "f/val");
    spec.classes = 3;
    OWN(dataset) *dataset = opened(&spec, SPLIT_VALIDATION);
    assert_int_equal(dataset_count(dataset), 3);
}

TEST_IN_FOLDER(linked_folders_and_files_are_followed)
{
    const char *path = make_folders(state);
    assert_int_equal(symlink("../val/b", fixture_path(state, "f/train/d")), 0);
    assert_int_equal(symlink("../b/1.JPG", fixture_path(state, "f/train/a/z.jpg")), 0);
    struct dataset_spec spec = spec_of(SOURCE_IMAGEFOLDER, path, NULL);
    spec.classes = 4;
    OWN(dataset) *train = opened(&spec, SPLIT_TRAIN);
    assert_int_equal(dataset_count(train), 7);
    assert_same_image(train, 2, train, 3, false);
}

TEST_IN_FOLDER(folders_that_are_not_what_they_should_be_are_refused)
{
    const char *path = make_folders(state);
    struct dataset_spec spec = spec_of(SOURCE_IMAGEFOLDER, path, NULL);
    spec.train_images = 6;
    assert_refused(&spec, SPLIT_TRAIN, 65,
                   "5 training samples, but the job says 6 (training.dataset.train_images)");
    spec.validation_images = 50000;
    assert_refused(
        &spec, SPLIT_VALIDATION, 65,
        "3 validation samples, but the job says 50000 (training.dataset.validation_images)");
    spec.train_images = 5;
    spec.classes = 1000;
    assert_refused(&spec, SPLIT_TRAIN, 65, "3 classes, but the job says 1000 (model.classes)");
    spec.classes = 3;
    struct dataset *fits = opened(&spec, SPLIT_TRAIN);
    dataset_close(fits);

    spec.path = fixture_path(state, "missing");
    assert_refused(&spec, SPLIT_TRAIN, 66, "missing/train: cannot be read: No such file");
    spec.path = spec.validation_path = fixture_path(state, "f/train/a/x.jpeg");
    assert_refused(&spec, SPLIT_TRAIN, 66, "x.jpeg: cannot be read: Not a directory");
    spec.path = spec.validation_path = fixture_path(state, "f/train/a");
    assert_refused(&spec, SPLIT_TRAIN, 65, "no folders in it; expected one per class");
    spec.path = path, spec.validation_path = NULL;
    fixture_write(fixture_path(state, "f/val/a/more/1.jpg"), "", 0);
    spec.validation_images = 4;
    fits = opened(&spec, SPLIT_VALIDATION);
    dataset_close(fits);
    fixture_write(fixture_path(state, "f/train/b2/notes.txt"), "", 0);
    assert_refused(&spec, SPLIT_TRAIN, 65, "f/train/b2: a class without images");
    fixture_write(fixture_path(state, "f/train/a/w.bmp"), "", 0);
    assert_refused(&spec, SPLIT_TRAIN, 65, "w.bmp: only JPEG, PNG and WebP can be read");
}

TEST_IN_FOLDER(a_folder_that_may_not_be_read_is_refused)
{
    const char *path = make_folders(state), *class = fixture_path(state, "f/train/b");
    const uid_t nobody = 65534, me = geteuid();
    struct dataset_spec spec = spec_of(SOURCE_IMAGEFOLDER, path, NULL);
    assert_int_equal(chmod(fixture_path(state, "."), 0755), 0);
    assert_int_equal(chmod(class, 0), 0);
    if (me == 0) /* who may read all */
        assert_int_equal(seteuid(nobody), 0);
    assert_refused(&spec, SPLIT_TRAIN, 66, "f/train/b: cannot be read: Permission denied");
    assert_int_equal(seteuid(me), 0);
    assert_int_equal(chmod(class, 0755), 0);
}

TEST(paths_are_asked_for_where_they_are_read)
{
    struct dataset_spec spec = spec_of(SOURCE_IMAGEFOLDER, NULL, NULL);
    assert_refused(&spec, SPLIT_TRAIN, 64, "source imagefolder needs a path");
    spec = spec_of(SOURCE_PACK, "a.ftp", NULL);
    assert_refused(&spec, SPLIT_VALIDATION, 64, "source pack needs a path of the validation");
    spec = spec_of(SOURCE_SYNTHETIC, "data", NULL);
    assert_refused(&spec, SPLIT_TRAIN, 64, "so no path is read: leave out data");
    spec = spec_of(SOURCE_CIFAR10, "data", "more");
    assert_refused(&spec, SPLIT_TRAIN, 64, "holds the validation samples too: leave out more");
}

static void add_sample(struct text *tar, const char *key, uint32_t seed, const char *class)
{
    struct form form = numbered(seed);
    int64_t size;
    uint8_t *data = fixture_jpeg(&form, &size);
    char *name = base_format("%s.jpg", key);
    fixture_tar(tar, name, '0', data, size);
    free(name);
    free(data);
    name = base_format("%s.cls", key);
    fixture_tar(tar, name, '0', class, (int64_t)strlen(class));
    free(name);
}

static void write_tar(const char *path, struct text *tar)
{
    fixture_tar_end(tar);
    fixture_write(path, tar->data, tar->length);
    text_release(tar);
}

/* Three shards of two images of classes 0 1, 2 3, 4 0. */
static void make_shards(void **state)
{
    for (uint32_t i = 0; i < 3; i++) {
        struct text tar = {0};
        char class[] = {(char)('0' + 2 * i), '\0'}, other[] = {(char)('0' + (2 * i + 1) % 5), '\0'};
        fixture_tar(&tar, "images.d/", '5', "", 0);
        add_sample(&tar, "images.d/one", 2 * i, class);
        add_sample(&tar, "images.d/two", 2 * i + 1, other);
        fixture_tar(&tar, "images.d/two.json", '0', "{}", 2);
        write_tar(fixture_path(state, "s/t-%03u.tar", i + 9), &tar);
    }
}

TEST_IN_FOLDER(shards_are_found_by_braces_by_stars_and_by_their_folder)
{
    make_shards(state);
    const char *patterns[] = {
        fixture_path(state, "s/t-{009..011}.tar"),
        fixture_path(state, "s/t-*.tar"),
        fixture_path(state, "s"),
        fixture_path(state, "s/t-{009,010,011}.t{ar,}"),
    };
    static const int32_t expected[] = {0, 1, 2, 3, 4, 0};
    for (size_t i = 0; i < 3; i++) {
        struct dataset_spec spec = spec_of(SOURCE_WEBDATASET, patterns[i], NULL);
        spec.classes = 5;
        OWN(dataset) *dataset = opened(&spec, SPLIT_TRAIN);
        assert_int_equal(dataset_count(dataset), 6);
        for (int64_t j = 0; j < 6; j++)
            assert_int_equal(label_of(dataset, j), expected[j]);
    }
    struct dataset_spec spec = spec_of(SOURCE_WEBDATASET, patterns[3], NULL);
    assert_refused(&spec, SPLIT_TRAIN, 66, "t-009.t: cannot be read");
}

TEST_IN_FOLDER(shards_hold_the_same_images_as_folders)
{
    make_shards(state);
    for (uint32_t i = 0; i < 6; i++) {
        struct form form = numbered(i);
        fixture_write_jpeg(fixture_path(state, "same/a/%u.jpg", i), &form);
    }
    const char *path = fixture_path(state, "same");
    struct dataset_spec shards = spec_of(SOURCE_WEBDATASET, fixture_path(state, "s"), NULL);
    struct dataset_spec folder = spec_of(SOURCE_IMAGEFOLDER, path, path);
    OWN(dataset) *a = opened(&shards, SPLIT_TRAIN), *b = opened(&folder, SPLIT_TRAIN);
    for (int64_t i = 0; i < 6; i++) {
        assert_same_image(a, i, b, i, false);
        assert_same_image(a, i, b, i, true);
    }
}

TEST_IN_FOLDER(shards_may_have_fewer_classes_than_expected_but_not_more)
{
    make_shards(state);
    struct dataset_spec spec = spec_of(SOURCE_WEBDATASET, fixture_path(state, "s"), NULL);
    spec.classes = 1000;
    dataset_close(opened(&spec, SPLIT_TRAIN));
    spec.classes = 4;
    assert_refused(&spec, SPLIT_TRAIN, 65, "5 classes, but the job says 4 (model.classes)");
}

TEST_IN_FOLDER(names_may_be_long)
{
    struct text tar = {0};
    char key[301], record[400];
    memset(key, 'k', 300);
    key[300] = '\0';
    struct form form = numbered(1);
    int64_t size;
    uint8_t *data = fixture_jpeg(&form, &size);
    /* pax: the length of the record counts its own three digits. */
    snprintf(record, sizeof(record), "%d path=%s.jpg\n", 3 + 6 + 304 + 1, key);
    fixture_tar(&tar, "pax", 'x', record, (int64_t)strlen(record));
    fixture_tar(&tar, "cut off", '0', data, size);
    /* GNU. */
    snprintf(record, sizeof(record), "%s.cls", key);
    fixture_tar(&tar, "././@LongLink", 'L', record, (int64_t)strlen(record) + 1);
    fixture_tar(&tar, "cut off", '0', "17\n", 3);
    write_tar(fixture_path(state, "long.tar"), &tar);
    free(data);
    struct dataset_spec spec = spec_of(SOURCE_WEBDATASET, fixture_path(state, "long.tar"), NULL);
    OWN(dataset) *dataset = opened(&spec, SPLIT_TRAIN);
    assert_int_equal(dataset_count(dataset), 1);
    assert_int_equal(label_of(dataset, 0), 17);
}

/* A tar file of @members, "name=content" with blanks between, from which @cut bytes are missing and
 * whose byte @spoilt (-1: none) is another, is refused. */
static void check_tar(void **state, const char *members, int64_t cut, int64_t spoilt,
                      const char *part)
{
    const char *path = fixture_path(state, "bad.tar");
    char name[16], content[16];
    HELD(text) tar = {0};
    for (int n; sscanf(members, " %15[^=]=%15s%n", name, content, &n) == 2; members += n)
        fixture_tar(&tar, name, '0', content, (int64_t)strlen(content));
    tar.length -= cut;
    if (spoilt >= 0)
        tar.data[spoilt] = 'x';
    fixture_write(path, tar.data, tar.length);
    struct dataset_spec spec = spec_of(SOURCE_WEBDATASET, path, NULL);
    assert_refused(&spec, SPLIT_TRAIN, 65, part);
}

TEST_IN_FOLDER(shards_that_are_not_whole_are_refused)
{
    check_tar(state, "a.cls=1", 0, -1, "bad.tar: a.cls without a.jpg");
    check_tar(state, "a.jpg=1 b.jpg=1", 0, -1, "bad.tar: a.jpg without a.cls");
    check_tar(state, "a.cls=cat", 0, -1, "a.cls: expected the number of a class, got 'cat'");
    check_tar(state, "a.cls=-1", 0, -1, "expected the number of a class");
    check_tar(state, "a.jpg=1 a.jpeg=1", 0, -1, "a second a.jpeg");
    check_tar(state, "readme=hello", 0, -1, "no images; expected members key.jpg and key.cls");
    check_tar(state, "a.cls=1", 0, 3, "bad.tar: not a tar file: Unrecognized archive format");
    check_tar(state, "a.jpg=1 a.cls=1", 512, -1, "truncated: the member at 1024");
    check_tar(state, "a.jpg=1 a.cls=1", 0, 1024 + 3, "bad.tar: not a tar file, or damaged, near 1");
    check_tar(state, "a.jpg=1", 700, -1, "not a tar file");
    check_tar(state, "", 0, -1, "not a tar file");
    const char *path = fixture_path(state, "pax.tar");
    HELD(text) pax = {0};
    fixture_tar(&pax, "pax", 'x', "99 path=a\n", 10);
    fixture_write(path, pax.data, pax.length);
    struct dataset_spec spec = spec_of(SOURCE_WEBDATASET, path, NULL);
    assert_refused(&spec, SPLIT_TRAIN, 65, "not a tar file, or damaged, near ");
}

TEST_IN_FOLDER(patterns_that_name_nothing_are_refused)
{
    struct dataset_spec spec = spec_of(SOURCE_WEBDATASET, fixture_path(state, "no-*.tar"), NULL);
    assert_refused(&spec, SPLIT_TRAIN, 66, "no-*.tar: no file matches");
    spec.path = fixture_path(state, "no-{1..3.tar");
    assert_refused(&spec, SPLIT_TRAIN, 65, "a brace is not closed");
    spec.path = fixture_path(state, "no-{0..999999999}.tar");
    assert_refused(&spec, SPLIT_TRAIN, 65, "more than 100000 files");
    HELD(text) pairs = {0};
    for (int i = 0; i < 100000; i++)
        text_add(&pairs, "{}");
    spec.path = pairs.data;
    assert_refused(&spec, SPLIT_TRAIN, 65, "100000 pairs of braces");
}
