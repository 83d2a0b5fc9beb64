#include "core/schedule/schedule.h"

#include <search.h>

const char *const step_kind_names[] = {"compute", "collective", "input", "repeat"};
static_assert(ARRAY_SIZE(step_kind_names) == STEP_KIND_COUNT, "a name each");
static const char *const step_role_name[] = {"none",  "first-forward", "last-backward",
                                             "norms", "moments",       "optimizer"};
static_assert(ARRAY_SIZE(step_role_name) == ROLE_COUNT, "a name each");

const char *const content_names[] = {"gradients", "parameters", "norms",
                                     "steps",     "blocks",     "activations"};
static_assert(ARRAY_SIZE(content_names) == CONTENT_COUNT, "a name each");

const char *lane_name(enum lane lane)
{
    static const char *const name[] = {"compute", "row",     "column",    "input",       "tensor",
                                       "send",    "receive", "send-back", "receive-back"};
    static_assert(ARRAY_SIZE(name) == LANE_COUNT, "a name each");
    assert(lane < LANE_COUNT);
    return name[lane];
}

int32_t schedule_lanes(const struct schedule *schedule)
{
    return schedule_stages(schedule) > 1 ? LANE_COUNT
           : grid_ranks(schedule->grid) > grid_axis_size(schedule->grid, AXIS_WORLD) ||
                   schedule->grid.context > 1 || schedule->grid.expert > 1
               ? LANE_SEND
               : LANE_TENSOR;
}

int32_t schedule_stages(const struct schedule *schedule)
{
    return grid_axis_size(schedule->grid, AXIS_PIPELINE);
}

int32_t schedule_stage(const struct schedule *schedule, int32_t rank)
{
    return grid_axis_index(schedule->grid, AXIS_PIPELINE, rank);
}

static bool sends(const struct step *step)
{
    return step->kind == STEP_COLLECTIVE && step->collective.op == COLLECTIVE_SEND;
}

enum lane step_lane(const struct step *step, int32_t stage)
{
    if (step->stage == stage)
        return step->lane;
    return sends(step) && step->collective.to == stage ? step->lane + 1 : LANE_COUNT;
}

const char *const compute_op_names[] = {"forward",         "loss",      "backward-data",
                                        "backward-filter", "optimizer", NULL};
static_assert(ARRAY_SIZE(compute_op_names) == COMPUTE_OP_COUNT + 1, "a word each");

struct schedule *schedule_new(struct grid grid)
{
    struct schedule *schedule = base_alloc(1, sizeof(*schedule));
    schedule->grid = grid;
    return schedule;
}

void schedule_free(struct schedule *schedule)
{
    if (!schedule)
        return;
    free(schedule->step);
    free(schedule->turn);
    free(schedule->dep);
    tdestroy(schedule->texts, free);
    free(schedule);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(a, b);
}

const char *schedule_text(struct schedule *schedule, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    char *text = base_format_list(format, list);
    va_end(list);
    char **found = tsearch(text, &schedule->texts, compare_texts);
    const char *kept = found ? *found : NULL;
    if (!kept)
        base_out_of_memory(strlen(text));
    if (kept != text)
        free(text);
    return kept;
}

int32_t schedule_add(struct schedule *schedule, struct step step, const struct dep *dep,
                     int32_t count)
{
    assert(!schedule->sealed && count >= 0);
    step.stage = schedule->stage;
    step.dep_begin = schedule->dep_count;
    step.dep_end = schedule->dep_count + count;
    step.name = step.name ? step.name : "";
    if (step.kind == STEP_COMPUTE && !step.compute.shape)
        step.compute.shape = "";
    for (int32_t i = 0; i < count; i++)
        BASE_NEXT(schedule->dep, schedule->dep_count) = dep[i];
    schedule->step = base_room(schedule->step, schedule->step_count, sizeof(*schedule->step));
    schedule->step[schedule->step_count] = step;
    return schedule->step_count++;
}

