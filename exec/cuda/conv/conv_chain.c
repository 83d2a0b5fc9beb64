#include "exec/cuda/conv/conv_chain.h"

#include <math.h>

#include "core/base/base.h"
#include "exec/cuda/conv/conv_clock.h"
#include "exec/cuda/kernels/kernels.h"

/* What stands where in the one allocation. */
enum part {
    RAW,    /* the input of batch norm */
    VALUE,  /* the convolution's input; in backward its gradient */
    ADDED,  /* the residual, or the second batch norm's input */
    OTHER,  /* the gradient that is added */
    OUT,    /* its output, or that one's gradient */
    WEIGHT, /* and its gradient: */
    DW,
    HALVES,     /* (2, in) factors as fp16 */
    STATISTICS, /* (2, in) of batch norm before; the next two likewise */
    PARAMETER,
    FACTORS,
    OUT_STATISTICS, /* (2, out) of batch norm behind; the next two likewise */
    OUT_PARAMETER,
    OUT_FACTORS,
    GRADIENT,  /* (2, in) of batch norm before */
    BACKWARD,  /* (3, in) factors of its backward */
    DERIVED,   /* (2, CONV_DERIVED_COUNT, in) */
    PARTIAL,   /* (KERNEL_PARTIALS, 2, in or out) */
    MASK,      /* of VALUE */
    WINNER,    /* of a pool */
    WORKSPACE, /* of the plans */
    PARTS
};

/* Chains at work. */
struct bench {
    const struct conv_chain_job *job;
    enum conv_chain chain; /* the one at work */
    struct conv_clock clock;
    char *memory;
    size_t at[PARTS + 1]; /* bytes from there */
};

static size_t workspace(const struct conv_plan *const *plan)
{
    size_t bytes = 0;
    for (int32_t op = 0; plan && op < CONV_OP_COUNT; op++)
        if (plan[op] && conv_workspace(plan[op]) > bytes)
            bytes = conv_workspace(plan[op]);
    return bytes;
}

static void lay_out(struct bench *bench)
{
    const struct conv_shape *s = &bench->job->shape;
    const int64_t in = s->in_channels, out = s->out_channels, size = dtype_size(s->type);
    const int64_t x = (int64_t)s->batch * s->in_height * s->in_width * in;
    const int64_t weights = out * s->kernel * s->kernel * in, word = sizeof(float);
    const struct conv_plan *const *plan = bench->job->plan;
    int64_t ends = 0;
    for (int32_t op = 0; op < CONV_OP_COUNT; op++)
        if (plan[op] && conv_ops[op].adds)
            ends = 1;
    int64_t bytes[PARTS] = {
        [RAW] = x * size,
        [VALUE] = x * size,
        [ADDED] = ends * x * size,
        [OTHER] = ends * x * size,
        [OUT] = (int64_t)s->batch * s->out_height * s->out_width * out * size,
        [WEIGHT] = weights * size,
        [DW] = weights * size,
        [HALVES] = 2 * in * size,
        [STATISTICS] = 2 * in * word,
        [PARAMETER] = 2 * in * word,
        [FACTORS] = 2 * in * word,
        [OUT_STATISTICS] = 2 * out * word,
        [OUT_PARAMETER] = 2 * out * word,
        [OUT_FACTORS] = 2 * out * word,
        [GRADIENT] = 2 * in * word,
        [BACKWARD] = 3 * in * word,
        [DERIVED] = 2 * CONV_DERIVED_COUNT * in * word,
        [PARTIAL] = 2 * (int64_t)KERNEL_PARTIALS * (in > out ? in : out) * word,
        [WINNER] = (int64_t)s->batch * s->out_height * s->out_width * out,
        [MASK] = (x + 31) / 32 * (int64_t)sizeof(uint32_t),
    };
    const size_t wide = workspace(plan), narrow = workspace(bench->job->narrow);
    bytes[WORKSPACE] = (int64_t)(wide > narrow ? wide : narrow);
    for (int32_t i = 0; i < PARTS; i++)
        bench->at[i + 1] = bench->at[i] + ((size_t)bytes[i] + 255) / 256 * 256;
}

static void *place(const struct bench *bench, enum part part)
{
    return bench->memory + bench->at[part];
}

