#include "core/scenario/scenario.h"

const char *const recompute_names[] = {"none", "norms", "latent", "selective", "full", NULL};
static_assert(ARRAY_SIZE(recompute_names) == RECOMPUTE_COUNT + 1, "one word per choice");
static const char *const dataset_names[] = {"imagenet", NULL};
const char *const optimizer_names[] = {"sgd",       "lars",    "adamw", "lamb",
                                       "adafactor", "rmsprop", NULL};
static_assert(ARRAY_SIZE(optimizer_names) == OPTIMIZER_COUNT + 1, "one word per optimizer");
static const char *const context_names[] = {"ring", "all-gather", NULL};
static const char *const expert_names[] = {"copies", "slots", "nodes", NULL};
static const char *const pipeline_order_names[] = {"1f1b", "gpipe", NULL};
static const char *const balance_names[] = {"blocks", "flop", "greedy", NULL};
static_assert(ARRAY_SIZE(balance_names) == BALANCE_COUNT + 1, "one word each");
static_assert(ARRAY_SIZE(pipeline_order_names) == PIPELINE_ORDER_COUNT + 1, "one word per order");
static const char *const overlap_names[] = {"none", "backward", NULL};
static_assert(ARRAY_SIZE(overlap_names) == OVERLAP_COUNT + 1, "one word per overlap");

static const char *const decay_names[] = {"constant", "step", "polynomial", "cosine", NULL};
static_assert(ARRAY_SIZE(decay_names) == DECAY_COUNT + 1, "one word each");
static const char *const bn_statistics_names[] = {"running", "last", NULL};
static_assert(ARRAY_SIZE(bn_statistics_names) == BN_STATISTICS_COUNT + 1, "one word each");
static const char *const choice_names[] = {"auto", "false", "true", NULL};
static const char *const gated_names[] = {"auto", "false", "true", "clamped", NULL};
static const char *const norm_names[] = {"auto", "layer", "post-layer", "rms", "rms-both", NULL};
static const char *const position_names[] = {"auto", "learned", "rotary", "none", NULL};
static const char *const head_names[] = {"auto", "next-token", "masked-token",
                                         "span", "classes",    NULL};
static const char *const rounding_names[] = {"exact", "down", "up", NULL};
static_assert(ARRAY_SIZE(rounding_names) == ROUND_COUNT + 1, "a word each");

/* Rows by kind: key, member of struct RECORD, what stands there if nothing is given, ... */
#define REQUIRED                           NULL
#define ROW(name, member, ...)             FIELD_ROW(name, RECORD, member, __VA_ARGS__)
#define SWITCH(name, member, before, what) ROW(name, member, before, what, .kind = FIELD_BOOLEAN)
#define TEXT(name, member, before, what)   ROW(name, member, before, what, .kind = FIELD_TEXT)
#define WORD(name, member, before, list, what)                                                     \
    ROW(name, member, before, what, .kind = FIELD_WORD, .words = list)
#define REAL(name, member, measure, before, low, high, what)                                       \
    ROW(name, member, before, what, .kind = FIELD_REAL, .unit = measure, .minimum = low,           \
        .maximum = high)
#define INTEGER(name, member, before, low, high, what)                                             \
    ROW(name, member, before, what, .kind = FIELD_INTEGER, .minimum = low, .maximum = high)
#define LIST(name, member, before, low, high, items, what)                                         \
    ROW(name, member, before, what, .kind = FIELD_LIST, .minimum = low, .maximum = high,           \
        .table = items)

#define RECORD scenario_phase
static const char *const cluster_placement_names[] = {"platform", "contiguous", "scattered", NULL};