/* Append a collective that waits for @after and @also (-1: none) if its axis has several ranks. */
static int32_t add_collective_after(struct schedule *schedule, struct step step, struct dep after,
                                    int32_t also)
{
    enum axis axis = step.collective.axis;
    enum collective_content content = step.collective.content;
    bool norms = content == CONTENT_NORMS || content == CONTENT_STEPS;
    if (grid_axis_size(schedule->grid, axis) == 1)
        return after.step;
    AUTOFREE char *whose = norms ? base_copy(content_names[content])
                                 : base_format("bucket %" PRId32, step.collective.bucket);
    step.name = schedule_text(schedule, "%s %s %s", whose, axis_names[axis],
                              collective_op_names[step.collective.op]);
    step.kind = STEP_COLLECTIVE;
    step.lane = axis == AXIS_COLUMN ? LANE_COLUMN : LANE_ROW;
    struct dep dep[] = {after, {also, 0}};
    return schedule_add(schedule, step, dep, also >= 0 ? 2 : after.step >= 0);
}

static int32_t add_collective(struct schedule *schedule, struct step step, struct dep after)
{
    return add_collective_after(schedule, step, after, -1);
}

enum axis schedule_shard_axis(enum algorithm algorithm)
{
    return algorithm == ALGORITHM_TORUS2D ? AXIS_ROW : AXIS_WORLD;
}

/* Of what is added next; @axis where it is of no experts. */
static enum axis own_axis(const struct schedule *schedule, enum axis axis)
{
    return schedule->experts ? AXIS_COPIES : axis;
}

/* What scatters and gathers where @algorithm sums. */
static enum algorithm scattering(enum algorithm algorithm)
{
    return algorithm == ALGORITHM_NCCL ? ALGORITHM_NCCL : ALGORITHM_RING;
}

int32_t schedule_add_exchange(struct schedule *schedule, const char *name, enum collective_op op,
                              enum axis axis, enum algorithm algorithm, int64_t bytes,
                              int32_t after)
{
    struct step step = {.kind = STEP_COLLECTIVE,
                        .lane = LANE_TENSOR,
                        .collective = {.op = op,
                                       .content = CONTENT_ACTIVATIONS,
                                       .axis = axis,
                                       .algorithm = scattering(algorithm),
                                       .bytes = bytes}};
    struct dep dep = {after, 0};
    step.name = schedule_text(schedule, "%s %s", name, collective_op_names[op]);
    return schedule_add(schedule, step, &dep, 1);
}

int32_t schedule_add_send(struct schedule *schedule, const char *name, bool back, int32_t to,
                          int64_t bytes, int32_t after, int32_t also)
{
    struct step step = {.kind = STEP_COLLECTIVE,
                        .lane = back ? LANE_SEND_BACK : LANE_SEND,
                        .collective = {.op = COLLECTIVE_SEND,
                                       .content = CONTENT_ACTIVATIONS,
                                       .axis = AXIS_PIPELINE,
                                       .algorithm = ALGORITHM_RING,
                                       .to = to,
                                       .back = back,
                                       .bytes = bytes}};
    struct dep dep[] = {{after, 0}, {also, 0}};
    step.name = schedule_text(schedule, "%s %s", name, collective_op_names[COLLECTIVE_SEND]);
    return schedule_add(schedule, step, dep, also >= 0 ? 2 : 1);
}

int32_t schedule_add_reduce_scatter(struct schedule *schedule, enum algorithm algorithm,
                                    int32_t bucket, int64_t bytes, int32_t after, int32_t before)
{
    int64_t columns = schedule->grid.columns;
    struct step scatter = {
        .collective = {.op = COLLECTIVE_REDUCE_SCATTER,
                       .axis = own_axis(schedule, schedule_shard_axis(algorithm)),
                       .algorithm = scattering(algorithm),
                       .bucket = bucket,
                       .bytes = bytes}};
    struct step reduce = {.collective = {.op = COLLECTIVE_ALL_REDUCE,
                                         .axis = AXIS_COLUMN,
                                         .algorithm = schedule->column_algorithm,
                                         .bucket = bucket,
                                         .bytes = (bytes + columns - 1) / columns}};
    bool waits = before >= 0 && schedule->step[before].lane == LANE_COLUMN;
    after = add_collective_after(schedule, scatter, (struct dep){after, 0}, waits ? before : -1);
    if (algorithm != ALGORITHM_TORUS2D)
        return after;
    return add_collective(schedule, reduce, (struct dep){after, 0});
}

