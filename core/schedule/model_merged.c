/* What is left of a layer that is part of another's kernel. */

#include "core/schedule/model.h"

/* Of the layers between both products of attention. */
static bool is_between(const struct layer *layer)
{
    return layer->op == LAYER_SOFTMAX || layer->op == LAYER_DROPOUT || layer->op == LAYER_ADD ||
           layer->op == LAYER_MULTIPLY || layer->op == LAYER_OTHER;
}

/* The product that layer @index or a layer @behind or before it is, on a path of values that one
 * layer reads, or NULL; @softmax: whether a softmax is on the way. */
static const struct layer *find_product(const struct model *model, int32_t index, bool behind,
                                        bool *softmax)
{
    while (index >= 0) {
        const struct layer *layer = &model->layer[index];
        if (layer->op == LAYER_MATMUL)
            return layer;
        *softmax = *softmax || layer->op == LAYER_SOFTMAX;
        if (!is_between(layer) || layer->readers != 1)
            return NULL;
        index = behind ? layer->reader : layer->input[0];
    }
    return NULL;
}

/* Whether @layer is the first product of attention, or the second with @second. */
static bool is_product(const struct model *model, const struct layer *layer, bool second)
{
    bool softmax = false;
    int32_t from = second ? layer->input[0] : layer->readers == 1 ? layer->reader : -1;
    return layer->op == LAYER_MATMUL && find_product(model, from, !second, &softmax) && softmax;
}

bool model_attends(const struct model *model, int32_t index)
{
    const struct layer *layer = &model->layer[index];
    bool softmax = false;
    if (layer->op == LAYER_MATMUL)
        return is_product(model, layer, false) || is_product(model, layer, true);
    return is_between(layer) && find_product(model, index, false, &softmax) &&
           find_product(model, index, true, &softmax) && softmax;
}

/* Attention as one kernel. */
static int64_t attention_elements(const struct model *model, const struct layer *layer,
                                  enum pass pass, enum attention attention)
{
    int32_t times = pass == PASS_FORWARD ? 1 : 2;
    if (layer->op == LAYER_SOFTMAX)
        return attention == ATTENTION_FUSED ? shape_elements(layer->out) : 0;
    if (layer->op != LAYER_MATMUL)
        return 0;
    bool second = is_product(model, layer, true);
    int64_t sum = second ? shape_elements(layer->out) : 0;
    for (int32_t i = second; i < layer->input_count; i++)
        sum += shape_elements(model_shape(model, layer->input[i]));
    return times * sum;
}

enum fusion model_fusion(const struct layer *layer, enum fusion fusion, struct merges by)
{
    bool own = by.epilogues && (layer->frozen || (layer->relu && layer_has_arithmetic(layer)));
    return own && fusion < FUSION_POINTWISE ? FUSION_POINTWISE : fusion;
}

int64_t model_merged_bytes(const struct model *model, int32_t index, enum pass pass,
                           struct merges by, int32_t element_size)
{
    const struct layer *layer = &model->layer[index];
    int64_t out = shape_elements(layer->out);
    bool filter = pass == PASS_BACKWARD_FILTER;
    if (!layer_has_pass(layer, pass))
        return 0;
    if (by.attention && model_attends(model, index))
        return filter ? 0 : attention_elements(model, layer, pass, by.attention) * element_size;
    if (!by.epilogues || layer->input[0] < 0 || model->layer[layer->input[0]].readers != 1)
        return -1;
    switch (layer->op) {
    case LAYER_GELU:
    case LAYER_SILU:
        return filter ? 0 : out * element_size;
    case LAYER_DROPOUT:
        return filter ? 0 : out;
    case LAYER_ADD:
        return pass == PASS_FORWARD ? out * element_size : 0;
    default:
        return -1;
    }
}
