#include "exec/cpu/dnnl/device_dnnl_call.h"

#include <string.h>

#include "core/base/base.h"

/* One layer while its primitives are made. */
struct maker {
    struct engine *engine;
    const struct layer *layer;
    const struct call_arrays *arrays;
    struct err *err;
    dnnl_primitive_attr_t plain;   /* attributes() */
    dnnl_primitive_desc_t forward; /* hint for the backward primitives */
    dnnl_memory_desc_t x, y;
    dnnl_memory_desc_t narrow_x, narrow_y; /* as matrix arithmetic reads them */
    dnnl_memory_desc_t flat, any, bias;    /* of the weights */
    dnnl_memory_desc_t narrow_any;         /* as matrix arithmetic reads them */
};

static int refuse(const struct maker *m, dnnl_status_t status)
{
    return err_add_code(m->err, 69,
                        "oneDNN cannot run layer %s (status %d); use --device cpu-naive",
                        m->layer->name, (int)status);
}

/* The primitive that @op describes. */
static int describe(struct maker *m, const_dnnl_op_desc_t op, const_dnnl_primitive_attr_t attr,
                    dnnl_primitive_desc_t *desc)
{
    dnnl_status_t status =
        dnnl_primitive_desc_create(desc, op, attr, m->engine->engine, m->forward);
    return status == dnnl_success ? 0 : refuse(m, status);
}

/* The attribute of all primitives: we provide their working space. */
static dnnl_primitive_attr_t attributes(void)
{
    dnnl_primitive_attr_t attr;
    MUST(dnnl_primitive_attr_create(&attr));
    MUST(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
    return attr;
}

static dnnl_memory_desc_t describe_tensor(int32_t count, const int64_t *size, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t desc;
    dnnl_dims_t dims;
    for (int32_t i = 0; i < count; i++)
        dims[i] = size[i];
    MUST(dnnl_memory_desc_init_by_tag(&desc, count, dims, dnnl_f32, tag));
    return desc;
}

static dnnl_memory_desc_t describe_values(struct shape shape, int64_t images, dnnl_format_tag_t tag)
{
    int64_t size[] = {images, shape.channels, shape.height, shape.width};
    return describe_tensor(4, size, tag);
}

static dnnl_format_tag_t tag_of(struct call_layout layout)
{
    return layout.blocks ? dnnl_aBcd16b : dnnl_acdb;
}

/* A copy from one layout to another, or onto it. */
static void make_reorder(struct engine *engine, const dnnl_memory_desc_t *from, void *source,
                         const dnnl_memory_desc_t *to, void *target, bool add, struct call *call)
{
    dnnl_primitive_attr_t attr = attributes();
    dnnl_post_ops_t then;
    dnnl_primitive_desc_t desc;
    MUST(dnnl_post_ops_create(&then));
    if (add)
        MUST(dnnl_post_ops_append_sum(then, 1));
    MUST(dnnl_primitive_attr_set_post_ops(attr, then));
    MUST(dnnl_reorder_primitive_desc_create(&desc, from, engine->engine, to, engine->engine, attr));
    engine_make(engine, desc, call);
    call_add(call, DNNL_ARG_FROM, engine_memory(engine, from, source));
    call_add(call, DNNL_ARG_TO, engine_memory(engine, to, target));
    dnnl_primitive_desc_destroy(desc);
    dnnl_post_ops_destroy(then);
    dnnl_primitive_attr_destroy(attr);
}

/* Weights in the layout of the primitive @desc: the masters themselves, or a copy that @pack
 * fills. */
static dnnl_memory_t weights(struct maker *m, dnnl_primitive_desc_t desc, struct call *pack)
{
    const dnnl_memory_desc_t *wanted = dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0);
    float *data = m->arrays->parameter;
    if (!dnnl_memory_desc_equal(wanted, &m->flat)) {
        data = engine_alloc(m->engine,
                            (int64_t)(dnnl_memory_desc_get_size(wanted) / sizeof(float)) + 1);
        make_reorder(m->engine, &m->flat, m->arrays->parameter, wanted, data, false, pack);
    }
    return engine_memory(m->engine, wanted, data);
}

