#include "exec/cuda/pictures/jpeg.h"

#include <assert.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "exec/cuda/pictures/nvjpeg.h"
#include "exec/cuda/runtime/check.h"

enum { MARK = 64 /* bytes at the end of a picture */ };

/* X for each function of the library. */
#define FUNCTIONS(X)                                                                               \
    X(GetProperty)                                                                                 \
    X(CreateEx)                                                                                    \
    X(Destroy)                                                                                     \
    X(JpegStateCreate)                                                                             \
    X(JpegStateDestroy)                                                                            \
    X(JpegStreamCreate)                                                                            \
    X(JpegStreamDestroy)                                                                           \
    X(JpegStreamParseHeader)                                                                       \
    X(DecodeBatchedSupported)                                                                      \
    X(GetImageInfo)                                                                                \
    X(Decode)                                                                                      \
    X(DecodeBatchedInitialize)                                                                     \
    X(DecodeBatched)

struct functions {
#define MEMBER(name) __typeof__(&nvjpeg##name) name;
    FUNCTIONS(MEMBER)
#undef MEMBER
};

/* One way to decode. */
struct way {
    struct nvjpegHandle *handle;
    struct nvjpegJpegState *state;
};

struct jpeg_gpu {
    void *library;
    struct functions call;
    struct way together, alone;
    struct nvjpegJpegStream *header; /* of `together` */
    int32_t batch;                   /* files at most */
    int32_t ready_for;               /* files that `together` expects */
    bool complained;                 /* of a batch that failed */
    /* The files decoded together: their indices, and the arguments for the library. */
    int32_t *which;
    const unsigned char **data;
    size_t *length;
    struct nvjpeg_image *image;
    uint8_t *mark, *seen; /* pinned: (MARK) put there, (batch, MARK) found there */
    char name[64];
};

/* ---- opening ---- */

static int find_functions(struct jpeg_gpu *jpeg)
{
    static const struct {
        const char *name;
        size_t place;
    } function[] = {
#define ENTRY(name) {"nvjpeg" #name, offsetof(struct functions, name)},
        FUNCTIONS(ENTRY)
#undef ENTRY
    };
    for (size_t i = 0; i < sizeof(function) / sizeof(*function); i++) {
        void *symbol = dlsym(jpeg->library, function[i].name);
        if (!symbol)
            return -1;
        memcpy((char *)&jpeg->call + function[i].place, &symbol, sizeof(symbol));
    }
    return 0;
}

