#include "core/schedule/iteration.h"

#include "core/schedule/layer_step.h"
#include "core/schedule/memory.h"
#include "core/schedule/optimizer.h"
#include "core/schedule/pipeline.h"

/* The last step of the task that what follows may need: all but gradients of weights. */
static int32_t last_value(const struct schedule *schedule, const struct iteration *it)
{
    int32_t id = schedule->step_count - 1;
    while (id >= it->task.first && (schedule->step[id].kind != STEP_COMPUTE ||
                                    schedule->step[id].compute.op == COMPUTE_BACKWARD_FILTER))
        id--;
    return id >= it->task.first ? id : it->task.arrived;
}

/* Ranks that pass keys and values around a ring beside attention, which needs the last of as many
 * parts at its end; 1: none do. */
static int32_t ring_parts(const struct iteration *it)
{
    bool ring = it->scenario->parallel.context_by == CONTEXT_RING;
    return ring ? grid_axis_size(it->grid, AXIS_CONTEXT) : 1;
}

/* The exchange that was added since the last computation of the task, or what arrived before the
 * first, or -1: there is none, or attention runs beside it.  Where another micro-batch is computed
 * beside an exchange with experts, that is the one before it in the pass. */
static int32_t awaited(const struct schedule *schedule, const struct iteration *it)
{
    int32_t id = schedule->step_count - 1;
    while (id >= it->task.first && schedule->step[id].kind == STEP_COLLECTIVE &&
           (schedule->step[id].lane != LANE_TENSOR || schedule->step[id].collective.beside)) {
        bool travels = schedule->step[id--].collective.axis == AXIS_EXPERT;
        while (travels && (schedule->step[id].kind != STEP_COLLECTIVE ||
                           schedule->step[id].collective.axis != AXIS_EXPERT))
            if (--id < it->task.paired)
                return -1;
        if (travels)
            return id;
    }
    if (id < it->task.first)
        return it->task.arrived;
    const struct step *step = &schedule->step[id];
    bool beside = step->lane == LANE_TENSOR && step->collective.axis == AXIS_CONTEXT;
    return step->lane == LANE_TENSOR && !(beside && ring_parts(it) > 1) ? id : -1;
}

/* What the products wait for which read layer @index or end in it, the last of which is @after. */
static int32_t before_products(const struct schedule *schedule, const struct iteration *it,
                               int32_t index, int32_t after)
{
    const struct layer *layer = it->model->layer;
    for (int32_t id = after; id >= it->task.first; id--) {
        const struct step *step = &schedule->step[id];
        int32_t own = step->kind == STEP_COMPUTE ? step->compute.layer : -1;
        if (own >= 0 && own != layer[index].input[0] && layer[own].input[0] != index)
            return id;
    }
    return it->task.arrived;
}

/* The ranks on the axis of layer @index exchange its value, or its gradient.  Where software runs
 * exchanges beside products, it cuts both into as many parts as there are ranks: what follows waits
 * for one part.  Source: Transformer Engine's Userbuffers, --tp-comm-overlap of Megatron-LM. */
static void add_exchange(struct schedule *schedule, const struct iteration *it, int32_t index,
                         bool backward)
{
    const struct layer *layer = &it->model->layer[index];
    bool context = layer->axis == AXIS_CONTEXT, tensor = layer->axis == AXIS_TENSOR;
    bool experts = layer->axis == AXIS_EXPERT, ring = context && ring_parts(it) > 1;
    enum algorithm algorithm = ring || experts ? ALGORITHM_RING : it->scenario->allreduce.algorithm;
    int32_t node = it->devices_per_node * grid_axis_size(it->grid, AXIS_TENSOR);
    int32_t group = experts ? grid_axis_nodes(it->grid, AXIS_EXPERT, node).each : 0;
    int64_t in = shape_elements(layer->in), out = shape_elements(layer->out);
    int64_t bytes = it->batch * (in > out ? in : out) * dtype_size(it->scenario->model.compute);
    if (experts && it->scenario->parallel.expert_by == EXPERT_NODES) {
        int32_t ranks = grid_axis_size(it->grid, AXIS_EXPERT);
        double each = router_part(&layer->router, ranks);
        bytes = (int64_t)(each * (double)bytes);
        schedule->far = router_part(&layer->router, ranks / group) / each;
    }
    int32_t after = last_value(schedule, it);
    for (int32_t back = backward && !context; back <= backward; back++) {
        enum collective_op op = layer->exchange[back];
        bool sums = op == COLLECTIVE_REDUCE_SCATTER; /* its products come first */
        int32_t before = sums ? before_products(schedule, it, index, after) : after;
        int32_t cut = it->merges.exchanges && tensor && op != COLLECTIVE_ALL_REDUCE && before >= 0;
        int64_t one = cut ? bytes / grid_axis_size(it->grid, AXIS_TENSOR) : bytes;
        for (int32_t part = 0; op != COLLECTIVE_OP_COUNT && part <= cut; part++) {
            bool beside = cut && sums == (part == 0);
            int32_t id = schedule_add_exchange(schedule, layer->name, op, layer->axis, algorithm,
                                               beside ? bytes - one : one, beside ? before : after);
            schedule->step[id].collective.layer = index;
            schedule->step[id].collective.back = back;
            schedule->step[id].collective.beside = beside || (experts && it->task.paired > 0);
            schedule->step[id].collective.group = group;
        }
    }
}

/* Backward of attention begins: what its ranks pass around beside it. */
static void add_ring(struct schedule *schedule, const struct iteration *it, int32_t index)
{
    const struct layer *layer = it->model->layer;
    if (ring_parts(it) < 2 || layer[index].attends != ATTENDS_CONTEXT)
        return;
    while (layer[index].attends != ATTENDS_SCORES)
        index--;
    for (index--; layer[index].exchanged && layer[index].axis == AXIS_CONTEXT; index--)
        add_exchange(schedule, it, index, true);
}

