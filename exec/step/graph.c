#include "exec/step/graph.h"

#include <assert.h>
#include <stdlib.h>

#include "core/base/base.h"

/* Building goes down the list once.  A block is open from its forking layer to its last. */
struct builder {
    const struct model *model;
    struct graph_node *node;
    int32_t value; /* the input of the next layer of the main branch */
    int32_t fork;  /* the input of the residual branch */
    int32_t added; /* the last layer with a residual, until its block is complete */
};

/* Without a projection, the block's input is added. */
static void add_residual(struct builder *b, int32_t index)
{
    b->node[index].residual = b->fork;
    b->added = index;
}

/* The last layer of a projection completes the value of the layer it is added to. */
static void extend_projection(struct builder *b, int32_t index, int32_t *branch)
{
    b->node[index].reads = *branch;
    *branch = index;
    b->node[b->added].residual = index;
    b->node[b->added].finish = index;
}

static void visit(struct builder *b, int32_t index, int32_t *branch)
{
    const struct layer *layer = &b->model->layer[index];
    b->node[index] =
        (struct graph_node){.reads = b->value, .residual = -1, .finish = index, .finishes = index};
    if (layer->projection) {
        assert(b->added >= 0);
        extend_projection(b, index, branch);
        return;
    }
    if (layer->fork) {
        b->fork = b->value;
        *branch = b->fork;
    }
    if (layer->residual)
        add_residual(b, index);
    b->value = index;
}

bool graph_check(const struct graph *graph, const struct model *model)
{
    for (int32_t i = 0; i < graph->layer_count; i++) {
        const struct graph_node *node = &graph->node[i];
        const struct layer *layer = &model->layer[i];
        int64_t read =
            shape_elements(node->reads < 0 ? model->layer[0].in : model->layer[node->reads].out);
        int64_t added = shape_elements(model->layer[node->residual < 0 ? i : node->residual].out);
        bool last = node->readers == 0 && graph->node[node->finishes].readers == 0;
        bool paired = node->finishes == i ? graph->node[node->finish].finishes == i
                                          : graph->node[node->finishes].finish == i;
        if (node->reads >= i || read != shape_elements(layer->in) ||
            added != shape_elements(layer->out) || node->readers > 2 || node->finish < i ||
            !paired || (last && i < graph->layer_count - 1))
            return false;
    }
    return true;
}

struct graph graph_build(const struct model *model)
{
    struct graph graph = {.node = base_alloc(model->layer_count, sizeof(*graph.node)),
                          .layer_count = model->layer_count};
    struct builder b = {.model = model, .node = graph.node, .value = -1, .fork = -1, .added = -1};
    int32_t branch = -1;
    for (int32_t i = 0; i < model->layer_count; i++)
        visit(&b, i, &branch);
    for (int32_t i = 0; i < model->layer_count; i++) {
        const struct graph_node *node = &graph.node[i];
        if (node->finish != i)
            graph.node[node->finish].finishes = i;
        if (node->reads >= 0)
            graph.node[node->reads].readers++;
        if (node->residual >= 0)
            graph.node[node->residual].readers++;
    }
    assert(graph_check(&graph, model));
    return graph;
}

void graph_release(struct graph *graph)
{
    free(graph->node);
    *graph = (struct graph){0};
}
