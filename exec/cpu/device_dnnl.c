#include "exec/cpu/device_dnnl.h"

#include <assert.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "exec/cpu/device_copy.h"
#include "exec/cpu/device_dnnl_state.h"
#include "exec/cpu/ops_naive.h"
#include "exec/cpu/stream.h"

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

/* Else oneDNN would emulate it. */
static bool multiplies_bf16(void)
{
    const int needed = dnnl_cpu_isa_avx512_core_bf16;
    return ((int)dnnl_get_effective_cpu_isa() & needed) == needed;
}

static int check_types(const struct scenario *scenario, struct err *err)
{
    enum dtype compute = scenario->model.compute;
    bool masters = scenario->model.master == DTYPE_FP32; /* as a GPU wants them, too */
    const char *reason = NULL;
    if (!masters)
        reason = "its master weights are fp32";
    else if (compute == DTYPE_FP16)
        reason = "oneDNN 2 has no convolutions in fp16";
    else if (compute == DTYPE_BF16 && !multiplies_bf16())
        reason = "this CPU has no instructions for bf16, and emulated it is slower than fp32";
    if (!reason)
        return 0;
    return err_add_code(err, 69,
                        "the cpu device cannot compute in %s with master weights in %s: %s; use "
                        "%s--set model.precision.compute=fp32 --set model.precision.master=fp32",
                        dtype_names[compute], dtype_names[scenario->model.master], reason,
                        masters ? "--device cuda on a GPU, or " : "");
}

/* oneDNN divides the work of a primitive when it is made, by the threads there are then. */
static int open_dnnl(struct device_state **out, const struct device_job *job, struct err *err)
{
    if (check_types(job->scenario, err))
        return -1;
    int threads = omp_get_max_threads();
    omp_set_num_threads(job->threads);
    *out = base_alloc(1, sizeof(**out));
    int status = state_init(*out, job, err);
    omp_set_num_threads(threads);
    if (status == 0)
        return 0;
    state_release(*out);
    free(*out);
    return -1;
}

static void close_dnnl(struct device_state *state)
{
    if (!state)
        return;
    state_release(state);
    free(state);
}

static int workspace(const struct device_job *job, int64_t *bytes, struct err *err)
{
    struct device_state state;
    if (check_types(job->scenario, err))
        return -1;
    int threads = omp_get_max_threads();
    omp_set_num_threads(job->threads);
    int status = state_describe(&state, job, err);
    omp_set_num_threads(threads);
    if (status == 0)
        *bytes = state.workspace;
    state_release(&state);
    return status;
}

/* ---- forward ---- */

static struct slot *slot_of(const struct device_state *state, int32_t iteration)
{
    return &state->slot[iteration % state->job.slots];
}

/* To what the first layer reads. */
static void convert_images(const struct device_state *state, int32_t count, const float *from,
                           float *to)
{
    struct shape in = state->job.model->layer[0].in;
    int64_t pixels = (int64_t)in.height * in.width;
    if (state->kind.blocks)
        kernel_transpose(count, pixels, in.channels, from, to);
    else
        memcpy(to, from, (size_t)(count * pixels * in.channels) * sizeof(float));
}

static void read_input(struct device_state *state, int32_t iteration)
{
    struct slot *slot = slot_of(state, iteration);
    state->job.source.next(state->job.source.context, state->raw, slot->label);
    convert_images(state, state->job.batch, state->raw, slot->images);
    slot->outcome = (struct outcome){0};
}

/* The micro-batch's part of the local batch. */
static const float *micro_images(const struct device_state *state, int32_t iteration, int32_t micro)
{
    return slot_of(state, iteration)->images +
           (int64_t)micro * state->micro * shape_elements(state->job.model->layer[0].in);
}

/* Run a primitive whose first operand is the layer's input. */
static void run_on_input(const struct device_state *state, int32_t index, const struct call *call,
                         const float *images)
{
    if (state->graph.node[index].source < 0)
        call_run_on(&state->engine, call, images);
    else
        call_run(&state->engine, call);
}

/* The same where arithmetic in bf16 reads a copy of the input. */
static void run_matrix(const struct device_state *state, int32_t index, const struct call *call,
                       const float *images)
{
    const struct call *narrow = &state->place[index].matrix.narrow_x;
    run_on_input(state, index, narrow->primitive ? narrow : call, images);
    if (narrow->primitive)
        call_run(&state->engine, call);
}

/* Copy the masters, if they have changed since this was done last. */
static void pack(const struct device_state *state, const struct call *call, int64_t *packed)
{
    if (*packed != state->version)
        call_run(&state->engine, call);
    *packed = state->version;
}