static int load(struct jpeg_gpu *jpeg, struct err *err)
{
    static const char *const name[] = {"libnvjpeg.so.13", "libnvjpeg.so.12"};
    for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++) {
        jpeg->library = dlopen(name[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (jpeg->library && find_functions(jpeg) == 0)
            return 0;
        if (jpeg->library)
            return err_add_code(err, 69, "nvJPEG: %s lacks a function that is needed", name[i]);
    }
    return err_add_code(err, 69,
                        "nvJPEG is not installed: neither %s nor %s is found by the dynamic linker "
                        "(CUDA's package libnvjpeg)",
                        name[0], name[1]);
}

static int start(struct jpeg_gpu *jpeg, struct way *way, int backend)
{
    int status = jpeg->call.CreateEx(backend, NULL, NULL, 0, &way->handle);
    if (status != NVJPEG_SUCCESS) {
        way->handle = NULL;
        return status;
    }
    status = jpeg->call.JpegStateCreate(way->handle, &way->state);
    if (status != NVJPEG_SUCCESS)
        way->state = NULL;
    return status;
}

static void stop(struct jpeg_gpu *jpeg, struct way *way)
{
    if (way->state)
        jpeg->call.JpegStateDestroy(way->state);
    if (way->handle)
        jpeg->call.Destroy(way->handle);
    *way = (struct way){0};
}

/* Returns the library's status. */
static int start_both(struct jpeg_gpu *jpeg)
{
    int major = 0, minor = 0;
    bool hardware = start(jpeg, &jpeg->together, NVJPEG_HARDWARE) == NVJPEG_SUCCESS;
    int status = NVJPEG_SUCCESS;
    if (!hardware) {
        stop(jpeg, &jpeg->together);
        status = start(jpeg, &jpeg->together, NVJPEG_DEFAULT);
    }
    if (status == NVJPEG_SUCCESS)
        status = start(jpeg, &jpeg->alone, NVJPEG_DEFAULT);
    if (status == NVJPEG_SUCCESS)
        status = jpeg->call.JpegStreamCreate(jpeg->together.handle, &jpeg->header);
    jpeg->call.GetProperty(NVJPEG_MAJOR, &major);
    jpeg->call.GetProperty(NVJPEG_MINOR, &minor);
    snprintf(jpeg->name, sizeof(jpeg->name), "nvJPEG %d.%d, %s", major, minor,
             hardware ? "hardware" : "kernels");
    return status;
}

static void allocate(struct jpeg_gpu *jpeg)
{
    jpeg->which = base_alloc(jpeg->batch, sizeof(*jpeg->which));
    jpeg->data = base_alloc(jpeg->batch, sizeof(*jpeg->data));
    jpeg->length = base_alloc(jpeg->batch, sizeof(*jpeg->length));
    jpeg->image = base_alloc(jpeg->batch, sizeof(*jpeg->image));
    CUDA_CHECK(cudaMallocHost((void **)&jpeg->mark, MARK));
    CUDA_CHECK(cudaMallocHost((void **)&jpeg->seen, (size_t)jpeg->batch * MARK));
    for (int32_t i = 0; i < MARK; i++) /* like no picture */
        jpeg->mark[i] = (uint8_t)(255 * base_uniform(1, 0, (uint64_t)i, 0));
}

struct jpeg_gpu *jpeg_gpu_open(int32_t batch, struct err *err)
{
    struct jpeg_gpu *jpeg = base_alloc(1, sizeof(*jpeg));
    jpeg->batch = batch;
    int failed = load(jpeg, err);
    if (!failed) {
        int status = start_both(jpeg);
        if (status != NVJPEG_SUCCESS)
            failed = err_add_code(err, 69, "nvJPEG does not start: status %d", status);
    }
    if (failed) {
        jpeg_gpu_close(jpeg);
        return NULL;
    }
    allocate(jpeg);
    return jpeg;
}

void jpeg_gpu_close(struct jpeg_gpu *jpeg)
{
    if (!jpeg)
        return;
    if (jpeg->header)
        jpeg->call.JpegStreamDestroy(jpeg->header);
    stop(jpeg, &jpeg->alone);
    stop(jpeg, &jpeg->together);
    if (jpeg->mark)
        CUDA_CHECK(cudaFreeHost(jpeg->mark));
    if (jpeg->seen)
        CUDA_CHECK(cudaFreeHost(jpeg->seen));
    if (jpeg->library)
        dlclose(jpeg->library);
    free(jpeg->which);
    free(jpeg->data);
    free(jpeg->length);
    free(jpeg->image);
    free(jpeg);
}

const char *jpeg_gpu_name(const struct jpeg_gpu *jpeg)
{
    return jpeg->name;
}

/* ---- decoding ---- */

static bool is_what_was_said(const struct jpeg_gpu *jpeg, const struct jpeg_file *file)
{
    int components = 0, subsampling = 0, width[NVJPEG_COMPONENTS], height[NVJPEG_COMPONENTS];
    int status = jpeg->call.GetImageInfo(jpeg->alone.handle, file->data, (size_t)file->size,
                                         &components, &subsampling, width, height);
    return status == NVJPEG_SUCCESS && (components == 1 || components == 3) &&
           width[0] == file->width && height[0] == file->height;
}

static bool goes_with_others(const struct jpeg_gpu *jpeg, const struct jpeg_file *file)
{
    struct nvjpegHandle *handle = jpeg->together.handle;
    int refused = 1;
    return jpeg->call.JpegStreamParseHeader(handle, file->data, (size_t)file->size, jpeg->header) ==
               NVJPEG_SUCCESS &&
           jpeg->call.DecodeBatchedSupported(handle, jpeg->header, &refused) == NVJPEG_SUCCESS &&
           refused == 0;
}

/* The end of the pixels, the place of the mark; and its size. */
static uint8_t *end_of(const struct jpeg_file *file, size_t *size)
{
    size_t bytes = (size_t)3 * (size_t)file->height * (size_t)file->width;
    *size = bytes < MARK ? bytes : MARK;
    return file->pixels + bytes - *size;
}

static void put_mark(const struct jpeg_gpu *jpeg, cudaStream_t stream, const struct jpeg_file *file)
{
    size_t size;
    uint8_t *end = end_of(file, &size);
    CUDA_CHECK(cudaMemcpyAsync(end, jpeg->mark, size, cudaMemcpyHostToDevice, stream));
}

static void look_for_mark(const struct jpeg_gpu *jpeg, cudaStream_t stream,
                          const struct jpeg_file *file, int32_t place)
{
    size_t size;
    const uint8_t *end = end_of(file, &size);
    CUDA_CHECK(cudaMemcpyAsync(jpeg->seen + (size_t)place * MARK, end, size, cudaMemcpyDeviceToHost,
                               stream));
}

static bool mark_is_gone(const struct jpeg_gpu *jpeg, const struct jpeg_file *file, int32_t place)
{
    size_t size;
    end_of(file, &size);
    return memcmp(jpeg->seen + (size_t)place * MARK, jpeg->mark, size) != 0;
}

static struct nvjpeg_image image_of(const struct jpeg_file *file)
{
    return (struct nvjpeg_image){.channel = {file->pixels},
                                 .pitch = {(size_t)3 * (size_t)file->width}};
}

/* Issue the batch of the first @count of `which`. */
static int issue_batch(struct jpeg_gpu *jpeg, cudaStream_t stream, int32_t count)
{
    struct way way = jpeg->together;
    int status = NVJPEG_SUCCESS;
    if (jpeg->ready_for != count)
        status = jpeg->call.DecodeBatchedInitialize(way.handle, way.state, count, 1, NVJPEG_RGBI);
    if (status == NVJPEG_SUCCESS)
        status = jpeg->call.DecodeBatched(way.handle, way.state, jpeg->data, jpeg->length,
                                          jpeg->image, stream);
    jpeg->ready_for = status == NVJPEG_SUCCESS ? count : 0;
    return status;
}

static void complain(struct jpeg_gpu *jpeg, int32_t count, int status)
{
    if (!jpeg->complained)
        fprintf(stderr,
                "warning: %s failed on a batch of %d files (status %d) and decodes them one by "
                "one; said once\n",
                jpeg->name, count, status);
    jpeg->complained = true;
}

static void decode_together(struct jpeg_gpu *jpeg, cudaStream_t stream, struct jpeg_file *file,
                            int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        const struct jpeg_file *one = &file[jpeg->which[i]];
        jpeg->data[i] = one->data;
        jpeg->length[i] = (size_t)one->size;
        jpeg->image[i] = image_of(one);
        put_mark(jpeg, stream, one);
    }
    int status = issue_batch(jpeg, stream, count);
    for (int32_t i = 0; i < count; i++)
        look_for_mark(jpeg, stream, &file[jpeg->which[i]], i);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    if (status != NVJPEG_SUCCESS)
        complain(jpeg, count, status);
    for (int32_t i = 0; i < count; i++) {
        struct jpeg_file *one = &file[jpeg->which[i]];
        one->decoded = status == NVJPEG_SUCCESS && mark_is_gone(jpeg, one, i);
    }
}

