#include "exec/step/backward_plan.h"

#include "core/base/base.h"

/* Planning goes down the list once. */
struct planner {
    const struct model *model;
    const struct graph_node *node;
    struct backward_plan plan;
    bool *used; /* (buffers) */
};

/* Of the free buffers the smallest that is large enough, else the largest, which grows. */
static int32_t choose(const struct planner *p, int64_t size)
{
    int32_t best = -1;
    for (int32_t i = 0; i < p->plan.buffers; i++) {
        if (p->used[i])
            continue;
        int64_t offered = p->plan.size[i], other = best >= 0 ? p->plan.size[best] : -1;
        bool better = other < size ? offered > other : offered >= size && offered < other;
        if (best < 0 || better)
            best = i;
    }
    return best;
}

static int32_t take(struct planner *p, struct shape shape)
{
    int64_t size = shape_elements(shape);
    int32_t buffer = choose(p, size);
    if (buffer < 0)
        buffer = p->plan.buffers++;
    p->used[buffer] = true;
    if (p->plan.size[buffer] < size)
        p->plan.size[buffer] = size;
    return buffer;
}

static void give_back(struct planner *p, int32_t buffer)
{
    if (buffer >= 0)
        p->used[buffer] = false;
}

/* A gradient for the value of layer @to, or for the images, which need none. */
static void give(struct planner *p, int32_t to, int32_t buffer)
{
    if (to < 0) {
        give_back(p, buffer);
        return;
    }
    int32_t *given = p->plan.place[to].given;
    assert(given[1] < 0);
    given[given[0] >= 0] = buffer;
}

static void plan_norm(struct planner *p, int32_t index)
{
    const struct graph_node *node = &p->node[index];
    int32_t whose = node->finishes;
    struct plan_place *place = &p->plan.place[whose];
    int32_t other = place->given[1] >= 0 ? place->given[0] : -1;
    int32_t sum = place->given[other >= 0];
    struct shape shape = p->model->layer[whose].out;
    if (whose != index) {
        place->dx = take(p, shape);
        give(p, p->node[whose].reads, place->dx);
    }
    if (whose == index && node->residual >= 0) {
        give(p, node->residual, sum);
        p->plan.place[index].dx = take(p, shape);
    } else {
        p->plan.place[index].dx = sum;
    }
    give(p, node->reads, p->plan.place[index].dx);
    give_back(p, other);
}

static void plan_layer(struct planner *p, int32_t index)
{
    const struct graph_node *node = &p->node[index];
    struct plan_place *place = &p->plan.place[index];
    if (node->reads >= 0) {
        place->dx = take(p, p->model->layer[index].in);
        give(p, node->reads, place->dx);
    }
    give_back(p, place->given[0]);
    give_back(p, place->given[1]);
}

/* Of hidden ones, those of their inputs. */
static void begin_inputs(struct planner *p, int32_t index)
{
    const struct layer *layer = &p->model->layer[index];
    for (int32_t i = 0; i < layer->input_count; i++) {
        int32_t from = layer->input[i];
        if (from >= 0 && p->node[from].hidden)
            begin_inputs(p, from);
        else if (from >= 0 && p->plan.place[from].given[0] < 0)
            give(p, from, take(p, p->model->layer[from].out));
    }
}

/* All readers of a value add to one gradient, which the last of them in the list begins. */
static void plan_sum(struct planner *p, int32_t index)
{
    const struct layer *layer = &p->model->layer[index];
    if (p->plan.place[index].given[0] < 0) /* read by another stage */
        give(p, index, take(p, layer->out));
    if (layer->exchanged) { /* in its place */
        p->plan.place[index].dx = p->plan.place[index].given[0];
        int64_t *size = &p->plan.size[p->plan.place[index].dx];
        *size = *size > shape_elements(layer->in) ? *size : shape_elements(layer->in);
        give(p, layer->input[0], p->plan.place[index].dx);
        return;
    }
    begin_inputs(p, index);
    if (layer->input_count > 0 && layer->input[0] >= 0)
        p->plan.place[index].dx = p->plan.place[layer->input[0]].given[0];
    give_back(p, p->plan.place[index].given[0]);
}

static bool fits(const struct backward_plan *plan, int32_t buffer, struct shape shape)
{
    return buffer < plan->buffers && (buffer < 0 || plan->size[buffer] >= shape_elements(shape));
}

/* Whether every gradient has a buffer that is large enough for it and not that of another which is
 * needed with it.  For assert(). */
__attribute__((unused)) static bool backward_plan_check(const struct backward_plan *plan,
                                                        const struct model *model,
                                                        const struct graph *graph)
{
    for (int32_t i = 0; i < model->layer_count; i++) {
        const struct plan_place *place = &plan->place[i];
        const struct layer *layer = &model->layer[i];
        if (graph->node[i].hidden || (i > 0 && graph->node[i - 1].hidden))
            continue;
        bool valued = graph->node[i].finishes == i, norm = layer->op == LAYER_BATCH_NORM;
        if (!fits(plan, place->given[0], layer->out) || !fits(plan, place->given[1], layer->out) ||
            !fits(plan, place->dx, layer->in) || (valued && place->given[0] < 0) ||
            (place->dx < 0) != (graph->node[i].reads < 0) ||
            (place->given[1] >= 0 && place->given[1] == place->given[0]) ||
            (!norm && !layer->exchanged && place->dx >= 0 && place->dx == place->given[0]))
            return false;
    }
    return true;
}

struct backward_plan backward_plan_build(const struct model *model, const struct graph *graph)
{
    int32_t layers = model->layer_count;
    struct planner p = {.model = model, .node = graph->node};
    p.plan.place = base_alloc(layers, sizeof(*p.plan.place));
    p.plan.size = base_alloc(2 * (int64_t)layers + 1, sizeof(*p.plan.size));
    p.used = base_alloc(2 * (int64_t)layers + 1, sizeof(*p.used));
    for (int32_t i = 0; i < layers; i++)
        p.plan.place[i] = (struct plan_place){{-1, -1}, -1};
    give(&p, layers - 1, take(&p, model->layer[layers - 1].out));
    for (int32_t i = layers - 1; i >= 0; i--) {
        bool norm = model->layer[i].op == LAYER_BATCH_NORM;
        if (graph->node[i].hidden)
            continue;
        if (model_is_general(model))
            plan_sum(&p, i);
        else if (norm && graph->node[i].finish == i)
            plan_norm(&p, i);
        else if (!norm)
            plan_layer(&p, i);
    }
    free(p.used);
    assert(backward_plan_check(&p.plan, model, graph));
    return p.plan;
}

RELEASE(backward_plan, it->place, it->size)