/* The last layer of attention in a pass, a part of which waits for the last that comes around. */
static int32_t add_last_part(struct schedule *schedule, const struct iteration *it,
                             struct step step, const struct dep *dep, int32_t count)
{
    int32_t parts = ring_parts(it), exchange = schedule->step_count - 1;
    struct step before = step;
    while (schedule->step[exchange].lane != LANE_TENSOR)
        exchange--;
    step.compute.flops = 2 * step.compute.flops / parts; /* this layer has half of all */
    step.compute.bytes = 2 * step.compute.bytes / parts;
    step.compute.kernels = 2 * step.compute.kernels / parts;
    before.compute.flops -= step.compute.flops;
    before.compute.bytes -= step.compute.bytes;
    before.compute.kernels -= step.compute.kernels;
    if (parts > 2)
        schedule_add(schedule, before, dep, count);
    return schedule_add(schedule, step, &(struct dep){exchange, 0}, 1);
}

/* What layer_step() found of the layer in a micro-batch before, or finds. */
static struct step layer_step_again(struct schedule *schedule, const struct iteration *it,
                                    int32_t index, enum compute_op op, enum pass from, enum pass to)
{
    struct step *known = it->known ? &it->known[index * COMPUTE_OP_COUNT + (int32_t)op] : NULL;
    if (known && known->name)
        return *known;
    struct step step = layer_step(schedule, it, index, op, from, to);
    if (known)
        *known = step;
    return step;
}

/* One step for the passes @from ... @to of a layer; waits for @dep (count). */
static int32_t add_layer(struct schedule *schedule, const struct iteration *it, int32_t index,
                         enum compute_op op, enum pass from, enum pass to, const struct dep *dep,
                         int32_t count)
{
    const struct layer *layer = &it->model->layer[index];
    struct step step = layer_step_again(schedule, it, index, op, from, to);
    if (model_attends(it->model, index))
        step.compute.kernels *= ring_parts(it);
    struct dep all[4];
    assert(count < (int32_t)ARRAY_SIZE(all));
    for (int32_t i = 0; i < count; i++)
        all[i] = dep[i];
    if (awaited(schedule, it) >= 0)
        all[count++] = (struct dep){awaited(schedule, it), 0};
    if (ring_parts(it) > 1 &&
        layer->attends == (op == COMPUTE_FORWARD ? ATTENDS_CONTEXT : ATTENDS_SCORES))
        return add_last_part(schedule, it, step, all, count);
    return schedule_add(schedule, step, all, count);
}

/* A batch may be decoded once the first layer, which is the next step, has consumed the batch whose
 * place it takes.  Returns the step. */
static int32_t add_input(struct schedule *schedule, const struct iteration *it)
{
    int64_t pixels = shape_elements(it->model->input);
    int32_t prefetch = (int32_t)it->scenario->input.prefetch;
    struct step input = {
        .kind = STEP_INPUT,
        .lane = LANE_INPUT,
        .name = "input",
        .input = {.images = (int32_t)it->batch,
                  .bytes = it->batch * pixels * dtype_size(it->scenario->model.compute)}};
    struct dep place_free = {schedule->step_count + 1, prefetch > 1 ? prefetch : 1};
    return schedule_add(schedule, input, &place_free, 1);
}

/* Layers whose weights are gathered together: all that are in some buckets. */
struct group {
    int32_t layer;  /* the lowest */
    int32_t bucket; /* the last of them */
    int32_t gather; /* the last step of the latest gather; -1: no other rank has some of it */
};

/* The exchanges of one iteration, of a stage. */
struct exchange_list {
    struct model *made;      /* the network of the stage where it is not the whole; owned */
    const struct model *own; /* the network of the stage, for sums */
    int32_t *gathered; /* (buckets) the steps that gather all, if sharded and not by group; -1:
                          only this rank has it */
    struct bucket_list bucket;
    struct dep *done; /* (next) the last step of each one's sum */
    int32_t next;     /* the first bucket without a sum */
    bool sharded;
    int32_t stage;       /* of sharding; 0: none */
    struct group *group; /* (groups) if weights are sharded, in the order of forward */
    int32_t groups;      /* 0: if sharded, the first steps gather all, the last bucket first */
};

static struct exchange_list find_exchanges(const struct iteration *it,
                                           const struct pipeline *pipeline, int32_t stage)
{
    struct exchange_list list = {.sharded = iteration_shards(it->scenario, it->grid) > 1};
    list.made = pipeline->stages > 1 ? pipeline_stage(pipeline, it->model, stage) : NULL;
    list.own = list.made ? list.made : it->model;
    if (grid_axis_size(it->grid, AXIS_WORLD) > 1)
        list.bucket = bucket_build(list.own, it->scenario->model.gradients, it->bucket,
                                   list.sharded ? pipeline_shared(list.own, it->model) : -1);
    int32_t count = list.bucket.count;
    list.done = base_alloc(count + 2 * it->model->layer_count, sizeof(*list.done));
    list.gathered = base_alloc(count, sizeof(*list.gathered));
    list.stage = list.sharded ? (int32_t)it->scenario->parallel.sharding : 0;
    list.group = base_alloc(count, sizeof(*list.group));
    for (int32_t i = count - 1; list.stage == 3 && i >= 0; i--) {
        int32_t layer = list.bucket.bucket[i].layer;
        if (i == count - 1 || layer != list.bucket.bucket[i + 1].layer)
            list.group[list.groups++] = (struct group){layer, i, -1};
    }
    return list;
}

static void exchange_list_release(struct exchange_list *list)
{
    bucket_list_release(&list->bucket);
    free(list->done);
    free(list->gathered);
    free(list->group);
    model_free(list->made);
}

static int32_t add_gather(struct schedule *schedule, const struct iteration *it,
                          const struct exchange_list *list, int32_t bucket, struct dep after)
{
    int32_t gradient = dtype_size(it->scenario->model.gradients);
    int32_t parameter = dtype_size(it->scenario->model.compute);
    schedule->experts = list->bucket.bucket[bucket].experts;
    int32_t id =
        schedule_add_all_gather(schedule, it->scenario->allreduce.algorithm, bucket,
                                list->bucket.bucket[bucket].bytes * parameter / gradient, after);
    schedule->experts = false;
    return id;
}

