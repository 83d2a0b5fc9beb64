#define OWN_MAIN
#include "exec/cuda/pictures/jpeg.h"

#include "exec/cuda/runtime/check.h"
#include "exec/input/picture/jpeg.h"
#include "tests/cuda/fake/fake_nvjpeg.h"
#include "tests/cuda/fake/fake_runtime.h"
#include "tests/exec/input/fixture.h"
#include "tests/test.h"

/* JPEG files decoded on the device against libjpeg. */

enum { FILES = 6, GREY = 1, PROGRESSIVE = 3, ROOM = 3 * 200 * 200 };

/* Widths tell them apart. */
static const struct form forms[FILES] = {
    {120, 90, 3, 2, 90, false, 1}, {61, 77, 1, 1, 80, false, 2},   {100, 130, 3, 1, 95, false, 3},
    {90, 60, 3, 2, 70, true, 4},   {33, 200, 3, 12, 90, false, 5}, {2, 3, 3, 1, 90, false, 6},
};

OWNED(decoder, decoder_free)

/* Files, and room for their pixels on the device. */
struct bench {
    struct jpeg_gpu *jpeg;
    cudaStream_t stream;
    struct jpeg_file file[FILES];
    uint8_t *data[FILES];
    uint8_t *memory;
    struct fake_nvjpeg *library;
};

static void open_bench(struct bench *bench, struct fake_nvjpeg does)
{
    struct err err = {0};
    *bench = (struct bench){.library = fake_nvjpeg()};
    assert_non_null(bench->library);
    assert_int_equal(bench->library->alive, 0);
    *bench->library = does;
    bench->jpeg = jpeg_gpu_open(FILES, &err);
    assert_ok(bench->jpeg, err);
    CUDA_CHECK(cudaStreamCreateWithFlags(&bench->stream, cudaStreamNonBlocking));
    CUDA_CHECK(cudaMalloc((void **)&bench->memory, (size_t)FILES * ROOM));
    for (int32_t i = 0; i < FILES; i++) {
        int64_t size;
        bench->data[i] = fixture_jpeg(&forms[i], &size);
        bench->file[i] = (struct jpeg_file){.data = bench->data[i],
                                            .size = size,
                                            .height = forms[i].height,
                                            .width = forms[i].width,
                                            .pixels = bench->memory + (size_t)i * ROOM,
                                            .decoded = -1};
    }
}

static void bench_close(struct bench *bench)
{
    jpeg_gpu_close(bench->jpeg);
    CUDA_CHECK(cudaStreamDestroy(bench->stream));
    CUDA_CHECK(cudaFree(bench->memory));
    for (int32_t i = 0; i < FILES; i++)
        free(bench->data[i]);
    assert_int_equal(bench->library->alive, 0);
    assert_int_equal(fake_objects(), 0);
}

static void expect_pixels(const struct jpeg_file *file)
{
    struct err err = {0};
    OWN(decoder) *decoder = decoder_new();
    HELD(buffer) pixels = {0};
    struct picture picture;
    int32_t width, height;
    size_t size = (size_t)3 * (size_t)file->width * (size_t)file->height;
    AUTOFREE uint8_t *found = base_alloc((int64_t)size, 1);
    assert_int_equal(decoder_open(decoder, "file", file->data, file->size, &width, &height, &err),
                     0);
    struct box box = {.width = width, .height = height};
    assert_int_equal(decoder_read(decoder, box, 1, &pixels, &picture, &err), 0);
    CUDA_CHECK(cudaMemcpy(found, file->pixels, size, cudaMemcpyDeviceToHost));
    for (int32_t y = 0; y < height; y++)
        assert_memory_equal(found + (size_t)3 * (size_t)(y * width),
                            picture.pixel + y * picture.stride, (size_t)3 * (size_t)width);
}

/* Decode; all but file @refused (-1: none) must be right. */
static void decode(struct bench *bench, int32_t refused)
{
    CUDA_CHECK(cudaMemset(bench->memory, 0xFF, (size_t)FILES * ROOM));
    jpeg_gpu_decode(bench->jpeg, bench->stream, bench->file, FILES);
    for (int32_t i = 0; i < FILES; i++) {
        assert_int_equal(bench->file[i].decoded, i != refused);
        if (i != refused)
            expect_pixels(&bench->file[i]);
    }
}

TEST(pixels_are_those_of_libjpeg)
{
    CLOSED(bench) bench;
    open_bench(&bench, (struct fake_nvjpeg){0});
    assert_string_equal(jpeg_gpu_name(bench.jpeg), "nvJPEG 13.0, hardware");
    for (int32_t i = 0; i < 3; i++)
        decode(&bench, -1);
    assert_int_equal(bench.library->batches, 3);
    assert_int_equal(bench.library->in_batches, 3 * (FILES - 1));
    assert_int_equal(bench.library->alone, 3); /* the progressive one */
    assert_int_equal(bench.library->initialised, 1);
}