int32_t schedule_add_all_gather(struct schedule *schedule, enum algorithm algorithm, int32_t bucket,
                                int64_t bytes, struct dep after)
{
    struct step gather = {.collective = {.op = COLLECTIVE_ALL_GATHER,
                                         .content = CONTENT_PARAMETERS,
                                         .axis = own_axis(schedule, schedule_shard_axis(algorithm)),
                                         .algorithm = scattering(algorithm),
                                         .bucket = bucket,
                                         .bytes = bytes}};
    return add_collective(schedule, gather, after);
}

bool schedule_has_experts(const struct schedule *schedule)
{
    return schedule->grid.expert > 1 || schedule->grouped;
}

int32_t step_runs(const struct step *step)
{
    return step->times > 1 ? step->times : 1;
}

void schedule_add_repeats(struct schedule *schedule, int32_t first, int32_t times)
{
    int32_t since[LANE_SEND] = {0}, open = 0; /* lanes of the stage that begin before @first */
    bool any[LANE_SEND] = {false};
    for (int32_t id = schedule->step_count - 1; id >= 0 && (id >= first || open > 0); id--) {
        struct step *step = &schedule->step[id];
        if (step->stage != schedule->stage)
            continue;
        if (id >= first)
            step->times = 1 + times;
        if (step->lane >= LANE_SEND)
            continue;
        if (id >= first) {
            open += !any[step->lane];
            any[step->lane] = true;
        } else if (any[step->lane] && !since[step->lane]) {
            since[step->lane] = id;
            open--;
        }
    }
    for (enum lane lane = 0; lane < LANE_SEND; lane++) {
        struct step step = {
            .kind = STEP_REPEAT, .lane = lane, .repeat = {.since = since[lane], .times = times}};
        step.name = schedule_text(schedule, "%d more", times);
        if (any[lane])
            schedule_add(schedule, step, NULL, 0);
    }
}

int32_t schedule_add_norms(struct schedule *schedule, enum collective_content content,
                           enum algorithm algorithm, int32_t bucket, int64_t bytes, int32_t after)
{
    struct step reduce = {.collective = {.op = COLLECTIVE_ALL_REDUCE,
                                         .content = content,
                                         .axis = AXIS_WORLD,
                                         .algorithm = algorithm == ALGORITHM_NCCL
                                                          ? ALGORITHM_NCCL
                                                          : ALGORITHM_HALVING_DOUBLING,
                                         .bucket = bucket,
                                         .bytes = bytes}};
    return add_collective(schedule, reduce, (struct dep){after, 0});
}

enum axis schedule_sharded(const struct schedule *schedule)
{
    for (int32_t id = 0; id < schedule->step_count; id++)
        if (schedule->step[id].kind == STEP_COLLECTIVE &&
            schedule->step[id].collective.content == CONTENT_PARAMETERS)
            return schedule->step[id].collective.axis;
    return AXIS_COUNT;
}

int32_t schedule_add_all_reduce(struct schedule *schedule, enum algorithm algorithm, int32_t group,
                                int32_t bucket, int64_t bytes, int32_t after)
{
    struct step step = {.collective = {.op = COLLECTIVE_ALL_REDUCE,
                                       .axis = own_axis(schedule, AXIS_WORLD),
                                       .algorithm = algorithm,
                                       .group = algorithm == ALGORITHM_HIERARCHICAL ? group : 0,
                                       .bucket = bucket,
                                       .bytes = bytes}};
    if (algorithm == ALGORITHM_RING && schedule->channels > 1 &&
        grid_axis_size(schedule->grid, AXIS_WORLD) > group) {
        step.collective.group = group;
        step.collective.channels = schedule->channels;
    }
    if (algorithm == ALGORITHM_TREE && schedule->chunk > 0 && bytes > schedule->chunk)
        step.collective.chunks = (int32_t)((bytes + schedule->chunk - 1) / schedule->chunk);
    if (algorithm != ALGORITHM_TORUS2D)
        return add_collective(schedule, step, (struct dep){after, 0});
    after = schedule_add_reduce_scatter(schedule, algorithm, bucket, bytes, after, -1);
    step.collective.op = COLLECTIVE_ALL_GATHER;
    step.collective.axis = AXIS_ROW;
    step.collective.algorithm = ALGORITHM_RING;
    return add_collective(schedule, step, (struct dep){after, 0});
}

