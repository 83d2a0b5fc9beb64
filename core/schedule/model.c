#include "core/schedule/model.h"

#include "core/base/base.h"

const char *const layer_op_names[] = {
    "convolution", "batch-norm", "max-pool", "average-pool", "linear",   "transposed-convolution",
    "relu",        "gelu",       "silu",     "dropout",      "add",      "multiply",
    "concat",      "matmul",     "softmax",  "layer-norm",   "rms-norm", "group-norm",
    "embedding",   "permute",    "other",    "none",         NULL};
static_assert(ARRAY_SIZE(layer_op_names) == LAYER_OP_COUNT + 2, "a word each, and one for none");

const char *const kernel_names[] = {"gemm",        "convolution", "grouped",   "depthwise",
                                    "batch-norm",  "layer-norm",  "softmax",   "gelu",
                                    "elementwise", "optimizer",   "attention", NULL};
static_assert(ARRAY_SIZE(kernel_names) == KERNEL_COUNT + 1, "a word each");

const char *const attention_names[] = {"unfused", "fused", "flash", NULL};
static_assert(ARRAY_SIZE(attention_names) == ATTENTION_COUNT + 1, "a word each");

const char *const fusion_names[] = {
    "none", "pointwise", "bn-relu", "stats", "mainloop", "ideal", NULL,
};
static_assert(ARRAY_SIZE(fusion_names) == FUSION_COUNT + 1, "one name per fusion");

struct model *model_new(const char *name, int32_t image, int32_t classes)
{
    assert(image >= 1 && classes >= 1);
    struct model *model = base_alloc(1, sizeof(*model));
    snprintf(model->name, sizeof(model->name), "%s", name);
    model->image = image;
    model->classes = classes;
    model->input = (struct shape){3, image, image};
    return model;
}

void model_free(struct model *model)
{
    if (!model)
        return;
    free(model->layer);
    free(model->tensor);
    free(model);
}

int64_t shape_elements(struct shape shape)
{
    return (int64_t)shape.channels * shape.height * shape.width;
}

/* How many windows fit along one side; a part of a window at the end is dropped. */
static int32_t window_count(const struct layer *layer, int32_t side)
{
    int32_t room = side + 2 * layer->padding - layer->kernel;
    assert(layer->kernel >= 1 && layer->stride >= 1 && layer->padding >= 0 && room >= 0);
    return room / layer->stride + 1;
}

static struct shape joined(const struct model *model, const struct layer *layer)
{
    struct shape out = layer->in;
    out.channels = 0;
    for (int32_t i = 0; i < layer->input_count; i++)
        out.channels += model_shape(model, layer->input[i]).channels;
    return out;
}

/* A side of a transposed convolution's output. */
static int32_t spread_side(const struct layer *layer, int32_t side)
{
    return (side - 1) * layer->stride + layer->kernel - 2 * layer->padding;
}

struct shape model_output(const struct model *model, const struct layer *layer)
{
    struct shape in = layer->in;
    bool given = layer->out.channels && layer->out.height;
    switch (layer->op) {
    case LAYER_CONVOLUTION:
    case LAYER_MAX_POOL:
        return given
                   ? layer->out
                   : (struct shape){layer->op == LAYER_MAX_POOL ? in.channels : layer->out.channels,
                                    window_count(layer, in.height), window_count(layer, in.width)};
    case LAYER_TRANSPOSED:
        return given ? layer->out
                     : (struct shape){layer->out.channels, spread_side(layer, in.height),
                                      spread_side(layer, in.width)};
    case LAYER_AVERAGE_POOL:
        return (struct shape){in.channels, layer->out.height, layer->out.width};
    case LAYER_LINEAR:
        return (struct shape){layer->out.channels, 1, 1};
    case LAYER_CONCAT:
        return given ? layer->out : joined(model, layer);
    case LAYER_EMBEDDING:
        return given ? layer->out
                     : (struct shape){layer->out.channels, 1, (int32_t)shape_elements(in)};
    default:
        return given && layer->op != LAYER_BATCH_NORM ? layer->out : in;
    }
}

int64_t layer_weights(const struct layer *layer)
{
    switch (layer->op) {
    case LAYER_CONVOLUTION:
    case LAYER_TRANSPOSED:
        return (int64_t)layer->in.channels / (layer->groups > 1 ? layer->groups : 1) *
               layer->out.channels * layer->kernel *
               (layer->kernel_width ? layer->kernel_width : layer->kernel);
    case LAYER_LINEAR:
        return shape_elements(layer->in) * layer->out.channels;
    case LAYER_BATCH_NORM:
    case LAYER_LAYER_NORM:
    case LAYER_RMS_NORM:
    case LAYER_GROUP_NORM:
        return layer->in.channels;
    case LAYER_EMBEDDING:
        return layer->rows * layer->out.channels;
    default:
        return layer->constants;
    }
}

