#include "app/plan/search.h"

#include "app/job/job.h"
#include "app/predict/assumption.h"
#include "app/predict/predict.h"
#include "core/platform/platform.h"
#include "core/scenario/scenario.h"

const char *const aim_names[] = {"cost", "device-hours", "time", NULL};

/* Candidates that differ in algorithm and bucket alone. */
struct group {
    int32_t platform; /* a value of its axis */
    int64_t nodes, batch;
    int64_t head; /* the first candidate with an answer; -1: none yet */
};

/* ---- what is better ---- */

struct range search_price(const struct search *search, const struct candidate *c)
{
    return search->currency ? c->figures.bill.cost : c->figures.device_hours;
}

/* By how much it misses a limit, as a factor; 1: by nothing, as far as it is known. */
static double miss(const struct search *search, const struct candidate *c)
{
    double late = c->figures.usage.seconds.high / search->within;
    return fmax(1, fmax(late, search_price(search, c).high / search->budget));
}

bool search_keeps(const struct search *search, const struct candidate *c)
{
    return miss(search, c) <= 1;
}

bool search_beyond(const struct candidate *c)
{
    return c->figures.batch == BATCH_BEYOND;
}

bool search_better(const struct search *search, const struct candidate *a,
                   const struct candidate *b)
{
    if (search_beyond(a) != search_beyond(b))
        return search_beyond(b);
    double missed = miss(search, a) - miss(search, b);
    double time = a->figures.usage.seconds.value - b->figures.usage.seconds.value;
    double price = search_price(search, a).value - search_price(search, b).value;
    if (missed != 0)
        return missed < 0;
    if (search->aim == AIM_TIME)
        return time != 0 ? time < 0 : price < 0;
    return price != 0 ? price < 0 : time < 0;
}

static void price(const struct search *search, struct candidate *c)
{
    figures_price(&c->figures, tariffs_find(&search->tariffs, c->platform, NULL));
}

/* Whether @than is at most @near times @c in time, cost and energy. */
static bool covers(const struct search *search, const struct candidate *than,
                   const struct candidate *c, double near)
{
    double energy = than->figures.bill.energy.value;
    return than->figures.usage.seconds.value <= near * c->figures.usage.seconds.value &&
           search_price(search, than).value <= near * search_price(search, c).value &&
           (isnan(energy) || energy <= near * c->figures.bill.energy.value);
}

/* The best of those on @platform (NULL: of all); -1: none. */
static int64_t find_best(const struct search *search, const char *platform)
{
    int64_t best = -1;
    for (int64_t i = 0; i < search->count; i++) {
        const struct candidate *c = &search->list[i];
        if (c->status == FINDING_OK && (!platform || c->platform == platform) &&
            (best < 0 || search_better(search, c, &search->list[best])))
            best = i;
    }
    return best;
}

/* ---- candidates ---- */

static const struct texts *values(const struct search *search, enum decision decision)
{
    return &search->axes.item[decision].value;
}

static int64_t number(const struct search *search, enum decision decision, int32_t i)
{
    return strtoll(values(search, decision)->item[i], NULL, 10);
}

static void add_group(struct search *search, int32_t platform, int64_t nodes, int64_t batch)
{
    for (int64_t i = 0; i < search->group_count; i++) {
        const struct group *group = &search->group[i];
        if (group->platform == platform && group->nodes == nodes && group->batch == batch)
            return;
    }
    BASE_NEXT(search->group, search->group_count) = (struct group){platform, nodes, batch, -1};
}

static struct candidate candidate_of(const struct search *search, const struct group *group,
                                     int32_t algorithm, int32_t bucket)
{
    const char *words[] = {values(search, DECISION_ALGORITHM)->item[algorithm],
                           values(search, DECISION_BUCKET)->item[bucket]};
    return (struct candidate){
        .platform = values(search, DECISION_PLATFORM)->item[group->platform],
        .algorithm = strcmp(words[0], mesh_open) ? words[0] : NULL,
        .bucket = strcmp(words[1], mesh_open) ? words[1] : NULL,
        .nodes = group->nodes,
        .batch = group->batch,
    };
}

/* Predict those from @first on in closed form. */
static int predict_from(struct search *search, int64_t first, struct err *err)
{
    if (first == search->count)
        return 0;
    int failed = candidates_predict(&search->question, search->list + first, NULL,
                                    search->count - first, BACKEND_ANALYTIC, DEPTH_PLAN, err);
    for (int64_t i = first; i < search->count; i++)
        price(search, &search->list[i]);
    return failed;
}

/* The largest bucket with each algorithm, until one makes a job.  What two algorithms are refused
 * for in the same words is no fault of theirs. */
