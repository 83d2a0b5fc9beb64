#include "core/schedule/memory.h"

#include "core/schedule/bucket.h"
#include "core/schedule/optimizer.h"
#include "core/schedule/pipeline.h"

/* Whether backward of @layer reads its inputs.  That of sums, copies and what ranks exchange reads
 * nothing, softmax and a ReLU what they wrote, dropout its mask. */
static bool reads_inputs(const struct layer *layer)
{
    bool norm = layer->op == LAYER_BATCH_NORM;
    if (layer->still || (layer->frozen && (norm || layer_has_arithmetic(layer))))
        return false;
    switch (layer->op) {
    case LAYER_RELU:
    case LAYER_DROPOUT:
    case LAYER_ADD:
    case LAYER_CONCAT:
    case LAYER_SOFTMAX:
    case LAYER_EMBEDDING:
    case LAYER_PERMUTE:
        return false;
    case LAYER_OTHER:
        return layer->input_count > 1;
    default:
        return true;
    }
}

/* Whether layer @index is inside of the kernel of attention, which writes no value of it. */
static bool is_merged(const struct memory_case *of, int32_t index)
{
    return of->merges.attention && model_attends(of->model, index) &&
           model_attends(of->model, of->model->layer[index].reader);
}

/* What becomes of a layer's value. */
struct value {
    bool read;       /* backward of another layer reads it */
    bool wide;       /* of one that does not read it as a narrow product does */
    bool across;     /* by a layer that does not run again with this one, or to run again */
    int32_t stretch; /* 1 + the last layer of those that run again with this one; 0: it does not */
};

/* Whether ranks that share the next layers collect their parts of a value. */
static bool gathers(const struct layer *layer)
{
    return layer->exchanged && layer->exchange[0] == COLLECTIVE_ALL_GATHER;
}

/* Of one element of a value. */
static int32_t value_size(const struct memory_case *of, const struct value *kept)
{
    bool narrow = of->scenario->model.products && kept->read && !kept->wide;
    return narrow ? 1 : dtype_size((enum dtype)of->scenario->model.compute);
}

/* Bytes of a sample that layer @index keeps of its value for backward. */
static int64_t kept_bytes(const struct memory_case *of, int32_t index, const struct value *kept)
{
    const struct layer *layer = &of->model->layer[index];
    if (layer->still && !kept->read)
        return 0;
    int64_t elements = shape_elements(gathers(layer) ? layer->in : layer->out);
    bool value = kept->read || layer->readers == 0 || layer->op == LAYER_RELU;
    if (is_merged(of, index))
        value = layer->op == LAYER_SOFTMAX && of->merges.attention == ATTENTION_FUSED;
    else if (layer->op == LAYER_SOFTMAX)
        value = true;
    int64_t mask = layer->op == LAYER_DROPOUT && !is_merged(of, index) ? elements : 0;
    return value * elements * value_size(of, kept) + mask;
}

/* Bytes of a sample: of words, each score and its gradient once more in fp32. */
static int64_t loss_bytes(const struct memory_case *of)
{
    const struct model *model = of->model;
    bool words = !model_reads_pictures(model);
    return words * 2 * shape_elements(model_shape(model, model->layer_count - 1)) *
           dtype_size(DTYPE_FP32);
}

static bool is_again(const struct model *model, const struct scenario *scenario, int32_t index)
{
    const struct layer *layer = &model->layer[index];
    if (scenario->parallel.recompute == RECOMPUTE_SELECTIVE)
        return model_attends(model, index) || (layer->exchanged && layer->axis == AXIS_CONTEXT);
    if (scenario->parallel.recompute != RECOMPUTE_FULL)
        return layer->again && layer->again == scenario->parallel.recompute;
    return !strcmp(layer->role, "body") && strcmp(layer->block, "body") != 0;
}

