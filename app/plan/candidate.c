#include "app/plan/candidate.h"

const char *const decision_keys[DECISION_COUNT] = {
    [DECISION_PLATFORM] = "cluster.platform",
    [DECISION_NODES] = "cluster.nodes",
    [DECISION_BATCH] = "training.phases[*].batch_per_device",
    [DECISION_ALGORITHM] = "allreduce.algorithm",
    [DECISION_BUCKET] = "allreduce.bucket",
    [DECISION_TENSOR] = "parallel.tensor",
    [DECISION_CONTEXT] = "parallel.context",
    [DECISION_EXPERT] = "parallel.expert",
    [DECISION_PIPELINE] = "parallel.pipeline",
    [DECISION_CHUNKS] = "parallel.chunks",
    [DECISION_MICRO_BATCH] = "training.micro_batch",
    [DECISION_SHARDING] = "parallel.sharding",
    [DECISION_RECOMPUTE] = "parallel.recompute",
};

const char *const decision_options[DECISION_COUNT] = {
    "platforms", "nodes",    "batch",  "algorithms",  "buckets",  "tensor",   "context",
    "expert",    "pipeline", "chunks", "micro-batch", "sharding", "recompute"};

int64_t candidate_batch(const struct question *q, const struct candidate *c, int32_t index)
{
    return llround(fmax(1, (double)c->batch * q->share[index]));
}

char *candidate_mesh(const struct candidate *c)
{
    const int64_t *part = c->mesh;
    int64_t data =
        c->figures.devices / part[MESH_TENSOR] / part[MESH_CONTEXT] / part[MESH_PIPELINE];
    struct text out = {0};
    text_add(&out, "tensor %lld", (long long)part[MESH_TENSOR]);
    if (part[MESH_CONTEXT] > 1)
        text_add(&out, ", context %lld", (long long)part[MESH_CONTEXT]);
    if (part[MESH_EXPERT] > 1)
        text_add(&out, ", expert %lld", (long long)part[MESH_EXPERT]);
    text_add(&out, ", pipeline %lld", (long long)part[MESH_PIPELINE]);
    if (part[MESH_CHUNKS] > 1)
        text_add(&out, " x %lld chunks", (long long)part[MESH_CHUNKS]);
    text_add(&out, ", data %lld, micro-batch %lld, sharding %lld, recompute %s", (long long)data,
             (long long)part[MESH_MICRO], (long long)part[MESH_SHARDING],
             recompute_names[part[MESH_AGAIN]]);
    return out.data;
}

const char *question_input(const struct question *question)
{
    return question->pictures ? "image" : "sample";
}

char *candidate_name(const struct question *q, const struct candidate *c)
{
    struct text text = {0};
    text_add(&text, "%lld node%s of %s, ", (long long)c->nodes, base_plural(c->nodes), c->platform);
    if (c->algorithm)
        text_add(&text, "%s, ", c->algorithm);
    if (c->bucket)
        text_add(&text, "bucket %s, ", c->bucket);
    if (c->mesh[MESH_TENSOR]) {
        AUTOFREE char *mesh = candidate_mesh(c);
        text_add(&text, "%s", mesh);
    }
    if (q->global)
        return text.data;
    for (int32_t i = 0; i < q->phases; i++)
        text_add(&text, "%s%lld", i ? ", then " : "", (long long)candidate_batch(q, c, i));
    text_add(&text, " %s%s a device", question_input(q), base_plural(c->batch));
    return text.data;
}

/* What stands beside a key that has no effect has none, either. */
static void add_mesh(struct texts *set, const struct question *q, const struct candidate *c)
{
    static const char *const none[] = {"training.phases[*].batch_per_device=null",
                                       "training.phases[*].micro_batch=null",
                                       "training.accumulate=null"};
    static const struct {
        enum mesh_part part;
        const char *none;
    } beside[] = {
        {MESH_TENSOR, "parallel.sequence=null"},       {MESH_CONTEXT, "parallel.context_by=null"},
        {MESH_EXPERT, "parallel.imbalance=null"},      {MESH_EXPERT, "parallel.expert_by=null"},
        {MESH_TENSOR, "parallel.expert_tensor=null"},  {MESH_EXPERT, "parallel.expert_tensor=null"},
        {MESH_EXPERT, "parallel.expert_overlap=null"}, {MESH_PIPELINE, "parallel.schedule=null"},
        {MESH_PIPELINE, "parallel.balance=null"},      {MESH_PIPELINE, "parallel.blocks=null"}};
    for (size_t i = 0; i < ARRAY_SIZE(none); i++)
        texts_add(set, "%s", none[i]);
    for (int32_t i = 0; i < q->phases; i++)
        texts_add(set, "training.phases[%d].global_batch=%lld", i, (long long)q->global[i]);
    for (size_t i = 0; i < ARRAY_SIZE(beside); i++)
        if (c->mesh[beside[i].part] == 1)
            texts_add(set, "%s", beside[i].none);
    for (int i = 0; i < MESH_PARTS; i++) {
        long long value = c->mesh[i];
        const char *key = decision_keys[DECISION_TENSOR + i];
        if (i == MESH_AGAIN)
            texts_add(set, "%s=%s", key, recompute_names[value]);
        else if (value > 1 || (value && i >= MESH_MICRO))
            texts_add(set, "%s=%lld", key, value);
        else
            texts_add(set, "%s=null", key);
    }
}

