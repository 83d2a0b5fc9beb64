#include "core/schedule/memory.h"

#include <assert.h>

#include "core/schedule/bucket.h"
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

/* Parameters of the two groups of layers, one after the other, that have most: those of buckets
 * that end in one layer. */
static int64_t group_elements(const struct model *model, const struct scenario *scenario)
{
    enum dtype gradients = (enum dtype)scenario->model.gradients;
    int64_t most = 0, before = 0, here = 0;
    AUTORELEASE(bucket_list)
    struct bucket_list list = bucket_build(model, gradients, (int64_t)scenario->allreduce.bucket);
    for (int32_t i = 0; i < list.count; i++) {
        if (i > 0 && list.bucket[i].layer != list.bucket[i - 1].layer) {
            before = here;
            here = 0;
        }
        here += list.bucket[i].bytes;
        most = before + here > most ? before + here : most;
    }
    return most / dtype_size(gradients);
}

/* Parameters of layers that use another's, which stay gathered. */
static int64_t reused_elements(const struct model *model)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < model->layer_count; i++)
        sum += model->layer[i].weights_of ? layer_weight_bytes(&model->layer[i], 1) : 0;
    return sum;
}

/* What is divided is in @plan whole. */
static void divide(struct memory_plan *plan, const struct model *model,
                   const struct scenario *scenario, int64_t shard)
{
    int64_t master = dtype_size((enum dtype)scenario->model.master);
    int64_t compute = dtype_size((enum dtype)scenario->model.compute);
    int64_t kept = shard * (master + (compute != master ? compute : 0));
    int64_t group = group_elements(model, scenario), whole = model_parameters(model);
    int64_t gathered = group + reused_elements(model);
    plan->gradients = (shard + group) * dtype_size((enum dtype)scenario->model.gradients);
    if (scenario_sharding(scenario) == 3)
        plan->weights = kept + (gathered < whole ? gathered : whole) * compute;
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
    if (shards > 1 && scenario_sharding(scenario) >= 2)
        divide(&plan, model, scenario, shard);
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