static int find_heads(struct search *search, int64_t first, struct err *err)
{
    const struct texts *algorithms = values(search, DECISION_ALGORITHM);
    int32_t largest = values(search, DECISION_BUCKET)->count - 1;
    int64_t count = search->group_count - first, *last = base_alloc(count + 1, sizeof(*last));
    int failed = 0;
    for (int64_t g = 0; g < count; g++)
        last[g] = -1;
    for (int32_t a = 0; a < algorithms->count && !failed; a++) {
        int64_t begin = search->count, at = begin;
        for (int64_t g = 0; g < count; g++)
            if (search->group[first + g].head == -1)
                BASE_NEXT(search->list, search->count) =
                    candidate_of(search, &search->group[first + g], a, largest);
        failed = predict_from(search, begin, err);
        for (int64_t g = 0; g < count && !failed; g++) {
            struct group *group = &search->group[first + g];
            if (group->head != -1)
                continue;
            const struct candidate *now = &search->list[at];
            const char *before = last[g] < 0 ? NULL : search->list[last[g]].reason;
            if (now->status == FINDING_OK)
                group->head = at;
            else if (before && now->reason && !strcmp(before, now->reason))
                group->head = -2;
            last[g] = at++;
        }
    }
    free(last);
    return failed;
}

/* Whether another algorithm or bucket could make the plan of @head @best, or one of the front. */
static bool promises(const struct search *search, const struct candidate *head, int64_t best)
{
    struct candidate least = *head;
    least.figures.usage.seconds =
        (struct range){head->figures.least, head->figures.least, head->figures.least};
    price(search, &least);
    if (search_better(search, &least, &search->list[best]))
        return true;
    for (int64_t i = 0; i < search->count; i++)
        if (search->list[i].status == FINDING_OK &&
            covers(search, &search->list[i], &least, 1 + PLAN_MISSED))
            return false;
    return true;
}

/* Predict what matters of the groups from @first on. */
static int search_groups(struct search *search, int64_t first, struct err *err)
{
    const struct texts *algorithms = values(search, DECISION_ALGORITHM);
    int32_t buckets = values(search, DECISION_BUCKET)->count;
    if (find_heads(search, first, err))
        return -1;
    int64_t begin = search->count, best = find_best(search, NULL);
    for (int64_t g = first; g < search->group_count; g++) {
        const struct group group = search->group[g];
        if (group.head < 0 || !promises(search, &search->list[group.head], best))
            continue;
        const char *own = search->list[group.head].algorithm;
        for (int32_t a = 0; a < algorithms->count; a++)
            for (int32_t b = 0; b < buckets; b++)
                if (b < buckets - 1 || strcmp(algorithms->item[a], own) != 0)
                    BASE_NEXT(search->list, search->count) = candidate_of(search, &group, a, b);
    }
    return predict_from(search, begin, err);
}

/* ---- meshes ---- */

enum { MESHES_AT_ONCE = 4 };

/* Meshes of some nodes while they are searched. */
struct hunt {
    struct search *search;
    struct meshes meshes;
    struct group group;
    struct candidate *tried;  /* (count) owned */
    int64_t count, next;      /* next: of meshes */
    double kept[MESHES_KEPT]; /* the shortest steps so far, in order [s] */
};

static void hunt_release(struct hunt *hunt)
{
    for (int64_t i = 0; i < hunt->count; i++)
        free(hunt->tried[i].reason);
    free(hunt->tried);
    meshes_release(&hunt->meshes);
}

/* The next meshes that fit and may be among those that are kept, with each algorithm and bucket. */
static void hunt_choose(struct hunt *hunt)
{
    struct search *search = hunt->search;
    int64_t most = hunt->count + MESHES_AT_ONCE;
    for (; hunt->next < hunt->meshes.count && hunt->count < most; hunt->next++) {
        const struct mesh *mesh = &hunt->meshes.item[hunt->next];
        if (mesh->least >= hunt->kept[MESHES_KEPT - 1])
            return;
        if (!mesh_fits(&hunt->meshes, mesh))
            continue;
        for (int32_t a = 0; a < values(search, DECISION_ALGORITHM)->count; a++)
            for (int32_t b = 0; b < values(search, DECISION_BUCKET)->count; b++) {
                struct candidate c = candidate_of(search, &hunt->group, a, b);
                memcpy(c.mesh, mesh->part, sizeof(c.mesh));
                BASE_NEXT(hunt->tried, hunt->count) = c;
            }
    }
}

