#include "exec/cuda/conv/conv_cudnn_trial.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "exec/cuda/conv/conv_clock.h"
#include "exec/cuda/kernels/kernels.h"
#include "exec/step/half.h"

/* The array that is written is summed as rows of so many channels, whatever it has. */
enum { SUMS = 2 * KERNEL_PARTIALS * KERNEL_CHANNELS };

struct conv_trial {
    cudnnHandle_t handle;
    enum conv_op op;
    struct conv_shape shape;
    void *array[CONV_ARRAY_COUNT], *workspace;
    float *partial; /* sums of our own kernel */
    int64_t room;   /* of the workspace */
    struct conv_clock clock;
    struct conv_sample sample[CONV_SAMPLES];
    char fault[256], refusal[256]; /* the first of a plan */
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
    return conv_elements(&trial->shape, array) * dtype_size(trial->shape.type);
}

static int prepare(struct conv_trial *trial, bool checked, struct err *err)
{
    if (fails(conv_clock_open(&trial->clock, checked), "make a stream and events", err))
        return -1;
    for (int32_t i = 0; i < CONV_ARRAY_COUNT; i++)
        if (fails(cudaMalloc(&trial->array[i], (size_t)bytes(trial, (enum conv_array)i)),
                  "get memory for the operands", err))
            return -1;
    if (checked && fails(cudaMalloc((void **)&trial->partial, SUMS * sizeof(float)),
                         "get memory for sums", err))
        return -1;
    for (int32_t i = 0; checked && i < CONV_ARRAY_COUNT; i++)
        if ((enum conv_array)i != conv_written(trial->op) &&
            fails(conv_fill(trial->array[i], bytes(trial, (enum conv_array)i), trial->shape.type,
                            (enum conv_array)i),
                  "fill operands", err))
            return -1;
    if (checked)
        conv_samples(trial->op, &trial->shape, trial->sample);
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
    conv_clock_close(&trial->clock);
    for (int32_t i = 0; i < CONV_ARRAY_COUNT; i++)
        cudaFree(trial->array[i]);
    cudaFree(trial->partial);
    cudaFree(trial->workspace);
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
    struct err err = {0};
    struct conv_call call = conv_call_of(trial->array, trial->workspace);
    bool ran = conv_execute(trial->handle, plan, trial->op, trial->clock.stream, &call, &err) ==
               CUDNN_STATUS_SUCCESS;
    if (!ran && !trial->refusal[0])
        snprintf(trial->refusal, sizeof trial->refusal, "%s", err_reason(&err));
    err_release(&err);
    return ran;
}

enum conv_verdict conv_trial_run(struct conv_trial *trial, cudnnBackendDescriptor_t plan,
                                 struct err *err)
{
    bool ran = issue(trial, plan);
    if (fails(cudaStreamSynchronize(trial->clock.stream), "run a plan", err))
        return CONV_REFUSED;
    if (!ran)
        cudaGetLastError(); /* clear it: a refused launch must not be charged to the next call */
    return ran ? CONV_RIGHT : CONV_REFUSED;
}

struct run {
    struct conv_trial *trial;
    cudnnBackendDescriptor_t plan;
};

static bool issue_run(void *context)
{
    const struct run *run = context;
    return issue(run->trial, run->plan);
}

double conv_trial_time(struct conv_trial *trial, cudnnBackendDescriptor_t plan, int32_t runs,
                       struct err *err)
{
    struct run run = {trial, plan};
    cudaError_t error;
    double seconds = conv_clock_time(&trial->clock, issue_run, &run, runs, &error);
    if (fails(error, "time a plan", err) || !isfinite(seconds))
        cudaGetLastError();
    return seconds;
}

/* Whether the library can issue @plan while its stream is captured. */
static bool can_be_captured(struct conv_trial *trial, cudnnBackendDescriptor_t plan)
{
    cudaGraph_t graph = NULL;
    if (cudaStreamBeginCapture(trial->clock.stream, cudaStreamCaptureModeThreadLocal) !=
        cudaSuccess)
        return false;
    bool ran = issue(trial, plan);
    bool ended = cudaStreamEndCapture(trial->clock.stream, &graph) == cudaSuccess;
    if (graph)
        cudaGraphDestroy(graph);
    if (!ran || !ended)
        cudaGetLastError();
    return ran && ended;
}

/* ---- results ---- */

