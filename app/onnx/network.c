#include "app/onnx/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "models/networks.h"

const struct onnx_value *onnx_value_at(const struct onnx_network *n, int32_t index)
{
    return &n->graph->value[index];
}

/* Whether input @index of @node is there and follows from the images. */
bool onnx_is_active(const struct onnx_network *n, const struct onnx_node *node, int32_t index)
{
    int32_t value = onnx_input(node, index);
    return value >= 0 && !onnx_value_at(n, value)->constant;
}

/* ---- shapes and names ---- */

/* Without the batch; of a sequence the features come first. */
struct shape onnx_shape(const struct onnx_value *value)
{
    const int64_t *dim = value->dims;
    int32_t rank = value->rank;
    if (rank > 1 && dim[0] == 1) {
        dim++;
        rank--;
    }
    if (rank == 2)
        return (struct shape){(int32_t)dim[1], 1, (int32_t)dim[0]};
    struct shape shape = {1, 1, 1};
    for (int32_t i = 0; i < rank - 2; i++)
        shape.channels *= (int32_t)dim[i];
    if (rank == 1)
        shape.channels = (int32_t)dim[0];
    if (rank > 2) {
        shape.height = (int32_t)dim[rank - 2];
        shape.width = (int32_t)dim[rank - 1];
    }
    return shape;
}

static bool ends_in(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length > tail && strcmp(text + length - tail, end) == 0;
}

/* The parameter behind the second input, unless another layer has it: "layer1.0.conv1.weight", also
 * when it is transposed. */
static const char *weight_name(const struct onnx_network *n, const struct onnx_node *node)
{
    int32_t weight = onnx_input(node, 1);
    if (weight < 0 || !onnx_value_at(n, weight)->constant)
        return NULL;
    weight = onnx_source(n->graph, weight);
    const struct onnx_value *source = onnx_value_at(n, weight);
    bool named = ends_in(source->name, ".weight") || ends_in(source->name, "_weight");
    return source->weight && named && !n->holder[weight] ? source->name : NULL;
}

static bool is_taken(const struct onnx_network *n, const char *name)
{
    for (int32_t i = 0; i < n->model->layer_count; i++)
        if (strcmp(n->model->layer[i].name, name) == 0)
            return true;
    return strcmp(name, "input") == 0;
}

/* torchvision's name where a weight tells it, else the node's; the end of a long one. */
static void set_name(const struct onnx_network *n, const struct onnx_node *node, char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "_./-+";
    enum { TAIL = 12 };
    const char *weight = weight_name(n, node), *long_name = weight ? weight : node->name;
    size_t length = strlen(long_name) - (weight ? strlen(".weight") : 0);
    while (length > 0 && *long_name == '/') {
        long_name++;
        length--;
    }
    if (length == 0) {
        long_name = node->op;
        length = strlen(long_name);
    }
    if (length > LAYER_NAME - TAIL) {
        long_name += length - (LAYER_NAME - TAIL);
        length = LAYER_NAME - TAIL;
    }
    char first[LAYER_NAME];
    snprintf(first, sizeof(first), "%.*s", (int)length, long_name);
    for (char *c = first; *c; c++)
        if (!strchr(letters, *c))
            *c = '_';
    snprintf(name, LAYER_NAME, "%s", first);
    for (int32_t k = 2; is_taken(n, name); k++)
        snprintf(name, LAYER_NAME, "%.*s+%d", LAYER_NAME - TAIL, first, k);
}

/* ---- layers ---- */

struct layer *onnx_network_add(struct onnx_network *network, const struct onnx_node *node,
                               enum layer_op op, int32_t from, int32_t to)
{
    struct model *model = network->model;
    struct layer layer = {.op = op,
                          .input = {network->layer[from]},
                          .input_count = 1,
                          .in = onnx_shape(onnx_value_at(network, from)),
                          .out = onnx_shape(onnx_value_at(network, to)),
                          .stride = 1};
    set_name(network, node, layer.name);
    model->layer = base_room(model->layer, model->layer_count, sizeof(*model->layer));
    model->layer[model->layer_count] = layer;
    network->layer[to] = model->layer_count++;
    network->fresh[to] = true;
    return &model->layer[network->layer[to]];
}

