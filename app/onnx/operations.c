/* What each operation of ONNX is to us. */

#include <math.h>
#include <string.h>

#include "app/onnx/network.h"
#include "models/networks.h"

/* Parameters that are added to @x. */
static void add_values(struct onnx_network *n, const struct onnx_node *node, int32_t x,
                       int32_t constant)
{
    bool alike = onnx_value_at(n, x)->elements == onnx_value_at(n, node->output[0])->elements;
    struct layer *added = onnx_network_add(n, node, LAYER_OTHER, x, node->output[0]);
    added->constants = onnx_network_count(n, added, constant);
    if (added->constants && alike)
        added->op = LAYER_ADD;
}

/* The bias @index (-1: none) of the layer of @node. */
static void add_bias(struct onnx_network *n, const struct onnx_node *node, int32_t index)
{
    int32_t out = node->output[0];
    if (index >= 0 && !onnx_network_bias(n, &n->model->layer[n->layer[out]], index))
        add_values(n, node, out, index);
}

/* A matrix of parameters, @inner x @columns, times each of @rows. */
static void add_dense(struct onnx_network *n, const struct onnx_node *node, int32_t from,
                      int64_t inner, int64_t columns, int32_t bias)
{
    int64_t rows = onnx_value_at(n, node->output[0])->elements / columns;
    struct layer *layer = onnx_network_add(n, node, rows == 1 ? LAYER_LINEAR : LAYER_CONVOLUTION,
                                           from, node->output[0]);
    layer->kernel = 1;
    layer->out = (struct shape){(int32_t)columns, 1, (int32_t)rows};
    layer->in = rows == 1 ? model_shape(n->model, layer->input[0])
                          : (struct shape){(int32_t)inner, 1, (int32_t)rows};
    onnx_network_weigh(n, layer, onnx_input(node, 1));
    add_bias(n, node, bias);
}

/* Windows as ours: square, alike on all sides, without gaps; and the output says the same. */
static bool is_window(const struct onnx_network *n, const struct onnx_node *node, int64_t kernel)
{
    const struct onnx_value *in = onnx_value_at(n, node->input[0]),
                            *out = onnx_value_at(n, node->output[0]);
    int64_t stride = onnx_attribute_at(node, "strides", 0, 1);
    int64_t padding = onnx_attribute_at(node, "pads", 0, 0);
    bool good = in->rank == 4 && out->rank == 4 && kernel >= 1 && padding < kernel && stride >= 1 &&
                onnx_attribute_at(node, "kernel_shape", 0, kernel) == kernel &&
                onnx_attribute_at(node, "kernel_shape", 1, kernel) == kernel &&
                onnx_attribute_at(node, "strides", 1, stride) == stride &&
                onnx_attribute_at(node, "dilations", 0, 1) == 1 &&
                onnx_attribute_at(node, "dilations", 1, 1) == 1 && kernel <= 4096 && stride <= 4096;
    for (int32_t i = 1; i < 4; i++)
        good = good && onnx_attribute_at(node, "pads", i, 0) == padding;
    for (int32_t i = 2; i < 4 && good; i++)
        good = out->dims[i] == (in->dims[i] + 2 * padding - kernel) / stride + 1;
    return good;
}

static void set_window(struct layer *layer, const struct onnx_node *node, int64_t kernel)
{
    layer->kernel = (int32_t)kernel;
    layer->stride = (int32_t)onnx_attribute_at(node, "strides", 0, 1);
    layer->padding = (int32_t)onnx_attribute_at(node, "pads", 0, 0);
}