/* Whether layers @index and @index + 1 run again together. */
static bool goes_on(const struct model *model, const struct scenario *scenario, int32_t index)
{
    return index + 1 < model->layer_count && is_again(model, scenario, index + 1) &&
           !strcmp(model->layer[index].block, model->layer[index + 1].block);
}

int32_t memory_again(const struct model *model, const struct scenario *scenario, int32_t last)
{
    int32_t first = last;
    if (!is_again(model, scenario, last) || goes_on(model, scenario, last))
        return -1;
    while (first > 0 && is_again(model, scenario, first - 1) && goes_on(model, scenario, first - 1))
        first--;
    return first;
}

/* Of all layers; the caller frees them.  Megatron Core discards what norms, activations and
 * projections of latent attention wrote, and keeps outputs of others that run again. */
static struct value *find_values(const struct memory_case *of)
{
    const struct model *model = of->model;
    int64_t how = of->scenario->parallel.recompute;
    bool discards = how == RECOMPUTE_NORMS || how == RECOMPUTE_LATENT;
    struct value *value = base_alloc(model->layer_count, sizeof(*value));
    for (int32_t last = 0; last < model->layer_count; last++) {
        int32_t first = memory_again(model, of->scenario, last);
        for (int32_t i = first; first >= 0 && i <= last; i++)
            value[i].stretch = last + 1;
    }
    for (int32_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layer[i];
        bool stays = layer->attends == ATTENDS_ROTARY && of->merges.turned;
        if (layer->exchanged && layer->axis == AXIS_TENSOR && discards)
            value[i].stretch = value[layer->input[0]].stretch;
        for (int32_t k = 0; k < layer->input_count; k++) {
            struct value *in = layer->input[k] < 0 ? NULL : &value[layer->input[k]];
            if (!in)
                continue;
            bool enters = value[i].stretch && value[i].stretch != in->stretch;
            in->read = in->read || reads_inputs(layer) || enters || stays;
            in->wide = in->wide || (reads_inputs(layer) && !layer_is_narrow(layer)) || enters;
            bool outside = enters || (reads_inputs(layer) && value[i].stretch != in->stretch);
            in->across = in->across || (outside && !discards);
        }
    }
    return value;
}

/* Bytes of a sample: of all values that backward reads, @kept times, of the layers that run again
 * at once what is more than the loss, which is gone by then, and the gradients of the largest two
 * values, but for the scores of words, whose gradient takes their place. */
static int64_t value_bytes(const struct memory_case *of, double kept)
{
    const struct model *model = of->model;
    int32_t size = dtype_size((enum dtype)of->scenario->model.compute);
    AUTOFREE struct value *value = find_values(of);
    int64_t sum = 0, first = 0, second = 0, again = 0, most = loss_bytes(of);
    for (int32_t i = 0; i < model->layer_count; i++) {
        bool scores = model->layer[i].readers == 0 && !model_reads_pictures(model);
        bool none = is_merged(of, i) || scores;
        int64_t elements = none ? 0 : shape_elements(model->layer[i].out);
        if (i == 0 || value[i].stretch != value[i - 1].stretch)
            again = 0;
        if (!value[i].stretch)
            sum += kept_bytes(of, i, &value[i]);
        else if (value[i].across)
            sum += elements * value_size(of, &value[i]);
        else
            again += kept_bytes(of, i, &value[i]);
        most = again > most ? again : most;
        second = elements > first ? first : elements > second ? elements : second;
        first = elements > first ? elements : first;
    }
    return (int64_t)(kept * (double)sum) + most - loss_bytes(of) + (first + second) * size;
}

/* Bytes of a sample that ranks which share layers sum, and that the allocator holds until the
 * device is done, of passes between which the host waits for nothing: with one stage those of a
 * micro-batch and the one before, with more all that come before the first gradient, but of two
 * only where the device takes longer than the host. */
