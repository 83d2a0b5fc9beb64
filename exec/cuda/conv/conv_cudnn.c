#include "exec/cuda/conv/conv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cudnn.h>

#include "core/base/base.h"
#include "core/schedule/memory.h"
#include "exec/cuda/conv/conv_cache.h"
#include "exec/cuda/conv/conv_clock.h"
#include "exec/cuda/conv/conv_cudnn_engine.h"
#include "exec/cuda/conv/conv_cudnn_graph.h"
#include "exec/cuda/conv/conv_cudnn_trial.h"

enum {
    RUNS = 5, /* of each candidate */
    FINALISTS = 4,
    /* Seconds: no candidate is begun later, if one that was timed is right.  The library lists its
     * best first, and a network has about a hundred plans. */
    PATIENCE = 1
};

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
    struct conv_plan *plans; /* with engine -1: there is none */
};

/* ---- library ---- */

int conv_open(struct conv_library **library, const char *cache, struct err *err)
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
    made->cache = conv_cache_open(cache, (int64_t)cudnnGetVersion(), property.name);
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
    cudnnDestroy(library->target.handle);
    free(library);
}

/* ---- finding the fastest engine ---- */

/* A candidate on its way through the trial. */
struct runner {
    struct conv_builder builder; /* owns the plan */
    cudnnBackendDescriptor_t plan;
    struct conv_choice choice;
};

/* Build and time one candidate.
 * @return whether it runs; an entry in @err: the device failed. */