static bool read_convolution(struct onnx_network *n, const struct onnx_node *node)
{
    int32_t weight = onnx_input(node, 1), bias = onnx_input(node, 2);
    const struct onnx_value *w = weight < 0 ? NULL : onnx_value_at(n, weight);
    if (!onnx_is_active(n, node, 0) || !w || !w->constant || w->rank < 3)
        return false;
    if (w->rank == 4 && w->dims[2] == w->dims[3] && is_window(n, node, w->dims[2])) {
        struct layer *layer =
            onnx_network_add(n, node, LAYER_CONVOLUTION, node->input[0], node->output[0]);
        set_window(layer, node, w->dims[2]);
        layer->groups = (int32_t)onnx_attribute(node, "group", 1);
        onnx_network_weigh(n, layer, weight);
        add_bias(n, node, bias);
        return true;
    }
    struct layer *layer = onnx_add_other(n, node, node->output[0]);
    double flops = 2.0 * (double)onnx_value_at(n, node->output[0])->elements *
                   (double)(w->elements / w->dims[0]);
    layer->flops = flops < NETWORK_FLOPS ? (int64_t)flops : (int64_t)NETWORK_FLOPS;
    return true;
}

static bool read_product(struct onnx_network *n, const struct onnx_node *node)
{
    bool gemm = !strcmp(node->op, "Gemm");
    int32_t a = onnx_input(node, 0), b = onnx_input(node, 1), c = onnx_input(node, 2);
    if (a < 0 || b < 0 || onnx_value_at(n, a)->rank < 1 || onnx_value_at(n, b)->rank < 1)
        return false;
    const struct onnx_value *left = onnx_value_at(n, a), *right = onnx_value_at(n, b);
    bool turned = gemm && onnx_attribute(node, "transB", 0);
    int64_t inner = left->dims[gemm && onnx_attribute(node, "transA", 0) ? 0 : left->rank - 1];
    if (onnx_is_active(n, node, 0) && right->constant && right->rank == 2) {
        add_dense(n, node, a, inner, right->dims[turned ? 0 : 1],
                  gemm && c >= 0 && onnx_value_at(n, c)->constant ? c : -1);
        return true;
    }
    if (onnx_is_active(n, node, 0) && onnx_is_active(n, node, 1) && (c < 0 || !gemm)) {
        struct layer *layer = onnx_network_add(n, node, LAYER_MATMUL, a, node->output[0]);
        layer->input[layer->input_count++] = n->layer[b];
        layer->inner = inner;
        return true;
    }
    struct layer *layer = onnx_add_other(n, node, node->output[0]);
    double flops = 2.0 * (double)onnx_value_at(n, node->output[0])->elements * (double)inner;
    layer->flops = flops < NETWORK_FLOPS ? (int64_t)flops : (int64_t)NETWORK_FLOPS;
    return true;
}

static bool read_batch_norm(struct onnx_network *n, const struct onnx_node *node)
{
    int32_t x = onnx_input(node, 0), scale = onnx_input(node, 1);
    if (!onnx_is_active(n, node, 0) || scale < 0 || onnx_value_at(n, scale)->rank != 1)
        return false;
    struct layer *layer = onnx_network_add(n, node, LAYER_BATCH_NORM, x, node->output[0]);
    int64_t channels = onnx_value_at(n, scale)->dims[0];
    if (layer->in.channels != channels)
        layer->in = (struct shape){(int32_t)channels, 1,
                                   (int32_t)(onnx_value_at(n, x)->elements / channels)};
    layer->out = layer->in;
    onnx_network_weigh(n, layer, scale);
    for (int32_t i = 2; i < node->input_count; i++)
        onnx_network_count(n, layer, node->input[i]);
    return true;
}

static bool read_layer_norm(struct onnx_network *n, const struct onnx_node *node)
{
    int32_t x = onnx_input(node, 0), scale = onnx_input(node, 1);
    if (!onnx_is_active(n, node, 0) || scale < 0 || onnx_value_at(n, scale)->rank < 1)
        return false;
    struct layer *layer = onnx_network_add(n, node, LAYER_LAYER_NORM, x, node->output[0]);
    int64_t channels = onnx_value_at(n, scale)->elements;
    layer->in =
        (struct shape){(int32_t)channels, 1, (int32_t)(onnx_value_at(n, x)->elements / channels)};
    onnx_network_weigh(n, layer, scale);
    onnx_network_count(n, layer, onnx_input(node, 2));
    return true;
}

