#include <dirent.h>
#include <libgen.h>
#include <signal.h>
#include <sys/resource.h>

#include "exec/input/pack/pack.h"
#include "tests/child.h"
#include "tests/exec/input/fixture.h"
#include "tests/test.h"

enum { SIDE = 32, FLOATS = 3 * SIDE * SIDE, EACH = 4, CLASSES = 3 };

static const int32_t sizes[][2] = {{90, 70}, {60, 110}, {40, 40}, {36, 50}};

/* A folder of CLASSES classes of EACH images, of different sizes and kinds. */
static const char *make_folder(void **state)
{
    for (int32_t i = 0; i < CLASSES * EACH; i++) {
        struct form form = {.width = sizes[i % EACH][0],
                            .height = sizes[i % EACH][1],
                            .components = i == 5 ? 1 : 3,
                            .subsampling = 1 + i % 2,
                            .quality = 95,
                            .progressive = i == 6,
                            .seed = (uint32_t)i};
        fixture_write_jpeg(fixture_path(state, "f/%d/%d.jpg", i / EACH, i % EACH), &form);
    }
    return fixture_path(state, "f");
}

/* To pack that folder. */
static struct pack_job job_of(void **state)
{
    return (struct pack_job){.from = make_folder(state),
                             .to = fixture_path(state, "a.ftp"),
                             .shorter = 37, /* round(32 * 256 / 224) */
                             .threads = 1};
}

static struct pack_summary packed(const struct pack_job *job)
{
    struct pack_summary summary = {0};
    assert_ok(!pack_write(job, &summary, &err), err);
    return summary;
}

/* Nor anything beside it, but the folder that was packed. */
static void assert_gone(const char *path)
{
    AUTOFREE char *copy = base_copy(path);
    DIR *folder = opendir(dirname(copy));
    for (struct dirent *entry; (entry = readdir(folder));)
        assert_true(*entry->d_name == '.' || !strcmp(entry->d_name, "f"));
    closedir(folder);
}

TEST_IN_FOLDER(a_pack_holds_all_images_whole)
{
    struct pack_job job = job_of(state);
    struct pack_summary summary = packed(&job), checked = {0};
    assert_int_equal(summary.images, CLASSES * EACH);
    assert_int_equal(summary.left_out, 0);
    assert_int_equal(summary.classes, CLASSES);
    assert_int_equal(summary.least, EACH);
    assert_int_equal(summary.most, EACH);
    assert_int_equal(pack_check(job.to, &checked, &err), 0);
    assert_true(checked.images == summary.images && checked.bytes == summary.bytes);
    assert_true(checked.least == EACH && checked.most == EACH && checked.shorter == 37);
    assert_true(checked.classes == CLASSES && checked.split == SPLIT_TRAIN);
    CLOSED(pack_file) pack = {0};
    assert_int_equal(pack_file_open(&pack, job.to, &err), 0);
    static const uint32_t expected[][2] = {{47, 37}, {37, 67}, {37, 37}, {36, 50}};
    for (int32_t i = 0; i < CLASSES * EACH; i++) {
        assert_int_equal(pack.entry[i].width, expected[i % EACH][0]);
        assert_int_equal(pack.entry[i].height, expected[i % EACH][1]);
        assert_int_equal(pack.entry[i].label, i / EACH);
    }
}

/* The greatest difference of two datasets' image, in values of a byte. */
static double difference(const struct dataset *a, const struct dataset *b, int64_t index,
                         bool augment)
{
    float left[FLOATS], right[FLOATS];
    int32_t label[2] = {-1, -2};
    double most = 0;
    assert_int_equal(dataset_read(a, index, 4, augment, left, &label[0]), 0);
    assert_int_equal(dataset_read(b, index, 4, augment, right, &label[1]), 0);
    assert_int_equal(label[0], label[1]);
    for (int32_t i = 0; i < FLOATS; i++)
        most = fmax(most, fabs(left[i] - right[i]) * 255 * 0.229);
    return most;
}

