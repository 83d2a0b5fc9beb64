#include "exec/step/part.h"

#include "core/schedule/pipeline.h"

/* ---- the stage ---- */

static void take_stage(struct part *part, const struct model *split,
                       const struct scenario *scenario)
{
    AUTORELEASE(err) struct err err = {0};
    AUTORELEASE(pipeline) struct pipeline pipeline = {0};
    part->model = split;
    part->shared = -1;
    if (part->stages == 1)
        return;
    int failed = pipeline_build(&pipeline, split, scenario, &err);
    assert(!failed);
    (void)failed;
    part->model = part->made = pipeline_stage(&pipeline, split, part->stage);
    for (int32_t i = 0; i < part->made->layer_count; i++)
        if (part->made->layer[i].input_count == 0) /* it brings what another stage sends */
            part->made->layer[i].last_reader = split->layer[i].last_reader;
    part->shared = pipeline_shared(part->model, split);
}

/* A layer's values are kept from forward to the last step backward. */
int32_t part_flights(const struct schedule *schedule, int32_t layers)
{
    AUTOFREE int32_t *kept = base_alloc(layers, sizeof(*kept));
    AUTOFREE bool *filters = base_alloc(layers, sizeof(*filters));
    int32_t most = 1;
    for (int32_t id = 0; id < schedule->step_count; id++)
        if (schedule->step[id].kind == STEP_COMPUTE &&
            schedule->step[id].compute.op == COMPUTE_BACKWARD_FILTER)
            filters[schedule->step[id].compute.layer] = true;
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        int32_t layer = step->compute.layer;
        if (step->kind != STEP_COMPUTE || layer < 0)
            continue;
        if (step->compute.op == COMPUTE_FORWARD)
            kept[layer]++;
        else
            kept[layer] -= filters[layer] == (step->compute.op == COMPUTE_BACKWARD_FILTER);
        most = kept[layer] > most ? kept[layer] : most;
    }
    return most;
}

/* ---- tensors ---- */

static int32_t find_tensor(const struct model *model, const char *name)
{
    int32_t t = 0;
    while (strcmp(model->tensor[t].name, name) != 0) {
        t++;
        assert(t < model->tensor_count);
    }
    return t;
}

/* Of tensor @t, whose layer may have taken the weights of an earlier one of @split. */
static struct place place_tensor(const struct part *part, const struct layout *whole,
                                 const struct model *split, int32_t t)
{
    const struct parameter *own = &part->layout.parameter[t];
    const struct layer *layer = &part->model->layer[own->layer];
    int32_t owner = split->layer[own->layer].weights_of - 1;
    bool taken = owner >= 0 && own->kind == PARAMETER_WEIGHT;
    char name[sizeof(split->tensor->name)];
    snprintf(name, sizeof(name), "%s", part->model->tensor[t].name);
    if (taken)
        snprintf(name, sizeof(name), "%s.weight", split->layer[owner].name);
    const struct parameter *all = &whole->parameter[find_tensor(whole->model, name)];
    struct place place = {own->offset, all->offset, 1, own->elements, 0, taken};
    int64_t left = all->elements - part->index * own->elements;
    int64_t in = layer->in.channels, from = whole->model->layer[all->layer].in.channels;
    if (own->elements == all->elements) {
        place.repeated |= part->index > 0;
    } else if (own->kind == PARAMETER_WEIGHT && layer_is_dense(layer) && in < from) {
        place.rows = own->elements / in;
        place.columns = in;
        place.next = from;
        place.whole += part->index * in;
    } else {
        place.columns = left < own->elements ? left : own->elements;
        place.whole += part->index * own->elements;
    }
    return place;
}

struct part part_build(const struct layout *whole, const struct model *split,
                       const struct scenario *scenario, const struct schedule *schedule,
                       int32_t rank)
{
    struct grid grid = schedule->grid;
    struct part part = {.stage = grid_axis_index(grid, AXIS_PIPELINE, rank),
                        .stages = grid_axis_size(grid, AXIS_PIPELINE),
                        .index = grid_axis_index(grid, AXIS_TENSOR, rank),
                        .parts = grid_axis_size(grid, AXIS_TENSOR)};
    take_stage(&part, split, scenario);
    part.layout = layout_build(part.model);
    part.layout.squares = whole->squares;
    part.place = base_alloc(part.model->tensor_count, sizeof(*part.place));
    for (int32_t t = 0; t < part.model->tensor_count; t++)
        part.place[t] = place_tensor(&part, whole, split, t);
    return part;
}

void part_release(struct part *part)
{
    layout_release(&part->layout);
    model_free(part->made);
    free(part->place);
    *part = (struct part){0};
}

bool part_is_split(const struct part *part)
{
    return part->stages > 1 || part->parts > 1;
}

void part_copy(const struct part *part, bool back, float *whole, float *own)
{
    for (int32_t t = 0; t < part->model->tensor_count; t++) {
        struct place place = part->place[t];
        size_t bytes = (size_t)place.columns * sizeof(*own);
        for (int64_t row = 0; row < place.rows; row++) {
            float *at = whole + place.whole + row * place.next;
            float *to = own + place.own + row * place.columns;
            memcpy(back ? at : to, back ? to : at, bytes);
        }
    }
}