static const char *compute_fault(const struct step *step)
{
    if (step->compute.op >= COMPUTE_OP_COUNT)
        return "unknown compute operation";
    if (step->compute.layer_op >= LAYER_OP_COUNT)
        return "unknown layer operation";
    if (step->compute.dtype >= DTYPE_COUNT)
        return "unknown number format";
    if (step->compute.kernels < 0 || step->compute.exchanges < 0 || step->compute.flops < 0 ||
        step->compute.bytes < 0 || step->compute.converted < 0)
        return "negative count of kernels, exchanges, FLOP or bytes";
    return NULL;
}

static const char *collective_fault(const struct schedule *schedule, const struct step *step)
{
    enum algorithm algorithm = step->collective.algorithm;
    int32_t group = step->collective.group;
    if (step->collective.op >= COLLECTIVE_OP_COUNT)
        return "unknown collective operation";
    if (step->collective.content >= CONTENT_COUNT)
        return "unknown content";
    if (step->collective.axis >= AXIS_COUNT)
        return "unknown axis";
    bool between = step->collective.axis == AXIS_PIPELINE;
    if (between != sends(step) || between != (step->lane >= LANE_SEND) ||
        (between && (step->lane == LANE_RECEIVE || step->lane == LANE_RECEIVE_BACK ||
                     step->collective.to < 0 || step->collective.to == step->stage ||
                     step->collective.to >= schedule_stages(schedule))))
        return "what stages send, but not from one to another on a lane for it";
    if (algorithm >= ALGORITHM_COUNT || algorithm == ALGORITHM_TORUS2D)
        return "unknown algorithm (torus2d is three steps)";
    if (!algorithm_supports(algorithm, step->collective.op))
        return "the algorithm cannot compute the operation";
    bool part = step->collective.axis != AXIS_WORLD;
    if ((algorithm == ALGORITHM_MPI && part) ||
        (algorithm == ALGORITHM_NCCL && step->collective.axis == AXIS_ROW))
        return "NCCL or MPI on a part of the ranks";
    if (algorithm == ALGORITHM_HIERARCHICAL &&
        (group < 1 || grid_axis_size(schedule->grid, step->collective.axis) % group != 0))
        return "the group does not divide the ranks of the axis";
    int32_t channels = step->collective.channels;
    if (channels > 1 &&
        (algorithm != ALGORITHM_RING || step->collective.op != COLLECTIVE_ALL_REDUCE ||
         group < channels || grid_axis_size(schedule->grid, step->collective.axis) % group != 0))
        return "several channels, but no ring of whole nodes with as many ranks";
    int32_t chunks = step->collective.chunks;
    if (chunks < 0 || chunks > CHUNK_LIMIT ||
        (chunks > 1 &&
         (algorithm != ALGORITHM_TREE || step->collective.op != COLLECTIVE_ALL_REDUCE)))
        return "chunks of what is no tree, or too many";
    if (step->collective.bucket < 0 || step->collective.bytes < 0)
        return "negative bucket or count of bytes";
    return NULL;
}

static const char *repeat_fault(const struct schedule *schedule, const struct step *step)
{
    int32_t since = step->repeat.since;
    if (step->repeat.times < 1 || since < 0 || &schedule->step[since] >= step ||
        schedule->step[since].lane != step->lane || schedule->step[since].stage != step->stage)
        return "repeats nothing";
    return NULL;
}

static const char *step_fault(const struct schedule *schedule, const struct step *step)
{
    if (step->kind >= STEP_KIND_COUNT)
        return "unknown kind";
    if (step->lane >= LANE_COUNT)
        return "unknown lane";
    if (step->stage < 0 || step->stage >= schedule_stages(schedule))
        return "unknown stage";
    if (step->kind == STEP_REPEAT)
        return repeat_fault(schedule, step);
    bool communicates = step->lane != LANE_COMPUTE && step->lane != LANE_INPUT;
    if (communicates != (step->kind == STEP_COLLECTIVE))
        return communicates ? "not a collective, but on a lane of collectives"
                            : "a collective on the compute or input lane";
    if (step->kind == STEP_COMPUTE)
        return compute_fault(step);
    if (step->kind == STEP_COLLECTIVE)
        return collective_fault(schedule, step);
    if (step->input.images < 0 || step->input.bytes < 0)
        return "negative count of images or bytes";
    return NULL;
}

