#include "sim/alone.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NOBODY = -1, SEVERAL = -2 };

/* What sends one message after the other in each relation (relations): a lane, or, where some of
 * its collectives have channels, the relation alone. */
static int32_t *find_queues(const struct workload *workload)
{
    const struct traffic *traffic = &workload->traffic;
    bool channels[LANE_COUNT] = {false};
    int32_t *queue = base_alloc(traffic->relation_count, sizeof(*queue));
    for (int32_t i = 0; i < workload->steps; i++) {
        int32_t first = workload->program[i];
        for (int32_t p = first; p >= 0 && p < first + traffic->program[first].channels; p++) {
            channels[workload->lane[i]] |= p > first;
            for (int32_t k = traffic->program[p].begin; k < traffic->program[p].end; k++)
                queue[traffic->round[k].relation] = workload->lane[i];
        }
    }
    for (int32_t p = 0; p < traffic->relation_count; p++)
        queue[p] = channels[queue[p]] ? LANE_COUNT + p : queue[p];
    return queue;
}

/* Who uses each link (links): queue * classes + class, or SEVERAL. */
static int32_t *find_users(const struct traffic *traffic, const int32_t *queue)
{
    int32_t *user = base_alloc(traffic->link_count, sizeof(*user));
    for (int32_t l = 0; l < traffic->link_count; l++)
        user[l] = NOBODY;
    for (int32_t p = 0; p < traffic->relation_count; p++) {
        const struct relation *relation = &traffic->relation[p];
        for (int32_t c = 0; c < relation->ranks; c++) {
            int32_t own = queue[p] * relation->ranks + c;
            for (int32_t i = relation->path[c]; i < relation->path[c + 1]; i++) {
                int32_t *known = &user[relation->link[i]];
                *known = *known == NOBODY || *known == own ? own : SEVERAL;
            }
        }
    }
    return user;
}

/* A link that occurs k times has a k-th of its bandwidth. */
static double rate_of(const struct traffic *traffic, const struct relation *relation, int32_t class,
                      const int32_t *user)
{
    double rate = INFINITY;
    for (int32_t i = relation->path[class]; i < relation->path[class + 1]; i++) {
        int32_t link = relation->link[i], times = 0;
        if (user[link] == SEVERAL)
            return 0;
        for (int32_t k = relation->path[class]; k < relation->path[class + 1]; k++)
            times += relation->link[k] == link;
        rate = fmin(rate, traffic->bandwidth[link] / times);
    }
    return rate;
}

double *alone_rates(const struct workload *workload)
{
    const struct traffic *traffic = &workload->traffic;
    AUTOFREE int32_t *queue = find_queues(workload), *user = find_users(traffic, queue);
    double *rate = base_alloc((int64_t)traffic->relation_count * traffic->ranks, sizeof(*rate));
    for (int32_t p = 0; p < traffic->relation_count; p++)
        for (int32_t c = 0; c < traffic->ranks; c++)
            if (traffic->relation[p].to[c] >= 0)
                rate[p * traffic->ranks + c] = rate_of(traffic, &traffic->relation[p], c, user);
    return rate;
}

struct traffic alone_others(const struct workload *workload, const double *rate)
{
    struct traffic others = workload->traffic;
    int32_t ranks = others.ranks;
    size_t size = (size_t)ranks * sizeof(int32_t);
    others.relation = base_alloc(others.relation_count, sizeof(*others.relation));
    for (int32_t p = 0; p < others.relation_count; p++) {
        const struct relation *all = &workload->traffic.relation[p];
        struct relation *relation = &others.relation[p];
        *relation = *all;
        relation->to = base_alloc(ranks, sizeof(*relation->to));
        relation->from = base_alloc(ranks, sizeof(*relation->from));
        memcpy(relation->to, all->to, size);
        memcpy(relation->from, all->from, size);
        for (int32_t c = 0; c < ranks; c++)
            if (rate[p * ranks + c] > 0)
                relation->to[c] = relation->from[all->to[c]] = -1;
    }
    return others;
}

void alone_release(struct traffic *others)
{
    for (int32_t p = 0; p < others->relation_count; p++) {
        free(others->relation[p].to);
        free(others->relation[p].from);
    }
    free(others->relation);
}