/* Output @to is another view of @from, or what the layer of @from has become. */
void onnx_alias(struct onnx_network *n, int32_t from, int32_t to, bool fresh)
{
    n->layer[to] = n->layer[from];
    n->fresh[to] = fresh;
}

/* Behind a constant stand weights of the file, or nodes that make it of them. */
static int64_t count_behind(struct onnx_network *n, int32_t holder, int32_t index, int32_t depth)
{
    enum { DEEP = 64 };
    const struct onnx_value *value = onnx_value_at(n, index);
    if (n->holder[index] || !value->constant || depth > DEEP)
        return 0;
    n->holder[index] = holder;
    int64_t sum = value->weight && value->elements > 1 && value->rank >= 0 ? value->elements : 0;
    const struct onnx_node *maker = value->maker < 0 ? NULL : &n->graph->node[value->maker];
    for (int32_t i = 0; maker && i < maker->input_count; i++)
        if (maker->input[i] >= 0)
            sum += count_behind(n, holder, maker->input[i], depth + 1);
    return sum;
}

int64_t onnx_network_count(struct onnx_network *network, const struct layer *layer, int32_t index)
{
    int32_t holder = (int32_t)(layer - network->model->layer) + 1;
    return index < 0 ? 0 : count_behind(network, holder, index, 0);
}

void onnx_network_weigh(struct onnx_network *n, struct layer *layer, int32_t index)
{
    layer->weights_of = n->holder[onnx_source(n->graph, index)];
    onnx_network_count(n, layer, index);
}

bool onnx_network_bias(struct onnx_network *n, struct layer *layer, int32_t index)
{
    int32_t owner = layer->weights_of;
    bool other = owner && n->model->layer[owner - 1].bias &&
                 n->holder[onnx_source(n->graph, index)] != owner;
    if (!other)
        onnx_network_count(n, layer, index);
    layer->bias = !other;
    return !other;
}

/* An operation by what it moves, with the parameters among its inputs. */
struct layer *onnx_add_other(struct onnx_network *n, const struct onnx_node *node, int32_t to)
{
    int32_t more[LAYER_INPUTS] = {0}, count = 0;
    for (int32_t i = 0; i < node->input_count; i++)
        if (onnx_is_active(n, node, i) && count < LAYER_INPUTS)
            more[count++] = node->input[i];
    struct layer *layer = onnx_network_add(n, node, LAYER_OTHER, more[0], to);
    for (int32_t i = 1; i < count; i++)
        layer->input[layer->input_count++] = n->layer[more[i]];
    for (int32_t i = 0; i < node->input_count; i++)
        layer->constants += onnx_network_count(n, layer, node->input[i]);
    return layer;
}

struct layer *onnx_own_layer(struct onnx_network *n, int32_t value)
{
    bool own =
        value >= 0 && n->fresh[value] && n->layer[value] >= 0 && onnx_value_at(n, value)->uses == 1;
    return own ? &n->model->layer[n->layer[value]] : NULL;
}

/* ---- the graph ---- */