TEST_IN_FOLDER(a_pack_validates_like_its_folder)
{
    struct pack_job job = job_of(state);
    job.split = SPLIT_VALIDATION;
    packed(&job);
    struct dataset_spec spec = {.source = SOURCE_PACK,
                                .path = "unused",
                                .validation_path = job.to,
                                .image = SIDE,
                                .classes = CLASSES,
                                .validation_images = CLASSES * EACH};
    OWN(dataset) *pack = dataset_open(&spec, SPLIT_VALIDATION, &err);
    spec.source = SOURCE_IMAGEFOLDER;
    spec.path = spec.validation_path = job.from;
    OWN(dataset) *files = dataset_open(&spec, SPLIT_VALIDATION, &err);
    assert_non_null(pack);
    assert_non_null(files);
    for (int64_t i = 0; i < CLASSES * EACH; i++)
        if (i % EACH < 3) /* of the fourth the shorter side is resized after packing */
            assert_true(difference(pack, files, i, false) < 0.52); /* rounded to bytes once */
    spec.source = SOURCE_PACK;
    spec.path = job.to;
    assert_null(dataset_open(&spec, SPLIT_TRAIN, &err));
    assert_message(&err, 65, "a.ftp: packed as validation images, but opened for training");
}

TEST_IN_FOLDER(a_pack_of_small_images_trains_like_its_folder)
{
    struct pack_job job = job_of(state);
    job.shorter = 1000; /* nothing is resized */
    packed(&job);
    struct dataset_spec spec = {.source = SOURCE_PACK, .path = job.to, .image = SIDE, .seed = 9};
    OWN(dataset) *pack = dataset_open(&spec, SPLIT_TRAIN, &err);
    spec.source = SOURCE_IMAGEFOLDER;
    spec.path = spec.validation_path = job.from;
    OWN(dataset) *files = dataset_open(&spec, SPLIT_TRAIN, &err);
    for (int64_t i = 0; i < CLASSES * EACH; i++)
        if (i % EACH >= 2) /* of the others a crop may be large enough to be decoded smaller */
            assert_true(difference(pack, files, i, true) == 0);
}

TEST_IN_FOLDER(the_bytes_do_not_depend_on_threads)
{
    struct pack_job job = job_of(state);
    const char *first = job.to;
    packed(&job);
    job.to = fixture_path(state, "b.ftp");
    for (job.threads = 2; job.threads <= 4; job.threads++) {
        packed(&job); /* over the one that is there */
        assert_same_file(first, job.to);
    }
}

TEST_IN_FOLDER(tar_files_pack_like_folders)
{
    struct pack_job job = job_of(state), other = job;
    struct text tar = {0};
    for (int32_t i = 0; i < CLASSES * EACH; i++) {
        int64_t size;
        char class = (char)('0' + i / EACH);
        AUTOFREE char *name = base_format("%04d.jpg", i);
        AUTOFREE uint8_t *data =
            fixture_read(fixture_path(state, "f/%d/%d.jpg", i / EACH, i % EACH), &size);
        fixture_tar(&tar, name, '0', data, size);
        memcpy(name + 5, "cls", 3);
        fixture_tar(&tar, name, '0', &class, 1);
    }
    fixture_tar_end(&tar);
    fixture_write(fixture_path(state, "t.tar"), tar.data, tar.length);
    text_release(&tar);
    other.from = fixture_path(state, "t.tar");
    other.to = fixture_path(state, "b.ftp");
    packed(&job);
    packed(&other);
    assert_same_file(job.to, other.to);
}

TEST_IN_FOLDER(corrupt_images_are_left_out_or_refused)
{
    struct pack_job job = job_of(state);
    fixture_write(fixture_path(state, "f/1/2.jpg"), "GIF89a", 6);
    fixture_write(fixture_path(state, "f/2/0.jpg"), "", 0);
    struct pack_summary summary = packed(&job);
    assert_int_equal(summary.images, CLASSES * EACH - 2);
    assert_int_equal(summary.left_out, 2);
    assert_int_equal(summary.least, EACH - 1);
    assert_int_equal(remove(job.to), 0);
    job.strict = true;
    assert_fails(pack_write(&job, &summary, &err), 65,
                 "f/1/2.jpg: not a JPEG: it begins like a GIF");
    assert_gone(job.to);
}

