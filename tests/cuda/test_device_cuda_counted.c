#include "exec/cuda/device_cuda.h"
#include "exec/cuda/runtime/stream_cuda.h"
#include "exec/step/half.h"
#include "tests/cuda/conv_naive.h"
#include "tests/cuda/cuda_run.h"
#include "tests/cuda/fake/emulate_order.h"
#include "tests/test.h"

/* What a step of the CUDA device moves and launches. */

static struct device_run_job job_of(const struct model *model)
{
    return (struct device_run_job){.model = model,
                                   .batch = 1,
                                   .micro_batches = 1,
                                   .threads = 1,
                                   .compute = DTYPE_FP16,
                                   .gradients = DTYPE_FP16,
                                   .blank = true};
}

/* Kernels of our own, and convolutions, so far. */
static int64_t launches_so_far(void)
{
    int64_t count = emulate_launches();
    for (int32_t op = 0; op < CONV_OP_COUNT; op++)
        count += conv_naive_runs[op];
    return count;
}

/* Those of a step of @run, which is captured and not run. */
static int64_t launches(struct device_run *run)
{
    cudaStream_t stream = cuda_stream_handle(run->stream);
    cudaGraph_t graph;
    int64_t before = launches_so_far();
    assert_int_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    free(device_run_issue(run));
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
    return launches_so_far() - before;
}

/* Bytes of a step of @run. */
static int64_t moved(const struct device_run *run)
{
    const struct model *model = run->job.model;
    int64_t bytes = 0;
    for (int32_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layer[i];
        bool filter = layer->op == LAYER_CONVOLUTION || layer->op == LAYER_LINEAR;
        struct step step = {.kind = STEP_COMPUTE, .compute = {.layer = i}};
        const enum compute_op ops[] = {COMPUTE_FORWARD, COMPUTE_BACKWARD_DATA,
                                       COMPUTE_BACKWARD_FILTER};
        for (int32_t k = 0; k < 3; k++) {
            step.compute.op = ops[k];
            if (k == 0 || (k == 1 && !layer->first) || (k == 2 && filter))
                bytes += device_cuda_ops.moved(run->state, &step);
        }
    }
    return bytes;
}

/* Of one image more of resnet50, 224 x 224, in MB, and of a step.  The schedule's counts,
 * where batch norm, ReLU and add are one kernel, are 349 MB: a projection's batch norm is written
 * there and read again, and here only added (6 MB). */
TEST(bytes_and_launches_are_counted)
{
    OWN(model) *model = network_of("resnet50", 224, 1000);
    struct device_run_job job = job_of(model);
    int64_t bytes[2];
    for (job.batch = 1; job.batch <= 2; job.batch++) {
        CUDA_RUN run;
        cuda_run_open(&run, job);
        bytes[job.batch - 1] = moved(&run);
        assert_int_equal(launches(&run), 491);
    }
    assert_int_equal((bytes[1] - bytes[0]) / 1000000, 342);
}

/* Images have 4 channels in 16 bits, where all micro-batches begin on 16 bytes: 8 bytes a pixel. */
TEST(images_have_few_channels)
{
    static const struct {
        enum dtype type;
        int32_t image, batch, channels;
    } row[] = {{DTYPE_FP32, 16, 4, 8},
               {DTYPE_FP16, 16, 4, 4},
               {DTYPE_BF16, 16, 4, 4},
               {DTYPE_FP16, 15, 4, 4},
               {DTYPE_FP16, 15, 1, 8}};
    for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
        OWN(model) *model = network_of("toy", row[i].image, 4);
        struct device_run_job job = job_of(model);
        const struct step step = {.kind = STEP_COMPUTE, .compute = {.op = COMPUTE_FORWARD}};
        const struct layer *stem = &model->layer[0];
        int64_t size = dtype_size(row[i].type), window = stem->kernel * stem->kernel;
        int64_t pixels = (int64_t)row[i].batch * row[i].image * row[i].image;
        CUDA_RUN run;
        job.compute = row[i].type;
        job.batch = row[i].batch;
        cuda_run_open(&run, job);
        assert_int_equal(device_cuda_ops.moved(run.state, &step),
                         size * (pixels * row[i].channels +
                                 stem->out.channels * window * row[i].channels +
                                 row[i].batch * shape_elements(stem->out)));
    }
}

/* Weights whose channels need no padding. */
static int32_t unpadded(const struct model *model)
{
    int32_t count = 0;
    for (int32_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layer[i];
        bool has = layer->op == LAYER_CONVOLUTION || layer->op == LAYER_LINEAR;
        count += has && layer->in.channels % 8 == 0 && layer->out.channels % 8 == 0;
    }
    return count;
}

/* The gradients of a step, as @type, and the kernels it launched. */
static float *step_of(const struct model *model, enum dtype type, int64_t *launched)
{
    struct device_run_job job = cuda_run_toy_job(model);
    CUDA_RUN run;
    job.micro_batches = 1;
    job.gradients = type;
    cuda_run_open(&run, job);
    *launched = -emulate_launches();
    device_run_step(&run);
    *launched += emulate_launches();
    return cuda_run_gradients(&run);
}

/* Where gradients travel in the type of convolutions, those write them in their place: the same
 * numbers as where a kernel brings them there, in another type, and that is not launched.  With 10
 * classes their biases leave all others off 16 bytes. */
TEST(convolutions_write_gradients_in_place)
{
    for (int32_t classes = 10; classes <= 16; classes += 6) {
        OWN(model) *model = network_of("resnet8", 16, classes);
        const int64_t count = model_parameters(model);
        int64_t here, there;
        AUTOFREE float *wide = step_of(model, DTYPE_FP32, &there);
        AUTOFREE float *narrow = step_of(model, DTYPE_FP16, &here);
        half_round(DTYPE_FP16, count, wide);
        assert_memory_equal(narrow, wide, (size_t)count * sizeof(*wide));
        assert_true(unpadded(model) >= 8);
        assert_int_equal(there - here, classes == 16 ? unpadded(model) : 0);
    }
}
