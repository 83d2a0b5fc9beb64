#include "app/show/show_model.h"

#include "core/base/json.h"
#include "models/networks.h"

enum { IMAGENET_CLASSES = 1000, IMAGENET_IMAGE = 224 };

static void print_text(struct text *out, const struct model *model)
{
    struct shape in = model->input;
    AUTOFREE char *size = model->image ? base_format("%d pixels", model->image)
                                       : base_format("%dx%dx%d", in.channels, in.height, in.width);
    text_add(out, "%-28s %-12s %-16s %12s %14s %14s %14s\n", "layer", "kind", "output",
             "parameters", "forward", "backward-data", "backward-filter");
    for (int32_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layer[i];
        AUTOFREE char *shape =
            base_format("%dx%dx%d", layer->out.channels, layer->out.height, layer->out.width);
        text_add(out, "%-28s %-12s %-16s %12lld %14lld %14lld %14lld\n", layer->name,
                 layer_op_names[layer->op], shape, (long long)layer->parameters,
                 (long long)layer_flops(layer, PASS_FORWARD),
                 (long long)layer_flops(layer, PASS_BACKWARD_DATA),
                 (long long)layer_flops(layer, PASS_BACKWARD_FILTER));
    }
    text_add(out, "%-58s %12lld %14lld %14lld %14lld\n", "sum", (long long)model_parameters(model),
             (long long)model_flops(model, PASS_FORWARD),
             (long long)model_flops(model, PASS_BACKWARD_DATA),
             (long long)model_flops(model, PASS_BACKWARD_FILTER));
    text_add(out,
             "\n%s at %s: %d layers, %d tensors, %lld parameters, %lld multiply-adds "
             "forward.\nColumns are FLOP per image; one multiply-add is two.\n",
             model->name, size, model->layer_count, model->tensor_count,
             (long long)model_parameters(model), (long long)model_flops(model, PASS_FORWARD) / 2);
}

static struct json *flops_json(int64_t forward, int64_t data, int64_t filter)
{
    struct json *flops = json_new_object();
    json_put_integer(flops, "forward", forward);
    json_put_integer(flops, "backward_data", data);
    json_put_integer(flops, "backward_filter", filter);
    return flops;
}

static struct json *inputs_json(const struct model *model, const struct layer *layer)
{
    struct json *inputs = json_new_array();
    for (int32_t i = 0; i < layer->input_count; i++)
        json_append_text(inputs,
                         layer->input[i] < 0 ? "input" : model->layer[layer->input[i]].name);
    return inputs;
}

static struct json *layer_json(const struct model *model, const struct layer *layer)
{
    struct json *json = json_new_object();
    json_put_text(json, "name", layer->name);
    json_put_text(json, "kind", layer_op_names[layer->op]);
    json_put(json, "inputs", inputs_json(model, layer));
    json_put_integer(json, "channels", layer->out.channels);
    json_put_integer(json, "height", layer->out.height);
    json_put_integer(json, "width", layer->out.width);
    json_put_integer(json, "parameters", layer->parameters);
    json_put(json, "flops",
             flops_json(layer_flops(layer, PASS_FORWARD), layer_flops(layer, PASS_BACKWARD_DATA),
                        layer_flops(layer, PASS_BACKWARD_FILTER)));
    return json;
}

static void print_json(struct text *out, const struct model *model)
{
    AUTORELEASE(json) struct json *json = json_new_object();
    json_put_text(json, "schema", "foretrain/model/1");
    json_put_text(json, "name", model->name);
    json_put_integer(json, "image", model->image);
    json_put_integer(json, "parameters", model_parameters(model));
    json_put_integer(json, "tensors", model->tensor_count);
    json_put(json, "flops",
             flops_json(model_flops(model, PASS_FORWARD), model_flops(model, PASS_BACKWARD_DATA),
                        model_flops(model, PASS_BACKWARD_FILTER)));
    struct json *layers = json_put_array(json, "layers");
    for (int32_t i = 0; i < model->layer_count; i++)
        json_append(layers, layer_json(model, &model->layer[i]));
    json_print(out, json);
}

int show_model(const char *name, int32_t image, enum show_model_form form, struct text *out,
               struct err *err)
{
    if (image && network_is_file(name))
        return err_add_code(err, 64, "--image has no effect on %s, which says its input", name);
    struct model *model = network_open(name, image ? image : IMAGENET_IMAGE, IMAGENET_CLASSES, err);
    if (!model)
        return -1;
    if (form == SHOW_MODEL_JSON)
        print_json(out, model);
    else if (form == SHOW_MODEL_YAML)
        network_print(out, model);
    else
        print_text(out, model);
    model_free(model);
    return 0;
}