/* @taken (stages * ROLE_COUNT): the roles that steps before have. */
static const char *role_fault(const struct step *step, bool *taken)
{
    if (step->role == ROLE_NONE)
        return NULL;
    if (step->role >= ROLE_COUNT)
        return "unknown role";
    if (step->kind != STEP_COMPUTE)
        return "a role, but no computation";
    bool *own = &taken[step->stage * ROLE_COUNT + (int32_t)step->role];
    const char *fault = *own ? "a role that another step has" : NULL;
    *own = true;
    return fault;
}

static const char *dep_fault(const struct schedule *schedule, int32_t id, struct dep dep)
{
    if (dep.step < 0 || dep.step >= schedule->step_count)
        return "depends on a step that does not exist";
    if (dep.distance < 0)
        return "depends on a later iteration";
    if (dep.distance == 0 && dep.step == id)
        return "depends on itself";
    if (dep.distance == 0 && dep.step > id)
        return "depends on a later step of the same iteration";
    return NULL;
}

/* What no message is about: a fault here is one of core/collective.  Only assert() asks. */
__attribute__((unused)) static bool rounds_check(const struct schedule *schedule)
{
    for (int32_t id = 0; id < schedule->step_count; id++) {
        if (schedule->step[id].kind != STEP_COLLECTIVE || schedule_first_like(schedule, id) < id)
            continue;
        struct collective collective = schedule_collective(schedule, id);
        for (int32_t i = 0; i < collective_channels(&collective); i++) {
            struct collective channel = collective_channel(&collective, i);
            if (!collective_check(&channel))
                return false;
        }
    }
    return true;
}

static bool is_like(const struct step *a, const struct step *b)
{
    return schedule_walk_alike(a, b) && a->collective.bytes == b->collective.bytes;
}

/* The collectives that are equal to no earlier one are few. */
static void find_turns(struct schedule *schedule)
{
    AUTOFREE int32_t *first = base_alloc(schedule->step_count, sizeof(*first));
    int32_t count = 0;
    schedule->mpi = schedule->grouped = false;
    free(schedule->turn);
    schedule->turn = base_alloc(schedule->step_count, sizeof(*schedule->turn));
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        int32_t lane = (int32_t)step->lane, like = 0;
        bool collective = step->kind == STEP_COLLECTIVE;
        schedule->mpi |= collective && step->collective.algorithm == ALGORITHM_MPI;
        schedule->grouped |= step->kind == STEP_COMPUTE && step->compute.product.each > 0;
        while (collective && like < count && !is_like(step, &schedule->step[first[like]]))
            like++;
        if (collective && like == count)
            first[count++] = id;
        schedule->turn[id] = (struct step_turn){
            .lane = step->stage * LANE_COUNT + lane,
            .other = sends(step) ? step->collective.to * LANE_COUNT + lane + 1 : -1,
            .dep_begin = step->dep_begin,
            .dep_end = step->dep_end,
            .like = collective ? first[like] : id,
            .repeats = step->kind == STEP_REPEAT,
        };
    }
}

int schedule_seal(struct schedule *schedule, struct err *err)
{
    int status = schedule->step_count > 0 ? 0 : err_add(err, "schedule: no steps");
    struct grid grid = schedule->grid;
    if (grid.columns < 1 || grid.rows < 1 || grid.tensor < 0 || grid.pipeline < 0 ||
        grid.context < 0 || grid.expert < 0)
        return err_add(err, "schedule: a grid without ranks");
    AUTOFREE bool *taken = base_alloc(schedule_stages(schedule) * ROLE_COUNT, sizeof(*taken));
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        const char *fault = step_fault(schedule, step);
        fault = fault ? fault : role_fault(step, taken);
        for (int32_t i = step->dep_begin; i < step->dep_end && !fault; i++)
            fault = dep_fault(schedule, id, schedule->dep[i]);
        if (fault)
            status = err_add(err, "schedule: step %" PRId32 " (%s): %s", id, step->name, fault);
    }
    schedule->sealed = status == 0;
    schedule->hash = 0;
    if (schedule->sealed)
        find_turns(schedule);
    assert(!schedule->sealed || rounds_check(schedule));
    return status;
}

