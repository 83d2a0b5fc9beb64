#include "exec/cpu/dnnl/device_dnnl.h"

#include <omp.h>

#include "exec/cpu/device_cpu.h"
#include "exec/cpu/dnnl/device_dnnl_state.h"
#include "exec/cpu/ops_naive.h"
#include "exec/cpu/stream.h"
#include "exec/step/half.h"

static int check_types(const struct device_job *job, struct err *err)
{
    enum dtype compute = job->scenario->model.compute, master = job->scenario->model.master;
    const int needed = dnnl_cpu_isa_avx512_core_bf16; /* else oneDNN would emulate it */
    bool masters = master == DTYPE_FP32;              /* as on a GPU */
    const char *reason = NULL;
    if (!masters)
        reason = "its master weights are fp32";
    else if (compute == DTYPE_FP16)
        reason = "its convolutions are in fp32 or bf16";
    else if (compute == DTYPE_BF16 && ((int)dnnl_get_effective_cpu_isa() & needed) != needed)
        reason = "this CPU has no instructions for bf16, and emulated it is slower than fp32";
    if (!reason)
        return 0;
    return err_add_code(err, 69,
                        "the cpu device cannot compute in %s with master weights in %s: %s; use "
                        "%s--set model.precision.compute=fp32 --set model.precision.master=fp32",
                        dtype_names[compute], dtype_names[master], reason,
                        masters ? "--device cuda on a GPU, or " : "");
}

/* ---- forward ---- */

/* Run a primitive whose first operand is the layer's input. */
static void run_on_input(const struct device_state *state, int32_t index, const struct call *call,
                         const float *images)
{
    if (state->cpu.graph.node[index].reads < 0)
        call_run_on(&state->engine, call, images);
    else
        call_run(&state->engine, call);
}

/* run_on_input() where arithmetic in bf16 reads a copy of the input. */
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
    if (*packed != state->cpu.version)
        call_run(&state->engine, call);
    *packed = state->cpu.version;
}

/* Move the running statistics of layer @index towards those of micro-batch @micro. */
static void track(struct device_state *state, int32_t index, int32_t micro)
{
    const struct norm *norm = &state->place[index].norm;
    struct blocked shape = state_shape(state, index);
    for (int64_t c = 0; c < shape.channels; c++)
        cpu_device_track(&state->cpu, index, micro, shape.images * shape.pixels, c,
                         (double)norm->mean[c], (double)norm->variance[c]);
}

/* Fill mean and variance: of the batch, or with @micro of -1 the running ones. */
static void find_statistics(struct device_state *state, int32_t index, int32_t micro)
{
    struct norm *norm = &state->place[index].norm;
    struct blocked shape = state_shape(state, index);
    const float *running = state->cpu.statistics + state->cpu.layout.statistics[index];
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
    const struct graph_node *node = &state->cpu.graph.node[index];
    int32_t whose = node->finishes;
    struct dnnl_place *place = &state->place[whose], *last = &state->place[index];
    struct blocked shape = state_shape(state, index);
    find_statistics(state, index, micro);
    norm_fold(shape.channels, state->cpu.job.scenario->training.batch_norm.epsilon,
              state->cpu.parameter + state->cpu.layout.layer[index], &last->norm);
    if (node->finish != index)
        return; /* the projection's last layer adds both */
    const float *added =
        whose == index && node->residual >= 0 ? state->place[node->residual].y : NULL;
    norm_apply(&shape, &place->norm, whose != index ? &last->norm : NULL, added,
               layer_top(&state->cpu.job.model->layer[whose]), place->y);
}

/* @micro of -1 is inference. */
static void run_forward(struct device_state *state, int32_t index, const float *images,
                        int32_t micro)
{
    const struct layer *layer = &state->cpu.job.model->layer[index];
    struct dnnl_place *place = &state->place[index];
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
        kernel_average(layer, state->cpu.micro, state_shape(state, index).block,
                       state->place[state->cpu.graph.node[index].reads].y, place->y);
        break;
    default:
        assert(!"a kind of layer");
    }
}

/* ---- backward ---- */

