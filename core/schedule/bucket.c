#include "core/schedule/bucket.h"

static struct bucket *open_bucket(struct bucket_list *list, struct bucket kind)
{
    list->bucket = base_room(list->bucket, list->count, sizeof(*list->bucket));
    list->bucket[list->count] = kind;
    return &list->bucket[list->count++];
}

/* Append @bytes of @layer to the last bucket of its @kind, opening new ones as they fill. */
static void pack(struct bucket_list *list, int32_t layer, struct bucket kind, int64_t bytes,
                 int64_t limit)
{
    int32_t at = list->count - 1;
    while (at >= 0 && (list->bucket[at].experts != kind.experts || list->bucket[at].apart))
        at--;
    struct bucket *last = at >= 0 && !kind.apart ? &list->bucket[at] : NULL;
    while (bytes > 0) {
        if (!last || last->bytes == limit)
            last = open_bucket(list, kind);
        int64_t room = limit - last->bytes;
        int64_t part = bytes < room ? bytes : room;
        last->bytes += part;
        last->layer = layer;
        bytes -= part;
    }
}

/* Whether the buckets hold every gradient once, all but the last of each kind full. */
__attribute__((unused)) static bool bucket_check(const struct bucket_list *list,
                                                 const struct model *model, enum dtype dtype,
                                                 int64_t limit)
{
    int64_t bytes = 0;
    bool open[2] = {false};
    for (int32_t i = 0; i < list->count; i++) {
        bytes += list->bucket[i].bytes;
        if (i > 0 && list->bucket[i].layer > list->bucket[i - 1].layer)
            return false;
        if (list->bucket[i].apart)
            continue;
        if (open[list->bucket[i].experts])
            return false;
        open[list->bucket[i].experts] = limit > 0 && list->bucket[i].bytes != limit;
    }
    return bytes == model_parameters(model) * dtype_size(dtype);
}

static int compare(const void *a, const void *b)
{
    const struct bucket *x = a, *y = b;
    if (x->layer != y->layer || x->experts != y->experts)
        return x->layer != y->layer ? y->layer - x->layer : x->experts - y->experts;
    return (y->bytes > x->bytes) - (y->bytes < x->bytes);
}

int64_t bucket_limit(const struct model *model, const struct scenario *scenario)
{
    int64_t largest = 0, block = 0;
    int32_t size = dtype_size((enum dtype)scenario->model.gradients);
    if (scenario->allreduce.bucket > 0)
        return (int64_t)fmax(scenario->allreduce.bucket, 1);
    for (int32_t i = 0; i < model->layer_count && scenario->parallel.sharding >= 2; i++) {
        const struct layer *layer = &model->layer[i];
        bool goes_on = i > 0 && !strcmp(layer->block, layer[-1].block);
        block = (goes_on ? block : 0) + layer_weight_bytes(layer, size);
        if (!strcmp(layer->role, "body") && largest < block)
            largest = block;
    }
    return largest ? largest : model_parameters(model) * size;
}

struct bucket_list bucket_build(const struct model *model, enum dtype dtype, int64_t limit,
                                int32_t apart)
{
    assert(limit >= 0);
    struct bucket_list list = {0};
    for (int32_t i = model->layer_count - 1; i >= 0; i--) {
        struct bucket kind = {.experts = model->layer[i].axis == AXIS_COPIES, .apart = i == apart};
        pack(&list, i, kind, model->layer[i].parameters * dtype_size(dtype),
             limit > 0 && i != apart ? limit : INT64_MAX);
    }
    if (list.count > 1)
        qsort(list.bucket, (size_t)list.count, sizeof(*list.bucket), compare);
    assert(bucket_check(&list, model, dtype, limit));
    return list;
}

void bucket_list_release(struct bucket_list *list)
{
    free(list->bucket);
    *list = (struct bucket_list){0};
}
