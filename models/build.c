#include "models/build.h"

#include <stdarg.h>
#include <stdio.h>

struct shape build_layer(struct model *model, const char *block, const char *role,
                         struct layer layer, const char *name, ...)
{
    va_list list;
    va_start(list, name);
    vsnprintf(layer.name, sizeof(layer.name), name, list);
    va_end(list);
    snprintf(layer.block, sizeof(layer.block), "%s", block);
    snprintf(layer.role, sizeof(layer.role), "%s", role);
    int32_t index = model_add(model, layer); /* may move the array */
    return model->layer[index].out;
}

void build_head(struct model *model, struct shape in)
{
    struct shape pooled = build_layer(model, "head", "head",
                                      (struct layer){.op = LAYER_AVERAGE_POOL,
                                                     .in = in,
                                                     .out = {.height = 1, .width = 1},
                                                     .kernel = in.height,
                                                     .stride = 1},
                                      "avgpool");
    build_layer(model, "head", "head",
                (struct layer){.op = LAYER_LINEAR,
                               .in = pooled,
                               .out.channels = model->classes,
                               .kernel = 1,
                               .stride = 1,
                               .bias = true},
                "fc");
}
