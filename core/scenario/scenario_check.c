#include "core/scenario/scenario.h"

/* ---- targets ---- */

/* Where the value at @path stands, or NULL when its default applied. */
static const struct origin *given(const struct node *root, const char *path)
{
    const struct node *node = field_origin(root, path);
    return node ? &node->origin : NULL;
}

/* Every phase says its epochs, but for the last one before a target. */
static int check_epochs(const struct scenario *scenario, int32_t index, const struct node *root,
                        struct err *err)
{
    bool open = scenario->training.target > 0 && index == scenario->training.phase.count - 1;
    static const char *const keys[] = {"epochs", "samples", "tokens"};
    const struct origin *origin = NULL, *other;
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        AUTOFREE char *key = base_format("training.phases.%d.%s", index, keys[i]);
        other = given(root, key);
        if (origin && other)
            return origin_error(other, err, "give a phase's epochs, samples or tokens, not two");
        origin = other ? other : origin;
    }
    if (open && origin)
        return origin_error(origin, err,
                            "the last phase ends at training.target; give its epochs or a target, "
                            "not both; --set 'training.phases[%d].epochs=null' takes them out",
                            index);
    if (!open && !origin)
        return origin_error(given(root, "training.phases"), err,
                            "phase %d needs epochs, for example 'epochs: 5'%s", index + 1,
                            index == scenario->training.phase.count - 1
                                ? ", or training.target and training.recipe"
                                : "");
    return 0;
}

static int check_points(const struct scenario *scenario, const struct node *root, struct err *err)
{
    const struct convergence_point *point = scenario->training.point.item;
    for (int32_t i = 1; i < scenario->training.point.count; i++)
        if (point[i].batch <= point[i - 1].batch)
            return origin_error(given(root, "training.recipe.points"), err,
                                "points must stand in the order of their batches, each once");
    return 0;
}

/* Published runs trained one network on one data set to one accuracy. */
static int check_recipe(const struct scenario *scenario, const struct node *root, struct err *err)
{
    enum { IMAGENET = 1281167 };
    const char *own = "give points of your own (training.recipe.points)";
    double target = scenario_convergence(scenario).target;
    if (fabs(target - scenario->training.target) > 1e-9) /* 74.9 % is not quite 0.749 */
        return origin_error(given(root, "training.target"), err,
                            "runs of recipe %s ended at %g %%, and say nothing of %g %%; %s",
                            scenario->training.recipe, 100 * target,
                            100 * scenario->training.target, own);
    const char *network = scenario->model.network;
    if ((strcmp(network, "resnet50") != 0 && strcmp(network, "resnet50_v1.5") != 0) ||
        scenario->training.train_images != IMAGENET)
        return origin_error(given(root, "training.recipe"), err,
                            "recipe %s is of resnet50 on imagenet, not %s on %lld images; %s",
                            scenario->training.recipe, network,
                            (long long)scenario->training.train_images, own);
    return 0;
}

/* The part of it that concerns training.target and the epochs of the phases. */
static int scenario_check_target(const struct scenario *scenario, const struct node *root,
                                 struct err *err)
{
    int result = 0;
    for (int32_t i = 0; i < scenario->training.phase.count; i++)
        result |= check_epochs(scenario, i, root, err);
    if (!(scenario->training.target > 0))
        return result;
    const struct origin *target = given(root, "training.target");
    if (!(scenario->training.evaluate_every > 0))
        result = origin_error(target, err,
                              "a run ends at an evaluation that finds the target: give "
                              "training.evaluate_every, for example 4 epochs");
    if (scenario->training.recipe && scenario->training.optimizer > OPTIMIZER_LARS)
        return origin_error(given(root, "training.recipe"), err,
                            "runs of recipe %s trained with LARS, which says nothing of %s: give "
                            "points of your own (training.recipe.points)",
                            scenario->training.recipe,
                            optimizer_names[scenario->training.optimizer]);
    if (scenario->training.recipe)
        return result | check_recipe(scenario, root, err);
    if (scenario->training.point.count == 0)
        return origin_error(target, err,
                            "a target needs training.recipe (rcp-nvidia, rcp-google, v0.5, v0.6, "
                            "v0.7), or points of your own (training.recipe.points)");
    return result | check_points(scenario, root, err);
}