TEST_IN_FOLDER(nothing_to_pack_is_refused)
{
    struct pack_summary summary;
    fixture_write(fixture_path(state, "f/0/0.jpg"), "GIF89a", 6);
    struct pack_job job = {.from = fixture_path(state, "f"),
                           .to = fixture_path(state, "a.ftp"),
                           .shorter = 37,
                           .threads = 1};
    assert_fails(pack_write(&job, &summary, &err), 65, "/f: no image can be read");
    assert_gone(job.to);
    job.from = fixture_path(state, "none");
    assert_fails(pack_write(&job, &summary, &err), 66, "none: cannot be read");
}

TEST_IN_FOLDER(a_damaged_byte_is_found_wherever_it_is)
{
    struct pack_job job = job_of(state);
    packed(&job);
    int64_t size;
    AUTOFREE uint8_t *data = fixture_read(job.to, &size);
    struct pack_header header;
    memcpy(&header, data, sizeof(header));
    for (int64_t at = 0; at < size; at += at < 56 || at >= (int64_t)header.index ? 1 : 97) {
        bool gap = at >= 56 && at < PACK_PAGE; /* between the header and the records */
        struct pack_summary summary;
        data[at] ^= 0x10;
        fixture_write(job.to, data, size);
        data[at] ^= 0x10;
        int failed = pack_check(job.to, &summary, &err);
        if (!failed && !gap && (uint64_t)at < header.index - PACK_PAGE)
            fail_msg("byte %d was changed and not found", (int)at);
        if (failed)
            assert_message(&err, 65, "a.ftp: ");
    }
}

TEST_IN_FOLDER(a_pack_that_is_cut_short_is_refused)
{
    struct pack_job job = job_of(state);
    packed(&job);
    int64_t size;
    AUTOFREE uint8_t *data = fixture_read(job.to, &size);
    for (int64_t left = 0; left < size; left += 1 + size / 50) {
        struct pack_summary summary;
        fixture_write(job.to, data, left);
        assert_fails(pack_check(job.to, &summary, &err), 65, "a.ftp: ");
    }
    struct pack_summary summary;
    data[8] = 2; /* the version */
    fixture_write(job.to, data, size);
    assert_fails(pack_check(job.to, &summary, &err), 65,
                 "a pack of version 2, but this program reads version 1");
}

TEST_IN_FOLDER(a_damaged_record_is_a_corrupt_image)
{
    struct pack_job job = job_of(state);
    packed(&job);
    int64_t size;
    uint8_t *data = fixture_read(job.to, &size);
    data[PACK_PAGE + 100] ^= 1;
    fixture_write(job.to, data, size);
    free(data);
    struct dataset_spec spec = {.source = SOURCE_PACK, .path = job.to, .image = SIDE};
    OWN(dataset) *pack = dataset_open(&spec, SPLIT_TRAIN, &err);
    float image[FLOATS];
    int32_t label = -1;
    assert_int_equal(dataset_read(pack, 0, 0, false, image, &label), -1);
    assert_int_equal(dataset_read(pack, 1, 0, false, image, &label), 0);
    assert_int_equal(dataset_corrupt(pack, NULL), 1);
}

/* Pack with files limited to some kilobytes: what a full disk does, in a child. */
static int pack_on_a_full_disk(const void *argument)
{
    const struct pack_job *job = argument;
    struct rlimit limit = {20000, 20000};
    struct pack_summary summary;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    int failed = pack_write(job, &summary, &err);
    if (failed)
        fputs(err.text, stderr);
    return failed ? err.exit_code : 0;
}

TEST_IN_FOLDER(a_failure_leaves_the_old_pack_as_it_was)
{
    struct pack_job job = job_of(state);
    HELD(text) said = {0};
    packed(&job);
    int64_t size;
    AUTOFREE uint8_t *data = fixture_read(job.to, &size);
    const char *kept = fixture_path(state, "kept");
    fixture_write(kept, data, size);
    assert_int_equal(child_run(pack_on_a_full_disk, &job, STDERR_FILENO, &said), 74);
    assert_same_file(job.to, kept);
}

TEST_IN_FOLDER(a_place_that_cannot_be_written_is_refused)
{
    struct pack_summary summary;
    struct pack_job job = job_of(state);
    job.to = "/proc/none/a.ftp";
    assert_fails(pack_write(&job, &summary, &err), 73,
                 "/proc/none/a.ftp: cannot be written: No such file");
}
