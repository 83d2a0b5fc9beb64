#include "exec/cpu/device_naive.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "exec/cpu/device_copy.h"
#include "exec/cpu/ops_naive.h"
#include "exec/cpu/stream.h"
#include "exec/step/graph.h"

/* Everything that belongs to one layer. */
struct place {
    float *y, *dy;     /* (micro-batch, out) its value, and the gradient of that */
    float *statistics; /* (2, channels) of batch norm, else NULL */
    bool given;        /* a reader has written dy in this pass */
};

/* What belongs to one iteration in flight. */
struct slot {
    float *images;  /* (batch, channels, height, width) */
    int32_t *label; /* (batch) */
    struct update update;
    struct outcome outcome;
};

struct device_state {
    struct device_job job;
    struct layout layout;
    struct graph graph;
    struct optimizer *optimizer;
    float *parameter, *gradient, *momentum; /* (layout.parameters) */
    float *statistics;                      /* (layout.statistic_count) running */
    struct place *place;                    /* (layers) */
    struct slot *slot;                      /* (slots) */
    float *raw;                             /* (batch, height, width, channels) as read */
    float *dx, *dw;                         /* one layer's gradients, before they are added */
    int32_t micro;                          /* images of a micro-batch */
};

/* A step on its way through a stream. */
struct order {
    struct device_state *state;
    const struct step *step;
    int32_t iteration;
};

/* A forward pass in inference on its way through a stream. */
struct score_order {
    struct device_state *state;
    const float *images;
    int32_t count;
    float *scores;
};

static int check_types(const struct scenario *scenario, struct err *err)
{
    if (scenario->model.compute == DTYPE_FP32 && scenario->model.master == DTYPE_FP32)
        return 0;
    return err_add_code(err, 69,
                        "the cpu-naive device computes in fp32 with fp32 master weights only: use "
                        "--set model.precision.compute=fp32 --set model.precision.master=fp32");
}

static int64_t largest(const struct device_state *state)
{
    int64_t elements = 0;
    for (int32_t i = 0; i < state->graph.layer_count; i++) {
        const struct layer *layer = &state->job.model->layer[i];
        int64_t in = shape_elements(layer->in);
        elements = in > elements ? in : elements;
    }
    return elements * state->micro;
}

static void open_layers(struct device_state *state)
{
    const struct model *model = state->job.model;
    int64_t parameters = 0;
    state->place = base_alloc(model->layer_count, sizeof(*state->place));
    for (int32_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layer[i];
        int64_t out = state->micro * shape_elements(layer->out);
        state->place[i].y = base_alloc(out, sizeof(float));
        state->place[i].dy = base_alloc(out, sizeof(float));
        if (layer->op == LAYER_BATCH_NORM)
            state->place[i].statistics =
                base_alloc(2 * (int64_t)layer->out.channels, sizeof(float));
        parameters = layer->parameters > parameters ? layer->parameters : parameters;
    }
    state->dx = base_alloc(largest(state), sizeof(float));
    state->dw = base_alloc(parameters, sizeof(float));
}

static int open_naive(struct device_state **out, const struct device_job *job, struct err *err)
{
    if (check_types(job->scenario, err))
        return -1;
    struct device_state *state = base_alloc(1, sizeof(*state));
    *state = (struct device_state){.job = *job,
                                   .layout = layout_build(job->model),
                                   .graph = graph_build(job->model),
                                   .micro = job->batch / job->micro_batches};
    int64_t elements = job->batch * shape_elements(job->model->layer[0].in);
    state->optimizer = optimizer_new(&state->layout, job->scenario);
    state->parameter = base_alloc(state->layout.parameters, sizeof(float));
    state->gradient = base_alloc(state->layout.parameters, sizeof(float));
    state->momentum = base_alloc(state->layout.parameters, sizeof(float));
    state->statistics = base_alloc(state->layout.statistic_count, sizeof(float));
    state->raw = base_alloc(elements, sizeof(float));
    state->slot = base_alloc(job->slots, sizeof(*state->slot));
    for (int32_t i = 0; i < job->slots; i++) {
        state->slot[i].images = base_alloc(elements, sizeof(float));
        state->slot[i].label = base_alloc(job->batch, sizeof(int32_t));
    }
    open_layers(state);
    *out = state;
    return 0;
}

