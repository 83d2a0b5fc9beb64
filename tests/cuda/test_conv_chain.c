#include <math.h>

#include "exec/cuda/conv/conv_chain.h"
#include "exec/cuda/conv/conv_clock.h"
#include "tests/cuda/conv_naive.h"
#include "tests/cuda/fake/fake_runtime.h"
#include "tests/test.h"

/* Times of chains, on the clock of CUDA in software. */

static const struct conv_shape shape = {DTYPE_FP16, 1, 8, 4, 4, 16, 4, 4, 3, 1, 1};

/* What an op takes; so long that what the machine is busy with is no matter. */
static double takes(enum conv_op op)
{
    return 1000 << op;
}

/* The convolutions of each chain. */
static const enum conv_op contents[CONV_CHAIN_COUNT][2] = {
    [CONV_CHAIN_FORWARD] = {CONV_FORWARD, CONV_OP_COUNT},
    [CONV_CHAIN_FORWARD_SUMS] = {CONV_FORWARD_SUMS, CONV_OP_COUNT},
    [CONV_CHAIN_APPLY_FORWARD] = {CONV_FORWARD, CONV_BACKWARD_FILTER},
    [CONV_CHAIN_APPLY_FORWARD_SUMS] = {CONV_FORWARD_SUMS, CONV_BACKWARD_FILTER},
    [CONV_CHAIN_APPLIED] = {CONV_FORWARD_APPLIED_SUMS, CONV_BACKWARD_FILTER_APPLIED},
    [CONV_CHAIN_IMAGES] = {CONV_FORWARD_SUMS, CONV_BACKWARD_FILTER},
    [CONV_CHAIN_IMAGES_NARROW] = {CONV_FORWARD_SUMS, CONV_BACKWARD_FILTER},
    [CONV_CHAIN_END] = {CONV_FORWARD_SUMS, CONV_OP_COUNT},
    [CONV_CHAIN_END_MERGED] = {CONV_FORWARD_ADD_SUMS, CONV_OP_COUNT},
    [CONV_CHAIN_END_TWO] = {CONV_FORWARD_SUMS, CONV_OP_COUNT},
    [CONV_CHAIN_END_TWO_MERGED] = {CONV_FORWARD_ADD_TWO_SUMS, CONV_OP_COUNT},
    [CONV_CHAIN_BACKWARD] = {CONV_BACKWARD_DATA, CONV_OP_COUNT},
    [CONV_CHAIN_BACKWARD_CUT] = {CONV_BACKWARD_DATA, CONV_OP_COUNT},
    [CONV_CHAIN_BACKWARD_NORM] = {CONV_BACKWARD_DATA_NORM, CONV_OP_COUNT},
    [CONV_CHAIN_BACKWARD_ADD] = {CONV_BACKWARD_DATA, CONV_OP_COUNT},
    [CONV_CHAIN_BACKWARD_ADD_NORM] = {CONV_BACKWARD_DATA_ADD_NORM, CONV_OP_COUNT},
    [CONV_CHAIN_BACKWARD_ADD_TWO] = {CONV_BACKWARD_DATA, CONV_OP_COUNT},
    [CONV_CHAIN_BACKWARD_ADD_NORMS] = {CONV_BACKWARD_DATA_ADD_NORMS, CONV_OP_COUNT},
};

/* Those of a pool, behind them, have none. */
enum { CONVOLVING = CONV_CHAIN_POOL };

static void measure(uint32_t wanted, double seconds[CONV_CHAIN_COUNT])
{
    const struct conv_plan *plan[CONV_OP_COUNT];
    struct conv_library *library;
    struct err err = {0};
    assert_int_equal(conv_open(&library, NULL, false, &err), 0);
    for (int32_t op = 0; op < CONV_OP_COUNT; op++)
        plan[op] = conv_plan(library, (enum conv_op)op, &shape, &err);
    struct conv_chain_job job = {plan, shape, plan};
    assert_int_equal(conv_chain_measure(&job, wanted, seconds), 0);
    conv_close(library);
    assert_int_equal(fake_objects(), 0);
}

/* A chain takes what its convolutions take, whichever are timed beside it; the first run does not
 * count. */
TEST(a_chain_is_what_it_contains)
{
    const uint32_t all = (1 << CONVOLVING) - 1;
    double seconds[CONV_CHAIN_COUNT];
    for (uint32_t wanted = 1; wanted <= all; wanted = 2 * wanted + 1) {
        conv_naive = (struct conv_naive){.once = 1e6};
        for (int32_t op = 0; op < CONV_OP_COUNT; op++)
            conv_naive.takes[op] = takes((enum conv_op)op);
        measure(wanted, seconds);
        for (int32_t i = 0; wanted >> i & 1; i++) {
            const enum conv_op *op = contents[i];
            double want = takes(op[0]) + (op[1] < CONV_OP_COUNT ? takes(op[1]) : 0);
            assert_true(fabs(seconds[i] - want) < 100);
        }
    }
    int64_t each = CONV_CLOCK_ROUNDS * (CONV_CLOCK_RUNS + 1); /* of the last round: */
    assert_int_equal(conv_naive.runs[CONV_FORWARD], 2 * each);
    assert_int_equal(conv_naive.runs[CONV_BACKWARD_FILTER], 4 * each);
    assert_int_equal(conv_naive.runs[CONV_BACKWARD_DATA], 4 * each);
    assert_int_equal(conv_naive.runs[CONV_BACKWARD_DATA_NORM], each);
    assert_int_equal(conv_naive.runs[CONV_BACKWARD_DATA_ADD_NORM], each);
    assert_int_equal(conv_naive.runs[CONV_BACKWARD_DATA_ADD_NORMS], each);
    assert_int_equal(conv_naive.runs[CONV_FORWARD_APPLIED_SUMS], each);
    assert_int_equal(conv_naive.runs[CONV_FORWARD_SUMS], 6 * each);
    assert_int_equal(conv_naive.runs[CONV_FORWARD_ADD_SUMS], each);
    assert_int_equal(conv_naive.runs[CONV_FORWARD_ADD_TWO_SUMS], each);
}

TEST(without_room_nothing_is_known)
{
    double seconds[CONV_CHAIN_COUNT];
    const struct conv_plan *plan[CONV_OP_COUNT] = {NULL};
    struct conv_chain_job job = {plan, shape, NULL};
    fake_capacity(1000);
    assert_int_equal(conv_chain_measure(&job, 3, seconds), -1);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(fake_objects(), 0);
}
