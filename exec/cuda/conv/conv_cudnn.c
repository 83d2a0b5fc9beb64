#include "core/schedule/memory.h"
#include "exec/cuda/conv/conv_check.h"
#include "exec/cuda/conv/conv_cudnn_engine.h"
#include "exec/cuda/kernels/kernels.h"
#include "exec/step/half.h"

/* How long work takes on the device, and memory with numbers for it to work on.  All that is
 * compared with each other is timed by conv_trial_time(), on the same kind of numbers. */

enum {
    CONV_CLOCK_RUNS = 15,  /* of each of those between which is decided; no more at once */
    CONV_CLOCK_ROUNDS = 3, /* of those, in turns, so that a disturbance affects all; the lowest
                                median counts */
};

/* A stream and what times on it. */
struct conv_clock {
    cudaStream_t stream;
    void *flush; /* memory that is written before, so that caches are without the operands */
    cudaEvent_t event[CONV_CLOCK_RUNS + 2];
};

enum {
    FLUSH = 256 * 1024 * 1024 /* bytes: more than any cache, and long enough for the host to get
                                 ahead */
};

/* Make @clock on the current device; with @flushes it also clears caches, if there is memory for
 * that.  Release with conv_clock_close() in any case. */
static cudaError_t conv_clock_open(struct conv_clock *clock, bool flushes)
{
    *clock = (struct conv_clock){0};
    cudaError_t error = cudaStreamCreateWithFlags(&clock->stream, cudaStreamNonBlocking);
    for (int32_t i = 0; i < CONV_CLOCK_RUNS + 2 && error == cudaSuccess; i++)
        error = cudaEventCreate(&clock->event[i]);
    if (error == cudaSuccess && flushes && cudaMalloc(&clock->flush, FLUSH)) {
        clock->flush = NULL; /* without it, times are a little less true */
        cudaGetLastError();
    }
    return error;
}

/* Wait for the stream and release; @clock may be all zero. */
static void conv_clock_close(struct conv_clock *clock)
{
    if (clock->stream)
        cudaStreamSynchronize(clock->stream);
    for (int32_t i = 0; i < CONV_CLOCK_RUNS + 2; i++)
        if (clock->event[i])
            cudaEventDestroy(clock->event[i]);
    cudaFree(clock->flush);
    if (clock->stream)
        cudaStreamDestroy(clock->stream);
}

/* Fill @size bytes at @to, on the device, with the pattern of @array in @type: once from the host,
 * then doubled. */
static cudaError_t conv_fill(void *to, int64_t size, enum dtype type, enum conv_array array)
{
    AUTOFREE float *pattern = conv_pattern(type, array);
    AUTOFREE void *narrow = base_alloc(CONV_PATTERN, (size_t)dtype_size(type));
    half_from_float(type, CONV_PATTERN, pattern, narrow);
    int64_t done = CONV_PATTERN * (int64_t)dtype_size(type);
    done = done < size ? done : size;
    cudaError_t error = cudaMemcpy(to, narrow, (size_t)done, cudaMemcpyHostToDevice);
    for (int64_t next; error == cudaSuccess && done < size; done += next) {
        next = done < size - done ? done : size - done;
        error = cudaMemcpy((char *)to + done, to, (size_t)next, cudaMemcpyDeviceToDevice);
    }
    return error;
}

/* What came of a run. */
enum conv_verdict {
    CONV_RIGHT,
    CONV_WRONG,  /* the result is wrong, or differs from run to run */
    CONV_REFUSED /* the library did not run it, or cannot while a stream is captured */
};

/* The array that is written is summed as rows of so many channels, whatever it has. */
enum { SUMS = 2 * KERNEL_PARTIALS * KERNEL_CHANNELS };

/* A place to try plans on the device.  Operands have the size of those in training, so times are
 * the same. */