/* Complete the gradient of the value of layer @index, which is no batch norm. */
static void settle(const struct device_state *state, int32_t index)
{
    const struct dnnl_place *place = &state->place[index];
    int64_t count = state->cpu.micro * shape_elements(state->cpu.job.model->layer[index].out);
    if (place->given[1])
        naive_add(count, place->given[1], place->given[0]);
    if (state->cpu.job.model->layer[index].relu)
        naive_relu_backward(count, layer_top(&state->cpu.job.model->layer[index]), place->y,
                            place->given[0]);
}

/* Add @dx, a gradient of the value of layer @index by its reader @by, or begin with it. */
static void add_to(const struct device_state *state, int32_t index, int32_t by, const float *dx)
{
    const struct layer *layer = &state->cpu.job.model->layer[index];
    int64_t count = state->cpu.micro * shape_elements(layer->out);
    if (layer->last_reader == by)
        memcpy(state->place[index].given[0], dx, (size_t)count * sizeof(float));
    else
        naive_add(count, dx, state->place[index].given[0]);
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
    const struct layer *layer = &state->cpu.job.model->layer[index];
    const struct matrix *matrix = &state->place[index].matrix;
    float *gradient = state->cpu.gradient + state->cpu.layout.layer[index];
    if (state->cpu.graph.node[index].reads < 0)
        settle(state, index); /* else its data step has */
    call_run(&state->engine, &matrix->narrow_dy);
    run_matrix(state, index, &matrix->filter, images);
    call_run(&state->engine, micro == 0 ? &matrix->unpack : &matrix->unpack_add);
    if (layer->bias && state->cpu.job.micro_batches > 1)
        collect(gradient + layer->parameters - layer->out.channels, layer->out.channels,
                state->bias, micro);
}

static void collect_norm(struct device_state *state, int32_t index, int32_t micro)
{
    const struct norm *norm = &state->place[index].norm;
    int64_t channels = state->cpu.job.model->layer[index].out.channels;
    float *gradient = state->cpu.gradient + state->cpu.layout.layer[index];
    for (int64_t c = 0; c < channels; c++) {
        float scale = (float)(norm->product[c] * (double)norm->inverse[c]);
        float shift = (float)norm->sum[c];
        collect(&gradient[c], 1, &scale, micro);
        collect(&gradient[channels + c], 1, &shift, micro);
    }
}

static void run_norm_backward(struct device_state *state, int32_t index, int32_t micro)
{
    const struct graph_node *node = &state->cpu.graph.node[index];
    int32_t whose = node->finishes;
    struct dnnl_place *place = &state->place[whose];
    struct blocked shape = state_shape(state, index);
    if (node->finish != index)
        return; /* done in the projection's last layer */
    bool shared = place->given[1] || whose != index || node->residual >= 0;
    struct norm_gradient gradient = {
        .first = place->given[0],
        .second = place->given[1],
        .top = layer_top(&state->cpu.job.model->layer[whose]),
        .value = shared ? place->y : NULL,
        .gradient = shared ? place->given[place->given[1] != NULL] : NULL,
        .norm = {&place->norm, whose != index ? &state->place[index].norm : NULL},
    };
    norm_backward_sums(&shape, &gradient, state->scratch);
    norm_backward(&shape, &gradient);
    if (node->residual >= 0 && model_is_general(state->cpu.job.model))
        add_to(state, node->residual, index, place->given[0]);
    collect_norm(state, index, micro);
    if (whose != index)
        collect_norm(state, whose, micro);
}

static void run_data(struct device_state *state, int32_t index, const float *images, int32_t micro)
{
    const struct layer *layer = &state->cpu.job.model->layer[index];
    struct dnnl_place *place = &state->place[index];
    if (layer->op == LAYER_BATCH_NORM) {
        run_norm_backward(state, index, micro);
        return;
    }
    settle(state, index);
    if (layer->op == LAYER_MAX_POOL) {
        call_run(&state->engine, &place->pool.backward);
    } else if (layer->op == LAYER_AVERAGE_POOL) {
        kernel_average_backward(layer, state->cpu.micro, state_shape(state, index).block,
                                place->given[0], state_dx(state, index));
    } else {
        pack(state, &place->matrix.pack_data, &place->matrix.packed_data);
        call_run(&state->engine, &place->matrix.narrow_dy);
        call_run(&state->engine, &place->matrix.data);
    }
    if (state_dx(state, index) != place->dx)
        add_to(state, state->cpu.graph.node[index].reads, index, state->beside);
}

