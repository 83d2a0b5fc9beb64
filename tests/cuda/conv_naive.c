#include "tests/cuda/conv_naive.h"

#include "core/base/base.h"
#include "tests/cuda/conv_loops.h"
#include "tests/cuda/fake/fake_runtime.h"

/* exec/cuda/conv/conv.h in software: plain loops on host memory, issued through the fake runtime
 * like any other work on a stream.
 *
 * It is stricter than a GPU: every operand of an op must be there, on 16 bytes, and the workspace
 * is filled with NaN, so whoever lets it overlap something alive is found out. */

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

int64_t conv_naive_runs[CONV_OP_COUNT];

int conv_open(struct conv_library **library, const char *cache, bool tunes, struct err *err)
{
    (void)cache;
    (void)tunes;
    (void)err;
    *library = base_alloc(1, sizeof **library);
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

/* What the fake stream keeps until it runs: plans outlive it, calls do not. */
struct issue {
    enum conv_op op;
    struct conv_shape shape;
    struct conv_call call;
};

static void run(void *argument)
{
    const struct issue *issue = argument;
    assert(issue->call.workspace);
    memset(issue->call.workspace, 0xff, WORKSPACE);
    conv_loops(issue->op, &issue->shape, &issue->call);
}

void conv_run(const struct conv_plan *plan, cudaStream_t stream, const struct conv_call *call)
{
    struct issue issue = {plan->op, plan->shape, *call};
    conv_naive_runs[plan->op]++;
    fake_enqueue_c(stream, run, &issue, sizeof issue);
}