/* Byte by byte, so that neither padding nor byte order enters the hash. */
static uint64_t hash_integer(uint64_t hash, int64_t value)
{
    unsigned char byte[8];
    for (int i = 0; i < 8; i++)
        byte[i] = (unsigned char)((uint64_t)value >> (8 * i));
    return base_hash(hash, byte, sizeof(byte));
}

static uint64_t hash_word(uint64_t hash, const char *word)
{
    return base_hash(hash, word, strlen(word) + 1);
}

static uint64_t hash_compute(uint64_t hash, const struct step *step)
{
    const int64_t number[] = {step->compute.layer,     step->compute.micro, step->compute.kernels,
                              step->compute.exchanges, step->compute.flops, step->compute.bytes};
    hash = hash_word(hash, compute_op_names[step->compute.op]);
    hash = hash_word(hash, layer_op_names[step->compute.layer_op]);
    hash = hash_word(hash, dtype_names[step->compute.dtype]);
    if (step->compute.products)
        hash = hash_integer(hash_word(hash, product_names[step->compute.products]),
                            step->compute.converted);
    if (step->compute.kernel == KERNEL_GROUPED || step->compute.kernel == KERNEL_DEPTHWISE)
        hash = hash_word(hash, kernel_names[step->compute.kernel]); /* others follow */
    for (size_t i = 0; i < ARRAY_SIZE(number); i++)
        hash = hash_integer(hash, number[i]);
    return hash;
}

static uint64_t hash_collective(uint64_t hash, const struct step *step)
{
    hash = hash_word(hash, collective_op_names[step->collective.op]);
    if (step->collective.content != CONTENT_GRADIENTS)
        hash = hash_word(hash, content_names[step->collective.content]);
    hash = hash_word(hash, axis_names[step->collective.axis]);
    hash = hash_word(hash, algorithm_names[step->collective.algorithm]);
    hash = hash_integer(hash, step->collective.group);
    if (step->collective.channels > 1)
        hash = hash_integer(hash_word(hash, "channels"), step->collective.channels);
    if (step->collective.chunks > 1)
        hash = hash_integer(hash_word(hash, "chunks"), step->collective.chunks);
    hash = hash_integer(hash, step->collective.bucket);
    if (sends(step))
        hash = hash_integer(hash, step->collective.to);
    return hash_integer(hash, step->collective.bytes);
}

static uint64_t hash_step(uint64_t hash, const struct step *step)
{
    hash = hash_word(hash, step_kind_names[step->kind]);
    hash = hash_word(hash, lane_name(step->lane));
    hash = hash_word(hash, step_role_name[step->role]);
    if (step->stage > 0)
        hash = hash_integer(hash_word(hash, "stage"), step->stage);
    if (step->times > 1)
        hash = hash_integer(hash_word(hash, "times"), step->times);
    if (step->kind == STEP_REPEAT)
        return hash_integer(hash_integer(hash, step->repeat.since), step->repeat.times);
    if (step->kind == STEP_COMPUTE)
        return hash_compute(hash, step);
    if (step->kind == STEP_COLLECTIVE)
        return hash_collective(hash, step);
    return hash_integer(hash_integer(hash, step->input.images), step->input.bytes);
}

int32_t schedule_find(const struct schedule *schedule, enum step_role role)
{
    int32_t id = 0;
    while (id < schedule->step_count && schedule->step[id].role != role)
        id++;
    return id < schedule->step_count ? id : -1;
}

const char *schedule_lane(const struct schedule *schedule, enum lane lane)
{
    bool world = false, grid = false;
    for (int32_t id = 0; id < schedule->step_count; id++)
        if (schedule->step[id].kind == STEP_COLLECTIVE) {
            enum axis axis = schedule->step[id].collective.axis;
            world |= axis == AXIS_WORLD || axis == AXIS_COPIES;
            grid |= axis == AXIS_ROW || axis == AXIS_COLUMN;
        }
    if ((int32_t)lane >= schedule_lanes(schedule))
        return NULL;
    if (!world || grid || (lane != LANE_ROW && lane != LANE_COLUMN))
        return lane_name(lane);
    return lane == LANE_ROW ? "all-reduce" : NULL;
}