static int32_t experts(const struct layer *layer)
{
    return layer->experts > 1 ? layer->experts : 1;
}

static int64_t all_weights(const struct layer *layer)
{
    return layer_weights(layer) * experts(layer);
}

static int64_t biases(const struct layer *layer)
{
    bool norm = layer->op == LAYER_BATCH_NORM || layer->op == LAYER_LAYER_NORM ||
                layer->op == LAYER_GROUP_NORM;
    return norm          ? layer->in.channels
           : layer->bias ? (int64_t)layer->out.channels * experts(layer)
                         : 0;
}

static void add_tensor(struct model *model, int32_t index, const char *part, int64_t elements)
{
    if (elements == 0 || model->layer[index].frozen)
        return;
    struct tensor *tensor = &BASE_NEXT(model->tensor, model->tensor_count);
    *tensor = (struct tensor){.layer = index, .elements = elements};
    snprintf(tensor->name, sizeof(tensor->name), "%s.%s", model->layer[index].name, part);
    model->layer[index].parameters += elements;
}

struct shape model_shape(const struct model *model, int32_t index)
{
    return index < 0 ? model->input : model->layer[index].out;
}

/* Whether @reader, which adds or reads the value, can apply the batch norm that made it. */
static bool can_apply(const struct layer *reader, bool adds)
{
    return adds || (layer_has_arithmetic(reader) && reader->groups <= 1) ||
           reader->op == LAYER_MAX_POOL || reader->op == LAYER_AVERAGE_POOL;
}

/* Layer @index reads the value of layer @from, which is what it adds or its input. */
static void connect(struct model *model, int32_t index, int32_t from, bool adds)
{
    if (from < 0)
        return;
    struct layer *read = &model->layer[from];
    if (read->last_reader >= 0 && index != read->last_reader) {
        int32_t earlier = index < read->last_reader ? index : read->last_reader;
        if (model->layer[earlier].input[0] == from)
            model->layer[earlier].fork = true;
    }
    read->readers++;
    if (read->reader < 0)
        read->reader = index;
    if (read->last_reader < index)
        read->last_reader = index;
    read->apart =
        read->apart || (read->op == LAYER_BATCH_NORM && !can_apply(&model->layer[index], adds));
    bool side = adds && read->op == LAYER_BATCH_NORM && !read->relu && read->readers == 1;
    if (side || read->projection) {
        read->projection = side;
        if (read->input[0] >= 0)
            model->layer[read->input[0]].projection = side;
    }
}

/* Whether layer @index has a gradient, once its inputs are settled. */
static void settle(struct model *model, int32_t index)
{
    struct layer *layer = &model->layer[index];
    bool still = layer->frozen || (layer->parameters == 0 && !layer->weights_of);
    for (int32_t i = 0; i < layer->input_count; i++) {
        int32_t from = layer->input[i];
        still = still && (from < 0 ? layer->frozen : model->layer[from].still);
    }
    layer->first = layer->input[0] < 0 || model->layer[layer->input[0]].still;
    layer->still = still;
}

void model_add_residual(struct model *model, int32_t index, int32_t added)
{
    struct layer *layer = &model->layer[index];
    assert(layer->op == LAYER_BATCH_NORM && layer->input_count == 1 && added != index);
    assert(shape_elements(model_shape(model, added)) == shape_elements(layer->out));
    layer->input[layer->input_count++] = added;
    layer->residual = true;
    connect(model, index, added, true);
    for (int32_t i = index; i < model->layer_count; i++)
        settle(model, i);
}

