#include "exec/cpu/device_naive.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base.h"
#include "exec/cpu/ops_naive.h"
#include "exec/cpu/stream.h"

/* Everything that belongs to one layer. */
struct place {
    int64_t parameter; /* its first, in weight, gradient and velocity */
    float *y, *dy;     /* (batch, out) */
    float *statistics; /* (2, channels) of batch norm, else NULL */
};

struct device_state {
    struct device_job job;
    int64_t parameters;
    float *weight, *gradient, *velocity; /* (parameters), layers from last to first */
    struct place *place;                 /* (layers) */
    float *images;                       /* (batch, in) the whole data set */
    int32_t *label;                      /* (batch) */
    float **slot;                        /* (slots) batches that were read in */
    double *loss;                        /* (iterations) */
};

/* A step on its way through a stream. */
struct order {
    struct device_state *state;
    const struct step *step;
    int32_t iteration;
};

static int check_chain(const struct model *model, struct err *err)
{
    for (int32_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layer[i];
        if (layer->residual ||
            (i > 0 && shape_elements(layer->in) != shape_elements(layer[-1].out)))
            return err_add_code(err, 69,
                                "the cpu-naive device runs networks that are a chain of layers; %s "
                                "branches at %s",
                                model->name, layer->name);
    }
    return 0;
}

static int64_t batch_elements(const struct device_state *state, struct shape shape)
{
    return state->job.batch * shape_elements(shape);
}

static void lay_out(struct device_state *state)
{
    const struct model *model = state->job.model;
    for (int32_t i = model->layer_count - 1; i >= 0; i--) {
        const struct layer *layer = &model->layer[i];
        int64_t out = batch_elements(state, layer->out);
        state->place[i] = (struct place){.parameter = state->parameters,
                                         .y = base_alloc(out, sizeof(float)),
                                         .dy = base_alloc(out, sizeof(float))};
        if (layer->op == LAYER_BATCH_NORM)
            state->place[i].statistics =
                base_alloc(2 * (int64_t)layer->out.channels, sizeof(float));
        state->parameters += layer->parameters;
    }
}

/* Source: He et al. 2015, "Delving deep into rectifiers": normal, variance 2 / fan-in.  Batch norm
 * starts as the identity, biases at 0. */
static void initialise_layer(const struct device_state *state, int32_t index)
{
    const struct layer *layer = &state->job.model->layer[index];
    float *w = state->weight + state->place[index].parameter;
    int64_t weights = layer->parameters - (layer->bias ? layer->out.channels : 0);
    if (layer->op == LAYER_BATCH_NORM) {
        for (int32_t c = 0; c < layer->out.channels; c++)
            w[c] = 1;
        return;
    }
    double deviation = sqrt(2.0 * layer->out.channels / (double)weights);
    for (int64_t i = 0; i < weights; i++)
        w[i] = (float)(deviation * base_normal(state->job.seed, (uint64_t)index, (uint64_t)i, 0));
}

static void make_data(struct device_state *state)
{
    const struct device_job *job = &state->job;
    int64_t elements = batch_elements(state, job->model->layer[0].in);
    state->images = base_alloc(elements, sizeof(float));
    state->label = base_alloc(job->batch, sizeof(*state->label));
    state->slot = base_alloc(job->slots, sizeof(*state->slot));
    for (int64_t i = 0; i < elements; i++)
        state->images[i] = (float)base_normal(job->data_seed, 0, (uint64_t)i, 0);
    for (int32_t i = 0; i < job->batch; i++)
        state->label[i] =
            (int32_t)(base_uniform(job->data_seed, 1, (uint64_t)i, 0) * job->model->classes);
    for (int32_t i = 0; i < job->slots; i++)
        state->slot[i] = base_alloc(elements, sizeof(float));
}

static int open_naive(struct device_state **out, const struct device_job *job, struct err *err)
{
    if (check_chain(job->model, err))
        return -1;
    struct device_state *state = base_alloc(1, sizeof(*state));
    state->job = *job;
    state->place = base_alloc(job->model->layer_count, sizeof(*state->place));
    lay_out(state);
    state->weight = base_alloc(state->parameters, sizeof(float));
    state->gradient = base_alloc(state->parameters, sizeof(float));
    state->velocity = base_alloc(state->parameters, sizeof(float));
    state->loss = base_alloc(job->iterations, sizeof(*state->loss));
    for (int32_t i = 0; i < job->model->layer_count; i++)
        initialise_layer(state, i);
    make_data(state);
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
    for (int32_t i = 0; i < state->job.slots; i++)
        free(state->slot[i]);
    free(state->place);
    free(state->weight);
    free(state->gradient);
    free(state->velocity);
    free(state->images);
    free(state->label);
    free(state->slot);
    free(state->loss);
    free(state);
}

