#include "core/traffic/workload.h"

/* ---- the choice of detail ---- */

static int64_t count_messages(const struct run *run, const struct schedule *schedule,
                              const struct traffic *traffic, const struct fold *fold)
{
    return run->iterations * traffic_messages(traffic, schedule, fold->member, fold->count);
}

/* NULL unless every rank is wanted. */
static struct fold *every_rank(const struct run *run, const struct schedule *schedule,
                               const struct traffic *traffic)
{
    bool noisy = run->grain == GRAIN_AUTO && noise_is_any(&run->noise);
    struct fold *fold = noisy || run->grain == GRAIN_FULL ? fold_none(traffic) : NULL;
    if (!noisy || count_messages(run, schedule, traffic, fold) <= WORKLOAD_MESSAGES)
        return fold;
    fold_free(fold);
    return NULL;
}

static struct fold *refold(struct fold *fold, const struct traffic *traffic)
{
    fold_free(fold);
    return fold_build(traffic);
}

/* Merge as many rounds as the grain allows and the messages require.  Returns how many. */
static int32_t merge(const struct run *run, enum grain grain, struct traffic *traffic,
                     int64_t messages)
{
    int32_t limit = 1;
    if (run->grain == GRAIN_COARSE)
        limit = INT32_MAX;
    else if (run->grain == GRAIN_AUTO && grain == GRAIN_SMOOTHED)
        limit = (int32_t)(messages / WORKLOAD_MESSAGES + 1);
    if (limit > 1)
        traffic_merge(traffic, limit);
    return limit;
}

/* Find the classes to simulate and the number of rounds to merge, and name the @grain. */
static struct fold *choose(const struct run *run, const struct schedule *schedule,
                           struct traffic *traffic, char **name)
{
    enum grain grain = GRAIN_FULL;
    int32_t merged = 1;
    struct fold *fold = every_rank(run, schedule, traffic);
    if (!fold) {
        fold = fold_build(traffic);
        grain = fold->count < traffic->ranks ? GRAIN_FOLDED : GRAIN_FULL;
        int64_t limit = grain == GRAIN_FOLDED ? WORKLOAD_MESSAGES : WORKLOAD_MESSAGES_UNLIKE;
        bool too_many = count_messages(run, schedule, traffic, fold) > limit;
        if (run->grain == GRAIN_SMOOTHED || (run->grain == GRAIN_AUTO && too_many)) {
            grain = GRAIN_SMOOTHED;
            traffic_smooth(traffic);
            fold = refold(fold, traffic);
        }
        grain = run->grain == GRAIN_COARSE ? GRAIN_COARSE : grain;
        merged = merge(run, grain, traffic, count_messages(run, schedule, traffic, fold));
    }
    *name = grain == GRAIN_SMOOTHED && merged > 1 ? base_format("%s/%d", grain_names[grain], merged)
                                                  : base_copy(grain_names[grain]);
    return fold;
}

/* ---- building ---- */

static struct workload_step describe(const struct workload *workload, const struct run *run,
                                     const struct schedule *schedule, int32_t id)
{
    const struct step *step = &schedule->step[id];
    bool sends = step->kind == STEP_COLLECTIVE, repeats = step->kind == STEP_REPEAT;
    bool together = sends && step->collective.algorithm == ALGORITHM_NCCL;
    int32_t like = together ? schedule_first_like(schedule, id) : id;
    return (struct workload_step){
        .lane = (int32_t)step->lane,
        .stage = step->stage,
        .to = step->lane >= LANE_SEND ? step->collective.to : -1,
        .since = repeats ? step->repeat.since : -1,
        .again = repeats ? step->repeat.times : 0,
        .program = together ? -1 : workload->traffic.step_program[id],
        .seconds = like < id  ? workload_step(workload, like)->seconds
                   : together ? run_nccl(run, step).seconds
                   : sends    ? 0
                              : run_local_seconds(run, step),
        .bytes = sends ? (double)backend_collective(run->fabric, schedule, id).elements : 0,
        .deps = step->dep_end - step->dep_begin,
    };
}