/* The place of the gradient of weights from the primitive @desc, and the copy from there. */
static dnnl_memory_t weight_gradient(struct maker *m, dnnl_primitive_desc_t desc,
                                     struct matrix *matrix)
{
    const dnnl_memory_desc_t *wanted =
        dnnl_primitive_desc_query_md(desc, dnnl_query_diff_weights_md, 0);
    if (m->arrays->direct && dnnl_memory_desc_equal(wanted, &m->flat))
        return engine_memory(m->engine, wanted, m->arrays->gradient);
    int64_t elements = (int64_t)(dnnl_memory_desc_get_size(wanted) / sizeof(float));
    float *dw =
        elements <= m->arrays->dw_elements ? m->arrays->dw : engine_alloc(m->engine, elements);
    make_reorder(m->engine, wanted, dw, &m->flat, m->arrays->gradient, false, &matrix->unpack);
    make_reorder(m->engine, wanted, dw, &m->flat, m->arrays->gradient, true, &matrix->unpack_add);
    return engine_memory(m->engine, wanted, dw);
}

/* ---- convolutions and linear layers ---- */

static int64_t weight_count(const struct layer *layer)
{
    return layer->parameters - (layer->bias ? layer->out.channels : 0);
}

/* The place of the gradient of the biases: after that of the weights. */
static float *bias_gradient(const struct maker *m)
{
    return m->arrays->direct ? m->arrays->gradient + weight_count(m->layer) : m->arrays->bias;
}

/* A linear layer on one pixel is oneDNN's two-dimensional one. */
static bool is_flat(const struct layer *layer)
{
    return layer->op == LAYER_LINEAR && layer->in.height * layer->in.width == 1;
}

static dnnl_memory_desc_t with_type(dnnl_memory_desc_t desc, dnnl_data_type_t type)
{
    desc.data_type = type;
    return desc;
}

static void describe_shapes(struct maker *m, struct call_layout layout)
{
    const struct layer *l = m->layer;
    int32_t axes = is_flat(l) ? 2 : 4;
    int64_t weight[] = {l->out.channels, l->in.channels, l->kernel, l->kernel};
    int64_t vector_in[] = {layout.images, l->in.channels};
    int64_t vector_out[] = {layout.images, l->out.channels}, outputs = l->out.channels;
    if (l->op == LAYER_LINEAR) {
        weight[2] = l->in.height;
        weight[3] = l->in.width;
    }
    m->flat = describe_tensor(axes, weight, axes == 2 ? dnnl_ab : dnnl_abcd);
    m->any = describe_tensor(axes, weight, dnnl_format_tag_any);
    m->x = axes == 2
               ? describe_tensor(2, vector_in, dnnl_ab)
               : describe_values(l->in, layout.images, layout.planar ? dnnl_abcd : tag_of(layout));
    m->y = l->op == LAYER_LINEAR ? describe_tensor(2, vector_out, dnnl_ab)
                                 : describe_values(l->out, layout.images, tag_of(layout));
    if (l->bias)
        m->bias = describe_tensor(1, &outputs, dnnl_a);
    dnnl_data_type_t type = m->arrays->narrow_x ? dnnl_bf16 : dnnl_f32;
    m->narrow_x = with_type(m->x, type);
    m->narrow_y = with_type(m->y, type);
    m->narrow_any = with_type(m->any, type);
}

/* x and dy in the type of matrix arithmetic: themselves, or a copy that a reorder fills. */
static dnnl_memory_t narrow(struct maker *m, const dnnl_memory_desc_t *from, void *data,
                            const dnnl_memory_desc_t *to, void *copy, struct call *call)
{
    if (!copy)
        return engine_memory(m->engine, from, data);
    if (!call->operands)
        make_reorder(m->engine, from, data, to, copy, false, call);
    return engine_memory(m->engine, to, copy);
}

/* Either kind of layer; what oneDNN calls them. */
union description {
    dnnl_convolution_desc_t convolution;
    dnnl_inner_product_desc_t linear;
};

static dnnl_status_t describe_pass(const struct maker *m, enum pass pass, dnnl_alg_kind_t algorithm,
                                   union description *d)
{
    const struct layer *l = m->layer;
    const dnnl_dims_t stride = {l->stride, l->stride}, padding = {l->padding, l->padding};
    const dnnl_memory_desc_t *x = pass == PASS_BACKWARD_DATA ? &m->x : &m->narrow_x;
    const dnnl_memory_desc_t *y = pass == PASS_FORWARD ? &m->y : &m->narrow_y;
    const dnnl_memory_desc_t *w = pass == PASS_BACKWARD_FILTER ? &m->any : &m->narrow_any;
    const dnnl_memory_desc_t *b = l->bias ? &m->bias : NULL;
    if (l->op == LAYER_LINEAR) {
        if (pass == PASS_FORWARD)
            return dnnl_inner_product_forward_desc_init(&d->linear, dnnl_forward_training, x, w, b,
                                                        y);
        if (pass == PASS_BACKWARD_DATA)
            return dnnl_inner_product_backward_data_desc_init(&d->linear, x, w, y);
        return dnnl_inner_product_backward_weights_desc_init(&d->linear, x, w, b, y);
    }
    if (pass == PASS_FORWARD)
        return dnnl_convolution_forward_desc_init(&d->convolution, dnnl_forward_training, algorithm,
                                                  x, w, b, y, stride, padding, padding);
    if (pass == PASS_BACKWARD_DATA)
        return dnnl_convolution_backward_data_desc_init(&d->convolution, algorithm, x, w, y, stride,
                                                        padding, padding);
    return dnnl_convolution_backward_weights_desc_init(&d->convolution, algorithm, x, w, b, y,
                                                       stride, padding, padding);
}