/* Gather the weights of a group, if there is one of that number, once all that was computed up to
 * here is done; before the first computation, once an update ago. */
static void gather_group(struct schedule *schedule, const struct iteration *it,
                         struct exchange_list *list, int32_t number)
{
    if (number < 0 || number >= list->groups)
        return;
    struct group *group = &list->group[number];
    int32_t id = schedule->step_count - 1;
    while (id >= 0 && schedule->step[id].kind != STEP_COMPUTE)
        id--;
    struct dep after = id >= 0 ? (struct dep){id, 0} : (struct dep){0, 1};
    for (int32_t i = group->bucket; i >= 0 && list->bucket.bucket[i].layer == group->layer; i--) {
        int32_t before = schedule->step_count, last = add_gather(schedule, it, list, i, after);
        group->gather = schedule->step_count > before ? last : group->gather;
    }
}

/* The step that gathers the last parameters of layer @index, after all earlier layers; -1: none. */
static int32_t gathered(const struct iteration *it, const struct exchange_list *list, int32_t index)
{
    int32_t bucket = 0, count = list->bucket.count;
    if (it->scenario->allreduce.overlap == OVERLAP_NONE)
        return index == it->task.begin && count ? list->gathered[0] : -1;
    while (bucket < count && list->bucket.bucket[bucket].layer != index)
        bucket++;
    return bucket < count ? list->gathered[bucket] : -1;
}

/* Once step @ready is done (-1: at once); with @list, each layer once its parameters are there.
 * While one group of layers runs, the weights of the next are gathered. */
static void add_forward(struct schedule *schedule, const struct iteration *it, int32_t ready,
                        struct exchange_list *list)
{
    int32_t next = 0;
    if (list)
        gather_group(schedule, it, list, next);
    for (int32_t i = it->task.begin; i < it->task.end; i++) {
        struct dep dep[2];
        int32_t count = 0, gather = -1;
        if (list && next < list->groups && list->group[next].layer == i) {
            gather = list->group[next++].gather;
            gather_group(schedule, it, list, next);
        } else if (list && list->sharded && !list->groups) {
            gather = gathered(it, list, i);
        }
        if (i == 0 && ready >= 0)
            dep[count++] = (struct dep){ready, 0};
        if (gather >= 0)
            dep[count++] = (struct dep){gather, 0};
        if (it->model->layer[i].exchanged)
            add_exchange(schedule, it, i, false);
        else
            add_layer(schedule, it, i, COMPUTE_FORWARD, PASS_FORWARD, PASS_FORWARD, dep, count);
    }
}

/* Whether each rank has the scores of some words. */
static bool shares_words(const struct iteration *it)
{
    int32_t from = it->model->layer[it->model->layer_count - 1].input[0];
    return grid_axis_size(it->grid, AXIS_TENSOR) > 1 && from >= 0 &&
           it->model->layer[from].exchanged;
}

/* Of all that the last layer predicts: one class of a picture, or the words of many positions.
 * Gradients of this pass lie where those do that @scattered, if not NULL, sends. */
static void add_loss(struct schedule *schedule, const struct iteration *it,
                     const struct dep *scattered)
{
    enum dtype dtype = it->scenario->model.compute;
    const struct shape out = it->model->layer[it->model->layer_count - 1].out;
    int64_t scores = it->batch * shape_elements(out);
    struct step loss = {.kind = STEP_COMPUTE,
                        .lane = LANE_COMPUTE,
                        .name = "loss",
                        .compute = {.op = COMPUTE_LOSS,
                                    .layer = -1,
                                    .kernel = KERNEL_ELEMENTWISE,
                                    .dtype = dtype,
                                    .kernels = it->merges.passes ? 7 : 2,
                                    .bytes = scores * layer_loss_bytes(it),
                                    .amount = it->batch}};
    loss.compute.shape = schedule_text(schedule, "softmax %d", out.channels);
    int32_t id = schedule_add(schedule, loss, scattered, scattered != NULL);
    if (!shares_words(it))
        return;
    int64_t bytes = grid_axis_size(it->grid, AXIS_TENSOR) * it->batch * out.height * out.width *
                    LOSS_SUMS * dtype_size(DTYPE_FP32);
    id = schedule_add_exchange(schedule, "loss", COLLECTIVE_ALL_GATHER, AXIS_TENSOR,
                               it->scenario->allreduce.algorithm, bytes, id);
    schedule->step[id].collective.layer = it->model->layer_count - 1;
}

/* Once step @gather is done (-1: at once). */
static int32_t add_backward(struct schedule *schedule, const struct iteration *it, int32_t index,
                            int32_t gather)
{
    const struct layer *layer = &it->model->layer[index];
    const struct dep weights = {gather, 0};
    int32_t count = gather >= 0;
    if (!layer_has_arithmetic(layer))
        return add_layer(schedule, it, index, COMPUTE_BACKWARD_DATA, PASS_BACKWARD_DATA,
                         PASS_BACKWARD_FILTER, &weights, count);
    if (!layer->first) {
        int32_t id = add_layer(schedule, it, index, COMPUTE_BACKWARD_DATA, PASS_BACKWARD_DATA,
                               PASS_BACKWARD_DATA, &weights, count);
        if (layer->frozen)
            return id;
        count = 0;
    }
    return add_layer(schedule, it, index, COMPUTE_BACKWARD_FILTER, PASS_BACKWARD_FILTER,
                     PASS_BACKWARD_FILTER, &weights, count);
}

/* Whether norms of gradients are formed: of tensors, or of all against overflows or to clip. */
static bool has_gradient_norms(const struct iteration *it)
{
    return optimizer_cost(it->scenario).gradient_norms || it->scenario->training.clip > 0 ||
           iteration_shards(it->scenario, it->grid) > 1;
}

/* Of each parameter, for norms. */
static int64_t norms_bytes(const struct iteration *it)
{
    int64_t gradient = has_gradient_norms(it) ? dtype_size(it->scenario->model.gradients) : 0;
    return gradient + optimizer_cost(it->scenario).norms * dtype_size(it->scenario->model.master);
}