static void add_steps(struct workload *workload, const struct run *run,
                      const struct schedule *schedule)
{
    int32_t last[1 << 14] = {0};
    workload->step = base_alloc(schedule->step_count, sizeof(*workload->step));
    workload->dep = base_alloc(schedule->dep_count, sizeof(*workload->dep));
    for (int32_t i = 0; i < schedule->step_count; i++) {
        struct workload_step kind = describe(workload, run, schedule, i);
        struct dep *dep = workload->dep + workload->deps; /* stays if the kind is new */
        size_t size = (size_t)kind.deps * sizeof(*dep);
        for (int32_t k = 0; k < kind.deps; k++) {
            dep[k] = schedule->dep[schedule->step[i].dep_begin + k];
            dep[k].step = i - dep[k].step;
        }
        uint64_t hash = base_hash(base_hash(BASE_HASH_SEED, &kind, sizeof(kind)), dep, size);
        int32_t *place = &last[hash % ARRAY_SIZE(last)]; /* hardly a kind is there twice */
        kind.dep = workload->kinds ? workload->kind[*place].dep : 0;
        if (!workload->kinds || memcmp(&workload->kind[*place], &kind, sizeof(kind)) != 0 ||
            memcmp(workload->dep + kind.dep, dep, size) != 0) {
            workload->kind = base_room(workload->kind, workload->kinds, sizeof(*workload->kind));
            *place = workload->kinds;
            kind.dep = workload->deps;
            workload->deps += kind.deps;
            workload->kind[workload->kinds++] = kind;
        }
        workload->step[workload->steps++] = *place;
    }
}

int workload_build(struct workload *workload, const struct run *run,
                   const struct schedule *schedule, struct err *err)
{
    assert(schedule->sealed && run->iterations >= 1);
    if (backend_check(run, schedule, err))
        return -1;
    struct traffic *traffic = traffic_build(run->fabric, schedule);
    int32_t ranks = traffic->ranks;
    struct fold *fold = choose(run, schedule, traffic, &workload->grain);
    workload->schedule_hash = schedule_hash(schedule);
    workload->ranks = ranks;
    workload->iterations = run->iterations;
    workload->traced = run->traced_ranks;
    workload->messages = count_messages(run, schedule, traffic, fold);
    workload->launch = run->device->collective_launch.value;
    workload->eager = run->fabric->eager;
    workload->beside = device_slowdown(run->device);
    workload->noise = run->noise;
    workload->slowest =
        fold->count == ranks ? 0 : noise_slowest(&run->noise, ranks, run->iterations - 1);
    workload->classes = fold->count;
    workload->stages = schedule_stages(schedule);
    workload->member = base_alloc(fold->count, sizeof(*workload->member));
    memcpy(workload->member, fold->member, (size_t)fold->count * sizeof(*fold->member));
    traffic_fold(traffic, fold);
    fold_free(fold);
    workload->traffic = *traffic;
    free(traffic);
    add_steps(workload, run, schedule);
    return 0;
}

int32_t workload_stage(const struct workload *workload, int32_t class)
{
    return workload->member[class] / (workload->ranks / workload->stages);
}

enum lane workload_lane(const struct workload_step *step, int32_t stage)
{
    if (step->stage == stage)
        return (enum lane)step->lane;
    return step->to == stage ? (enum lane)step->lane + 1 : LANE_COUNT;
}

void workload_release(struct workload *workload)
{
    traffic_release(&workload->traffic);
    void *const owned[] = {workload->grain, workload->member, workload->kind, workload->step,
                           workload->dep};
    for (size_t i = 0; i < ARRAY_SIZE(owned); i++)
        free(owned[i]);
    *workload = (struct workload){0};
}

/* ---- the document ---- */

COLUMNS(relation_columns, NULL, struct relation)
{
    COLUMN_ITEMS("to", to, ranks, .help = "class that each class sends to; -1: it does not");
    COLUMN_ITEMS("from", from, ranks, .help = "class that each class receives from; -1: none");
    COLUMN_ITEMS("latency_s", latency, ranks, .help = "of the message of each class");
    COLUMN_ITEMS("path", path, ends, .help = "where in `link` the route of each class begins");
    COLUMN_ITEMS("link", link, links, .help = "links of all routes, one behind the other");
}

