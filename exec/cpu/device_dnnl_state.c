#include "exec/cpu/device_dnnl_state.h"

#include <stdlib.h>

#include "core/base/base.h"

enum { BLOCK = 16 }; /* channels: what oneDNN's kernels for AVX-512 and AVX2 run fastest with */

/* Faster than NHWC in most convolutions of ResNet-50, above all in gradients of weights, but every
 * value with pixels must fill its blocks. */
static bool fills_blocks(const struct model *model)
{
    for (int32_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layer[i];
        bool linear = layer->op == LAYER_LINEAR;
        if ((!linear && layer->out.channels % BLOCK) ||
            (i > 0 && !linear && layer->in.channels % BLOCK))
            return false;
    }
    return true;
}

struct blocked state_shape(const struct device_state *state, int32_t index)
{
    struct shape out = state->job.model->layer[index].out;
    return (struct blocked){.images = state->micro,
                            .channels = out.channels,
                            .pixels = (int64_t)out.height * out.width,
                            .block = state->kind.blocks ? BLOCK : out.channels};
}

static int64_t elements(const struct device_state *state, int32_t index)
{
    return state->micro * shape_elements(state->job.model->layer[index].out);
}

/* ---- memory ---- */

/* Of batch norm @index and, when it ends a projection, of the one whose value it completes. */
static void open_norm(struct device_state *state, int32_t index)
{
    int64_t channels = state->job.model->layer[index].out.channels;
    float *floats = engine_alloc(&state->engine, 7 * channels);
    void *doubles = engine_alloc(&state->engine, 4 * channels); /* (2, channels) */
    state->place[index].norm = (struct norm){.x = state->place[state->graph.node[index].source].y,
                                             .mean = floats,
                                             .variance = floats + channels,
                                             .scale = floats + 2 * channels,
                                             .shift = floats + 3 * channels,
                                             .inverse = floats + 4 * channels,
                                             .slope = floats + 5 * channels,
                                             .offset = floats + 6 * channels,
                                             .sum = doubles,
                                             .product = (double *)doubles + channels,
                                             .dx = state->place[index].dx};
}

static void open_values(struct device_state *state)
{
    for (int32_t i = 0; i < state->graph.layer_count; i++)
        if (state->graph.node[i].finishes == i)
            state->place[i].y = engine_alloc(&state->engine, elements(state, i));
}

static void open_gradients(struct device_state *state)
{
    float **buffer = base_alloc(state->plan.buffers, sizeof(*buffer));
    for (int32_t i = 0; i < state->plan.buffers; i++)
        buffer[i] = engine_alloc(&state->engine, state->micro * state->plan.size[i]);
    for (int32_t i = 0; i < state->graph.layer_count; i++) {
        struct plan_place plan = state->plan.place[i];
        for (int32_t k = 0; k < 2; k++)
            state->place[i].given[k] = plan.given[k] >= 0 ? buffer[plan.given[k]] : NULL;
        state->place[i].dx = plan.dx >= 0 ? buffer[plan.dx] : NULL;
    }
    free(buffer);
}

static void open_weights(struct device_state *state)
{
    const struct device_job *job = &state->job;
    int64_t pixels = job->batch * shape_elements(job->model->layer[0].in);
    state->parameter = engine_alloc(&state->engine, state->layout.parameters);
    state->gradient = engine_alloc(&state->engine, state->layout.parameters);
    state->momentum = engine_alloc(&state->engine, state->layout.parameters);
    state->statistics = engine_alloc(&state->engine, state->layout.statistic_count + 1);
    state->raw = engine_alloc(&state->engine, pixels);
    state->slot = base_alloc(job->slots, sizeof(*state->slot));
    for (int32_t i = 0; i < job->slots; i++) {
        state->slot[i].images = engine_alloc(&state->engine, pixels);
        state->slot[i].label = base_alloc(job->batch, sizeof(int32_t));
    }
}

/* ---- layers ---- */

static int64_t largest_layer(const struct model *model)
{
    int64_t parameters = 0;
    for (int32_t i = 0; i < model->layer_count; i++)
        if (model->layer[i].parameters > parameters)
            parameters = model->layer[i].parameters;
    return parameters;
}

