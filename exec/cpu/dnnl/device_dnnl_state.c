#include "exec/cpu/dnnl/device_dnnl_state.h"

#include <omp.h>

enum { BLOCK = 16 }; /* channels: those of oneDNN's kernels for AVX-512 */

/* Faster than NHWC in most convolutions of ResNet-50, above all in gradients of weights, but every
 * value with pixels must fill its blocks, and none be cut into groups of channels.  Without AVX-512
 * oneDNN has only its reference for them, hundreds of times slower. */
static bool fills_blocks(const struct model *model)
{
    if (model_is_general(model))
        return false;
    const int needed = dnnl_cpu_isa_avx512_core;
    if (((int)dnnl_get_effective_cpu_isa() & needed) != needed)
        return false;
    for (int32_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layer[i];
        bool linear = layer->op == LAYER_LINEAR;
        if (layer->groups > 1 || (!linear && layer->out.channels % BLOCK) ||
            (i > 0 && !linear && layer->in.channels % BLOCK))
            return false;
    }
    return true;
}

struct blocked state_shape(const struct device_state *state, int32_t index)
{
    struct shape out = state->cpu.job.model->layer[index].out;
    return (struct blocked){.images = state->cpu.micro,
                            .channels = out.channels,
                            .pixels = (int64_t)out.height * out.width,
                            .block = state->kind.blocks ? BLOCK : out.channels};
}

float *state_dx(const struct device_state *state, int32_t index)
{
    const struct model *model = state->cpu.job.model;
    int32_t from = state->cpu.graph.node[index].reads;
    bool adds = from >= 0 && model->layer[from].last_reader != index && model_is_general(model);
    return adds ? state->beside : state->place[index].dx;
}

static int64_t elements(const struct device_state *state, int32_t index)
{
    return state->cpu.micro * shape_elements(state->cpu.job.model->layer[index].out);
}

/* ---- memory ---- */