/* Move the running statistics of layer @index towards those of micro-batch @micro. */
static void track(struct device_state *state, int32_t index, int32_t micro)
{
    const struct scenario *scenario = state->job.scenario;
    const struct norm *norm = &state->place[index].norm;
    struct blocked shape = state_shape(state, index);
    int64_t samples = shape.images * shape.pixels;
    double unbiased = samples > 1 ? (double)samples / (double)(samples - 1) : 1;
    double share = scenario->training.batch_norm.statistics == BN_STATISTICS_LAST
                       ? 1
                       : scenario->training.batch_norm.momentum;
    double old = micro == 0 ? 1 - share : 1, take = share / state->job.micro_batches;
    float *mean = state->statistics + state->layout.statistics[index];
    float *variance = mean + shape.channels;
    for (int64_t c = 0; c < shape.channels; c++) {
        mean[c] = (float)(old * (double)mean[c] + take * (double)norm->mean[c]);
        variance[c] =
            (float)(old * (double)variance[c] + take * (double)norm->variance[c] * unbiased);
    }
}

/* Fill mean and variance: of the batch, or with @micro of -1 the running ones. */
static void find_statistics(struct device_state *state, int32_t index, int32_t micro)
{
    struct norm *norm = &state->place[index].norm;
    struct blocked shape = state_shape(state, index);
    const float *running = state->statistics + state->layout.statistics[index];
    size_t size = (size_t)shape.channels * sizeof(float);
    if (micro >= 0) {
        norm_statistics(&shape, norm, state->scratch);
        track(state, index, micro);
    } else {
        memcpy(norm->mean, running, size);
        memcpy(norm->variance, running + shape.channels, size);
    }
}

static void normalise(struct device_state *state, int32_t index, int32_t micro)
{
    const struct graph_node *node = &state->graph.node[index];
    int32_t whose = node->finishes;
    struct place *place = &state->place[whose], *last = &state->place[index];
    struct blocked shape = state_shape(state, index);
    find_statistics(state, index, micro);
    norm_fold(shape.channels, state->job.scenario->training.batch_norm.epsilon,
              state->parameter + state->layout.layer[index], &last->norm);
    if (node->finish != index)
        return; /* the projection's last layer adds both */
    const float *added =
        whose == index && node->residual >= 0 ? state->place[node->residual].y : NULL;
    norm_apply(&shape, &place->norm, whose != index ? &last->norm : NULL, added,
               state->job.model->layer[whose].relu, place->y);
}

/* @micro of -1 is inference. */
static void run_forward(struct device_state *state, int32_t index, const float *images,
                        int32_t micro)
{
    const struct layer *layer = &state->job.model->layer[index];
    struct place *place = &state->place[index];
    switch (layer->op) {
    case LAYER_CONVOLUTION:
    case LAYER_LINEAR:
        pack(state, &place->matrix.pack_forward, &place->matrix.packed_forward);
        run_matrix(state, index, &place->matrix.forward, images);
        break;
    case LAYER_BATCH_NORM:
        normalise(state, index, micro);
        break;
    case LAYER_MAX_POOL:
        run_on_input(state, index, &place->pool.forward, images);
        break;
    case LAYER_AVERAGE_POOL:
        kernel_average(layer, state->micro, state_shape(state, index).block,
                       state->place[state->graph.node[index].source].y, place->y);
        break;
    case LAYER_OP_COUNT:
        assert(!"a kind of layer");
    }
}

/* ---- loss and backward ---- */

static void run_loss(struct device_state *state, int32_t iteration, int32_t micro)
{
    const struct device_job *job = &state->job;
    struct slot *slot = slot_of(state, iteration);
    struct place *last = &state->place[job->model->layer_count - 1];
    int64_t scores = (int64_t)state->micro * job->model->classes;
    slot->outcome.loss += naive_loss(state->micro, job->model->classes, last->y,
                                     slot->label + (int64_t)micro * state->micro,
                                     job->scenario->training.label_smoothing, last->given[0]) /
                          job->micro_batches;
    for (int64_t i = 0; i < scores; i++)
        last->given[0][i] *= (float)slot->update.loss_scale;
}

/* Complete the gradient of the value of layer @index, which is no batch norm. */
static void settle(const struct device_state *state, int32_t index)
{
    const struct place *place = &state->place[index];
    int64_t count = state->micro * shape_elements(state->job.model->layer[index].out);
    if (place->given[1])
        kernel_add(count, place->given[1], place->given[0]);
    if (state->job.model->layer[index].relu)
        kernel_cut(count, place->y, place->given[0]);
}

