#include "exec/cuda/conv/conv_cudnn_trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "exec/step/half.h"

enum {
    MOST_RUNS = 31,
    FLUSH = 256 * 1024 * 1024, /* bytes: more than any cache, and long enough for the host to get
                                  ahead */
    LOOKED_AT = 8              /* channels with checked sums */
};

struct conv_trial {
    cudnnHandle_t handle;
    enum conv_op op;
    struct conv_shape shape;
    void *array[CONV_ARRAY_COUNT], *workspace, *flush;
    float *sums, *derived;
    int64_t room; /* of the workspace */
    cudaStream_t stream;
    cudaEvent_t event[MOST_RUNS + 2];
    struct conv_sample sample[CONV_SAMPLES];
};

/* Whether @error is one; the first occurrence is reported. */
static bool fails(cudaError_t error, const char *what, struct err *err)
{
    if (error != cudaSuccess)
        err_add_code(err, 69, "cannot %s on the GPU while plans of convolutions are tried: %s",
                     what, cudaGetErrorString(error));
    return error != cudaSuccess;
}

static int64_t bytes(const struct conv_trial *trial, enum conv_array array)
{
    return conv_elements(trial->op, &trial->shape, array) *
           dtype_size(conv_array_type(trial->shape.type, array));
}

/* Repeat the pattern over @array: once from the host, then doubled on the device. */
static cudaError_t fill(struct conv_trial *trial, enum conv_array array)
{
    const enum dtype type = conv_array_type(trial->shape.type, array);
    float *pattern = conv_pattern(type, array);
    uint16_t *narrow = base_alloc(CONV_PATTERN, sizeof *narrow);
    if (type != DTYPE_FP32)
        half_from_float(type, CONV_PATTERN, pattern, narrow);
    char *to = trial->array[array];
    int64_t size = bytes(trial, array), done = CONV_PATTERN * (int64_t)dtype_size(type);
    done = done < size ? done : size;
    cudaError_t error =
        cudaMemcpy(to, type == DTYPE_FP32 ? (const void *)pattern : (const void *)narrow,
                   (size_t)done, cudaMemcpyHostToDevice);
    for (int64_t next; error == cudaSuccess && done < size; done += next) {
        next = done < size - done ? done : size - done;
        error = cudaMemcpy(to + done, to, (size_t)next, cudaMemcpyDeviceToDevice);
    }
    free(pattern);
    free(narrow);
    return error;
}

static size_t derived_bytes(const struct conv_trial *trial)
{
    return CONV_DERIVED_COUNT * (size_t)trial->shape.in_channels * sizeof(float);
}

static int prepare(struct conv_trial *trial, bool checked, struct err *err)
{
    if (fails(cudaStreamCreateWithFlags(&trial->stream, cudaStreamNonBlocking), "make a stream",
              err))
        return -1;
    for (int32_t i = 0; i < MOST_RUNS + 2; i++)
        if (fails(cudaEventCreate(&trial->event[i]), "make an event", err))
            return -1;
    for (int32_t i = 0; i < CONV_ARRAY_COUNT; i++)
        if (bytes(trial, (enum conv_array)i) > 0 &&
            fails(cudaMalloc(&trial->array[i], (size_t)bytes(trial, (enum conv_array)i)),
                  "get memory for the operands", err))
            return -1;
    size_t sums = 2 * (size_t)trial->shape.out_channels * sizeof(float);
    if (conv_sums(trial->op) &&
        fails(cudaMalloc((void **)&trial->sums, sums), "get memory for sums", err))
        return -1;
    if (conv_norms(trial->op) && fails(cudaMalloc((void **)&trial->derived, derived_bytes(trial)),
                                       "get memory for sums", err))
        return -1;
    for (int32_t i = 0; checked && i < CONV_ARRAY_COUNT; i++)
        if ((enum conv_array)i != conv_written(trial->op) && trial->array[i] &&
            fails(fill(trial, (enum conv_array)i), "fill operands", err))
            return -1;
    if (checked) {
        conv_samples(trial->op, &trial->shape, trial->sample);
        if (cudaMalloc(&trial->flush, FLUSH)) { /* without it, times are a little less true */
            trial->flush = NULL;
            cudaGetLastError();
        }
    }
    /* Operands were filled on the default stream, for which this one does not wait. */
    return fails(cudaDeviceSynchronize(), "fill operands", err) ? -1 : 0;
}

