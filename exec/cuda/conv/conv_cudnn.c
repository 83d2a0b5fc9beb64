#include "exec/cuda/conv/conv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cudnn.h>

#include "core/base/base.h"
#include "core/schedule/memory.h"
#include "exec/cuda/conv/conv_cache.h"
#include "exec/cuda/conv/conv_cudnn_engine.h"
#include "exec/cuda/conv/conv_cudnn_graph.h"
#include "exec/cuda/conv/conv_cudnn_search.h"
#include "exec/cuda/conv/conv_cudnn_trial.h"

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
    char *tuned = cache && tunes ? base_format("%s-tuned", cache) : NULL;
    const int64_t version = (int64_t)cudnnGetVersion();
    made->cache = conv_cache_open(tunes ? tuned : cache, version, property.name);
    made->untuned = tunes ? conv_cache_open(cache, version, property.name) : NULL;
    free(tuned);
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

double conv_seconds(const struct conv_plan *plan)
{
    return plan->choice.seconds;
}

const char *conv_engine(const struct conv_plan *plan)
{
    return plan->name;
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