/* An end of a Clip, which its input @index or its attribute says, if any does; NAN: computed. */
static double clip_at(const struct onnx_network *n, const struct onnx_node *node, int32_t index,
                      const char *attribute, double missing)
{
    double value = onnx_input(node, index) < 0 ? missing : NAN;
    if (!onnx_number(n->graph, onnx_input(node, index), &value))
        json_as_real(json_item(json_get(node->attributes, attribute), 0), &value);
    return value;
}

/* Relu, and Clip between 0 and 6 or any other numbers. */
static bool read_relu(struct onnx_network *n, const struct onnx_node *node)
{
    int32_t x = onnx_input(node, 0);
    bool clip = !strcmp(node->op, "Clip");
    double low = clip ? clip_at(n, node, 1, "min", -INFINITY) : 0;
    double high = clip ? clip_at(n, node, 2, "max", INFINITY) : INFINITY;
    if (!onnx_is_active(n, node, 0))
        return false;
    bool capped = low == 0 && high == 6;
    struct layer *layer = onnx_own_layer(n, x);
    bool carries =
        layer && !layer->relu && (layer_has_arithmetic(layer) || layer->op == LAYER_BATCH_NORM);
    if (carries && low == 0 && (capped || high == INFINITY)) {
        layer->relu = true;
        layer->capped = capped;
        onnx_alias(n, x, node->output[0], true);
    } else if (low == 0 && high == INFINITY) {
        onnx_network_add(n, node, LAYER_RELU, x, node->output[0]);
    } else {
        onnx_add_other(n, node, node->output[0]);
    }
    return true;
}

/* A bias of the layer before, or parameters of an add. */
static bool add_constant(struct onnx_network *n, const struct onnx_node *node, int32_t x,
                         int32_t constant)
{
    struct layer *layer = onnx_own_layer(n, x);
    const struct onnx_value *c = onnx_value_at(n, constant);
    if (layer && layer_has_arithmetic(layer) && !layer->bias && !layer->relu && c->weight &&
        c->rank == 1 && c->elements == layer->out.channels &&
        onnx_network_bias(n, layer, constant)) {
        onnx_alias(n, x, node->output[0], true);
        return true;
    }
    add_values(n, node, x, constant);
    return true;
}

/* A batch norm adds a value that is complete before it, or in one step after it. */
static bool can_add(const struct onnx_network *n, int32_t main, int32_t added)
{
    if (added < 0)
        return false;
    const struct layer *layer = &n->model->layer[added];
    int32_t complete = layer->residual && layer->input[1] > added ? layer->input[1] : added;
    return added > main ? complete == added : complete < main;
}

static bool read_add(struct onnx_network *n, const struct onnx_node *node)
{
    int32_t a = onnx_input(node, 0), b = onnx_input(node, 1), out = node->output[0];
    if (a < 0 || b < 0)
        return false;
    if (!onnx_is_active(n, node, 1))
        return add_constant(n, node, a, b);
    if (!onnx_is_active(n, node, 0))
        return add_constant(n, node, b, a);
    int64_t elements = onnx_value_at(n, out)->elements;
    if (onnx_value_at(n, a)->elements != elements || onnx_value_at(n, b)->elements != elements) {
        onnx_add_other(n, node, out);
        return true;
    }
    for (int32_t turn = 0; turn < 2; turn++) {
        int32_t main = turn ? b : a, added = turn ? a : b;
        struct layer *layer = onnx_own_layer(n, main);
        if (layer && layer->op == LAYER_BATCH_NORM && !layer->relu && !layer->residual &&
            can_add(n, n->layer[main], n->layer[added])) {
            layer->residual = true;
            layer->input[layer->input_count++] = n->layer[added];
            onnx_alias(n, main, out, true);
            return true;
        }
    }
    struct layer *layer = onnx_network_add(n, node, LAYER_ADD, a, out);
    layer->input[layer->input_count++] = n->layer[b];
    return true;
}