static int32_t norms_kernels(const struct iteration *it)
{
    return optimizer_cost(it->scenario).norms ? 3 : has_gradient_norms(it) ? 2 : 0;
}

/* Of each parameter, for its update. */
static int64_t update_bytes(const struct scenario *scenario)
{
    bool copies = scenario->model.compute != scenario->model.master;
    struct optimizer_cost cost = optimizer_cost(scenario);
    return cost.masters * dtype_size(scenario->model.master) +
           cost.gradients * dtype_size(scenario->model.gradients) +
           (copies ? dtype_size(scenario->model.compute) : 0);
}

/* A step of the optimizer on a shard of the parameters; waits for @dep (count). */
static int32_t add_update(struct schedule *schedule, const struct iteration *it,
                          const struct model *own, const char *name, int32_t kernels, int64_t bytes,
                          const struct dep *dep, int32_t count)
{
    int64_t parameters =
        optimizer_shard(own, it->scenario, iteration_shards(it->scenario, it->grid));
    struct step step = {.kind = STEP_COMPUTE,
                        .lane = LANE_COMPUTE,
                        .name = name,
                        .compute = {.op = COMPUTE_OPTIMIZER,
                                    .layer = -1,
                                    .kernel = KERNEL_OPTIMIZER,
                                    .dtype = it->scenario->model.master,
                                    .kernels = kernels,
                                    .bytes = parameters * bytes,
                                    .amount = parameters}};
    return schedule_add(schedule, step, dep, count);
}

/* Whether the norm of all gradients needs those of ranks with other layers, or parts of them. */
static bool has_joint_norms(const struct iteration *it)
{
    return has_gradient_norms(it) && (grid_axis_size(it->grid, AXIS_TENSOR) > 1 ||
                                      grid_axis_size(it->grid, AXIS_PIPELINE) > 1);
}

/* The sums of squares over the shard, over all shards, and over the parts of layers.  @return the
 * last step; -1: the optimizer needs no other rank's. */
static int32_t add_norms(struct schedule *schedule, const struct iteration *it,
                         const struct exchange_list *list)
{
    if (!list->sharded && !has_joint_norms(it))
        return -1;
    int32_t id = add_update(schedule, it, list->own, "norms", norms_kernels(it) - 1,
                            norms_bytes(it), list->done, list->next);
    struct step *step = &schedule->step[id];
    step->role = ROLE_NORMS;
    step->compute.shape = "norms";
    if (list->sharded)
        id = schedule_add_norms(schedule, CONTENT_NORMS, it->scenario->allreduce.algorithm,
                                list->bucket.count - 1,
                                (iteration_norms(list->own, it->scenario) +
                                 iteration_vectors(list->own, it->scenario)) *
                                    dtype_size(DTYPE_FP32),
                                id);
    if (has_joint_norms(it) && grid_axis_size(it->grid, AXIS_TENSOR) > 1) {
        id = schedule_add_exchange(schedule, "norms", COLLECTIVE_ALL_REDUCE, AXIS_TENSOR,
                                   it->scenario->allreduce.algorithm, dtype_size(DTYPE_FP32), id);
        schedule->step[id].collective.content = CONTENT_NORMS;
    }
    return id;
}

/* Ranks that share layers or the optimizer have a part of each tensor, by whose norms LAMB scales
 * the step that its moments give: they sum them.  @return the last step. */
static int32_t add_moments(struct schedule *schedule, const struct iteration *it,
                           const struct exchange_list *list, int32_t kernels, int64_t bytes,
                           const struct dep *dep, int32_t count)
{
    int32_t id = add_update(schedule, it, list->own, "moments", kernels, bytes, dep, count);
    struct step *step = &schedule->step[id];
    step->role = ROLE_MOMENTS;
    step->compute.shape = "moments";
    enum algorithm algorithm = it->scenario->allreduce.algorithm;
    int64_t moved = 2 * (int64_t)list->own->tensor_count * dtype_size(DTYPE_FP32);
    if (it->grid.tensor > 1) {
        id = schedule_add_exchange(schedule, "steps", COLLECTIVE_ALL_REDUCE, AXIS_TENSOR, algorithm,
                                   moved, id);
        schedule->step[id].collective.content = CONTENT_STEPS;
    }
    return list->sharded ? schedule_add_norms(schedule, CONTENT_STEPS, algorithm,
                                              list->bucket.count - 1, moved, id)
                         : id;
}

/* Once step @norms is done; -1: it forms its norms itself. */
static int32_t add_optimizer(struct schedule *schedule, const struct iteration *it,
                             const struct exchange_list *list, int32_t norms)
{
    const int32_t tensors_per_kernel = 54;
    const struct scenario *scenario = it->scenario;
    struct optimizer_cost cost = optimizer_cost(scenario);
    int32_t lists = (list->own->tensor_count + tensors_per_kernel - 1) / tensors_per_kernel;
    int32_t kernels = cost.launches * lists, count = norms >= 0 ? 1 : list->next;
    int64_t bytes = update_bytes(scenario);
    struct dep after = {norms, 0};
    const struct dep *dep = norms >= 0 ? &after : list->done;
    if (norms >= 0) {
        kernels += cost.norms > 0; /* the rates */
    } else {
        bytes += norms_bytes(it);
        kernels += norms_kernels(it);
    }
    if (scenario->training.optimizer == OPTIMIZER_LAMB && (it->grid.tensor > 1 || list->sharded)) {
        int64_t last = 3 * dtype_size(scenario->model.master); /* weights rw, step r */
        after.step = add_moments(schedule, it, list, kernels - lists, bytes - last, dep, count);
        dep = &after, count = 1, kernels = lists, bytes = last;
    }
    int32_t id = add_update(schedule, it, list->own, "optimizer", kernels, bytes, dep, count);
    struct step *step = &schedule->step[id];
    step->role = ROLE_OPTIMIZER;
    step->compute.shape =
        schedule_text(schedule, "%s%s", optimizer_names[scenario->training.optimizer],
                      scenario->model.compute != scenario->model.master ? " copy" : "");
    return id;
}

