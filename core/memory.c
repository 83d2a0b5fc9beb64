#include "core/memory.h"

/* Elements per image of all values together, and of the largest two. */
static int64_t value_elements(const struct model *model)
{
    int64_t sum = 0, first = 0, second = 0;
    for (int32_t i = 0; i < model->layer_count; i++) {
        int64_t elements = shape_elements(model->layer[i].out);
        sum += elements;
        if (elements > first) {
            second = first;
            first = elements;
        } else if (elements > second) {
            second = elements;
        }
    }
    return sum + first + second;
}

/* Of one image, before it is cropped.  What is decoded has a place that any file's pixels fit. */
static int64_t picture_bytes(const struct model *model, const struct scenario *scenario)
{
    struct shape in = model->layer[0].in;
    int64_t pixels = PICTURE_AHEAD * (int64_t)in.height * in.width;
    if (!source_has_pictures((enum dataset_source)scenario->training.data.source))
        return 0;
    if (scenario->training.data.decode == DECODE_DEVICE)
        return 3 * PICTURE_FILE_PIXELS * pixels;
    return PICTURE_PLACE * pixels;
}

struct memory_plan memory_plan(const struct model *model, const struct scenario *scenario,
                               int64_t batch, int64_t micro)
{
    int64_t parameters = model_parameters(model);
    int64_t master = dtype_size((enum dtype)scenario->model.master);
    int64_t compute = dtype_size((enum dtype)scenario->model.compute);
    bool copies = scenario->model.compute != scenario->model.master;
    int64_t batches = (scenario->input.prefetch > 1 ? scenario->input.prefetch : 1) + 1;
    return (struct memory_plan){
        .weights = parameters * (master + (copies ? compute : 0)),
        .gradients = parameters * dtype_size((enum dtype)scenario->model.gradients),
        .momentum = parameters * master,
        .activations = micro * value_elements(model) * compute,
        .input = batch * (batches * shape_elements(model->layer[0].in) * compute +
                          picture_bytes(model, scenario)),
    };
}

int64_t memory_total(const struct memory_plan *plan)
{
    return plan->weights + plan->gradients + plan->momentum + plan->activations + plan->input;
}

int64_t memory_largest_batch(const struct model *model, const struct scenario *scenario,
                             int64_t capacity)
{
    struct memory_plan none = memory_plan(model, scenario, 0, 0);
    struct memory_plan one = memory_plan(model, scenario, 1, 1);
    int64_t fixed = memory_total(&none), each = memory_total(&one) - fixed;
    return capacity > fixed ? (capacity - fixed) / each : 0;
}