static void multiply(struct device_state *state, const struct product *p)
{
    (void)state;
    MUST(dnnl_sgemm(p->across_a ? 'T' : 'N', p->across_b ? 'T' : 'N', p->rows, p->columns, p->inner,
                    p->scale, p->a, p->next_a, p->b, p->next_b, p->writes ? 0 : 1, p->c,
                    p->next_c));
}

/* Fill @to with a matrix (rows, columns) of which each row begins @next behind the one before,
 * times @scale, in bf16.  @return @to. */
static void *narrow(int64_t rows, int64_t columns, int64_t next, float scale, const float *from,
                    uint16_t *to)
{
    enum { PART = 1024 };
    int64_t parts = (columns + PART - 1) / PART;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows * parts; i++) {
        int64_t first = i % parts * PART, count = columns - first < PART ? columns - first : PART;
        float part[PART];
        const float *row = from + i / parts * next + first;
        for (int64_t k = 0; k < count && scale != 1; k++)
            part[k] = scale * row[k];
        half_from_float(DTYPE_BF16, count, scale != 1 ? part : row,
                        to + i / parts * columns + first);
    }
    return to;
}

/* The weights that b is, rounded once for each version of them. */
static void *narrow_weights(struct device_state *state, const struct product *p)
{
    struct dnnl_place *place = &state->place[p->owner - 1];
    uint16_t *to = state->narrow + (p->b - state->cpu.parameter);
    if (place->narrowed != state->cpu.version)
        narrow(1, p->columns * p->inner, 0, 1, p->b, to);
    place->narrowed = state->cpu.version;
    return to;
}

/* With operands in bf16, and sums in fp32. */
static void multiply_narrow(struct device_state *state, const struct product *p)
{
    struct engine engine;
    struct call call = {0};
    tensor_desc operand[3];
    void **room = &state->room[omp_get_thread_num() * ROOMS];
    bool over_a = p->across_a, over_b = p->across_b;
    engine_init(&engine, false);
    product_make(&engine, p, &call, operand);
    if (!p->again)
        narrow(over_a ? p->inner : p->rows, over_a ? p->rows : p->inner, p->next_a, p->scale, p->a,
               room[0]);
    void *b = p->owner && state->narrow
                  ? narrow_weights(state, p)
                  : narrow(over_b ? p->columns : p->inner, over_b ? p->inner : p->columns,
                           p->next_b, 1, p->b, room[1]);
    engine_share_scratch(&engine);
    call_add(&call, DNNL_ARG_SRC, engine_memory(&engine, operand[0], room[0]));
    call_add(&call, DNNL_ARG_WEIGHTS, engine_memory(&engine, operand[1], b));
    call_add(&call, DNNL_ARG_DST, engine_memory(&engine, operand[2], p->c));
    call_run(&engine, &call);
    call_close(&call);
    engine_release(&engine);
}

#define PASSES .forward = run_forward, .data = run_data, .filter = run_filter, .blocks = true
static const struct cpu_passes passes = {PASSES, .multiply = multiply},
                               narrow_passes = {PASSES, .multiply = multiply_narrow};

static const struct cpu_passes *passes_of(const struct device_job *job)
{
    return job->scenario->model.compute == DTYPE_BF16 ? &narrow_passes : &passes;
}

static void close_dnnl(struct device_state *state)
{
    if (!state)
        return;
    state_release(state);
    free(state);
}

static int open_dnnl(struct device_state **out, const struct device_job *job, struct err *err)
{
    if (check_types(job, err))
        return -1;
    *out = base_alloc(1, sizeof(**out));
    if (!state_init(*out, job, passes_of(job), false, err))
        return 0;
    close_dnnl(*out);
    return -1;
}

static int workspace(const struct device_job *job, int64_t *bytes, struct err *err)
{
    struct device_state state;
    if (check_types(job, err))
        return -1;
    int status = state_init(&state, job, passes_of(job), true, err);
    if (status == 0)
        *bytes = state.workspace;
    state_release(&state);
    return status;
}

const struct device_ops device_dnnl_ops = {
    .name = "cpu",
    .open = open_dnnl,
    .workspace = workspace,
    .close = close_dnnl,
    CPU_DEVICE_OPS,
};
