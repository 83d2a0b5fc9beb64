#pragma once

/** @file
 * JPEG files decoded on the GPU by nvJPEG: in hardware if the GPU supports it, else by its kernels
 * with the CPU's help.
 *
 * The library is loaded on demand (libnvjpeg.so.13, or .12): a build needs neither the library nor
 * its header.  The declarations in use are in exec/cuda/pictures/nvjpeg.h.
 *
 * Files are decoded in one batch.  Files that a batch cannot include (hardware decodes only
 * baseline files), and all files of a failed batch, are decoded one by one.  A batch may succeed
 * although a picture of it was never written: so each picture gets a mark before, and a mark that
 * is still there afterwards means that the picture was not decoded.
 */

#include <stdint.h>

#include <cuda_runtime_api.h>

#include "core/base/err.h"

/** A decoder; one thread at a time, on the device that was current when it was opened. */
struct jpeg_gpu;

/** Load the library and start it on the current device, for batches of up to @batch files.
 * @return the decoder, or NULL (exit code 69): the library is missing, or does not start. */
struct jpeg_gpu *jpeg_gpu_open(int32_t batch, struct err *err);

/** Release; accepts NULL. */
void jpeg_gpu_close(struct jpeg_gpu *jpeg);

/** One file to be decoded. */
struct jpeg_file {
    const uint8_t *data; /**< host memory */
    int64_t size;        /**< [bytes] */
    int32_t height, width;
    uint8_t *pixels; /**< device memory, (height, width, 3), red first */
    int decoded;     /**< written: 1, or 0 when the library refused it */
};

/** Decode @count files (at most the batch of jpeg_gpu_open()) on @stream, and wait until it is
 * done.  A file that the library refuses, that has another size than given, or that is neither grey
 * nor of three components does not affect the others; its pixels are undefined.  Unlike in libjpeg,
 * colour stored at half the size is not interpolated. */
void jpeg_gpu_decode(struct jpeg_gpu *jpeg, cudaStream_t stream, struct jpeg_file *file,
                     int32_t count);

/** The decoder's name, for people: "nvJPEG 13.0, hardware". */
const char *jpeg_gpu_name(const struct jpeg_gpu *jpeg);
