#include <math.h>

#include "exec/cuda/device_cuda.h"
#include "exec/cuda/runtime/stream_cuda.h"
#include "exec/step/half.h"
#include "tests/cuda/conv_naive.h"
#include "tests/cuda/cuda_run.h"
#include "tests/cuda/fake/emulate_order.h"
#include "tests/test.h"

/* What a step of the CUDA device moves and launches, and what the clock decided. */

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
        count += conv_naive.runs[op];
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

/* The first of each kind in a process is timed: on small arrays. */
static void time_chains(void)
{
    OWN(model) *model = cuda_run_network("resnet18", 32, 10);
    CUDA_RUN run;
    conv_naive = (struct conv_naive){.merges_pools = true, .narrows = true};
    cuda_run_open(&run, job_of(model));
}

/* What resnet50 on images of 224 x 224 takes. */
struct count {
    int64_t megabytes; /* of one image more */
    int64_t launches;  /* of a step */
    int64_t one, two;  /* ends of blocks in backward: with a value, with a projection */
    int64_t written;   /* ends in forward */
};

/* With what is @slow. */
static struct count count(struct conv_naive slow)
{
    OWN(model) *model = cuda_run_network("resnet50", 224, 1000);
    struct device_run_job job = job_of(model);
    struct count count;
    int64_t bytes[2];
    for (job.batch = 1; job.batch <= 2; job.batch++) {
        CUDA_RUN run;
        conv_naive = slow;
        cuda_run_open(&run, job);
        bytes[job.batch - 1] = moved(&run);
        count.launches = launches(&run);
    }
    count.megabytes = (bytes[1] - bytes[0]) / 1000000;
    count.one = conv_naive.runs[CONV_BACKWARD_DATA_ADD_NORM];
    count.two = conv_naive.runs[CONV_BACKWARD_DATA_ADD_NORMS];
    count.written =
        conv_naive.runs[CONV_FORWARD_ADD_SUMS] + conv_naive.runs[CONV_FORWARD_ADD_TWO_SUMS];
    return count;
}

/* Of one image more, in MB, and of a step, as docs/gpu.md has them.  Bytes are those of the
 * schedule's counts where convolutions sum, where 32 of them also apply batch norm, and where these
 * also go back through it.
 *
 * Of 16 blocks all but the last end before another, 11 in a sum with a value V, 4 with a
 * projection.  Of the first kind backward writes V once less, neither pass moves a mask, and sums
 * and factors are not launched; of the second it also reads V twice less, and there are two of
 * each: 18.2 MB.  Where the convolution in forward ends the block, V is read once less, without a
 * launch of its own: 10.8 MB.
 *
 * Where also the stem is merged, forward writes and reads its 112 x 112 x 64 values and mask once
 * less, backward writes them once and reads them twice less, and the mask; it reads the pool's
 * gradient and winners once more: 7.7 MB less.  Images of 4 channels instead of 8 are read twice:
 * 0.8 MB less. */
TEST(bytes_and_launches_are_counted)
{
    const struct {
        struct conv_naive slow;
        struct count count;
    } row[] = {
        {{.slow_to_apply = true, .slow_to_norm = true, .slow_to_add = true}, {321, 438, 0, 0, 0}},
        {{.slow_to_norm = true, .slow_to_add = true}, {306, 406, 0, 0, 0}},
        {{.slow_to_add = true}, {300, 342, 0, 0, 0}},
        {{.slow_to_end = true}, {282, 342 - 11 * 2 - 4 * 4, 11, 4, 0}},
        {{.merges_pools = false}, {271, 342 - 11 * 2 - 4 * 4 - 15, 11, 4, 15}},
        {{.merges_pools = true}, {263, 342 - 11 * 2 - 4 * 4 - 15 - 2, 11, 4, 15}},
        {{.merges_pools = true, .narrows = true}, {262, 287, 11, 4, 15}}};
    time_chains();
    for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
        struct count found = count(row[i].slow);
        assert_memory_equal(&found, &row[i].count, sizeof(found));
    }
}

/* Each chain saves what it takes less in tests/cuda/conv_naive.c than the next best one, per layer
 * and micro-batch. */
TEST(choices_say_what_they_save)
{
    const struct {
        struct choice choice;
        double slow_saved_s; /* where applying is slow */
    } want[] = {{{"chain-forward-sums", 21, 21, 21e-6}, 21e-6},
                {{"chain-apply-forward-sums", 0, 32, 0}, 32e-6},
                {{"chain-applied", 32, 32, 32e-6}, 0},
                {{"chain-images-narrow", 1, 1, 1e-6}, 1e-6},
                {{"chain-end-merged", 11, 11, 22e-6}, 22e-6},
                {{"chain-end-two-merged", 4, 4, 8e-6}, 8e-6},
                {{"chain-backward-norm", 32, 32, 64e-6}, 64e-6},
                {{"chain-backward-add-norm", 11, 11, 22e-6}, 22e-6},
                {{"chain-backward-add-norms", 4, 4, 16e-6}, 16e-6},
                {{"chain-pool-merged", 1, 1, 2e-6}, 2e-6}};
    OWN(model) *model = cuda_run_network("resnet50", 64, 10);
    struct device_run_job job = job_of(model);
    time_chains();
    for (int32_t slow = 0; slow < 2; slow++) {
        struct choice choice[DEVICE_CHOICES];
        CUDA_RUN run;
        job.batch = job.micro_batches = 1 + slow;
        conv_naive =
            (struct conv_naive){.slow_to_apply = slow, .merges_pools = true, .narrows = true};
        cuda_run_open(&run, job);
        assert_int_equal(device_cuda_ops.choices(run.state, choice), ARRAY_SIZE(want));
        for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
            const struct choice *one = &want[i].choice;
            double saved = slow ? 2 * want[i].slow_saved_s : one->saved_s;
            assert_string_equal(choice[i].name, one->name);
            assert_int_equal(choice[i].of, one->of);
            assert_int_equal(choice[i].layers, saved > 0 ? one->of : 0);
            assert_true(fabs(choice[i].saved_s - saved) < 1e-9);
        }
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
        OWN(model) *model = cuda_run_network("resnet8", 16, classes);
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