/* ---- all else ---- */

/* Without end where a target ends them: devices decide the batch, and it the epochs. */
static double total_epochs(const struct scenario *scenario)
{
    const struct scenario_phase *phase = scenario->training.phase.item;
    double epochs = scenario->training.target > 0 ? INFINITY : 0;
    for (int32_t i = 0; i < scenario->training.phase.count; i++)
        epochs += phase[i].epochs;
    return epochs;
}

/* Keys of one algorithm alone. */
static int check_alone(const struct scenario *scenario, const struct node *root, struct err *err)
{
    static const struct {
        const char *key;
        enum algorithm algorithm;
    } alone[] = {{"allreduce.grid", ALGORITHM_TORUS2D},
                 {"allreduce.column_algorithm", ALGORITHM_TORUS2D},
                 {"allreduce.channels", ALGORITHM_RING},
                 {"allreduce.chunk", ALGORITHM_TREE}};
    int result = 0;
    for (size_t i = 0; i < ARRAY_SIZE(alone); i++)
        if (given(root, alone[i].key) && scenario->allreduce.algorithm != (int)alone[i].algorithm)
            result |= origin_error(given(root, alone[i].key), err,
                                   "%s has no effect: it belongs to %s, not to %s; --set %s=null "
                                   "removes it",
                                   alone[i].key, algorithm_names[alone[i].algorithm],
                                   algorithm_names[scenario->allreduce.algorithm], alone[i].key);
    if (given(root, "allreduce.grid") &&
        (scenario->allreduce.columns == 0 || scenario->allreduce.rows == 0))
        return origin_error(given(root, "allreduce.grid"), err,
                            "a grid needs both columns and rows");
    return result;
}

static int check_sharded(const struct scenario *scenario, const struct node *root, struct err *err)
{
    int32_t algorithm = scenario->allreduce.algorithm;
    const struct origin *origin = given(root, "parallel.sharding");
    if (!scenario->parallel.sharding)
        return 0;
    if (algorithm != ALGORITHM_RING && algorithm != ALGORITHM_TORUS2D &&
        algorithm != ALGORITHM_NCCL)
        return origin_error(origin, err,
                            "an optimizer is sharded between a reduce-scatter and an all-gather: "
                            "allreduce.algorithm must be ring, torus2d or nccl, not %s",
                            algorithm_names[algorithm]);
    if (scenario->allreduce.channels > 0)
        return origin_error(origin, err,
                            "a sharded optimizer runs on one ring: allreduce.channels must be 1");
    if (scenario->training.optimizer == OPTIMIZER_ADAFACTOR)
        return origin_error(origin, err,
                            "adafactor sums rows and columns of whole matrices, through which a "
                            "shard cuts: shard adamw or lamb, or leave adafactor whole");
    if (scenario->parallel.sharding >= 2 && scenario->allreduce.overlap == OVERLAP_NONE)
        return origin_error(origin, err,
                            "gradients and weights are sharded bucket by bucket: "
                            "allreduce.overlap must be backward");
    return 0;
}

/* One of the two. */
static int check_batch(const struct scenario *scenario, int32_t index, const struct node *root,
                       struct err *err)
{
    const struct scenario_phase *phase =
        (const struct scenario_phase *)scenario->training.phase.item + index;
    AUTOFREE char *round = base_format("training.phases.%d.round", index);
    int result = 0;
    if (!phase->global_batch == !phase->batch_per_device)
        result = origin_error(given(root, "training.phases"), err,
                              "phase %d needs either batch_per_device or global_batch", index + 1);
    else if (!phase->global_batch && given(root, round))
        result = origin_error(given(root, round), err, "no effect without global_batch");
    return result;
}

