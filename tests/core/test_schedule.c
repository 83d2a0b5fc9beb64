#include "tests/core/own.h"
#include "tests/test.h"

/* --- random schedules that follow the rules --- */

struct dice {
    uint64_t seed, throws;
};

static int32_t throw_below(struct dice *dice, int32_t limit)
{
    return (int32_t)(base_uniform(dice->seed, dice->throws++, 0, 0) * limit);
}

static struct step random_step(struct dice *dice)
{
    struct step step = {.kind = throw_below(dice, STEP_REPEAT), .name = "anything"};
    switch (step.kind) {
    case STEP_COMPUTE:
        step.lane = LANE_COMPUTE;
        step.compute.op = throw_below(dice, COMPUTE_OP_COUNT);
        step.compute.layer = throw_below(dice, 10) - 1;
        step.compute.kernels = throw_below(dice, 3);
        step.compute.flops = throw_below(dice, 1000000);
        step.compute.bytes = throw_below(dice, 1000000);
        break;
    case STEP_COLLECTIVE:
        step.lane = throw_below(dice, 2) ? LANE_ROW : LANE_COLUMN;
        step.collective.op = throw_below(dice, COLLECTIVE_SEND);
        step.collective.axis = step.lane == LANE_ROW ? AXIS_ROW : AXIS_COLUMN;
        step.collective.bucket = throw_below(dice, 10);
        step.collective.bytes = throw_below(dice, 1000000);
        break;
    default:
        step.lane = LANE_INPUT;
        step.input.images = throw_below(dice, 100);
        step.input.bytes = throw_below(dice, 1000000);
    }
    return step;
}

static struct schedule *random_schedule(uint64_t seed)
{
    struct dice dice = {seed, 0};
    struct schedule *schedule = schedule_new(
        (struct grid){.columns = 1 + throw_below(&dice, 5), .rows = 1 + throw_below(&dice, 5)});
    int32_t steps = 1 + throw_below(&dice, 30);
    for (int32_t id = 0; id < steps; id++) {
        struct dep dep[4];
        int32_t count = throw_below(&dice, 5);
        for (int32_t i = 0; i < count; i++) {
            dep[i].distance = id == 0 ? 1 : throw_below(&dice, 3);
            dep[i].step = throw_below(&dice, dep[i].distance == 0 ? id : steps);
        }
        schedule_add(schedule, random_step(&dice), dep, count);
    }
    return schedule;
}

TEST(seals_whatever_follows_the_rules)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        OWN(schedule) *schedule = sealed(random_schedule(seed));
        assert_true(schedule->sealed);
    }
}

/* --- what is refused --- */

static const struct step compute = {.lane = LANE_COMPUTE};

/* Three steps, of which the middle one is @step and waits for @dep: what does seal say? */
static void refuses(struct step step, struct dep dep, const char *because)
{
    OWN(schedule) *schedule = schedule_new(grid_of(4, 2));
    step.name = "spoilt";
    schedule_add(schedule, compute, NULL, 0);
    schedule_add(schedule, step, &dep, 1);
    schedule_add(schedule, compute, NULL, 0);
    assert_int_equal(schedule_seal(schedule, &err), -1);
    assert_int_equal(err.count, 1);
    assert_has(err.text, "step 1 (spoilt)");
    assert_has(err.text, because);
    assert_false(schedule->sealed);
    err_release(&err);
}

static void refuses_step(struct step step, const char *because)
{
    refuses(step, (struct dep){0, 0}, because);
}

/* A compute step, and a collective on the row lane, with some members set. */
#define COMPUTE(...) ((struct step){.compute = {__VA_ARGS__}})
#define COLLECTIVE(...)                                                                            \
    ((struct step){.kind = STEP_COLLECTIVE, .lane = LANE_ROW, .collective = {__VA_ARGS__}})

TEST(refuses_nothing_to_do_and_nobody_to_do_it)
{
    OWN(schedule) *schedule = schedule_new(grid_of(4, 0));
    assert_int_equal(schedule_seal(schedule, &err), -1);
    assert_string_equal(err.text, "schedule: no steps\nschedule: a grid without ranks\n");
}