static uint64_t find_hash(const struct schedule *schedule)
{
    uint64_t hash = hash_integer(BASE_HASH_SEED, schedule->grid.columns);
    hash = hash_integer(hash, schedule->grid.rows);
    const int32_t part[] = {schedule->grid.tensor, schedule->grid.pipeline, schedule->grid.context,
                            schedule->grid.expert};
    const enum axis axis[] = {AXIS_TENSOR, AXIS_PIPELINE, AXIS_CONTEXT, AXIS_EXPERT};
    for (size_t i = 0; i < ARRAY_SIZE(part); i++)
        if (part[i] > 1)
            hash = hash_integer(hash_word(hash, axis_names[axis[i]]), part[i]);
    hash = schedule->grid.whole ? hash_word(hash, "whole") : hash;
    if (schedule->far > 0)
        hash = base_hash(hash, &schedule->far, sizeof(schedule->far));
    if (schedule->mesh && schedule->channels > 1)
        hash = hash_word(hash, "mesh");
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        hash = hash_step(hash, step);
        hash = hash_integer(hash, step->dep_end - step->dep_begin);
        for (int32_t i = step->dep_begin; i < step->dep_end; i++) {
            hash = hash_integer(hash, schedule->dep[i].step);
            hash = hash_integer(hash, schedule->dep[i].distance);
        }
    }
    return hash;
}

uint64_t schedule_hash(const struct schedule *schedule)
{
    uint64_t *kept = &((struct schedule *)(size_t)schedule)->hash;
    if (!schedule->sealed || !*kept)
        *kept = find_hash(schedule);
    return *kept;
}

struct collective schedule_collective(const struct schedule *schedule, int32_t step)
{
    const struct step *s = &schedule->step[step];
    assert(s->kind == STEP_COLLECTIVE);
    return (struct collective){
        .op = s->collective.op,
        .algorithm = s->collective.algorithm,
        .ranks = sends(s) ? 2 : grid_axis_size(schedule->grid, s->collective.axis),
        .group = s->collective.group,
        .channels = s->collective.channels,
        .chunks = s->collective.chunks,
        .mesh = schedule->mesh,
        .far = schedule->far,
        .elements = s->collective.bytes};
}

/* Those of equal places on the axis send equally far. */
int32_t *schedule_send_peers(const struct schedule *schedule, int32_t step, int32_t channel,
                             int32_t pattern)
{
    const struct step *s = &schedule->step[step];
    enum axis axis = s->collective.axis;
    struct grid grid = schedule->grid;
    struct collective whole = schedule_collective(schedule, step);
    struct collective c = collective_channel(&whole, channel);
    AUTOFREE int32_t *peer = base_alloc(c.ranks, sizeof(*peer));
    AUTOFREE int32_t *ahead = base_alloc(c.ranks, sizeof(*ahead)); /* 0: not known yet */
    for (int32_t i = 0; i < c.ranks; i++)
        peer[i] = collective_send_peer(&c, i, pattern);
    int32_t ranks = grid_ranks(grid), each = ranks / schedule_stages(schedule);
    int32_t *to = base_alloc(ranks, sizeof(*to));
    memset(to, -1, (size_t)ranks * sizeof(*to));
    for (int32_t rank = s->stage * each; rank < (s->stage + 1) * each; rank++) {
        int32_t index = sends(s) ? 0 : grid_axis_index(grid, axis, rank);
        int32_t place = sends(s) ? s->collective.to : peer[index];
        if (place >= 0 && !ahead[index])
            ahead[index] = grid_axis_rank(grid, axis, rank, place) - rank;
        to[rank] = place < 0 ? -1 : rank + ahead[index];
    }
    return to;
}

bool schedule_walk_alike(const struct step *a, const struct step *b)
{
    return a->lane == b->lane && a->collective.op == b->collective.op &&
           a->collective.axis == b->collective.axis &&
           a->collective.algorithm == b->collective.algorithm &&
           a->collective.group == b->collective.group &&
           a->collective.channels == b->collective.channels &&
           a->collective.chunks == b->collective.chunks && a->collective.to == b->collective.to &&
           (a->stage == b->stage || a->collective.algorithm == ALGORITHM_NCCL);
}

int32_t schedule_first_like(const struct schedule *schedule, int32_t step)
{
    assert(schedule->sealed);
    return schedule->turn[step].like;
}