int conv_trial_open(struct conv_trial **trial, cudnnHandle_t handle, enum conv_op op,
                    const struct conv_shape *shape, bool checked, struct err *err)
{
    struct conv_trial *made = base_alloc(1, sizeof *made);
    made->handle = handle;
    made->op = op;
    made->shape = *shape;
    if (prepare(made, checked, err)) {
        conv_trial_close(made);
        return -1;
    }
    *trial = made;
    return 0;
}

void conv_trial_close(struct conv_trial *trial)
{
    if (!trial)
        return;
    if (trial->stream)
        cudaStreamSynchronize(trial->stream);
    for (int32_t i = 0; i < MOST_RUNS + 2; i++)
        if (trial->event[i])
            cudaEventDestroy(trial->event[i]);
    for (int32_t i = 0; i < CONV_ARRAY_COUNT; i++)
        cudaFree(trial->array[i]);
    cudaFree(trial->sums);
    cudaFree(trial->derived);
    cudaFree(trial->workspace);
    cudaFree(trial->flush);
    if (trial->stream)
        cudaStreamDestroy(trial->stream);
    cudaGetLastError(); /* clear it: out of memory was reported, and must not be charged to the next
                           call */
    free(trial);
}

int conv_trial_reserve(struct conv_trial *trial, int64_t workspace)
{
    if (workspace <= trial->room)
        return 0;
    cudaFree(trial->workspace);
    trial->workspace = NULL;
    trial->room = 0;
    if (cudaMalloc(&trial->workspace, (size_t)workspace)) {
        trial->workspace = NULL;
        cudaGetLastError();
        return -1;
    }
    trial->room = workspace;
    return 0;
}

/* ---- running ---- */

static bool issue(struct conv_trial *trial, cudnnBackendDescriptor_t plan)
{
    struct conv_call call =
        conv_call_of(trial->op, trial->array, trial->sums, trial->derived, trial->workspace);
    return conv_execute(trial->handle, plan, trial->op, &trial->shape, trial->stream, &call,
                        NULL) == CUDNN_STATUS_SUCCESS;
}

enum conv_verdict conv_trial_run(struct conv_trial *trial, cudnnBackendDescriptor_t plan,
                                 struct err *err)
{
    bool ran = issue(trial, plan);
    if (fails(cudaStreamSynchronize(trial->stream), "run a plan", err))
        return CONV_REFUSED;
    if (!ran)
        cudaGetLastError(); /* clear it: a refused launch must not be charged to the next call */
    return ran ? CONV_RIGHT : CONV_REFUSED;
}

double conv_trial_time(struct conv_trial *trial, cudnnBackendDescriptor_t plan, int32_t runs,
                       struct err *err)
{
    float taken[MOST_RUNS] = {0}; /* ms */
    cudaError_t error = cudaSuccess;
    bool ran = true;
    runs = runs < MOST_RUNS ? runs : MOST_RUNS;
    if (trial->flush)
        error = cudaMemsetAsync(trial->flush, 0, FLUSH, trial->stream);
    for (int32_t i = 0; i < runs + 1 && ran && error == cudaSuccess; i++) {
        ran = issue(trial, plan);
        error = cudaEventRecord(trial->event[i], trial->stream);
    }
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(trial->stream);
    for (int32_t i = 0; i < runs && ran && error == cudaSuccess; i++)
        error = cudaEventElapsedTime(&taken[i], trial->event[i], trial->event[i + 1]);
    if (fails(error, "time a plan", err) || !ran) {
        cudaGetLastError();
        return INFINITY;
    }
    for (int32_t i = 1; i < runs; i++) /* by insertion: few */
        for (int32_t j = i; j > 0 && taken[j - 1] > taken[j]; j--) {
            float larger = taken[j - 1];
            taken[j - 1] = taken[j];
            taken[j] = larger;
        }
    return (double)taken[runs / 2] * 1e-3;
}