static int64_t ahead_bytes(const struct memory_case *of, double kept)
{
    const struct model *model = of->model;
    int64_t most = 0, count = 0;
    double work = 0;
    for (int32_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layer[i];
        for (enum pass pass = 0; pass < PASS_COUNT; pass++)
            work += (double)layer_flops(layer, pass) * (double)of->micro;
        if (!layer->exchanged || layer->axis != AXIS_TENSOR ||
            layer->exchange[0] != COLLECTIVE_REDUCE_SCATTER)
            continue;
        int64_t elements = shape_elements(layer->in);
        most = elements > most ? elements : most;
        count++;
    }
    bool cut = of->scenario->parallel.pipeline > 1, several = of->batch > of->micro;
    bool waits = kept < 2 || (kept < 3 && work < of->merges.busy * (double)count);
    count *= !cut ? 1 + several : waits ? 0 : (int64_t)kept;
    count = count < of->merges.ahead ? count : of->merges.ahead;
    return count * most * dtype_size((enum dtype)of->scenario->model.compute);
}

/* Of one image, before it is cropped. */
static int64_t picture_bytes(const struct model *model, const struct scenario *scenario)
{
    struct shape in = model->input;
    bool pictures = source_has_pictures((enum dataset_source)scenario->training.data.source);
    return pictures ? PICTURE_AHEAD * PICTURE_PLACE * (int64_t)in.height * in.width : 0;
}

/* Parameters of the two groups of layers, one after the other, that have most: those of buckets
 * that end in one layer.  @shards as many as ranks that share experts have all of these. */
