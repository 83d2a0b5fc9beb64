#include "exec/step/layout.h"

#include "core/base/base.h"

/* Tensors of a layer: weight first, bias second. */
static enum parameter_kind kind_of(const struct layer *layer, int32_t index)
{
    if (layer->op == LAYER_BATCH_NORM || layer->op == LAYER_LAYER_NORM ||
        layer->op == LAYER_RMS_NORM)
        return index == 0 ? PARAMETER_SCALE : PARAMETER_SHIFT;
    return index == 0 ? PARAMETER_WEIGHT : PARAMETER_BIAS;
}

static void place_tensors(struct layout *layout)
{
    const struct model *model = layout->model;
    int32_t layer = -1, index = 0;
    int64_t offset = 0;
    for (int32_t i = 0; i < model->tensor_count; i++) {
        const struct tensor *tensor = &model->tensor[i];
        if (tensor->layer != layer) {
            layer = tensor->layer;
            index = 0;
            offset = layout->layer[layer];
        }
        layout->parameter[i] = (struct parameter){.offset = offset,
                                                  .elements = tensor->elements,
                                                  .kind = kind_of(&model->layer[layer], index++),
                                                  .layer = layer};
        offset += tensor->elements;
    }
}

/* Whether tensors cover the flat arrays without gaps and overlaps.  For assert(). */
__attribute__((unused)) static bool layout_check(const struct layout *layout)
{
    const struct model *model = layout->model;
    int64_t elements = 0, statistics = 0;
    for (int32_t i = 0; i < model->tensor_count; i++) {
        struct parameter tensor = layout->parameter[i];
        bool follows = i > 0 && layout->parameter[i - 1].layer == tensor.layer;
        int64_t begin = follows
                            ? layout->parameter[i - 1].offset + layout->parameter[i - 1].elements
                            : layout->layer[tensor.layer];
        if (tensor.elements < 1 || tensor.offset != begin)
            return false;
        elements += tensor.elements;
    }
    for (int32_t i = 0; i < model->layer_count; i++) {
        int64_t end = i > 0 ? layout->layer[i - 1] : layout->parameters;
        if (layout->layer[i] + model->layer[i].parameters != end ||
            (layout->statistics[i] >= 0 && layout->statistics[i] != statistics))
            return false;
        statistics += layout->statistics[i] >= 0 ? 2 * (int64_t)model->layer[i].out.channels : 0;
    }
    return elements == layout->parameters && statistics == layout->statistic_count;
}

struct layout layout_build(const struct model *model)
{
    struct layout layout = {
        .model = model,
        .parameter = base_alloc(model->tensor_count, sizeof(*layout.parameter)),
        .layer = base_alloc(model->layer_count, sizeof(*layout.layer)),
        .statistics = base_alloc(model->layer_count, sizeof(*layout.statistics)),
    };
    for (int32_t i = model->layer_count - 1; i >= 0; i--) {
        layout.layer[i] = layout.parameters;
        layout.parameters += model->layer[i].parameters;
    }
    for (int32_t i = 0; i < model->layer_count; i++) {
        bool normalises = model->layer[i].op == LAYER_BATCH_NORM;
        layout.statistics[i] = normalises ? layout.statistic_count : -1;
        layout.statistic_count += normalises ? 2 * (int64_t)model->layer[i].out.channels : 0;
    }
    place_tensors(&layout);
    assert(layout_check(&layout));
    return layout;
}

RELEASE(layout, it->parameter, it->layer, it->statistics)

int64_t layout_moments(const struct layout *layout)
{
    return layout->squares ? 2 * layout->parameters : layout->parameters;
}

struct weights weights_new(const struct layout *layout, int32_t ranks)
{
    int64_t all = ranks * layout->statistic_count;
    struct weights weights = {.statistics = base_alloc(layout->statistic_count, sizeof(float)),
                              .rank_statistics = ranks ? base_alloc(all, sizeof(float)) : NULL};
    weights_keep(&weights, layout, true);
    return weights;
}

void weights_keep(struct weights *weights, const struct layout *layout, bool there)
{
    if (there && weights->parameter)
        return;
    free(weights->parameter);
    free(weights->momentum);
    weights->parameter = there ? base_alloc(layout->parameters, sizeof(float)) : NULL;
    weights->momentum = there ? base_alloc(layout_moments(layout), sizeof(float)) : NULL;
}

void weights_release(struct weights *weights)
{
    weights_keep(weights, NULL, false);
    free(weights->statistics);
    free(weights->rank_statistics);
    *weights = (struct weights){0};
}

static void fill(float *array, int64_t count, float value)
{
    for (int64_t i = 0; i < count; i++)
        array[i] = value;
}

/* Uniform in -bound ... bound, as torch.nn.Linear's weights and biases. */
static void fill_uniform(float *array, int64_t count, double bound, uint64_t seed, int32_t tensor)
{
    for (int64_t i = 0; i < count; i++)
        array[i] = (float)(bound * (2 * base_uniform(seed, (uint64_t)tensor, (uint64_t)i, 1) - 1));
}

static void fill_normal(float *array, int64_t count, double deviation, uint64_t seed,
                        int32_t tensor)
{
    for (int64_t i = 0; i < count; i++)
        array[i] = (float)(deviation * base_normal(seed, (uint64_t)tensor, (uint64_t)i, 0));
}

static void initialise_tensor(const struct layout *layout, int32_t index, uint64_t seed,
                              bool zero_gamma, float *array)
{
    struct parameter parameter = layout->parameter[index];
    const struct layer *layer = &layout->model->layer[parameter.layer];
    bool linear = layer->op == LAYER_LINEAR;
    bool window = layer->op == LAYER_CONVOLUTION && !layer_is_dense(layer);
    double fan_in = (double)shape_elements(layer->in);
    double fan_out = (double)layer->out.channels * layer->kernel * layer->kernel;
    switch (parameter.kind) {
    case PARAMETER_SCALE:
        fill(array, parameter.elements, zero_gamma && layer->residual ? 0 : 1);
        break;
    case PARAMETER_SHIFT:
        fill(array, parameter.elements, 0);
        break;
    case PARAMETER_BIAS:
        fill(array, parameter.elements, 0);
        if (linear)
            fill_uniform(array, parameter.elements, 1 / sqrt(fan_in), seed, index);
        break;
    case PARAMETER_WEIGHT:
        if (linear)
            fill_uniform(array, parameter.elements, 1 / sqrt(fan_in), seed, index);
        else if (layer->attends == ATTENDS_SCALE)
            fill(array, parameter.elements, 1e-6F); /* Liu et al. 2022, ConvNeXt */
        else
            fill_normal(array, parameter.elements, window ? sqrt(2 / fan_out) : 0.02, seed, index);
        break;
    case PARAMETER_KIND_COUNT:
        assert(!"a kind of parameter");
    }
}

void layout_initialise(const struct layout *layout, uint64_t seed, bool zero_gamma,
                       float *parameter, float *statistics)
{
    const struct model *model = layout->model;
    for (int32_t i = 0; i < model->tensor_count; i++)
        initialise_tensor(layout, i, seed, zero_gamma, parameter + layout->parameter[i].offset);
    for (int32_t i = 0; i < model->layer_count; i++) {
        if (layout->statistics[i] < 0)
            continue;
        int64_t channels = model->layer[i].out.channels;
        fill(statistics + layout->statistics[i], channels, 0);
        fill(statistics + layout->statistics[i] + channels, channels, 1);
    }
}
