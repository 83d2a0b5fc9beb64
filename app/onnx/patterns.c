/* Layer norm and GELU, which exporters write as their parts. */

#include <string.h>

#include "app/onnx/network.h"

static bool is(const struct onnx_node *node, const char *op)
{
    return node && node->live && !node->done && !strcmp(node->op, op);
}

/* The node that alone reads the first output of @node, if it is @op. */
static struct onnx_node *next(const struct onnx_network *network, const struct onnx_node *node,
                              const char *op)
{
    const struct onnx_value *value =
        node && node->output_count ? &network->graph->value[node->output[0]] : NULL;
    if (!value || value->uses != 1 || value->reader < 0)
        return NULL;
    struct onnx_node *found = &network->graph->node[value->reader];
    return is(found, op) ? found : NULL;
}

static bool reads(const struct onnx_node *node, int32_t value)
{
    return onnx_input(node, 0) == value || onnx_input(node, 1) == value;
}

/* What @node reads besides @value, if that is constant; else -1. */
static int32_t constant_beside(const struct onnx_network *network, const struct onnx_node *node,
                               int32_t value)
{
    int32_t other = onnx_input(node, onnx_input(node, 0) == value ? 1 : 0);
    return other >= 0 && network->graph->value[other].constant ? other : -1;
}

static void finish(struct onnx_node *const *part, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        part[i]->done = true;
}

/* (x - mean(x)) / sqrt(mean((x - mean(x))^2) + e), and mostly * weight + bias. */
static bool layer_norm(struct onnx_network *network, struct onnx_node *mean)
{
    enum { PARTS = 9, LEAST = 7 };
    struct onnx_node *part[PARTS] = {mean};
    int32_t count = LEAST, x = onnx_input(mean, 0);
    if (!is(mean, "ReduceMean") || !(part[1] = next(network, mean, "Sub")) ||
        onnx_input(part[1], 0) != x || part[1]->output_count != 1)
        return false;
    const struct onnx_value *centred = &network->graph->value[part[1]->output[0]];
    part[2] =
        centred->uses == 2 && centred->reader >= 0 ? &network->graph->node[centred->reader] : NULL;
    if (!is(part[2], "Pow") || !(part[3] = next(network, part[2], "ReduceMean")) ||
        !(part[4] = next(network, part[3], "Add")) || !(part[5] = next(network, part[4], "Sqrt")) ||
        !(part[6] = next(network, part[5], "Div")) || onnx_input(part[6], 0) != part[1]->output[0])
        return false;
    struct onnx_node *scale = next(network, part[6], "Mul");
    struct onnx_node *shift = scale ? next(network, scale, "Add") : NULL;
    int32_t weight = scale ? constant_beside(network, scale, part[6]->output[0]) : -1;
    int32_t bias = shift ? constant_beside(network, shift, scale->output[0]) : -1;
    const struct onnx_value *value = network->graph->value;
    if (weight < 0 || bias < 0 || value[weight].elements != value[bias].elements)
        return false; /* without parameters it is not one of ours */
    part[count++] = scale;
    part[count++] = shift;
    int64_t channels = value[weight].elements;
    if (value[x].rank < 1 || channels < 1 || value[x].dims[value[x].rank - 1] != channels)
        return false;
    finish(part, count);
    struct layer *layer = onnx_network_add(network, scale, LAYER_LAYER_NORM, x, shift->output[0]);
    layer->in = (struct shape){(int32_t)channels, 1, (int32_t)(value[x].elements / channels)};
    onnx_network_weigh(network, layer, weight);
    onnx_network_count(network, layer, bias);
    return true;
}

/* x * (erf(x / sqrt(2)) + 1) * 0.5 */
static bool gelu(struct onnx_network *network, struct onnx_node *first)
{
    struct onnx_node *part[5] = {first};
    int32_t x = onnx_input(first, 0);
    if ((!is(first, "Div") && !is(first, "Mul")) || constant_beside(network, first, x) < 0 ||
        !(part[1] = next(network, first, "Erf")) || !(part[2] = next(network, part[1], "Add")) ||
        !(part[3] = next(network, part[2], "Mul")) || !reads(part[3], x) ||
        !(part[4] = next(network, part[3], "Mul")) ||
        constant_beside(network, part[4], part[3]->output[0]) < 0)
        return false;
    finish(part, 5);
    onnx_network_add(network, part[1], LAYER_GELU, x, part[4]->output[0]);
    return true;
}

bool onnx_network_pattern(struct onnx_network *network, int32_t index)
{
    struct onnx_node *node = &network->graph->node[index];
    return layer_norm(network, node) || gelu(network, node);
}