/* Predict those from @first on, without an interval. */
static int hunt_predict(struct hunt *hunt, int64_t first, struct err *err)
{
    if (first < hunt->count &&
        candidates_predict(&hunt->search->question, hunt->tried + first, NULL, hunt->count - first,
                           BACKEND_ANALYTIC, DEPTH_MESH, err))
        return -1;
    for (int64_t i = first; i < hunt->count; i++) {
        double step = hunt->tried[i].figures.step.value;
        for (int k = 0; k < MESHES_KEPT && hunt->tried[i].status == FINDING_OK; k++)
            if (step < hunt->kept[k]) {
                double other = hunt->kept[k];
                hunt->kept[k] = step;
                step = other;
            }
    }
    return 0;
}

static int by_step(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    double one = x->status == FINDING_OK ? x->figures.step.value : INFINITY;
    double other = y->status == FINDING_OK ? y->figures.step.value : INFINITY;
    int order = (one > other) - (one < other);
    return order ? order : memcmp(x->mesh, y->mesh, sizeof(x->mesh));
}

static void add_layouts(struct search *search, const struct hunt *hunt)
{
    struct candidate like = candidate_of(search, &hunt->group, 0, 0);
    for (int64_t i = 0; i < hunt->meshes.count && i < LAYOUTS_MOST; i++) {
        const struct mesh *mesh = &hunt->meshes.item[i];
        struct layout layout = {like.platform, like.nodes, 0, 0, false, false};
        if (mesh_layout(&hunt->meshes, mesh, &layout))
            continue;
        for (int64_t k = 0; k < hunt->count; k++)
            if (!memcmp(hunt->tried[k].mesh, mesh->part, sizeof(mesh->part)) &&
                hunt->tried[k].status == FINDING_OK) {
                layout.predicted = true;
                layout.step = hunt->tried[k].figures.step.value;
            }
        BASE_NEXT(search->layout, search->layouts) = layout;
    }
}

/* Add the shortest of those that were tried, or one that says @why there is none. */
static void hunt_end(struct hunt *hunt, const char *why)
{
    struct search *search = hunt->search;
    struct mesh_tally *all = &search->mesh_tally, *own = &hunt->meshes.tally;
    if (hunt->count)
        qsort(hunt->tried, (size_t)hunt->count, sizeof(*hunt->tried), by_step);
    if (search->draws)
        add_layouts(search, hunt);
    for (int64_t i = 0; i < hunt->count && i < MESHES_KEPT; i++) {
        BASE_NEXT(search->list, search->count) = hunt->tried[i];
        hunt->tried[i].reason = NULL;
        price(search, &search->list[search->count - 1]);
    }
    all->considered += own->considered;
    all->divided += own->divided;
    all->memory += own->memory;
    all->slower += hunt->meshes.count - hunt->next;
    all->predicted += hunt->count;
    if (hunt->count)
        return;
    struct candidate none = candidate_of(search, &hunt->group, 0, 0);
    none.status = FINDING_REFUSED;
    none.code = 65;
    none.figures = figures_none();
    none.reason = why ? base_copy(why) : meshes_nearest(&hunt->meshes);
    BASE_NEXT(search->list, search->count) = none;
}

/* The meshes of @group that may be the best. */
static int search_meshes(struct search *search, const struct group *group, struct err *err)
{
    AUTORELEASE(err) struct err why = {0};
    AUTORELEASE(hunt) struct hunt hunt = {.search = search, .group = *group};
    struct candidate like = candidate_of(search, group, 0, 0);
    for (int k = 0; k < MESHES_KEPT; k++)
        hunt.kept[k] = INFINITY;
    int found = meshes_find(&hunt.meshes, &search->question, &like, &search->axes, &why);
    for (int64_t before = -1; !found && before < hunt.count;) {
        before = hunt.count;
        hunt_choose(&hunt);
        if (hunt_predict(&hunt, before, err))
            return -1;
    }
    hunt_end(&hunt, found ? err_reason(&why) : NULL);
    return 0;
}

/* ---- around the best ---- */

enum {
    AROUND = 3,     /* steps to each side */
    BATCH_STEP = 8, /* images: fewer make no difference that a plan needs */
    BATCH_MOST = 512,
    PLATFORMS_MOST = 4, /* whose best plan is refined */
    ROUNDS_MOST = 12
};

/* Images of a device where all plans have as many a step, up to 1 %; 0: @nodes cannot share. */
static int64_t fixed_batch(const struct search *search, int32_t platform, int64_t nodes)
{
    double devices = (double)nodes * search->devices[platform];
    double batch = round((double)search->images / devices);
    return fabs(batch * devices / (double)search->images - 1) < 0.01 ? (int64_t)batch : 0;
}