/* Winograd's algorithm needs 4 times fewer multiplications in convolutions of 3 x 3 than the direct
 * one, and more additions; oneDNN has it for AVX-512.  Measured on ResNet-50 with 8 images: twice
 * as fast in all three passes.  Small layers, not measured, stay direct. */
static bool suits_winograd(const struct maker *m)
{
    const int32_t channels = 64, side = 7;
    const struct layer *l = m->layer;
    return !m->arrays->narrow_x && l->op == LAYER_CONVOLUTION && l->kernel == 3 && l->stride == 1 &&
           l->padding == 1 && l->in.channels >= channels && l->out.channels >= channels &&
           l->out.height >= side;
}

static int describe_matrix(struct maker *m, enum pass pass, const_dnnl_primitive_attr_t attr,
                           dnnl_primitive_desc_t *desc)
{
    union description d;
    if (suits_winograd(m) &&
        describe_pass(m, pass, dnnl_convolution_winograd, &d) == dnnl_success &&
        dnnl_primitive_desc_create(desc, &d, attr, m->engine->engine, m->forward) == dnnl_success)
        return 0;
    dnnl_status_t status = describe_pass(m, pass, dnnl_convolution_direct, &d);
    return status == dnnl_success ? describe(m, &d, attr, desc) : refuse(m, status);
}

static dnnl_memory_t narrow_x(struct maker *m, struct matrix *matrix)
{
    return narrow(m, &m->x, m->arrays->x, &m->narrow_x, m->arrays->narrow_x, &matrix->narrow_x);
}

static dnnl_memory_t narrow_dy(struct maker *m, struct matrix *matrix)
{
    return narrow(m, &m->y, m->arrays->dy, &m->narrow_y, m->arrays->narrow_dy, &matrix->narrow_dy);
}

static int make_forward(struct maker *m, struct matrix *matrix)
{
    dnnl_primitive_attr_t attr = attributes();
    dnnl_post_ops_t then;
    MUST(dnnl_post_ops_create(&then));
    if (m->layer->relu)
        MUST(dnnl_post_ops_append_eltwise(then, 1, dnnl_eltwise_relu, 0, 0));
    MUST(dnnl_primitive_attr_set_post_ops(attr, then));
    int status = describe_matrix(m, PASS_FORWARD, attr, &m->forward);
    dnnl_post_ops_destroy(then);
    dnnl_primitive_attr_destroy(attr);
    if (status)
        return -1;
    struct call *call = &matrix->forward;
    engine_make(m->engine, m->forward, call);
    call_add(call, DNNL_ARG_SRC, narrow_x(m, matrix));
    call_add(call, DNNL_ARG_WEIGHTS, weights(m, m->forward, &matrix->pack_forward));
    call_add(call, DNNL_ARG_DST, engine_memory(m->engine, &m->y, m->arrays->y));
    if (m->layer->bias)
        call_add(call, DNNL_ARG_BIAS,
                 engine_memory(m->engine, &m->bias, m->arrays->parameter + weight_count(m->layer)));
    return 0;
}

static int make_data(struct maker *m, struct matrix *matrix)
{
    dnnl_primitive_desc_t desc;
    if (!m->arrays->dx)
        return 0;
    if (describe_matrix(m, PASS_BACKWARD_DATA, m->plain, &desc))
        return -1;
    struct call *call = &matrix->data;
    engine_make(m->engine, desc, call);
    call_add(call, DNNL_ARG_DIFF_DST, narrow_dy(m, matrix));
    call_add(call, DNNL_ARG_WEIGHTS, weights(m, desc, &matrix->pack_data));
    call_add(call, DNNL_ARG_DIFF_SRC, engine_memory(m->engine, &m->x, m->arrays->dx));
    dnnl_primitive_desc_destroy(desc);
    return 0;
}