static void close_naive(struct device_state *state)
{
    if (!state)
        return;
    for (int32_t i = 0; i < state->job.model->layer_count; i++) {
        free(state->place[i].y);
        free(state->place[i].dy);
        free(state->place[i].statistics);
    }
    for (int32_t i = 0; i < state->job.slots; i++) {
        free(state->slot[i].images);
        free(state->slot[i].label);
    }
    optimizer_free(state->optimizer);
    free(state->place);
    free(state->slot);
    free(state->parameter);
    free(state->gradient);
    free(state->momentum);
    free(state->statistics);
    free(state->raw);
    free(state->dx);
    free(state->dw);
    graph_release(&state->graph);
    layout_release(&state->layout);
    free(state);
}

/* ---- forward ---- */

/* (height, width, channels) to (channels, height, width). */
static void transpose(const struct device_state *state, int32_t count, const float *from, float *to)
{
    struct shape in = state->job.model->layer[0].in;
    int64_t pixels = (int64_t)in.height * in.width;
    for (int64_t n = 0; n < count; n++)
        for (int64_t p = 0; p < pixels; p++)
            for (int64_t c = 0; c < in.channels; c++)
                to[(n * in.channels + c) * pixels + p] = from[(n * pixels + p) * in.channels + c];
}

static struct slot *slot_of(const struct device_state *state, int32_t iteration)
{
    return &state->slot[iteration % state->job.slots];
}

static void read_input(struct device_state *state, int32_t iteration)
{
    struct slot *slot = slot_of(state, iteration);
    state->job.source.next(state->job.source.context, state->raw, slot->label);
    transpose(state, state->job.batch, state->raw, slot->images);
    slot->outcome = (struct outcome){0};
}

static int64_t elements(const struct device_state *state, int32_t index)
{
    return state->micro * shape_elements(state->job.model->layer[index].out);
}

/* The micro-batch's part of the local batch. */
static const float *micro_images(const struct device_state *state, int32_t iteration, int32_t micro)
{
    return slot_of(state, iteration)->images +
           (int64_t)micro * state->micro * shape_elements(state->job.model->layer[0].in);
}

static const float *source(const struct device_state *state, int32_t index, const float *images)
{
    int32_t from = state->graph.node[index].source;
    return from >= 0 ? state->place[from].y : images;
}

/* Move the running statistics of layer @index towards those of micro-batch @micro. */
static void track(struct device_state *state, int32_t index, int32_t micro)
{
    const struct layer *layer = &state->job.model->layer[index];
    const struct scenario *scenario = state->job.scenario;
    const float *batch = state->place[index].statistics;
    int64_t channels = layer->out.channels, samples = elements(state, index) / channels;
    double unbiased = samples > 1 ? (double)samples / (double)(samples - 1) : 1;
    double share = scenario->training.batch_norm.statistics == BN_STATISTICS_LAST
                       ? 1
                       : scenario->training.batch_norm.momentum;
    double keep = micro == 0 ? 1 - share : 1, take = share / state->job.micro_batches;
    float *mean = state->statistics + state->layout.statistics[index], *variance = mean + channels;
    for (int64_t c = 0; c < channels; c++) {
        double inverse = batch[channels + c];
        double biased = 1 / (inverse * inverse) - scenario->training.batch_norm.epsilon;
        mean[c] = (float)(keep * mean[c] + take * batch[c]);
        variance[c] = (float)(keep * variance[c] + take * fmax(biased, 0) * unbiased);
    }
}

/* Batch norm with running statistics: y = x * scale + shift per channel. */
static void infer_batch_norm(const struct device_state *state, int32_t index, const float *x,
                             const float *w, float *y)
{
    const struct layer *layer = &state->job.model->layer[index];
    int64_t channels = layer->out.channels, pixels = shape_elements(layer->out) / channels;
    const float *mean = state->statistics + state->layout.statistics[index];
    double epsilon = state->job.scenario->training.batch_norm.epsilon;
    for (int64_t row = 0; row < state->micro * channels; row++) {
        int64_t c = row % channels;
        double scale = w[c] / sqrt(mean[channels + c] + epsilon);
        double shift = w[channels + c] - mean[c] * scale;
        for (int64_t p = row * pixels; p < (row + 1) * pixels; p++)
            y[p] = (float)(x[p] * scale + shift);
    }
}

static void normalise(struct device_state *state, int32_t index, const float *x, int32_t micro)
{
    const struct layer *layer = &state->job.model->layer[index];
    const float *w = state->parameter + state->layout.layer[index];
    struct place *place = &state->place[index];
    if (micro < 0) {
        infer_batch_norm(state, index, x, w, place->y);
        return;
    }
    naive_batch_norm(layer, state->micro, state->job.scenario->training.batch_norm.epsilon, x, w,
                     place->statistics, place->y);
    track(state, index, micro);
}