/* Nodes and batches up to AROUND steps from the best of @platform; with a step of 0 its own. */
static void add_around(struct search *search, int32_t platform, const struct candidate *best,
                       int64_t nodes, int64_t batch)
{
    const int64_t own_nodes = best->nodes, own_batch = best->batch;
    for (int64_t i = nodes ? -AROUND : 0; i <= (nodes ? AROUND : 0); i++)
        for (int64_t k = batch ? -AROUND : 0; k <= (batch ? AROUND : 0); k++) {
            int64_t n = own_nodes + i * nodes, b = own_batch + k * batch;
            if (k)
                b -= b % BATCH_STEP;
            if (search->images && n > 0)
                b = fixed_batch(search, platform, n);
            if (n > 0 && n <= search->size[platform] && b > 0)
                add_group(search, platform, n, b);
        }
}

/* Values between those of the axes, in ever smaller steps around the best of @platform; at last all
 * batches on its nodes. */
static int refine(struct search *search, int32_t platform, struct err *err)
{
    const char *name = values(search, DECISION_PLATFORM)->item[platform];
    const struct candidate *first = &search->list[find_best(search, name)];
    int64_t nodes = search->given[DECISION_NODES] ? 0 : first->nodes / 4 + 1;
    bool chosen = search->given[DECISION_BATCH] || search->images;
    int64_t batch = chosen ? 0 : first->batch / 4 + BATCH_STEP;
    bool all = batch == 0;
    for (int round = 0; round < ROUNDS_MOST && nodes + batch > 0; round++) {
        int64_t best = find_best(search, name), begin = search->group_count;
        bool finest = nodes <= 1 && batch <= BATCH_STEP;
        add_around(search, platform, &search->list[best], nodes, batch);
        if (finest && begin == search->group_count) {
            for (int64_t b = BATCH_STEP; b <= BATCH_MOST && !all; b += BATCH_STEP)
                add_group(search, platform, search->list[best].nodes, b);
            all = true;
        }
        if (begin == search->group_count && finest)
            return 0;
        if (search_groups(search, begin, err))
            return -1;
        nodes = nodes > AROUND ? nodes / AROUND : nodes ? 1 : 0;
        batch = batch > AROUND * BATCH_STEP ? batch / AROUND : batch ? BATCH_STEP : 0;
    }
    return 0;
}

/* The platforms with the best plans. */
static int refine_platforms(struct search *search, struct err *err)
{
    const struct texts *all = values(search, DECISION_PLATFORM);
    AUTOFREE bool *done = base_alloc(all->count, sizeof(*done));
    int failed = 0;
    for (int i = 0; i < PLATFORMS_MOST && !failed; i++) {
        int64_t best = -1;
        int32_t chosen = -1;
        for (int32_t p = 0; p < all->count; p++) {
            int64_t own = done[p] ? -1 : find_best(search, all->item[p]);
            if (own < 0 ||
                (best >= 0 && !search_better(search, &search->list[own], &search->list[best])))
                continue;
            best = own;
            chosen = p;
        }
        if (chosen < 0)
            break;
        done[chosen] = true;
        failed = refine(search, chosen, err);
    }
    return failed;
}

/* ---- finalists ---- */

static int by_time(const void *a, const void *b, void *context)
{
    const struct candidate *list = context;
    double x = list[*(const int64_t *)a].figures.usage.seconds.value;
    double y = list[*(const int64_t *)b].figures.usage.seconds.value;
    return (x > y) - (x < y);
}

/* Whether @c is more than PLAN_NEAR better in something than each of the front so far. */
static bool leads(const struct search *search, const struct candidate *c)
{
    for (int64_t i = 0; i < search->front_count; i++)
        if (covers(search, &search->list[search->front[i]], c, 1 + PLAN_NEAR))
            return false;
    return true;
}

/* Whether @candidate may be recommended: a batch that no run converged with only where the best
 * has one. */
static bool search_recommends(const struct search *search, const struct candidate *c)
{
    return !search_beyond(c) || search_beyond(&search->list[search->best]);
}

/* Of those that lead, the cheapest; of equals the one whose interval ends first.  -1: none. */
static int64_t find_lead(const struct search *search)
{
    double least = INFINITY, end = INFINITY;
    int64_t lead = -1;
    for (int32_t pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < search->count; i++) {
            const struct candidate *c = &search->list[i];
            double price = c->status == FINDING_OK ? search_price(search, c).value : INFINITY;
            if (!search_recommends(search, c) || price > (1 + PLAN_EQUAL) * least ||
                (pass && c->figures.usage.seconds.high >= end) || isinf(price) || !leads(search, c))
                continue;
            if (pass == 0) {
                least = fmin(least, price);
            } else {
                end = c->figures.usage.seconds.high;
                lead = i;
            }
        }
    return lead;
}

