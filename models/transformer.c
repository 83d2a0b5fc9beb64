/* Transformers of tokens or of pictures.
 * Sources: shapes of published networks: transformers.csv; the layers: Vaswani et al. 2017,
 * "Attention is all you need"; Devlin et al. 2018 (BERT), Radford et al. 2019 (GPT-2), Dosovitskiy
 * et al. 2020 (ViT), Touvron et al. 2023 (Llama), Jiang et al. 2024 (Mixtral); biases and heads as
 * in the implementations of Hugging Face and torchvision. */

#include "models/build.h"

/* ---- keys ---- */

/* A number or word that is open is @value. */
#define OPEN(key, value)                                                                           \
    if (!t->key)                                                                                   \
    t->key = value

static void complete(struct transformer *t, const struct transformer *preset)
{
    OPEN(tensor, 1);
    OPEN(context, 1);
    OPEN(expert, 1);
    OPEN(imbalance, 1);
    OPEN(sequence, preset->sequence);
    OPEN(layers, preset->layers);
    OPEN(hidden, preset->hidden);
    OPEN(heads, preset->heads);
    OPEN(kv_heads, preset->kv_heads ? preset->kv_heads : t->heads);
    OPEN(ffn, preset->ffn ? preset->ffn : 4 * t->hidden);
    OPEN(kv_rank, preset->kv_rank);
    OPEN(query_rank, preset->query_rank);
    OPEN(rotary_size, preset->rotary_size);
    OPEN(head_size, preset->head_size ? preset->head_size : t->heads ? t->hidden / t->heads : 0);
    OPEN(experts, preset->experts);
    OPEN(expert_ffn, preset->expert_ffn ? preset->expert_ffn : t->ffn);
    OPEN(shared, preset->shared);
    OPEN(dense_layers, preset->dense_layers);
    OPEN(active, preset->active ? preset->active : t->experts > 0 ? 2 : 0);
    OPEN(expert_groups, preset->expert_groups);
    OPEN(active_groups, preset->active_groups ? preset->active_groups : t->expert_groups);
    OPEN(window, preset->window);
    OPEN(full_every, preset->full_every);
    OPEN(vocab, preset->vocab);
    OPEN(positions, preset->positions ? preset->positions : t->sequence);
    OPEN(segments, preset->segments);
    OPEN(patch, preset->patch);
    OPEN(gated, preset->gated);
    OPEN(tied, preset->tied);
    OPEN(bias, preset->bias ? preset->bias : CHOICE_TRUE);
    OPEN(dropout, preset->dropout);
    OPEN(norm, preset->norm ? preset->norm : NORM_LAYER);
    OPEN(position, preset->position ? preset->position : POSITION_LEARNED);
    OPEN(head, preset->head ? preset->head : t->patch ? HEAD_CLASSES : HEAD_NEXT_TOKEN);
    OPEN(predicted, preset->predicted              ? preset->predicted
                    : t->head == HEAD_MASKED_TOKEN ? 0.15
                                                   : 1);
}

/* Of layers and sequences that ranks share.  Of a sequence each has an early and a late part, so
 * that all attend to equally many positions. */
static int check_parts(const struct transformer *t, const char *name, struct err *err)
{
    const struct {
        const char *key;
        int64_t value, parts;
    } split[] = {
        {"heads", t->heads, t->tensor},
        {"kv_heads", t->kv_heads, t->tensor},
        {"ffn", t->ffn, t->tensor},
        {"expert_ffn", t->experts ? t->expert_ffn : 0, t->whole ? 1 : t->tensor},
        {"experts", t->experts, t->expert},
        {"sequence", t->sequence,
         (t->context > 1 ? 2 * t->context : 1) * (t->apart ? t->tensor : 1)},
    };
    for (size_t i = 0; i < ARRAY_SIZE(split); i++)
        if (split[i].value % split[i].parts)
            return err_add(err, "%s: model.%s, %lld, cannot be split in %lld equal parts", name,
                           split[i].key, (long long)split[i].value, (long long)split[i].parts);
    if (t->expert > 1 && !t->experts)
        return err_add(err, "%s has no experts: parallel.expert has no effect", name);
    if ((t->apart || t->context > 1) && t->head != HEAD_NEXT_TOKEN)
        return err_add(err,
                       "%s: parallel.sequence and parallel.context are for networks that predict "
                       "the next token; use parallel.tensor alone",
                       name);
    return 0;
}