/* First of all, since forward needs them: an iteration ends with its update, as without shards. */
static void add_gathers(struct schedule *schedule, const struct iteration *it,
                        struct exchange_list *list)
{
    for (int32_t i = list->bucket.count - 1; i >= 0; i--) {
        int32_t before = schedule->step_count;
        int32_t id = add_gather(schedule, it, list, i, (struct dep){0, 1});
        list->gathered[i] = schedule->step_count > before ? id : -1;
    }
}

/* The first gathers wait for the @optimizer (stages) of the iteration before. */
static void let_gathers_wait(struct schedule *schedule, const int32_t *optimizer)
{
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        bool gathers =
            step->kind == STEP_COLLECTIVE && step->collective.content == CONTENT_PARAMETERS;
        if (gathers && schedule->dep[step->dep_begin].distance == 1)
            schedule->dep[step->dep_begin].step = optimizer[step->stage];
    }
}

/* Exchange the buckets that are complete once @layer has run backward, ending in @last. */
static void add_exchanges(struct schedule *schedule, const struct iteration *it,
                          struct exchange_list *list, int32_t layer, int32_t last)
{
    for (; list->next < list->bucket.count; list->next++) {
        struct bucket bucket = list->bucket.bucket[list->next];
        if (bucket.layer < layer)
            break;
        enum algorithm algorithm = it->scenario->allreduce.algorithm;
        schedule->experts = bucket.experts;
        int32_t before = (list->next > 0 ? list->next : list->bucket.count) - 1; /* a pass ago */
        int32_t id = list->sharded && !it->merges.whole
                         ? schedule_add_reduce_scatter(schedule, algorithm, list->next,
                                                       bucket.bytes, last, list->done[before].step)
                         : schedule_add_all_reduce(schedule, algorithm, it->devices_per_node,
                                                   list->next, bucket.bytes, last);
        list->done[list->next] = (struct dep){id, 0};
    }
    schedule->experts = false;
}

/* Statistics of a group are summed by recursive doubling.  A node with fewer devices than a group,
 * as a baseline may have, is one group. */
static void group_norms(struct schedule *schedule, const struct iteration *it)
{
    int32_t exchanges = 0;
    while (2 << exchanges <= it->scenario->training.norm_group &&
           2 << exchanges <= it->devices_per_node)
        exchanges++;
    for (int32_t id = 0; id < schedule->step_count; id++) {
        struct step *step = &schedule->step[id];
        if (step->kind == STEP_COMPUTE && step->compute.layer >= 0 &&
            step->compute.layer_op == LAYER_BATCH_NORM)
            step->compute.exchanges = exchanges;
    }
}

/* Schedules of this file are valid; a refusal is our mistake. */
static struct schedule *seal(struct schedule *schedule)
{
    AUTORELEASE(err) struct err err = {0};
    schedule_seal(schedule, &err);
    assert(schedule->sealed);
    return schedule;
}

/* Of the layers from @first to @last, the last that runs again: backward reads what a product
 * reads, but neither what it writes nor what adds and exchanges behind it do. */
static int32_t last_again(const struct iteration *it, int32_t first, int32_t last)
{
    const struct layer *layer = it->model->layer;
    int32_t end = last;
    while (end > first && (layer[end].op == LAYER_ADD || layer[end].exchanged))
        end--;
    bool product = layer_has_arithmetic(&layer[end]) && layer_weights(&layer[end]) > 0;
    return it->merges.early_stop && product ? end - 1 : last;
}

/* What was not kept, again: the layers from @first to @last, with what ranks exchange in them. */
static void add_again(struct schedule *schedule, const struct iteration *it, int32_t first,
                      int32_t last)
{
    for (int32_t i = first; first >= 0 && i <= last_again(it, first, last); i++) {
        if (it->model->layer[i].exchanged) {
            add_exchange(schedule, it, i, false);
            continue;
        }
        int32_t id =
            add_layer(schedule, it, i, COMPUTE_FORWARD, PASS_FORWARD, PASS_FORWARD, NULL, 0);
        schedule->step[id].name = schedule_text(schedule, "%s again", schedule->step[id].name);
    }
}

/* From the last layer to the first; @exchanges gradients on the way.  While one group of layers
 * runs, the weights of the one before it are gathered; its lowest layer waits for them, since a
 * tensor of it may begin in their buckets.  @return the last step. */
static int32_t add_backward_pass(struct schedule *schedule, const struct iteration *it,
                                 bool exchanges, struct exchange_list *list)
{
    int32_t last = -1, group = list->groups - 1;
    int32_t gather = group >= 0 ? list->group[group].gather : -1;
    for (int32_t layer = it->task.end - 1; layer >= it->task.begin; layer--) {
        bool lowest = group >= 0 && list->group[group].layer == layer;
        add_again(schedule, it, memory_again(it->model, it->scenario, layer), layer);
        if (lowest && group > 0)
            gather = list->group[group - 1].gather;
        add_ring(schedule, it, layer);
        const struct layer *here = &it->model->layer[layer];
        if (here->exchanged && (here->axis != AXIS_CONTEXT || ring_parts(it) < 2)) {
            add_exchange(schedule, it, layer, true);
        } else if (!here->exchanged) {
            last = add_backward(schedule, it, layer, gather);
            gather = -1;
        }
        if (exchanges)
            add_exchanges(schedule, it, list, layer, last);
        if (lowest)
            gather_group(schedule, it, list, --group - 1);
    }
    return last;
}

/* Once a stage has run so many tasks backward, the last @period of them and what is forward between
 * them are repeated.  By then the stages are as far apart as they stay. */
struct repeats {
    int32_t after, period;
    int32_t times;  /* 0: all micro-batches are there */
    int32_t passes; /* micro-batches that are there */
};

/* Of @passes micro-batches.  The first stage has run as many more forward than backward as
 * pipeline_in_flight() says.  The order comes again after each micro-batch, with chunks after as
 * many as there are stages; and so, sooner or later, do the times, if not after so few: of two
 * stages that share a link, every other micro-batch may be later.
 */
