#include "tests/cuda/fake/fake_nvjpeg.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "exec/cuda/pictures/nvjpeg.h"
#include "tests/cuda/fake/fake_runtime.h"

/* Statuses, as NVIDIA's documentation names them. */
enum { INVALID_PARAMETER = 2, BAD_JPEG = 3, NOT_SUPPORTED = 4, EXECUTION_FAILED = 6, ARCH = 7 };

struct nvjpegHandle {
    bool alive;
    int backend;
};

struct nvjpegJpegState {
    bool alive;
    struct nvjpegHandle *handle;
    int32_t batch; /* 0: not ready for any */
};

struct nvjpegJpegStream {
    bool alive;
    bool progressive;
};

struct fake_nvjpeg fake_nvjpeg_control;

static _Noreturn void misuse(const char *what)
{
    fprintf(stderr, "misuse of nvJPEG: %s\n", what);
    abort();
}

/* ---- libjpeg ---- */

/* A file being read, or what came of it. */
struct reading {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr manager;
    jmp_buf failure;
    uint8_t *pixels; /* (height, width, 3) */
};

static void give_up(j_common_ptr jpeg)
{
    struct reading *reading = jpeg->client_data;
    longjmp(reading->failure, 1);
}

static void judge(j_common_ptr jpeg, int level)
{
    if (level < 0) /* pixels that libjpeg made up */
        give_up(jpeg);
}

static void begin(struct reading *reading, const unsigned char *data, size_t length)
{
    reading->jpeg.err = jpeg_std_error(&reading->manager);
    reading->manager.error_exit = give_up;
    reading->manager.emit_message = judge;
    reading->jpeg.client_data = reading;
    jpeg_create_decompress(&reading->jpeg);
    jpeg_mem_src(&reading->jpeg, data, (unsigned long)length);
    jpeg_read_header(&reading->jpeg, TRUE);
}

static void end(struct reading *reading)
{
    jpeg_destroy_decompress(&reading->jpeg);
    free(reading->pixels);
}

static int read_header(struct reading *reading, const unsigned char *data, size_t length)
{
    memset(reading, 0, sizeof(*reading));
    if (setjmp(reading->failure)) {
        end(reading);
        return BAD_JPEG;
    }
    begin(reading, data, length);
    return NVJPEG_SUCCESS;
}

/* The whole file, if it is one that is decoded; end() it then. */
static int read_file(struct reading *reading, const unsigned char *data, size_t length)
{
    memset(reading, 0, sizeof(*reading));
    if (setjmp(reading->failure)) {
        end(reading);
        return BAD_JPEG;
    }
    begin(reading, data, length);
    struct jpeg_decompress_struct *jpeg = &reading->jpeg;
    if ((int32_t)jpeg->image_width == fake_nvjpeg_control.refused) {
        end(reading);
        return NOT_SUPPORTED;
    }
    size_t row = (size_t)3 * jpeg->image_width;
    reading->pixels = calloc(row, jpeg->image_height);
    if (jpeg->num_components == 4) /* decoded too, to colours of its own */
        return NVJPEG_SUCCESS;
    jpeg->out_color_space = JCS_RGB;
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW to = reading->pixels + jpeg->output_scanline * row;
        jpeg_read_scanlines(jpeg, &to, 1);
    }
    jpeg_finish_decompress(jpeg);
    return NVJPEG_SUCCESS;
}

/* ---- work on streams ---- */

/* Rows on their way to the device. */
struct delivery {
    uint8_t *pixels; /* goes away */
    uint8_t *to;
    size_t row, pitch, height;
};

static void deliver(void *argument)
{
    const struct delivery *delivery = argument;
    for (size_t i = 0; i < delivery->height; i++) {
        fake_access(delivery->to + i * delivery->pitch, delivery->row, true, "nvJPEG");
        memcpy(delivery->to + i * delivery->pitch, delivery->pixels + i * delivery->row,
               delivery->row);
    }
    free(delivery->pixels);
}

