#include "core/schedule/memory.h"

#include <assert.h>

#include "core/schedule/optimizer.h"

/* Elements per image of all values together, and of the largest two. */
static int64_t value_elements(const struct model *model)
{
    int64_t sum = 0, first = 0, second = 0;
    for (int32_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layer[i];
        int64_t elements = shape_elements(layer->out);
        bool gathers = elements > shape_elements(layer->in);
        sum += elements - (layer->exchanged && !gathers ? shape_elements(layer->in) : 0);
        if (elements > first) {
            second = first;
            first = elements;
        } else if (elements > second) {
            second = elements;
        }
    }
    return sum + first + second;
}

/* Of one image, before it is cropped.  The place of decoded pixels fits any file. */
static int64_t picture_bytes(const struct model *model, const struct scenario *scenario)
{
    struct shape in = model->input;
    int64_t pixels = PICTURE_AHEAD * (int64_t)in.height * in.width;
    if (!source_has_pictures((enum dataset_source)scenario->training.data.source))
        return 0;
    if (scenario->training.data.decode == DECODE_DEVICE)
        return 3 * PICTURE_FILE_PIXELS * pixels;
    return PICTURE_PLACE * pixels;
}

struct memory_plan memory_plan(const struct model *model, const struct scenario *scenario,
                               int32_t shards, int64_t batch, int64_t micro)
{
    int64_t parameters = model_parameters(model), shard = (parameters + shards - 1) / shards;
    int64_t master = dtype_size((enum dtype)scenario->model.master);
    int64_t compute = dtype_size((enum dtype)scenario->model.compute);
    bool copies = scenario->model.compute != scenario->model.master;
    int64_t batches = (scenario->input.prefetch > 1 ? scenario->input.prefetch : 1) + 1;
    struct memory_plan plan = {
        .weights = copies ? shard * master + parameters * compute : parameters * master,
        .gradients = parameters * dtype_size((enum dtype)scenario->model.gradients),
        .momentum = optimizer_state(model, scenario, shards) * master,
        .activations = micro * value_elements(model) * compute,
        .input = batch * (batches * shape_elements(model->input) * compute +
                          picture_bytes(model, scenario)),
    };
    assert(memory_check(&plan));
    return plan;
}

bool memory_check(const struct memory_plan *plan)
{
    return plan->weights > 0 && plan->gradients > 0 && plan->momentum > 0 && plan->input >= 0 &&
           plan->workspace >= 0;
}

int64_t memory_total(const struct memory_plan *plan)
{
    return plan->weights + plan->gradients + plan->momentum + plan->activations + plan->input +
           plan->workspace;
}

int64_t memory_largest_batch(const struct model *model, const struct scenario *scenario,
                             int32_t shards, int64_t fixed, int64_t image, int64_t capacity)
{
    struct memory_plan none = memory_plan(model, scenario, shards, 0, 0);
    struct memory_plan one = memory_plan(model, scenario, shards, 1, 1);
    int64_t each = memory_total(&one) - memory_total(&none) + image;
    int64_t left = capacity - memory_total(&none) - fixed;
    return left > 0 ? left / each : 0;
}
