#include "models/build.h"

int32_t build_layer(struct model *model, int32_t from, const char *block, const char *role,
                    struct layer layer, const char *name, ...)
{
    va_list list;
    va_start(list, name);
    vsnprintf(layer.name, sizeof(layer.name), name, list);
    va_end(list);
    snprintf(layer.block, sizeof(layer.block), "%s", block);
    snprintf(layer.role, sizeof(layer.role), "%s", role);
    layer.input[0] = from;
    layer.input_count = 1;
    return model_add(model, layer);
}

void build_head(struct model *model, int32_t from)
{
    int32_t pool = build_layer(model, from, "head", "head",
                               (struct layer){.op = LAYER_AVERAGE_POOL,
                                              .out = {.height = 1, .width = 1},
                                              .kernel = model_shape(model, from).height,
                                              .stride = 1},
                               "avgpool");
    build_layer(model, pool, "head", "head",
                (struct layer){.op = LAYER_LINEAR,
                               .out.channels = model->classes,
                               .kernel = 1,
                               .stride = 1,
                               .bias = true},
                "fc");
}