int32_t model_add(struct model *model, struct layer layer)
{
    assert(layer.input_count >= 1 && layer.input_count <= LAYER_INPUTS);
    if (layer.in.channels == 0)
        layer.in = model_shape(model, layer.input[0]);
    layer.out = model_output(model, &layer);
    layer.parameters = 0;
    layer.reader = layer.last_reader = -1;
    layer.apart = layer.op == LAYER_BATCH_NORM &&
                  (layer.input[0] < 0 || !layer_has_arithmetic(&model->layer[layer.input[0]]));
    assert(shape_elements(layer.in) > 0 && shape_elements(layer.out) > 0);
    model->layer = base_room(model->layer, model->layer_count, sizeof(*model->layer));
    int32_t index = model->layer_count++;
    model->layer[index] = layer;
    for (int32_t i = 0; i < layer.input_count; i++)
        connect(model, index, layer.input[i], false);
    const struct layer *owner = layer.weights_of ? &model->layer[layer.weights_of - 1] : NULL;
    add_tensor(model, index, "weight", owner ? 0 : all_weights(&layer));
    add_tensor(model, index, "bias", owner && biases(owner) ? 0 : biases(&layer));
    settle(model, index);
    return index;
}

bool model_reads_pictures(const struct model *model)
{
    return model->input.height > 1;
}

const char *model_inputs(const struct model *model, int64_t count)
{
    if (model_reads_pictures(model))
        return count == 1 ? "image" : "images";
    return count == 1 ? "sample" : "samples";
}

bool model_has_layout(const struct model *model)
{
    int64_t convolutions = 0, all = 0;
    for (int32_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layer[i];
        int64_t own = layer_multiply_adds(layer);
        bool linear = layer->kernel == 1 && layer->in.height == 1;
        convolutions += layer->op == LAYER_CONVOLUTION && !linear ? own : 0;
        all += own;
    }
    return convolutions > all - convolutions;
}

int64_t model_parameters(const struct model *model)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < model->layer_count; i++)
        sum += model->layer[i].parameters;
    return sum;
}

bool model_has_experts(const struct model *model)
{
    int32_t i = 0;
    while (i < model->layer_count && experts(&model->layer[i]) == 1)
        i++;
    return i < model->layer_count;
}

int64_t model_frozen(const struct model *model)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < model->layer_count; i++)
        if (model->layer[i].frozen && !model->layer[i].weights_of)
            sum += layer_weight_bytes(&model->layer[i], 1);
    return sum;
}

enum kernel_kind layer_kernel(const struct layer *layer)
{
    switch (layer->op) {
    case LAYER_CONVOLUTION:
        if (layer->groups > 1)
            return layer->groups == layer->in.channels ? KERNEL_DEPTHWISE : KERNEL_GROUPED;
        return layer->kernel > 1 || layer->kernel_width > 1 ? KERNEL_CONVOLUTION : KERNEL_GEMM;
    case LAYER_TRANSPOSED:
        return KERNEL_CONVOLUTION;
    case LAYER_LINEAR:
    case LAYER_MATMUL:
        return KERNEL_GEMM;
    case LAYER_BATCH_NORM:
        return KERNEL_BATCH_NORM;
    case LAYER_LAYER_NORM:
    case LAYER_RMS_NORM:
    case LAYER_GROUP_NORM:
        return KERNEL_LAYER_NORM;
    case LAYER_SOFTMAX:
        return KERNEL_SOFTMAX;
    case LAYER_GELU:
    case LAYER_SILU:
        return KERNEL_GELU;
    default:
        return KERNEL_ELEMENTWISE;
    }
}

bool layer_has_arithmetic(const struct layer *layer)
{
    return layer->op == LAYER_CONVOLUTION || layer->op == LAYER_LINEAR ||
           layer->op == LAYER_TRANSPOSED;
}

int64_t layer_multiply_adds(const struct layer *layer)
{
    if (layer->op == LAYER_MATMUL)
        return shape_elements(layer->out) * layer->inner;
    struct shape at = layer->op == LAYER_TRANSPOSED ? layer->in : layer->out;
    return layer_has_arithmetic(layer) ? layer_weights(layer) * at.height * at.width : 0;
}

bool layer_is_dense(const struct layer *layer)
{
    return layer->op == LAYER_CONVOLUTION && layer->kernel == 1 && layer->kernel_width <= 1 &&
           layer->groups <= 1 && layer->in.height == 1 && layer->in.width > 1;
}

bool layer_is_narrow(const struct layer *layer)
{
    return layer_is_dense(layer) && !strcmp(layer->role, "body");
}

bool model_is_general(const struct model *model)
{
    for (int32_t i = 0; i < model->layer_count; i++)
        if (model->layer[i].op > LAYER_LINEAR)
            return true;
    return false;
}

bool model_needs_cpu(const struct model *model)
{
    for (int32_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layer[i];
        if (layer->groups > 1 || layer->capped || (layer->residual && !layer->relu))
            return true;
    }
    return model_is_general(model);
}

