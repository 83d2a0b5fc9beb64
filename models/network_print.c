#include "models/networks.h"

static const char *name_of(const struct model *model, int32_t index)
{
    return index < 0 ? "input" : model->layer[index].name;
}

static void put_number(struct text *out, const struct layer *layer, const char *key, int64_t value,
                       int64_t usual)
{
    if (value != usual && network_takes(layer->op, key))
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
    put_number(out, layer, "channels", layer->out.channels, 0);
    put_number(out, layer, "kernel", layer->kernel, 0);
    put_number(out, layer, "kernel_width", layer->kernel_width, 0);
    put_number(out, layer, "stride", layer->stride, 1);
    put_number(out, layer, "padding", layer->padding, 0);
    put_number(out, layer, "groups", layer->groups > 1 ? layer->groups : 1, 1);
    put_number(out, layer, "inner", layer->inner, 0);
    put_number(out, layer, "rows", layer->rows, 0);
    put_number(out, layer, "experts", layer->experts, 0);
    put_number(out, layer, "parameters", layer->constants, 0);
    put_number(out, layer, "flops", layer->flops, 0);
    put_number(out, layer, "elements", layer->elements, 0);
    if (layer->weights_of)
        text_add(out, ", weights_of: %s", name_of(model, layer->weights_of - 1));
    text_add(out, "%s%s%s}\n", layer->bias ? ", bias: true" : "",
             layer->frozen && network_takes(layer->op, "frozen") ? ", frozen: true" : "",
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