static void find_front(struct search *search)
{
    int64_t lead;
    search->front_count = 0;
    while ((lead = find_lead(search)) >= 0)
        search->front[search->front_count++] = lead;
    qsort_r(search->front, (size_t)search->front_count, sizeof(*search->front), by_time,
            search->list);
}

static void find_next(struct search *search)
{
    const struct candidate *best = &search->list[search->best];
    bool other = false;
    search->next = -1;
    for (int64_t i = 0; i < search->count; i++) {
        const struct candidate *c = &search->list[i];
        bool here = c->platform == best->platform;
        if (c->status != FINDING_OK || !search_recommends(search, c) ||
            (here && (other || c->nodes == best->nodes)))
            continue;
        if (search->next < 0 || (!here && !other) ||
            search_better(search, c, &search->list[search->next]))
            search->next = i;
        other = other || !here;
    }
}

bool search_beside(const struct search *search, int64_t i)
{
    const struct candidate *c = &search->list[i], *best = &search->list[search->best];
    return search->question.global && c->status == FINDING_OK && c->platform == best->platform &&
           c->nodes == best->nodes;
}

static void want(const struct search *search, int64_t candidate, enum depth depth, int64_t *at,
                 int64_t *count)
{
    for (int64_t i = 0; i < *count; i++)
        if (at[i] == candidate)
            return;
    if (candidate >= 0 && search->list[candidate].depth < depth)
        at[(*count)++] = candidate;
}

static int predict_wanted(struct search *search, const int64_t *at, int64_t count,
                          enum backend_choice backend, enum depth depth, struct err *err)
{
    int failed =
        candidates_predict(&search->question, search->list, at, count, backend, depth, err);
    for (int64_t i = 0; i < count; i++)
        price(search, &search->list[at[i]]);
    return failed;
}

/* Predict best, next and front as `predict` does, until they stay, and other meshes beside them. */
static int predict_finalists(struct search *search, struct err *err)
{
    char *warning;
    enum backend_choice backend = task_backend(search->question.options, &warning);
    int64_t *at = base_alloc(search->count + 2, sizeof(*at)), count = 1, beside = 0;
    int failed = 0;
    if (warning)
        err_warn(err, "warning: %s", warning);
    free(warning);
    search->front = base_alloc(search->count, sizeof(*search->front));
    while (count + beside && !failed) {
        count = beside = 0;
        search->best = find_best(search, NULL);
        find_next(search);
        find_front(search);
        want(search, search->best, DEPTH_FINAL, at, &count);
        want(search, search->next, DEPTH_FINAL, at, &count);
        for (int64_t i = 0; i < search->front_count; i++)
            want(search, search->front[i], DEPTH_FINAL, at, &count);
        failed = predict_wanted(search, at, count, backend, DEPTH_FINAL, err);
        for (int64_t i = 0; i < search->count; i++)
            if (search_beside(search, i))
                want(search, i, DEPTH_BESIDE, at, &beside);
        failed = failed || predict_wanted(search, at, beside, backend, DEPTH_BESIDE, err);
    }
    free(at);
    return failed;
}

/* ---- all of it ---- */

/* No job at all: why the first candidate is none. */
static int check_any(const struct search *search, struct err *err)
{
    if (find_best(search, NULL) >= 0)
        return 0;
    const struct candidate *first = &search->list[0];
    return err_add_code(err, first->code, "no plan makes a job; the first, %lld node%s of %s: %s",
                        (long long)first->nodes, base_plural(first->nodes), first->platform,
                        first->reason);
}

/* Nodes that a platform lacks are left out, unless there are no others to refuse with a reason. */
static void add_batches(struct search *search, int32_t platform, int64_t nodes)
{
    if (nodes > search->size[platform] && !search->given[DECISION_NODES])
        return;
    bool meshes = search->question.global;
    int64_t fixed = meshes ? 1 : search->images ? fixed_batch(search, platform, nodes) : 0;
    if (fixed)
        add_group(search, platform, nodes, fixed);
    if (!search->images && !meshes)
        for (int32_t b = 0; b < values(search, DECISION_BATCH)->count; b++)
            add_group(search, platform, nodes, number(search, DECISION_BATCH, b));
}

