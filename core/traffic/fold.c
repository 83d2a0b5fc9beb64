#include "core/traffic/fold.h"

/* One flow over one link. */
struct crossing {
    int32_t relation, rank;
};

struct sieve {
    const struct traffic *traffic;
    int32_t *begin; /* (links + 1) link l is crossed by crossing[begin[l]] ... */
    struct crossing *crossing;
    int32_t *counted; /* (links) stamp of the last sum that counted the link */
    int32_t stamp;
};

static void list_crossings(struct sieve *sieve)
{
    const struct traffic *traffic = sieve->traffic;
    int32_t links = traffic->link_count, ranks = traffic->ranks;
    AUTOFREE int32_t *next = base_alloc(links + 1, sizeof(*next));
    for (int32_t p = 0; p < traffic->relation_count; p++) {
        for (int32_t i = 0; i < traffic->relation[p].path[ranks]; i++)
            sieve->begin[traffic->relation[p].link[i] + 1]++;
    }
    for (int32_t l = 0; l < links; l++)
        next[l + 1] = sieve->begin[l + 1] += sieve->begin[l];
    sieve->crossing = base_alloc(sieve->begin[links], sizeof(*sieve->crossing));
    for (int32_t p = 0; p < traffic->relation_count; p++) {
        const struct relation *relation = &traffic->relation[p];
        for (int32_t r = 0; r < ranks; r++) {
            for (int32_t i = relation->path[r]; i < relation->path[r + 1]; i++)
                sieve->crossing[next[relation->link[i]]++] = (struct crossing){p, r};
        }
    }
}

/* The narrowest other link on the flow's way, or -1. */
static int32_t feeder(const struct sieve *sieve, struct crossing flow, int32_t link)
{
    const struct relation *relation = &sieve->traffic->relation[flow.relation];
    const double *bandwidth = sieve->traffic->bandwidth;
    int32_t best = -1;
    for (int32_t i = relation->path[flow.rank]; i < relation->path[flow.rank + 1]; i++) {
        int32_t l = relation->link[i];
        if (l != link && (best < 0 || bandwidth[l] < bandwidth[best]))
            best = l;
    }
    return best;
}

/* Sum the narrowest other links of one relation's flows, or of relations side by side, each link
 * once: the flows cannot put more into @link.  A link that limits another is the narrowest of its
 * route, so it is never left out itself.  Crossings are in order of relation. */
static bool can_be_filled(struct sieve *sieve, int32_t link)
{
    const double *bandwidth = sieve->traffic->bandwidth;
    double inflow = 0;
    int32_t beside = -1;
    for (int32_t i = sieve->begin[link]; i < sieve->begin[link + 1]; i++) {
        struct crossing flow = sieve->crossing[i];
        if (sieve->traffic->relation[flow.relation].beside != beside) {
            beside = sieve->traffic->relation[flow.relation].beside;
            inflow = 0;
            sieve->stamp++;
        }
        int32_t l = feeder(sieve, flow, link);
        if (l < 0 || bandwidth[l] >= bandwidth[link])
            return true;
        if (sieve->counted[l] != sieve->stamp)
            inflow += bandwidth[l];
        sieve->counted[l] = sieve->stamp;
        if (inflow > bandwidth[link])
            return true;
    }
    return false;
}

static void shorten(struct relation *relation, int32_t ranks, const bool *out)
{
    int32_t end = 0, begin = 0;
    double slowest = 0;
    for (int32_t r = 0; r < ranks; r++) {
        for (int32_t i = begin; i < relation->path[r + 1]; i++) {
            if (!out[relation->link[i]])
                relation->link[end++] = relation->link[i];
        }
        begin = relation->path[r + 1];
        relation->path[r + 1] = relation->links = end;
        slowest = fmax(slowest, relation->latency[r]);
    }
    for (int32_t r = 0; r < ranks; r++) {
        if (relation->to[r] >= 0)
            relation->latency[r] = slowest;
    }
}

