#include "app/import/import_job.h"

const char *const work_names[WORK_COUNT] = {
    [WORK_CONVOLUTION] = "convolutions",
    [WORK_LINEAR] = "matrix products",
    [WORK_POINTWISE] = "norm, ReLU, add",
    [WORK_POOL] = "pooling",
    [WORK_LOSS] = "loss",
    [WORK_OPTIMIZER] = "optimizer",
    [WORK_OTHER] = "other computation",
    [WORK_COPY] = "copies",
    [WORK_COMMUNICATION] = "communication",
};

/* Parts of names of kernels that communicate: NCCL, RCCL, MSCCL and MSCCL++, NVSHMEM, oneCCL, and
 * the all-reduce of vLLM and TensorRT-LLM. */
static const char *const collectives[] = {"nccl",    "rccl",   "msccl",
                                          "nvshmem", "oneccl", "cross_device_reduce"};

static enum work look_up(const struct hint *hint, const char *name)
{
    for (; hint->part; hint++)
        if (strcasestr(name, hint->part))
            return hint->work;
    return WORK_OTHER;
}

enum work work_of_event(const char *name, const char *op)
{
    for (size_t i = 0; i < ARRAY_SIZE(collectives); i++)
        if (strcasestr(name, collectives[i]))
            return WORK_COMMUNICATION;
    if (!strncmp(name, "Memcpy", 6) || !strncmp(name, "Memset", 6))
        return WORK_COPY;
    enum work work = op ? look_up(known_operations, op) : WORK_OTHER;
    return work == WORK_OTHER ? look_up(known_kernels, name) : work;
}

enum work work_of_step(const struct step *step)
{
    static const enum work of_layer[LAYER_OP_COUNT] = {
        [LAYER_CONVOLUTION] = WORK_CONVOLUTION,
        [LAYER_BATCH_NORM] = WORK_POINTWISE,
        [LAYER_MAX_POOL] = WORK_POOL,
        [LAYER_AVERAGE_POOL] = WORK_POOL,
        [LAYER_LINEAR] = WORK_LINEAR,
        [LAYER_TRANSPOSED] = WORK_CONVOLUTION,
        [LAYER_RELU] = WORK_POINTWISE,
        [LAYER_GELU] = WORK_POINTWISE,
        [LAYER_SILU] = WORK_POINTWISE,
        [LAYER_DROPOUT] = WORK_POINTWISE,
        [LAYER_ADD] = WORK_POINTWISE,
        [LAYER_MULTIPLY] = WORK_POINTWISE,
        [LAYER_CONCAT] = WORK_OTHER,
        [LAYER_MATMUL] = WORK_LINEAR,
        [LAYER_SOFTMAX] = WORK_POINTWISE,
        [LAYER_LAYER_NORM] = WORK_POINTWISE,
        [LAYER_RMS_NORM] = WORK_POINTWISE,
        [LAYER_GROUP_NORM] = WORK_POINTWISE,
        [LAYER_EMBEDDING] = WORK_OTHER,
        [LAYER_PERMUTE] = WORK_OTHER,
        [LAYER_OTHER] = WORK_OTHER,
    };
    if (step->kind != STEP_COMPUTE)
        return step->kind == STEP_COLLECTIVE ? WORK_COMMUNICATION : WORK_COPY;
    if (step->compute.op == COMPUTE_LOSS || step->compute.op == COMPUTE_OPTIMIZER)
        return step->compute.op == COMPUTE_LOSS ? WORK_LOSS : WORK_OPTIMIZER;
    return of_layer[step->compute.layer_op];
}

enum work work_of_words(const char *op, const char *layer)
{
    int32_t which = base_find_word(op, compute_op_names);
    int32_t kind = base_find_word(layer, layer_op_names);
    bool alone = which == COMPUTE_LOSS || which == COMPUTE_OPTIMIZER;
    if (which < 0 || (!alone && (kind < 0 || kind == LAYER_OP_COUNT)))
        return WORK_OTHER;
    struct step step = {.kind = STEP_COMPUTE};
    step.compute.op = (enum compute_op)which;
    step.compute.layer_op = (enum layer_op)kind;
    return work_of_step(&step);
}

/* Of the time that communication covers from @begin to @end, what no computation covers. @computed
 * is the end of all computation that began before, and goes on with @span (count) from *next. */
struct sweep {
    const struct work_span *span;
    int64_t count, next;
    double computed;
};

static double uncovered(struct sweep *sweep, double begin, double end)
{
    double bare = 0, at = fmax(begin, fmin(end, sweep->computed));
    for (; sweep->next < sweep->count && sweep->span[sweep->next].begin < end; sweep->next++) {
        const struct work_span *span = &sweep->span[sweep->next];
        if (span->work == WORK_COMMUNICATION || span->work == WORK_COPY)
            continue;
        bare += fmax(0, span->begin - at);
        sweep->computed = fmax(sweep->computed, span->end);
        at = fmax(at, fmin(end, sweep->computed));
    }
    return bare + end - at;
}

ORDER_BY(by_begin, struct work_span, begin)

struct work_sum work_add_up(struct work_span *span, int64_t count)
{
    struct work_sum sum = {0};
    if (count > 0)
        qsort(span, (size_t)count, sizeof(*span), by_begin);
    struct sweep sweep = {span, count, 0, -INFINITY};
    double covered = -INFINITY; /* by communication so far */
    for (int64_t i = 0; i < count; i++) {
        if (span[i].work != WORK_COMMUNICATION) {
            sum.busy[span[i].work] += span[i].end - span[i].begin;
            continue;
        }
        double begin = fmax(span[i].begin, covered);
        if (span[i].end <= begin)
            continue;
        sum.busy[WORK_COMMUNICATION] += span[i].end - begin;
        sum.exposed += uncovered(&sweep, begin, span[i].end);
        covered = span[i].end;
    }
    return sum;
}