static int make_filter(struct maker *m, struct matrix *matrix)
{
    dnnl_primitive_desc_t desc;
    if (describe_matrix(m, PASS_BACKWARD_FILTER, m->plain, &desc))
        return -1;
    struct call *call = &matrix->filter;
    engine_make(m->engine, desc, call);
    call_add(call, DNNL_ARG_SRC, narrow_x(m, matrix));
    call_add(call, DNNL_ARG_DIFF_DST, narrow_dy(m, matrix));
    call_add(call, DNNL_ARG_DIFF_WEIGHTS, weight_gradient(m, desc, matrix));
    if (m->layer->bias)
        call_add(call, DNNL_ARG_DIFF_BIAS, engine_memory(m->engine, &m->bias, bias_gradient(m)));
    dnnl_primitive_desc_destroy(desc);
    return 0;
}

int matrix_open(struct engine *engine, const struct layer *layer, struct call_layout layout,
                const struct call_arrays *arrays, struct matrix *matrix, struct err *err)
{
    struct maker m = {
        .engine = engine, .layer = layer, .arrays = arrays, .err = err, .plain = attributes()};
    *matrix = (struct matrix){.packed_forward = -1, .packed_data = -1};
    describe_shapes(&m, layout);
    int status = make_forward(&m, matrix) || make_data(&m, matrix) || make_filter(&m, matrix);
    if (m.forward)
        dnnl_primitive_desc_destroy(m.forward);
    dnnl_primitive_attr_destroy(m.plain);
    return status ? -1 : 0;
}

void matrix_close(struct matrix *matrix)
{
    struct call *const call[] = {&matrix->forward,      &matrix->data,      &matrix->filter,
                                 &matrix->pack_forward, &matrix->pack_data, &matrix->unpack,
                                 &matrix->unpack_add,   &matrix->narrow_x,  &matrix->narrow_dy};
    for (size_t i = 0; i < ARRAY_SIZE(call); i++)
        call_close(call[i]);
}

/* ---- pools ---- */

static int make_pool(struct maker *m, struct pool *pool)
{
    const struct layer *l = m->layer;
    const dnnl_dims_t stride = {l->stride, l->stride}, kernel = {l->kernel, l->kernel};
    const dnnl_dims_t padding = {l->padding, l->padding};
    dnnl_pooling_desc_t d;
    dnnl_primitive_desc_t desc;
    MUST(dnnl_pooling_forward_desc_init(&d, dnnl_forward_training, dnnl_pooling_max, &m->x, &m->y,
                                        stride, kernel, padding, padding));
    if (describe(m, &d, m->plain, &m->forward))
        return -1;
    const dnnl_memory_desc_t *where =
        dnnl_primitive_desc_query_md(m->forward, dnnl_query_workspace_md, 0);
    int64_t floats = (int64_t)(dnnl_memory_desc_get_size(where) / sizeof(float)) + 1;
    dnnl_memory_t chosen = engine_memory(m->engine, where, engine_alloc(m->engine, floats));
    engine_make(m->engine, m->forward, &pool->forward);
    call_add(&pool->forward, DNNL_ARG_SRC, engine_memory(m->engine, &m->x, m->arrays->x));
    call_add(&pool->forward, DNNL_ARG_DST, engine_memory(m->engine, &m->y, m->arrays->y));
    call_add(&pool->forward, DNNL_ARG_WORKSPACE, chosen);
    MUST(dnnl_pooling_backward_desc_init(&d, dnnl_pooling_max, &m->x, &m->y, stride, kernel,
                                         padding, padding));
    if (!m->arrays->dx)
        return 0;
    if (describe(m, &d, m->plain, &desc))
        return -1;
    engine_make(m->engine, desc, &pool->backward);
    call_add(&pool->backward, DNNL_ARG_DIFF_DST, engine_memory(m->engine, &m->y, m->arrays->dy));
    call_add(&pool->backward, DNNL_ARG_DIFF_SRC, engine_memory(m->engine, &m->x, m->arrays->dx));
    call_add(&pool->backward, DNNL_ARG_WORKSPACE, chosen);
    dnnl_primitive_desc_destroy(desc);
    return 0;
}

int pool_open(struct engine *engine, const struct layer *layer, struct call_layout layout,
              const struct call_arrays *arrays, struct pool *pool, struct err *err)
{
    struct maker m = {
        .engine = engine, .layer = layer, .arrays = arrays, .err = err, .plain = attributes()};
    *pool = (struct pool){0};
    m.x = describe_values(layer->in, layout.images, tag_of(layout));
    m.y = describe_values(layer->out, layout.images, tag_of(layout));
    int status = make_pool(&m, pool);
    if (m.forward)
        dnnl_primitive_desc_destroy(m.forward);
    dnnl_primitive_attr_destroy(m.plain);
    return status;
}

void pool_close(struct pool *pool)
{
    call_close(&pool->forward);
    call_close(&pool->backward);
}