/* Whether the library can issue @plan while its stream is captured. */
static bool can_be_captured(struct conv_trial *trial, cudnnBackendDescriptor_t plan)
{
    cudaGraph_t graph = NULL;
    if (cudaStreamBeginCapture(trial->stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess)
        return false;
    bool ran = issue(trial, plan);
    bool ended = cudaStreamEndCapture(trial->stream, &graph) == cudaSuccess;
    if (graph)
        cudaGraphDestroy(graph);
    if (!ran || !ended)
        cudaGetLastError();
    return ran && ended;
}

/* ---- results ---- */

/* Element @index of the array that is written. */
static cudaError_t read_element(const struct conv_trial *trial, int64_t index, double *value)
{
    const enum dtype type = trial->shape.type;
    const size_t size = (size_t)dtype_size(type);
    const char *from = trial->array[conv_written(trial->op)];
    float wide = 0;
    uint16_t narrow = 0;
    cudaError_t error = cudaMemcpy(type == DTYPE_FP32 ? (void *)&wide : (void *)&narrow,
                                   from + (size_t)index * size, size, cudaMemcpyDeviceToHost);
    if (type != DTYPE_FP32)
        half_to_float(type, 1, &narrow, &wide);
    *value = (double)wide;
    return error;
}

/* The first channels of @array (rows, channels), which is of 16 bits; the caller frees *@wide. */
static cudaError_t read_channels(const struct conv_trial *trial, enum conv_array array,
                                 int64_t rows, int64_t channels, float **wide)
{
    uint16_t *narrow = base_alloc(rows * LOOKED_AT, sizeof *narrow);
    const size_t width = LOOKED_AT * sizeof *narrow;
    cudaError_t error =
        cudaMemcpy2D(narrow, width, trial->array[array], (size_t)channels * sizeof *narrow, width,
                     (size_t)rows, cudaMemcpyDeviceToHost);
    *wide = base_alloc(rows * LOOKED_AT, sizeof **wide);
    half_to_float(trial->shape.type, rows * LOOKED_AT, narrow, *wide);
    free(narrow);
    return error;
}

/* The first channels of @count vectors (channels) at @from. */
static cudaError_t read_vectors(const float *from, int64_t channels, int32_t count,
                                float (*to)[LOOKED_AT])
{
    cudaError_t error = cudaSuccess;
    for (int32_t i = 0; i < count && error == cudaSuccess; i++)
        error = cudaMemcpy(to[i], from + i * channels, sizeof to[i], cudaMemcpyDeviceToHost);
    return error;
}

/* Whether the sums of the first channels are those of y as it was written. */
static cudaError_t check_sums(const struct conv_trial *trial, bool *right)
{
    const struct conv_shape *s = &trial->shape;
    const int64_t rows = (int64_t)s->batch * s->out_height * s->out_width;
    float *wide, sums[2][LOOKED_AT];
    cudaError_t error = read_channels(trial, CONV_ARRAY_Y, rows, s->out_channels, &wide);
    if (error == cudaSuccess)
        error = read_vectors(trial->sums, s->out_channels, 2, sums);
    *right = true;
    for (int32_t c = 0; c < LOOKED_AT && error == cudaSuccess; c++) {
        double sum = 0, size = 0, squares = 0;
        for (int64_t i = 0; i < rows; i++) {
            double value = (double)wide[i * LOOKED_AT + c];
            sum += value;
            size += fabs(value);
            squares += value * value;
        }
        *right = *right && conv_sum_is_right(rows, sum, size, (double)sums[0][c]) &&
                 conv_sum_is_right(rows, squares, 2 * squares, (double)sums[1][c]);
    }
    free(wide);
    return error;
}

/* @count numbers that are @step apart, one after the other; the caller frees them. */
static float *strided(const float *from, int64_t count, int64_t step)
{
    float *to = base_alloc(count, sizeof *to);
    for (int64_t i = 0; i < count; i++)
        to[i] = from[i * step];
    return to;
}

/* Whether the derived values of the first channels agree with the written dx and x. */
static cudaError_t check_derived(const struct conv_trial *trial, bool *right)
{
    const struct conv_shape *s = &trial->shape;
    const int64_t rows = (int64_t)s->batch * s->in_height * s->in_width;
    float *dx, *x, got[CONV_DERIVED_COUNT][LOOKED_AT], statistics[2][LOOKED_AT],
        parameter[2][LOOKED_AT];
    cudaError_t error = read_channels(trial, CONV_ARRAY_X, rows, s->in_channels, &dx);
    cudaError_t more = read_channels(trial, CONV_ARRAY_SEEN, rows, s->in_channels, &x);
    error = error == cudaSuccess ? more : error;
    if (error == cudaSuccess)
        error = read_vectors(trial->derived, s->in_channels, CONV_DERIVED_COUNT, got);
    if (error == cudaSuccess)
        error = read_vectors(trial->array[CONV_ARRAY_STATISTICS], s->in_channels, 2, statistics);
    if (error == cudaSuccess)
        error = read_vectors(trial->array[CONV_ARRAY_PARAMETER], s->in_channels, 2, parameter);
    *right = true;
    for (int32_t c = 0; c < LOOKED_AT && error == cudaSuccess; c++) {
        float *of_dx = strided(dx + c, rows, LOOKED_AT), *of_x = strided(x + c, rows, LOOKED_AT);
        struct conv_derived want = conv_derive(
            rows, of_dx, of_x, (double[]){(double)statistics[0][c], (double)statistics[1][c]},
            (double[]){(double)parameter[0][c], (double)parameter[1][c]});
        for (int32_t i = 0; i < CONV_DERIVED_COUNT; i++)
            *right =
                *right && conv_sum_is_right(rows, want.value[i], want.size[i], (double)got[i][c]);
        free(of_dx);
        free(of_x);
    }
    free(dx);
    free(x);
    return error;
}

/* Fill the outputs with NaN, run, and read the samples to @value. */
static enum conv_verdict run_clean(struct conv_trial *trial, cudnnBackendDescriptor_t plan,
                                   double *value, struct err *err)
{
    enum conv_array written = conv_written(trial->op);
    size_t sums = 2 * (size_t)trial->shape.out_channels * sizeof(float);
    cudaError_t error =
        cudaMemsetAsync(trial->array[written], 0xff, (size_t)bytes(trial, written), trial->stream);
    if (trial->sums && error == cudaSuccess)
        error = cudaMemsetAsync(trial->sums, 0xff, sums, trial->stream);
    if (trial->derived && error == cudaSuccess)
        error = cudaMemsetAsync(trial->derived, 0xff, derived_bytes(trial), trial->stream);
    if (fails(error, "clear a result", err))
        return CONV_REFUSED;
    enum conv_verdict verdict = conv_trial_run(trial, plan, err);
    for (int32_t i = 0; i < CONV_SAMPLES && verdict == CONV_RIGHT; i++)
        if (fails(read_element(trial, trial->sample[i].index, &value[i]), "read a result", err))
            verdict = CONV_REFUSED;
    return verdict;
}

enum conv_verdict conv_trial_check(struct conv_trial *trial, cudnnBackendDescriptor_t plan,
                                   struct err *err)
{
    double first[CONV_SAMPLES], again[CONV_SAMPLES];
    bool right = true;
    enum conv_verdict verdict = run_clean(trial, plan, first, err);
    if (verdict == CONV_RIGHT)
        verdict = run_clean(trial, plan, again, err);
    if (verdict != CONV_RIGHT)
        return verdict;
    for (int32_t i = 0; i < CONV_SAMPLES; i++)
        right = right && conv_is_right(trial->shape.type, &trial->sample[i], first[i]) &&
                memcmp(&first[i], &again[i], sizeof first[i]) == 0;
    if (right && trial->sums && fails(check_sums(trial, &right), "read sums", err))
        return CONV_REFUSED;
    if (right && trial->derived && fails(check_derived(trial, &right), "read sums", err))
        return CONV_REFUSED;
    if (!right)
        return CONV_WRONG;
    return can_be_captured(trial, plan) ? CONV_RIGHT : CONV_REFUSED;
}