/* Numbers like those of a trial; what is not read before it is written is 0. */
static cudaError_t fill(const struct bench *bench)
{
    static const struct {
        enum part part;
        enum conv_array array;
    } row[] = {{RAW, CONV_ARRAY_SEEN},
               {VALUE, CONV_ARRAY_X},
               {ADDED, CONV_ARRAY_ADDED},
               {OTHER, CONV_ARRAY_OTHER},
               {OUT, CONV_ARRAY_Y},
               {WEIGHT, CONV_ARRAY_W},
               {HALVES, CONV_ARRAY_FACTORS},
               {STATISTICS, CONV_ARRAY_STATISTICS},
               {PARAMETER, CONV_ARRAY_PARAMETER},
               {FACTORS, CONV_ARRAY_PARAMETER},
               {OUT_PARAMETER, CONV_ARRAY_PARAMETER}};
    cudaError_t error = cudaMemset(bench->memory, 0, bench->at[PARTS]);
    for (size_t i = 0; i < sizeof row / sizeof *row && error == cudaSuccess; i++) {
        bool wide = row[i].part > HALVES;
        int64_t size = (int64_t)(bench->at[row[i].part + 1] - bench->at[row[i].part]);
        error = conv_fill(place(bench, row[i].part), size,
                          wide ? DTYPE_FP32 : bench->job->shape.type, row[i].array);
    }
    if (error == cudaSuccess) /* every other one passes */
        error = cudaMemset(place(bench, MASK), 0x55, bench->at[MASK + 1] - bench->at[MASK]);
    return error == cudaSuccess ? cudaDeviceSynchronize() : error;
}

static const struct conv_plan *const *plans(const struct bench *bench)
{
    return bench->chain == CONV_CHAIN_IMAGES_NARROW ? bench->job->narrow : bench->job->plan;
}

static void issue_convolution(const struct bench *bench, enum conv_op op)
{
    const int64_t channels = bench->job->shape.in_channels;
    struct conv_norm norm = {place(bench, RAW), place(bench, STATISTICS), place(bench, PARAMETER),
                             place(bench, DERIVED)};
    struct conv_norm second = norm;
    second.x = place(bench, ADDED);
    second.derived += CONV_DERIVED_COUNT * channels;
    struct conv_call call = {
        .x = place(bench, conv_ops[op].applies ? RAW : VALUE),
        .w = place(bench, WEIGHT),
        .dy = place(bench, OUT),
        .factors = place(bench, HALVES),
        .norm = {norm, second},
        .residual = second.x,
        .residual_factors = place(bench, HALVES),
        .other = place(bench, OTHER),
        .y = place(bench, OUT),
        .dx = place(bench, VALUE),
        .dw = place(bench, DW),
        .value = place(bench, VALUE),
        .sums = place(bench, PARTIAL),
        .workspace = place(bench, WORKSPACE),
    };
    conv_run(plans(bench)[op], bench->clock.stream, &call);
}

/* The convolution of @op, and what is left of its output's statistics. */
static void issue_summed(const struct bench *bench, enum conv_op op)
{
    const struct conv_shape *s = &bench->job->shape;
    const cudaStream_t stream = bench->clock.stream;
    const int64_t rows = (int64_t)s->batch * s->out_height * s->out_width;
    int32_t count = 1;
    issue_convolution(bench, op);
    if (!conv_ops[op].sums)
        count = kernel_sums(stream, s->type, rows, s->out_channels, place(bench, OUT),
                            place(bench, PARTIAL));
    kernel_statistics(stream, rows, s->out_channels, 1e-5, count, place(bench, PARTIAL),
                      place(bench, OUT_PARAMETER), (struct kernel_running){0},
                      place(bench, OUT_STATISTICS), place(bench, OUT_FACTORS), NULL);
}

/* Apply batch norm to RAW, and to what is added if that has @factors; @added NULL: nothing is. */
static void issue_apply(const struct bench *bench, const void *added, const float *factors,
                        uint32_t *mask)
{
    const struct conv_shape *s = &bench->job->shape;
    kernel_apply(bench->clock.stream, s->type, (int64_t)s->batch * s->in_height * s->in_width,
                 s->in_channels, place(bench, RAW), place(bench, FACTORS), added, factors, 1, mask,
                 place(bench, VALUE));
}

