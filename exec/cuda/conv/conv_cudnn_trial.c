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

struct conv_trial {
    cudnnHandle_t handle;
    enum conv_op op;
    struct conv_shape shape;
    void *array[CONV_ARRAY_COUNT], *workspace;
    float *sums, *derived, *partial; /* partial: of our own kernels */
    int64_t room;                    /* of the workspace */
    struct conv_clock clock;
    struct conv_sample sample[2][CONV_SAMPLES]; /* see output() */
    char fault[256], refusal[256];              /* the first of a plan */
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

/* The array that is written, and that which may be beside; 0 bytes: there is none. */
static enum conv_array output(const struct conv_trial *trial, int32_t which)
{
    return which ? CONV_ARRAY_VALUE : conv_written(trial->op);
}

/* The array that is written is (rows, channels).  Where nobody else knows sums of its channels, any
 * rows do; our kernels take channels in multiples of KERNEL_CHANNELS, and images may have fewer. */
static int32_t written_channels(const struct conv_trial *trial)
{
    return conv_ops[trial->op].sums    ? trial->shape.out_channels
           : conv_ops[trial->op].norms ? trial->shape.in_channels
                                       : KERNEL_CHANNELS;
}

static int64_t written_rows(const struct conv_trial *trial)
{
    return conv_elements(trial->op, &trial->shape, conv_written(trial->op)) /
           written_channels(trial);
}

static size_t derived_bytes(const struct conv_trial *trial)
{
    return (size_t)conv_ops[trial->op].norms * CONV_DERIVED_COUNT *
           (size_t)trial->shape.in_channels * sizeof(float);
}

static int prepare(struct conv_trial *trial, bool checked, struct err *err)
{
    if (fails(conv_clock_open(&trial->clock, checked), "make a stream and events", err))
        return -1;
    for (int32_t i = 0; i < CONV_ARRAY_COUNT; i++)
        if (bytes(trial, (enum conv_array)i) > 0 &&
            fails(cudaMalloc(&trial->array[i], (size_t)bytes(trial, (enum conv_array)i)),
                  "get memory for the operands", err))
            return -1;
    size_t sums = 2 * (size_t)trial->shape.out_channels * sizeof(float);
    if (conv_ops[trial->op].sums &&
        fails(cudaMalloc((void **)&trial->sums, sums), "get memory for sums", err))
        return -1;
    if (conv_ops[trial->op].norms &&
        fails(cudaMalloc((void **)&trial->derived, derived_bytes(trial)), "get memory for sums",
              err))
        return -1;
    const struct conv_shape *s = &trial->shape;
    size_t widest = (size_t)(s->in_channels > s->out_channels ? s->in_channels : s->out_channels);
    if (checked &&
        fails(cudaMalloc((void **)&trial->partial, 2 * KERNEL_PARTIALS * sizeof(float) * widest),
              "get memory for sums", err))
        return -1;
    for (int32_t i = 0; checked && i < CONV_ARRAY_COUNT; i++)
        if ((enum conv_array)i != conv_written(trial->op) && trial->array[i] &&
            fails(conv_fill(trial->array[i], bytes(trial, (enum conv_array)i),
                            conv_array_type(trial->shape.type, (enum conv_array)i),
                            (enum conv_array)i),
                  "fill operands", err))
            return -1;
    for (int32_t k = 0; checked && k < 2; k++)
        if (bytes(trial, output(trial, k)) > 0)
            conv_samples(trial->op, &trial->shape, output(trial, k), trial->sample[k]);
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
    cudaFree(trial->sums);
    cudaFree(trial->derived);
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
    struct conv_call call =
        conv_call_of(&trial->shape, trial->array, trial->sums, trial->derived, trial->workspace);
    bool ran = conv_execute(trial->handle, plan, trial->op, &trial->shape, trial->clock.stream,
                            &call, &err) == CUDNN_STATUS_SUCCESS;
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

/* What one run left.  The arrays that are written are summed per channel by our own kernel, so that
 * all of them is looked at where it lies. */
struct result {
    double value[2][CONV_SAMPLES];
    int32_t own, partials; /* numbers of the engine, and partial sums (partials, 2, channels) */
    int64_t count;         /* of all numbers, with partial sums of the array beside */
    float *number;         /* in this order; owned */
};

/* Copy @count numbers from @from, which a kernel of ours may just have been launched for. */
static cudaError_t read_numbers(const struct conv_trial *trial, const float *from, int64_t count,
                                float *to)
{
    cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess)
        error = cudaMemcpyAsync(to, from, (size_t)count * sizeof *to, cudaMemcpyDeviceToHost,
                                trial->clock.stream);
    cudaError_t done = cudaStreamSynchronize(trial->clock.stream);
    return error == cudaSuccess ? done : error;
}

/* Both sums of partial sums (@count, 2, @channels) of one channel. */
static void add_up(const float *partial, int32_t count, int32_t channels, int32_t channel,
                   double sum[2])
{
    sum[0] = sum[1] = 0;
    for (int64_t i = 0; i < count; i++)
        for (int32_t k = 0; k < 2; k++)
            sum[k] += (double)partial[(2 * i + k) * channels + channel];
}

/* @right, which is whether @got is near @want; the first that is not is the fault. */
static bool expect(struct conv_trial *trial, bool right, const char *what, int64_t index,
                   double got, double want)
{
    if (!right && !trial->fault[0])
        snprintf(trial->fault, sizeof trial->fault, "%s %" PRId64 " is %.9g instead of %.9g", what,
                 index, got, want);
    return right;
}

/* Whether the sums agree with those of y as it was written. */
static bool sums_are_right(struct conv_trial *trial, const struct result *result)
{
    const int32_t channels = trial->shape.out_channels;
    const int64_t rows = written_rows(trial);
    bool right = true;
    for (int32_t c = 0; c < channels && right; c++) {
        const double got[] = {(double)result->number[c], (double)result->number[channels + c]};
        double want[2];
        add_up(result->number + result->own, result->partials, channels, c, want);
        right =
            expect(trial, conv_sum_is_right(rows, want[0], sqrt((double)rows * want[1]), got[0]),
                   "the sum of channel", c, got[0], want[0]) &&
            expect(trial, conv_sum_is_right(rows, want[1], 2 * want[1], got[1]),
                   "the sum of squares of channel", c, got[1], want[1]);
    }
    return right;
}

/* Whether the derived values of batch norm @which agree with the written dx and its x. */
static cudaError_t check_derived(struct conv_trial *trial, const struct result *result,
                                 int32_t which, bool *right)
{
    static const char *const name[CONV_DERIVED_COUNT] = {
        "the gradient of the scale of channel", "the gradient of the shift of channel",
        "the factor of dx of channel", "the factor of x of channel", "the constant of channel"};
    const int32_t channels = trial->shape.in_channels;
    const int64_t rows = written_rows(trial), all = 2 * (int64_t)KERNEL_PARTIALS * channels;
    /* of the second norm they follow those of the first in the same order */
    void *const *array = trial->array + which * (CONV_ARRAY_ADDED - CONV_ARRAY_SEEN);
    const void *dx = trial->array[CONV_ARRAY_X], *x = array[CONV_ARRAY_SEEN];
    const float *derived = result->number + (int64_t)which * CONV_DERIVED_COUNT * channels;
    float *of_both = base_alloc(2 * all + 4 * (int64_t)channels, sizeof *of_both);
    float *of_x = of_both + all, *statistics = of_x + all, *parameter = statistics + 2 * channels;
    int32_t both = kernel_backward_sums(trial->clock.stream, trial->shape.type, rows, channels, dx,
                                        NULL, (struct kernel_cut){0}, x,
                                        array[CONV_ARRAY_STATISTICS], NULL, trial->partial);
    cudaError_t error[4] = {read_numbers(trial, trial->partial, 2 * both * channels, of_both)};
    int32_t alone =
        kernel_sums(trial->clock.stream, trial->shape.type, rows, channels, x, trial->partial);
    error[1] = read_numbers(trial, trial->partial, 2 * alone * channels, of_x);
    error[2] = read_numbers(trial, array[CONV_ARRAY_STATISTICS], 2 * (int64_t)channels, statistics);
    error[3] = read_numbers(trial, array[CONV_ARRAY_PARAMETER], 2 * (int64_t)channels, parameter);
    for (int32_t c = 0; c < channels && *right; c++) {
        struct conv_channel of = {.rows = rows};
        for (int32_t k = 0; k < 2; k++) {
            of.statistics[k] = (double)statistics[k * channels + c];
            of.parameter[k] = (double)parameter[k * channels + c];
        }
        add_up(of_both, both, channels, c, of.both);
        add_up(result->number + result->own, result->partials, channels, c, of.dx);
        add_up(of_x, alone, channels, c, of.x);
        struct conv_derived want = conv_derive(&of);
        for (int32_t i = 0; i < CONV_DERIVED_COUNT; i++) {
            const double got = (double)derived[i * channels + c];
            *right =
                *right && expect(trial, conv_sum_is_right(rows, want.value[i], want.size[i], got),
                                 name[i], c, got, want.value[i]);
        }
    }
    free(of_both);
    for (int32_t i = 1; i < 4; i++)
        error[0] = error[0] == cudaSuccess ? error[i] : error[0];
    return error[0];
}

/* Read samples and sums of output @which; @partials: per channel. */
static cudaError_t read_output(struct conv_trial *trial, int32_t which, struct result *result,
                               int32_t *partials)
{
    const enum conv_array array = output(trial, which);
    const int32_t channels = which ? KERNEL_CHANNELS : written_channels(trial);
    const int64_t rows = conv_elements(trial->op, &trial->shape, array) / channels;
    cudaError_t error = cudaSuccess;
    if (rows == 0)
        return error;
    for (int32_t i = 0; i < CONV_SAMPLES && error == cudaSuccess; i++)
        error = read_element(trial, array, trial->sample[which][i].index, &result->value[which][i]);
    *partials = kernel_sums(trial->clock.stream, trial->shape.type, rows, channels,
                            trial->array[array], trial->partial);
    if (error == cudaSuccess)
        error = read_numbers(trial, trial->partial, 2 * (int64_t)*partials * channels,
                             result->number + result->count);
    result->count += 2 * (int64_t)*partials * channels;
    return error;
}

/* Read what a run left. */
static cudaError_t read_result(struct conv_trial *trial, struct result *result)
{
    const float *own = trial->sums ? trial->sums : trial->derived;
    const int64_t channels = KERNEL_CHANNELS + (int64_t)written_channels(trial);
    cudaError_t error = cudaSuccess;
    int32_t beside;
    result->own = trial->sums ? 2 * trial->shape.out_channels
                              : (int32_t)(derived_bytes(trial) / sizeof(float));
    result->count = result->own;
    result->number =
        base_alloc(result->own + 2 * KERNEL_PARTIALS * channels, sizeof *result->number);
    if (own)
        error = read_numbers(trial, own, result->own, result->number);
    if (error == cudaSuccess)
        error = read_output(trial, 0, result, &result->partials);
    return error == cudaSuccess ? read_output(trial, 1, result, &beside) : error;
}

/* Fill the outputs with NaN, run, and read what it left; the caller frees result->number. */
static enum conv_verdict run_clean(struct conv_trial *trial, cudnnBackendDescriptor_t plan,
                                   struct result *result, struct err *err)
{
    size_t sums = 2 * (size_t)trial->shape.out_channels * sizeof(float);
    cudaError_t error = cudaSuccess;
    for (int32_t k = 0; k < 2 && error == cudaSuccess; k++)
        if (bytes(trial, output(trial, k)) > 0)
            error = cudaMemsetAsync(trial->array[output(trial, k)], 0xff,
                                    (size_t)bytes(trial, output(trial, k)), trial->clock.stream);
    if (trial->sums && error == cudaSuccess)
        error = cudaMemsetAsync(trial->sums, 0xff, sums, trial->clock.stream);
    if (trial->derived && error == cudaSuccess)
        error = cudaMemsetAsync(trial->derived, 0xff, derived_bytes(trial), trial->clock.stream);
    if (fails(error, "clear a result", err))
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
    for (int32_t k = 0; k < 2; k++)
        for (int32_t i = 0; i < CONV_SAMPLES && right && bytes(trial, output(trial, k)) > 0; i++) {
            const struct conv_sample *sample = &trial->sample[k][i];
            const double got = first->value[k][i], other = again->value[k][i];
            right =
                expect(trial, conv_is_right(trial->shape.type, sample, got),
                       k ? "the value's element" : "element", sample->index, got, sample->want) &&
                expect(trial, memcmp(&got, &other, sizeof got) == 0, "another run's element",
                       sample->index, other, got);
        }
    for (int64_t i = 0; i < first->count && right; i++) {
        const float got = first->number[i], other = again->number[i];
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
    struct result first = {0}, again = {0};
    enum conv_verdict verdict = run_clean(trial, plan, &first, err);
    if (verdict == CONV_RIGHT)
        verdict = run_clean(trial, plan, &again, err);
    if (verdict == CONV_RIGHT) {
        bool right = looks_right(trial, &first, &again);
        right = right && (!trial->sums || sums_are_right(trial, &first));
        for (int32_t k = 0; k < conv_ops[trial->op].norms && right && verdict == CONV_RIGHT; k++)
            if (fails(check_derived(trial, &first, k, &right), "read sums", err))
                verdict = CONV_REFUSED;
        if (!right)
            verdict = CONV_WRONG;
        else if (verdict == CONV_RIGHT && !can_be_captured(trial, plan))
            verdict = CONV_REFUSED;
    }
    free(first.number);
    free(again.number);
    return verdict;
}
