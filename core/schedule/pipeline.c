#include "core/schedule/pipeline.h"

/* ---- cuts ---- */

/* Places between layers where one value crosses, and what lies before each. */
struct cuts {
    int32_t *layer; /* (count) the first behind it */
    int32_t *value; /* (count) the layer whose value crosses */
    double *cost;   /* (count) of an image before it */
    double all;     /* of the network */
    int32_t count;
    int32_t blocks;     /* of a transformer, which are alike; 0: it has none */
    bool before, after; /* the first cut is before all blocks, the last one behind them */
};

static bool is_block(const struct layer *layer)
{
    int32_t number, end = 0;
    return sscanf(layer->block, "layer%9" SCNd32 "%n", &number, &end) == 1 && !layer->block[end];
}

/* (layers + 1) How many values, images among them, cross the place before each layer; a value that
 * is read before it is written counts twice, as there is no cut. */
static int32_t *count_crossings(const struct model *model)
{
    int32_t layers = model->layer_count, last_image = -1;
    int32_t *crossing = base_alloc(layers + 1, sizeof(*crossing));
    for (int32_t i = 0; i < layers; i++)
        for (int32_t k = 0; k < model->layer[i].input_count; k++) {
            int32_t from = model->layer[i].input[k];
            last_image = from < 0 ? i : last_image;
            for (int32_t at = i + 1; at <= from; at++)
                crossing[at] += 2;
        }
    for (int32_t i = -1; i < layers; i++) {
        int32_t last = i < 0 ? last_image : model->layer[i].last_reader;
        for (int32_t at = i + 1; at <= last; at++)
            crossing[at]++;
    }
    return crossing;
}

/* FLOP, or weights of matrix products. */
static double cost_of(const struct layer *layer, enum balance balance)
{
    double flops = 0;
    if (balance == BALANCE_GREEDY)
        return layer_flops(layer, PASS_FORWARD) > 0 ? (double)layer_weights(layer) : 0;
    for (enum pass pass = 0; pass < PASS_COUNT; pass++)
        flops += (double)layer_flops(layer, pass);
    return flops;
}

static struct cuts find_cuts(const struct model *model, enum balance balance)
{
    AUTOFREE int32_t *crossing = count_crossings(model);
    int32_t layers = model->layer_count, last = -1;
    struct cuts cuts = {.layer = base_alloc(layers, sizeof(int32_t)),
                        .value = base_alloc(layers, sizeof(int32_t)),
                        .cost = base_alloc(layers, sizeof(double))};
    for (int32_t i = 0; i < layers; i++)
        cuts.blocks += is_block(&model->layer[i]) &&
                       (!i || strcmp(model->layer[i].block, model->layer[i - 1].block) != 0);
    for (int32_t i = 0; i < layers; i++) {
        bool block = is_block(&model->layer[i]), behind = i > 0 && is_block(&model->layer[i - 1]);
        bool begins = (block || behind) &&
                      (i == 0 || strcmp(model->layer[i].block, model->layer[i - 1].block) != 0);
        if (i > 0 && crossing[i] == 1 && (begins || !cuts.blocks)) {
            for (last = i - 1; model->layer[last].last_reader < i;)
                last--;
            cuts.before |= begins && !behind;
            cuts.after |= begins && !block;
            cuts.layer[cuts.count] = i;
            cuts.value[cuts.count] = last;
            cuts.cost[cuts.count++] = cuts.all;
        }
        cuts.all += cost_of(&model->layer[i], balance);
    }
    return cuts;
}

/* Parts that can be cut, of which the first and the last may lack blocks. */
static int32_t most_parts(const struct cuts *cuts)
{
    return !cuts->blocks ? cuts->count + 1 : cuts->blocks + (cuts->after ? 1 + cuts->before : 0);
}

static void cuts_release(struct cuts *cuts)
{
    free(cuts->layer);
    free(cuts->value);
    free(cuts->cost);
}

/* As many blocks as a part is @given, or as evenly as can be; then the parts at the ends, of which
 * the last is first, have one fewer. */
static void cut_blocks(const struct cuts *cuts, int32_t parts, int32_t given, int32_t *cut)
{
    int32_t each = given ? given : (cuts->blocks + parts - 1) / parts;
    int32_t fewer = each * parts - cuts->blocks, end = 0;
    int32_t lacks = given && fewer > each ? fewer - each : 0; /* the first */
    for (int32_t i = 0; i + 1 < parts; i++) {
        bool outer = !given && (i < fewer / 2 || i >= parts - (fewer + 1) / 2);
        end += each - (i ? outer : outer + lacks);
        cut[i] = end - 1 + cuts->before;
    }
}

/* Whether parts that cost at most @most can be cut, with each as large as that allows. */
static bool cut_within(const struct cuts *cuts, int32_t parts, double most, int32_t *cut)
{
    double before = 0;
    int32_t next = 0;
    for (int32_t i = 0; i + 1 < parts; i++) {
        int32_t left = parts - 2 - i; /* cuts behind this one */
        while (next + 1 < cuts->count - left && cuts->cost[next + 1] - before <= most)
            next++;
        if (cuts->cost[next] - before > most)
            return false;
        before = cuts->cost[next];
        cut[i] = next++;
    }
    return cuts->all - before <= most;
}

