#include "exec/measure/timing.h"

#include "core/schedule/iteration.h"
#include "exec/cpu/device_naive.h"
#include "exec/cpu/stream.h"
#include "exec/measure/devices.h"
#include "exec/step/half.h"
#include "exec/world/world.h"
#include "tests/core/own.h"
#include "tests/test.h"

/* One rank of many, which has the sums of all at once. */
static const struct exec_world many = {.rank = 3, .ranks = 40, .local_rank = 1};

/* What the transport was asked for last, and what it is to do. */
static struct {
    enum dtype payload;
    int64_t elements;
    float sum; /* that it leaves in every element */
} transport;

const struct device_ops device_naive_ops = {.name = "cpu-naive"};

struct exec_world world_self(void)
{
    return many;
}

void world_barrier(void)
{
}

void world_sum(double *value, int32_t count)
{
    (void)value;
    (void)count;
}

void world_max(int64_t *value, int32_t count)
{
    (void)value;
    (void)count;
}

void world_broadcast(void *data, int64_t bytes, int32_t root)
{
    (void)data;
    (void)bytes;
    (void)root;
}

void world_progress(const char *what)
{
    (void)what;
}

static struct comm_state *open_nothing(struct grid grid, int32_t ctas)
{
    assert_int_equal(ctas, 0);
    (void)grid;
    return NULL;
}

static void close_nothing(struct comm_state *state)
{
    (void)state;
}

/* Sums of the numbers at a place and below must be ones that 16 bits hold. */
static void check_and_sum(struct comm_state *state, struct stream *stream, enum axis axis,
                          const struct collective *collective, enum dtype payload, void *data)
{
    (void)state;
    (void)stream;
    (void)axis;
    float *number = data;
    float of_this_rank = 0;
    transport.payload = payload;
    transport.elements = collective->elements;
    for (int64_t i = 0; i < collective->elements; i++) {
        of_this_rank += number[i];
        assert_true(number[i] == (float)(int32_t)number[i] && number[i] <= 16);
        number[i] = transport.sum;
    }
    assert_true(of_this_rank > 0);
}

static const struct comm_ops fake = {
    .name = "fake", .open = open_nothing, .close = close_nothing, .issue = check_and_sum};

const struct comm_ops *transport_find(const char *device)
{
    assert_string_equal(device, "cpu-naive");
    return &fake;
}

/* Time an all-reduce of @bytes that leaves @sum. */
static int32_t time_one(int64_t bytes, enum dtype payload, float sum)
{
    struct timing_sample sample[2 * TIMING_BOUND];
    OWN(schedule) *schedule = iteration_build_all_reduce(
        (struct all_reduce){.algorithm = ALGORITHM_RING}, grid_of(40, 1), 1, bytes, &err);
    assert_non_null(schedule);
    transport.elements = 0;
    transport.sum = sum;
    return timing_run(schedule, payload, 2, sample, &err);
}

static const float whole = 136; /* 1 + 2 + ... + 16 */

TEST(numbers_travel_in_the_bytes_that_were_asked_for)
{
    for (enum dtype payload = 0; payload < DTYPE_COUNT; payload++) {
        assert_in_range(time_one(4000, payload, whole), 2, 2 * TIMING_BOUND);
        assert_int_equal(transport.payload, payload);
        assert_int_equal(transport.elements, payload == DTYPE_FP32 ? 1000 : 2000);
    }
}

TEST(every_type_holds_every_sum)
{
    for (float sum = 0; sum <= whole; sum++) {
        float fp16 = sum, bf16 = sum;
        half_round(DTYPE_FP16, 1, &fp16);
        half_round(DTYPE_BF16, 1, &bf16);
        assert_true(fp16 == sum && bf16 == sum);
    }
}

TEST(refuses_bytes_that_are_no_numbers)
{
    static const struct {
        enum dtype payload;
        int64_t bytes;
        const char *message;
    } wrong[] = {{DTYPE_FP32, 4002, "4002 B are not whole fp32 numbers: give a multiple of 4"},
                 {DTYPE_FP16, 4001, "4001 B are not whole fp16 numbers: give a multiple of 2"},
                 {DTYPE_BF16, 4003, "4003 B are not whole bf16 numbers: give a multiple of 2"}};
    for (int32_t i = 0; i < 3; i++) {
        assert_fails(time_one(wrong[i].bytes, wrong[i].payload, whole), 64, wrong[i].message);
        assert_int_equal(transport.elements, 0);
    }
}

TEST(a_wrong_sum_is_found)
{
    for (enum dtype payload = 0; payload < DTYPE_COUNT; payload++) {
        assert_fails(time_one(4000, payload, whole - 1), 70,
                     payload == DTYPE_FP32 ? "wrong in 1000" : "wrong in 2000");
    }
}
