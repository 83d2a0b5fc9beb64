#include "exec/checkpoint/checkpoint_parts.h"

static struct stored_tensor *append(struct stored_list *list)
{
    struct stored_tensor *tensor = &BASE_NEXT(list->item, list->count);
    *tensor = (struct stored_tensor){0};
    return tensor;
}

/* Or, with @square, its second moments, which the optimizer's file alone has. */
static void add_parameter(struct stored_list *list, const struct layout *layout, int32_t index,
                          bool square)
{
    const struct parameter *parameter = &layout->parameter[index];
    const struct layer *layer = &layout->model->layer[parameter->layer];
    struct stored_tensor *tensor = append(list);
    snprintf(tensor->name, sizeof(tensor->name), "%s%s", layout->model->tensor[index].name,
             square ? ".square" : "");
    tensor->offset = parameter->offset + (square ? layout->parameters : 0);
    tensor->elements = parameter->elements;
    bool weight = parameter->kind == PARAMETER_WEIGHT;
    bool window = layer->op == LAYER_CONVOLUTION && !layer_is_dense(layer);
    bool table = layer->op == LAYER_EMBEDDING || layer->op == LAYER_ADD;
    tensor->rank = !weight ? 1 : window ? 4 : 2;
    tensor->shape[table] = layer->out.channels;
    tensor->shape[!table] = weight ? parameter->elements / layer->out.channels : 0;
    if (tensor->rank == 4) {
        tensor->shape[1] = layer->in.channels / (layer->groups > 1 ? layer->groups : 1);
        tensor->shape[2] = tensor->shape[3] = layer->kernel;
    }
}

static void add_statistic(struct stored_list *list, const struct layer *layer, const char *name,
                          int64_t offset)
{
    struct stored_tensor *tensor = append(list);
    snprintf(tensor->name, sizeof(tensor->name), "%s.%s", layer->name, name);
    tensor->in = STORED_IN_STATISTICS;
    tensor->offset = offset;
    tensor->elements = tensor->shape[0] = layer->out.channels;
    tensor->rank = 1;
}

static void add_statistics(struct stored_list *list, const struct layout *layout, int32_t index)
{
    const struct layer *layer = &layout->model->layer[index];
    int64_t offset = layout->statistics[index];
    add_statistic(list, layer, "running_mean", offset);
    add_statistic(list, layer, "running_var", offset + layer->out.channels);
    struct stored_tensor *steps = append(list);
    snprintf(steps->name, sizeof(steps->name), "%s.num_batches_tracked", layer->name);
    steps->in = STORED_IN_PROGRESS;
    steps->elements = 1;
}

/* One tensor for all layers and ranks. */
static void add_ranks(struct stored_list *list, const struct layout *layout, int32_t ranks)
{
    struct stored_tensor *tensor = append(list);
    snprintf(tensor->name, sizeof(tensor->name), "statistics");
    tensor->in = STORED_IN_STATISTICS;
    tensor->rank = 2;
    tensor->shape[0] = ranks;
    tensor->shape[1] = layout->statistic_count;
    tensor->elements = ranks * layout->statistic_count;
}

struct stored_list stored_tensors(const struct layout *layout, enum checkpoint_file file,
                                  int32_t ranks)
{
    struct stored_list list = {0};
    if (file == CHECKPOINT_RANKS) {
        add_ranks(&list, layout, ranks);
        return list;
    }
    const struct model *model = layout->model;
    for (int32_t i = 0; i < model->tensor_count; i++) {
        int32_t layer = model->tensor[i].layer;
        bool last = i + 1 == model->tensor_count || model->tensor[i + 1].layer != layer;
        add_parameter(&list, layout, i, false);
        if (file == CHECKPOINT_OPTIM && layout->squares)
            add_parameter(&list, layout, i, true);
        if (file == CHECKPOINT_MODEL && last && layout->statistics[layer] >= 0)
            add_statistics(&list, layout, layer);
    }
    return list;
}

static bool same_shape(const struct stored_tensor *tensor, const struct safetensors_tensor *other)
{
    if (tensor->in == STORED_IN_PROGRESS)
        return other->elements == 1; /* some write [], some [1] */
    return tensor->rank == other->rank &&
           memcmp(tensor->shape, other->shape, (size_t)tensor->rank * sizeof(int64_t)) == 0;
}

static int refuse_shape(const struct stored_tensor *tensor, const char *name,
                        const struct safetensors_tensor *other, struct err *err)
{
    struct safetensors_tensor expected = {.rank = tensor->rank};
    memcpy(expected.shape, tensor->shape, sizeof(tensor->shape));
    AUTORELEASE(text) struct text found = {0}, wanted = {0};
    safetensors_print_shape(&found, other);
    safetensors_print_shape(&wanted, &expected);
    return err_add(err, "%s: tensor '%s' has shape %s, the network's has %s", name, tensor->name,
                   found.data, wanted.data);
}

static int check_tensor(const struct stored_tensor *tensor, const char *name,
                        const struct safetensors_tensor *other, struct err *err)
{
    bool integer = tensor->in == STORED_IN_PROGRESS;
    if (!other && integer)
        return 0;
    if (!other)
        return err_add(err, "%s: tensor '%s' is missing: a file of another network?", name,
                       tensor->name);
    if (!same_shape(tensor, other))
        return refuse_shape(tensor, name, other, err);
    if (integer != (other->type == SAFETENSORS_I64))
        return err_add(err, "%s: tensor '%s' is of type %s; expected %s", name, tensor->name,
                       safetensors_type_names[other->type], integer ? "I64" : "F32, F16 or BF16");
    return 0;
}

/* Names in the order of strcmp, for bsearch. */
static int compare_names(const void *a, const void *b)
{
    const struct stored_tensor *one = *(const struct stored_tensor *const *)a,
                               *other = *(const struct stored_tensor *const *)b;
    return strcmp(one->name, other->name);
}

static int check_unknown(const struct stored_list *list, const char *name,
                         const struct safetensors *header, struct err *err)
{
    int failed = 0;
    AUTOFREE const struct stored_tensor **sorted = base_alloc(list->count, sizeof(*sorted));
    for (int64_t i = 0; i < list->count; i++)
        sorted[i] = &list->item[i];
    qsort(sorted, (size_t)list->count, sizeof(*sorted), compare_names);
    for (int64_t i = 0; i < header->count; i++) {
        struct stored_tensor key = {0};
        const struct stored_tensor *wanted = &key;
        const char *found = header->tensor[i].name;
        snprintf(key.name, sizeof(key.name), "%s", found);
        if (strlen(found) >= sizeof(key.name) ||
            !bsearch(&wanted, sorted, (size_t)list->count, sizeof(*sorted), compare_names))
            failed = err_add(err, "%s: the network has no tensor '%s'", name, found);
    }
    return failed;
}

int stored_check(const struct stored_list *list, const char *name, const struct safetensors *header,
                 struct err *err)
{
    int failed = 0;
    for (int64_t i = 0; i < list->count; i++)
        failed |=
            check_tensor(&list->item[i], name, safetensors_find(header, list->item[i].name), err);
    return check_unknown(list, name, header, err) || failed ? -1 : 0;
}