static int open_layer(struct device_state *state, int32_t index, struct call_arrays arrays,
                      struct err *err)
{
    const struct layer *layer = &state->job.model->layer[index];
    struct place *place = &state->place[index];
    struct call_layout kind = state->kind;
    int32_t source = state->graph.node[index].source;
    kind.planar = source < 0 && kind.blocks;
    arrays.x = source >= 0 ? state->place[source].y : state->slot[0].images;
    arrays.y = place->y;
    arrays.dy = place->given[0];
    arrays.dx = place->dx;
    arrays.parameter = state->parameter + state->layout.layer[index];
    arrays.gradient = state->gradient + state->layout.layer[index];
    if (layer->op == LAYER_BATCH_NORM)
        open_norm(state, index);
    if (layer->op == LAYER_CONVOLUTION || layer->op == LAYER_LINEAR)
        return matrix_open(&state->engine, layer, kind, &arrays, &place->matrix, err);
    if (layer->op == LAYER_MAX_POOL)
        return pool_open(&state->engine, layer, kind, &arrays, &place->pool, err);
    return 0;
}

/* Floats that the largest value takes as bf16. */
static int64_t narrow_floats(const struct model *model, int64_t micro)
{
    int64_t largest = 0;
    for (int32_t i = 0; i < model->layer_count; i++) {
        int64_t in = shape_elements(model->layer[i].in), out = shape_elements(model->layer[i].out);
        largest = in > largest ? in : largest;
        largest = out > largest ? out : largest;
    }
    return micro * largest / 2 + 1;
}

static int open_layers(struct device_state *state, struct err *err)
{
    int64_t scratch = 0, largest = largest_layer(state->job.model), widest = 0;
    for (int32_t i = 0; i < state->graph.layer_count; i++) {
        struct blocked shape = state_shape(state, i);
        bool norm = state->job.model->layer[i].op == LAYER_BATCH_NORM;
        if (norm && norm_scratch(&shape) > scratch)
            scratch = norm_scratch(&shape);
        widest = shape.channels > widest ? shape.channels : widest;
    }
    state->scratch = engine_alloc(&state->engine, scratch + 1);
    state->bias = engine_alloc(&state->engine, widest);
    struct call_arrays arrays = {.dw = engine_alloc(&state->engine, largest),
                                 .dw_elements = largest,
                                 .bias = state->bias,
                                 .direct = state->job.micro_batches == 1};
    if (state->job.scenario->model.compute == DTYPE_BF16) {
        int64_t floats = narrow_floats(state->job.model, state->micro);
        arrays.narrow_x = engine_alloc(&state->engine, floats);
        arrays.narrow_dy = engine_alloc(&state->engine, floats);
    }
    for (int32_t i = 0; i < state->graph.layer_count; i++)
        if (open_layer(state, i, arrays, err))
            return -1;
    engine_share_scratch(&state->engine);
    return 0;
}

static int init(struct device_state *state, const struct device_job *job, bool describes,
                struct err *err)
{
    *state = (struct device_state){.job = *job,
                                   .layout = layout_build(job->model),
                                   .graph = graph_build(job->model),
                                   .micro = job->batch / job->micro_batches};
    state->plan = backward_plan_build(job->model, &state->graph);
    state->optimizer = optimizer_new(&state->layout, job->scenario);
    state->place = base_alloc(job->model->layer_count, sizeof(*state->place));
    state->kind = (struct call_layout){.images = state->micro, .blocks = fills_blocks(job->model)};
    engine_init(&state->engine, describes);
    open_weights(state);
    open_values(state);
    open_gradients(state);
    int64_t before = state->engine.bytes;
    int status = open_layers(state, err);
    state->workspace = state->engine.bytes - before;
    return status;
}

int state_init(struct device_state *state, const struct device_job *job, struct err *err)
{
    return init(state, job, false, err);
}

int state_describe(struct device_state *state, const struct device_job *job, struct err *err)
{
    return init(state, job, true, err);
}

void state_release(struct device_state *state)
{
    for (int32_t i = 0; i < state->graph.layer_count; i++) {
        matrix_close(&state->place[i].matrix);
        pool_close(&state->place[i].pool);
    }
    for (int32_t i = 0; i < state->job.slots; i++)
        free(state->slot[i].label);
    engine_release(&state->engine);
    optimizer_free(state->optimizer);
    free(state->place);
    free(state->slot);
    backward_plan_release(&state->plan);
    graph_release(&state->graph);
    layout_release(&state->layout);
}