/* The first micro-batch writes the gradient, later ones add. */
static void collect(float *gradient, int64_t count, const float *part, int32_t micro)
{
    for (int64_t i = 0; i < count; i++)
        gradient[i] = micro == 0 ? part[i] : gradient[i] + part[i];
}

static void run_filter(struct device_state *state, int32_t index, const float *images,
                       int32_t micro)
{
    const struct layer *layer = &state->job.model->layer[index];
    const struct matrix *matrix = &state->place[index].matrix;
    float *gradient = state->gradient + state->layout.layer[index];
    if (state->graph.node[index].source < 0)
        settle(state, index); /* else its data step has */
    call_run(&state->engine, &matrix->narrow_dy);
    run_matrix(state, index, &matrix->filter, images);
    call_run(&state->engine, micro == 0 ? &matrix->unpack : &matrix->unpack_add);
    if (layer->bias && state->job.micro_batches > 1)
        collect(gradient + layer->parameters - layer->out.channels, layer->out.channels,
                state->bias, micro);
}

static void collect_norm(struct device_state *state, int32_t index, int32_t micro)
{
    const struct norm *norm = &state->place[index].norm;
    int64_t channels = state->job.model->layer[index].out.channels;
    float *gradient = state->gradient + state->layout.layer[index];
    for (int64_t c = 0; c < channels; c++) {
        float scale = (float)(norm->product[c] * (double)norm->inverse[c]);
        float shift = (float)norm->sum[c];
        collect(&gradient[c], 1, &scale, micro);
        collect(&gradient[channels + c], 1, &shift, micro);
    }
}

static void run_norm_backward(struct device_state *state, int32_t index, int32_t micro)
{
    const struct graph_node *node = &state->graph.node[index];
    int32_t whose = node->finishes;
    struct place *place = &state->place[whose];
    struct blocked shape = state_shape(state, index);
    if (node->finish != index)
        return; /* done in the projection's last layer */
    bool shared = place->given[1] || whose != index || node->residual >= 0;
    struct norm_gradient gradient = {
        .first = place->given[0],
        .second = place->given[1],
        .relu = state->job.model->layer[whose].relu,
        .value = shared ? place->y : NULL,
        .gradient = shared ? place->given[0] : NULL,
        .norm = {&place->norm, whose != index ? &state->place[index].norm : NULL},
    };
    norm_backward_sums(&shape, &gradient, state->scratch);
    norm_backward(&shape, &gradient);
    collect_norm(state, index, micro);
    if (whose != index)
        collect_norm(state, whose, micro);
}

static void run_data(struct device_state *state, int32_t index, int32_t micro)
{
    const struct layer *layer = &state->job.model->layer[index];
    struct place *place = &state->place[index];
    if (layer->op == LAYER_BATCH_NORM) {
        run_norm_backward(state, index, micro);
        return;
    }
    settle(state, index);
    if (layer->op == LAYER_MAX_POOL) {
        call_run(&state->engine, &place->pool.backward);
    } else if (layer->op == LAYER_AVERAGE_POOL) {
        kernel_average_backward(layer, state->micro, state_shape(state, index).block,
                                place->given[0], place->dx);
    } else {
        pack(state, &place->matrix.pack_data, &place->matrix.packed_data);
        call_run(&state->engine, &place->matrix.narrow_dy);
        call_run(&state->engine, &place->matrix.data);
    }
}

static void run_optimizer(struct device_state *state, int32_t iteration)
{
    struct slot *slot = slot_of(state, iteration);
    double scale = 1.0 / state->job.ranks / state->job.micro_batches / slot->update.loss_scale;
    struct outcome outcome = optimizer_step(state->optimizer, &slot->update, scale, state->gradient,
                                            state->momentum, state->parameter);
    outcome.loss = slot->outcome.loss;
    slot->outcome = outcome;
    state->version++;
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
        run_data(state, index, micro);
        break;
    case COMPUTE_BACKWARD_FILTER:
        run_filter(state, index, images, micro);
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
    if (order->step->kind == STEP_INPUT) {
        read_input(order->state, order->iteration);
        return;
    }
    omp_set_num_threads(order->state->job.threads); /* of this thread, the compute stream's */
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
    omp_set_num_threads(state->job.threads);
    convert_images(state, order->count, order->images, state->slot[0].images);
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
    state->version++;
}

const struct device_ops device_dnnl_ops = {
    .name = "cpu",
    .open = open_dnnl,
    .workspace = workspace,
    .close = close_dnnl,
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