static void decode_alone(struct jpeg_gpu *jpeg, cudaStream_t stream, struct jpeg_file *file)
{
    struct nvjpeg_image image = image_of(file);
    put_mark(jpeg, stream, file);
    int status = jpeg->call.Decode(jpeg->alone.handle, jpeg->alone.state, file->data,
                                   (size_t)file->size, NVJPEG_RGBI, &image, stream);
    look_for_mark(jpeg, stream, file, 0);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    file->decoded = status == NVJPEG_SUCCESS && mark_is_gone(jpeg, file, 0);
}

void jpeg_gpu_decode(struct jpeg_gpu *jpeg, cudaStream_t stream, struct jpeg_file *file,
                     int32_t count)
{
    int32_t together = 0, alone = 0, *which = jpeg->which;
    assert(count <= jpeg->batch);
    /* `which` is filled from the front with files for the batch, and from the back with the
     * others. */
    for (int32_t i = 0; i < count; i++) {
        file[i].decoded = 0;
        if (!is_what_was_said(jpeg, &file[i]))
            continue;
        if (goes_with_others(jpeg, &file[i]))
            which[together++] = i;
        else
            which[count - ++alone] = i;
    }
    if (together > 0)
        decode_together(jpeg, stream, file, together);
    for (int32_t i = 0; i < count; i++)
        if ((i < together || i >= count - alone) && !file[which[i]].decoded)
            decode_alone(jpeg, stream, &file[which[i]]);
}