/* Add what the residual branch brings and apply the ReLU, once both are there. */
static void finish(struct device_state *state, int32_t index)
{
    int32_t whose = state->graph.node[index].finishes;
    int32_t added = state->graph.node[whose].residual;
    float *y = state->place[whose].y;
    if (state->graph.node[index].finish != index)
        return;
    if (added >= 0)
        naive_add(elements(state, whose), state->place[added].y, y);
    if (state->job.model->layer[whose].relu)
        naive_relu(elements(state, whose), y);
}

/* @micro of -1 is inference. */
static void run_forward(struct device_state *state, int32_t index, const float *images,
                        int32_t micro)
{
    const struct layer *layer = &state->job.model->layer[index];
    const float *x = source(state, index, images);
    switch (layer->op) {
    case LAYER_CONVOLUTION:
    case LAYER_LINEAR:
        naive_forward(layer, state->micro, x, state->parameter + state->layout.layer[index],
                      state->place[index].y);
        break;
    case LAYER_BATCH_NORM:
        normalise(state, index, x, micro);
        break;
    case LAYER_MAX_POOL:
    case LAYER_AVERAGE_POOL:
        naive_pool(layer, state->micro, x, state->place[index].y);
        break;
    case LAYER_OP_COUNT:
        assert(!"a kind of layer");
    }
    finish(state, index);
}

/* ---- loss and backward ---- */

static void run_loss(struct device_state *state, int32_t iteration, int32_t micro)
{
    const struct device_job *job = &state->job;
    struct slot *slot = slot_of(state, iteration);
    struct place *last = &state->place[job->model->layer_count - 1];
    int64_t scores = (int64_t)state->micro * job->model->classes;
    for (int32_t i = 0; i < job->model->layer_count; i++)
        state->place[i].given = false;
    slot->outcome.loss += naive_loss(state->micro, job->model->classes, last->y,
                                     slot->label + (int64_t)micro * state->micro,
                                     job->scenario->training.label_smoothing, last->dy) /
                          job->micro_batches;
    for (int64_t i = 0; i < scores; i++)
        last->dy[i] *= (float)slot->update.loss_scale;
    last->given = true;
}

/* The gradient of a value is the sum of what its readers give. */
static void give(struct device_state *state, int32_t index, const float *dx)
{
    struct place *place = &state->place[index];
    if (place->given)
        naive_add(elements(state, index), dx, place->dy);
    else
        memcpy(place->dy, dx, (size_t)elements(state, index) * sizeof(float));
    place->given = true;
}

/* Undo what finish() did.  Twice does no harm: the mask is the same. */
static void start(struct device_state *state, int32_t index, bool gives)
{
    int32_t whose = state->graph.node[index].finishes;
    int32_t added = state->graph.node[whose].residual;
    struct place *place = &state->place[whose];
    if (state->graph.node[index].finish != index)
        return;
    if (state->job.model->layer[whose].relu)
        naive_relu_backward(elements(state, whose), place->y, place->dy);
    if (added >= 0 && gives)
        give(state, added, place->dy);
}

/* The first micro-batch writes the gradient, later ones add. */
static void collect_gradient(struct device_state *state, int32_t index, int32_t micro)
{
    float *gradient = state->gradient + state->layout.layer[index];
    int64_t count = state->job.model->layer[index].parameters;
    if (micro == 0)
        memcpy(gradient, state->dw, (size_t)count * sizeof(float));
    else
        naive_add(count, state->dw, gradient);
}

static void run_filter(struct device_state *state, int32_t index, const float *x, int32_t micro)
{
    start(state, index, false);
    naive_backward_filter(&state->job.model->layer[index], state->micro, x, state->place[index].dy,
                          state->dw);
    collect_gradient(state, index, micro);
}

static void run_data(struct device_state *state, int32_t index, const float *x, int32_t micro)
{
    const struct layer *layer = &state->job.model->layer[index];
    struct place *place = &state->place[index];
    const float *w = state->parameter + state->layout.layer[index];
    start(state, index, true);
    if (layer->op == LAYER_BATCH_NORM) {
        naive_batch_norm_backward(layer, state->micro, x, w, place->statistics, place->dy,
                                  state->dx, state->dw);
        collect_gradient(state, index, micro);
    } else if (layer->op == LAYER_MAX_POOL || layer->op == LAYER_AVERAGE_POOL) {
        naive_pool_backward(layer, state->micro, x, place->dy, state->dx);
    } else {
        naive_backward_data(layer, state->micro, w, place->dy, state->dx);
    }
    if (state->graph.node[index].source >= 0)
        give(state, state->graph.node[index].source, state->dx);
}

