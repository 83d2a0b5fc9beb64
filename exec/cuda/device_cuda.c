#include "exec/cuda/device_cuda.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/base/base.h"
#include "exec/cuda/device_cuda_build.h"
#include "exec/cuda/device_cuda_moved.h"
#include "exec/cuda/device_cuda_pass.h"
#include "exec/cuda/device_cuda_weights.h"
#include "exec/cuda/runtime/check.h"
#include "exec/cuda/runtime/gpu.h"
#include "exec/cuda/runtime/stream_cuda.h"

static int check_types(const struct scenario *scenario, struct err *err)
{
    if (scenario->model.master == DTYPE_FP32)
        return 0;
    return err_add_code(err, 69,
                        "the cuda device keeps master weights in fp32: use --set "
                        "model.precision.master=fp32");
}

/* Where plans of convolutions are kept: $XDG_CACHE_HOME/foretrain, else ~/.cache/foretrain; NULL:
 * there is no such place, and every run searches again.  The caller frees it. */
static char *cache_path(void)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *parent = NULL, *path = NULL;
    if (cache && cache[0] == '/')
        parent = base_copy(cache);
    else if (home && home[0] == '/')
        parent = base_format("%s/.cache", home);
    if (!parent)
        return NULL;
    char *folder = base_format("%s/foretrain", parent);
    mkdir(parent, 0777);
    if (mkdir(folder, 0777) == 0 || errno == EEXIST)
        path = base_format("%s/convolutions", folder);
    free(parent);
    free(folder);
    return path;
}

static int open_cuda(struct device_state **out, const struct device_job *job, struct err *err)
{
    if (check_types(job->scenario, err) || cuda_choose_device(err))
        return -1;
    *out = base_alloc(1, sizeof(**out));
    char *cache = cache_path();
    int status = cuda_state_init(*out, job, cache, err);
    free(cache);
    if (status == 0)
        return 0;
    cuda_state_release(*out);
    free(*out);
    *out = NULL;
    return -1;
}

static void close_cuda(struct device_state *state)
{
    if (!state)
        return;
    cuda_state_release(state);
    free(state);
}

static struct cuda_slot *slot_of(const struct device_state *state, int32_t iteration)
{
    return &state->slot[iteration % state->job.slots];
}

/* ---- input ---- */

/* On a thread of CUDA, which makes no call of it. */
static void read_source(void *argument)
{
    struct device_state *state = argument;
    state->job.source.next(state->job.source.context, state->pinned, state->pinned_label);
}

static void convert(const struct device_state *state, cudaStream_t stream, int32_t count,
                    const float *from, void *to)
{
    struct shape in = state->job.model->layer[0].in;
    CUDA_CHECK(cudaMemcpyAsync(state->raw, from,
                               (size_t)(count * shape_elements(in)) * sizeof(float),
                               cudaMemcpyHostToDevice, stream));
    kernel_images(stream, state->type, count * state->pixels, in.channels, state->raw, state->image,
                  to);
}

/* All slots share the staging buffers: steps of the input lane run one at a time. */
static void issue_input(struct device_state *state, cudaStream_t stream,
                        const struct cuda_slot *slot)
{
    if (state->feed) {
        feed_crop(state->feed, stream, state->type, state->image, slot->images, slot->label);
        return;
    }
    if (!state->job.source.next)
        return;
    CUDA_CHECK(cudaLaunchHostFunc(stream, read_source, state));
    CUDA_CHECK(cudaMemcpyAsync(slot->label, state->pinned_label,
                               (size_t)state->job.batch * sizeof(int32_t), cudaMemcpyHostToDevice,
                               stream));
    convert(state, stream, state->job.batch, state->pinned, slot->images);
}

static const void *micro_images(const struct device_state *state, const struct cuda_slot *slot,
                                int32_t micro)
{
    int64_t elements = (int64_t)state->micro * state->pixels * state->image;
    return (const char *)slot->images + micro * elements * dtype_size(state->type);
}

/* ---- steps ---- */

static void prepare(struct device_state *state, int32_t iteration, const struct update *update)
{
    double passes = (double)state->job.ranks * state->job.micro_batches;
    slot_of(state, iteration)->prepared->update = (struct kernel_update){
        .iteration = iteration,
        .rate = cuda_state_rate(update->learning_rate, update->weight_decay),
        .loss_scale = (float)update->loss_scale,
        .scale = (float)(1 / (passes * update->loss_scale * (double)state->share))};
}

/* The first compute step of an iteration uploads the numbers of prepare(), and a loss of 0. */
static void bring_words(cudaStream_t stream, const struct cuda_slot *slot)
{
    CUDA_CHECK(cudaMemcpyAsync(slot->words, slot->prepared, sizeof(*slot->words),
                               cudaMemcpyHostToDevice, stream));
}

static void run_optimizer(struct device_state *state, cudaStream_t stream,
                          const struct cuda_slot *slot, bool norms)
{
    const struct scenario *scenario = state->job.scenario;
    struct kernel_rule rule = {.lars = scenario->training.optimizer == OPTIMIZER_LARS,
                               .nesterov = scenario->training.nesterov,
                               .momentum = (float)scenario->training.momentum,
                               .trust = (float)scenario->training.trust};
    if (norms) {
        kernel_measure(stream, &state->parameters, rule, &slot->words->update);
        return;
    }
    kernel_optimizer(stream, &state->parameters, rule, &slot->words->update, &slot->words->outcome);
    if (!state->copy)
        cuda_state_refresh(state, stream, false);
    CUDA_CHECK(cudaMemcpyAsync(slot->result, slot->words, sizeof(*slot->words),
                               cudaMemcpyDeviceToHost, stream));
}