TEST(refuses_dependencies_that_cannot_be)
{
    refuses(compute, (struct dep){1, 0}, "depends on itself");
    refuses(compute, (struct dep){2, 0}, "depends on a later step");
    refuses(compute, (struct dep){3, 1}, "does not exist");
    refuses(compute, (struct dep){-1, 0}, "does not exist");
    refuses(compute, (struct dep){0, -1}, "later iteration");
}

TEST(refuses_unknown_words)
{
    refuses_step((struct step){.kind = STEP_KIND_COUNT}, "unknown kind");
    refuses_step((struct step){.kind = STEP_REPEAT, .repeat = {0, 0}}, "repeats nothing");
    refuses_step((struct step){.kind = STEP_REPEAT, .repeat = {1, 1}}, "repeats nothing");
    refuses_step((struct step){.kind = STEP_REPEAT, .lane = LANE_ROW, .repeat = {0, 1}},
                 "repeats nothing");
    refuses_step((struct step){.lane = LANE_COUNT}, "unknown lane");
    refuses_step(COMPUTE(.op = COMPUTE_OP_COUNT), "unknown compute operation");
    refuses_step(COMPUTE(.layer_op = LAYER_OP_COUNT), "unknown layer operation");
    refuses_step(COMPUTE(.dtype = DTYPE_COUNT), "unknown number format");
    refuses_step(COLLECTIVE(.op = COLLECTIVE_OP_COUNT), "unknown collective operation");
    refuses_step(COLLECTIVE(.axis = AXIS_COUNT), "unknown axis");
    refuses_step(COLLECTIVE(.algorithm = ALGORITHM_COUNT), "unknown algorithm");
    refuses_step(COLLECTIVE(.algorithm = ALGORITHM_NCCL, .axis = AXIS_ROW), "part of the ranks");
    refuses_step(COLLECTIVE(.algorithm = ALGORITHM_MPI, .axis = AXIS_COLUMN), "part of the ranks");
}

TEST(refuses_a_role_twice)
{
    struct schedule *schedule = schedule_new(grid_of(4, 2));
    for (int32_t i = 0; i < 2; i++)
        schedule_add(schedule, COMPUTE(.op = COMPUTE_FORWARD), NULL, 0);
    schedule->step[0].role = schedule->step[1].role = ROLE_OPTIMIZER;
    assert_int_equal(schedule_seal(schedule, &err), -1);
    assert_has(err.text, "a role that another step has");
    assert_int_equal(schedule_find(schedule, ROLE_OPTIMIZER), 0);
    assert_int_equal(schedule_find(schedule, ROLE_LAST_BACKWARD), -1);
    err_release(&err);
    schedule_free(schedule);
    refuses_step((struct step){.role = ROLE_COUNT}, "unknown role");
    refuses_step((struct step){.kind = STEP_INPUT, .lane = LANE_INPUT, .role = ROLE_OPTIMIZER},
                 "no computation");
}

TEST(refuses_negative_counts)
{
    refuses_step(COMPUTE(.flops = -1), "negative");
    refuses_step(COMPUTE(.bytes = -1), "negative");
    refuses_step(COMPUTE(.kernels = -1), "negative");
    refuses_step(COMPUTE(.exchanges = -1), "negative");
    refuses_step(COLLECTIVE(.bytes = -1), "negative");
    refuses_step(COLLECTIVE(.bucket = -1), "negative");
    refuses_step((struct step){STEP_INPUT, LANE_INPUT, .input = {.images = -1}}, "negative");
}

TEST(refuses_a_step_on_the_wrong_lane)
{
    refuses_step((struct step){STEP_COLLECTIVE, .lane = LANE_COMPUTE}, "compute or input lane");
    refuses_step((struct step){STEP_COLLECTIVE, .lane = LANE_INPUT}, "compute or input lane");
    refuses_step((struct step){.lane = LANE_COLUMN}, "not a collective");
}

TEST(refuses_what_the_algorithm_cannot_compute)
{
    refuses_step(COLLECTIVE(.algorithm = ALGORITHM_TORUS2D), "three steps");
    refuses_step(COLLECTIVE(.algorithm = ALGORITHM_DOUBLE_TREE, .op = COLLECTIVE_ALL_GATHER),
                 "cannot compute");
    refuses_step(COLLECTIVE(.algorithm = ALGORITHM_HIERARCHICAL), "does not divide");
    refuses_step(COLLECTIVE(.algorithm = ALGORITHM_HIERARCHICAL, .group = 3), "does not divide");
}