static void read_input(struct device_state *state, int32_t iteration)
{
    int64_t elements = batch_elements(state, state->job.model->layer[0].in);
    memcpy(state->slot[iteration % state->job.slots], state->images,
           (size_t)elements * sizeof(float));
}

static const float *layer_input(const struct device_state *state, int32_t index, int32_t iteration)
{
    return index > 0 ? state->place[index - 1].y : state->slot[iteration % state->job.slots];
}

static void run_forward(struct device_state *state, int32_t index, int32_t iteration)
{
    const struct layer *layer = &state->job.model->layer[index];
    struct place place = state->place[index];
    const float *x = layer_input(state, index, iteration), *w = state->weight + place.parameter;
    switch (layer->op) {
    case LAYER_CONVOLUTION:
    case LAYER_LINEAR:
        naive_forward(layer, state->job.batch, x, w, place.y);
        break;
    case LAYER_BATCH_NORM:
        naive_batch_norm(layer, state->job.batch, x, w, place.statistics, place.y);
        break;
    case LAYER_MAX_POOL:
    case LAYER_AVERAGE_POOL:
        naive_pool(layer, state->job.batch, x, place.y);
        break;
    case LAYER_OP_COUNT:
        assert(!"a kind of layer");
    }
    if (layer->relu)
        naive_relu(batch_elements(state, layer->out), place.y);
}

/* Filter and data gradients of a convolution come as two steps; both may find the ReLU's mask
 * applied already, which changes nothing. */
static void run_backward(struct device_state *state, int32_t index, enum compute_op op,
                         int32_t iteration)
{
    const struct layer *layer = &state->job.model->layer[index];
    struct place place = state->place[index];
    const float *x = layer_input(state, index, iteration), *w = state->weight + place.parameter;
    float *dw = state->gradient + place.parameter;
    float *dx = index > 0 ? state->place[index - 1].dy : NULL;
    if (layer->relu)
        naive_relu_backward(batch_elements(state, layer->out), place.y, place.dy);
    if (op == COMPUTE_BACKWARD_FILTER)
        naive_backward_filter(layer, state->job.batch, x, place.dy, dw);
    else if (layer->op == LAYER_BATCH_NORM)
        naive_batch_norm_backward(layer, state->job.batch, x, w, place.statistics, place.dy, dx,
                                  dw);
    else if (layer->op == LAYER_MAX_POOL || layer->op == LAYER_AVERAGE_POOL)
        naive_pool_backward(layer, state->job.batch, x, place.dy, dx);
    else
        naive_backward_data(layer, state->job.batch, w, place.dy, dx);
}

static void run_loss(struct device_state *state, int32_t iteration)
{
    const struct device_job *job = &state->job;
    struct place last = state->place[job->model->layer_count - 1];
    state->loss[iteration] = naive_loss(job->batch, job->model->classes, last.y, state->label,
                                        job->label_smoothing, last.dy);
}

static void run_optimizer(struct device_state *state)
{
    const struct device_job *job = &state->job;
    struct sgd sgd = {.learning_rate = job->learning_rate,
                      .momentum = job->momentum,
                      .weight_decay = job->weight_decay,
                      .scale = 1.0 / job->ranks};
    naive_sgd(&sgd, state->parameters, state->gradient, state->velocity, state->weight);
}

static void run_step(void *argument)
{
    const struct order *order = argument;
    const struct step *step = order->step;
    if (step->kind == STEP_INPUT)
        read_input(order->state, order->iteration);
    else if (step->compute.op == COMPUTE_FORWARD)
        run_forward(order->state, step->compute.layer, order->iteration);
    else if (step->compute.op == COMPUTE_LOSS)
        run_loss(order->state, order->iteration);
    else if (step->compute.op == COMPUTE_OPTIMIZER)
        run_optimizer(order->state);
    else
        run_backward(order->state, step->compute.layer, step->compute.op, order->iteration);
}

static void issue(struct device_state *state, struct stream *stream, const struct step *step,
                  int32_t iteration)
{
    struct order order = {state, step, iteration};
    cpu_stream_issue(stream, run_step, &order, sizeof(order));
}

static float *gradients(struct device_state *state)
{
    return state->gradient;
}

static double loss(const struct device_state *state, int32_t iteration)
{
    return state->loss[iteration];
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
    .issue = issue,
    .gradients = gradients,
    .loss = loss,
};