static void issue_forward(const struct bench *bench)
{
    const enum conv_chain chain = bench->chain;
    bool images = chain == CONV_CHAIN_IMAGES || chain == CONV_CHAIN_IMAGES_NARROW;
    bool sums = images ? plans(bench)[CONV_FORWARD_SUMS] != NULL
                       : chain != CONV_CHAIN_FORWARD && chain != CONV_CHAIN_APPLY_FORWARD;
    bool applied = chain == CONV_CHAIN_APPLIED;
    if (chain == CONV_CHAIN_APPLY_FORWARD || chain == CONV_CHAIN_APPLY_FORWARD_SUMS)
        issue_apply(bench, NULL, NULL, place(bench, MASK));
    issue_summed(bench, applied ? CONV_FORWARD_APPLIED_SUMS
                        : sums  ? CONV_FORWARD_SUMS
                                : CONV_FORWARD);
    if (chain >= CONV_CHAIN_APPLY_FORWARD)
        issue_convolution(bench, applied ? CONV_BACKWARD_FILTER_APPLIED : CONV_BACKWARD_FILTER);
}

/* Where a block ends; no mask is written, since backward forms it again. */
static void issue_end(const struct bench *bench)
{
    bool two = bench->chain >= CONV_CHAIN_END_TWO;
    bool sums = bench->job->plan[CONV_FORWARD_SUMS];
    enum conv_op op = two ? CONV_FORWARD_ADD_TWO_SUMS : CONV_FORWARD_ADD_SUMS;
    if (bench->chain == CONV_CHAIN_END || bench->chain == CONV_CHAIN_END_TWO) {
        issue_apply(bench, place(bench, ADDED), two ? place(bench, FACTORS) : NULL, NULL);
        op = sums ? CONV_FORWARD_SUMS : CONV_FORWARD;
    }
    issue_summed(bench, op);
}

/* The backward of batch norm with input @x, from @dy, and @more where not NULL, whose masked sum is
 * then left in its place; to @dx. */
static void issue_norm(const struct bench *bench, const void *dy, void *more, struct kernel_cut cut,
                       const void *x, void *dx)
{
    const struct conv_shape *s = &bench->job->shape;
    const cudaStream_t stream = bench->clock.stream;
    const int64_t rows = (int64_t)s->batch * s->in_height * s->in_width;
    const struct kernel_cut done = {0};
    const float *statistics = place(bench, STATISTICS);
    float *partial = place(bench, PARTIAL), *factors = place(bench, BACKWARD);
    int32_t count = kernel_backward_sums(stream, s->type, rows, s->in_channels, dy, more, cut, x,
                                         statistics, more, partial);
    kernel_backward_factors(stream, rows, s->in_channels, count, partial, place(bench, PARAMETER),
                            statistics, place(bench, GRADIENT), factors);
    kernel_backward_apply(stream, s->type, rows, s->in_channels, more ? more : dy,
                          more ? done : cut, x, factors, dx, (struct kernel_packed){0});
}

/* What of a batch norm's backward is left behind a convolution that went through it. */
static void issue_rest(const struct bench *bench, int32_t which, const void *x, void *dx)
{
    const struct conv_shape *s = &bench->job->shape;
    const float *derived = place(bench, DERIVED);
    kernel_backward_apply(bench->clock.stream, s->type,
                          (int64_t)s->batch * s->in_height * s->in_width, s->in_channels,
                          place(bench, VALUE), (struct kernel_cut){0}, x,
                          derived + (CONV_DERIVED_COUNT * which + 2) * (int64_t)s->in_channels, dx,
                          (struct kernel_packed){0});
}

static void issue_backward(const struct bench *bench)
{
    static const enum conv_op merged[CONV_CHAIN_COUNT] = {
        [CONV_CHAIN_BACKWARD_NORM] = CONV_BACKWARD_DATA_NORM,
        [CONV_CHAIN_BACKWARD_ADD_NORM] = CONV_BACKWARD_DATA_ADD_NORM,
        [CONV_CHAIN_BACKWARD_ADD_NORMS] = CONV_BACKWARD_DATA_ADD_NORMS};
    const enum conv_op op = merged[bench->chain];
    const bool adds = bench->chain >= CONV_CHAIN_BACKWARD_ADD;
    const bool two = bench->chain >= CONV_CHAIN_BACKWARD_ADD_TWO;
    void *dz = place(bench, VALUE), *other = place(bench, OTHER), *raw = place(bench, RAW);
    struct kernel_cut cut = {0};
    if (op != CONV_FORWARD) { /* that is 0: nothing is merged */
        issue_convolution(bench, op);
        issue_rest(bench, 0, raw, adds ? other : dz);
        if (two)
            issue_rest(bench, 1, place(bench, ADDED), dz);
        return;
    }
    if (bench->chain == CONV_CHAIN_BACKWARD_CUT)
        cut.factors = place(bench, FACTORS);
    else
        cut.mask = place(bench, MASK);
    issue_convolution(bench, CONV_BACKWARD_DATA);
    issue_norm(bench, adds ? other : dz, adds ? dz : NULL, cut, raw, adds ? other : dz);
    if (two)
        issue_norm(bench, dz, NULL, (struct kernel_cut){0}, place(bench, ADDED), dz);
}