static bool read_pool(struct onnx_network *n, const struct onnx_node *node)
{
    int64_t kernel = onnx_attribute_at(node, "kernel_shape", 0, 0);
    int64_t stride = onnx_attribute_at(node, "strides", 0, 1);
    if (!onnx_is_active(n, node, 0))
        return false;
    bool average = !strcmp(node->op, "AveragePool");
    struct shape in = onnx_shape(onnx_value_at(n, node->input[0]));
    bool tiles =
        stride == kernel && kernel > 0 && in.height % kernel == 0 && in.width % kernel == 0;
    if (!is_window(n, node, kernel) || (average && !tiles)) {
        onnx_add_other(n, node, node->output[0]);
        return true;
    }
    struct layer *layer = onnx_network_add(n, node, average ? LAYER_AVERAGE_POOL : LAYER_MAX_POOL,
                                           node->input[0], node->output[0]);
    set_window(layer, node, kernel);
    return true;
}

/* GlobalAveragePool, and a mean over height and width. */
static bool read_mean(struct onnx_network *n, const struct onnx_node *node)
{
    if (!onnx_is_active(n, node, 0))
        return false;
    const struct onnx_value *x = onnx_value_at(n, node->input[0]);
    int64_t first = onnx_attribute_at(node, "axes", 0, 0);
    int64_t second = onnx_attribute_at(node, "axes", 1, 0);
    bool sides = !strcmp(node->op, "GlobalAveragePool") ||
                 (json_count_items(json_get(node->attributes, "axes")) == 2 &&
                  ((first + 4) % 4) + ((second + 4) % 4) == 5 && first != second);
    if (x->rank != 4 || !sides || onnx_value_at(n, node->output[0])->elements != x->dims[1]) {
        onnx_add_other(n, node, node->output[0]);
        return true;
    }
    struct layer *layer =
        onnx_network_add(n, node, LAYER_AVERAGE_POOL, node->input[0], node->output[0]);
    layer->kernel = layer->in.height;
    layer->out = (struct shape){layer->in.channels, 1, 1};
    return true;
}

static bool read_concat(struct onnx_network *n, const struct onnx_node *node)
{
    bool all = node->input_count <= LAYER_INPUTS;
    for (int32_t i = 0; i < node->input_count; i++)
        all = all && onnx_is_active(n, node, i);
    struct layer *layer = onnx_add_other(n, node, node->output[0]);
    if (all)
        layer->op = LAYER_CONCAT;
    return node->input_count <= LAYER_INPUTS;
}

/* A row of a table for each index; or a part of a value, which is copied. */
static bool read_gather(struct onnx_network *n, const struct onnx_node *node)
{
    const struct onnx_value *table = node->input_count ? onnx_value_at(n, node->input[0]) : NULL;
    bool looks_up = table && table->constant && table->rank == 2 && onnx_is_active(n, node, 1) &&
                    onnx_attribute(node, "axis", 0) == 0;
    if (looks_up) {
        struct layer *layer =
            onnx_network_add(n, node, LAYER_EMBEDDING, node->input[1], node->output[0]);
        layer->rows = table->dims[0];
        layer->out.channels = (int32_t)table->dims[1];
        layer->out.height = 1;
        layer->out.width = (int32_t)(onnx_value_at(n, node->output[0])->elements / table->dims[1]);
        onnx_network_weigh(n, layer, node->input[0]);
        return true;
    }
    struct layer *layer = onnx_add_other(n, node, node->output[0]);
    layer->elements = 2 * onnx_value_at(n, node->output[0])->elements;
    return true;
}

static bool read_slice(struct onnx_network *n, const struct onnx_node *node)
{
    if (!onnx_is_active(n, node, 0))
        return false;
    for (int32_t i = 0; i < node->output_count; i++) {
        if (node->output[i] < 0 || !onnx_value_at(n, node->output[i])->uses)
            continue;
        struct layer *layer =
            onnx_network_add(n, node, LAYER_OTHER, node->input[0], node->output[i]);
        layer->elements = 2 * onnx_value_at(n, node->output[i])->elements;
    }
    return true;
}

/* Views cost nothing; what repeats or pads values does. */
static bool read_view(struct onnx_network *n, const struct onnx_node *node)
{
    if (!onnx_is_active(n, node, 0))
        return false;
    if (onnx_value_at(n, node->input[0])->elements == onnx_value_at(n, node->output[0])->elements)
        onnx_alias(n, node->input[0], node->output[0], false);
    else
        onnx_add_other(n, node, node->output[0]);
    return true;
}