COLUMNS(round_columns, NULL, struct round)
{
    COLUMN("relation", relation, .help = "who sends to whom");
    COLUMN("merged", merged, .help = "rounds that are one here");
    COLUMN("times", times, .help = "how often it comes, one after the other");
    COLUMN("share", share, .help = "size of a message, of the vector");
}

COLUMNS(program_columns, NULL, struct program)
{
    COLUMN("begin", begin, .help = "its first round");
    COLUMN("end", end, .help = "the round behind its last one");
    COLUMN("channels", channels, .help = "programs from here on that run side by side");
}

COLUMNS(kind_columns, NULL, struct workload_step)
{
    COLUMN("lane", lane,
           .help =
               "0: compute, 1: row, 2: column, 3: input, 4: tensor, 5: to the next stage, 7: to "
               "the one before; received on the lane behind");
    COLUMN("stage", stage, .help = "whose ranks run it");
    COLUMN("to", to, .help = "stage that receives what it sends; -1: none");
    COLUMN("since", since,
           .help = "step of its lane behind which what it repeats begins; -1: nothing");
    COLUMN("again", again, .help = "how often it repeats that");
    COLUMN("program", program, .help = "of a collective; -1: none");
    COLUMN("seconds", seconds, .help = "of a step that no message decides");
    COLUMN("bytes", bytes, .help = "vector of a collective");
    COLUMN("deps", deps, .help = "what it waits for: so many of `deps`");
    COLUMN("dep", dep, .help = "the first of them");
}

COLUMNS(dep_columns, NULL, struct dep)
{
    COLUMN("before", step, .help = "by how many steps it is before the one that waits");
    COLUMN("iterations_ago", distance, .help = "0: of the same iteration");
}

SHARED_COLUMNS(workload_columns, "workload/3", struct workload)
{
    COLUMN("grain", grain, .help = "how finely it simulates");
    COLUMN("schedule_hash", schedule_hash, .help = "of the schedule that it came from");
    COLUMN("ranks", ranks, .help = "of the job");
    COLUMN("iterations", iterations, .help = "to simulate");
    COLUMN("traced", traced, .help = "classes whose spans are kept, at most; 0: all");
    COLUMN("messages", messages, .help = "of all iterations");
    COLUMN("launch_s", launch, .help = "of each collective, by the host");
    COLUMN("eager_bytes", eager, .help = "up to which a message is handed over at once");
    COLUMN("compute_slowdown", beside.compute, .help = "while a collective is in flight");
    COLUMN("communication_slowdown", beside.communication, .help = "while the rank computes");
    COLUMN("noise.compute_cv", noise.compute_cv, .help = "jitter of a rank's compute time");
    COLUMN("noise.straggler_fraction", noise.straggler_fraction, .help = "slow ranks, of all");
    COLUMN("noise.straggler_slowdown", noise.straggler_slowdown, .help = "extra time of those");
    COLUMN("noise.seed", noise.seed, .help = "of both");
    COLUMN("slowest", slowest, .help = "factor of all compute; 0: noise decides for each class");
    COLUMN_ITEMS("members", member, classes, .help = "rank that stands for each class");
    COLUMN("stages", stages, .help = "of a pipeline, of equally many ranks one after the other");
    COLUMN_ITEMS("bandwidth_bytes_per_s", traffic.bandwidth, traffic.link_count,
                 .help = "of each link");
    COLUMN_ITEMS("relations", traffic.relation, traffic.relation_count, .table = &relation_columns);
    COLUMN_ITEMS("rounds", traffic.round, traffic.round_count, .table = &round_columns);
    COLUMN_ITEMS("programs", traffic.program, traffic.program_count, .table = &program_columns);
    COLUMN_ITEMS("kinds", kind, kinds, .table = &kind_columns);
    COLUMN_ITEMS("deps", dep, deps, .table = &dep_columns);
    COLUMN_ITEMS("steps", step, steps, .help = "of each step in `kinds`");
}

void workload_write(struct text *out, const struct workload *workload)
{
    AUTORELEASE(json) struct json *json = answer_json(&workload_columns, workload);
    json_print_line(out, json, 17);
}