static struct repeats find_repeats(const struct iteration *it, const struct pipeline *pipeline,
                                   int32_t passes)
{
    int32_t stages = pipeline->stages, chunks = pipeline->chunks;
    enum pipeline_order order = (enum pipeline_order)it->scenario->parallel.schedule;
    int32_t alike = chunks == 1 && stages > 8 ? 8 : stages;
    struct repeats r = {.period = alike * chunks, .passes = passes};
    r.after = stages * chunks + r.period;
    int32_t ahead = (int32_t)pipeline_in_flight(pipeline, order, 0, passes);
    int32_t least = (r.after + ahead) / chunks + 1, micros = r.period / chunks;
    least += (passes - least) % micros; /* whole periods are left out */
    if (it->repeat && order == PIPELINE_1F1B && passes > least) {
        r.passes = least;
        r.times = (passes - least) / micros;
    }
    return r;
}

/* An iteration while it is built. */
struct build {
    struct iteration it; /* of a micro-batch */
    struct pipeline pipeline;
    struct exchange_list *list; /* (stages) */
    int32_t *last;              /* (stages) the last step backward */
    int32_t *arrived[2];        /* (parts * passes) what brings a part its value, its gradient */
    int32_t passes, ready;      /* micro-batches that are there; the input */
    struct repeats repeats;
    int32_t *turns[2]; /* (stages) forward, backward tasks so far */
    int32_t *mark;     /* (stages) the first step of what repeats */
};

static struct build build_new(const struct iteration *it)
{
    AUTORELEASE(err) struct err err = {0};
    struct build b = {.it = *it};
    assert(it->micro_batch > 0 && it->batch % it->micro_batch == 0);
    int failed = pipeline_build(&b.pipeline, it->model, it->scenario, &err);
    assert(!failed);
    (void)failed;
    b.it.batch = it->micro_batch;
    b.it.known = base_alloc(it->model->layer_count * COMPUTE_OP_COUNT, sizeof(*b.it.known));
    b.repeats = find_repeats(it, &b.pipeline, (int32_t)(it->batch / it->micro_batch));
    b.passes = b.repeats.passes;
    b.mark = base_alloc(b.pipeline.stages, sizeof(*b.mark));
    b.list = base_alloc(b.pipeline.stages, sizeof(*b.list));
    b.last = base_alloc(b.pipeline.stages, sizeof(*b.last));
    for (int32_t s = 0; s < b.pipeline.stages; s++)
        b.list[s] = find_exchanges(it, &b.pipeline, s);
    int64_t tasks = (int64_t)b.pipeline.parts * b.passes;
    for (int32_t back = 0; back < 2; back++) {
        b.turns[back] = base_alloc(b.pipeline.stages, sizeof(int32_t));
        b.arrived[back] = base_alloc(tasks, sizeof(int32_t));
        memset(b.arrived[back], -1, (size_t)tasks * sizeof(int32_t));
    }
    return b;
}

static void build_release(struct build *b)
{
    for (int32_t s = 0; s < b->pipeline.stages; s++)
        exchange_list_release(&b->list[s]);
    free(b->it.known);
    free(b->list);
    free(b->last);
    free(b->mark);
    for (int32_t back = 0; back < 2; back++) {
        free(b->turns[back]);
        free(b->arrived[back]);
    }
    pipeline_release(&b->pipeline);
}

/* Forward of a micro-batch, and loss; the first waits for its input and for parameters. */
static void add_part_forward(struct schedule *schedule, struct build *b, int32_t micro)
{
    struct exchange_list *list = &b->list[schedule->stage];
    int32_t ready = micro == 0 && schedule->stage == 0 ? b->ready : -1;
    add_forward(schedule, &b->it, ready, micro == 0 || list->groups ? list : NULL);
    gather_group(schedule, &b->it, list, list->groups - 1);
    gather_group(schedule, &b->it, list, list->groups - 2);
    bool again = list->stage >= 2 && micro > 0;
    if (b->it.task.end == b->it.model->layer_count)
        add_loss(schedule, &b->it, again ? &list->done[list->bucket.count - 1] : NULL);
}

/* Backward of it; the last exchanges gradients on the way; where these or the weights are sharded,
 * each does. */
static void add_part_backward(struct schedule *schedule, struct build *b, int32_t micro)
{
    struct exchange_list *list = &b->list[schedule->stage];
    bool every = list->stage >= 2;
    bool exchanges =
        b->it.scenario->allreduce.overlap == OVERLAP_BACKWARD && (every || micro == b->passes - 1);
    if (every)
        list->next = 0;
    b->last[schedule->stage] = add_backward_pass(schedule, &b->it, exchanges, list);
}

/* Of the value that part @part hands on, or of its gradient, on each rank. */
static int64_t sent_bytes(const struct build *b, int32_t part)
{
    const struct layer *layer = &b->it.model->layer[b->pipeline.value[part]];
    return b->it.batch * shape_elements(layer->out) * dtype_size(b->it.scenario->model.compute);
}

/* Into how many parts a value is cut that is sent; 1: each rank sends all that it has. */
static int64_t sent_parts(const struct build *b)
{
    bool whole = b->it.merges.sends && !b->it.scenario->parallel.sequence;
    return whole ? grid_axis_size(b->it.grid, AXIS_TENSOR) : 1;
}

/* The step that brings @task what it reads of another part, or -1. */
static int32_t receive(struct schedule *schedule, const struct build *b, struct task_of_stage task)
{
    int32_t id = b->arrived[task.back][task.part * b->passes + task.micro];
    int32_t from = task.back ? task.part : task.part - 1; /* the part that hands on */
    if (id < 0 || from < 0 || from + 1 >= b->pipeline.parts || sent_parts(b) == 1)
        return id;
    int32_t index = b->pipeline.value[from];
    id = schedule_add_exchange(schedule, b->it.model->layer[index].name, COLLECTIVE_ALL_GATHER,
                               AXIS_TENSOR, b->it.scenario->allreduce.algorithm,
                               sent_bytes(b, from), id);
    schedule->step[id].collective.layer = index;
    schedule->step[id].collective.back = task.back;
    return id;
}