static void issue_compute(struct device_state *state, cudaStream_t stream, const struct step *step,
                          struct cuda_slot *slot)
{
    int32_t index = step->compute.layer, micro = step->compute.micro;
    const void *images = micro_images(state, slot, micro);
    switch (step->compute.op) {
    case COMPUTE_FORWARD:
        if (index == 0 && micro == 0)
            bring_words(stream, slot);
        cuda_pass_forward(state, stream, index, images, micro);
        break;
    case COMPUTE_LOSS:
        cuda_pass_loss(state, stream, slot, micro);
        break;
    case COMPUTE_BACKWARD_DATA:
        cuda_pass_backward_data(state, stream, index, micro);
        break;
    case COMPUTE_BACKWARD_FILTER:
        cuda_pass_backward_filter(state, stream, index, images, micro);
        break;
    case COMPUTE_OPTIMIZER:
        run_optimizer(state, stream, slot, step->role == ROLE_NORMS);
        break;
    case COMPUTE_OP_COUNT:
        assert(!"a kind of step");
    }
}

static void issue(struct device_state *state, struct stream *stream, const struct step *step,
                  int32_t iteration)
{
    cudaStream_t handle = cuda_stream_handle(stream);
    struct cuda_slot *slot = slot_of(state, iteration);
    if (step->kind == STEP_INPUT)
        issue_input(state, handle, slot);
    else
        issue_compute(state, handle, step, slot);
    CUDA_CHECK_LAUNCHES(step->name[0] ? step->name : "a step");
}

static void *gradients(struct device_state *state)
{
    return state->gradient;
}

static void *shared(struct device_state *state, enum collective_content content)
{
    return content == CONTENT_NORMS ? (void *)state->parameters.shared : state->copy;
}

static struct outcome outcome(const struct device_state *state, int32_t iteration)
{
    struct kernel_outcome outcome = slot_of(state, iteration)->result->outcome;
    return (struct outcome){.loss = (double)outcome.loss,
                            .norm = (double)outcome.norm,
                            .overflow = outcome.overflow != 0};
}

struct rate device_cuda_rate(const struct device_state *state, int32_t iteration)
{
    struct kernel_rate rate = slot_of(state, iteration)->result->outcome.rate;
    return (struct rate){.learning_rate = (double)rate.learning_rate,
                         .weight_decay = (double)rate.weight_decay};
}

/* ---- iterations launched whole ---- */

static bool launch(struct device_state *state, struct stream *compute, int32_t iteration)
{
    const struct cuda_slot *slot = slot_of(state, iteration);
    if (!slot->graph)
        return false;
    CUDA_CHECK(cudaGraphLaunch(slot->graph, cuda_stream_handle(compute)));
    return true;
}

static bool captured_beside(enum lane lane)
{
    return lane != LANE_COMPUTE && lane != LANE_INPUT;
}

static void capture(struct device_state *state, struct stream *const *lane, int32_t iteration)
{
    (void)iteration;
    CUDA_CHECK(cudaStreamBeginCapture(cuda_stream_handle(lane[LANE_COMPUTE]),
                                      cudaStreamCaptureModeThreadLocal));
    cuda_stream_record(lane[LANE_COMPUTE], state->fork);
    for (int32_t i = 0; i < LANE_EXECUTED; i++)
        if (captured_beside((enum lane)i))
            cuda_stream_wait(lane[i], state->fork);
}

static void capture_end(struct device_state *state, struct stream *const *lane, int32_t iteration)
{
    struct cuda_slot *slot = slot_of(state, iteration);
    cudaGraph_t graph;
    for (int32_t i = 0; i < LANE_EXECUTED; i++) {
        if (!captured_beside((enum lane)i))
            continue;
        cuda_stream_record(lane[i], state->join[i]);
        cuda_stream_wait(lane[LANE_COMPUTE], state->join[i]);
    }
    CUDA_CHECK(cudaStreamEndCapture(cuda_stream_handle(lane[LANE_COMPUTE]), &graph));
    CUDA_CHECK(cudaGraphInstantiate(&slot->graph, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
}

/* ---- around training ---- */

static void score(struct device_state *state, struct stream *stream, const float *images,
                  int32_t count, float *scores)
{
    const struct model *model = state->job.model;
    const struct cuda_place *last = &state->place[model->layer_count - 1];
    cudaStream_t handle = cuda_stream_handle(stream);
    convert(state, handle, count, images, state->scored);
    for (int32_t i = 0; i < model->layer_count; i++)
        cuda_pass_forward(state, handle, i, state->scored, -1);
    kernel_scores(handle, state->type, count, model->classes, last->channels, last->y,
                  state->scratch.scores);
    CUDA_CHECK(cudaMemcpyAsync(scores, state->scratch.scores,
                               (size_t)count * (size_t)model->classes * sizeof(float),
                               cudaMemcpyDeviceToHost, handle));
    CUDA_CHECK_LAUNCHES("scores");
}

static const struct capture_ops captures = {.launch = launch, .begin = capture, .end = capture_end};

const struct device_ops device_cuda_ops = {
    .name = "cuda",
    .exchanges_payload = true,
    .pads = true,
    .makes_noise = true,
    .crops = true,
    .open = open_cuda,
    .close = close_cuda,
    .streams = &cuda_stream_ops,
    .prepare = prepare,
    .issue = issue,
    .gradients = gradients,
    .shared = shared,
    .capture = &captures,
    .moved = cuda_moved,
    .outcome = outcome,
    .score = score,
    .read = cuda_state_read,
    .write = cuda_state_write,
    .turn = cuda_state_turn,
};