/* Takes the pixels over. */
static void send(struct reading *reading, const struct nvjpeg_image *image, cudaStream_t stream)
{
    struct delivery delivery = {.pixels = reading->pixels,
                                .to = image->channel[0],
                                .row = (size_t)3 * reading->jpeg.image_width,
                                .pitch = image->pitch[0],
                                .height = reading->jpeg.image_height};
    if (delivery.pitch < delivery.row)
        misuse("rows are longer than from row to row");
    if (!fake_on_device(delivery.to) ||
        !fake_on_device(delivery.to + delivery.pitch * (delivery.height - 1) + delivery.row - 1))
        misuse("an image that does not lie in the device's memory");
    reading->pixels = NULL;
    fake_enqueue_c(stream, deliver, &delivery, sizeof(delivery));
}

/* ---- handles ---- */

static void check_handle(const struct nvjpegHandle *handle)
{
    if (!handle || !handle->alive)
        misuse("a handle that is not there");
}

static void check_state(const struct nvjpegHandle *handle, const struct nvjpegJpegState *state)
{
    check_handle(handle);
    if (!state || !state->alive || state->handle != handle)
        misuse("a state that is not there, or another handle's");
}

int nvjpegGetProperty(int property, int *value)
{
    *value = property == NVJPEG_MAJOR ? 13 : 0;
    return NVJPEG_SUCCESS;
}

int nvjpegCreateEx(int backend, void *device_allocator, void *pinned_allocator, unsigned flags,
                   struct nvjpegHandle **handle)
{
    if (device_allocator || pinned_allocator || flags)
        return INVALID_PARAMETER;
    if (fake_nvjpeg_control.no_start)
        return ARCH;
    if (backend == NVJPEG_HARDWARE && fake_nvjpeg_control.no_hardware)
        return ARCH;
    *handle = malloc(sizeof(**handle));
    **handle = (struct nvjpegHandle){true, backend};
    fake_nvjpeg_control.alive++;
    return NVJPEG_SUCCESS;
}

int nvjpegDestroy(struct nvjpegHandle *handle)
{
    check_handle(handle);
    handle->alive = false;
    free(handle);
    fake_nvjpeg_control.alive--;
    return NVJPEG_SUCCESS;
}

int nvjpegJpegStateCreate(struct nvjpegHandle *handle, struct nvjpegJpegState **state)
{
    check_handle(handle);
    *state = malloc(sizeof(**state));
    **state = (struct nvjpegJpegState){.alive = true, .handle = handle};
    fake_nvjpeg_control.alive++;
    return NVJPEG_SUCCESS;
}

int nvjpegJpegStateDestroy(struct nvjpegJpegState *state)
{
    check_state(state ? state->handle : NULL, state);
    state->alive = false;
    free(state);
    fake_nvjpeg_control.alive--;
    return NVJPEG_SUCCESS;
}

int nvjpegJpegStreamCreate(struct nvjpegHandle *handle, struct nvjpegJpegStream **header)
{
    check_handle(handle);
    *header = malloc(sizeof(**header));
    **header = (struct nvjpegJpegStream){.alive = true};
    fake_nvjpeg_control.alive++;
    return NVJPEG_SUCCESS;
}

int nvjpegJpegStreamDestroy(struct nvjpegJpegStream *header)
{
    if (!header || !header->alive)
        misuse("a header that is not there");
    header->alive = false;
    free(header);
    fake_nvjpeg_control.alive--;
    return NVJPEG_SUCCESS;
}

/* ---- headers ---- */

int nvjpegJpegStreamParseHeader(struct nvjpegHandle *handle, const unsigned char *data,
                                size_t length, struct nvjpegJpegStream *header)
{
    struct reading reading;
    check_handle(handle);
    if (read_header(&reading, data, length) != NVJPEG_SUCCESS)
        return BAD_JPEG;
    header->progressive = reading.jpeg.progressive_mode;
    end(&reading);
    return NVJPEG_SUCCESS;
}

