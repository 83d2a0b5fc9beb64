#include "core/base/base.h"
#include "tests/cuda/conv_loops.h"
#include "tests/cuda/conv_operands.h"

/* Convolutions on the GPU that is here: every element of small ones against plain loops, samples of
 * large ones; issued, and captured and launched; as found, and as the cache file has them. */

static const struct conv_shape shapes[] = {
    {DTYPE_FP32, 3, 8, 9, 9, 16, 9, 9, 3, 1, 1},
    {DTYPE_FP32, 2, 16, 8, 8, 8, 4, 4, 1, 2, 0},
    {DTYPE_FP32, 4, 64, 14, 14, 64, 7, 7, 3, 2, 1},
    {DTYPE_FP32, 8, 64, 1, 1, 16, 1, 1, 1, 1, 0},
    {DTYPE_FP32, 32, 8, 224, 224, 64, 112, 112, 7, 2, 3},
    {DTYPE_FP32, 32, 64, 56, 56, 256, 56, 56, 1, 1, 0},
    {DTYPE_FP32, 32, 512, 7, 7, 512, 7, 7, 3, 1, 1},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, SMALL = 4 };

static const char cache[] = "conv_gpu_cache";

/* How many elements of @got are off: all of a small shape against the loops (both may be off by
 * what is granted), samples of a large one. */
static int64_t faults(enum conv_op op, const struct conv_shape *s, struct operands *o,
                      const void *got, bool small)
{
    enum conv_array written = conv_written(op);
    struct conv_sample sample[CONV_SAMPLES];
    int64_t wrong = 0;
    conv_samples(op, s, sample);
    for (int32_t i = 0; i < CONV_SAMPLES; i++)
        wrong +=
            !conv_is_right(s->type, &sample[i], operands_element(s->type, got, sample[i].index));
    if (!small)
        return wrong;
    struct conv_call call = conv_call_of(o->host, NULL);
    conv_loops(op, s, &call);
    double size = 0; /* of the largest sample: elements are alike */
    for (int32_t i = 0; i < CONV_SAMPLES; i++)
        size = sample[i].size > size ? sample[i].size : size;
    for (int64_t i = 0; i < conv_elements(s, written); i++) {
        struct conv_sample twice = {.want = operands_element(s->type, o->host[written], i),
                                    .size = 2 * size};
        double value = operands_element(s->type, got, i);
        /* Two roundings: of the loops' result and of the engine's. */
        wrong += !conv_is_right(s->type, &twice, (value + twice.want) / 2);
    }
    return wrong;
}

/* Run @plan on the stream, or captured and launched; the result to @got. */
static void run(const struct conv_plan *plan, enum conv_op op, const struct operands *o,
                bool capture, void *got)
{
    enum conv_array written = conv_written(op);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    operands_must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    operands_must(cudaMemset(o->array[written], 0xff, o->bytes[written]), "clear");
    operands_must(cudaDeviceSynchronize(), "clear");
    if (capture)
        operands_must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    conv_run(plan, stream, &o->call);
    if (capture) {
        operands_must(cudaStreamEndCapture(stream, &graph), "end of capture");
        operands_must(cudaGraphInstantiate(&ready, graph, 0), "graph");
        operands_must(cudaGraphLaunch(ready, stream), "launch");
    }
    operands_must(cudaStreamSynchronize(stream), "run");
    if (capture) {
        cudaGraphExecDestroy(ready);
        cudaGraphDestroy(graph);
    }
    operands_must(cudaMemcpy(got, o->array[written], o->bytes[written], cudaMemcpyDeviceToHost),
                  "result");
    cudaStreamDestroy(stream);
}

/* @return faults of one op on one shape. */
static int64_t check(struct conv_library *library, enum conv_op op, const struct conv_shape *s,
                     bool small, bool told)
{
    struct err err = {0};
    const struct conv_plan *plan = conv_plan(library, op, s, &err);
    if (!plan) {
        printf("%-15s %s k%d: no engine%s%s\n", conv_names[op], dtype_names[s->type], s->kernel,
               err.count ? ": " : "", err.count ? err.text : "");
        err_release(&err);
        return 1;
    }
    struct operands o = operands_of(s, conv_workspace(plan));
    size_t size = o.bytes[conv_written(op)];
    void *got = malloc(size), *again = malloc(size);
    run(plan, op, &o, false, got);
    run(plan, op, &o, true, again);
    int64_t wrong = faults(op, s, &o, got, small) + (memcmp(got, again, size) != 0);
    if (told || wrong)
        printf("%-15s %s %dx%dx%dx%d k%d s%d: %zu bytes of workspace, %lld wrong\n", conv_names[op],
               dtype_names[s->type], s->batch, s->in_channels, s->in_height, s->in_width, s->kernel,
               s->stride, conv_workspace(plan), (long long)wrong);
    free(got);
    free(again);
    operands_release(&o);
    return wrong;
}

int main(void)
{
    int64_t wrong = 0;
    unlink(cache);
    for (int32_t round = 0; round < 2; round++) { /* the second from the file */
        struct conv_library *library = NULL;
        struct err err = {0};
        if (conv_open(&library, cache, false, &err)) {
            fputs(err.text, stdout);
            return 1;
        }
        for (int32_t i = 0; i < SHAPES; i++)
            for (int32_t type = 0; type < DTYPE_COUNT; type++)
                for (int32_t op = 0; op < CONV_OP_COUNT; op++) {
                    struct conv_shape s = shapes[i];
                    s.type = (enum dtype)type;
                    wrong += check(library, (enum conv_op)op, &s, i < SMALL, round == 0);
                }
        conv_close(library);
    }
    unlink(cache);
    unlink("conv_gpu_cache.lock");
    printf("%lld faults\n", (long long)wrong);
    return wrong != 0;
}