static const struct field phase_rows[] = {
    REAL("epochs", epochs, UNIT_EPOCHS, "", 0, 1e6,
         "length of the phase in passes over the training data, more than 0; of the last phase "
         "training.target may decide it"),
    REAL("samples", samples, UNIT_AMOUNT, "", 1, 1e18,
         "length of the phase in samples, instead of epochs"),
    REAL("tokens", tokens, UNIT_AMOUNT, "", 1, 1e18,
         "length of the phase in tokens, model.tokens or model.sequence a sample, instead of "
         "epochs: 15T, 300B"),
    INTEGER("batch_per_device", batch_per_device, "", 1, 1e6,
            "samples (images, sequences) a device, or a group of parallel, takes per step, or per "
            "pass of training.accumulate"),
    INTEGER("global_batch", global_batch, "", 1, 1e9,
            "samples all devices together take per step, instead of batch_per_device"),
    INTEGER("micro_batch", micro_batch, "", 1, 1e6,
            "training.micro_batch beside the batch; the same in each phase"),
    WORD("round", round, "exact", rounding_names,
         "of a global_batch that the devices cannot share evenly: exact refuses it, down and up "
         "train the nearest one below or above that they can"),
    INTEGER("nodes", nodes, "", 1, 1e6,
            "nodes that take part in a phase before the last one, when not all of cluster.nodes; a "
            "grid keeps its columns; predictions only"),
};
static const struct field_table phase_table = FIELD_TABLE("phase", phase_rows, struct RECORD);
#undef RECORD

#define RECORD scenario_milestone
static const struct field milestone_rows[] = {
    REAL("epoch", epoch, UNIT_EPOCHS, REQUIRED, 0, 1e6, "where in the run this factor begins"),
    REAL("factor", factor, UNIT_NONE, REQUIRED, 0, 1e6,
         "the learning rate from there on, relative to the base"),
};
static const struct field_table milestone_table =
    FIELD_TABLE("milestone", milestone_rows, struct RECORD);
#undef RECORD

#define RECORD convergence_point
static const struct field point_rows[] = {
    INTEGER("batch", batch, REQUIRED, 1, 1e9, "samples all devices together take per step"),
    REAL("epochs", epochs, UNIT_EPOCHS, REQUIRED, 1, 1e6,
         "epochs to the target with this batch, mean of several runs"),
    REAL("spread", spread, UNIT_EPOCHS, "", 0, 1e6,
         "their standard deviation; as MLPerf's reference points have it when not given"),
};
static const struct field_table point_table = FIELD_TABLE("point", point_rows, struct RECORD);
#undef RECORD