TEST(reports_every_fault_at_once)
{
    OWN(schedule) *schedule = schedule_new(grid_of(4, 2));
    for (int32_t i = 0; i < 3; i++)
        schedule_add(schedule, compute, &(struct dep){i, 0}, 1);
    assert_int_equal(schedule_seal(schedule, &err), -1);
    assert_int_equal(err.count, 3);
}

TEST(prints_what_a_person_wants_to_know)
{
    OWN(schedule) *schedule = schedule_new(grid_of(4, 2));
    schedule_add(schedule,
                 (struct step){.kind = STEP_INPUT,
                               .lane = LANE_INPUT,
                               .name = "input",
                               .input = {.images = 8, .bytes = 1204224}},
                 &(struct dep){1, 2}, 1);
    schedule_add(
        schedule,
        (struct step){
            .lane = LANE_COMPUTE,
            .name = "conv1 forward",
            .compute = {.dtype = DTYPE_FP16, .kernels = 1, .flops = 1888223232, .bytes = 16056320}},
        (struct dep[]){{0, 0}, {4, 1}}, 2);
    schedule_add_all_reduce(schedule, ALGORITHM_TORUS2D, 0, 0, 1000, 1);
    HELD(text) text = {0};
    schedule_print(&text, sealed(schedule));
    unsigned long hash;
    int32_t count;
    assert_int_equal(sscanf(text.data, "schedule %lx: %d steps\n", &hash, &count), 2);
    assert_int_equal(hash, schedule_hash(schedule));
    assert_int_equal(count, 5);
    const char *steps = strchr(text.data, '\n') + 1;
    assert_string_equal(steps,
                        "   0  input       input       input                                     "
                        "8 images, 1204224 B <- 1@-2\n"
                        "   1  compute     compute     conv1 forward                             "
                        "forward fp16, 1888223232 FLOP, 16056320 B, 1 kernels <- 0, 4@-1\n"
                        "   2  row         collective  bucket 0 row reduce-scatter               "
                        "row reduce-scatter, ring, 1000 B <- 1\n"
                        "   3  column      collective  bucket 0 column all-reduce                "
                        "column all-reduce, ring, 250 B <- 2\n"
                        "   4  row         collective  bucket 0 row all-gather                   "
                        "row all-gather, ring, 1000 B <- 3\n");
}

/* --- all-reduce --- */

static struct schedule *all_reduce(struct grid grid, enum algorithm algorithm, int64_t bytes)
{
    struct schedule *schedule = schedule_new(grid);
    int32_t first = schedule_add(schedule, compute, NULL, 0);
    int32_t last = schedule_add_all_reduce(schedule, algorithm, 1, 3, bytes, first);
    assert_int_equal(last, schedule->step_count - 1);
    return sealed(schedule);
}

TEST(torus_all_reduce_is_a_chain_of_three)
{
    OWN(schedule) *schedule = all_reduce(grid_of(4, 2), ALGORITHM_TORUS2D, 1001);
    assert_int_equal(schedule->step_count, 4);
    for (int32_t id = 1; id <= 3; id++) {
        const struct step *step = &schedule->step[id];
        assert_int_equal(step->collective.algorithm, ALGORITHM_RING);
        assert_int_equal(step->collective.bucket, 3);
        assert_int_equal(step->collective.bytes, id == 2 ? 251 : 1001);
        assert_int_equal(step->lane, id == 2 ? LANE_COLUMN : LANE_ROW);
        assert_int_equal(step->dep_end - step->dep_begin, 1);
        assert_int_equal(schedule->dep[step->dep_begin].step, id - 1);
    }
    assert_int_equal(schedule->step[1].collective.op, COLLECTIVE_REDUCE_SCATTER);
    assert_int_equal(schedule->step[2].collective.op, COLLECTIVE_ALL_REDUCE);
    assert_int_equal(schedule->step[3].collective.op, COLLECTIVE_ALL_GATHER);
    assert_string_equal(schedule_lane(schedule, LANE_ROW), "row");
    assert_string_equal(schedule_lane(schedule, LANE_COLUMN), "column");
}