/* It may be given beside the batch, but is one for all. */
static int check_micro_batch(const struct scenario *scenario, int32_t index,
                             const struct node *root, struct err *err)
{
    const struct scenario_phase *phase =
        (const struct scenario_phase *)scenario->training.phase.item + index;
    AUTOFREE char *key = base_format("training.phases.%d.micro_batch", index);
    if (!phase->micro_batch)
        return 0;
    if (given(root, "training.micro_batch"))
        return origin_error(given(root, key), err, "no effect beside training.micro_batch");
    if (scenario->training.accumulate > 0)
        return origin_error(given(root, key), err,
                            "no effect beside training.accumulate, whose passes are of "
                            "batch_per_device images");
    if (phase->micro_batch != scenario->training.micro_batch)
        return origin_error(given(root, key), err,
                            "micro_batch must be the same in each phase, here %lld",
                            (long long)scenario->training.micro_batch);
    return 0;
}

static int check_phase(const struct scenario *scenario, int32_t index, const struct node *root,
                       struct err *err)
{
    const struct scenario_phase *phase =
        (const struct scenario_phase *)scenario->training.phase.item + index;
    AUTOFREE char *epochs = base_format("training.phases.%d.epochs", index);
    const struct origin *origin = given(root, epochs);
    int result = 0;
    if (origin && !(phase->epochs > 0))
        result = origin_error(origin, err, "a phase must last more than 0 epochs");
    if (phase->epochs > 1e6 && !origin)
        result =
            origin_error(given(root, "training.phases"), err,
                         "phase %d passes over the data set more than a million times", index + 1);
    AUTOFREE char *nodes = base_format("training.phases.%d.nodes", index);
    if (phase->nodes && index == scenario->training.phase.count - 1)
        result = origin_error(given(root, nodes), err,
                              "the last phase takes cluster.nodes, to which throughput and "
                              "efficiency refer; give the number there");
    return result | check_batch(scenario, index, root, err) |
           check_micro_batch(scenario, index, root, err);
}

static int check_dataset(const struct scenario *scenario, const struct node *root, struct err *err)
{
    const struct origin *dataset = given(root, "training.dataset");
    if (scenario->training.train_images || scenario->training.phase.count == 0)
        return 0;
    return origin_error(dataset ? dataset : given(root, "training"), err,
                        "missing key 'training.dataset%s', which counts epochs; phases in samples "
                        "or tokens do not need it",
                        dataset ? ".train_images" : "");
}

static int check_training(const struct scenario *scenario, const struct node *root, struct err *err)
{
    int result = check_dataset(scenario, root, err);
    for (int32_t i = 0; i < scenario->training.phase.count; i++)
        result |= check_phase(scenario, i, root, err);
    double epochs = total_epochs(scenario);
    if (epochs > 0 && scenario->training.warmup_epochs > epochs)
        result =
            origin_error(given(root, "training.warmup_epochs"), err,
                         "the warm-up lasts longer than all phases together (%g epochs)", epochs);
    if (epochs > 0 && scenario->training.evaluate_every > epochs)
        result = origin_error(given(root, "training.evaluate_every"), err,
                              "evaluate_every has no effect: all phases together last %g epochs",
                              epochs);
    else if (scenario->training.evaluate_every > 0 && scenario->training.validation_images == 0)
        result = origin_error(given(root, "training.evaluate_every"), err,
                              "evaluate_every has no effect: there are no validation images");
    return result;
}

static bool reads_files(const struct scenario *scenario)
{
    return scenario->training.data.source != SOURCE_SYNTHETIC &&
           scenario->training.data.source != SOURCE_PROCEDURAL;
}

