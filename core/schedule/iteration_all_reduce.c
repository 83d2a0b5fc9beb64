#include "core/schedule/iteration.h"

#include "core/schedule/optimizer.h"

int32_t iteration_shards(const struct scenario *scenario, struct grid grid)
{
    enum algorithm algorithm = (enum algorithm)scenario->allreduce.algorithm;
    return scenario->parallel.sharding ? grid_axis_size(grid, schedule_shard_axis(algorithm)) : 1;
}

int64_t iteration_norms(const struct model *model, const struct scenario *scenario)
{
    return optimizer_cost(scenario).gradient_norms ? 2 * (int64_t)model->tensor_count : 1;
}

bool iteration_is_vector(const struct model *model, int32_t t)
{
    const struct layer *layer = &model->layer[model->tensor[t].layer];
    bool first = t == 0 || model->tensor[t - 1].layer != model->tensor[t].layer;
    bool weight =
        !layer->weights_of && (layer_has_arithmetic(layer) || layer->op == LAYER_EMBEDDING);
    return !weight || !first;
}

bool iteration_is_apart(const struct model *model, const struct scenario *scenario, int32_t t)
{
    const struct layer *layer = &model->layer[model->tensor[t].layer];
    return scenario->parallel.sequence && scenario->parallel.tensor > 1 &&
           !layer_has_arithmetic(layer) && layer->op != LAYER_EMBEDDING;
}

int64_t iteration_vectors(const struct model *model, const struct scenario *scenario)
{
    int64_t elements = 0;
    for (int32_t t = 0; t < model->tensor_count; t++)
        elements += iteration_is_vector(model, t) ? model->tensor[t].elements : 0;
    bool whole = scenario->parallel.sharding < 3; /* else all that a rank computes with comes */
    return whole && scenario->model.compute != scenario->model.master ? elements : 0;
}

static int check_channels(struct all_reduce how, int32_t devices_per_node, struct err *err)
{
    int32_t count = channel_count(how.channels, devices_per_node);
    if (how.channels == 0)
        return 0;
    if (how.algorithm != ALGORITHM_RING)
        return err_usage(err, "--channels has no effect on algorithm %s: only a ring has some",
                         algorithm_names[how.algorithm]);
    if (count > devices_per_node)
        return err_usage(err,
                         "%" PRId32 " rings need as many devices in a node, which has %" PRId32
                         ": --channels=all",
                         count, devices_per_node);
    return 0;
}

static int check_chunk(struct all_reduce how, int64_t bytes, struct err *err)
{
    if (how.chunk == 0)
        return 0;
    if (how.algorithm != ALGORITHM_TREE)
        return err_usage(err, "--chunk has no effect on algorithm %s: only a tree has chunks",
                         algorithm_names[how.algorithm]);
    if (bytes > how.chunk * CHUNK_LIMIT)
        return err_usage(err,
                         "%" PRId64 " B in chunks of %" PRId64
                         " B are more than %d: use --chunk=%" PRId64 "B or more",
                         bytes, how.chunk, CHUNK_LIMIT, (bytes + CHUNK_LIMIT - 1) / CHUNK_LIMIT);
    return 0;
}

struct schedule *iteration_build_all_reduce(struct all_reduce how, struct grid grid,
                                            int32_t devices_per_node, int64_t bytes,
                                            struct err *err)
{
    bool by_node = how.algorithm == ALGORITHM_HIERARCHICAL || how.channels > 0;
    if (grid_ranks(grid) < 2) {
        err_add(err, "an all-reduce needs at least 2 ranks");
        return NULL;
    }
    if (check_channels(how, devices_per_node, err) || check_chunk(how, bytes, err))
        return NULL;
    if (by_node && grid_ranks(grid) % devices_per_node != 0) {
        err_add(err,
                "a %s all-reduce needs whole nodes: %" PRId32 " ranks are no multiple of %" PRId32
                " devices per node",
                how.channels > 0 ? "multi-ring" : "hierarchical", grid_ranks(grid),
                devices_per_node);
        return NULL;
    }
    struct schedule *schedule = schedule_new(grid);
    schedule->chunk = how.chunk;
    schedule->channels = channel_count(how.channels, devices_per_node);
    schedule_add_all_reduce(schedule, how.algorithm, devices_per_node, 0, bytes, -1);
    int failed = schedule_seal(schedule, err);
    assert(!failed);
    (void)failed;
    return schedule;
}