TEST(torus_all_reduce_leaves_out_an_axis_of_one_rank)
{
    OWN(schedule) *flat = all_reduce(grid_of(4, 1), ALGORITHM_TORUS2D, 1000);
    assert_int_equal(flat->step_count, 3);
    assert_int_equal(flat->step[2].collective.op, COLLECTIVE_ALL_GATHER);
    OWN(schedule) *tall = all_reduce(grid_of(1, 4), ALGORITHM_TORUS2D, 1000);
    assert_int_equal(tall->step_count, 2);
    assert_int_equal(tall->step[1].collective.bytes, 1000);
}

TEST(one_rank_needs_no_all_reduce)
{
    for (enum algorithm algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        OWN(schedule) *schedule = all_reduce(grid_of(1, 1), algorithm, 1000);
        assert_int_equal(schedule->step_count, 1);
    }
}

TEST(other_all_reduces_are_one_step_of_the_whole_world)
{
    for (enum algorithm algorithm = 0; algorithm < ALGORITHM_TORUS2D; algorithm++) {
        OWN(schedule) *schedule = all_reduce(grid_of(4, 2), algorithm, 1000);
        const struct step *step = &schedule->step[1];
        assert_int_equal(schedule->step_count, 2);
        assert_int_equal(step->lane, LANE_ROW);
        assert_string_equal(schedule_lane(schedule, LANE_ROW), "all-reduce");
        assert_null(schedule_lane(schedule, LANE_COLUMN));
        assert_int_equal(step->collective.axis, AXIS_WORLD);
        assert_int_equal(step->collective.group, algorithm == ALGORITHM_HIERARCHICAL);
        assert_int_equal(schedule_collective(schedule, 1).ranks, 8);
        assert_int_equal(schedule_collective(schedule, 1).elements, 1000);
    }
}

TEST(peers_stay_in_their_row_or_column)
{
    OWN(schedule) *schedule = all_reduce(grid_of(4, 3), ALGORITHM_TORUS2D, 1000);
    AUTOFREE int32_t *right = schedule_send_peers(schedule, 1, 0, 0);
    AUTOFREE int32_t *below = schedule_send_peers(schedule, 2, 0, 0);
    for (int32_t rank = 0; rank < 12; rank++) {
        assert_int_equal(right[rank] / 4, rank / 4);
        assert_int_not_equal(right[rank], rank);
        assert_int_equal(below[rank] % 4, rank % 4);
        assert_int_not_equal(below[rank], rank);
    }
}

TEST(equal_collectives_are_found_whatever_their_bucket)
{
    OWN(schedule) *schedule = schedule_new(grid_of(4, 2));
    schedule_add_all_reduce(schedule, ALGORITHM_TORUS2D, 0, 0, 1000, -1);
    schedule_add_all_reduce(schedule, ALGORITHM_TORUS2D, 0, 1, 1000, 2);
    schedule_add_all_reduce(schedule, ALGORITHM_TORUS2D, 0, 2, 1004, 5);
    sealed(schedule);
    static const int32_t expected[] = {0, 1, 2, 0, 1, 2, 6, 7, 8};
    for (int32_t id = 0; id < 9; id++)
        assert_int_equal(schedule_first_like(schedule, id), expected[id]);
}

static struct schedule *one_of_each(void)
{
    struct schedule *schedule = schedule_new(grid_of(4, 2));
    struct dep before = {0, 1};
    int32_t last = schedule_add(
        schedule,
        (struct step){.kind = STEP_INPUT, .lane = LANE_INPUT, .input = {.images = 3, .bytes = 4}},
        &before, 1);
    last =
        schedule_add(schedule, (struct step){.compute = {.kernels = 1, .flops = 1000, .bytes = 10}},
                     &(struct dep){last, 0}, 1);
    schedule_add_all_reduce(schedule, ALGORITHM_TORUS2D, 0, 0, 4194304, last);
    return schedule;
}

/* Every member a back end reads; the kind decides which of them count. */
#define NUMBER(kind, member)                                                                       \
    {                                                                                              \
        kind, offsetof(struct step, member), sizeof(((struct step *)0)->member), 0                 \
    }
#define WORD(kind, member, words)                                                                  \
    {                                                                                              \
        kind, offsetof(struct step, member), 1, words                                              \
    }