/* Of the products of all layers forward, for a whole sequence; experts' and others' added up. */
static double bound_flops(const struct transformer *t, double heads)
{
    double length = (double)t->sequence, hidden = (double)t->hidden;
    double inside = (double)t->ffn + (double)(t->active + t->shared) * (double)t->expert_ffn;
    double block = hidden * (4 * heads + 3 * inside + (double)t->experts) + 2 * heads * length;
    return 2 * length *
           ((double)(t->layers + t->further) * block +
            (double)(1 + t->further) * hidden * (double)t->vocab);
}

/* Layers count features and positions in 31 bits, and FLOP of all passes in 63. */
static int check_size(const struct transformer *t, const char *name, struct err *err)
{
    double heads = (double)t->heads * (double)(t->head_size + t->rotary_size);
    double copies = (double)t->sequence * fmax(1, (double)t->active * t->imbalance);
    if (heads > INT32_MAX || copies > INT32_MAX)
        return err_add(err, "%s: %s are more than %d", name,
                       heads > INT32_MAX ? "features of all heads of attention"
                                         : "positions of a sample at all its experts",
                       INT32_MAX);
    if (3 * bound_flops(t, heads) > 9e18)
        return err_add(
            err, "%s: the FLOP of a sample are beyond 64 bits; use a shorter model.sequence", name);
    return 0;
}

static int check_experts(const struct transformer *t, const char *name, struct err *err)
{
    int64_t groups = t->expert_groups;
    if (t->active > t->experts)
        return err_add(err, "%s: model.active has no effect beyond model.experts, %lld", name,
                       (long long)t->experts);
    if (groups ? t->experts % groups || t->active_groups > groups ||
                     t->active > t->experts / groups * t->active_groups
               : t->active_groups > 0)
        return err_add(err,
                       "%s: model.expert_groups divides model.experts, and the experts of "
                       "model.active_groups of them are no fewer than model.active",
                       name);
    return 0;
}

