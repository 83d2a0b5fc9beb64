#include "core/base/base.h"
#include "exec/cpu/dnnl/device_dnnl_engine.h"

/* Version 2 fills a description first, where what can be dilated has a name of its own. */
#if DNNL_VERSION_MAJOR < 3
#define CONVOLUTION(pass, ...)                                                                     \
    dnnl_dilated_convolution_##pass##_desc_init(&d.convolution, __VA_ARGS__)
#define LINEAR(pass, ...) dnnl_inner_product_##pass##_desc_init(&d.linear, __VA_ARGS__)
#define POOL(pass, ...)   dnnl_pooling_v2_##pass##_desc_init(&d.pool, __VA_ARGS__)
#define HINT(last)        last
#define TENSOR(name, by, ...)                                                                      \
    dnnl_memory_desc_t *name = base_alloc(1, sizeof(*name));                                       \
    MUST(dnnl_memory_desc_init_by_##by(name, __VA_ARGS__))
#define ADD(to)  dnnl_post_ops_append_sum(to, 1)
#define RELU(to) dnnl_post_ops_append_eltwise(to, 1, dnnl_eltwise_relu, 0, 0)
#else
#define CREATE(kind, ...)      dnnl_##kind##_primitive_desc_create(desc, engine, __VA_ARGS__, attr)
#define CONVOLUTION(pass, ...) CREATE(convolution_##pass, __VA_ARGS__)
#define LINEAR(pass, ...)      CREATE(inner_product_##pass, __VA_ARGS__)
#define POOL(pass, ...)        CREATE(pooling_##pass, __VA_ARGS__)
#define HINT(last)             last, forward
#define TENSOR(name, by, ...)                                                                      \
    dnnl_memory_desc_t name;                                                                       \
    MUST(dnnl_memory_desc_create_with_##by(&name, __VA_ARGS__))
#define ADD(to)  dnnl_post_ops_append_sum(to, 1, 0, dnnl_data_type_undef)
#define RELU(to) dnnl_post_ops_append_eltwise(to, dnnl_eltwise_relu, 0, 0)
#endif

static tensor_desc keep(struct engine *engine, tensor_desc desc)
{
    return BASE_NEXT(engine->tensor, engine->tensors) = desc;
}

tensor_desc engine_tensor(struct engine *engine, int32_t count, const dnnl_dims_t size,
                          dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    TENSOR(desc, tag, count, size, type, tag);
    return keep(engine, desc);
}

tensor_desc engine_matrix(struct engine *engine, int64_t rows, int64_t columns, int64_t down,
                          int64_t right, dnnl_data_type_t type)
{
    const dnnl_dims_t size = {rows, columns}, strides = {down, right};
    TENSOR(desc, strides, 2, size, type, strides);
    return keep(engine, desc);
}

dnnl_primitive_attr_t attributes_new(enum then then)
{
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t after;
    MUST(dnnl_primitive_attr_create(&attr));
    MUST(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
    MUST(dnnl_post_ops_create(&after));
    if (then == THEN_ADD)
        MUST(ADD(after));
    if (then == THEN_RELU)
        MUST(RELU(after));
    MUST(dnnl_primitive_attr_set_post_ops(attr, after));
    dnnl_post_ops_destroy(after);
    return attr;
}

dnnl_status_t operation_describe(dnnl_engine_t engine, const struct operation *o,
                                 dnnl_primitive_desc_t forward, dnnl_primitive_desc_t *desc)
{
    const struct layer *l = o->layer;
    const dnnl_prop_kind_t train = dnnl_forward_training;
    const dnnl_alg_kind_t how = o->algorithm;
    const dnnl_dims_t kernel = {l->kernel, l->kernel}, stride = {l->stride, l->stride};
    const dnnl_dims_t padding = {l->padding, l->padding}, none = {0};
    const bool pool = l->op == LAYER_MAX_POOL, linear = l->op == LAYER_LINEAR;
    dnnl_primitive_attr_t attr = attributes_new(o->then);
    dnnl_status_t status;
#if DNNL_VERSION_MAJOR < 3
    union {
        dnnl_convolution_desc_t convolution;
        dnnl_inner_product_desc_t linear;
        dnnl_pooling_v2_desc_t pool;
    } d;
#endif
    if (pool && o->pass == PASS_FORWARD)
        status = POOL(forward, train, how, o->x, o->y, stride, kernel, none, padding, padding);
    else if (pool)
        status = POOL(backward, how, o->x, o->y, stride, kernel, none, padding, HINT(padding));
    else if (linear && o->pass == PASS_FORWARD)
        status = LINEAR(forward, train, o->x, o->w, o->b, o->y);
    else if (linear && o->pass == PASS_BACKWARD_DATA)
        status = LINEAR(backward_data, o->x, o->w, HINT(o->y));
    else if (linear)
        status = LINEAR(backward_weights, o->x, o->w, o->b, HINT(o->y));
    else if (o->pass == PASS_FORWARD)
        status = CONVOLUTION(forward, train, how, o->x, o->w, o->b, o->y, stride, none, padding,
                             padding);
    else if (o->pass == PASS_BACKWARD_DATA)
        status =
            CONVOLUTION(backward_data, how, o->x, o->w, o->y, stride, none, padding, HINT(padding));
    else
        status = CONVOLUTION(backward_weights, how, o->x, o->w, o->b, o->y, stride, none, padding,
                             HINT(padding));
#if DNNL_VERSION_MAJOR < 3
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(desc, &d, attr, engine, forward);
#endif
    dnnl_primitive_attr_destroy(attr);
    return status;
}

dnnl_primitive_desc_t product_describe(dnnl_engine_t engine, tensor_desc a, tensor_desc b,
                                       tensor_desc c, enum then then)
{
    dnnl_primitive_attr_t attr = attributes_new(then);
    dnnl_primitive_desc_t desc;
#if DNNL_VERSION_MAJOR < 3
    dnnl_matmul_desc_t d;
    MUST(dnnl_matmul_desc_init(&d, a, b, NULL, c));
    MUST(dnnl_primitive_desc_create(&desc, &d, attr, engine, NULL));
#else
    MUST(dnnl_matmul_primitive_desc_create(&desc, engine, a, b, NULL, c, attr));
#endif
    dnnl_primitive_attr_destroy(attr);
    return desc;
}