/* Element @index of @array. */
static cudaError_t read_element(const struct conv_trial *trial, enum conv_array array,
                                int64_t index, double *value)
{
    const enum dtype type = trial->shape.type;
    const size_t size = (size_t)dtype_size(type);
    const char *from = trial->array[array];
    float element = 0, wide;
    cudaError_t error =
        cudaMemcpy(&element, from + (size_t)index * size, size, cudaMemcpyDeviceToHost);
    half_to_float(type, 1, &element, &wide);
    *value = (double)wide;
    return error;
}

/* What one run left.  The array that is written is summed by our own kernel, so that all of it is
 * looked at where it lies. */
struct result {
    double value[CONV_SAMPLES];
    int32_t count;
    float sum[SUMS];
};

/* @right, which is whether @got is near @want; the first that is not is the fault. */
static bool expect(struct conv_trial *trial, bool right, const char *what, int64_t index,
                   double got, double want)
{
    if (!right && !trial->fault[0])
        snprintf(trial->fault, sizeof trial->fault, "%s %" PRId64 " is %.9g instead of %.9g", what,
                 index, got, want);
    return right;
}

/* Read what a run left. */
static cudaError_t read_result(struct conv_trial *trial, struct result *result)
{
    const enum conv_array array = conv_written(trial->op);
    const int64_t rows = conv_elements(&trial->shape, array) / KERNEL_CHANNELS;
    cudaError_t error = cudaSuccess;
    for (int32_t i = 0; i < CONV_SAMPLES && error == cudaSuccess; i++)
        error = read_element(trial, array, trial->sample[i].index, &result->value[i]);
    result->count = 2 * KERNEL_CHANNELS *
                    kernel_sums(trial->clock.stream, trial->shape.type, rows, KERNEL_CHANNELS,
                                trial->array[array], trial->partial);
    if (error == cudaSuccess)
        error = cudaGetLastError();
    if (error == cudaSuccess)
        error = cudaMemcpyAsync(result->sum, trial->partial,
                                (size_t)result->count * sizeof *result->sum, cudaMemcpyDeviceToHost,
                                trial->clock.stream);
    cudaError_t done = cudaStreamSynchronize(trial->clock.stream);
    return error == cudaSuccess ? done : error;
}

/* Fill the result with NaN, run, and read what it left. */
static enum conv_verdict run_clean(struct conv_trial *trial, cudnnBackendDescriptor_t plan,
                                   struct result *result, struct err *err)
{
    const enum conv_array array = conv_written(trial->op);
    if (fails(cudaMemsetAsync(trial->array[array], 0xff, (size_t)bytes(trial, array),
                              trial->clock.stream),
              "clear a result", err))
        return CONV_REFUSED;
    enum conv_verdict verdict = conv_trial_run(trial, plan, err);
    if (verdict == CONV_RIGHT && fails(read_result(trial, result), "read a result", err))
        verdict = CONV_REFUSED;
    return verdict;
}

/* Whether all of the result was written, samples are right, and another run gave the same bits. */
static bool looks_right(struct conv_trial *trial, const struct result *first,
                        const struct result *again)
{
    bool right = true;
    for (int32_t i = 0; i < CONV_SAMPLES && right; i++) {
        const struct conv_sample *sample = &trial->sample[i];
        const double got = first->value[i], other = again->value[i];
        right = expect(trial, conv_is_right(trial->shape.type, sample, got), "element",
                       sample->index, got, sample->want) &&
                expect(trial, memcmp(&got, &other, sizeof got) == 0, "another run's element",
                       sample->index, other, got);
    }
    for (int32_t i = 0; i < first->count && right; i++) {
        const float got = first->sum[i], other = again->sum[i];
        right = expect(trial, isfinite(got) && memcmp(&got, &other, sizeof got) == 0,
                       "another run's sum", i, (double)other, (double)got);
    }
    return right;
}

const char *conv_trial_fault(const struct conv_trial *trial)
{
    return trial->fault[0] ? trial->fault : trial->refusal;
}

enum conv_verdict conv_trial_check(struct conv_trial *trial, cudnnBackendDescriptor_t plan,
                                   struct err *err)
{
    struct result *result = base_alloc(2, sizeof *result);
    enum conv_verdict verdict = run_clean(trial, plan, &result[0], err);
    if (verdict == CONV_RIGHT)
        verdict = run_clean(trial, plan, &result[1], err);
    if (verdict == CONV_RIGHT && !looks_right(trial, &result[0], &result[1]))
        verdict = CONV_WRONG;
    if (verdict == CONV_RIGHT && !can_be_captured(trial, plan))
        verdict = CONV_REFUSED;
    free(result);
    return verdict;
}