int32_t traffic_smooth(struct traffic *traffic)
{
    int32_t links = traffic->link_count, count = 0;
    struct sieve sieve = {
        .traffic = traffic,
        .begin = base_alloc(links + 1, sizeof(*sieve.begin)),
        .counted = base_alloc(links, sizeof(*sieve.counted)),
    };
    AUTOFREE bool *out = base_alloc(links, sizeof(*out));
    list_crossings(&sieve);
    for (int32_t l = 0; l < links; l++) {
        out[l] = sieve.begin[l] < sieve.begin[l + 1] && !can_be_filled(&sieve, l);
        count += out[l];
    }
    for (int32_t p = 0; p < traffic->relation_count; p++)
        shorten(&traffic->relation[p], traffic->ranks, out);
    free(sieve.begin);
    free(sieve.crossing);
    free(sieve.counted);
    return count;
}

/* Source: the finaliser of SplitMix64. */
static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) + UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 27) * UINT64_C(0x94d049bb133111eb);
    return hash ^ hash >> 31;
}

static uint64_t bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* Give equal signatures the same number, from 0 in order of first appearance.  Returns how many. */
static int32_t classify(const uint64_t *signature, int32_t count, int32_t *class)
{
    uint64_t mask = 1;
    while (mask < 2 * (uint64_t)count)
        mask *= 2;
    AUTOFREE int32_t *first =
        base_alloc((int64_t)mask--, sizeof(*first)); /* index + 1 of a slot's first */
    int32_t classes = 0;
    for (int32_t i = 0; i < count; i++) {
        uint64_t slot = signature[i] & mask;
        while (first[slot] && signature[first[slot] - 1] != signature[i])
            slot = (slot + 1) & mask;
        if (!first[slot])
            first[slot] = i + 1;
        class[i] = first[slot] == i + 1 ? classes++ : class[first[slot] - 1];
    }
    return classes;
}

static uint64_t colour(const int32_t *class, int32_t rank)
{
    return rank < 0 ? UINT64_MAX : (uint64_t) class[rank];
}

/* The signature of a rank is its colour, its peers' and its routes'; that of a link is its own
 * colour and the unordered flows that cross it. */
static void sign(const struct fold *fold, const struct traffic *traffic, uint64_t *rank,
                 uint64_t *link)
{
    for (int32_t r = 0; r < traffic->ranks; r++)
        rank[r] = mix(0, colour(fold->class_of, r));
    for (int32_t l = 0; l < traffic->link_count; l++)
        link[l] = mix(0, (uint64_t)fold->link_class[l]);
    for (int32_t p = 0; p < traffic->relation_count; p++) {
        const struct relation *relation = &traffic->relation[p];
        for (int32_t r = 0; r < traffic->ranks; r++) {
            uint64_t flow = mix(mix(1, (uint64_t)p), colour(fold->class_of, r));
            rank[r] = mix(rank[r], colour(fold->class_of, relation->to[r]));
            rank[r] = mix(rank[r], colour(fold->class_of, relation->from[r]));
            rank[r] = mix(rank[r], bits(relation->latency[r]));
            for (int32_t i = relation->path[r]; i < relation->path[r + 1]; i++) {
                int32_t l = relation->link[i];
                rank[r] = mix(rank[r], (uint64_t)fold->link_class[l]);
                link[l] += mix(flow, (uint64_t)(i - relation->path[r]));
            }
        }
    }
}

/* Split classes until their members agree on everything around them.  Signatures hold the old
 * colour, so classes only ever split and an unchanged number of them means unchanged classes. */
static void refine(struct fold *fold, const struct traffic *traffic)
{
    int32_t ranks = traffic->ranks, links = traffic->link_count;
    AUTOFREE uint64_t *rank = base_alloc(ranks, sizeof(*rank));
    AUTOFREE uint64_t *link = base_alloc(links, sizeof(*link));
    for (int32_t l = 0; l < links; l++)
        link[l] = bits(traffic->bandwidth[l]);
    for (int32_t r = 0; r < ranks; r++)
        rank[r] = (uint64_t)(r / (ranks / traffic->stages));
    fold->count = classify(rank, ranks, fold->class_of);
    fold->link_count = classify(link, links, fold->link_class);
    bool split = true;
    while (split) {
        sign(fold, traffic, rank, link);
        int32_t count = classify(rank, ranks, fold->class_of);
        int32_t link_count = classify(link, links, fold->link_class);
        split = count > fold->count || link_count > fold->link_count;
        fold->count = count;
        fold->link_count = link_count;
    }
}

