#include "core/traffic/traffic.h"

struct relation relation_new(enum lane lane, int32_t ranks)
{
    return (struct relation){
        .lane = lane,
        .ranks = ranks,
        .ends = ranks + 1,
        .to = base_alloc(ranks, sizeof(int32_t)),
        .from = base_alloc(ranks, sizeof(int32_t)),
        .latency = base_alloc(ranks, sizeof(double)),
        .path = base_alloc(ranks + 1, sizeof(int32_t)),
    };
}

static struct relation find_peers(const struct schedule *schedule, int32_t step, int32_t channel,
                                  int32_t pattern)
{
    int32_t ranks = grid_ranks(schedule->grid);
    struct relation relation = relation_new(schedule->step[step].lane, ranks);
    free(relation.to);
    relation.to = schedule_send_peers(schedule, step, channel, pattern);
    for (int32_t r = 0; r < ranks; r++)
        relation.from[r] = -1;
    for (int32_t r = 0; r < ranks; r++) {
        int32_t to = relation.to[r];
        assert(to < 0 || relation.from[to] < 0);
        if (to >= 0)
            relation.from[to] = r;
    }
    return relation;
}

static void find_routes(struct relation *relation, const struct fabric *fabric)
{
    int64_t capacity = 0;
    for (int32_t r = 0; r < fabric->ranks; r++) {
        int32_t begin = relation->path[r];
        relation->path[r + 1] = begin;
        if (relation->to[r] < 0)
            continue;
        struct route route;
        fabric_route(fabric, r, relation->to[r], &route);
        relation->link =
            base_grow(relation->link, begin + route.count, &capacity, sizeof(*relation->link));
        memcpy(relation->link + begin, route.link, (size_t)route.count * sizeof(*route.link));
        relation->path[r + 1] = relation->links = begin + route.count;
        relation->latency[r] = route.latency;
    }
}

RELEASE(relation, it->to, it->from, it->latency, it->path, it->link)

/* The relation of @pattern, shared with every other pattern of the lane with the same peers. */
static int32_t add_relation(struct traffic *traffic, const struct fabric *fabric,
                            const struct schedule *schedule, int32_t step, int32_t channel,
                            int32_t pattern)
{
    struct relation relation = find_peers(schedule, step, channel, pattern);
    size_t size = (size_t)traffic->ranks * sizeof(*relation.to);
    for (int32_t i = 0; i < traffic->relation_count; i++) {
        const struct relation *other = &traffic->relation[i];
        if (other->lane == relation.lane && memcmp(other->to, relation.to, size) == 0) {
            relation_release(&relation);
            return i;
        }
    }
    find_routes(&relation, fabric);
    relation.beside = traffic->relation_count;
    traffic->relation =
        base_room(traffic->relation, traffic->relation_count, sizeof(*traffic->relation));
    traffic->relation[traffic->relation_count] = relation;
    return traffic->relation_count++;
}

static struct program add_rounds(struct traffic *traffic, const struct fabric *fabric,
                                 const struct schedule *schedule, int32_t step, int32_t channel)
{
    struct collective whole = schedule_collective(schedule, step);
    struct collective c = collective_channel(&whole, channel);
    int32_t rounds = collective_rounds(&c), patterns = collective_pattern_count(&c);
    AUTOFREE int32_t *relation = base_alloc(patterns, sizeof(*relation));
    for (int32_t i = 0; i < patterns; i++)
        relation[i] = add_relation(traffic, fabric, schedule, step, channel, i);
    int32_t begin = traffic->round_count;
    for (int32_t i = 0; i < rounds; i++) {
        traffic->round = base_room(traffic->round, traffic->round_count, sizeof(*traffic->round));
        traffic->round[traffic->round_count++] = (struct round){
            .relation = relation[collective_pattern(&c, i)],
            .merged = 1,
            .times = 1,
            .share = collective_share(&c, i),
        };
    }
    return (struct program){.step = step, .begin = begin, .end = begin + rounds, .channels = 1};
}