/* Send what part @part computed to the part that reads it. */
static void send_on(struct schedule *schedule, struct build *b, struct task_of_stage task)
{
    int32_t other = task.part + (task.back ? -1 : 1);
    if (other < 0 || other >= b->pipeline.parts)
        return;
    int32_t index = b->pipeline.value[task.back ? other : task.part];
    const struct layer *layer = &b->it.model->layer[index];
    int64_t parts = sent_parts(b);
    int64_t bytes = (sent_bytes(b, task.back ? other : task.part) + parts - 1) / parts;
    int32_t id = schedule_add_send(schedule, layer->name, task.back, other % b->pipeline.stages,
                                   bytes, last_value(schedule, &b->it), -1);
    schedule->step[id].collective.layer = index;
    b->arrived[task.back][other * b->passes + task.micro] = id;
}

/* Whether a pass in the other direction of another micro-batch is computed beside @task. */
static bool has_pair(const struct build *b, struct task_of_stage task)
{
    int32_t other = b->turns[!task.back][task.stage];
    return task.back ? other < b->pipeline.chunks * b->passes : other > 0;
}

static void add_task(struct schedule *schedule, struct build *b, struct task_of_stage task)
{
    int32_t first = schedule->step_count;
    schedule->stage = task.stage;
    b->it.task.begin = task.part > 0 ? b->pipeline.end[task.part - 1] : 0;
    b->it.task.end = b->pipeline.end[task.part];
    b->it.task.arrived = receive(schedule, b, task);
    b->it.task.first = b->pipeline.stages > 1 ? schedule->step_count : 0;
    bool paired = b->it.scenario->parallel.expert_overlap && has_pair(b, task);
    b->it.task.paired = paired ? schedule->step_count : 0;
    if (task.back)
        add_part_backward(schedule, b, task.micro);
    else
        add_part_forward(schedule, b, task.micro);
    int32_t last = schedule->step_count - 1;
    if (!task.back && task.part + 1 == b->pipeline.parts &&
        schedule->step[last].lane == LANE_TENSOR)
        b->arrived[1][task.part * b->passes + task.micro] = last; /* the loss */
    send_on(schedule, b, task);
    for (int32_t id = first; id < schedule->step_count; id++)
        if (schedule->step[id].kind == STEP_COMPUTE)
            schedule->step[id].compute.micro = task.micro;
        else if (schedule->step[id].kind == STEP_COLLECTIVE)
            schedule->step[id].collective.micro = task.micro;
    int32_t turns = b->turns[task.back][task.stage] += 1;
    if (task.back && turns == b->repeats.after - b->repeats.period)
        b->mark[task.stage] = schedule->step_count;
    if (task.back && turns == b->repeats.after && b->repeats.times > 0)
        schedule_add_repeats(schedule, b->mark[task.stage], b->repeats.times);
}

/* What the sums of @stage end in. */
static int32_t last_sum(const struct build *b, int32_t stage)
{
    const struct exchange_list *list = &b->list[stage];
    return list->next > 0 ? list->done[list->next - 1].step : b->last[stage];
}

/* Each rank that shares layers has the gradients of its block of the positions between them. */
static void sum_blocks(struct schedule *schedule, const struct iteration *it,
                       struct exchange_list *list, int32_t after)
{
    int64_t bytes = 0;
    for (int32_t t = 0; t < list->own->tensor_count; t++)
        if (iteration_is_apart(list->own, it->scenario, t))
            bytes += list->own->tensor[t].elements * dtype_size(it->scenario->model.gradients);
    if (bytes == 0)
        return;
    int32_t id = schedule_add_exchange(schedule, "blocks", COLLECTIVE_ALL_REDUCE, AXIS_TENSOR,
                                       it->scenario->allreduce.algorithm, bytes, after);
    schedule->step[id].collective.content = CONTENT_BLOCKS;
    list->done[list->next++] = (struct dep){id, 0};
}

/* Each of two stages that use the weights of @layer sends the other its gradient, or its shard of
 * it, once the sums of both are done; both optimizers wait. */
static void share_weights(struct schedule *schedule, struct build *b, int32_t index,
                          const int32_t stage[2])
{
    const struct layer *layer = &b->it.model->layer[index];
    int64_t shards = iteration_shards(b->it.scenario, b->it.grid);
    int64_t bytes =
        (layer_weights(layer) + shards - 1) / shards * dtype_size(b->it.scenario->model.gradients);
    int32_t sent[2], after[] = {last_sum(b, stage[0]), last_sum(b, stage[1])};
    for (int32_t i = 0; i < 2; i++) {
        schedule->stage = stage[i];
        sent[i] =
            schedule_add_send(schedule, layer->name, i == 1, stage[1 - i], bytes, after[i], -1);
        schedule->step[sent[i]].collective.layer = index;
        schedule->step[sent[i]].collective.micro = -1;
    }
    for (int32_t i = 0; i < 2; i++) { /* nothing adds to what is still being sent */
        struct exchange_list *list = &b->list[stage[i]];
        list->done[list->next++] = (struct dep){sent[1 - i], 0};
        list->done[list->next++] = (struct dep){sent[i], 0};
    }
}

static int32_t stage_of(const struct pipeline *pipeline, int32_t layer)
{
    int32_t part = 0;
    while (pipeline->end[part] <= layer)
        part++;
    return part % pipeline->stages;
}

/* Each stage sends its sum and those of the stages before it to the next one, and the last one
 * sends all of them back.  @norms (stages): what the optimizers wait for. */