static void list_members(const int32_t *class, int32_t count, int32_t classes, int32_t **member,
                         int32_t **size)
{
    *member = base_alloc(classes, sizeof(**member));
    *size = base_alloc(classes, sizeof(**size));
    for (int32_t i = 0; i < count; i++) {
        if ((*size)[class[i]]++ == 0)
            (*member)[class[i]] = i;
    }
}

static bool members_agree(const struct fold *fold, const struct relation *relation, int32_t rank)
{
    int32_t member = fold->member[fold->class_of[rank]];
    int32_t path = relation->path[rank], member_path = relation->path[member]; /* of links */
    int32_t length = relation->path[rank + 1] - path;
    if (relation->path[member + 1] - member_path != length ||
        relation->latency[rank] != relation->latency[member])
        return false;
    for (int32_t i = 0; i < length; i++) {
        if (fold->link_class[relation->link[path + i]] !=
            fold->link_class[relation->link[member_path + i]])
            return false;
    }
    return colour(fold->class_of, relation->to[rank]) ==
               colour(fold->class_of, relation->to[member]) &&
           colour(fold->class_of, relation->from[rank]) ==
               colour(fold->class_of, relation->from[member]);
}

/* Whether each link that the flows of these members (count) cross at position @i is crossed equally
 * often, and no link of its class is left out.  @crossings (links) is all zero between calls. */
static bool shares_evenly(const struct fold *fold, const struct relation *relation,
                          const int32_t *rank, int32_t count, int32_t i, int32_t *crossings)
{
    bool even = true;
    for (int32_t k = 0; k < count; k++)
        crossings[relation->link[relation->path[rank[k]] + i]]++;
    for (int32_t k = 0; k < count; k++) {
        int32_t l = relation->link[relation->path[rank[k]] + i];
        even = even && (int64_t)crossings[l] * fold->link_size[fold->link_class[l]] == count;
    }
    for (int32_t k = 0; k < count; k++)
        crossings[relation->link[relation->path[rank[k]] + i]] = 0;
    return even;
}

static bool class_is_exact(const struct fold *fold, const struct relation *relation,
                           const int32_t *rank, int32_t count, int32_t *crossings)
{
    for (int32_t k = 0; k < count; k++) {
        if (!members_agree(fold, relation, rank[k]))
            return false;
    }
    int32_t length = relation->path[rank[0] + 1] - relation->path[rank[0]];
    for (int32_t i = 0; i < length; i++) {
        if (!shares_evenly(fold, relation, rank, count, i, crossings))
            return false;
    }
    return true;
}

static int32_t *ranks_by_class(const struct fold *fold, int32_t ranks)
{
    AUTOFREE int32_t *next = base_alloc(fold->count, sizeof(*next));
    int32_t *rank = base_alloc(ranks, sizeof(*rank));
    for (int32_t c = 1; c < fold->count; c++)
        next[c] = next[c - 1] + fold->size[c - 1];
    for (int32_t r = 0; r < ranks; r++)
        rank[next[fold->class_of[r]]++] = r;
    return rank;
}

static bool is_exact(const struct fold *fold, const struct traffic *traffic)
{
    AUTOFREE int32_t *rank = ranks_by_class(fold, traffic->ranks);
    AUTOFREE int32_t *crossings = base_alloc(traffic->link_count, sizeof(*crossings));
    bool exact = true;
    for (int32_t p = 0; p < traffic->relation_count; p++) {
        const int32_t *members = rank;
        for (int32_t c = 0; c < fold->count; members += fold->size[c++])
            exact = exact &&
                    class_is_exact(fold, &traffic->relation[p], members, fold->size[c], crossings);
    }
    return exact;
}