static void cut_evenly(const struct cuts *cuts, int32_t parts, int32_t *cut)
{
    double low = 0, high = cuts->all;
    for (int32_t i = 0; i < 60; i++) { /* to all bits */
        double middle = (low + high) / 2;
        *(cut_within(cuts, parts, middle, cut) ? &high : &low) = middle;
    }
    cut_within(cuts, parts, high, cut);
}

/* Behind the block with which all so far is more than the share of as many parts. */
static void cut_greedily(const struct cuts *cuts, int32_t parts, int32_t *cut)
{
    int32_t next = 0;
    for (int32_t i = 0; i + 1 < parts; i++) {
        int32_t left = parts - 2 - i; /* cuts behind this one */
        while (next + 1 < cuts->count - left && cuts->cost[next] <= cuts->all * (i + 1) / parts)
            next++;
        cut[i] = next++;
    }
}

int pipeline_build(struct pipeline *pipeline, const struct model *model,
                   const struct scenario *scenario, struct err *err)
{
    int32_t stages = (int32_t)scenario->parallel.pipeline, chunks;
    stages = stages > 1 ? stages : 1;
    chunks = stages > 1 && scenario->parallel.chunks > 1 ? (int32_t)scenario->parallel.chunks : 1;
    int32_t parts = stages * chunks;
    enum balance balance = (enum balance)scenario->parallel.balance;
    int32_t given = (int32_t)scenario->parallel.blocks;
    AUTORELEASE(cuts) struct cuts cuts = {0};
    if (parts > 1)
        cuts = find_cuts(model, balance);
    if (parts > 1 && parts > most_parts(&cuts))
        return err_add(err,
                       "%" PRId32 " parts of %s%s are more than its %" PRId32
                       " %s: use fewer stages or chunks",
                       parts, model->name, chunks > 1 ? ", those of all chunks," : "",
                       cuts.blocks ? cuts.blocks : most_parts(&cuts),
                       cuts.blocks ? "blocks" : "parts between which one value crosses");
    bool lacks = given * (parts - 1) >= cuts.blocks + (cuts.after ? given : 0);
    if (given && parts > 1 && (lacks || given > cuts.blocks))
        return err_add(
            err, "%" PRId32 " parts of %" PRId32 " blocks are more than the %" PRId32 " of %s%s",
            parts, given, cuts.blocks, model->name,
            cuts.blocks ? ": use fewer" : ", which is no built-in transformer");
    AUTOFREE int32_t *cut = base_alloc(parts, sizeof(*cut));
    if (cuts.blocks && balance == BALANCE_BLOCKS)
        cut_blocks(&cuts, parts, given, cut);
    else if (balance == BALANCE_GREEDY)
        cut_greedily(&cuts, parts, cut);
    else if (parts > 1)
        cut_evenly(&cuts, parts, cut);
    *pipeline = (struct pipeline){.stages = stages,
                                  .chunks = chunks,
                                  .parts = parts,
                                  .blocks = given || balance != BALANCE_BLOCKS ? 0 : cuts.blocks,
                                  .end = base_alloc(parts, sizeof(int32_t)),
                                  .value = base_alloc(parts, sizeof(int32_t))};
    for (int32_t i = 0; i + 1 < parts; i++) {
        pipeline->end[i] = cuts.layer[cut[i]];
        pipeline->value[i] = cuts.value[cut[i]];
    }
    pipeline->end[parts - 1] = model->layer_count;
    return 0;
}

void pipeline_release(struct pipeline *pipeline)
{
    free(pipeline->end);
    free(pipeline->value);
    *pipeline = (struct pipeline){0};
}

/* ---- stages ---- */

struct model *pipeline_stage(const struct pipeline *pipeline, const struct model *model,
                             int32_t stage)
{
    struct model *own = base_alloc(1, sizeof(*own));
    *own = *model;
    own->layer = base_alloc(model->layer_count, sizeof(*own->layer));
    own->tensor = base_alloc(model->tensor_count + model->layer_count, sizeof(*own->tensor));
    own->tensor_count = 0;
    AUTOFREE bool *here = base_alloc(model->layer_count, sizeof(*here));
    for (int32_t i = 0, part = 0; i < model->layer_count; i++) {
        struct layer *layer = &own->layer[i];
        part += i == pipeline->end[part];
        here[i] = part % pipeline->stages == stage;
        if (here[i])
            *layer = model->layer[i];
        else
            layer->op = LAYER_OTHER;
        if (!here[i] && part + 1 < pipeline->parts && i == pipeline->value[part] &&
            (part + 1) % pipeline->stages == stage)
            layer->out = model->layer[i].out;
        if (!here[i] || !layer->weights_of || here[layer->weights_of - 1])
            continue;
        layer->weights_of = 0;
        if (layer->frozen)
            continue;
        layer->parameters += layer_weights(layer);
        struct tensor *tensor = &own->tensor[own->tensor_count++];
        *tensor = (struct tensor){.layer = i, .elements = layer_weights(layer)};
        snprintf(tensor->name, sizeof(tensor->name), "%s.weight", layer->name);
    }
    for (int32_t t = 0; t < model->tensor_count; t++)
        if (here[model->tensor[t].layer])
            own->tensor[own->tensor_count++] = model->tensor[t];
    return own;
}