static void join_norms(struct schedule *schedule, const struct build *b, int32_t *norms)
{
    int32_t stages = b->pipeline.stages, before = -1, first = schedule->step_count;
    int64_t each = dtype_size(DTYPE_FP32);
    for (int32_t s = 0; s + 1 < stages; s++) {
        schedule->stage = s;
        before =
            schedule_add_send(schedule, "norms", false, s + 1, (s + 1) * each, norms[s], before);
    }
    for (int32_t s = stages - 1; s > 0; s--) {
        schedule->stage = s;
        norms[s - 1] = schedule_add_send(schedule, "norms", true, s - 1, stages * each, norms[s],
                                         s == stages - 1 ? before : -1);
        norms[s] = s == stages - 1 ? norms[s - 1] : norms[s];
    }
    for (int32_t id = first; id < schedule->step_count; id++)
        schedule->step[id].collective.content = CONTENT_NORMS;
}

/* Of all micro-batches of stage @stage, whose gradients are added to those that are exchanged. */
static int64_t sums_bytes(const struct build *b, int32_t stage)
{
    const struct scenario *scenario = b->it.scenario;
    int32_t each = dtype_size(scenario->model.compute), sum = dtype_size(scenario->model.gradients);
    int64_t micros = b->passes + b->repeats.times * (b->repeats.period / b->pipeline.chunks);
    bool apart = b->it.merges.copies && each != sum;
    return apart * micros * model_parameters(b->list[stage].own) * (each + 2 * sum);
}

/* What follows the last task of each stage. */
static void add_ends(struct schedule *schedule, struct build *b)
{
    const struct model *model = b->it.model;
    for (int32_t s = 0; s < b->pipeline.stages; s++) {
        schedule->stage = s;
        schedule->step[b->last[s]].role = ROLE_LAST_BACKWARD;
        add_exchanges(schedule, &b->it, &b->list[s], 0, b->last[s]);
        assert(b->list[s].next == b->list[s].bucket.count);
    }
    for (int32_t i = 0; i < model->layer_count && b->pipeline.stages > 1; i++) {
        int32_t other = model->layer[i].weights_of - 1;
        const int32_t stage[] = {other < 0 ? 0 : stage_of(&b->pipeline, other),
                                 stage_of(&b->pipeline, i)};
        if (other >= 0 && stage[0] != stage[1] && !model->layer[i].frozen)
            share_weights(schedule, b, i, stage);
    }
    AUTOFREE int32_t *norms = base_alloc(b->pipeline.stages, sizeof(*norms)); /* then optimizers */
    for (int32_t s = 0; s < b->pipeline.stages; s++) {
        schedule->stage = s;
        sum_blocks(schedule, &b->it, &b->list[s], last_sum(b, s));
        norms[s] = add_norms(schedule, &b->it, &b->list[s]);
    }
    if (has_joint_norms(&b->it))
        join_norms(schedule, b, norms);
    for (int32_t s = 0; s < b->pipeline.stages; s++) {
        schedule->stage = s;
        norms[s] = add_optimizer(schedule, &b->it, &b->list[s], norms[s]);
        schedule->step[norms[s]].compute.bytes += sums_bytes(b, s);
    }
    let_gathers_wait(schedule, norms);
}

/* Whether all that is computed is computed once for each image; only assert() asks. */
__attribute__((unused)) static bool iteration_check(const struct schedule *schedule,
                                                    const struct iteration *it)
{
    int64_t passes = it->batch / it->micro_batch, layers = 0, count[COMPUTE_OP_COUNT] = {0};
    for (int32_t i = 0; i < schedule->step_count; i++)
        if (schedule->step[i].kind == STEP_COMPUTE)
            count[schedule->step[i].compute.op] += step_runs(&schedule->step[i]);
    for (int32_t i = 0; i < it->model->layer_count; i++)
        layers += !it->model->layer[i].exchanged;
    bool again = it->scenario->parallel.recompute != RECOMPUTE_NONE || ring_parts(it) > 2;
    return (again || count[COMPUTE_FORWARD] == passes * layers) && count[COMPUTE_LOSS] == passes &&
           schedule_find(schedule, ROLE_OPTIMIZER) >= 0 &&
           count[COMPUTE_BACKWARD_DATA] + count[COMPUTE_BACKWARD_FILTER] >= passes * layers;
}

struct schedule *iteration_build(const struct iteration *it)
{
    const struct scenario *scenario = it->scenario;
    struct schedule *schedule = schedule_new(it->grid);
    schedule->column_algorithm = it->column_algorithm;
    /* A node with fewer devices than channels, as a baseline may have, has one for each. */
    int32_t channels = channel_count(scenario->allreduce.channels, it->devices_per_node);
    schedule->channels = channels < it->devices_per_node ? channels : it->devices_per_node;
    schedule->chunk = (int64_t)scenario->allreduce.chunk;
    AUTORELEASE(build) struct build b = build_new(it);
    for (schedule->stage = 0; schedule->stage < b.pipeline.stages; schedule->stage++)
        if (b.list->sharded && !b.list->groups)
            add_gathers(schedule, it, &b.list[schedule->stage]);
    schedule->stage = 0;
    b.ready = add_input(schedule, it);
    AUTOFREE struct task_of_stage *task =
        pipeline_order(&b.pipeline, (enum pipeline_order)scenario->parallel.schedule, b.passes);
    int32_t first = -1;
    for (int32_t i = 0; i < 2 * b.pipeline.parts * b.passes; i++) {
        int32_t id = schedule->step_count;
        add_task(schedule, &b, task[i]);
        while (schedule->step[id].kind != STEP_COMPUTE)
            id++;
        if (task[i].part == 0 && !task[i].back)
            first = id;
        if (i == 0)
            schedule->step[id].role = ROLE_FIRST_FORWARD;
    }
    schedule->dep[schedule->step[b.ready].dep_begin].step = first;
    add_ends(schedule, &b);
    group_norms(schedule, it);
    assert(iteration_check(schedule, it));
    return seal(schedule);
}

struct schedule *iteration_build_forward(const struct iteration *it)
{
    struct schedule *schedule = schedule_new(it->grid);
    struct iteration whole = *it;
    whole.task.end = it->model->layer_count;
    whole.task.arrived = -1;
    add_forward(schedule, &whole, add_input(schedule, it), NULL);
    return seal(schedule);
}