static bool qualify(struct conv_trial *trial, const struct conv_target *target,
                    const struct conv_candidate *candidate, struct runner *runner, struct err *err)
{
    *runner = (struct runner){.choice = candidate->choice};
    runner->plan =
        conv_make_plan(&runner->builder, target, candidate->config, &runner->choice.workspace);
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

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Time candidates of @list from *@tried on while there is patience, and check them.
 * @return how many are right, the first ones of @runner. */
static int32_t try_some(struct conv_trial *trial, const struct conv_target *target,
                        const struct conv_candidate *list, int32_t count, int32_t *tried,
                        struct runner *runner, int32_t *wrong, struct err *err)
{
    int32_t runners = 0;
    const double end = now() + PATIENCE;
    for (; *tried < count && !err->count && !(runners && now() > end); ++*tried) {
        if (qualify(trial, target, &list[*tried], &runner[runners], err))
            runners++;
        else
            conv_builder_release(&runner[runners].builder);
    }
    return verify(trial, runner, runners, wrong, err);
}

/* Try the @count candidates; @best keeps engine -1 if none is usable. */
static int compete(const struct conv_target *target, struct conv_plan *plan,
                   const struct conv_candidate *list, int32_t count, struct conv_choice *best,
                   struct err *err)
{
    struct conv_trial *trial;
    struct runner *runner = base_alloc(count, sizeof *runner);
    int32_t runners = 0, wrong = 0, tried = 0;
    if (conv_trial_open(&trial, target->handle, plan->op, &plan->shape, true, err)) {
        free(runner);
        return -1;
    }
    while (!runners && tried < count && !err->count)
        runners = try_some(trial, target, list, count, &tried, runner, &wrong, err);
    if (runners && !err->count)
        final(trial, runner, runners, err);
    if (runners)
        *best = runner[0].choice;
    else if (wrong && !conv_optional(plan->op) && !err->count)
        err_add_code(err, 69,
                     "cuDNN's engines for a convolution (%s, %s, %d x %d x %d to %d x %d x %d, "
                     "window %d) give wrong results; another version of cuDNN may not",
                     conv_op_names[plan->op], dtype_names[plan->shape.type],
                     plan->shape.in_channels, plan->shape.in_height, plan->shape.in_width,
                     plan->shape.out_channels, plan->shape.out_height, plan->shape.out_width,
                     plan->shape.kernel);
    for (int32_t i = 0; i < runners; i++)
        conv_builder_release(&runner[i].builder);
    conv_trial_close(trial);
    free(runner);
    return err->count ? -1 : 0;
}

static int search(const struct conv_target *target, struct conv_plan *plan, struct err *err)
{
    struct conv_builder builder = {.err = err};
    struct conv_candidate *list = NULL;
    int failed = -1;
    cudnnBackendDescriptor_t graph = conv_graph(&builder, target, plan->op, &plan->shape);
    plan->choice = (struct conv_choice){.engine = -1};
    if (graph) {
        int32_t count = conv_candidates(&builder, target, graph, plan->shape.type, &list);
        failed = count ? compete(target, plan, list, count, &plan->choice, err) : 0;
    }
    free(list);
    conv_builder_release(&builder);
    return failed;
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

/* The plan from the cache.  @return whether there is one and it works. */
static bool recall(struct conv_library *library, struct conv_plan *plan, bool *stale,
                   struct err *err)
{
    const struct conv_choice *known = conv_cache_find(library->cache, plan->op, &plan->shape);
    if (!known)
        return false;
    plan->choice = *known;
    if (plan->choice.engine < 0 || build(&library->target, plan, err))
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

/* Fill plan->choice and the data to run it.  @return 0, or -1; not always with a reason. */
static int make(struct conv_library *library, struct conv_plan *plan, struct err *err)
{
    bool stale = false;
    if (recall(library, plan, &stale, err))
        return 0;
    if (err->count || search(&library->target, plan, err))
        return -1;
    if (plan->choice.engine >= 0 && !build(&library->target, plan, err))
        return -1;
    return agree(library, plan, stale, err);
}

const struct conv_plan *conv_plan(struct conv_library *library, enum conv_op op,
                                  const struct conv_shape *shape, struct err *err)
{
    struct conv_plan *plan = library->plans;
    if (conv_optional(op) && shape->type != DTYPE_FP16)
        return NULL; /* cuDNN 9.19 has no such engine, and needs long to report it */
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
        err_add_code(err, fault.exit_code, "%.*s", (int)strcspn(fault.text, "\n"), fault.text);
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

double conv_seconds(const struct conv_plan *plan)
{
    return plan->choice.seconds;
}

/* seconds[] of @wanted in the cache.  @return whether it has them all. */
static bool recall_chains(const struct conv_library *library, uint32_t wanted,
                          const struct conv_shape *shape, double seconds[CONV_CHAIN_COUNT])
{
    bool all = true;
    for (int32_t i = 0; i < CONV_CHAIN_COUNT; i++)
        if (wanted >> i & 1) {
            seconds[i] = conv_cache_seconds(library->cache, (enum conv_chain)i, shape);
            all = all && seconds[i] >= 0;
        }
    return all;
}

int conv_chain_seconds(struct conv_library *library, uint32_t wanted,
                       const struct conv_shape *shape, double seconds[CONV_CHAIN_COUNT],
                       conv_measure measure, void *context)
{
    if (recall_chains(library, wanted, shape, seconds))
        return 0;
    if (measure(context, wanted, seconds))
        return -1;
    for (int32_t i = 0; i < CONV_CHAIN_COUNT; i++)
        if (wanted >> i & 1)
            seconds[i] =
                conv_cache_add_seconds(library->cache, (enum conv_chain)i, shape, seconds[i]);
    return 0;
}

const char *conv_engine(const struct conv_plan *plan)
{
    return plan->name;
}

void conv_run(const struct conv_plan *plan, cudaStream_t stream, const struct conv_call *call)
{
    struct err err = {0};
    if (conv_execute(plan->handle, plan->plan, plan->op, &plan->shape, stream, call, &err) ==
        CUDNN_STATUS_SUCCESS)
        return;
    fprintf(stderr, "foretrain-exec: %s %s: %s", conv_op_names[plan->op], plan->name, err.text);
    exit(70);
}