/* Keys that matter only where others say something, too, if it is 1 as on an axis of a sweep. */
static int check_pairs(const struct scenario *s, const struct node *root, struct err *err)
{
    int32_t decay = s->training.learning_rate.decay, optimizer = s->training.optimizer;
    bool target = s->training.target > 0, collapses = s->training.collapse.epochs > 0;
    bool files = reads_files(s) || s->training.dataset; /* of which no key stands */
    bool workers = s->input.workers > 0, rate = s->input.rate > 0;
    bool tensor = s->parallel.tensor > 1, stages = s->parallel.pipeline > 1;
    bool expert = s->parallel.expert > 1, fraction = s->noise.straggler_fraction > 0;
    bool slowdown = s->noise.straggler_slowdown > 0;
    static const char reader[] = "a source that reads files";
    const struct {
        const char *key;
        bool effect;
        const char *needed;
    } pairs[] = {
        {"training.recipe", target, "training.target"},
        {"training.extrapolate", target, "training.target"},
        {"model.padded", s->model.padded || s->model.tokens > 0, "model.tokens"},
        {"training.learning_rate.power", decay == DECAY_POLYNOMIAL, "decay: polynomial"},
        {"training.learning_rate.final", decay == DECAY_POLYNOMIAL || decay == DECAY_COSINE,
         "decay: polynomial or cosine"},
        {"training.learning_rate.milestones", decay == DECAY_STEP, "decay: step"},
        {"training.collapse.learning_rate", collapses, "training.collapse.epochs"},
        {"training.collapse.power", collapses, "training.collapse.epochs"},
        {"training.collapse.weight_decay", collapses, "training.collapse.epochs"},
        {"training.collapse.augment", collapses, "training.collapse.epochs"},
        {"training.optimizer.trust", optimizer == OPTIMIZER_LARS, "optimizer lars"},
        {"training.optimizer.nesterov", optimizer <= OPTIMIZER_LARS, "optimizer sgd or lars"},
        {"training.optimizer.beta2", optimizer == OPTIMIZER_ADAMW || optimizer == OPTIMIZER_LAMB,
         "optimizer adamw or lamb"},
        {"training.optimizer.momentum", optimizer != OPTIMIZER_ADAFACTOR,
         "another optimizer than adafactor"},
        {"training.loss_scale.interval", s->training.loss_scale.dynamic,
         "training.loss_scale.dynamic"},
        {"training.dataset.path", files, reader},
        {"training.dataset.validation_path", files, reader},
        {"training.dataset.strict", files, reader},
        {"training.batch_norm.momentum", s->training.batch_norm.statistics == BN_STATISTICS_RUNNING,
         "statistics: running"},
        {"noise.straggler.fraction", !fraction || slowdown, "noise.straggler.slowdown"},
        {"noise.straggler.slowdown", !slowdown || fraction, "noise.straggler.fraction"},
        {"input.workers", !workers || rate, "input.rate"},
        {"input.rate", !rate || workers, "input.workers"},
        {"input.prefetch", workers, "input.workers"},
        {"input.storage", workers, "input.workers"},
        {"input.image_bytes", s->input.storage > 0, "input.storage"},
        {"parallel.sequence", given(root, "parallel.tensor"), "parallel.tensor"},
        {"parallel.chunks", stages || s->parallel.chunks == 1, "parallel.pipeline"},
        {"parallel.blocks", stages, "parallel.pipeline"},
        {"parallel.blocks", s->parallel.balance == BALANCE_BLOCKS, "parallel.balance: blocks"},
        {"parallel.schedule", stages, "parallel.pipeline"},
        {"parallel.balance", stages, "parallel.pipeline"},
        {"parallel.context_by", given(root, "parallel.context"), "parallel.context"},
        {"parallel.imbalance", expert, "parallel.expert"},
        {"parallel.expert_by", expert, "parallel.expert"},
        {"parallel.expert_tensor", expert, "parallel.expert"},
        {"parallel.expert_overlap", expert, "parallel.expert"},
        {"parallel.expert_tensor", tensor, "parallel.tensor"},
    };
    int result = 0;
    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
        if (!pairs[i].effect && given(root, pairs[i].key))
            result = origin_error(given(root, pairs[i].key), err, "no effect without %s",
                                  pairs[i].needed);
    return result;
}

static int check_cycle(const struct scenario *scenario, const struct node *root, struct err *err)
{
    double cycle = total_epochs(scenario) / (double)scenario->training.learning_rate.cycles;
    double collapse = scenario->training.collapse.epochs;
    if (!(collapse + scenario->training.warmup_epochs > cycle))
        return 0;
    return origin_error(
        given(root, collapse > 0 ? "training.collapse.epochs" : "training.warmup_epochs"), err,
        "warm-up and collapse last longer than a cycle of %g epochs", cycle);
}