static const struct {
    enum step_kind kind;
    size_t offset, size;
    int32_t words; /* of an enum; 0: a number */
} visible[] = {WORD(STEP_COMPUTE, compute.op, COMPUTE_OP_COUNT),
               WORD(STEP_COMPUTE, compute.layer_op, LAYER_OP_COUNT),
               WORD(STEP_COMPUTE, compute.dtype, DTYPE_COUNT),
               WORD(STEP_COMPUTE, role, ROLE_COUNT),
               WORD(STEP_COMPUTE, lane, LANE_COUNT),
               NUMBER(STEP_COMPUTE, compute.layer),
               NUMBER(STEP_COMPUTE, compute.micro),
               NUMBER(STEP_COMPUTE, compute.kernels),
               NUMBER(STEP_COMPUTE, compute.exchanges),
               NUMBER(STEP_COMPUTE, compute.flops),
               NUMBER(STEP_COMPUTE, compute.bytes),
               WORD(STEP_COLLECTIVE, collective.op, COLLECTIVE_OP_COUNT),
               WORD(STEP_COLLECTIVE, collective.axis, AXIS_COUNT),
               WORD(STEP_COLLECTIVE, collective.algorithm, ALGORITHM_COUNT),
               WORD(STEP_COLLECTIVE, lane, LANE_COUNT),
               NUMBER(STEP_COLLECTIVE, collective.group),
               NUMBER(STEP_COLLECTIVE, collective.bucket),
               NUMBER(STEP_COLLECTIVE, collective.bytes),
               WORD(STEP_INPUT, lane, LANE_COUNT),
               NUMBER(STEP_INPUT, input.images),
               NUMBER(STEP_INPUT, input.bytes)};

/* Change each byte at @memory in turn. */
static void bytes_change_hash(const struct schedule *schedule, void *memory, size_t size)
{
    uint64_t hash = schedule_hash(schedule);
    for (size_t i = 0; i < size; i++) {
        ((unsigned char *)memory)[i] ^= 0x40;
        assert_int_not_equal(schedule_hash(schedule), hash);
        ((unsigned char *)memory)[i] ^= 0x40;
    }
}

static void words_change_hash(const struct schedule *schedule, int32_t *word, int32_t words)
{
    uint64_t hash = schedule_hash(schedule);
    int32_t before = *word;
    for (int32_t i = 0; i < words; i++) {
        *word = i;
        assert_int_equal(schedule_hash(schedule) == hash, i == before);
    }
    *word = before;
}

static void members_change_hash(const struct schedule *schedule, struct step *step)
{
    for (size_t i = 0; i < sizeof(visible) / sizeof(*visible); i++) {
        void *member = (char *)step + visible[i].offset;
        if (visible[i].kind == step->kind && visible[i].words)
            words_change_hash(schedule, member, visible[i].words);
        else if (visible[i].kind == step->kind)
            bytes_change_hash(schedule, member, visible[i].size);
    }
}

TEST(hash_changes_with_everything_a_back_end_reads)
{
    OWN(schedule) *schedule = one_of_each();
    for (int32_t id = 0; id < schedule->step_count; id++)
        members_change_hash(schedule, &schedule->step[id]);
    bytes_change_hash(schedule, schedule->dep, (size_t)schedule->dep_count * sizeof(struct dep));
    bytes_change_hash(schedule, &schedule->grid, sizeof(schedule->grid));
}

TEST(hash_ignores_names)
{
    OWN(schedule) *schedule = one_of_each();
    uint64_t hash = schedule_hash(schedule);
    schedule->step[0].name = "renamed";
    assert_int_equal(schedule_hash(schedule), hash);
}

/* The expected value was computed apart, from the description of the hash. */
TEST(hash_is_the_same_on_every_machine)
{
    OWN(schedule) *schedule = schedule_new(grid_of(34, 32));
    struct step step = {.lane = LANE_COMPUTE, .compute = {.flops = 1000, .bytes = 10}};
    int32_t last = schedule_add(schedule, step, NULL, 0);
    schedule_add_all_reduce(schedule, ALGORITHM_TORUS2D, 0, 0, 4194304, last);
    assert_int_equal(schedule_hash(schedule), UINT64_C(0x75c22bbc1f713c1e));
}