int32_t pipeline_shared(const struct model *own, const struct model *all)
{
    for (int32_t i = 0; i < all->layer_count; i++) {
        int32_t other = all->layer[i].weights_of - 1;
        bool here = own->layer[i].input_count > 0;
        if (other >= 0 && here != (own->layer[other].input_count > 0))
            return here ? i : other;
    }
    return -1;
}

/* ---- order ---- */

/* Tasks forward before the first one backward. */
static int64_t warm_up(const struct pipeline *p, enum pipeline_order order, int32_t stage,
                       int64_t micros)
{
    int64_t after = p->stages - stage - 1, all = micros * p->chunks;
    int64_t warm = order == PIPELINE_GPIPE ? all
                   : p->chunks == 1        ? after
                                           : 2 * after + (p->chunks - 1) * (int64_t)p->stages;
    return warm < all ? warm : all;
}

int64_t pipeline_in_flight(const struct pipeline *pipeline, enum pipeline_order order,
                           int32_t stage, int64_t micros)
{
    int64_t warm = warm_up(pipeline, order, stage, micros);
    return warm < micros * pipeline->chunks ? warm + 1 : warm;
}

/* Number @index of those of @stage forward, or @back. */
static struct task_of_stage numbered(const struct pipeline *p, int32_t stage, int32_t index,
                                     bool back)
{
    int32_t round = p->stages * p->chunks, within = index % round;
    int32_t chunk = within / p->stages;
    if (p->chunks == 1)
        return (struct task_of_stage){stage, stage, index, back};
    return (struct task_of_stage){stage, (back ? p->chunks - 1 - chunk : chunk) * p->stages + stage,
                                  index / round * p->stages + within % p->stages, back};
}

/* The tasks while they are put in order, in units of time: forward takes 1 and backward 2. */
struct replay {
    const struct pipeline *pipeline;
    enum pipeline_order order;
    int32_t micros;
    int32_t *done;    /* (stages) tasks */
    double *free;     /* (stages) since when */
    double *ended[2]; /* (parts * micros) forward, backward; 0: not yet */
};

static struct task_of_stage next_task(const struct replay *r, int32_t stage)
{
    int32_t all = r->micros * r->pipeline->chunks, done = r->done[stage];
    int32_t warm = (int32_t)warm_up(r->pipeline, r->order, stage, r->micros);
    if (done < warm)
        return numbered(r->pipeline, stage, done, false);
    int32_t turn = (done - warm) / 2;
    if (done >= 2 * all - warm)
        return numbered(r->pipeline, stage, done - all, true);
    return (done - warm) % 2 ? numbered(r->pipeline, stage, turn, true)
                             : numbered(r->pipeline, stage, warm + turn, false);
}

/* When it can begin, or -1: what it needs has not run. */
static double begins(const struct replay *r, struct task_of_stage task)
{
    int32_t parts = r->pipeline->parts, at = task.part * r->micros + task.micro;
    double needed = task.back
                        ? task.part + 1 < parts ? r->ended[1][at + r->micros] : r->ended[0][at]
                    : task.part > 0 ? r->ended[0][at - r->micros]
                                    : 0.5;
    if (needed == 0)
        return -1;
    return needed > r->free[task.stage] ? needed : r->free[task.stage];
}

static struct task_of_stage take_earliest(struct replay *r)
{
    struct task_of_stage best = {0};
    double when = -1;
    for (int32_t s = 0; s < r->pipeline->stages; s++) {
        if (r->done[s] == 2 * r->micros * r->pipeline->chunks)
            continue;
        struct task_of_stage task = next_task(r, s);
        double at = begins(r, task);
        if (at >= 0 && (when < 0 || at < when)) {
            when = at;
            best = task;
        }
    }
    assert(when >= 0);
    r->done[best.stage]++;
    r->free[best.stage] = when + 1 + best.back;
    r->ended[best.back][best.part * r->micros + best.micro] = r->free[best.stage];
    return best;
}

struct task_of_stage *pipeline_order(const struct pipeline *pipeline, enum pipeline_order order,
                                     int32_t micros)
{
    int32_t count = pipeline->parts * micros;
    struct task_of_stage *task = base_alloc(2 * (int64_t)count, sizeof(*task));
    struct replay r = {pipeline,
                       order,
                       micros,
                       base_alloc(pipeline->stages, sizeof(int32_t)),
                       base_alloc(pipeline->stages, sizeof(double)),
                       {base_alloc(count, sizeof(double)), base_alloc(count, sizeof(double))}};
    for (int32_t i = 0; i < 2 * count; i++)
        task[i] = take_earliest(&r);
    free(r.done);
    free(r.free);
    free(r.ended[0]);
    free(r.ended[1]);
    return task;
}