static int find(struct search *search, struct err *err)
{
    for (int32_t p = 0; p < values(search, DECISION_PLATFORM)->count; p++) {
        int64_t size = search->size[p];
        for (int32_t n = 0; n < values(search, DECISION_NODES)->count; n++)
            add_batches(search, p, number(search, DECISION_NODES, n));
        if (!search->given[DECISION_NODES] && !search->question.global)
            add_batches(search, p, size);
    }
    if (!search->group_count)
        return err_add_code(err, 65,
                            "no number of nodes divides the job's %lld %ss a step; which other "
                            "batch converges is not known: --batch gives those to choose from",
                            (long long)search->images, question_input(&search->question));
    bool meshes = search->question.global;
    for (int64_t g = 0; g < search->group_count && meshes; g++)
        if (search_meshes(search, &search->group[g], err))
            return -1;
    if ((!meshes && search_groups(search, 0, err)) || check_any(search, err) ||
        (!meshes && refine_platforms(search, err)))
        return -1;
    return predict_finalists(search, err);
}

/* Where the user gives no values.  Our choice. */
enum { NODES_MOST = 1024 /* of platforms of any size */ };
static const char *const usual[DECISION_COUNT] = {
    [DECISION_BATCH] = "8..512:x2",
    [DECISION_ALGORITHM] = "nccl,torus2d,ring,hierarchical",
    [DECISION_BUCKET] = "4MiB..256MiB:x4",
};

/* A decision decides its key in every candidate, so an assignment to the same has no effect. */
static int check_set(const struct search *search, struct err *err)
{
    const struct texts *set = &search->question.options->set;
    int count = search->question.global ? DECISION_COUNT : DECISION_TENSOR;
    for (int32_t i = 0; i < set->count; i++)
        for (int k = 0; k < count; k++) {
            const char *key = decision_keys[k], *set_to = set->item[i] + strlen(key);
            if (strncmp(set->item[i], key, strlen(key)) == 0 && *set_to == '=' &&
                (k < DECISION_TENSOR || strcmp(set_to, "=null") != 0))
                return err_usage(err,
                                 "--set %s has no effect: the plan decides %s; its options say "
                                 "which values it may take",
                                 set->item[i], key);
        }
    return 0;
}

/* Of a node. */
static int32_t devices_of(const struct job *job)
{
    return (int32_t)cluster_devices_per_node(&job->scenario, job->platform);
}

/* Images of a pass of a phase of @job, as far as they are known. */
static double images_of(const struct job *job, const struct scenario_phase *phase)
{
    int64_t nodes = phase->nodes ? phase->nodes : job->scenario.cluster.nodes;
    double passes = (double)phase_passes(&job->scenario); /* candidates have the same */
    return phase->global_batch ? (double)phase->global_batch / (double)nodes / passes
                               : (double)phase->batch_per_device * devices_of(job);
}

/* Whether meshes are searched: images of a step of each phase stay as the job has them. */
static int take_mesh(struct search *search, const struct job *job, struct err *err)
{
    struct question *q = &search->question;
    const struct scenario *s = &job->scenario;
    const struct scenario_phase *phase = s->training.phase.item;
    const char *asked = NULL;
    for (int i = DECISION_TENSOR; i < DECISION_COUNT; i++)
        asked = search->given[i] ? decision_keys[i] : asked;
    if (!meshes_wanted(job, asked))
        return asked
                   ? err_usage(err,
                               "%s is not searched: only built-in transformers have meshes, not %s",
                               asked, s->model.network)
                   : 0;
    if (search->given[DECISION_BATCH])
        return err_usage(err, "--batch has no effect where meshes are searched: each has the job's "
                              "samples a step; --micro-batch gives those that pass at once");
    q->global = base_alloc(job_phases(job), sizeof(*q->global));
    for (int32_t i = 0; i < job_phases(job); i++) {
        int64_t nodes = phase[i].nodes ? phase[i].nodes : s->cluster.nodes;
        int64_t replicas = nodes * devices_of(job) / scenario_parts(s);
        q->global[i] = phase[i].global_batch ? phase[i].global_batch
                                             : phase_batch(s, &phase[i], replicas) * replicas;
    }
    search->nodes = s->cluster.nodes;
    search->context = s->parallel.context > 1 ? s->parallel.context : 1;
    search->experts = model_has_experts(job->model);
    return 0;
}

/* What candidates keep of the job: how its phases' batches are to each other. */
static int take_job(struct search *search, const struct job *job, struct err *err)
{
    struct question *q = &search->question;
    const struct scenario_phase *phase = job->scenario.training.phase.item;
    q->unknown = job->unknowns.count > 0;
    q->phases = job_phases(job);
    q->pictures = model_reads_pictures(job->model);
    if (take_mesh(search, job, err))
        return -1;
    int64_t nodes = phase[job_phases(job) - 1].nodes;
    if (!q->global && !q->target && !search->given[DECISION_BATCH] &&
        !batch_has_runs(&job->scenario))
        search->images = llround(images_of(job, &phase[job_phases(job) - 1]) *
                                 (double)(nodes ? nodes : job->scenario.cluster.nodes));
    q->share = base_alloc(q->phases, sizeof(*q->share));
    for (int32_t i = 0; i < q->phases; i++)
        q->share[i] = images_of(job, &phase[i]) / images_of(job, &phase[q->phases - 1]);
    return 0;
}

