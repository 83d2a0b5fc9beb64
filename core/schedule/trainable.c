#include "core/schedule/trainable.h"

#include <string.h>

/* A residual block ends in a batch norm.  What it adds is the block's input, or a batch
 * norm that follows in the list and that nothing else reads. */
static const char *residual_fault(const struct model *model, int32_t index)
{
    const struct layer *layer = &model->layer[index];
    if (!layer->residual)
        return NULL;
    if (layer->input[1] < 0)
        return "adds the images";
    const struct layer *added = &model->layer[layer->input[1]];
    if (layer->input[1] > index && !added->projection)
        return "adds a later layer that is no batch norm for it alone";
    if (layer->input[1] < index && added->readers != 2)
        return "adds an earlier value that no other layer reads: a projection is listed behind it";
    return NULL;
}

/* A value that two layers read begins a residual block: a convolution, and another or the add. */
static const char *value_fault(const struct model *model, int32_t index)
{
    const struct layer *layer = &model->layer[index];
    if (index == model->layer_count - 1)
        return layer->op != LAYER_LINEAR || layer->relu ? "is no linear layer, but the last" : NULL;
    if (layer->readers < 2)
        return layer->readers ? NULL : "is read by none";
    const struct layer *last = &model->layer[layer->last_reader];
    if (layer->readers > 2 || model->layer[layer->reader].op != LAYER_CONVOLUTION ||
        !(last->op == LAYER_CONVOLUTION || (last->residual && last->input[1] == index)))
        return "is read by several layers that are no residual block";
    return NULL;
}

static const char *layer_fault(const struct model *model, int32_t index)
{
    const struct layer *layer = &model->layer[index];
    struct shape read = model_shape(model, layer->input[0]);
    bool images = layer->input[0] < 0;
    if (layer->op > LAYER_LINEAR)
        return "is of a kind for predictions";
    if (layer->frozen)
        return "is frozen: its weights are not trained";
    if (layer->weights_of)
        return "uses the weights of another layer";
    if (layer->kernel_width)
        return "has windows that are no squares";
    if (layer->op != LAYER_LINEAR && memcmp(&read, &layer->in, sizeof(read)) != 0)
        return "sees its input in another shape";
    if (images != (index == 0) || (images && !layer_has_arithmetic(layer)))
        return "is not the one convolution or linear layer, at the begin, that reads the images";
    if (layer->op == LAYER_BATCH_NORM && (model->layer[layer->input[0]].op != LAYER_CONVOLUTION ||
                                          model->layer[layer->input[0]].relu))
        return "normalises what is no convolution";
    const char *fault = residual_fault(model, index);
    return fault ? fault : value_fault(model, index);
}

/* ---- transformers ---- */

/* A sum of two values, or of one and a row of a table for each position. */
static const char *sum_fault(const struct model *model, const struct layer *layer)
{
    struct shape other = model_shape(model, layer->input[layer->input_count - 1]);
    if (layer->constants == 0)
        return layer->input_count != 2 || memcmp(&other, &layer->out, sizeof(other)) != 0
                   ? "reads values of different shapes"
                   : NULL;
    if (layer->input_count != 1 || layer->rows * layer->out.channels != layer->constants)
        return "adds parameters other than a row for each position";
    return layer->rows < layer->out.width ? "has fewer rows than positions" : NULL;
}

/* A gate for each value, or for all positions of a picture. */
static const char *product_fault(const struct model *model, const struct layer *layer)
{
    struct shape other = model_shape(model, layer->input[layer->input_count - 1]);
    bool one = other.height == 1 && other.width == 1 && other.channels == layer->out.channels;
    return layer->input_count == 2 && (one || !memcmp(&other, &layer->out, sizeof(other)))
               ? NULL
               : "multiplies values of shapes that do not fit";
}