/* Forward and back; a pool's shape has as many channels behind it as before. */
static void issue_pool(const struct bench *bench)
{
    const struct conv_shape *s = &bench->job->shape;
    const struct layer pool = {.op = LAYER_MAX_POOL,
                               .in = {s->in_channels, s->in_height, s->in_width},
                               .out = {s->out_channels, s->out_height, s->out_width},
                               .kernel = s->kernel,
                               .stride = s->stride,
                               .padding = s->padding};
    const cudaStream_t stream = bench->clock.stream;
    const int64_t rows = (int64_t)s->batch * s->in_height * s->in_width;
    const int32_t channels = s->in_channels;
    const struct kernel_pooled pooled = {&pool, s->batch, place(bench, WINNER), place(bench, OUT),
                                         place(bench, FACTORS)};
    const struct kernel_cut cut = {.mask = place(bench, MASK)};
    void *raw = place(bench, RAW), *value = place(bench, VALUE), *out = place(bench, OUT);
    float *partial = place(bench, PARTIAL), *statistics = place(bench, STATISTICS);
    bool merged = bench->chain == CONV_CHAIN_POOL_MERGED;
    int32_t count;
    if (!merged)
        kernel_apply(stream, s->type, rows, channels, raw, place(bench, FACTORS), NULL, NULL, 1,
                     place(bench, MASK), value);
    kernel_pool(stream, s->type, &pool, s->batch, channels, merged ? raw : value,
                merged ? pooled.factors : NULL, place(bench, WINNER), out);
    if (merged) {
        count = kernel_pooled_sums(stream, s->type, channels, &pooled, raw, statistics, partial);
    } else {
        kernel_pool_backward(stream, s->type, &pool, s->batch, channels, pooled.winner, out, value);
        count = kernel_backward_sums(stream, s->type, rows, channels, value, NULL, cut, raw,
                                     statistics, NULL, partial);
    }
    kernel_backward_factors(stream, rows, channels, count, partial, place(bench, PARAMETER),
                            statistics, place(bench, GRADIENT), place(bench, BACKWARD));
    if (merged)
        kernel_pooled_apply(stream, s->type, channels, &pooled, raw, place(bench, BACKWARD), value,
                            (struct kernel_packed){0});
    else
        kernel_backward_apply(stream, s->type, rows, channels, value, cut, raw,
                              place(bench, BACKWARD), value, (struct kernel_packed){0});
}

static bool issue(void *context)
{
    const struct bench *bench = context;
    if (bench->chain >= CONV_CHAIN_POOL)
        issue_pool(bench);
    else if (bench->chain >= CONV_CHAIN_BACKWARD)
        issue_backward(bench);
    else if (bench->chain >= CONV_CHAIN_END)
        issue_end(bench);
    else
        issue_forward(bench);
    return cudaGetLastError() == cudaSuccess;
}

int conv_chain_measure(void *job, uint32_t wanted, double seconds[CONV_CHAIN_COUNT])
{
    struct bench bench = {.job = job};
    cudaError_t error = conv_clock_open(&bench.clock, true);
    lay_out(&bench);
    if (error == cudaSuccess)
        error = cudaMalloc((void **)&bench.memory, bench.at[PARTS]);
    if (error == cudaSuccess)
        error = fill(&bench);
    bool ran = error == cudaSuccess;
    for (int32_t i = 0; i < CONV_CHAIN_COUNT; i++)
        seconds[i] = INFINITY;
    for (int32_t round = 0; round < CONV_CLOCK_ROUNDS; round++)
        for (int32_t i = 0; i < CONV_CHAIN_COUNT && ran; i++) {
            if (!(wanted >> i & 1))
                continue;
            bench.chain = (enum conv_chain)i;
            double took = conv_clock_time(&bench.clock, issue, &bench, CONV_CLOCK_RUNS, &error);
            ran = isfinite(took);
            seconds[i] = took < seconds[i] ? took : seconds[i];
        }
    conv_clock_close(&bench.clock);
    cudaFree(bench.memory);
    cudaGetLastError(); /* clear it: the network may do with less memory */
    return ran ? 0 : -1;
}