/* The job with @platform, or its own for NULL, and with @value of @decision unless NULL. */
static int read_job(const struct search *search, const char *platform, int decision,
                    const char *value, struct job *job, struct err *err)
{
    const struct question *q = &search->question;
    AUTORELEASE(texts) struct texts set = {0};
    texts_add_all(&set, &q->options->set);
    if (q->target)
        texts_add(&set, "training.target=%s", q->target);
    if (platform)
        texts_add(&set, "%s=%s", decision_keys[DECISION_PLATFORM], platform);
    if (value) {
        candidate_add_algorithm(&set, decision == DECISION_ALGORITHM ? value : NULL);
        texts_add(&set, "%s=%s", decision_keys[decision], value);
    }
    return job_read(job, NULL, q->path, set.item, set.count, &draw_centre, err);
}

/* "abci,dgx-1,...": all of the library. */
static char *library(struct err *err)
{
    struct text list = {0}, names = {0};
    if (platform_list(&list, "", err))
        return NULL;
    for (const char *line = list.data; line && *line; line += strcspn(line, "\n") + 1)
        text_add(&names, "%s%.*s", names.length ? "," : "", (int)strcspn(line, " "), line);
    text_release(&list);
    return names.data ? names.data : base_copy("");
}

static char *platforms_of(const struct search *search, const struct job *job, struct err *err)
{
    const char *given = search->given[DECISION_PLATFORM];
    if (!given)
        return scenario_path_at(&job->scenario, decision_keys[DECISION_PLATFORM],
                                job->scenario.cluster.platform);
    return strcmp(given, "all") ? base_copy(given) : library(err);
}

static int check_number(const struct search *search, int decision, const char *text,
                        struct err *err)
{
    char *end;
    int64_t number = strtoll(text, &end, 10);
    bool sharding = decision == DECISION_SHARDING;
    if (!search->given[decision] || decision == DECISION_ALGORITHM || decision == DECISION_BUCKET)
        return 0;
    if (decision == DECISION_RECOMPUTE && base_find_word(text, recompute_names) < 0)
        return err_usage(
            err, "--recompute: expected none, norms, latent, selective or full, got '%s'", text);
    if (decision != DECISION_RECOMPUTE && (number < !sharding || *end || (sharding && number > 3)))
        return err_usage(err, "--%s: '%s' is no number from %s", decision_options[decision], text,
                         sharding ? "0 to 3" : "1 on");
    return 0;
}

static int read_axes(struct search *search, const char *platforms, struct err *err)
{
    AUTORELEASE(texts) struct texts texts = {0};
    bool meshes = search->question.global;
    AUTOFREE char *nodes = meshes ? base_format("%lld", (long long)search->nodes)
                                  : base_format("1..%d:x2", NODES_MOST);
    AUTOFREE char *context = base_format("%lld", (long long)search->context);
    for (int i = 0; i < DECISION_COUNT; i++) {
        bool open = i >= DECISION_TENSOR || (meshes && i >= DECISION_ALGORITHM);
        const char *value = i == DECISION_PLATFORM                     ? platforms
                            : search->given[i]                         ? search->given[i]
                            : i == DECISION_NODES                      ? nodes
                            : i == DECISION_CONTEXT                    ? context
                            : i == DECISION_EXPERT && !search->experts ? "1"
                            : open                                     ? mesh_open
                                                                       : usual[i];
        texts_add(&texts, "%s=%s", decision_keys[i], value);
    }
    if (axes_read(&search->axes, "plan", &texts, err))
        return -1;
    for (int i = DECISION_NODES; i < DECISION_COUNT; i++)
        for (int32_t k = 0; k < values(search, i)->count; k++)
            if (check_number(search, i, values(search, i)->item[k], err))
                return -1;
    return 0;
}

/* A misspelt algorithm or size would only be one more candidate that makes no job. */
static int check_given(const struct search *search, struct err *err)
{
    for (int i = DECISION_ALGORITHM; i <= DECISION_BUCKET; i++) {
        const struct texts *value = &search->axes.item[i].value;
        for (int32_t k = 0; k < value->count && search->given[i]; k++) {
            AUTORELEASE(job) struct job job = {0};
            if (read_job(search, NULL, i, value->item[k], &job, err))
                return -1;
        }
    }
    return 0;
}

