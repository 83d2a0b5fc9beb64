#include "tests/cuda/conv_naive.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "tests/cuda/conv_loops.h"
#include "tests/cuda/fake/fake_runtime.h"

/* exec/cuda/conv/conv.h in software: plain loops on host memory, issued through the fake runtime
 * like any other work on a stream.
 *
 * It is stricter than a GPU: every operand of an op must be there, on 16 bytes, and the workspace
 * is filled with NaN, so whoever lets it overlap something alive is found out; so is who lets two
 * streams of a capture share it. */

enum {
    WORKSPACE = 4096 /* bytes: any number above 0, so that callers must provide one */
};

struct conv_plan {
    struct conv_plan *next;
    enum conv_op op;
    struct conv_shape shape;
};

struct conv_library {
    struct conv_plan *plans;
};

struct conv_naive conv_naive;

/* The last captured run. */
static struct {
    const void *workspace;
    cudaStream_t stream;
} last;

int conv_open(struct conv_library **library, const char *cache, bool tunes, struct err *err)
{
    (void)cache;
    (void)tunes;
    (void)err;
    if (getenv("FORETRAIN_TEST_APART"))
        conv_naive = (struct conv_naive){
            .slow_to_apply = true, .slow_to_norm = true, .slow_to_add = true, .slow_to_end = true};
    *library = base_alloc(1, sizeof **library);
    last.workspace = NULL;
    return 0;
}

void conv_close(struct conv_library *library)
{
    if (!library)
        return;
    while (library->plans) {
        struct conv_plan *next = library->plans->next;
        free(library->plans);
        library->plans = next;
    }
    free(library);
}

const struct conv_plan *conv_plan(struct conv_library *library, enum conv_op op,
                                  const struct conv_shape *shape, struct err *err)
{
    (void)err;
    assert(shape->in_channels % 8 == 0 || shape->in_channels == 4);
    assert(shape->out_channels % 8 == 0);
    if (conv_ops[op].optional && shape->type != DTYPE_FP16)
        return NULL;
    for (struct conv_plan *plan = library->plans; plan; plan = plan->next)
        if (plan->op == op && memcmp(&plan->shape, shape, sizeof *shape) == 0)
            return plan;
    struct conv_plan *plan = base_alloc(1, sizeof *plan);
    *plan = (struct conv_plan){.next = library->plans, .op = op, .shape = *shape};
    library->plans = plan;
    return plan;
}

size_t conv_workspace(const struct conv_plan *plan)
{
    (void)plan;
    return WORKSPACE;
}

double conv_seconds(const struct conv_plan *plan)
{
    (void)plan;
    return 1e-6;
}

/* The less is written, the less time it takes. */
int conv_chain_seconds(struct conv_library *library, uint32_t wanted,
                       const struct conv_shape *shape, double seconds[CONV_CHAIN_COUNT],
                       conv_measure measure, void *context)
{
    static uint32_t measured; /* bit n: chain n */
    static const double steps[CONV_CHAIN_COUNT] = {3, 2, 5, 4, 3, 3, 2, 4, 2, 4,
                                                   2, 4, 4, 2, 4, 2, 7, 3, 6, 4};
    (void)library;
    (void)shape;
    const struct conv_naive before = conv_naive; /* what is timed is not counted */
    if ((measured | wanted) != measured)
        measure(context, wanted, seconds);
    conv_naive = before;
    measured |= wanted;
    for (int32_t i = 0; i < CONV_CHAIN_COUNT; i++)
        seconds[i] = 1e-6 * steps[i];
    seconds[CONV_CHAIN_APPLIED] += conv_naive.slow_to_apply;
    seconds[CONV_CHAIN_BACKWARD_NORM] += conv_naive.slow_to_norm;
    seconds[CONV_CHAIN_BACKWARD_ADD_NORM] += conv_naive.slow_to_add;
    seconds[CONV_CHAIN_BACKWARD_ADD_NORMS] += conv_naive.slow_to_add;
    seconds[CONV_CHAIN_END_MERGED] += conv_naive.slow_to_end;
    seconds[CONV_CHAIN_END_TWO_MERGED] += conv_naive.slow_to_end;
    seconds[CONV_CHAIN_POOL_MERGED] += !conv_naive.merges_pools;
    seconds[CONV_CHAIN_IMAGES_NARROW] += !conv_naive.narrows;
    return 0;
}

const char *conv_engine(const struct conv_plan *plan)
{
    (void)plan;
    return "plain loops";
}

/* What the fake stream keeps until it runs: plans outlive it, calls do not. */
struct issue {
    enum conv_op op;
    struct conv_shape shape;
    struct conv_call call;
};

static void tell(const void *place, int64_t count, int64_t size, bool writes)
{
    if (place)
        fake_access(place, (size_t)(count * size), writes, "a convolution");
}

/* Tell what a run accesses. */
static void tell_all(enum conv_op op, const struct conv_shape *s, const struct conv_call *call)
{
    const int64_t size = dtype_size(s->type), real = sizeof(float);
    const int64_t in = (int64_t)s->batch * s->in_height * s->in_width * s->in_channels;
    const int64_t out = (int64_t)s->batch * s->out_height * s->out_width * s->out_channels;
    const int64_t weights = (int64_t)s->out_channels * s->kernel * s->kernel * s->in_channels;
    tell(call->x, in, size, false);
    tell(call->w, weights, size, false);
    tell(call->dy, out, size, false);
    tell(call->factors, 2 * (int64_t)s->in_channels, size, false);
    tell(call->residual, in, size, false);
    tell(call->residual_factors, 2 * (int64_t)s->in_channels, size, false);
    tell(call->other, in, size, false);
    for (int32_t k = 0; k < conv_ops[op].norms; k++) {
        const struct conv_norm *norm = &call->norm[k];
        tell(norm->x, in, size, false);
        tell(norm->statistics, 2 * (int64_t)s->in_channels, real, false);
        tell(norm->parameter, 2 * (int64_t)s->in_channels, real, false);
        tell(norm->derived, CONV_DERIVED_COUNT * (int64_t)s->in_channels, real, true);
    }
    tell(call->y, out, size, true);
    tell(call->dx, in, size, true);
    tell(call->dw, weights, size, true);
    tell(call->value, in, size, true);
    tell(call->sums, 2 * (int64_t)s->out_channels, real, true);
    tell(call->workspace, WORKSPACE, 1, true);
}

static void run(void *argument)
{
    const struct issue *issue = argument;
    tell_all(issue->op, &issue->shape, &issue->call);
    assert(issue->call.workspace);
    memset(issue->call.workspace, 0xff, WORKSPACE);
    fake_pass(conv_naive.takes[issue->op] + conv_naive.once);
    conv_naive.once = 0;
    conv_loops(issue->op, &issue->shape, &issue->call);
}

/* Two streams of a capture may run at once. */
static void check_workspace(cudaStream_t stream, const void *workspace)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(stream, &status);
    if (status == cudaStreamCaptureStatusNone)
        return;
    assert(last.workspace != workspace || last.stream == stream);
    last.workspace = workspace;
    last.stream = stream;
}

void conv_run(const struct conv_plan *plan, cudaStream_t stream, const struct conv_call *call)
{
    struct issue issue = {plan->op, plan->shape, *call};
    check_workspace(stream, call->workspace);
    conv_naive.runs[plan->op]++;
    fake_enqueue_c(stream, run, &issue, sizeof issue);
}