/* Of batch norm @index and, when it ends a projection, of the one whose value it completes. */
static void open_norm(struct device_state *state, int32_t index)
{
    int64_t channels = state->cpu.job.model->layer[index].out.channels;
    float *floats = engine_alloc(&state->engine, 7 * channels);
    void *doubles = engine_alloc(&state->engine, 4 * channels); /* (2, channels) */
    state->place[index].norm =
        (struct norm){.x = state->place[state->cpu.graph.node[index].reads].y,
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
    for (int32_t i = 0; i < state->cpu.graph.layer_count; i++)
        if (state->cpu.graph.node[i].finishes == i && !state->cpu.graph.node[i].hidden)
            state->place[i].y = engine_alloc(&state->engine, elements(state, i));
}

static void open_gradients(struct device_state *state)
{
    float **buffer = base_alloc(state->plan.buffers, sizeof(*buffer));
    for (int32_t i = 0; i < state->plan.buffers; i++)
        buffer[i] = engine_alloc(&state->engine, state->cpu.micro * state->plan.size[i]);
    for (int32_t i = 0; i < state->cpu.graph.layer_count; i++) {
        struct plan_place plan = state->plan.place[i];
        for (int32_t k = 0; k < 2; k++)
            state->place[i].given[k] = plan.given[k] >= 0 ? buffer[plan.given[k]] : NULL;
        state->place[i].dx = plan.dx >= 0 ? buffer[plan.dx] : NULL;
        state->cpu.value[i].y = state->place[i].y;
        state->cpu.value[i].dy = state->place[i].given[0];
    }
    free(buffer);
}

/* Of the weights, for device_cpu. */
static float *alloc(void *context, int64_t count)
{
    return engine_alloc(context, count);
}

/* ---- layers ---- */

/* Of those that have primitives. */
static int64_t largest_layer(const struct model *model)
{
    int64_t parameters = 0;
    for (int32_t i = 0; i < model->layer_count; i++)
        if (!sequence_takes(&model->layer[i]) && model->layer[i].parameters > parameters)
            parameters = model->layer[i].parameters;
    return parameters;
}

static int open_layer(struct device_state *state, int32_t index, struct call_arrays arrays,
                      struct err *err)
{
    const struct layer *layer = &state->cpu.job.model->layer[index];
    struct dnnl_place *place = &state->place[index];
    struct call_layout kind = state->kind;
    int32_t source = state->cpu.graph.node[index].reads;
    kind.planar = source < 0 && kind.blocks;
    arrays.x = source >= 0 ? state->place[source].y : state->cpu.slot[0].images;
    arrays.y = place->y;
    arrays.dy = place->given[0];
    arrays.dx = state_dx(state, index);
    arrays.parameter = state->cpu.parameter + state->cpu.layout.layer[index];
    arrays.gradient = state->cpu.gradient + state->cpu.layout.layer[index];
    if (sequence_takes(layer))
        return 0;
    if (layer->op == LAYER_BATCH_NORM)
        open_norm(state, index);
    if (layer->op == LAYER_CONVOLUTION || layer->op == LAYER_LINEAR)
        return matrix_open(&state->engine, layer, kind, &arrays, &place->matrix, err);
    if (layer->op == LAYER_MAX_POOL)
        return pool_open(&state->engine, layer, kind, &arrays, &place->pool, err);
    return 0;
}

/* Floats that the largest value of those that have primitives takes as bf16. */
static int64_t narrow_floats(const struct model *model, int64_t micro)
{
    int64_t largest = 0;
    for (int32_t i = 0; i < model->layer_count; i++) {
        int64_t in = shape_elements(model->layer[i].in), out = shape_elements(model->layer[i].out);
        if (sequence_takes(&model->layer[i]))
            continue;
        largest = in > largest ? in : largest;
        largest = out > largest ? out : largest;
    }
    return micro * largest / 2 + 1;
}

static int64_t floats_of(int64_t bytes)
{
    return bytes / (int64_t)sizeof(float) + 1;
}

/* What product @p takes in bf16, of weights if they are not @kept, if that is more than @need
 * (ROOMS) floats. */
static void add_need(const struct product *p, bool kept, int64_t *need)
{
    const int64_t size[ROOMS] = {floats_of(p->rows * p->inner * 2),
                                 p->owner && kept ? 0 : floats_of(p->inner * p->columns * 2)};
    for (int32_t i = 0; i < ROOMS; i++)
        need[i] = size[i] > need[i] ? size[i] : need[i];
}

/* For all products in bf16: threads share those of attention out, the first one begins others. */
static void open_rooms(struct device_state *state)
{
    int32_t threads = state->cpu.job.threads;
    bool kept = state->cpu.sharding < 3; /* else not longer than the weights themselves */
    int64_t need[2][ROOMS] = {{0}};
    for (int32_t i = 0; i < state->cpu.graph.layer_count; i++) {
        struct product product[PASS_COUNT];
        struct sequence s = cpu_device_sequence(&state->cpu, i, NULL, 0);
        bool alone = s.layer->op == LAYER_MATMUL;
        if (!sequence_products(&s, product))
            continue;
        for (int32_t k = 0; k < PASS_COUNT; k++)
            add_need(&product[k], kept, need[!alone]);
        state->place[s.owner].narrowed = -1;
    }
    if (need[1][0] && kept) {
        void *narrow = engine_alloc(&state->engine, floats_of(state->cpu.layout.parameters * 2));
        state->narrow = narrow;
    }
    for (int32_t i = 0; i < threads * ROOMS; i++) {
        int64_t all = need[0][i % ROOMS], first = need[1][i % ROOMS];
        state->room[i] = engine_alloc(&state->engine, i < ROOMS && first > all ? first : all);
    }
}

static int open_layers(struct device_state *state, struct err *err)
{
    int64_t scratch = 0, largest = largest_layer(state->cpu.job.model), widest = 0;
    int64_t beside = 0;
    for (int32_t i = 0; i < state->cpu.graph.layer_count; i++) {
        struct blocked shape = state_shape(state, i);
        bool norm = state->cpu.job.model->layer[i].op == LAYER_BATCH_NORM;
        if (norm && norm_scratch(&shape) > scratch)
            scratch = norm_scratch(&shape);
        if (state->cpu.graph.node[i].hidden && !state->cpu.room)
            state->cpu.room = engine_alloc(
                &state->engine,
                state->cpu.job.threads * sequence_room(state->cpu.job.model->layer[i].out.width));
        widest = shape.channels > widest ? shape.channels : widest;
        beside = elements(state, i) > beside ? elements(state, i) : beside;
    }
    state->beside =
        model_is_general(state->cpu.job.model) && model_reads_pictures(state->cpu.job.model)
            ? engine_alloc(&state->engine, beside)
            : NULL;
    state->scratch = engine_alloc(&state->engine, scratch + 1);
    state->bias = engine_alloc(&state->engine, widest);
    struct call_arrays arrays = {.dw = engine_alloc(&state->engine, largest),
                                 .dw_elements = largest,
                                 .bias = state->bias,
                                 .direct = state->cpu.job.micro_batches == 1};
    if (state->cpu.job.scenario->model.compute == DTYPE_BF16) {
        int64_t floats = narrow_floats(state->cpu.job.model, state->cpu.micro);
        arrays.narrow_x = engine_alloc(&state->engine, floats);
        arrays.narrow_dy = engine_alloc(&state->engine, floats);
        open_rooms(state);
    }
    for (int32_t i = 0; i < state->cpu.graph.layer_count; i++)
        if (open_layer(state, i, arrays, err))
            return -1;
    engine_share_scratch(&state->engine);
    return 0;
}

/* oneDNN divides the work of a primitive when it is made, by the number of threads at that time. */
int state_init(struct device_state *state, const struct device_job *job,
               const struct cpu_passes *passes, bool describes, struct err *err)
{
    int threads = omp_get_max_threads();
    *state = (struct device_state){.kind.blocks = fills_blocks(job->model)};
    engine_init(&state->engine, describes);
    cpu_device_init(&state->cpu, job, passes, alloc, &state->engine);
    state->kind.images = state->cpu.micro;
    state->cpu.planes = state->kind.blocks;
    state->plan = backward_plan_build(job->model, &state->cpu.graph);
    state->place = base_alloc(job->model->layer_count, sizeof(*state->place));
    state->room = base_alloc((int64_t)job->threads * ROOMS, sizeof(*state->room));
    open_values(state);
    open_gradients(state);
    cpu_device_complete(&state->cpu, alloc, &state->engine);
    int64_t before = state->engine.bytes;
    omp_set_num_threads(job->threads);
    int status = open_layers(state, err);
    omp_set_num_threads(threads);
    state->workspace = state->engine.bytes - before;
    return status;
}

void state_release(struct device_state *state)
{
    for (int32_t i = 0; i < state->cpu.graph.layer_count; i++) {
        matrix_close(&state->place[i].matrix);
        pool_close(&state->place[i].pool);
    }
    engine_release(&state->engine);
    free(state->place);
    free(state->room);
    backward_plan_release(&state->plan);
    cpu_device_release(&state->cpu);
}
