#pragma once

/** @file
 * The part of nvJPEG's C interface that exec/cuda/pictures/jpeg.c calls, under the library's own
 * names.
 *
 * The same in the libraries of CUDA 12 and 13.  The library's enums are passed as int.  Source:
 * NVIDIA, nvJPEG documentation (docs.nvidia.com/cuda/nvjpeg): signatures, backends, asynchronous
 * calls, grey files; signatures and values compared with the bindings of the crate nvjpeg-sys
 * 0.1.0.
 */

#include <stddef.h>

#include <cuda_runtime_api.h>

enum {
    NVJPEG_COMPONENTS = 4, /**< planes that an image can have */

    NVJPEG_SUCCESS = 0,

    NVJPEG_MAJOR = 0, /**< properties: of the library's version */
    NVJPEG_MINOR = 1,

    NVJPEG_DEFAULT = 0,  /**< backends: the library chooses */
    NVJPEG_HARDWARE = 3, /**< the decoder of A100, Hopper and later; only baseline files */

    /** Output: rows of red, green, blue in the first plane; of a grey file, its luminance. */
    NVJPEG_RGBI = 5
};

/** The library, on the device current at its start. */
struct nvjpegHandle;

/** Its state between calls; one thread at a time. */
struct nvjpegJpegState;

/** The header of a file. */
struct nvjpegJpegStream;

/** Output of an image: device memory, and bytes from row to row. */
struct nvjpeg_image {
    unsigned char *channel[NVJPEG_COMPONENTS];
    size_t pitch[NVJPEG_COMPONENTS];
};

/** All return NVJPEG_SUCCESS or why not. */
int nvjpegGetProperty(int property, int *value);

/** Start; allocators may be NULL, flags 0. */
int nvjpegCreateEx(int backend, void *device_allocator, void *pinned_allocator, unsigned flags,
                   struct nvjpegHandle **handle);

/** Release. */
int nvjpegDestroy(struct nvjpegHandle *handle);

/** A state for a handle. */
int nvjpegJpegStateCreate(struct nvjpegHandle *handle, struct nvjpegJpegState **state);

/** Release. */
int nvjpegJpegStateDestroy(struct nvjpegJpegState *state);

/** A place for a header. */
int nvjpegJpegStreamCreate(struct nvjpegHandle *handle, struct nvjpegJpegStream **header);

/** Release. */
int nvjpegJpegStreamDestroy(struct nvjpegJpegStream *header);

/** Read a header. */
int nvjpegJpegStreamParseHeader(struct nvjpegHandle *handle, const unsigned char *data,
                                size_t length, struct nvjpegJpegStream *header);

/** Set @refused to 0 when nvjpegDecodeBatched() can decode a file with that header. */
int nvjpegDecodeBatchedSupported(struct nvjpegHandle *handle, struct nvjpegJpegStream *header,
                                 int *refused);

/** The size of a file's components: @widths and @heights (NVJPEG_COMPONENTS). */
int nvjpegGetImageInfo(struct nvjpegHandle *handle, const unsigned char *data, size_t length,
                       int *components, int *subsampling, int *widths, int *heights);

/** Issue the decoding of one file. */
int nvjpegDecode(struct nvjpegHandle *handle, struct nvjpegJpegState *state,
                 const unsigned char *data, size_t length, int output, struct nvjpeg_image *image,
                 cudaStream_t stream);

/** Before batches of @batch files, after another size and after a failure; @threads is ignored by
 * the library.  No batch of @state may be running. */
int nvjpegDecodeBatchedInitialize(struct nvjpegHandle *handle, struct nvjpegJpegState *state,
                                  int batch, int threads, int output);

/** Issue the decoding of a batch. */
int nvjpegDecodeBatched(struct nvjpegHandle *handle, struct nvjpegJpegState *state,
                        const unsigned char *const *data, const size_t *length,
                        struct nvjpeg_image *image, cudaStream_t stream);