int nvjpegDecodeBatchedSupported(struct nvjpegHandle *handle, struct nvjpegJpegStream *header,
                                 int *refused)
{
    check_handle(handle);
    *refused = handle->backend == NVJPEG_HARDWARE && header->progressive;
    return NVJPEG_SUCCESS;
}

int nvjpegGetImageInfo(struct nvjpegHandle *handle, const unsigned char *data, size_t length,
                       int *components, int *subsampling, int *widths, int *heights)
{
    struct reading reading;
    check_handle(handle);
    if (read_header(&reading, data, length) != NVJPEG_SUCCESS)
        return BAD_JPEG;
    *components = reading.jpeg.num_components;
    *subsampling = 0;
    memset(widths, 0, NVJPEG_COMPONENTS * sizeof(*widths));
    memset(heights, 0, NVJPEG_COMPONENTS * sizeof(*heights));
    widths[0] = (int)reading.jpeg.image_width;
    heights[0] = (int)reading.jpeg.image_height;
    widths[0] += widths[0] == fake_nvjpeg_control.wrong_width;
    end(&reading);
    return NVJPEG_SUCCESS;
}

/* ---- decoding ---- */

int nvjpegDecode(struct nvjpegHandle *handle, struct nvjpegJpegState *state,
                 const unsigned char *data, size_t length, int output, struct nvjpeg_image *image,
                 cudaStream_t stream)
{
    struct reading reading;
    check_state(handle, state);
    if (output != NVJPEG_RGBI)
        return INVALID_PARAMETER;
    int status = read_file(&reading, data, length);
    if (status != NVJPEG_SUCCESS)
        return status;
    send(&reading, image, stream);
    end(&reading);
    fake_nvjpeg_control.alone++;
    return NVJPEG_SUCCESS;
}

int nvjpegDecodeBatchedInitialize(struct nvjpegHandle *handle, struct nvjpegJpegState *state,
                                  int batch, int threads, int output)
{
    check_state(handle, state);
    if (batch < 1 || threads < 1 || output != NVJPEG_RGBI)
        return INVALID_PARAMETER;
    state->batch = batch;
    fake_nvjpeg_control.initialised++;
    return NVJPEG_SUCCESS;
}

static int decode_one(const struct nvjpegHandle *handle, const unsigned char *data, size_t length,
                      const struct nvjpeg_image *image, cudaStream_t stream)
{
    struct reading reading;
    int status = read_file(&reading, data, length);
    if (status != NVJPEG_SUCCESS)
        return status;
    if (handle->backend == NVJPEG_HARDWARE && reading.jpeg.progressive_mode)
        status = NOT_SUPPORTED;
    else if ((int32_t)reading.jpeg.image_width != fake_nvjpeg_control.skipped)
        send(&reading, image, stream);
    end(&reading);
    return status;
}

int nvjpegDecodeBatched(struct nvjpegHandle *handle, struct nvjpegJpegState *state,
                        const unsigned char *const *data, const size_t *length,
                        struct nvjpeg_image *image, cudaStream_t stream)
{
    check_state(handle, state);
    if (state->batch == 0)
        misuse("a batch of a state that is not ready for it");
    int32_t batch = state->batch;
    for (int32_t i = 0; i < batch; i++) {
        int status = decode_one(handle, data[i], length[i], &image[i], stream);
        if (status == NVJPEG_SUCCESS && fake_nvjpeg_control.fail_batches > 0) {
            fake_nvjpeg_control.fail_batches--;
            status = EXECUTION_FAILED;
        }
        if (status != NVJPEG_SUCCESS) {
            state->batch = 0;
            return status;
        }
    }
    fake_nvjpeg_control.batches++;
    fake_nvjpeg_control.in_batches += batch;
    return NVJPEG_SUCCESS;
}