static void run_optimizer(struct device_state *state, int32_t iteration)
{
    struct slot *slot = slot_of(state, iteration);
    double scale = 1.0 / state->job.ranks / state->job.micro_batches / slot->update.loss_scale;
    struct outcome outcome = optimizer_step(state->optimizer, &slot->update, scale, state->gradient,
                                            state->momentum, state->parameter);
    outcome.loss = slot->outcome.loss;
    slot->outcome = outcome;
}

static void run_compute(struct device_state *state, const struct step *step, int32_t iteration)
{
    int32_t index = step->compute.layer, micro = step->compute.micro;
    const float *images = micro_images(state, iteration, micro);
    switch (step->compute.op) {
    case COMPUTE_FORWARD:
        run_forward(state, index, images, micro);
        break;
    case COMPUTE_LOSS:
        run_loss(state, iteration, micro);
        break;
    case COMPUTE_BACKWARD_DATA:
        run_data(state, index, source(state, index, images), micro);
        break;
    case COMPUTE_BACKWARD_FILTER:
        run_filter(state, index, source(state, index, images), micro);
        break;
    case COMPUTE_OPTIMIZER:
        run_optimizer(state, iteration);
        break;
    case COMPUTE_OP_COUNT:
        assert(!"a kind of step");
    }
}

static void run_step(void *argument)
{
    const struct order *order = argument;
    if (order->step->kind == STEP_INPUT)
        read_input(order->state, order->iteration);
    else
        run_compute(order->state, order->step, order->iteration);
}

static void issue(struct device_state *state, struct stream *stream, const struct step *step,
                  int32_t iteration)
{
    struct order order = {state, step, iteration};
    cpu_stream_issue(stream, run_step, &order, sizeof(order));
}

/* ---- around training ---- */

static void run_score(void *argument)
{
    const struct score_order *order = argument;
    struct device_state *state = order->state;
    const struct model *model = state->job.model;
    transpose(state, order->count, order->images, state->slot[0].images);
    for (int32_t i = 0; i < model->layer_count; i++)
        run_forward(state, i, state->slot[0].images, -1);
    memcpy(order->scores, state->place[model->layer_count - 1].y,
           (size_t)order->count * (size_t)model->classes * sizeof(float));
}

static void score(struct device_state *state, struct stream *stream, const float *images,
                  int32_t count, float *scores)
{
    struct score_order order = {state, images, count, scores};
    cpu_stream_issue(stream, run_score, &order, sizeof(order));
}

static void prepare(struct device_state *state, int32_t iteration, const struct update *update)
{
    slot_of(state, iteration)->update = *update;
}

static void *gradients(struct device_state *state)
{
    return state->gradient;
}

static struct outcome outcome(const struct device_state *state, int32_t iteration)
{
    return slot_of(state, iteration)->outcome;
}

static void copy(float *to, const float *from, int64_t count)
{
    if (to && from)
        memcpy(to, from, (size_t)count * sizeof(float));
}

static void read_weights(const struct device_state *state, const struct weights *weights)
{
    copy(weights->parameter, state->parameter, state->layout.parameters);
    copy(weights->momentum, state->momentum, state->layout.parameters);
    copy(weights->statistics, state->statistics, state->layout.statistic_count);
}

static void write_weights(struct device_state *state, const struct weights *weights)
{
    copy(state->parameter, weights->parameter, state->layout.parameters);
    copy(state->momentum, weights->momentum, state->layout.parameters);
    copy(state->statistics, weights->statistics, state->layout.statistic_count);
}

const struct device_ops device_naive_ops = {
    .name = "cpu-naive",
    .open = open_naive,
    .close = close_naive,
    .stream_new = cpu_stream_new,
    .stream_free = cpu_stream_free,
    .event_new = cpu_event_new,
    .event_free = cpu_event_free,
    .record = cpu_stream_record,
    .wait = cpu_stream_wait,
    .synchronize = cpu_event_synchronize,
    .seconds = cpu_event_seconds,
    .busy = cpu_event_busy,
    .copy = cpu_device_copy,
    .prepare = prepare,
    .issue = issue,
    .gradients = gradients,
    .outcome = outcome,
    .score = score,
    .read = read_weights,
    .write = write_weights,
};