static int read_node(struct onnx_network *n, const struct onnx_node *node, struct err *err)
{
    const struct onnx_value *out = node->output_count ? onnx_value_at(n, node->output[0]) : NULL;
    if (n->model->layer_count >= NETWORK_LAYERS)
        return err_add(err, "%s: more than %d layers", n->file, NETWORK_LAYERS);
    for (int32_t i = 0; i < node->input_count; i++)
        if (onnx_is_active(n, node, i) && onnx_value_at(n, node->input[i])->rank < 0)
            out = NULL;
    if (!out || out->rank < 0)
        return err_add(err, "%s: the shape of %s '%s' is not known: export the network with sizes",
                       n->file, node->op, node->name);
    if (onnx_operation(n, node))
        return 0;
    if (!n->bytes_of_unknown || !onnx_moves(n, node))
        return err_add(err,
                       "%s: operation %s ('%s') is not known%s; --unknown=bytes counts it by the "
                       "bytes it moves",
                       n->file, node->op, node->name,
                       n->bytes_of_unknown ? " and has no usable inputs" : "");
    text_add(&n->note, "%s '%s': by the bytes it moves, without FLOP\n", node->op, node->name);
    return 0;
}

/* All inputs are one: the first, or others of the same size, as the mask of a sequence. */
static int read_inputs(struct onnx_network *n, struct err *err)
{
    const struct onnx_graph *graph = n->graph;
    for (int32_t i = 0; i < graph->input_count; i++) {
        int32_t index = graph->input[i], first = graph->input[0];
        if (index < 0 || onnx_value_at(n, index)->rank < 0)
            return err_add(err, "%s: input %d has no shape", n->file, i + 1);
        if (onnx_value_at(n, index)->elements != onnx_value_at(n, first)->elements)
            return err_add(err, "%s: inputs '%s' and '%s' differ in size", n->file,
                           onnx_value_at(n, first)->name, onnx_value_at(n, index)->name);
        n->layer[index] = -1;
    }
    if (graph->input_count < 1)
        return err_add(err, "%s: has no input", n->file);
    n->model->input = onnx_shape(onnx_value_at(n, graph->input[0]));
    if (graph->input_count > 1)
        text_add(&n->note, "%d inputs of one size are one\n", graph->input_count);
    return 0;
}

/* Sides that fit a shape of a network file, so that nothing here overflows. */
static int check_sizes(const struct onnx_network *n, struct err *err)
{
    for (int32_t i = 0; i < n->graph->value_count; i++) {
        const struct onnx_value *value = onnx_value_at(n, i);
        if (value->rank >= 0 && !value->constant && value->elements > NETWORK_SIDE)
            for (int32_t k = 0; k < value->rank; k++)
                if (value->dims[k] > NETWORK_SIDE || (double)value->elements > 2e9)
                    return err_add(err, "%s: '%s' has %lld values: too large", n->file, value->name,
                                   (long long)value->elements);
    }
    return 0;
}

/* Exporters write equal weights once, as those of norms that were never trained: if no other layer
 * uses the weights of another, norms do not. */
static void part_norms(struct model *model)
{
    bool shared = false;
    for (int32_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layer[i];
        bool norm = layer->op == LAYER_BATCH_NORM || layer->op == LAYER_LAYER_NORM;
        shared = shared || (layer->weights_of && !norm);
    }
    for (int32_t i = 0; i < model->layer_count && !shared; i++)
        model->layer[i].weights_of = 0;
}

int onnx_network_read(struct onnx_network *network, struct err *err)
{
    struct onnx_graph *graph = network->graph;
    network->layer = base_alloc(graph->value_count, sizeof(*network->layer));
    network->fresh = base_alloc(graph->value_count, sizeof(*network->fresh));
    network->holder = base_alloc(graph->value_count, sizeof(*network->holder));
    network->model = model_new("onnx", 1, 1);
    if (check_sizes(network, err) || read_inputs(network, err))
        return -1;
    for (int32_t i = 0; i < graph->node_count; i++) {
        const struct onnx_node *node = &graph->node[i];
        if (!node->live || node->done || onnx_network_pattern(network, i))
            continue;
        if (read_node(network, node, err))
            return -1;
    }
    part_norms(network->model);
    return network->model->layer_count ? 0 : err_add(err, "%s: computes nothing", network->file);
}

void onnx_network_release(struct onnx_network *network)
{
    model_free(network->model);
    free(network->layer);
    free(network->fresh);
    free(network->holder);
    text_release(&network->note);
}
