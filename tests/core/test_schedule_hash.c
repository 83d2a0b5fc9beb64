#include "core/schedule/schedule.h"

#include <stddef.h>
#include <stdio.h>

#include "tests/core/own.h"
#include "tests/test.h"

static struct schedule *one_of_each(void)
{
    struct schedule *schedule = schedule_new((struct grid){.columns = 4, .rows = 2});
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
    snprintf(schedule->step[0].name, sizeof(schedule->step[0].name), "renamed");
    assert_int_equal(schedule_hash(schedule), hash);
}

/* The expected value was computed apart, from the description of the hash. */
TEST(hash_is_the_same_on_every_machine)
{
    OWN(schedule) *schedule = schedule_new((struct grid){.columns = 34, .rows = 32});
    struct step step = {.lane = LANE_COMPUTE, .compute = {.flops = 1000, .bytes = 10}};
    int32_t last = schedule_add(schedule, step, NULL, 0);
    schedule_add_all_reduce(schedule, ALGORITHM_TORUS2D, 0, 0, 4194304, last);
    assert_int_equal(schedule_hash(schedule), UINT64_C(0x75c22bbc1f713c1e));
}