/* Nothing moves where only dimensions of one change places. */
static bool read_transpose(struct onnx_network *n, const struct onnx_node *node)
{
    if (!onnx_is_active(n, node, 0))
        return false;
    const struct onnx_value *x = onnx_value_at(n, node->input[0]);
    int64_t last = -1;
    bool view = true;
    for (int32_t i = 0; i < x->rank; i++) {
        int64_t from = onnx_attribute_at(node, "perm", i, x->rank - 1 - i);
        if (from < 0 || from >= x->rank || x->dims[from] == 1)
            continue;
        view = view && from > last;
        last = from;
    }
    if (view)
        onnx_alias(n, node->input[0], node->output[0], false);
    else
        onnx_add_other(n, node, node->output[0]);
    return true;
}

static bool read_dropout(struct onnx_network *n, const struct onnx_node *node)
{
    double ratio = 0.5;
    bool given = onnx_number(n->graph, onnx_input(node, 1), &ratio);
    if (!onnx_is_active(n, node, 0))
        return false;
    if ((given && ratio == 0) || onnx_input(node, 2) < 0)
        onnx_alias(n, node->input[0], node->output[0], false);
    else
        onnx_add_other(n, node, node->output[0]);
    return true;
}

static bool read_softmax(struct onnx_network *n, const struct onnx_node *node)
{
    if (!onnx_is_active(n, node, 0))
        return false;
    onnx_network_add(n, node, LAYER_SOFTMAX, node->input[0], node->output[0]);
    return true;
}

bool onnx_moves(struct onnx_network *n, const struct onnx_node *node)
{
    int32_t active = 0;
    for (int32_t i = 0; i < node->input_count; i++)
        active += onnx_is_active(n, node, i);
    if (active == 0 || active > LAYER_INPUTS)
        return false;
    onnx_add_other(n, node, node->output[0]);
    return true;
}

static const struct {
    const char *op;
    bool (*read)(struct onnx_network *network, const struct onnx_node *node);
} operations[] = {
    {"Conv", read_convolution},
    {"Gemm", read_product},
    {"MatMul", read_product},
    {"BatchNormalization", read_batch_norm},
    {"LayerNormalization", read_layer_norm},
    {"Relu", read_relu},
    {"Clip", read_relu},
    {"Add", read_add},
    {"MaxPool", read_pool},
    {"AveragePool", read_pool},
    {"GlobalAveragePool", read_mean},
    {"ReduceMean", read_mean},
    {"Concat", read_concat},
    {"Gather", read_gather},
    {"Slice", read_slice},
    {"Split", read_slice},
    {"Reshape", read_view},
    {"Flatten", read_view},
    {"Squeeze", read_view},
    {"Unsqueeze", read_view},
    {"Identity", read_view},
    {"Cast", read_view},
    {"Expand", read_view},
    {"Pad", read_view},
    {"Transpose", read_transpose},
    {"Dropout", read_dropout},
    {"Softmax", read_softmax},
    {"LogSoftmax", read_softmax},
};

/* On single values, or as good as. */
static const char *const moving[] = {
    "Sub", "Mul",   "Div",   "Pow",     "Sqrt",        "Exp",       "Log",           "Neg",
    "Abs", "Erf",   "Tanh",  "Sigmoid", "HardSigmoid", "HardSwish", "LeakyRelu",     "PRelu",
    "Elu", "Where", "Equal", "Not",     "ReduceSum",   "ReduceMax", "GlobalMaxPool", "Resize"};

bool onnx_operation(struct onnx_network *n, const struct onnx_node *node)
{
    for (size_t i = 0; i < ARRAY_SIZE(operations); i++)
        if (!strcmp(operations[i].op, node->op))
            return operations[i].read(n, node);
    for (size_t i = 0; i < ARRAY_SIZE(moving); i++)
        if (!strcmp(moving[i], node->op))
            return onnx_moves(n, node);
    return false;
}
