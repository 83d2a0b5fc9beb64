#include "core/traffic/smooth.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/base.h"

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
