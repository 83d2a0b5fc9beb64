/* VGG with 16 weight layers.  Source: Simonyan and Zisserman, "Very deep convolutional networks
 * for large-scale image recognition", 2014, configuration D; names, and the adaptive pool to
 * 7x7, which allows any image size: torchvision.  Dropout is left out: it moves and computes
 * almost nothing. */

#include "models/build.h"

enum { POOL = 0 };

static int32_t add_features(struct model *model)
{
    static const int32_t plan[] = {64,   64,  POOL, 128, 128,  POOL, 256, 256, 256,
                                   POOL, 512, 512,  512, POOL, 512,  512, 512, POOL};
    int32_t at = -1;
    int32_t position = 0; /* in torchvision's list, where a ReLU follows each convolution */
    for (size_t i = 0; i < ARRAY_SIZE(plan); i++) {
        struct layer layer = {.op = LAYER_MAX_POOL, .kernel = 2, .stride = 2};
        if (plan[i] != POOL)
            layer = (struct layer){.op = LAYER_CONVOLUTION,
                                   .out.channels = plan[i],
                                   .kernel = 3,
                                   .stride = 1,
                                   .padding = 1,
                                   .bias = true,
                                   .relu = true};
        at = build_layer(model, at, "features", "body", layer, "features.%d", position);
        position += plan[i] == POOL ? 1 : 2;
    }
    return at;
}

static int32_t add_linear(struct model *model, int32_t position, int32_t from, int32_t out,
                          bool relu)
{
    struct layer layer = {.op = LAYER_LINEAR,
                          .out.channels = out,
                          .kernel = 1,
                          .stride = 1,
                          .bias = true,
                          .relu = relu};
    return build_layer(model, from, "classifier", "head", layer, "classifier.%d", position);
}

void vgg_build(struct model *model)
{
    int32_t at = add_features(model), side = model_shape(model, at).height;
    int32_t window = side > 7 ? side / 7 : 1;
    at = build_layer(model, at, "classifier", "head",
                     (struct layer){.op = LAYER_AVERAGE_POOL,
                                    .out = {.height = 7, .width = 7},
                                    .kernel = window,
                                    .stride = window},
                     "avgpool");
    at = add_linear(model, 0, at, 4096, true);
    at = add_linear(model, 3, at, 4096, true);
    add_linear(model, 6, at, model->classes, false);
}
