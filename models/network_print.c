#include "models/networks.h"

static const char *name_of(const struct model *model, int32_t index)
{
    return index < 0 ? "input" : model->layer[index].name;
}

static void put_number(struct text *out, const char *key, int64_t value, int64_t usual)
{
    if (value != usual)
        text_add(out, ", %s: %" PRId64, key, value);
}

static void put_shape(struct text *out, const char *key, struct shape shape)
{
    text_add(out, ", %s: %dx%dx%d", key, shape.channels, shape.height, shape.width);
}

static bool same(struct shape a, struct shape b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

static void put_layer(struct text *out, const struct model *model, const struct layer *layer)
{
    bool window = layer->op == LAYER_CONVOLUTION || layer->op == LAYER_TRANSPOSED ||
                  layer->op == LAYER_MAX_POOL || layer->op == LAYER_AVERAGE_POOL;
    struct layer plain = *layer;
    plain.out.height = 0;
    int32_t inputs = layer->input_count - layer->residual;
    text_add(out, "  - {name: %s, kind: %s, inputs: [", layer->name, layer_op_names[layer->op]);
    for (int32_t i = 0; i < inputs; i++)
        text_add(out, "%s%s", i > 0 ? ", " : "", name_of(model, layer->input[i]));
    text_add(out, "]");
    if (layer->residual)
        text_add(out, ", add: %s", name_of(model, layer->input[inputs]));
    if (!same(layer->in, model_shape(model, layer->input[0])))
        put_shape(out, "in", layer->in);
    if (layer->kernel_width || layer->op == LAYER_MATMUL ||
        !same(layer->out, model_output(model, &plain)))
        put_shape(out, "out", layer->out);
    if (layer_has_arithmetic(layer) || layer->op == LAYER_EMBEDDING)
        put_number(out, "channels", layer->out.channels, 0);
    if (window) {
        put_number(out, "kernel", layer->kernel, 0);
        put_number(out, "kernel_width", layer->kernel_width, 0);
        put_number(out, "stride", layer->stride, 1);
        put_number(out, "padding", layer->padding, 0);
    }
    put_number(out, "groups", layer->groups > 1 ? layer->groups : 1, 1);
    put_number(out, "inner", layer->inner, 0);
    put_number(out, "rows", layer->rows, 0);
    put_number(out, "experts", layer->experts, 0);
    put_number(out, "parameters", layer->constants, 0);
    put_number(out, "flops", layer->flops, 0);
    put_number(out, "elements", layer->elements, 0);
    if (layer->weights_of)
        text_add(out, ", weights_of: %s", name_of(model, layer->weights_of - 1));
    text_add(out, "%s%s%s}\n", layer->bias ? ", bias: true" : "",
             layer->frozen ? ", frozen: true" : "",
             layer->capped ? ", relu: 6"
             : layer->relu ? ", relu: true"
                           : "");
}

void network_print(struct text *out, const struct model *model)
{
    struct shape in = model->input;
    text_add(out, "version: 1\nname: %s\ninput: %dx%dx%d\nlayers:\n", model->name, in.channels,
             in.height, in.width);
    for (int32_t i = 0; i < model->layer_count; i++)
        put_layer(out, model, &model->layer[i]);
}