static int check_milestones(const struct scenario *scenario, const struct node *root,
                            struct err *err)
{
    const struct field_list *list = &scenario->training.learning_rate.milestone;
    const struct scenario_milestone *milestone = list->item;
    const struct origin *origin = given(root, "training.learning_rate.milestones");
    for (int32_t i = 1; i < list->count; i++)
        if (milestone[i].epoch <= milestone[i - 1].epoch)
            return origin_error(origin, err, "milestones must stand in the order of their epochs");
    return 0;
}

/* What one condition decides. */
static int check_faults(const struct scenario *s, const struct node *root, struct err *err)
{
    int64_t group = s->training.norm_group, sharding = s->parallel.sharding;
    int64_t each = s->parallel.expert_tensor;
    int32_t algorithm = s->allreduce.algorithm;
    bool stages = s->parallel.pipeline > 1, files = reads_files(s);
    bool step = s->training.learning_rate.decay == DECAY_STEP;
    bool collapses = s->training.collapse.epochs > 0;
    bool paid = s->training.checkpoint.cost > 0 && s->training.checkpoint.bandwidth > 0;
    bool rings = algorithm != ALGORITHM_TORUS2D && algorithm != ALGORITHM_HIERARCHICAL &&
                 !s->allreduce.channels;
    const struct {
        bool fault;
        const char *key, *message;
    } faults[] = {
        {s->training.momentum >= 1, "training.optimizer.momentum", "momentum must be less than 1"},
        {s->training.beta2 >= 1, "training.optimizer.beta2", "beta2 must be less than 1"},
        {group & (group - 1), "training.batch_norm.group",
         "a group of batch norm must have 1, 2, 4, 8 ... devices"},
        {s->training.label_smoothing >= 1, "training.label_smoothing",
         "label smoothing must be less than 100 %"},
        {collapses && s->training.collapse.learning_rate <= 0, "training.collapse.epochs",
         "a collapse needs training.collapse.learning_rate"},
        {step && !s->training.learning_rate.milestone.count, "training.learning_rate.decay",
         "step decay needs milestones"},
        {s->training.accumulate > 0, "training.micro_batch",
         "no effect beside training.accumulate, whose passes are of batch_per_device images"},
        {files && !s->training.data.path, "training.dataset.source",
         "images from files need training.dataset.path"},
        {paid, "training.checkpoint.bandwidth", "no effect beside training.checkpoint.cost"},
        {each > 1 && each != scenario_tensor(s), "parallel.expert_tensor",
         "an expert is of one device, or of parallel.tensor"},
        {each == 1 && scenario_tensor(s) > 1 && !s->parallel.sequence, "parallel.expert_tensor",
         "devices that have whole experts have parts of the positions: needs parallel.sequence"},
        {s->parallel.expert > 1 && !rings, "parallel.expert",
         "gradients of experts are summed over fewer devices; by rings, trees or nccl, without "
         "channels"},
        {s->model.transformer.lora && sharding == 3, "parallel.sharding",
         "weights that are not trained are whole on each device; with model.lora up to 2"},
        {stages && s->parallel.chunks > 1 && s->parallel.schedule == PIPELINE_GPIPE,
         "parallel.chunks", "gpipe has one chunk for each stage; several are interleaved by 1f1b"},
        {stages && sharding >= 2, "parallel.sharding",
         "between stages of a pipeline each micro-batch would gather and scatter; 1 shards the "
         "optimizer alone, and sends what FSDP sends there by default"},
    };
    int result = 0;
    for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
        if (faults[i].fault && given(root, faults[i].key))
            result = origin_error(given(root, faults[i].key), err, "%s", faults[i].message);
    return result;
}

int scenario_check(const struct scenario *scenario, const struct node *root, struct err *err)
{
    return check_alone(scenario, root, err) | check_sharded(scenario, root, err) |
           scenario_check_target(scenario, root, err) | check_training(scenario, root, err) |
           check_cycle(scenario, root, err) | check_milestones(scenario, root, err) |
           check_pairs(scenario, root, err) | check_faults(scenario, root, err);
}