TEST(without_hardware_kernels_decode_all_together)
{
    CLOSED(bench) bench;
    open_bench(&bench, (struct fake_nvjpeg){.no_hardware = true});
    assert_string_equal(jpeg_gpu_name(bench.jpeg), "nvJPEG 13.0, kernels");
    decode(&bench, -1);
    assert_int_equal(bench.library->in_batches, FILES);
    assert_int_equal(bench.library->alone, 0);
}

TEST(a_refused_file_does_not_hold_up_the_others)
{
    for (int32_t i = 0; i < FILES; i++) {
        CLOSED(bench) bench;
        open_bench(&bench, (struct fake_nvjpeg){.refused = forms[i].width});
        decode(&bench, i);
        decode(&bench, i); /* and the state is ready again */
        bench.library->refused = 0;
        decode(&bench, -1);
    }
}

TEST(a_damaged_file_does_not_hold_up_the_others)
{
    for (int32_t i = 0; i < FILES; i++) {
        CLOSED(bench) bench;
        open_bench(&bench, (struct fake_nvjpeg){0});
        int64_t size = bench.file[i].size;
        bench.file[i].size = size / 2; /* ends early */
        decode(&bench, i);
        bench.file[i].size = size;
        bench.data[i][0] = 'x'; /* is none */
        decode(&bench, i);
    }
}

TEST(a_file_of_another_size_is_refused)
{
    CLOSED(bench) bench;
    open_bench(&bench, (struct fake_nvjpeg){0});
    bench.file[2].height--;
    decode(&bench, 2);
    bench.file[2].height++;
    bench.library->wrong_width = forms[4].width;
    decode(&bench, 4);
}

TEST(four_components_are_refused)
{
    CLOSED(bench) bench;
    struct form form = forms[0];
    open_bench(&bench, (struct fake_nvjpeg){0});
    form.components = 4;
    free(bench.data[0]);
    bench.data[0] = fixture_jpeg(&form, &bench.file[0].size);
    bench.file[0].data = bench.data[0];
    decode(&bench, 0);
}

TEST(a_batch_that_fails_is_decoded_one_by_one)
{
    CLOSED(bench) bench;
    open_bench(&bench, (struct fake_nvjpeg){.fail_batches = 2});
    decode(&bench, -1);
    decode(&bench, -1);
    assert_int_equal(bench.library->batches, 0);
    assert_int_equal(bench.library->alone, 2 * FILES);
    decode(&bench, -1);
    assert_int_equal(bench.library->batches, 1);
}

TEST(a_picture_that_a_batch_leaves_out_is_noticed)
{
    for (int32_t i = 0; i < FILES; i++) {
        if (i == PROGRESSIVE)
            continue;
        CLOSED(bench) bench;
        open_bench(&bench, (struct fake_nvjpeg){.skipped = forms[i].width});
        decode(&bench, -1);
        assert_int_equal(bench.library->batches, 1);
        assert_int_equal(bench.library->alone, 2);
    }
}

TEST(batches_may_be_smaller)
{
    CLOSED(bench) bench;
    open_bench(&bench, (struct fake_nvjpeg){.no_hardware = true});
    for (int32_t count = FILES; count > 0; count--) {
        int64_t before = bench.library->in_batches;
        CUDA_CHECK(cudaMemset(bench.memory, 0xFF, (size_t)FILES * ROOM));
        jpeg_gpu_decode(bench.jpeg, bench.stream, bench.file, count);
        assert_int_equal(bench.library->in_batches - before, count);
        for (int32_t i = 0; i < count; i++)
            expect_pixels(&bench.file[i]);
    }
    jpeg_gpu_decode(bench.jpeg, bench.stream, bench.file, 0);
}

TEST(a_library_that_does_not_start_is_a_message)
{
    struct err err = {0};
    struct fake_nvjpeg *library = fake_nvjpeg();
    *library = (struct fake_nvjpeg){.no_start = true};
    assert_null(jpeg_gpu_open(FILES, &err));
    assert_message(&err, 69, "nvJPEG does not start: status 7");
    assert_int_equal(library->alive, 0);
    assert_int_equal(fake_objects(), 0);
}

int main(void)
{
    int failed = cmocka_run_group_tests_name("at once", tests, NULL, NULL);
    fake_lazy(true);
    return failed + cmocka_run_group_tests_name("as late as possible", tests, NULL, NULL);
}
