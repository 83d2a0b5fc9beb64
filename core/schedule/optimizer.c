#include "core/schedule/optimizer.h"

static const struct optimizer_cost costs[OPTIMIZER_COUNT] = {
    [OPTIMIZER_SGD] = {.state = 1, .masters = 4, .gradients = 1, .launches = 1},
    [OPTIMIZER_LARS] = {.state = 1,
                        .masters = 4,
                        .gradients = 1,
                        .launches = 1,
                        .norms = 1,
                        .gradient_norms = true},
    [OPTIMIZER_ADAMW] = {.state = 2, .masters = 6, .gradients = 1, .launches = 1},
    [OPTIMIZER_LAMB] = {.state = 2, .masters = 9, .gradients = 1, .launches = 2, .norms = 2},
    [OPTIMIZER_ADAFACTOR] = {.masters = 4, .gradients = 2, .launches = 3, .norms = 2},
    [OPTIMIZER_RMSPROP] = {.state = 2, .masters = 6, .gradients = 1, .launches = 1},
};

struct optimizer_cost optimizer_cost(const struct scenario *scenario)
{
    struct optimizer_cost cost = costs[scenario->training.optimizer];
    if (scenario->training.optimizer == OPTIMIZER_RMSPROP && scenario->training.momentum == 0) {
        cost.state = 1;
        cost.masters = 4;
    }
    return cost;
}

/* Sums of the squares of rows and columns of each matrix; of a vector, each square. */
static int64_t factors(const struct model *model)
{
    int64_t sum = 0;
    for (int32_t t = 0; t < model->tensor_count; t++) {
        int64_t elements = model->tensor[t].elements;
        int64_t columns = model->layer[model->tensor[t].layer].out.channels;
        bool matrix = elements > columns && elements % columns == 0;
        sum += matrix ? elements / columns + columns : elements;
    }
    return sum;
}

int64_t optimizer_shard(const struct model *model, const struct scenario *scenario, int32_t shards)
{
    int64_t ranks = shards * scenario_tensor(scenario), all = scenario_expert_ranks(scenario);
    int64_t copies = ranks > all ? ranks / all : 1;
    int64_t experts = 0;
    for (int32_t i = 0; i < model->layer_count; i++)
        experts += model->layer[i].axis == AXIS_COPIES ? model->layer[i].parameters : 0;
    return (model_parameters(model) - experts + shards - 1) / shards +
           (experts + copies - 1) / copies;
}

int64_t optimizer_state(const struct model *model, const struct scenario *scenario, int32_t shards)
{
    int64_t shard = optimizer_shard(model, scenario, shards);
    int32_t state = optimizer_cost(scenario).state;
    return state ? state * shard : factors(model);
}

bool optimizer_is_trained(const struct scenario *scenario, bool gpu)
{
    return scenario->training.optimizer <= (gpu ? OPTIMIZER_LARS : OPTIMIZER_LAMB) &&
           !(gpu && scenario->training.clip > 0);
}
