#include "exec/step/graph.h"

#include "core/base/base.h"

/* Whether every layer reads, and adds, a value of the shape it expects, and every value but the
 * last is read once or twice.  For assert(). */
__attribute__((unused)) static bool graph_check(const struct graph *graph,
                                                const struct model *model)
{
    for (int32_t i = 0; i < graph->layer_count; i++) {
        const struct graph_node *node = &graph->node[i];
        const struct layer *layer = &model->layer[i];
        int64_t read = shape_elements(model_shape(model, node->reads));
        if (layer->input_count == 0) /* another stage's */
            continue;
        int64_t added = shape_elements(model->layer[node->residual < 0 ? i : node->residual].out);
        bool last = node->readers == 0 && graph->node[node->finishes].readers == 0;
        bool paired = node->finishes == i ? graph->node[node->finish].finishes == i
                                          : graph->node[node->finishes].finish == i;
        if (node->reads >= i || read != shape_elements(layer->in) ||
            added != shape_elements(layer->out) ||
            (node->readers > 2 && !model_is_general(model)) || node->finish < i || !paired ||
            (last && i < graph->layer_count - 1))
            return false;
    }
    return true;
}

struct graph graph_build(const struct model *model, bool blocks)
{
    struct graph graph = {.node = base_alloc(model->layer_count, sizeof(*graph.node)),
                          .layer_count = model->layer_count};
    for (int32_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layer[i];
        struct graph_node *node = &graph.node[i];
        node->reads = layer->input_count > 0 ? layer->input[0] : -1;
        node->residual = layer->residual ? layer->input[1] : -1;
        node->finish = node->residual > i ? node->residual : i;
        node->finishes = i;
        node->readers = layer->readers;
        node->hidden = blocks && model_attends(model, i) && layer->attends != ATTENDS_CONTEXT;
    }
    for (int32_t i = 0; i < model->layer_count; i++)
        if (graph.node[i].finish != i)
            graph.node[graph.node[i].finish].finishes = i;
    assert(graph_check(&graph, model));
    return graph;
}

int64_t target_count(const struct model *model)
{
    return model_reads_pictures(model) ? 1 : shape_elements(model->input);
}

void target_fill(const struct model *model, int64_t images, const float *samples,
                 const int32_t *label, int32_t *target)
{
    int64_t count = target_count(model);
    for (int64_t i = 0; i < images * count; i++)
        target[i] = i % count == count - 1 ? label[i / count] : (int32_t)samples[i + 1];
}

RELEASE(graph, it->node)