static int64_t group_elements(const struct model *model, const struct scenario *scenario,
                              int32_t shards)
{
    enum dtype gradients = (enum dtype)scenario->model.gradients;
    int64_t most = 0, before = 0, here = 0;
    AUTORELEASE(bucket_list)
    struct bucket_list list = bucket_build(model, gradients, bucket_limit(model, scenario), -1);
    int64_t ranks = shards * scenario_tensor(scenario);
    for (int32_t i = 0; i < list.count; i++) {
        if (i > 0 && list.bucket[i].layer != list.bucket[i - 1].layer) {
            before = here;
            here = 0;
        }
        bool own = list.bucket[i].experts && ranks <= scenario_expert_ranks(scenario);
        here += own ? 0 : list.bucket[i].bytes;
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
                   const struct scenario *scenario, int32_t shards)
{
    int64_t master = dtype_size((enum dtype)scenario->model.master);
    int64_t compute = dtype_size((enum dtype)scenario->model.compute);
    int64_t shard = optimizer_shard(model, scenario, shards);
    int64_t kept = shard * (master + (compute != master ? compute : 0));
    int64_t group = group_elements(model, scenario, shards), whole = model_parameters(model);
    int64_t gathered = group + reused_elements(model);
    plan->gradients = (shard + group) * dtype_size((enum dtype)scenario->model.gradients);
    if (scenario->parallel.sharding == 3)
        plan->weights = kept + (gathered < whole ? gathered : whole) * compute;
}

/* Of a rank that has @of's network and keeps the values of @kept micro-batches. */
static struct memory_plan plan_of(const struct memory_case *of, double kept)
{
    const struct model *model = of->model;
    const struct scenario *scenario = of->scenario;
    int64_t parameters = model_parameters(model);
    int64_t shard = optimizer_shard(model, scenario, of->shards);
    int64_t master = dtype_size((enum dtype)scenario->model.master);
    int64_t compute = dtype_size((enum dtype)scenario->model.compute);
    bool copies = scenario->model.compute != scenario->model.master;
    int64_t weights = copies ? shard * master + parameters * compute : parameters * master;
    int64_t batches = (scenario->input.prefetch > 1 ? scenario->input.prefetch : 1) + 1;
    struct memory_plan plan = {
        .weights = weights + model_frozen(model) * compute,
        .gradients = parameters * dtype_size((enum dtype)scenario->model.gradients),
        .momentum = optimizer_state(model, scenario, of->shards) * master,
        .activations = of->micro * (value_bytes(of, kept) + ahead_bytes(of, kept)),
        .loss = of->micro * loss_bytes(of),
        .input = of->batch * (batches * shape_elements(model->input) * compute +
                              picture_bytes(model, scenario)),
    };
    if (of->shards > 1 && scenario->parallel.sharding >= 2)
        divide(&plan, model, scenario, of->shards);
    if (of->merges.copies && scenario->model.gradients != scenario->model.compute)
        plan.gradients += parameters * compute;
    plan.reserve = (int64_t)(of->merges.reserve * (double)memory_total(&plan));
    return plan;
}

int64_t memory_workspace(const struct model *model)
{
    for (int32_t i = 0; i < model->layer_count; i++)
        if (model->layer[i].op <= LAYER_TRANSPOSED && model->layer[i].kernel > 1)
            return MEMORY_WORKSPACE_LIMIT;
    return 32 * 1024 * 1024;
}

/* A stage of a pipeline. */
struct stage {
    struct memory_case of; /* its network, owned */
    double kept;           /* micro-batches whose values it keeps */
};

/* (count) Those of @of; the caller frees them with stages_free(). */
static struct stage *find_stages(const struct memory_case *of, int32_t *count)
{
    AUTORELEASE(err) struct err err = {0};
    AUTORELEASE(pipeline) struct pipeline pipeline = {0};
    enum pipeline_order order = (enum pipeline_order)of->scenario->parallel.schedule;
    int64_t micros = of->micro > 0 && of->batch > of->micro ? of->batch / of->micro : 1;
    int failed = pipeline_build(&pipeline, of->model, of->scenario, &err);
    assert(!failed);
    (void)failed;
    struct stage *stage = base_alloc(pipeline.stages, sizeof(*stage));
    for (*count = 0; *count < pipeline.stages; (*count)++) {
        struct stage *s = &stage[*count];
        int64_t kept = pipeline_in_flight(&pipeline, order, *count, micros);
        kept += of->scenario->parallel.expert_overlap && kept < micros * pipeline.chunks;
        *s = (struct stage){*of, (double)kept / pipeline.chunks};
        s->of.model = pipeline_stage(&pipeline, of->model, *count);
    }
    return stage;
}

static void stages_free(struct stage *stage, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        model_free((struct model *)(size_t)stage[i].of.model);
    free(stage);
}

struct memory_plan memory_plan(const struct memory_case *of)
{
    int32_t count;
    struct stage *stage = find_stages(of, &count);
    struct memory_plan most = plan_of(&stage[0].of, stage[0].kept);
    int64_t first = memory_total(&most);
    for (int32_t i = 1; i < count; i++) {
        struct memory_plan plan = plan_of(&stage[i].of, stage[i].kept);
        most = memory_total(&plan) > memory_total(&most) ? plan : most;
    }
    stages_free(stage, count);
    most.first = first;
    return most;
}

int64_t memory_total(const struct memory_plan *plan)
{
    return plan->weights + plan->gradients + plan->momentum + plan->activations + plan->loss +
           plan->input + plan->workspace + plan->reserve;
}

int64_t memory_largest_batch(const struct memory_case *of, int64_t fixed, int64_t image,
                             int64_t capacity)
{
    int64_t least = INT64_MAX;
    int32_t count;
    struct stage *stage = find_stages(of, &count);
    for (int32_t i = 0; i < count; i++) {
        struct memory_case none = stage[i].of, one = none;
        none.batch = none.micro = 0;
        one.batch = one.micro = 1;
        struct memory_plan less = plan_of(&none, stage[i].kept),
                           more = plan_of(&one, stage[i].kept);
        int64_t each = memory_total(&more) - memory_total(&less) + image;
        int64_t left = capacity - memory_total(&less) - fixed;
        int64_t largest = left > 0 ? left / each : 0;
        least = largest < least ? largest : least;
    }
    stages_free(stage, count);
    return least;
}
