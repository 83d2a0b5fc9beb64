#include "app/plan/candidate.h"

#include <math.h>
#include <stdlib.h>

const char *const decision_keys[DECISION_COUNT] = {
    [DECISION_PLATFORM] = "cluster.platform",
    [DECISION_NODES] = "cluster.nodes",
    [DECISION_BATCH] = "training.phases[*].batch_per_device",
    [DECISION_ALGORITHM] = "allreduce.algorithm",
    [DECISION_BUCKET] = "allreduce.bucket",
};

static void add(struct option_list *set, char *text)
{
    option_list_add(set, text);
    free(text);
}

int64_t candidate_batch(const struct question *q, const struct candidate *c, int32_t index)
{
    return llround(fmax(1, (double)c->batch * q->share[index]));
}

struct option_list candidate_set(const struct question *q, const struct candidate *c)
{
    struct option_list set =
        predict_set(q->options, q->tariffs ? tariffs_find(q->tariffs, c->platform, NULL) : NULL);
    if (q->target)
        add(&set, base_format("training.target=%s", q->target));
    add(&set, base_format("cluster.platform=%s", c->platform));
    add(&set, base_format("cluster.nodes=%lld", (long long)c->nodes));
    for (const char *const *key = batch_keys; key[1]; key++)
        option_list_add(&set, *key);
    for (int32_t i = 0; i < q->phases; i++)
        add(&set, base_format("training.phases[%d].batch_per_device=%lld", i,
                              (long long)candidate_batch(q, c, i)));
    if (q->phases > 1)
        option_list_add(&set, "training.phases[*].nodes=null");
    option_list_add(&set, "allreduce.grid=null");
    add(&set, base_format("allreduce.algorithm=%s", c->algorithm));
    add(&set, base_format("allreduce.bucket=%s", c->bucket));
    return set;
}

/* ---- predictions ---- */

/* Some candidates on their way through the crew. */
struct round {
    const struct question *question;
    struct candidate *list;
    const int64_t *at;
    bool final;
};

static int32_t draws_of(const struct question *question, bool final)
{
    return !question->unknown ? CANDIDATE_DRAWS : final ? UNKNOWN_FINALIST_DRAWS : UNKNOWN_DRAWS;
}

static struct option_list set_of(const void *context, int64_t index)
{
    const struct round *round = context;
    return candidate_set(round->question, &round->list[round->at[index]]);
}

/* One that fails keeps the numbers that it had, if it had some. */
static int take(void *context, int64_t index, struct finding found, bool lost, struct err *err)
{
    const struct round *round = context;
    struct candidate *c = &round->list[round->at[index]];
    bool known = c->status == FINDING_OK, good = found.status == FINDING_OK;
    if (good && isnan(found.figures.usage.seconds.high)) {
        good = false;
        found.status = FINDING_REFUSED;
        found.code = 65;
        found.reason = base_copy("nothing is known of what its devices compute: no interval");
    }
    free(c->reason);
    c->reason = found.reason;
    c->final = round->final && (good || known);
    if (!good && known)
        return 0;
    c->status = found.status;
    c->code = found.code;
    c->backend = found.backend;
    c->figures = found.figures;
    if (!round->final)
        c->closed = c->figures.usage.seconds.value;
    return 0;
}

int candidates_predict(const struct question *question, struct candidate *list, const int64_t *at,
                       int64_t chosen, enum backend_choice backend, bool final, struct err *err)
{
    struct round round = {question, list, at, final};
    return findings_find(&(struct findings){.job = question->path,
                                            .options = question->options,
                                            .backend = backend,
                                            .draws = draws_of(question, final),
                                            .workers = question->workers,
                                            .noun = "plans",
                                            .context = &round,
                                            .set = set_of,
                                            .take = take},
                         chosen, err);
}
