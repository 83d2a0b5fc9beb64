#include "exec/cpu/device_naive.h"

#include "exec/cpu/device_cpu.h"
#include "exec/cpu/ops_naive.h"
#include "exec/cpu/stream.h"

/* Everything that belongs to one layer. */
struct naive_place {
    float *y, *dy;     /* (micro-batch, out) its value, and the gradient of that */
    float *statistics; /* (2, channels) of batch norm, else NULL */
    bool given;        /* a reader has written dy in this pass */
};

struct device_state {
    struct cpu_device cpu;
    struct naive_place *place; /* (layers) */
    float *dx, *dw;            /* one layer's gradients, before they are added */
    float **block;             /* (blocks) every array, to be released */
    int64_t blocks;
};

static int check_job(const struct device_job *job, struct err *err)
{
    const struct scenario *scenario = job->scenario;
    if (model_reads_pictures(job->model) && model_is_general(job->model))
        return err_add_code(err, 69,
                            "the cpu-naive device has pictures as planes, and gates, norms and "
                            "attention by position: use --device cpu");
    if (scenario->model.compute == DTYPE_FP32 && scenario->model.master == DTYPE_FP32)
        return 0;
    return err_add_code(err, 69,
                        "the cpu-naive device computes in fp32 with fp32 master weights only: use "
                        "--set model.precision.compute=fp32 --set model.precision.master=fp32");
}

static int64_t largest(const struct device_state *state)
{
    int64_t elements = 0;
    for (int32_t i = 0; i < state->cpu.graph.layer_count; i++) {
        const struct layer *layer = &state->cpu.job.model->layer[i];
        int64_t in = shape_elements(layer->in);
        elements = in > elements ? in : elements;
    }
    return elements * state->cpu.micro;
}

static float *alloc(void *context, int64_t count)
{
    struct device_state *state = context;
    return BASE_NEXT(state->block, state->blocks) = base_alloc(count, sizeof(float));
}

static void open_layers(struct device_state *state)
{
    const struct model *model = state->cpu.job.model;
    int64_t parameters = 0;
    state->place = base_alloc(model->layer_count, sizeof(*state->place));
    for (int32_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layer[i];
        int64_t out = state->cpu.micro * shape_elements(layer->out);
        state->place[i].y = alloc(state, out);
        state->place[i].dy = alloc(state, out);
        state->cpu.value[i].y = state->place[i].y;
        state->cpu.value[i].dy = state->place[i].dy;
        if (layer->op == LAYER_BATCH_NORM)
            state->place[i].statistics = alloc(state, 2 * (int64_t)layer->out.channels);
        parameters = layer->parameters > parameters ? layer->parameters : parameters;
    }
    cpu_device_complete(&state->cpu, alloc, state);
    state->dx = alloc(state, largest(state));
    state->dw = alloc(state, parameters);
}

static void close_naive(struct device_state *state)
{
    if (!state)
        return;
    cpu_device_release(&state->cpu);
    for (int64_t i = 0; i < state->blocks; i++)
        free(state->block[i]);
    free(state->block);
    free(state->place);
    free(state);
}

/* ---- forward ---- */

static int64_t elements(const struct device_state *state, int32_t index)
{
    return state->cpu.micro * shape_elements(state->cpu.job.model->layer[index].out);
}

static const float *source(const struct device_state *state, int32_t index, const float *images)
{
    int32_t from = state->cpu.graph.node[index].reads;
    return from >= 0 ? state->place[from].y : images;
}

/* Move the running statistics of layer @index towards those of micro-batch @micro. */
static void track(struct device_state *state, int32_t index, int32_t micro)
{
    const float *batch = state->place[index].statistics;
    int64_t channels = state->cpu.job.model->layer[index].out.channels;
    double epsilon = state->cpu.job.scenario->training.batch_norm.epsilon;
    for (int64_t c = 0; c < channels; c++) {
        double inverse = batch[channels + c], biased = 1 / (inverse * inverse) - epsilon;
        cpu_device_track(&state->cpu, index, micro, elements(state, index) / channels, c, batch[c],
                         fmax(biased, 0));
    }
}

/* Batch norm with running statistics: y = x * scale + shift per channel. */
static void infer_batch_norm(const struct device_state *state, int32_t index, const float *x,
                             const float *w, float *y)
{
    const struct layer *layer = &state->cpu.job.model->layer[index];
    int64_t channels = layer->out.channels, pixels = shape_elements(layer->out) / channels;
    const float *mean = state->cpu.statistics + state->cpu.layout.statistics[index];
    double epsilon = state->cpu.job.scenario->training.batch_norm.epsilon;
    for (int64_t row = 0; row < state->cpu.micro * channels; row++) {
        int64_t c = row % channels;
        double scale = w[c] / sqrt(mean[channels + c] + epsilon);
        double shift = w[channels + c] - mean[c] * scale;
        for (int64_t p = row * pixels; p < (row + 1) * pixels; p++)
            y[p] = (float)(x[p] * scale + shift);
    }
}

static void normalise(struct device_state *state, int32_t index, const float *x, int32_t micro)
{
    const struct layer *layer = &state->cpu.job.model->layer[index];
    const float *w = state->cpu.parameter + state->cpu.layout.layer[index];
    struct naive_place *place = &state->place[index];
    if (micro < 0) {
        infer_batch_norm(state, index, x, w, place->y);
        return;
    }
    naive_batch_norm(layer, state->cpu.micro, state->cpu.job.scenario->training.batch_norm.epsilon,
                     x, w, place->statistics, place->y);
    track(state, index, micro);
}