#define RECORD scenario
static const struct field scenario_rows[] = {
    INTEGER("version", version, REQUIRED, 1, 1, "version of this format"),
    TEXT("model.network", model.network, REQUIRED,
         "network to train: resnet50 (v1.5), resnet50_v1, vgg16, toy, ..., or a network file"),
    INTEGER(
        "model.image", model.image, "224", 1, SCENARIO_IMAGE_LIMIT,
        "width and height of the images in pixels; as the network was published when not given"),
    INTEGER("model.classes", model.classes, "1000", 1, SCENARIO_CLASS_LIMIT,
            "classes the network tells apart; a network file says its own"),
    INTEGER("model.sequence", model.transformer.sequence, "", 1, 1 << 24,
            "positions of a sample, in tokens; those that the network was published with when not "
            "given"),
    INTEGER("model.document", model.transformer.document, "", 1, 1 << 24,
            "mean tokens of the documents that are packed into a sample, between which there is no "
            "attention; model.sequence when not given; predictions only"),
    INTEGER("model.window", model.transformer.window, "", 1, 1 << 24,
            "positions that one attends to at most, itself and those right before it; all before "
            "it when not given; predictions only"),
    INTEGER("model.full_every", model.transformer.full_every, "", 2, 4096,
            "of so many layers the last attends to all positions in spite of model.window; none "
            "does when not given"),
    INTEGER("model.tokens", model.tokens, "", 1, 1 << 24,
            "mean tokens of a sample without padding; model.sequence when not given"),
    SWITCH("model.padded", model.padded, "true",
           "samples are computed with their padding; false: only their tokens are"),
    INTEGER("model.layers", model.transformer.layers, "", 1, 4096,
            "blocks of attention and feed-forward network of a transformer"),
    INTEGER("model.hidden", model.transformer.hidden, "", 1, 1 << 20, "features of a position"),
    INTEGER("model.heads", model.transformer.heads, "", 1, 1 << 16,
            "heads of attention, which share the features of queries"),
    INTEGER("model.kv_heads", model.transformer.kv_heads, "", 1, 1 << 16,
            "heads of keys and values; model.heads when not given"),
    INTEGER("model.ffn", model.transformer.ffn, "", 1, 1 << 22,
            "features inside the feed-forward network; four times model.hidden when not given"),
    WORD("model.gated", model.transformer.gated, "auto", gated_names,
         "the feed-forward network multiplies by SiLU of a third matrix, instead of GELU; clamped: "
         "both limited before"),
    INTEGER("model.experts", model.transformer.experts, "", 2, 65536,
            "feed-forward networks side by side, between which a router chooses"),
    INTEGER("model.active", model.transformer.active, "", 1, 65536,
            "experts that compute a position; 2 when not given"),
    INTEGER("model.expert_groups", model.transformer.expert_groups, "", 1, 65536,
            "groups of equally many experts; one when not given"),
    INTEGER("model.active_groups", model.transformer.active_groups, "", 1, 65536,
            "groups that have all experts of a position; all when not given"),
    INTEGER("model.expert_ffn", model.transformer.expert_ffn, "", 1, 1 << 22,
            "features inside an expert; model.ffn when not given"),
    INTEGER("model.shared_experts", model.transformer.shared, "", 0, 65536,
            "experts that compute all positions, beside those that the router chooses; none when "
            "not given"),
    INTEGER("model.dense_layers", model.transformer.dense_layers, "", 0, 4096,
            "first layers, which have one feed-forward network in place of experts; none when not "
            "given"),
    INTEGER("model.head_size", model.transformer.head_size, "", 1, 1 << 16,
            "features of a head of attention; model.hidden / model.heads when not given"),
    INTEGER("model.kv_rank", model.transformer.kv_rank, "", 1, 1 << 16,
            "features of a position from which latent attention makes keys and values; without it "
            "they are made of all; predictions only"),
    INTEGER("model.query_rank", model.transformer.query_rank, "", 1, 1 << 16,
            "features from which latent attention makes queries; all when not given"),
    INTEGER("model.rotary_size", model.transformer.rotary_size, "", 1, 1 << 16,
            "features of latent attention's queries and keys that turn by position, beside "
            "model.head_size"),
    INTEGER("model.further", model.transformer.further, "", 1, 16,
            "blocks behind the last, each of which predicts a token further ahead (multi-token "
            "prediction); none when not given; predictions only"),
    INTEGER("model.lora", model.transformer.lora, "", 1, 65536,
            "rank of adapters (LoRA) beside the four matrices of attention, which alone are "
            "trained; without it all weights are; predictions only"),
    INTEGER("model.vocab", model.transformer.vocab, "", 1, 1 << 24,
            "tokens that the network knows"),
    WORD("model.tied", model.transformer.tied, "auto", choice_names,
         "the last layer uses the weights of the embedding"),
    WORD("model.norm", model.transformer.norm, "auto", norm_names,
         "layer norm or RMS norm before attention and feed-forward network, layer norm after each, "
         "or RMS norm both before and after; layer when auto"),
    WORD("model.position", model.transformer.position, "auto", position_names,
         "how positions are told apart; learned when auto"),
    INTEGER("model.positions", model.transformer.positions, "", 1, 1 << 24,
            "rows of the learned table of positions; model.sequence when not given"),
    INTEGER("model.segments", model.transformer.segments, "", 1, 65536,
            "rows of the learned table of segments; none when not given"),
    WORD("model.bias", model.transformer.bias, "auto", choice_names,
         "linear layers have biases; true when auto"),
    WORD("model.dropout", model.transformer.dropout, "auto", choice_names,
         "dropout follows embedding, attention and feed-forward network; false when auto"),
    WORD("model.head", model.transformer.head, "auto", head_names,
         "what is predicted: the next token; masked tokens and whether two segments follow each "
         "other; begin and end of a span; model.classes of the first position"),
    REAL("model.predicted", model.transformer.predicted, UNIT_FRACTION, "", 0, 1,
         "share of the positions whose token is predicted; 15 % of masked-token, else all"),
    INTEGER("model.patch", model.transformer.patch, "", 1, 4096,
            "side of the squares of a picture that are its positions, in pixels; without it the "
            "network reads tokens"),
    WORD("model.precision.compute", model.compute, "fp32", dtype_names,
         "number format of weights and activations in forward and backward"),
    WORD("model.precision.products", model.products, "compute", product_names,
         "number format in which linear layers of a transformer's blocks read what they multiply, "
         "forward and backward: converted before each product; predictions only"),
    WORD("model.precision.gradients", model.gradients, "fp32", dtype_names,
         "number format in which gradients are exchanged"),
    WORD("model.precision.master", model.master, "fp32", dtype_names,
         "number format of the weights that the optimizer updates"),
    TEXT("cluster.platform", cluster.platform, REQUIRED,
         "name of a platform, such as abci, or path of a platform file"),
    INTEGER("cluster.nodes", cluster.nodes, REQUIRED, 1, SCENARIO_DEVICE_LIMIT,
            "nodes that take part"),
    INTEGER("cluster.devices_per_node", cluster.devices_per_node, "", 1, SCENARIO_DEVICE_LIMIT,
            "devices used in each node; all of the platform's when not given"),
    TEXT("cluster.software", cluster.software, "",
         "name of a software profile, such as mlperf-v0.6, or path of one: how fast kernels are; "
         "when not given, as the device file says, or pytorch-flash for networks of few "
         "convolutions on a GPU that nobody measured"),
    WORD("cluster.placement", cluster.placement, "platform", cluster_placement_names,
         "the nodes that a job gets of a larger cluster: neighbours, or any, as where users share "
         "it; as the platform says when not given"),
    REAL("cluster.speed", cluster.speed, UNIT_FRACTION, "1", 0.01, 10,
         "how fast devices compute, relative to what the device file and its software say; "
         "predictions only"),
    REAL("cluster.speed_spread", cluster.speed_spread, UNIT_FRACTION, "0", 0, 1,
         "standard deviation of cluster.speed where steps of this job were measured, as import log "
         "says: kernels are in doubt by no more; predictions only"),
    ROW("training.dataset", training.dataset, "",
        "a known data set, or a mapping with its numbers of samples; not needed where the length "
        "of each phase is given in samples or tokens, all of which are then one epoch",
        .kind = FIELD_TEXT, .words = dataset_names),
    INTEGER("training.dataset.train_images", training.train_images, "", 1, 1e12,
            "samples in one epoch: images or sequences"),
    INTEGER("training.dataset.validation_images", training.validation_images, "0", 0, 1e12,
            "samples in one evaluation"),
    WORD("training.dataset.source", training.data.source, "synthetic", dataset_source_names,
         "what train reads: samples made up (synthetic, procedural) or files"),
    TEXT("training.dataset.path", training.data.path, "",
         "folder or file of the training data; of a folder with train and val both"),
    TEXT("training.dataset.validation_path", training.data.validation_path, "",
         "folder or file of the validation data"),
    SWITCH("training.dataset.augment", training.data.augment, "true",
           "crop and flip training images at random"),
    SWITCH("training.dataset.strict", training.data.strict, "false",
           "end training at the first image that cannot be read"),
    LIST("training.phases", training.phase, REQUIRED, 1, SCENARIO_PHASE_LIMIT, &phase_table,
         "batch-size control: stretches of training, each with batch_per_device or global_batch"),
    WORD("training.optimizer.name", training.optimizer, "sgd", optimizer_names,
         "rule that updates the weights; train knows sgd and lars, on CPUs adamw and lamb, too; "
         "predictions all"),
    REAL("training.optimizer.momentum", training.momentum, UNIT_NONE, "0.9", 0, 1,
         "share of the last update that is kept, less than 1; of adamw and lamb their beta1"),
    REAL("training.optimizer.beta2", training.beta2, UNIT_NONE, "0.999", 0, 1,
         "share of the mean of squared gradients that is kept, less than 1"),
    REAL("training.optimizer.weight_decay", training.weight_decay, UNIT_NONE, "5e-5", 0, 1,
         "factor of the weights that is added to their gradients"),
    SWITCH("training.optimizer.nesterov", training.nesterov, "false",
           "look ahead along the momentum"),
    REAL("training.optimizer.clip", training.clip, UNIT_NONE, "", 0, 1e6,
         "gradients whose global norm is larger are scaled down to it; not on GPUs"),
    REAL("training.optimizer.trust", training.trust, UNIT_NONE, "0.001", 0, 1e3,
         "LARS: factor of the ratio of weights and gradients that sets a layer's rate"),
    REAL("training.label_smoothing", training.label_smoothing, UNIT_FRACTION, "0", 0, 1,
         "share of the label that is spread over all classes, less than 1"),
    REAL("training.warmup_epochs", training.warmup_epochs, UNIT_EPOCHS, "0", 0, 1e6,
         "epochs over which the learning rate rises from 0"),
    REAL("training.evaluate_every", training.evaluate_every, UNIT_EPOCHS, "0", 0, 1e6,
         "epochs between evaluations on the validation data; 0 is never"),
    REAL("training.target", training.target, UNIT_FRACTION, "", 0.01, 1,
         "top-1 accuracy that ends the last phase, instead of its epochs; predictions only"),
    ROW("training.recipe", training.recipe, "",
        "published runs that say how many epochs the target takes at a batch (foretrain show "
        "convergence), or a mapping with points of your own",
        .kind = FIELD_TEXT, .words = convergence_recipes),
    LIST("training.recipe.points", training.point, "", 0, CONVERGENCE_POINTS, &point_table,
         "batches and the epochs that the target takes with them, smaller batches first"),
    SWITCH("training.extrapolate", training.extrapolate, "false",
           "allow batches that are smaller or larger than those of the recipe"),
    REAL("training.startup", training.startup, UNIT_SECONDS, "0 s", 0, 1e9,
         "seconds before the first step runs at full speed: start-up, compilation, the first "
         "epoch's slowness; added once to the time to train"),
    INTEGER("training.batch_norm.group", training.norm_group, "1", 1, 1024,
            "devices of a node that normalise with common statistics, a power of two: each batch "
            "norm layer exchanges its sums among so many, forward and backward"),
    INTEGER("training.micro_batch", training.micro_batch, "", 1, 1e6,
            "samples a device takes through the network at once; gradients of a larger batch are "
            "accumulated"),
    INTEGER("training.accumulate", training.accumulate, "", 1, 1e6,
            "passes of batch_per_device samples in a step, whose gradients are added up before one "
            "exchange and one update"),
    REAL("training.learning_rate.base", training.learning_rate.base, UNIT_NONE, "0.1", 0, 1e6,
         "learning rate after the warm-up"),
    INTEGER("training.learning_rate.base_batch", training.learning_rate.base_batch, "", 1, 1e9,
            "global batch that the base is meant for: the rate follows the batch in proportion; "
            "the same for every batch when not given"),
    WORD("training.learning_rate.decay", training.learning_rate.decay, "constant", decay_names,
         "how the rate falls after the warm-up"),
    REAL("training.learning_rate.power", training.learning_rate.power, UNIT_NONE, "2", 0, 100,
         "exponent of polynomial decay"),
    REAL("training.learning_rate.final", training.learning_rate.final, UNIT_NONE, "0", 0, 1e6,
         "learning rate at the end of polynomial and cosine decay, as a share of the start"),
    LIST("training.learning_rate.milestones", training.learning_rate.milestone, "", 0, 1000,
         &milestone_table, "for step decay: where the rate changes, and to what"),
    INTEGER("training.learning_rate.cycles", training.learning_rate.cycles, "1", 1, 1000,
            "how often warm-up and decay start anew; a snapshot is kept at the end of each"),
    REAL("training.collapse.epochs", training.collapse.epochs, UNIT_EPOCHS, "0", 0, 1e6,
         "length of a second short decay at the end of each cycle; 0 is none"),
    REAL("training.collapse.learning_rate", training.collapse.learning_rate, UNIT_NONE, "", 0, 1e6,
         "learning rate at its start"),
    REAL("training.collapse.power", training.collapse.power, UNIT_NONE, "2", 0, 100,
         "exponent of its polynomial decay to 0"),
    REAL("training.collapse.weight_decay", training.collapse.weight_decay, UNIT_NONE, "1e-4", 0, 1,
         "weight decay during it"),
    SWITCH("training.collapse.augment", training.collapse.augment, "false",
           "crop and flip training images at random during it"),
    REAL("training.batch_norm.momentum", training.batch_norm.momentum, UNIT_NONE, "0.1", 0, 1,
         "weight of the newest batch in the running statistics"),
    REAL("training.batch_norm.epsilon", training.batch_norm.epsilon, UNIT_NONE, "1e-5", 0, 1,
         "added to variances"),
    WORD("training.batch_norm.statistics", training.batch_norm.statistics, "running",
         bn_statistics_names,
         "what evaluation normalises with: moving averages, or the last batch; averaged over all "
         "devices"),
    REAL("training.loss_scale.initial", training.loss_scale.initial, UNIT_NONE, "1",
         SCENARIO_LOSS_SCALE_LEAST, SCENARIO_LOSS_SCALE_MOST,
         "factor of the loss in backward, so that small gradients survive 16 bits"),
    SWITCH("training.loss_scale.dynamic", training.loss_scale.dynamic, "false",
           "halve it at an overflow, double it after a while without"),
    INTEGER("training.loss_scale.interval", training.loss_scale.interval, "2000", 1, 1e9,
            "steps without overflow after which a dynamic loss scale doubles"),
    REAL("training.checkpoint.every", training.checkpoint.every, UNIT_EPOCHS, "0", 0, 1e6,
         "epochs between checkpoints; 0 is only at the end; where a platform has failures, "
         "predictions take the best interval when not given"),
    INTEGER("training.checkpoint.keep", training.checkpoint.keep, "2", 1, 1e6,
            "checkpoints that are kept, the newest"),
    REAL("training.checkpoint.cost", training.checkpoint.cost, UNIT_SECONDS, "", 1e-6, 1e6,
         "seconds that training stands still for a checkpoint; predictions only"),
    REAL("training.checkpoint.bandwidth", training.checkpoint.bandwidth, UNIT_BYTES_PER_SECOND, "",
         1, 1e15,
         "at which weights and the optimizer's state are written, instead of the cost; predictions "
         "only"),
    REAL("training.checkpoint.restart", training.checkpoint.restart, UNIT_SECONDS, "", 0, 1e6,
         "seconds from a failure until the work after the last checkpoint begins again; "
         "training.startup and the cost of a checkpoint, which is read, when not given; "
         "predictions only"),
    INTEGER("parallel.tensor", parallel.tensor, "", 1, 1024,
            "devices that share each layer of a transformer, of a node or of whole nodes: heads, "
            "features of the feed-forward network and words are split; each batch is of so many "
            "devices together; ranks on CPUs train so, too"),
    SWITCH(
        "parallel.sequence", parallel.sequence, "",
        "between the layers that they share, each has a part of the positions: reduce-scatter "
        "and all-gather in place of all-reduce; false when not given; ranks on CPUs train so, too"),
    INTEGER("parallel.sharding", parallel.sharding, "", 0, 3,
            "what each rank has a shard of (ZeRO's stage): 0 nothing; 1 the optimizer "
            "(reduce-scatter, update, all-gather); 2 the gradients, too; 3 the weights, too, which "
            "each bucket's layers gather before forward and backward (FSDP); GPUs train with 1; "
            "with ring and nccl all ranks share, with torus2d those of a row"),
    WORD("parallel.recompute", parallel.recompute, "none", recompute_names,
         "what is computed again before backward and not kept: norms and activations (norms), what "
         "latent attention projects up (latent), attention (selective), or each block of which the "
         "input alone is kept (full), with what devices exchange in it; predictions only"),
    INTEGER("parallel.pipeline", parallel.pipeline, "", 1, 1024,
            "stages, each of other devices, that the network is cut into: between blocks of a "
            "transformer, else by FLOP; each batch is of so many devices together, in parts of "
            "training.micro_batch; ranks on CPUs train transformers so"),
    INTEGER("parallel.chunks", parallel.chunks, "", 1, 1024,
            "parts of the network that each stage has, one in each round through the stages "
            "(interleaved 1F1B); 1 when not given"),
    INTEGER("parallel.blocks", parallel.blocks, "", 1, 1024,
            "blocks of each part but the last, which has the rest; even when not given"),
    WORD("parallel.schedule", parallel.schedule, "1f1b", pipeline_order_names,
         "order of a stage: one micro-batch forward, one backward, or all forward first"),
    WORD("parallel.balance", parallel.balance, "blocks", balance_names,
         "of what stages have equally many: blocks of the network, the ends one fewer, or FLOP, of "
         "which the layers behind the blocks have some, too; greedy: each has blocks until it has "
         "more than its share of weights, as nanotron's"),
    INTEGER(
        "parallel.context", parallel.context, "", 1, 1024,
        "devices that share each sequence: each has an equal part of its positions, of which none "
        "has more to attend to; each batch is of so many devices together; predictions only"),
    WORD("parallel.context_by", parallel.context_by, "ring", context_names,
         "how they get the keys and values of the whole sequence: ring passes them on beside "
         "attention, all-gather does before it"),
    INTEGER("parallel.expert", parallel.expert, "", 1, 1024,
            "devices that share the experts of a layer, of those that hold the same other weights; "
            "positions go to their experts and back, all to all; predictions only"),
    INTEGER("parallel.expert_tensor", parallel.expert_tensor, "", 1, 1024,
            "devices that share each expert: parallel.tensor when not given, or 1, with which "
            "those of parallel.tensor are among those that share the experts of a layer"),
    WORD("parallel.expert_by", parallel.expert_by, "copies", expert_names,
         "what a position sends: copies, one to each of its experts, sorted there and padded for "
         "fp8; slots, the same into equally many places of each; nodes, one to each node that has "
         "some of them, and there to each device (DeepEP, HybridEP)"),
    SWITCH("parallel.expert_overlap", parallel.expert_overlap, "",
           "positions of a micro-batch travel while a pass of another in the other direction is "
           "computed (combined 1F1B), of which one more is kept; false when not given"),
    REAL("parallel.imbalance", parallel.imbalance, UNIT_NONE, "1", 1, 1024,
         "positions that the busiest of these devices computes, over the mean; all wait for it"),
    WORD("allreduce.algorithm", allreduce.algorithm, "ring", algorithm_names,
         "how gradients are summed over all devices"),
    WORD("allreduce.column_algorithm", allreduce.column_algorithm, "ring", column_algorithm_names,
         "how the columns of the torus2d grid are summed"),
    WORD("allreduce.channels", allreduce.channels, "1", channel_names,
         "rings side by side, each by another device of a node; all is one per device"),
    REAL("allreduce.chunk", allreduce.chunk, UNIT_BYTES, "", 1, 1e12,
         "bytes of the chunks that travel through a tree; all at once when not given"),
    INTEGER("allreduce.grid.columns", allreduce.columns, "", 1, SCENARIO_DEVICE_LIMIT,
            "devices in a row of the torus2d grid; chosen when not given"),
    INTEGER("allreduce.grid.rows", allreduce.rows, "", 1, SCENARIO_DEVICE_LIMIT,
            "devices in a column of the torus2d grid; chosen when not given"),
    REAL("allreduce.bucket", allreduce.bucket, UNIT_BYTES, "", 0, 1e15,
         "bytes of gradients that are exchanged together; when not given all of them, with "
         "parallel.sharding 2 or 3 those of the largest block"),
    WORD("allreduce.overlap", allreduce.overlap, "backward", overlap_names,
         "whether a bucket is exchanged while the backward pass still runs"),
    INTEGER("allreduce.ctas", allreduce.ctas, "", 1, 64,
            "most thread blocks (CTAs) that NCCL takes of a GPU while the backward pass computes "
            "on it; its own choice when not given; train on GPUs only: what a limit costs or saves "
            "is not predicted"),
    INTEGER("baseline.nodes", baseline.nodes, "1", 1, SCENARIO_DEVICE_LIMIT,
            "nodes of the run that scaling efficiency is relative to, batch per device as in the "
            "last phase"),
    INTEGER("baseline.devices_per_node", baseline.devices_per_node, "", 1, SCENARIO_DEVICE_LIMIT,
            "devices used in each node of the baseline; as in the cluster when not given"),
    REAL("noise.compute_cv", noise.compute_cv, UNIT_FRACTION, "", 0, 10,
         "coefficient of variation of a device's compute time from step to step; when not given as "
         "the software profile says, if there is one"),
    REAL("noise.straggler.fraction", noise.straggler_fraction, UNIT_FRACTION, "", 0, 1,
         "share of the devices that are slow"),
    REAL("noise.straggler.slowdown", noise.straggler_slowdown, UNIT_FRACTION, "", 0, 1000,
         "how much slower they compute: 50 % takes 1.5 times as long"),
    INTEGER("seed", seed, "1", 0, SCENARIO_NUMBER_LIMIT,
            "start of the random numbers of the noise"),
    INTEGER("input.workers", input.workers, "", 1, 1e6,
            "input threads per device; input costs no time when not given"),
    REAL("input.rate", input.rate, UNIT_IMAGES_PER_SECOND, "", 1e-3, 1e9,
         "images that each input thread reads and decodes per second"),
    REAL("input.storage", input.storage, UNIT_BYTES_PER_SECOND, "", 1, 1e15,
         "what a file system delivers that all nodes share; no limit when not given"),
    REAL("input.image_bytes", input.image_bytes, UNIT_BYTES, "115 kB", 1, 1e12,
         "of an image in that file system, mean; ImageNet: 148 GB over 1,281,167 (recalled)"),
    INTEGER("input.prefetch", input.prefetch, "2", 1, 1000, "batches kept ready for each device"),
    REAL(
        "measured.step", measured.step, UNIT_SECONDS, "", 1e-9, 1e6,
        "a step of this job that ran, for experiments/published_fit.py; predictions do not use it"),
    REAL("measured.startup", measured.startup, UNIT_SECONDS, "", -1e6, 1e6,
         "seconds of that run beside its epochs and evaluations, which a difference may make less "
         "than 0"),
    TEXT("measured.software", measured.software, "",
         "the software that ran, whose profile is fitted; cluster.software when not given"),
    SWITCH("measured.doubtful", measured.doubtful, "false",
           "whether that run counts only where no other of its software and device does"),
};

const struct field_table scenario_table = FIELD_TABLE("scenario", scenario_rows, struct RECORD);