float layer_top(const struct layer *layer)
{
    return layer->capped ? 6 : layer->relu ? INFINITY : 0;
}

bool layer_has_pass(const struct layer *layer, enum pass pass)
{
    return pass == PASS_FORWARD ||
           !(layer->still || (layer->frozen && pass == PASS_BACKWARD_FILTER));
}

int64_t layer_flops(const struct layer *layer, enum pass pass)
{
    if (!layer_has_pass(layer, pass))
        return 0;
    if (!layer_has_arithmetic(layer)) {
        int64_t forward = layer->flops ? layer->flops : 2 * layer_multiply_adds(layer);
        return pass == PASS_FORWARD ? forward : pass == PASS_BACKWARD_DATA ? 2 * forward : 0;
    }
    return pass == PASS_BACKWARD_DATA && layer->first ? 0 : 2 * layer_multiply_adds(layer);
}

/* Of @of things that many sets of @count. */
static double choose(double of, int32_t count)
{
    double ways = 1;
    for (int32_t i = 1; i <= count; i++)
        ways *= fmax(0, of - count + i) / i;
    return ways;
}

double router_part(const struct router *router, int32_t nodes)
{
    int32_t groups = router->groups ? router->groups : 1, active = router->active;
    int32_t used = router->groups ? router->active_groups : 1;
    double each = (double)router->experts / groups, here = (double)router->experts / nodes;
    double own = ceil(here / each), none = 0; /* groups of a node; that it has no expert */
    for (int32_t i = 0; i <= used && i <= own; i++)
        none += choose(own, i) * choose(groups - own, used - i) / choose(groups, used) *
                choose(used * each - i * here / own, active) / choose(used * each, active);
    return nodes * (1 - none) / active;
}

struct matrix_product layer_product(const struct layer *layer, enum pass pass, int64_t batch)
{
    if (layer_kernel(layer) != KERNEL_GEMM)
        return (struct matrix_product){0};
    int64_t elements = shape_elements(layer->out);
    if (layer->op == LAYER_MATMUL) {
        int64_t width = layer->out.width, lengths = width | layer->inner;
        return (struct matrix_product){batch * elements / width, width, layer->inner,
                                       lengths & -lengths, 0};
    }
    int64_t out = layer->out.channels, in = layer_weights(layer) / out, lengths = in | out;
    int64_t positions = batch * (elements / out), aligned = lengths & -lengths;
    int64_t each = layer->experts > 1 ? positions / layer->experts : 0;
    switch (pass) {
    case PASS_FORWARD:
        return (struct matrix_product){positions, out, in, aligned, each};
    case PASS_BACKWARD_DATA:
        return (struct matrix_product){positions, in, out, aligned, each};
    default:
        return (struct matrix_product){out, in, positions, aligned, each};
    }
}

int64_t model_flops(const struct model *model, enum pass pass)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < model->layer_count; i++)
        sum += layer_flops(&model->layer[i], pass);
    return sum;
}

int64_t layer_weight_bytes(const struct layer *layer, int32_t element_size)
{
    return (all_weights(layer) + biases(layer)) * element_size;
}

void layer_describe(const struct layer *layer, char *text, size_t size)
{
    char window[64] = "";
    int32_t width = layer->kernel_width ? layer->kernel_width : layer->kernel;
    if (layer->op == LAYER_MATMUL)
        snprintf(window, sizeof(window), layer->flops ? " by %lld, %lld FLOP" : " by %lld",
                 (long long)layer->inner, (long long)layer->flops);
    else if (layer->groups > 1)
        snprintf(window, sizeof(window), " %dx%d/%d+%d by %d", layer->kernel, width, layer->stride,
                 layer->padding, layer->groups);
    else if (layer->kernel > 0 && layer->op != LAYER_LINEAR)
        snprintf(window, sizeof(window), " %dx%d/%d+%d", layer->kernel, width, layer->stride,
                 layer->padding);
    snprintf(text, size, "%s%s %dx%dx%d-%dx%dx%d%s%s%s%s%s%s%s", layer_op_names[layer->op], window,
             layer->in.channels, layer->in.height, layer->in.width, layer->out.channels,
             layer->out.height, layer->out.width, layer->bias ? " bias" : "",
             layer->relu ? " relu" : "", layer->residual ? " add" : "",
             layer->first ? " first" : "", layer->fork ? " fork" : "",
             layer->projection ? " side" : "",
             layer->still    ? " still"
             : layer->frozen ? " frozen"
                             : "");
}