int workload_describe(struct text *out, const struct run *run, const struct schedule *schedule,
                      struct err *err)
{
    struct workload workload = {0};
    if (workload_build(&workload, run, schedule, err))
        return -1;
    workload_write(out, &workload);
    workload_release(&workload);
    return 0;
}

/* Whether all of @index (count) are from @least to @most. */
static bool within(const int32_t *index, int32_t count, int32_t least, int32_t most)
{
    for (int32_t i = 0; i < count; i++)
        if (index[i] < least || index[i] > most)
            return false;
    return true;
}

static bool ascend(const int32_t *end, int32_t count, int32_t most)
{
    for (int32_t i = 0; i < count; i++)
        if (end[i] < (i ? end[i - 1] : 0) || end[i] > most)
            return false;
    return true;
}

static bool relation_check(const struct relation *relation, int32_t classes, int32_t links)
{
    return relation->ranks == classes && relation->ends == classes + 1 && relation->to &&
           relation->from && relation->latency && within(relation->to, classes, -1, classes - 1) &&
           within(relation->from, classes, -1, classes - 1) && relation->path[0] == 0 &&
           ascend(relation->path, relation->ends, relation->links) &&
           within(relation->link, relation->links, 0, links - 1);
}

static bool traffic_check(const struct traffic *traffic, int32_t classes)
{
    for (int32_t i = 0; i < traffic->link_count; i++)
        if (!(traffic->bandwidth[i] > 0))
            return false;
    for (int32_t i = 0; i < traffic->relation_count; i++)
        if (!relation_check(&traffic->relation[i], classes, traffic->link_count))
            return false;
    for (int32_t i = 0; i < traffic->round_count; i++)
        if (!within(&traffic->round[i].relation, 1, 0, traffic->relation_count - 1))
            return false;
    for (int32_t i = 0; i < traffic->program_count; i++) {
        const struct program *program = &traffic->program[i];
        if (!ascend((int32_t[]){program->begin, program->end}, 2, traffic->round_count) ||
            !within(&program->channels, 1, 0, traffic->program_count - i))
            return false;
    }
    return true;
}

static bool kinds_check(const struct workload *s)
{
    for (int32_t i = 0; i < s->kinds; i++) {
        const struct workload_step *kind = &s->kind[i];
        if (!within(&kind->lane, 1, 0, LANE_COUNT - 1) ||
            !within(&kind->stage, 1, 0, s->stages - 1) ||
            !within(&kind->to, 1, -1, s->stages - 1) ||
            !within(&kind->since, 1, -1, s->steps - 1) || kind->again < 0 ||
            !within(&kind->program, 1, -1, s->traffic.program_count - 1) || kind->deps < 0 ||
            !within(&kind->dep, 1, 0, s->deps - kind->deps))
            return false;
    }
    return true;
}

static bool deps_check(const struct workload *s)
{
    for (int32_t id = 0; id < s->steps; id++) {
        const struct workload_step *own = workload_step(s, id);
        for (int32_t i = own->dep; i < own->dep + own->deps; i++)
            if (s->dep[i].step > id || s->dep[i].step <= id - s->steps || s->dep[i].distance < 0)
                return false;
    }
    return true;
}

static bool workload_check(const struct workload *s)
{
    return s->classes > 0 && s->ranks >= s->classes && s->iterations > 0 && s->traced >= 0 &&
           s->steps > 0 && s->grain && strlen(s->grain) < 16 &&
           traffic_check(&s->traffic, s->classes) &&
           within(s->member, s->classes, 0, s->ranks - 1) && s->stages > 0 &&
           s->ranks % s->stages == 0 && kinds_check(s) && s->step &&
           within(s->step, s->steps, 0, s->kinds - 1) && deps_check(s);
}

int workload_read(struct workload *workload, const char *name, const char *text, int64_t length,
                  struct err *err)
{
    AUTORELEASE(json) struct json *json = json_read(name, text, length, err);
    if (!json)
        return -1;
    bool good = answer_read(&workload_columns, json, workload);
    workload->traffic.ranks = workload->classes;
    if (!good || !workload_check(workload))
        return err_add_code(err, 65, "%s: not a workload as foretrain writes it", name);
    return 0;
}