/* Keys of the job that nothing of the network reads. */
static int check_idle(const struct transformer *keys, const struct transformer *t, const char *name,
                      struct err *err)
{
    bool reads = !t->patch, learns = reads && t->position == POSITION_LEARNED;
    bool speaks = t->head == HEAD_NEXT_TOKEN || t->head == HEAD_MASKED_TOKEN;
    bool own = t->experts && !t->dense_layers && t->expert_ffn != t->ffn;
    const struct {
        const char *key;
        bool idle;
        const char *why;
    } row[] = {
        {"experts", keys->experts && t->dense_layers >= t->layers, "has dense layers alone"},
        {"expert_ffn", keys->expert_ffn && !t->experts, "has no experts"},
        {"shared_experts", keys->shared && !t->experts, "has no experts"},
        {"dense_layers", keys->dense_layers && !t->experts, "has no experts"},
        {"expert_groups", keys->expert_groups && !t->experts, "has no experts"},
        {"active_groups", keys->active_groups && !t->experts, "has no experts"},
        {"ffn", keys->ffn && own, "has experts in each layer"},
        {"window", keys->window && t->head != HEAD_NEXT_TOKEN, "does not predict the next token"},
        {"full_every", keys->full_every && !t->window, "has no window"},
        {"positions", keys->positions && !learns, "has no table of positions of tokens"},
        {"segments", keys->segments && !reads, "reads no tokens"},
        {"document", keys->document && !reads, "reads no tokens"},
        {"lora", keys->lora && !reads, "reads no tokens"},
        {"vocab", keys->vocab && !reads, "reads no tokens"},
        {"tied", keys->tied && !speaks, "predicts no tokens"},
        {"predicted", keys->predicted > 0 && !speaks, "predicts no tokens"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(row); i++)
        if (row[i].idle)
            return err_add(err, "%s %s: model.%s has no effect", name, row[i].why, row[i].key);
    return 0;
}

static int check(const struct transformer *t, const char *name, int32_t image, struct err *err)
{
    const struct {
        const char *key;
        int64_t value;
    } needed[] = {{"layers", t->layers},
                  {"hidden", t->hidden},
                  {"heads", t->heads},
                  {t->patch ? "patch" : "sequence", t->patch ? t->patch : t->sequence},
                  {t->patch ? "patch" : "vocab", t->patch ? t->patch : t->vocab}};
    for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
        if (!needed[i].value)
            return err_add(err, "%s needs the key model.%s", name, needed[i].key);
    if ((t->head_size == t->hidden / t->heads && t->hidden % t->heads) || t->heads % t->kv_heads)
        return err_add(err,
                       "%s: model.heads must divide model.hidden, and model.kv_heads model.heads; "
                       "%lld features, %lld heads and %lld of keys do not",
                       name, (long long)t->hidden, (long long)t->heads, (long long)t->kv_heads);
    if (t->patch && (image % t->patch || t->sequence))
        return err_add(err,
                       "%s: positions are squares of %lld pixels, so model.image is a multiple of "
                       "that, and model.sequence is not given",
                       name, (long long)t->patch);
    if ((t->kv_rank > 0) != (t->rotary_size > 0) || (t->query_rank && !t->kv_rank))
        return err_add(err,
                       "%s: model.kv_rank needs model.rotary_size, and these or model.query_rank "
                       "have no effect alone",
                       name);
    if (t->kv_rank && (t->kv_heads != t->heads || t->position != POSITION_ROTARY || t->lora))
        return err_add(err,
                       "%s: with model.kv_rank positions are rotary, all heads have keys, and "
                       "model.lora is not modelled",
                       name);
    if (t->further && (t->head != HEAD_NEXT_TOKEN || t->lora))
        return err_add(err,
                       "%s: model.further is for networks that predict the next token, and not "
                       "beside model.lora",
                       name);
    if (t->patch && t->head != HEAD_CLASSES)
        return err_add(err, "%s: of a picture model.head predicts classes", name);
    if (!t->patch && t->position == POSITION_LEARNED && t->sequence > t->positions)
        return err_add(err, "%s: model.sequence may be at most model.positions, %lld", name,
                       (long long)t->positions);
    if (t->document > t->sequence)
        return err_add(err, "%s: model.document is a part of model.sequence, %lld positions", name,
                       (long long)t->sequence);
    if (check_experts(t, name, err) || check_size(t, name, err))
        return -1;
    return t->tensor > 1 || t->context > 1 || t->expert > 1 ? check_parts(t, name, err) : 0;
}

/* ---- layers ---- */

/* A network while it is built. */
struct builder {
    struct model *model;
    const struct transformer *t;
    int32_t width, length; /* features, positions */
    int32_t at;            /* the last layer of the main path */
    int32_t layer;         /* the block */
    bool adapts;           /* what is added is trained beside what is not */
    bool unfolds;          /* it is projected up from a latent */
    int32_t embedding;     /* the layer that has the table of tokens */
    int32_t experts;       /* sets of weights of a matrix; 0: it is of no expert */
    char block[16];
};

/* A layer that reads @from and, unless negative, @other; called @name in the block. */
static int32_t add(struct builder *b, int32_t from, int32_t other, struct layer layer,
                   const char *name)
{
    bool apart = b->block[0];
    layer.frozen = b->t->lora > 0 && !b->adapts;
    layer.again = b->unfolds ? RECOMPUTE_LATENT : layer.again;
    snprintf(layer.name, sizeof(layer.name), "%s%s%s", b->block, apart ? "." : "", name);
    snprintf(layer.block, sizeof(layer.block), "%s", apart ? b->block : name);
    snprintf(layer.role, sizeof(layer.role), "%s", apart ? "body" : "head");
    layer.input[0] = from;
    layer.input[1] = other;
    layer.input_count = other < 0 ? 1 : 2;
    layer.stride = layer.stride ? layer.stride : 1;
    return b->at = model_add(b->model, layer);
}

/* One of the values of a single input. */
static int32_t simple(struct builder *b, enum layer_op op, int32_t from, const char *name)
{
    return add(b, from, -1, (struct layer){.op = op}, name);
}

/* A matrix at each of @from's positions: a convolution of one position. */
static int32_t dense(struct builder *b, int32_t from, int64_t features, const char *name)
{
    return add(b, from, -1,
               (struct layer){.op = LAYER_CONVOLUTION,
                              .out.channels = (int32_t)features,
                              .kernel = 1,
                              .experts = b->experts,
                              .axis = b->experts && b->t->expert > 1 ? AXIS_COPIES : 0,
                              .bias = b->t->bias == CHOICE_TRUE && !b->adapts},
               name);
}

/* dense(), with an adapter beside it where one is asked for. */
static int32_t adapted(struct builder *b, int32_t from, int64_t features, const char *name)
{
    AUTOFREE char *narrow = base_format("%s.lora_a", name), *wide = base_format("%s.lora_b", name),
                  *sum = base_format("%s.lora", name);
    int32_t at = dense(b, from, features, name);
    if (!b->t->lora)
        return at;
    b->adapts = true;
    int32_t beside = dense(b, dense(b, from, b->t->lora, narrow), features, wide);
    b->adapts = false;
    return add(b, at, beside, (struct layer){.op = LAYER_ADD}, sum);
}

/* How many ranks share what is added. */
static int64_t sharers(const struct builder *b)
{
    return b->experts && b->t->whole ? 1 : b->t->tensor;
}

/* The part of @count that one of the ranks that share a layer has; tokens are padded. */
static int64_t part(const struct builder *b, int64_t count)
{
    return (count + sharers(b) - 1) / sharers(b);
}

/* The @ranks on @axis exchange the value of @from forward, and its gradient backward. */
static int32_t exchange(struct builder *b, int32_t from, enum axis axis, int64_t ranks,
                        enum collective_op forward, enum collective_op backward, const char *name)
{
    struct layer layer = {
        .op = LAYER_OTHER, .exchanged = true, .axis = axis, .exchange = {forward, backward}};
    layer.out = model_shape(b->model, from);
    if (forward == COLLECTIVE_REDUCE_SCATTER)
        layer.out.width /= (int32_t)ranks;
    if (forward == COLLECTIVE_ALL_GATHER)
        layer.out.width *= (int32_t)ranks;
    return ranks > 1 ? add(b, from, -1, layer, name) : from;
}

/* What enters layers that ranks share: each has all of it, and a part of its gradient. */
static int32_t enter(struct builder *b, int32_t from, const char *name)
{
    bool apart = b->t->apart;
    return exchange(b, from, AXIS_TENSOR, sharers(b),
                    apart ? COLLECTIVE_ALL_GATHER : COLLECTIVE_OP_COUNT,
                    apart ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_REDUCE, name);
}

/* What leaves them: each has a part of the sum, and all of its gradient. */
static int32_t leave(struct builder *b, int32_t from, const char *name)
{
    bool apart = b->t->apart;
    return exchange(b, from, AXIS_TENSOR, sharers(b),
                    apart ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_REDUCE,
                    apart ? COLLECTIVE_ALL_GATHER : COLLECTIVE_OP_COUNT, name);
}

static int32_t norm(struct builder *b, int32_t from, const char *name)
{
    return simple(b, b->t->norm >= NORM_RMS ? LAYER_RMS_NORM : LAYER_LAYER_NORM, from, name);
}

static int32_t drop(struct builder *b, int32_t from, const char *name)
{
    return b->t->dropout == CHOICE_TRUE ? simple(b, LAYER_DROPOUT, from, name) : from;
}

/* The keys or values of the whole sequence. */
static int32_t collect(struct builder *b, int32_t from, const char *name)
{
    return exchange(b, from, AXIS_CONTEXT, b->t->context, COLLECTIVE_ALL_GATHER,
                    COLLECTIVE_REDUCE_SCATTER, name);
}

/* The layers that make them. */
struct attended {
    int32_t query, key, value;
};

/* Queries, keys and values of latents, which all ranks that share a layer compute.  What turns by
 * position is apart, and one for the keys of all heads.  Source: DeepSeek-AI 2024, "DeepSeek-V2",
 * section 2.1; exchanges as Megatron-LM's. */
static struct attended add_latent(struct builder *b, int32_t from)
{
    const struct transformer *t = b->t;
    int32_t heads = (int32_t)part(b, t->heads), turned = (int32_t)t->rotary_size;
    int32_t all = heads * ((int32_t)t->head_size + turned), at = from;
    if (t->query_rank)
        at = norm(b, dense(b, from, t->query_rank, "query.down"), "query.norm");
    b->unfolds = t->query_rank;
    at = dense(b, enter(b, at, "query.enter"), all, "query");
    struct layer rotary = {.op = LAYER_OTHER, .elements = 2LL * heads * turned * b->length};
    struct attended of = {.query = add(b, at, -1, rotary, "query.rotary")};
    b->unfolds = false;
    int32_t shared = enter(b, dense(b, from, turned, "key.shared"), "key.shared.enter");
    at = norm(b, dense(b, from, t->kv_rank, "latent"), "latent.norm");
    b->unfolds = true;
    at = enter(b, at, "latent.enter");
    of.value = dense(b, at, heads * t->head_size, "value");
    struct layer joined = {.op = LAYER_OTHER, .out = {all, 1, b->length}};
    of.key = add(b, dense(b, at, heads * t->head_size, "key"), shared, joined, "key.rotary");
    b->unfolds = false;
    return of;
}

static struct attended add_projections(struct builder *b, int32_t from)
{
    const struct transformer *t = b->t;
    int32_t each = (int32_t)t->head_size;
    from = enter(b, from, "attention.enter");
    struct attended of = {.query = adapted(b, from, part(b, t->heads) * each, "query")};
    of.key = adapted(b, from, part(b, t->kv_heads) * each, "key");
    of.value = adapted(b, from, part(b, t->kv_heads) * each, "value");
    if (t->position == POSITION_ROTARY) {
        struct layer rotary = {.op = LAYER_OTHER, .inner = each, .attends = ATTENDS_ROTARY};
        of.query = add(b, of.query, -1, rotary, "query.rotary");
        of.key = add(b, of.key, -1, rotary, "key.rotary");
    }
    return of;
}

/* Scores of a head that no window or document leaves out, where some do, else 0.  A causal half
 * counts twice, as the square of all does: n positions that each see themselves and at most w - 1
 * before have w (2 n - w + 1) / 2 pairs, and those with themselves count once. */
static int64_t count_scores(const struct transformer *t, int32_t layer)
{
    bool full = !t->window || (t->full_every && (layer + 1) % t->full_every == 0);
    int64_t length = t->document ? t->document : t->sequence;
    int64_t window = full || t->window > length ? length : t->window;
    double documents = (double)t->sequence / (double)length / (double)t->context;
    return window == t->sequence
               ? 0
               : llround(documents * (double)(window * (2 * length - window + 1) - length));
}

static int32_t attention(struct builder *b, int32_t from)
{
    const struct transformer *t = b->t;
    int32_t heads = (int32_t)part(b, t->heads), each = (int32_t)t->head_size;
    int32_t S = b->length, all = S * (int32_t)t->context;
    int64_t scores = 2 * heads * count_scores(t, b->layer);
    struct attended of = t->kv_rank ? add_latent(b, from) : add_projections(b, from);
    int32_t key = collect(b, of.key, "key.collect");
    int32_t value = collect(b, of.value, "value.collect");
    int32_t at = add(b, of.query, key,
                     (struct layer){.op = LAYER_MATMUL,
                                    .out = {heads, S, all},
                                    .inner = each + t->rotary_size,
                                    .flops = scores * (each + t->rotary_size),
                                    .attends = ATTENDS_SCORES},
                     "scores");
    at = add(b, at, -1,
             (struct layer){.op = LAYER_SOFTMAX,
                            .attends = t->head == HEAD_NEXT_TOKEN ? ATTENDS_BEFORE : ATTENDS_ALL},
             "softmax");
    at = drop(b, at, "softmax.dropout");
    at = add(b, at, value,
             (struct layer){.op = LAYER_MATMUL,
                            .out = {heads * each, 1, S},
                            .inner = all,
                            .flops = scores * each,
                            .attends = ATTENDS_CONTEXT},
             "context");
    return leave(b, adapted(b, at, t->hidden, "output"), "attention.leave");
}

/* Operations of single values that no kernel fuses, of @bytes for each, of which a pass has half.
 * Limits to a gate and what it multiplies, 46: forward both limited (8 of both) and put together
 * (8); backward three comparisons (9), one of two of them (3), two choices (10), put together (8).
 * A bias of each expert times the router's probability, in fp32, 68: forward a product (4), a sum
 * (2 + 4 + 4), all experts' together (4 + 4), narrower (4 + 2); backward 6 to widen, 6 to narrow, 4
 * to put together, 24 for both factors' gradients and their sums.  Source: Megatron-LM,
 * core_v0.16.0, fusions/fused_bias_geglu.py, weighted_bias_quick_geglu_impl(); moe/experts.py,
 * _apply_bias(). */
static int32_t unfused(struct builder *b, int32_t from, int64_t bytes, int32_t again,
                       const char *name)
{
    struct layer layer = {.op = LAYER_OTHER, .out = model_shape(b->model, from), .again = again};
    layer.elements = bytes * shape_elements(layer.out) / 4;
    return add(b, from, -1, layer, name);
}

static int32_t feed_forward(struct builder *b, int32_t from, int64_t features, const char *prefix)
{
    bool gated = b->t->gated >= CHOICE_TRUE;
    AUTOFREE char *enters = base_format("%sffn.enter", prefix),
                  *leaves = base_format("%sffn.leave", prefix),
                  *gate = base_format("%sgate", prefix), *up = base_format("%sup", prefix),
                  *down = base_format("%sdown", prefix),
                  *activation = base_format("%sactivation", prefix),
                  *product = base_format("%sproduct", prefix);
    features = part(b, features);
    from = enter(b, from, enters);
    int32_t at = dense(b, from, features, gated ? gate : up);
    if (b->t->gated == CHOICE_CLAMPED)
        at = unfused(b, at, 46, RECOMPUTE_NORMS, "clamp");
    struct layer silu = {.op = LAYER_SILU, .gate = GATE_SILU, .again = RECOMPUTE_NORMS},
                 gelu = {.op = LAYER_GELU, .again = RECOMPUTE_NORMS},
                 multiply = {.op = LAYER_MULTIPLY, .again = RECOMPUTE_NORMS};
    at = add(b, at, -1, gated ? silu : gelu, activation);
    if (gated)
        at = add(b, at, dense(b, from, features, up), multiply, product);
    return leave(b, dense(b, at, b->t->hidden, down), leaves);
}

/* Positions go to the ranks of their experts, or back; the busiest rank gets more than it sends. */
static int32_t travel(struct builder *b, int32_t from, int32_t width, const char *name)
{
    const struct transformer *t = b->t;
    struct layer layer = {.op = LAYER_OTHER,
                          .exchanged = true,
                          .axis = AXIS_EXPERT,
                          .router = {(int32_t)t->experts, (int32_t)t->active,
                                     (int32_t)t->expert_groups, (int32_t)t->active_groups},
                          .exchange = {COLLECTIVE_ALL_TO_ALL, COLLECTIVE_ALL_TO_ALL}};
    layer.out = model_shape(b->model, from);
    layer.out.width = width;
    return t->expert > 1 ? add(b, from, -1, layer, name) : from;
}

/* Positions arrive by rank, and each of several experts needs its own together; and back.  Source:
 * Megatron-LM, commit d98e8a64ddf3, moe/token_dispatcher.py, sort_chunks_by_idxs(); moe/experts.py,
 * quantization_padding; _HybridEPManager and _DeepepManager, which do neither. */
static int32_t move(struct builder *b, int32_t from, bool moves, const char *name)
{
    struct layer layer = {.op = LAYER_PERMUTE, .out = model_shape(b->model, from)};
    return moves ? add(b, from, -1, layer, name) : from;
}

/* A router chooses the experts of each position, which is copied to all of them. */
static int32_t mixture(struct builder *b, int32_t from)
{
    const struct transformer *t = b->t;
    struct shape shape = model_shape(b->model, from), copies = shape;
    copies.width *= (int32_t)t->active;
    int32_t router = dense(b, from, t->experts, "router");
    router = simple(b, LAYER_SOFTMAX, router, "router.softmax");
    int32_t at = add(b, from, -1, (struct layer){.op = LAYER_PERMUTE, .out = copies}, "dispatch");
    at = travel(b, at, (int32_t)ceil(t->imbalance * copies.width), "dispatch.travel");
    b->experts = (int32_t)(t->experts / t->expert);
    bool sorts = t->expert > 1 && !t->sorted && b->experts > 1;
    at = move(b, move(b, at, sorts, "dispatch.sort"), t->pads, "dispatch.pad");
    at = feed_forward(b, at, t->expert_ffn, "");
    if (t->bias == CHOICE_TRUE)
        at = unfused(b, at, 68, RECOMPUTE_NONE, "down.bias");
    at = move(b, move(b, at, t->pads, "combine.pad"), sorts, "combine.sort");
    b->experts = 0;
    at = travel(b, at, copies.width, "combine.travel");
    struct layer combine = {.op = LAYER_OTHER, .out = shape};
    if (t->sorted) /* experts' copies become one for each rank before they travel */
        combine.elements = 2 * shape_elements(copies);
    at = add(b, at, router, combine, "combine");
    if (!t->shared)
        return at;
    int32_t shared = feed_forward(b, from, t->shared * t->expert_ffn, "shared.");
    return add(b, at, shared, (struct layer){.op = LAYER_ADD}, "shared.add");
}

static int32_t branch(struct builder *b, int32_t from, const char *name)
{
    bool attends = name[0] == 'a', post = b->t->norm == NORM_POST_LAYER;
    AUTOFREE char *normal = base_format("%s.norm", name),
                  *dropped = base_format("%s.dropout", name), *sum = base_format("%s.add", name),
                  *behind = base_format("%s.behind", name);
    int32_t at = post ? from : norm(b, from, normal);
    if (!post)
        b->model->layer[at].again = RECOMPUTE_NORMS;
    at = attends                                           ? attention(b, at)
         : b->t->experts && b->layer >= b->t->dense_layers ? mixture(b, at)
                                                           : feed_forward(b, at, b->t->ffn, "");
    at = drop(b, at, dropped);
    at = b->t->norm == NORM_RMS_BOTH ? norm(b, at, behind) : at;
    at = add(b, at, from, (struct layer){.op = LAYER_ADD}, sum);
    return post ? norm(b, at, normal) : at;
}

/* Positions of squares of a picture, and one before them, which becomes the answer. */
static int32_t embed_picture(struct builder *b)
{
    const struct transformer *t = b->t;
    int32_t side = b->model->image / (int32_t)t->patch, length = side * side;
    struct layer squares = {.op = LAYER_CONVOLUTION,
                            .out = {b->width, side, side},
                            .kernel = (int32_t)t->patch,
                            .stride = (int32_t)t->patch,
                            .bias = true};
    b->length = length + 1;
    int32_t at = add(b, -1, -1, squares, "patches");
    struct layer first = {.op = LAYER_OTHER,
                          .out = {b->width, 1, b->length},
                          .constants = b->width,
                          .attends = ATTENDS_TOKEN};
    at = add(b, at, -1, first, "class_token");
    struct layer table = {.op = LAYER_ADD, .constants = t->hidden * b->length, .rows = b->length};
    return t->position == POSITION_LEARNED ? add(b, at, -1, table, "positions") : at;
}

static int32_t embed_tokens(struct builder *b)
{
    const struct transformer *t = b->t;
    b->length = (int32_t)(t->sequence / t->context);
    b->model->input = (struct shape){1, 1, b->length};
    b->model->image = 0;
    if (t->head == HEAD_NEXT_TOKEN)
        b->model->classes = (int32_t)t->vocab;
    int64_t rows = t->segments + (t->position == POSITION_LEARNED ? t->positions : 0);
    int32_t at = b->embedding = add(
        b, -1, -1,
        (struct layer){.op = LAYER_EMBEDDING, .out.channels = b->width, .rows = part(b, t->vocab)},
        "embedding");
    at = leave(b, at, "embedding.leave");
    struct layer table = {
        .op = LAYER_ADD, .constants = rows * t->hidden, .rows = t->segments ? 0 : rows};
    if (rows > 0)
        at = add(b, at, -1, table, "positions");
    if (t->norm == NORM_POST_LAYER)
        at = norm(b, at, "embedding.norm");
    return at;
}

/* The values of the first @count positions. */
static int32_t first(struct builder *b, int32_t from, int32_t count, const char *name)
{
    struct shape out = {b->width, 1, count};
    return count == b->length
               ? from
               : add(b, from, -1,
                     (struct layer){.op = LAYER_PERMUTE,
                                    .out = out,
                                    .attends = count == 1 ? ATTENDS_FIRST : ATTENDS_NOT},
                     name);
}

/* A vector of the first position. */
static int32_t linear(struct builder *b, int32_t from, int64_t features, const char *name)
{
    struct layer layer = {
        .op = LAYER_LINEAR, .out.channels = (int32_t)features, .kernel = 1, .bias = true};
    return add(b, from, -1, layer, name);
}

/* The words of the positions that are predicted, whose others are cut off. */
static int32_t add_words(struct builder *b, int32_t from, int32_t weights_of, const char *name)
{
    const struct transformer *t = b->t;
    bool masked = t->head == HEAD_MASKED_TOKEN;
    int32_t count = (int32_t)fmax(1, round(t->predicted * b->length));
    int32_t at = first(b, from, count, "predicted");
    if (masked) {
        at = dense(b, at, t->hidden, "transform");
        at = simple(b, LAYER_GELU, at, "transform.activation");
        at = norm(b, at, "transform.norm");
    }
    at = enter(b, at, "words.enter");
    struct layer words = {.op = LAYER_CONVOLUTION,
                          .out.channels = (int32_t)part(b, t->vocab),
                          .kernel = 1,
                          .bias = masked,
                          .weights_of = weights_of};
    return add(b, at, -1, words, name);
}

/* A block of what the last one says and the embedding of the next token, which predicts the one
 * behind it with the same words.  Left out: gradients of that embedding, and the loss.  Source:
 * DeepSeek-AI 2024, "DeepSeek-V3", section 2.2. */
static int32_t add_further(struct builder *b, int32_t from, int32_t words)
{
    struct layer joined = {.op = LAYER_OTHER,
                           .out = {2 * b->width, 1, model_shape(b->model, from).width}};
    joined.elements = 2 * shape_elements(joined.out);
    int32_t at = add(b, norm(b, from, "further.norm"), -1, joined, "further.join");
    at = dense(b, at, b->width, "further.project");
    at = branch(b, branch(b, at, "attention"), "ffn");
    add_words(b, norm(b, at, "further.last"), words + 1, "further.words");
    return at;
}

static void add_head(struct builder *b)
{
    const struct transformer *t = b->t;
    int32_t last = b->at, at = t->norm == NORM_POST_LAYER ? last : norm(b, last, "norm");
    if (t->head == HEAD_MASKED_TOKEN) { /* and whether the second segment follows the first */
        int32_t pooled = linear(b, first(b, at, 1, "first"), t->hidden, "pooler");
        pooled = simple(b, LAYER_SILU, pooled, "pooler.tanh");
        linear(b, pooled, 2, "follows");
    }
    if (t->head == HEAD_CLASSES)
        linear(b, first(b, at, 1, "first"), b->model->classes, "classes");
    else if (t->head == HEAD_SPAN)
        dense(b, at, 2, "span");
    else
        at = add_words(b, at, t->tied == CHOICE_TRUE ? b->embedding + 1 : 0, "words");
    for (int64_t i = 0; i < t->further; i++)
        last = add_further(b, last, at);
}

struct model *transformer_build(const struct transformer_preset *preset, int32_t image,
                                int32_t classes, const struct transformer *keys, struct err *err)
{
    struct transformer t = *keys;
    complete(&t, &preset->shape);
    if (check_idle(keys, &t, preset->name, err) || check(&t, preset->name, image, err))
        return NULL;
    struct builder b = {
        .model = model_new(preset->name, image, classes), .t = &t, .width = (int32_t)t.hidden};
    int32_t at = drop(&b, t.patch ? embed_picture(&b) : embed_tokens(&b), "embedding.dropout");
    for (int32_t i = 0; i < t.layers; i++) {
        snprintf(b.block, sizeof(b.block), "layer%d", i);
        b.layer = i;
        at = branch(&b, branch(&b, at, "attention"), "ffn");
    }
    b.block[0] = '\0';
    add_head(&b);
    return b.model;
}
