#include "exec/cuda/conv/conv_clock.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/base.h"
#include "exec/step/half.h"

enum {
    FLUSH = 256 * 1024 * 1024 /* bytes: more than any cache, and long enough for the host to get
                                 ahead */
};

cudaError_t conv_clock_open(struct conv_clock *clock, bool flushes)
{
    *clock = (struct conv_clock){0};
    cudaError_t error = cudaStreamCreateWithFlags(&clock->stream, cudaStreamNonBlocking);
    for (int32_t i = 0; i < CONV_CLOCK_MOST + 2 && error == cudaSuccess; i++)
        error = cudaEventCreate(&clock->event[i]);
    if (error == cudaSuccess && flushes && cudaMalloc(&clock->flush, FLUSH)) {
        clock->flush = NULL; /* without it, times are a little less true */
        cudaGetLastError();
    }
    return error;
}

void conv_clock_close(struct conv_clock *clock)
{
    if (clock->stream)
        cudaStreamSynchronize(clock->stream);
    for (int32_t i = 0; i < CONV_CLOCK_MOST + 2; i++)
        if (clock->event[i])
            cudaEventDestroy(clock->event[i]);
    cudaFree(clock->flush);
    if (clock->stream)
        cudaStreamDestroy(clock->stream);
}

double conv_clock_time(struct conv_clock *clock, bool (*issue)(void *context), void *context,
                       int32_t runs, cudaError_t *error)
{
    float taken[CONV_CLOCK_MOST] = {0}; /* ms */
    bool ran = true;
    *error = cudaSuccess;
    if (clock->flush)
        *error = cudaMemsetAsync(clock->flush, 0, FLUSH, clock->stream);
    for (int32_t i = 0; i < runs + 1 && ran && *error == cudaSuccess; i++) {
        ran = issue(context);
        *error = cudaEventRecord(clock->event[i], clock->stream);
    }
    if (*error == cudaSuccess)
        *error = cudaStreamSynchronize(clock->stream);
    for (int32_t i = 0; i < runs && ran && *error == cudaSuccess; i++)
        *error = cudaEventElapsedTime(&taken[i], clock->event[i], clock->event[i + 1]);
    if (*error != cudaSuccess || !ran)
        return INFINITY;
    for (int32_t i = 1; i < runs; i++) /* by insertion: few */
        for (int32_t j = i; j > 0 && taken[j - 1] > taken[j]; j--) {
            float larger = taken[j - 1];
            taken[j - 1] = taken[j];
            taken[j] = larger;
        }
    return (double)taken[runs / 2] * 1e-3;
}

/* Once from the host, then doubled on the device. */
cudaError_t conv_fill(void *to, int64_t size, enum dtype type, enum conv_array array)
{
    float *pattern = conv_pattern(type, array);
    void *narrow = base_alloc(CONV_PATTERN, (size_t)dtype_size(type));
    half_from_float(type, CONV_PATTERN, pattern, narrow);
    int64_t done = CONV_PATTERN * (int64_t)dtype_size(type);
    done = done < size ? done : size;
    cudaError_t error = cudaMemcpy(to, narrow, (size_t)done, cudaMemcpyHostToDevice);
    for (int64_t next; error == cudaSuccess && done < size; done += next) {
        next = done < size - done ? done : size - done;
        error = cudaMemcpy((char *)to + done, to, (size_t)next, cudaMemcpyDeviceToDevice);
    }
    free(pattern);
    free(narrow);
    return error;
}