/* Add the residual branch and apply the ReLU, once both branches are complete. */
static void finish(struct device_state *state, int32_t index)
{
    int32_t whose = state->cpu.graph.node[index].finishes;
    int32_t added = state->cpu.graph.node[whose].residual;
    float *y = state->place[whose].y;
    if (state->cpu.graph.node[index].finish != index)
        return;
    if (added >= 0)
        naive_add(elements(state, whose), state->place[added].y, y);
    if (state->cpu.job.model->layer[whose].relu)
        naive_relu(elements(state, whose), layer_top(&state->cpu.job.model->layer[whose]), y);
}

/* @micro of -1 is inference. */
static void run_forward(struct device_state *state, int32_t index, const float *images,
                        int32_t micro)
{
    const struct layer *layer = &state->cpu.job.model->layer[index];
    const float *x = source(state, index, images);
    state->place[index].given = false;
    switch (layer->op) {
    case LAYER_CONVOLUTION:
    case LAYER_LINEAR:
        naive_forward(layer, state->cpu.micro, x,
                      state->cpu.parameter + state->cpu.layout.layer[index], state->place[index].y);
        break;
    case LAYER_BATCH_NORM:
        normalise(state, index, x, micro);
        break;
    case LAYER_MAX_POOL:
    case LAYER_AVERAGE_POOL:
        naive_pool(layer, state->cpu.micro, x, state->place[index].y);
        break;
    default:
        assert(!"a kind of layer");
    }
    finish(state, index);
}

/* ---- backward ---- */

/* The gradient of a value is the sum of its readers' gradients. */
static void give(struct device_state *state, int32_t index, const float *dx)
{
    struct naive_place *place = &state->place[index];
    if (place->given)
        naive_add(elements(state, index), dx, place->dy);
    else
        memcpy(place->dy, dx, (size_t)elements(state, index) * sizeof(float));
    place->given = true;
}

/* Undo what finish() did.  Twice does no harm: the mask is the same. */
static void start(struct device_state *state, int32_t index, bool gives)
{
    int32_t whose = state->cpu.graph.node[index].finishes;
    int32_t added = state->cpu.graph.node[whose].residual;
    struct naive_place *place = &state->place[whose];
    if (state->cpu.graph.node[index].finish != index)
        return;
    if (state->cpu.job.model->layer[whose].relu)
        naive_relu_backward(elements(state, whose), layer_top(&state->cpu.job.model->layer[whose]),
                            place->y, place->dy);
    if (added >= 0 && gives)
        give(state, added, place->dy);
}

/* The first micro-batch writes the gradient, later ones add. */
static void collect_gradient(struct device_state *state, int32_t index, int32_t micro)
{
    float *gradient = state->cpu.gradient + state->cpu.layout.layer[index];
    int64_t count = state->cpu.job.model->layer[index].parameters;
    if (micro == 0)
        memcpy(gradient, state->dw, (size_t)count * sizeof(float));
    else
        naive_add(count, state->dw, gradient);
}

static void run_filter(struct device_state *state, int32_t index, const float *images,
                       int32_t micro)
{
    const float *x = source(state, index, images);
    start(state, index, false);
    naive_backward_filter(&state->cpu.job.model->layer[index], state->cpu.micro, x,
                          state->place[index].dy, state->dw);
    collect_gradient(state, index, micro);
}

static void run_data(struct device_state *state, int32_t index, const float *images, int32_t micro)
{
    const float *x = source(state, index, images);
    const struct layer *layer = &state->cpu.job.model->layer[index];
    struct naive_place *place = &state->place[index];
    const float *w = state->cpu.parameter + state->cpu.layout.layer[index];
    start(state, index, true);
    if (layer->op == LAYER_BATCH_NORM) {
        naive_batch_norm_backward(layer, state->cpu.micro, x, w, place->statistics, place->dy,
                                  state->dx, state->dw);
        collect_gradient(state, index, micro);
    } else if (layer->op == LAYER_MAX_POOL || layer->op == LAYER_AVERAGE_POOL) {
        naive_pool_backward(layer, state->cpu.micro, x, place->dy, state->dx);
    } else {
        naive_backward_data(layer, state->cpu.micro, w, place->dy, state->dx);
    }
    if (state->cpu.graph.node[index].reads >= 0)
        give(state, state->cpu.graph.node[index].reads, state->dx);
}

static const struct cpu_passes passes = {
    .forward = run_forward, .data = run_data, .filter = run_filter, .multiply = sequence_multiply};

static int open_naive(struct device_state **out, const struct device_job *job, struct err *err)
{
    if (check_job(job, err))
        return -1;
    struct device_state *state = base_alloc(1, sizeof(*state));
    cpu_device_init(&state->cpu, job, &passes, alloc, state);
    state->cpu.planes = true;
    open_layers(state);
    *out = state;
    return 0;
}

const struct device_ops device_naive_ops = {
    .name = "cpu-naive",
    .open = open_naive,
    .close = close_naive,
    CPU_DEVICE_OPS,
};