static struct fold *fold_new(const struct traffic *traffic)
{
    struct fold *fold = base_alloc(1, sizeof(*fold));
    fold->class_of = base_alloc(traffic->ranks, sizeof(*fold->class_of));
    fold->link_class = base_alloc(traffic->link_count, sizeof(*fold->link_class));
    return fold;
}

static void list_classes(struct fold *fold, const struct traffic *traffic)
{
    list_members(fold->class_of, traffic->ranks, fold->count, &fold->member, &fold->size);
    list_members(fold->link_class, traffic->link_count, fold->link_count, &fold->link_member,
                 &fold->link_size);
}

struct fold *fold_build(const struct traffic *traffic)
{
    struct fold *fold = fold_new(traffic);
    refine(fold, traffic);
    list_classes(fold, traffic);
    bool exact = is_exact(fold, traffic);
    assert(exact);
    (void)exact;
    return fold;
}

struct fold *fold_none(const struct traffic *traffic)
{
    struct fold *fold = fold_new(traffic);
    fold->count = traffic->ranks;
    fold->link_count = traffic->link_count;
    for (int32_t r = 0; r < fold->count; r++)
        fold->class_of[r] = r;
    for (int32_t l = 0; l < fold->link_count; l++)
        fold->link_class[l] = l;
    list_classes(fold, traffic);
    return fold;
}

void fold_free(struct fold *fold)
{
    if (!fold)
        return;
    free(fold->class_of);
    free(fold->member);
    free(fold->size);
    free(fold->link_class);
    free(fold->link_member);
    free(fold->link_size);
    free(fold);
}

/* ---- the traffic of classes ---- */

static int32_t class_at(const struct fold *fold, int32_t rank)
{
    return rank < 0 ? -1 : fold->class_of[rank];
}

static struct relation fold_relation(const struct relation *all, const struct fold *fold)
{
    struct relation relation = relation_new(all->lane, fold->count);
    relation.beside = all->beside;
    int64_t capacity = 0;
    for (int32_t c = 0; c < fold->count; c++) {
        int32_t member = fold->member[c], end = relation.path[c];
        relation.to[c] = class_at(fold, all->to[member]);
        relation.from[c] = class_at(fold, all->from[member]);
        relation.latency[c] = all->latency[member];
        for (int32_t i = all->path[member]; i < all->path[member + 1]; i++) {
            int32_t link = fold->link_class[all->link[i]];
            int32_t times = fold->size[c] / fold->link_size[link];
            relation.link =
                base_grow(relation.link, end + times, &capacity, sizeof(*relation.link));
            for (int32_t k = 0; k < times; k++)
                relation.link[end++] = link;
        }
        relation.path[c + 1] = relation.links = end;
    }
    return relation;
}

static bool same_round(const struct round *a, const struct round *b)
{
    return a->relation == b->relation && a->merged == b->merged && a->share == b->share;
}

static void repeat_rounds(struct traffic *traffic)
{
    int32_t end = 0;
    for (int32_t i = 0; i < traffic->program_count; i++) {
        struct program *program = &traffic->program[i];
        int32_t begin = end;
        for (int32_t k = program->begin; k < program->end; k++) {
            if (end > begin && same_round(&traffic->round[end - 1], &traffic->round[k]))
                traffic->round[end - 1].times++;
            else
                traffic->round[end++] = traffic->round[k];
        }
        program->begin = begin;
        program->end = end;
    }
    traffic->round_count = end;
}

void traffic_fold(struct traffic *traffic, const struct fold *fold)
{
    for (int32_t p = 0; p < traffic->relation_count; p++) {
        struct relation folded = fold_relation(&traffic->relation[p], fold);
        relation_release(&traffic->relation[p]);
        traffic->relation[p] = folded;
    }
    for (int32_t l = 0; l < fold->link_count; l++)
        traffic->bandwidth[l] = traffic->bandwidth[fold->link_member[l]];
    traffic->ranks = fold->count;
    traffic->link_count = fold->link_count;
    repeat_rounds(traffic);
}