static void append_program(struct traffic *traffic, struct program program)
{
    traffic->program =
        base_room(traffic->program, traffic->program_count, sizeof(*traffic->program));
    traffic->program[traffic->program_count++] = program;
}

/* The first program of the step; those of its other channels follow it. */
static int32_t add_programs(struct traffic *traffic, const struct fabric *fabric,
                            const struct schedule *schedule, int32_t step)
{
    struct collective c = schedule_collective(schedule, step);
    int32_t first = 0, channels = collective_channels(&c);
    while (
        first < traffic->program_count &&
        !schedule_walk_alike(&schedule->step[traffic->program[first].step], &schedule->step[step]))
        first++;
    for (int32_t i = 0; first + i == traffic->program_count && i < channels; i++)
        append_program(traffic, add_rounds(traffic, fabric, schedule, step, i));
    struct program *program = &traffic->program[first];
    program->channels = channels;
    for (int32_t i = 1; i < channels; i++)
        traffic->relation[traffic->round[program[i].begin].relation].beside =
            traffic->relation[traffic->round[program->begin].relation].beside;
    return first;
}

struct traffic *traffic_build(const struct fabric *fabric, const struct schedule *schedule)
{
    assert(fabric->ranks == grid_ranks(schedule->grid));
    struct traffic *traffic = base_alloc(1, sizeof(*traffic));
    traffic->ranks = fabric->ranks;
    traffic->stages = schedule_stages(schedule);
    traffic->link_count = fabric->link_count;
    traffic->bandwidth = base_alloc(fabric->link_count, sizeof(*traffic->bandwidth));
    for (int32_t l = 0; l < fabric->link_count; l++)
        traffic->bandwidth[l] = fabric->link[l].bandwidth;
    traffic->step_program = base_alloc(schedule->step_count, sizeof(*traffic->step_program));
    for (int32_t id = 0; id < schedule->step_count; id++) {
        bool sends = schedule->step[id].kind == STEP_COLLECTIVE;
        traffic->step_program[id] = sends ? add_programs(traffic, fabric, schedule, id) : -1;
    }
    return traffic;
}

void traffic_merge(struct traffic *traffic, int32_t limit)
{
    for (int32_t i = 0; i < traffic->program_count; i++) {
        struct program *program = &traffic->program[i];
        int32_t end = program->begin;
        for (int32_t k = program->begin; k < program->end; k++) {
            struct round round = traffic->round[k], *last = &traffic->round[end - 1];
            if (end > program->begin && last->relation == round.relation && last->merged < limit) {
                last->share += round.share;
                last->merged++;
            } else {
                traffic->round[end++] = round;
            }
        }
        program->end = end;
    }
}

int64_t traffic_messages(const struct traffic *traffic, const struct schedule *schedule,
                         const int32_t *rank, int32_t count)
{
    AUTOFREE int64_t *senders = base_alloc(traffic->relation_count, sizeof(*senders));
    for (int32_t p = 0; p < traffic->relation_count; p++) {
        for (int32_t i = 0; i < count; i++)
            senders[p] += traffic->relation[p].to[rank[i]] >= 0;
    }
    int64_t messages = 0;
    for (int32_t id = 0; id < schedule->step_count; id++) {
        if (traffic->step_program[id] < 0)
            continue;
        const struct program *program = &traffic->program[traffic->step_program[id]];
        for (int32_t i = 0; i < program->channels; i++)
            for (int32_t k = program[i].begin; k < program[i].end; k++)
                messages += senders[traffic->round[k].relation];
    }
    return messages;
}

void traffic_release(struct traffic *traffic)
{
    for (int32_t i = 0; i < traffic->relation_count && traffic->relation; i++)
        relation_release(&traffic->relation[i]);
    free(traffic->bandwidth);
    free(traffic->relation);
    free(traffic->round);
    free(traffic->program);
    free(traffic->step_program);
    *traffic = (struct traffic){0};
}

void traffic_free(struct traffic *traffic)
{
    if (traffic)
        traffic_release(traffic);
    free(traffic);
}