/* What cannot be read but is there is a platform on which no candidate makes a job. */
static int read_sizes(struct search *search, struct err *err)
{
    const struct texts *platform = &search->axes.item[DECISION_PLATFORM].value;
    search->size = base_alloc(platform->count, sizeof(*search->size));
    search->devices = base_alloc(platform->count, sizeof(*search->devices));
    for (int32_t i = 0; i < platform->count; i++) {
        AUTORELEASE(err) struct err why = {0};
        struct job job = {0};
        search->size[i] = search->devices[i] = 1;
        if (!read_job(search, platform->item[i], 0, NULL, &job, &why)) {
            int32_t nodes = (int32_t)job.platform->nodes;
            search->size[i] = nodes ? nodes : NODES_MOST;
            search->devices[i] = devices_of(&job);
            price_check_device(tariffs_find(&search->tariffs, platform->item[i], NULL),
                               job.platform->device.name, err);
            job_release(&job);
        } else if (why.exit_code == 66) {
            return read_job(search, platform->item[i], 0, NULL, &job, err);
        }
    }
    return 0;
}

/* A platform that no price is for could not be compared. */
static int check_priced(const struct search *search, struct err *err)
{
    const struct texts *platform = &search->axes.item[DECISION_PLATFORM].value;
    for (int32_t i = 0; i < platform->count; i++) {
        const struct price_file *own = tariffs_find(&search->tariffs, platform->item[i], NULL);
        const char *currency = own ? own->low.currency : NULL;
        if (!currency)
            return err_usage(err,
                             "--prices has no price of %s; for one platform alone it is given as "
                             "--prices %s=FILE",
                             platform->item[i], platform->item[i]);
        if (strcmp(currency, search->currency) != 0)
            return err_usage(err, "--prices are in %s and %s, which cannot be compared",
                             search->currency, currency);
    }
    return 0;
}

static int read_prices(struct search *search, struct err *err)
{
    const struct tariffs *tariffs = &search->tariffs;
    if (tariffs_read(&search->tariffs, search->prices->item, search->prices->count, err))
        return -1;
    for (int32_t i = 0; i < tariffs->count; i++) {
        const struct price_file *file = &tariffs->item[i].file;
        search->currency = search->currency ? search->currency : file->low.currency;
        search->question.unknown |= file->low.mtbf.value < file->high.mtbf.value;
    }
    search->question.tariffs = tariffs;
    search->aim = isinf(search->within) ? AIM_TIME : search->currency ? AIM_COST : AIM_DEVICE_HOURS;
    return search->currency ? check_priced(search, err) : 0;
}

/* Half of it: read the job, and what of platforms, axes and prices does not come from candidates.
 * @return as search_make(). */
static int search_ask(struct search *search, struct err *err)
{
    const struct job *job = &search->job;
    if (read_job(search, NULL, 0, NULL, &search->job, err))
        return -1;
    search->question.scenario = &job->scenario;
    int failed = take_job(search, job, err) || check_set(search, err);
    AUTOFREE char *platforms = failed ? NULL : platforms_of(search, job, err);
    if (!failed && !search->question.global && isinf(search->within) && isinf(search->budget))
        failed = err_usage(err, "a plan needs a limit: --within \"10 min\" for the cheapest, or "
                                "--budget 500 for the fastest");
    failed = failed || !platforms || read_axes(search, platforms, err) ||
             check_given(search, err) || read_prices(search, err) || read_sizes(search, err) ||
             tariffs_check(&search->tariffs, err);
    return failed ? -1 : 0;
}

static void count_all(struct search *search)
{
    struct tally *t = &search->tally;
    for (int64_t i = 0; i < search->count; i++) {
        const struct candidate *c = &search->list[i];
        if (c->status != FINDING_OK && t->refused++ == 0)
            t->first = i;
        t->beyond += c->status == FINDING_OK && search_beyond(c);
        t->simulated += c->status == FINDING_OK && c->backend == BACKEND_SIM;
    }
}

int search_make(struct search *search, struct err *err)
{
    search->best = search->next = -1;
    int failed = search_ask(search, err) || find(search, err) || search_doubt(search, err);
    count_all(search);
    return failed;
}

void search_release(struct search *search)
{
    for (int64_t i = 0; i < search->count; i++)
        free(search->list[i].reason);
    for (int32_t i = 0; i < search->doubt_count; i++) {
        free(search->doubt[i].input);
        free(search->doubt[i].range);
        free(search->doubt[i].low.name);
        free(search->doubt[i].high.name);
    }
    job_release(&search->job);
    tariffs_release(&search->tariffs);
    free(search->size);
    free(search->devices);
    free(search->doubt);
    free(search->layout);
    free(search->front);
    free(search->group);
    free(search->list);
    free(search->question.share);
    free(search->question.global);
    axes_release(&search->axes);
}