static const char *kind_fault(const struct model *model, const struct layer *layer)
{
    const struct layer *owner = layer->weights_of ? &model->layer[layer->weights_of - 1] : NULL;
    bool products = layer->op == LAYER_MATMUL || layer->op == LAYER_SOFTMAX;
    bool plain = layer->op == LAYER_GELU || layer->op == LAYER_DROPOUT ||
                 layer->op == LAYER_LAYER_NORM || layer->op == LAYER_RMS_NORM ||
                 layer->attends == ATTENDS_ROTARY || layer->attends == ATTENDS_TOKEN ||
                 layer->attends == ATTENDS_FIRST || layer->attends == ATTENDS_SCALE;
    if (layer->frozen)
        return "is frozen: its weights are not trained";
    if (layer->relu || layer->experts > 1)
        return "has a ReLU, or experts";
    if (owner && (owner->op != LAYER_EMBEDDING || layer->bias ||
                  layer_weights(owner) != layer_weights(layer)))
        return "uses weights of another layer that are no embedding's, or has a bias beside them";
    if (layer->op == LAYER_ADD)
        return sum_fault(model, layer);
    if (layer->op == LAYER_MULTIPLY)
        return product_fault(model, layer);
    if (layer->op == LAYER_SILU)
        return layer->gate ? NULL : "is a gate of a kind that its network does not say";
    if (products)
        return layer->flops     ? "attends to the positions of a window or document alone"
               : layer->attends ? NULL
                                : "is no part of a built-in transformer's attention";
    if (layer->attends == ATTENDS_ROTARY && layer->inner % 2)
        return "turns heads of an odd number of features";
    return plain || layer->op == LAYER_EMBEDDING || layer_is_dense(layer)
               ? NULL
               : "is of a kind for predictions";
}

/* A transformer reads tokens and predicts the next one at each position. */
static const char *general_fault(const struct model *model, int32_t index)
{
    const struct layer *layer = &model->layer[index];
    struct shape read = model_shape(model, layer->input[0]);
    bool last = index == model->layer_count - 1, table = layer->op == LAYER_EMBEDDING;
    if (layer->out.width == 1)
        return "has a single position";
    if (table != (index == 0) || (layer->input[0] < 0) != table)
        return "is not the one embedding, at the begin, that reads the tokens";
    if (table ? layer->rows != model->classes : memcmp(&read, &layer->in, sizeof(read)) != 0)
        return table ? "has another number of rows than the network has outputs"
                     : "sees its input in another shape";
    if (last ? !layer_is_dense(layer) || layer->out.channels != model->classes ||
                   layer->out.width != model->input.width
             : layer->readers == 0)
        return last ? "does not predict the next token at each position" : "is read by none";
    return kind_fault(model, layer);
}

/* ---- pictures, with gates or attention ---- */

/* Convolutions, batch norms, pools and linear layers among the kinds of transformers. */
static const char *picture_fault(const struct model *model, int32_t index)
{
    const struct layer *layer = &model->layer[index];
    struct shape read = model_shape(model, layer->input[0]);
    bool images = layer->input[0] < 0, norm = layer->op == LAYER_BATCH_NORM;
    if (images != (index == 0) || (images && layer->op != LAYER_CONVOLUTION))
        return "is not the one convolution, at the begin, that reads the pictures";
    if (index == model->layer_count - 1 ? layer->op != LAYER_LINEAR : layer->readers == 0)
        return "is no linear layer, but the last, or is read by none";
    if (layer->frozen || layer->weights_of || layer->kernel_width)
        return "is frozen, uses other weights, or has windows that are no squares";
    if (norm && (model->layer[layer->input[0]].readers > 1 ||
                 (layer->residual && (layer->input[1] > index || layer->input[1] < 0))))
        return "normalises what others read, too, or adds a later layer";
    if (layer->op != LAYER_LINEAR && layer->attends != ATTENDS_TOKEN &&
        memcmp(&read, &layer->in, sizeof(read)) != 0)
        return "sees its input in another shape";
    return layer->op <= LAYER_LINEAR ? NULL : kind_fault(model, layer);
}

int model_check_training(const struct model *model, const char *name, struct err *err)
{
    struct shape in = model->input;
    bool pictures = model_reads_pictures(model), general = model_is_general(model);
    if ((pictures || !general) && (in.channels != 3 || in.height != in.width))
        return err_add_code(err, 69,
                            "%s: has inputs of %dx%dx%d, which predictions know; images for "
                            "training are square and of 3 channels",
                            name, in.channels, in.height, in.width);
    for (int32_t i = 0; i < model->layer_count; i++) {
        const char *fault = !general   ? layer_fault(model, i)
                            : pictures ? picture_fault(model, i)
                                       : general_fault(model, i);
        if (fault)
            return err_add_code(
                err, 69, "%s: layer '%s' (%s) %s: predictions know it, devices cannot train it",
                name, model->layer[i].name, layer_op_names[model->layer[i].op], fault);
    }
    return 0;
}