void candidate_add_algorithm(struct texts *set, const char *algorithm)
{
    static const struct {
        const char *key, *algorithm;
    } alone[] = {{"channels", "ring"}, {"column_algorithm", "torus2d"}, {"chunk", "tree"}};
    texts_add(set, "allreduce.grid=null");
    for (size_t i = 0; i < ARRAY_SIZE(alone) && algorithm; i++)
        if (strcmp(algorithm, alone[i].algorithm) != 0)
            texts_add(set, "allreduce.%s=null", alone[i].key);
    if (algorithm)
        texts_add(set, "allreduce.algorithm=%s", algorithm);
}

/* Whether @set only takes away a key that the job does not have. */
static bool changes_nothing(const struct question *q, const char *set)
{
    const char *equals = strchr(set, '='), *each = strstr(set, "[*]");
    if (strcmp(equals, "=null") != 0)
        return false;
    for (int32_t i = 0; i < (each ? q->phases : 1); i++) {
        AUTOFREE char *key = each ? base_format("%.*s.%d%.*s", (int)(each - set), set, i,
                                                (int)(equals - each) - 3, each + 3)
                                  : base_format("%.*s", (int)(equals - set), set);
        if (scenario_is_given(q->scenario, key))
            return false;
    }
    return true;
}

struct texts candidate_set(const struct question *q, const struct candidate *c)
{
    struct texts all = {0},
                 set = predict_set(q->options,
                                   q->tariffs ? tariffs_find(q->tariffs, c->platform, NULL) : NULL);
    if (q->target)
        texts_add(&all, "training.target=%s", q->target);
    texts_add(&all, "cluster.platform=%s", c->platform);
    texts_add(&all, "cluster.nodes=%lld", (long long)c->nodes);
    if (q->global)
        add_mesh(&all, q, c);
    for (const char *const *key = batch_keys; key[1] && !q->global; key++)
        texts_add(&all, "%s", *key);
    for (int32_t i = 0; i < q->phases && !q->global; i++)
        texts_add(&all, "training.phases[%d].batch_per_device=%lld", i,
                  (long long)candidate_batch(q, c, i));
    if (q->phases > 1)
        texts_add(&all, "training.phases[*].nodes=null");
    candidate_add_algorithm(&all, c->algorithm);
    if (c->bucket)
        texts_add(&all, "allreduce.bucket=%s", c->bucket);
    for (int32_t i = 0; i < all.count; i++)
        if (!changes_nothing(q, all.item[i]))
            texts_add(&set, "%s", all.item[i]);
    texts_release(&all);
    return set;
}

/* ---- predictions ---- */

/* Some candidates on their way through the crew. */
struct round {
    const struct question *question;
    struct candidate *list;
    const int64_t *at; /* NULL: one after the other */
    enum depth depth;
};

static int32_t draws_of(const struct question *question, enum depth depth)
{
    return depth == DEPTH_MESH   ? 0
           : !question->unknown  ? CANDIDATE_DRAWS
           : depth == DEPTH_PLAN ? UNKNOWN_DRAWS
                                 : UNKNOWN_FINALIST_DRAWS;
}

static struct candidate *candidate_at(const struct round *round, int64_t index)
{
    return &round->list[round->at ? round->at[index] : index];
}

static struct texts set_of(const void *context, int64_t index)
{
    const struct round *round = context;
    return candidate_set(round->question, candidate_at(round, index));
}

/* One that fails keeps the numbers that it had, if it had some. */
static void take(void *context, int64_t index, struct finding found)
{
    const struct round *round = context;
    struct candidate *c = candidate_at(round, index);
    bool known = c->status == FINDING_OK, good = found.status == FINDING_OK;
    if (good && round->depth != DEPTH_MESH && isnan(found.figures.usage.seconds.high)) {
        good = false;
        found.status = FINDING_REFUSED;
        found.code = 65;
        found.reason = base_copy("nothing is known of what its devices compute: no interval");
    }
    free(c->reason);
    c->reason = found.reason;
    if (good || known)
        c->depth = round->depth;
    if (!good && known)
        return;
    c->status = found.status;
    c->code = found.code;
    c->backend = found.backend;
    c->figures = found.figures;
    if (round->depth < DEPTH_BESIDE)
        c->closed = c->figures.usage.seconds.value;
}

int candidates_predict(const struct question *question, struct candidate *list, const int64_t *at,
                       int64_t chosen, enum backend_choice backend, enum depth depth,
                       struct err *err)
{
    struct round round = {question, list, at, depth};
    struct predict_options options = *question->options;
    options.alone = depth == DEPTH_MESH || depth == DEPTH_BESIDE;
    return findings_find(&(struct findings){.job = question->path,
                                            .options = &options,
                                            .backend = backend,
                                            .draws = draws_of(question, depth),
                                            .workers = question->workers,
                                            .noun = "plans",
                                            .context = &round,
                                            .set = set_of,
                                            .take = take},
                         chosen, err);
}