struct conv_trial {
    cudnnHandle_t handle;
    enum conv_op op;
    struct conv_shape shape;
    void *array[CONV_ARRAY_COUNT], *workspace;
    float *partial; /* sums of our own kernel */
    int64_t room;   /* of the workspace */
    struct conv_clock clock;
    struct conv_sample sample[CONV_SAMPLES];
    /* Of a plan the first fault, such as "element 7 is 1 instead of 2", and why it was not run. */
    char fault[256], refusal[256];
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

/* Release; accepts NULL. */
static void conv_trial_close(struct conv_trial *trial)
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

/* Allocate the operands of @op on @shape on the current device and, with @checked, fill them and
 * compute samples of the result, which takes up to a second.
 * @return 0, or -1 (exit code 69): not enough memory on the device, or it failed. */
static int conv_trial_open(struct conv_trial **trial, cudnnHandle_t handle, enum conv_op op,
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

/* Make room for a plan that needs @workspace.  @return 0, or -1: no room, which is no error. */
static int conv_trial_reserve(struct conv_trial *trial, int64_t workspace)
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
    AUTORELEASE(err) struct err err = {0};
    struct conv_call call = conv_call_of(trial->array, trial->workspace);
    bool ran = conv_execute(trial->handle, plan, trial->op, trial->clock.stream, &call, &err) ==
               CUDNN_STATUS_SUCCESS;
    if (!ran && !trial->refusal[0])
        snprintf(trial->refusal, sizeof trial->refusal, "%s", err_reason(&err));
    return ran;
}

/* Run @plan once on operands with any contents. */
static enum conv_verdict conv_trial_run(struct conv_trial *trial, cudnnBackendDescriptor_t plan,
                                        struct err *err)
{
    bool ran = issue(trial, plan);
    if (fails(cudaStreamSynchronize(trial->clock.stream), "run a plan", err))
        return CONV_REFUSED;
    if (!ran)
        cudaGetLastError(); /* clear it: a refused launch must not be charged to the next call */
    return ran ? CONV_RIGHT : CONV_REFUSED;
}

/* The median of @runs (at most CONV_CLOCK_RUNS) runs of @plan in a row [s], after one that is not
 * timed.  Infinite: it was refused, or it failed, with an entry in @err. */
static double conv_trial_time(struct conv_trial *trial, cudnnBackendDescriptor_t plan, int32_t runs,
                              struct err *err)
{
    const struct conv_clock *clock = &trial->clock;
    double taken[CONV_CLOCK_RUNS] = {0}; /* ms */
    bool ran = true;
    cudaError_t error = cudaSuccess;
    if (clock->flush)
        error = cudaMemsetAsync(clock->flush, 0, FLUSH, clock->stream);
    for (int32_t i = 0; i < runs + 1 && ran && error == cudaSuccess; i++) {
        ran = issue(trial, plan);
        error = cudaEventRecord(clock->event[i], clock->stream);
    }
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(clock->stream);
    for (int32_t i = 0; i < runs && ran && error == cudaSuccess; i++) {
        float between = 0;
        error = cudaEventElapsedTime(&between, clock->event[i], clock->event[i + 1]);
        taken[i] = (double)between;
    }
    if (fails(error, "time a plan", err) || !ran) {
        cudaGetLastError();
        return INFINITY;
    }
    return base_median(taken, runs) * 1e-3;
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

/* Run @plan twice over a result of NaN: all of it must be written, samples must agree with the
 * host's, and both runs with each other, bit for bit: samples, and our own kernel's sums of it all.
 * The trial must have been opened with
 * @checked.  An entry in @err: the device failed, and nothing further will work. */
static enum conv_verdict conv_trial_check(struct conv_trial *trial, cudnnBackendDescriptor_t plan,
                                          struct err *err)
{
    AUTOFREE struct result *result = base_alloc(2, sizeof *result);
    enum conv_verdict verdict = run_clean(trial, plan, &result[0], err);
    if (verdict == CONV_RIGHT)
        verdict = run_clean(trial, plan, &result[1], err);
    if (verdict == CONV_RIGHT && !looks_right(trial, &result[0], &result[1]))
        verdict = CONV_WRONG;
    if (verdict == CONV_RIGHT && !can_be_captured(trial, plan))
        verdict = CONV_REFUSED;
    return verdict;
}

/* The fastest correct engine for a convolution, by trying those that cuDNN offers on the device. */

enum {
    RUNS = 5, /* of each candidate */
    FINALISTS = 4,
    /* Seconds: no candidate is begun later, if one that was timed is right.  The library lists its
     * best first, and a network has about a hundred plans. */
    PATIENCE = 1,
    TUNING_RUNS = 1000 /* of the engine as it was found: the time for varying its settings */
};

/* That time at most [s]; a change that leaves more than this part of the time may be noise. */
static const double tuning_most = 0.5, better = 0.99;

/* A candidate on its way through the trial. */
struct runner {
    struct conv_builder builder; /* owns the plan */
    cudnnBackendDescriptor_t plan;
    struct conv_choice choice;
};

/* Build and time runner->choice, which @config is.
 * @return whether it runs; an entry in @err: the device failed. */
static bool qualify(struct conv_trial *trial, const struct conv_target *target,
                    cudnnBackendDescriptor_t config, struct runner *runner, struct err *err)
{
    runner->plan = conv_make_plan(&runner->builder, target, config, &runner->choice.workspace);
    if (!runner->plan || runner->choice.workspace > MEMORY_WORKSPACE_LIMIT ||
        conv_trial_reserve(trial, runner->choice.workspace))
        return false;
    runner->choice.seconds = conv_trial_time(trial, runner->plan, RUNS, err);
    return isfinite(runner->choice.seconds);
}

static int by_seconds(const void *a, const void *b)
{
    const struct runner *left = a, *right = b;
    return (left->choice.seconds > right->choice.seconds) -
           (left->choice.seconds < right->choice.seconds);
}

/* Check what was timed, the fastest first, until there are enough; the others are released, since a
 * slower one cannot become the fastest.  @wrong counts.  @return how many are left, all right. */
static int32_t verify(struct conv_trial *trial, struct runner *runner, int32_t count,
                      int32_t *wrong, struct err *err)
{
    int32_t right = 0;
    qsort(runner, (size_t)count, sizeof *runner, by_seconds);
    for (int32_t i = 0; i < count; i++) {
        bool wanted = right == 0 || (right < FINALISTS &&
                                     runner[i].choice.seconds <= 1.5 * runner[0].choice.seconds);
        enum conv_verdict verdict = CONV_REFUSED;
        if (wanted && !err->count)
            verdict = conv_trial_check(trial, runner[i].plan, err);
        *wrong += verdict == CONV_WRONG;
        if (verdict == CONV_RIGHT)
            runner[right++] = runner[i];
        else
            conv_builder_release(&runner[i].builder);
    }
    return right;
}

/* Time finalists again, in turns.  The first of @runner is then the fastest of all. */
static void final(struct conv_trial *trial, struct runner *runner, int32_t count, struct err *err)
{
    for (int32_t i = 0; i < count; i++)
        runner[i].choice.seconds = INFINITY;
    for (int32_t round = 0; round < CONV_CLOCK_ROUNDS; round++)
        for (int32_t i = 0; i < count && !err->count; i++) {
            double seconds = conv_trial_time(trial, runner[i].plan, CONV_CLOCK_RUNS, err);
            if (seconds < runner[i].choice.seconds)
                runner[i].choice.seconds = seconds;
        }
    qsort(runner, (size_t)count, sizeof *runner, by_seconds);
}

/* Time candidates of @list from *@tried on while there is patience, and check them.
 * @return how many are right, the first ones of @runner. */
static int32_t try_some(struct conv_trial *trial, const struct conv_target *target,
                        const struct conv_candidate *list, int32_t count, int32_t *tried,
                        struct runner *runner, int32_t *wrong, struct err *err)
{
    int32_t runners = 0;
    const double end = base_seconds(CLOCK_MONOTONIC) + PATIENCE;
    for (; *tried < count && !err->count && !(runners && base_seconds(CLOCK_MONOTONIC) > end);
         ++*tried) {
        runner[runners] = (struct runner){.choice = list[*tried].choice};
        if (qualify(trial, target, list[*tried].config, &runner[runners], err))
            runners++;
        else
            conv_builder_release(&runner[runners].builder);
    }
    return verify(trial, runner, runners, wrong, err);
}

/* What is not as it should be with the engines for @op, of which @tried were tried. */
static void report(enum conv_op op, const struct conv_shape *shape, int32_t tried, bool right,
                   bool wrong, const char *fault, struct err *err)
{
    AUTOFREE char *name = base_format(
        "%s, %s, %d x %d x %d to %d x %d x %d, window %d, batch %d", conv_names[op],
        dtype_names[shape->type], shape->in_channels, shape->in_height, shape->in_width,
        shape->out_channels, shape->out_height, shape->out_width, shape->kernel, shape->batch);
    if (!right && wrong)
        err_add_code(err, 69,
                     "cuDNN's engines for a convolution (%s) give wrong results: %s; another "
                     "version of cuDNN may not",
                     name, fault);
    else if (!right || wrong)
        fprintf(stderr, "foretrain-exec: of cuDNN's %d engines for a convolution (%s) %s: %s\n",
                tried, name, right ? "some give wrong results" : "none can be used",
                fault[0] ? fault : "no plan can be made in the memory that is left");
}

/* Try the @count candidates; @best keeps engine -1 if none is usable. */
static int compete(const struct conv_target *target, enum conv_op op,
                   const struct conv_shape *shape, const struct conv_candidate *list, int32_t count,
                   struct conv_choice *best, struct err *err)
{
    struct conv_trial *trial;
    AUTOFREE struct runner *runner = base_alloc(count, sizeof *runner);
    int32_t runners = 0, wrong = 0, tried = 0;
    if (conv_trial_open(&trial, target->handle, op, shape, true, err))
        return -1;
    while (!runners && tried < count && !err->count)
        runners = try_some(trial, target, list, count, &tried, runner, &wrong, err);
    if (runners && !err->count)
        final(trial, runner, runners, err);
    if (runners)
        *best = runner[0].choice;
    if (!err->count)
        report(op, shape, tried, runners > 0, wrong > 0,
               trial->fault[0] ? trial->fault : trial->refusal, err);
    for (int32_t i = 0; i < runners; i++)
        conv_builder_release(&runner[i].builder);
    conv_trial_close(trial);
    return err->count ? -1 : 0;
}

/* Find the engine for @op on @shape; choice->engine is -1 if none is usable.
 * @return 0, or -1: the device failed, or (exit code 69) all engines are wrong. */
static int conv_search(const struct conv_target *target, enum conv_op op,
                       const struct conv_shape *shape, struct conv_choice *choice, struct err *err)
{
    AUTORELEASE(conv_builder) struct conv_builder builder = {.err = err};
    AUTOFREE struct conv_candidate *list = NULL;
    cudnnBackendDescriptor_t graph = conv_graph(&builder, target, op, shape);
    *choice = (struct conv_choice){.engine = -1};
    if (!graph)
        return -1;
    int32_t count = conv_candidates(&builder, target, graph, shape->type, &list);
    return count ? compete(target, op, shape, list, count, choice, err) : 0;
}

/* ---- settings ---- */

/* An engine whose settings are varied. */
struct tuning {
    struct conv_trial *trial;
    const struct conv_target *target;
    cudnnBackendDescriptor_t graph;
    struct runner best;
    double end; /* by base_seconds(CLOCK_MONOTONIC) */
};

/* Set knob @index of the best, which may be a further one, to @knob; that is the best from now on
 * if it is faster and right.  @return whether it is. */
static bool change(struct tuning *tuning, int32_t index, struct conv_knob knob, struct err *err)
{
    struct runner next = {.choice = tuning->best.choice};
    next.choice.knob[index] = knob;
    next.choice.knobs += index == next.choice.knobs;
    cudnnBackendDescriptor_t config =
        conv_config(&next.builder, tuning->target, tuning->graph, &next.choice);
    bool gains = qualify(tuning->trial, tuning->target, config, &next, err) &&
                 next.choice.seconds < better * tuning->best.choice.seconds &&
                 conv_trial_check(tuning->trial, next.plan, err) == CONV_RIGHT;
    conv_builder_release(gains ? &tuning->best.builder : &next.builder);
    if (gains)
        tuning->best = next;
    return gains;
}

/* Try all values of one setting.  @return whether one was better. */
static bool vary(struct tuning *tuning, const struct conv_range *range, struct err *err)
{
    const struct conv_choice *choice = &tuning->best.choice;
    int32_t index = 0;
    bool gains = false;
    while (index < choice->knobs && choice->knob[index].type != range->type)
        index++;
    if (index == CONV_KNOBS || range->stride <= 0)
        return false;
    for (int64_t value = range->least; value <= range->most; value += range->stride)
        if ((index == choice->knobs || value != choice->knob[index].value) && !err->count &&
            base_seconds(CLOCK_MONOTONIC) < tuning->end)
            gains = change(tuning, index, (struct conv_knob){range->type, value}, err) || gains;
    return gains;
}

/* Change one setting after the other, from @first, which runs, until nothing is better. */
static void descend(struct tuning *tuning, const struct runner *first,
                    const struct conv_range *range, int32_t ranges, struct err *err)
{
    const double most = TUNING_RUNS * first->choice.seconds;
    tuning->best.choice = first->choice;
    tuning->end = base_seconds(CLOCK_MONOTONIC) + (most < tuning_most ? most : tuning_most);
    for (bool gains = true; gains;) {
        gains = false;
        for (int32_t i = 0; i < ranges; i++)
            gains = vary(tuning, &range[i], err) || gains;
    }
}

/* Vary the settings of the engine in @choice, one after the other, and keep what is faster and
 * right, until no single change is, or for about as long as 1000 runs take, half a second at most.
 * choice->seconds is measured anew.
 * @return 0, or -1: the device failed. */
static int conv_tune(const struct conv_target *target, enum conv_op op,
                     const struct conv_shape *shape, struct conv_choice *choice, struct err *err)
{
    AUTORELEASE(conv_builder) struct conv_builder builder = {.err = err};
    struct conv_range range[CONV_KNOBS];
    struct runner pair[2] = {{.choice = *choice}};
    struct tuning tuning = {.target = target};
    tuning.graph = conv_graph(&builder, target, op, shape);
    int32_t ranges = conv_ranges(&builder, target, tuning.graph, choice->engine, range);
    if (!builder.failed && !conv_trial_open(&tuning.trial, target->handle, op, shape, true, err)) {
        cudnnBackendDescriptor_t config =
            conv_config(&pair[0].builder, target, tuning.graph, choice);
        if (qualify(tuning.trial, target, config, &pair[0], err)) {
            descend(&tuning, &pair[0], range, ranges, err);
            pair[1] = tuning.best;
            final(tuning.trial, pair, pair[1].plan ? 2 : 1, err);
            *choice = pair[0].choice;
        }
    }
    for (int32_t i = 0; i < 2; i++)
        conv_builder_release(&pair[i].builder);
    conv_trial_close(tuning.trial);
    return err->count ? -1 : 0;
}

struct conv_plan {
    struct conv_plan *next;
    cudnnHandle_t handle; /* the library's */
    enum conv_op op;
    struct conv_shape shape;
    struct conv_choice choice;
    struct conv_builder builder; /* owns graph, engine and plan */
    cudnnBackendDescriptor_t plan;
    char *name; /* owned */
};

struct conv_library {
    struct conv_target target;
    struct conv_cache *cache;
    struct conv_cache *untuned; /* to begin with; NULL: settings are not varied */
    struct conv_plan *plans;    /* with engine -1: there is none */
};

/* ---- library ---- */

int conv_open(struct conv_library **library, const char *cache, bool tunes, struct err *err)
{
    int device = 0;
    struct cudaDeviceProp property;
    struct conv_target target = {0};
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess)
        error = cudaGetDeviceProperties(&property, device);
    if (error != cudaSuccess)
        return err_add_code(err, 69,
                            "no NVIDIA GPU can be used for convolutions: %s; nvidia-smi should "
                            "list a GPU and a driver that is new enough for this CUDA",
                            cudaGetErrorString(error));
    cudnnStatus_t status = cudnnCreate(&target.handle);
    if (status != CUDNN_STATUS_SUCCESS) {
        conv_status(status, "start on this GPU", err);
        return -1;
    }
    conv_keep_compiler();
    struct conv_library *made = base_alloc(1, sizeof *made);
    made->target = target;
    AUTOFREE char *tuned = cache && tunes ? base_format("%s-tuned", cache) : NULL;
    const int64_t version = (int64_t)cudnnGetVersion();
    made->cache = conv_cache_open(tunes ? tuned : cache, version, property.name);
    made->untuned = tunes ? conv_cache_open(cache, version, property.name) : NULL;
    *library = made;
    return 0;
}

static void release(struct conv_plan *plan)
{
    conv_builder_release(&plan->builder);
    free(plan->name);
    free(plan);
}

void conv_close(struct conv_library *library)
{
    if (!library)
        return;
    while (library->plans) {
        struct conv_plan *next = library->plans->next;
        release(library->plans);
        library->plans = next;
    }
    conv_cache_close(library->cache);
    conv_cache_close(library->untuned);
    cudnnDestroy(library->target.handle);
    free(library);
}

/* ---- plans ---- */

/* Make the plan of plan->choice and run it once, so that nothing is loaded later while a graph is
 * captured.
 * @return whether it works; an entry in @err: the device failed. */
static bool build(const struct conv_target *target, struct conv_plan *plan, struct err *err)
{
    struct conv_builder *builder = &plan->builder;
    struct conv_trial *trial;
    int64_t workspace = 0;
    bool works = false;
    cudnnBackendDescriptor_t graph = conv_graph(builder, target, plan->op, &plan->shape);
    cudnnBackendDescriptor_t config = conv_config(builder, target, graph, &plan->choice);
    plan->plan = conv_make_plan(builder, target, config, &workspace);
    if (!plan->plan || workspace > MEMORY_WORKSPACE_LIMIT)
        return false;
    plan->choice.workspace = workspace;
    if (conv_trial_open(&trial, target->handle, plan->op, &plan->shape, false, err))
        return false;
    if (conv_trial_reserve(trial, workspace) == 0)
        works = conv_trial_run(trial, plan->plan, err) == CONV_RIGHT;
    conv_trial_close(trial);
    return works;
}

/* The plan from @cache, which may be NULL.  @return whether there is one and it works. */
static bool recall(const struct conv_target *target, const struct conv_cache *cache,
                   struct conv_plan *plan, bool *stale, struct err *err)
{
    const struct conv_choice *known = cache ? conv_cache_find(cache, plan->op, &plan->shape) : NULL;
    if (!known)
        return false;
    plan->choice = *known;
    if (plan->choice.engine < 0 || build(target, plan, err))
        return true;
    conv_builder_release(&plan->builder);
    *stale = true;
    return false;
}

/* plan->choice for all that search at the same time: the one that was in the file first. */
static int agree(struct conv_library *library, struct conv_plan *plan, bool stale, struct err *err)
{
    const struct conv_choice own = plan->choice;
    const struct conv_choice *first =
        conv_cache_add(library->cache, plan->op, &plan->shape, &own, stale);
    if (conv_choice_same(first, &own))
        return 0;
    conv_builder_release(&plan->builder);
    plan->choice = *first;
    if (plan->choice.engine < 0 || build(&library->target, plan, err))
        return 0;
    conv_builder_release(&plan->builder);
    plan->choice = own;
    return err->count || !build(&library->target, plan, err) ? -1 : 0;
}

/* Fill plan->choice: the fastest engine, with its settings varied where that is wanted. */
static int find(struct conv_library *library, struct conv_plan *plan, struct err *err)
{
    const struct conv_target *target = &library->target;
    bool stale;
    if (recall(target, library->untuned, plan, &stale, err))
        conv_builder_release(&plan->builder);
    else if (err->count || conv_search(target, plan->op, &plan->shape, &plan->choice, err))
        return -1;
    if (!library->untuned || plan->choice.engine < 0)
        return 0;
    return conv_tune(target, plan->op, &plan->shape, &plan->choice, err);
}

/* Fill plan->choice and the data to run it.  @return 0, or -1; not always with a reason. */
static int make(struct conv_library *library, struct conv_plan *plan, struct err *err)
{
    bool stale = false;
    if (recall(&library->target, library->cache, plan, &stale, err))
        return 0;
    if (err->count || find(library, plan, err) ||
        (plan->choice.engine >= 0 && !build(&library->target, plan, err)))
        return -1;
    return agree(library, plan, stale, err);
}

const struct conv_plan *conv_plan(struct conv_library *library, enum conv_op op,
                                  const struct conv_shape *shape, struct err *err)
{
    struct conv_plan *plan = library->plans;
    while (plan && (plan->op != op || memcmp(&plan->shape, shape, sizeof *shape) != 0))
        plan = plan->next;
    if (plan)
        return plan->choice.engine >= 0 ? plan : NULL;
    struct err fault = {0};
    plan = base_alloc(1, sizeof *plan);
    plan->handle = library->target.handle;
    plan->op = op;
    plan->shape = *shape;
    if (make(library, plan, &fault)) {
        if (!fault.count)
            err_add_code(&fault, 69,
                         "cuDNN's engine %d for a convolution worked before and now fails: free "
                         "GPU memory used by other programs",
                         plan->choice.engine);
        err_add_code(err, fault.exit_code, "%s%s", err_reason(&fault),
                     library->untuned ? "; without --tune no settings of engines are varied" : "");
        err_release(&fault);
        release(plan);
        return NULL;
    }
    plan->name = conv_engine_name(&plan->choice);
    plan->next = library->plans;
    library->plans = plan;
    return plan->choice.engine >= 0 ? plan : NULL;
}

size_t conv_workspace(const struct conv_plan *plan)
{
    return (size_t)plan->choice.workspace;
}

void conv_run(const struct conv_plan *plan, cudaStream_t stream, const struct conv_call *call)
{
    struct err err = {0};
    if (conv_execute(plan->handle, plan->plan, plan->op, stream, call, &err) ==
        CUDNN_STATUS_SUCCESS)
        return;
    fprintf(stderr, "foretrain-exec: %s %s: %s", conv_names[plan->op], plan->name, err.text);
    exit(70);
}
