#include "tests/child.h"
#include "tests/cuda/conv_loops.h"
#include "tests/cuda/conv_operands.h"
#include "tests/cuda/fake/fake_cudnn.h"
#include "tests/cuda/fake/fake_runtime.h"
#include "tests/test.h"

/* Finding, keeping and running plans, as on a GPU, over a cuDNN and a CUDA runtime in software. */

static const struct conv_shape shapes[] = {
    {DTYPE_FP32, 3, 8, 9, 9, 16, 9, 9, 3, 1, 1},  {DTYPE_FP32, 2, 16, 8, 8, 8, 4, 4, 1, 2, 0},
    {DTYPE_FP16, 2, 8, 14, 14, 8, 7, 7, 7, 2, 3}, {DTYPE_BF16, 5, 24, 1, 1, 16, 1, 1, 1, 1, 0},
    {DTYPE_FP16, 2, 8, 6, 5, 24, 3, 3, 3, 2, 1},  {DTYPE_FP16, 2, 4, 14, 14, 8, 7, 7, 7, 2, 3},
};
enum { SHAPES = ARRAY_SIZE(shapes) };

static const char cache[] = "conv_plans_cache";

static int enter(void **state)
{
    (void)state;
    fake_cudnn = (struct fake_cudnn){0};
    fake_capacity((size_t)64 << 20); /* no room to flush caches: there are none */
    unlink(cache);
    return fake_objects() != 0;
}

/* Whatever happened, nothing is left behind. */
static int leave(void **state)
{
    (void)state;
    unlink(cache);
    unlink("conv_plans_cache.lock");
    unlink("conv_plans_cache-tuned");
    unlink("conv_plans_cache-tuned.lock");
    return fake_objects() != 0 || fake_cudnn.alive != 0;
}

OWNED(conv_library, conv_close)

static struct conv_library *open_for(const char *path, bool tunes)
{
    struct conv_library *library = NULL;
    assert_int_equal(conv_open(&library, path, tunes, &err), 0);
    return library;
}

static struct conv_library *open_library(const char *path)
{
    return open_for(path, false);
}

/* As another process would, which cuDNN has seen nothing of. */
static void reopen(struct conv_library **library, const char *path, bool tunes)
{
    conv_close(*library);
    fake_cudnn = (struct fake_cudnn){0};
    *library = open_for(path, tunes);
}

static const struct conv_plan *plan_of(struct conv_library *library, enum conv_op op,
                                       const struct conv_shape *shape)
{
    const struct conv_plan *plan = conv_plan(library, op, shape, &err);
    assert_ok(err.count == 0, err);
    return plan;
}

/* What a plan runs on, and for how long by the device's clock. */
struct used {
    enum fake_engine engine;
    double seconds;
};

/* Of @plan for @shape in one run, which is not counted. */
static struct used use(const struct conv_plan *plan, const struct conv_shape *shape)
{
    const struct fake_cudnn before = fake_cudnn;
    struct used used = {FAKE_ENGINES, 0};
    float milliseconds = 0;
    cudaStream_t stream;
    cudaEvent_t event[2];
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), 0);
    HELD(operands) operands = operands_of(shape, conv_workspace(plan));
    for (int32_t i = 0; i < 2; i++) {
        assert_int_equal(cudaEventCreate(&event[i]), 0);
        if (i == 1)
            conv_run(plan, stream, &operands.call);
        assert_int_equal(cudaEventRecord(event[i], stream), 0);
    }
    assert_int_equal(cudaStreamSynchronize(stream), 0);
    assert_int_equal(cudaEventElapsedTime(&milliseconds, event[0], event[1]), 0);
    for (int32_t i = 0; i < 2; i++)
        cudaEventDestroy(event[i]);
    cudaStreamDestroy(stream);
    for (enum fake_engine i = 0; i < FAKE_ENGINES; i++)
        if (fake_cudnn.runs[i] > before.runs[i])
            used.engine = i;
    fake_cudnn = before;
    used.seconds = (double)milliseconds * 1e-3;
    return used;
}

/* ---- plans ---- */

/* An element that is off by two units in its last place is not let through; nor is NaN. */
TEST(samples_are_judged_by_the_type)
{
    static const double unit[] = {
        [DTYPE_FP32] = 0x1p-23, [DTYPE_FP16] = 0x1p-10, [DTYPE_BF16] = 0x1p-7};
    for (enum dtype t = 0; t < DTYPE_COUNT; t++) {
        struct conv_sample sample = {.want = 1.0, .size = 1.0};
        assert_true(conv_is_right(t, &sample, 1.0 + unit[t] / 2));
        assert_false(t != DTYPE_FP32 && conv_is_right(t, &sample, 1.0 + 2 * unit[t]));
        assert_false(conv_is_right(t, &sample, 1.0 + 0x1p-16 + unit[t]));
        assert_false(conv_is_right(t, &sample, -1.0));
        assert_false(conv_is_right(t, &sample, (double)strtof("nan", NULL)));
    }
}

/* Of the engines the one is taken that is right, steady, affordable and then the fastest. */
TEST_WITH(the_fastest_right_engine_is_found, enter, leave)
{
    OWN(conv_library) *library = open_library(NULL);
    int64_t plans = 0;
    for (int32_t i = 0; i < SHAPES; i++)
        for (enum conv_op op = 0; op < CONV_OP_COUNT; op++) {
            const struct conv_plan *plan = plan_of(library, op, &shapes[i]);
            plans++;
            struct used used = use(plan, &shapes[i]);
            assert_int_equal(used.engine, FAKE_FAST);
            assert_true(used.seconds < 1.0); /* with its knob at 4 it takes twice that */
            assert_ptr_equal(plan, plan_of(library, op, &shapes[i]));
        }
    /* What takes twice the time of a right one is timed, in 6 runs, and not looked at. */
    assert_int_equal(fake_cudnn.runs[FAKE_SLOW], 6 * plans);
    assert_int_equal(fake_cudnn.runs[FAKE_WORKSPACE], 6 * plans);
    assert_int_equal(fake_cudnn.runs[FAKE_UNSTEADY], 0); /* not even tried */
    assert_int_equal(fake_cudnn.runs[FAKE_HUGE], 0);
    assert_true(fake_cudnn.runs[FAKE_WRONG] > 0 && fake_cudnn.runs[FAKE_FICKLE] > 0);
    assert_true(fake_cudnn.runs[FAKE_UNCAPTURED] > 0);
}

/* What was timed before patience ended may all be wrong: then the search goes on. */
TEST_WITH(the_search_goes_on_until_one_is_right, enter, leave)
{
    for (int32_t i = 0; i < FAKE_ENGINES; i++)
        fake_cudnn.hidden[i] = i != FAKE_WRONG && i != FAKE_SLOW;
    fake_cudnn.waits = true; /* patience ends with the first engine */
    OWN(conv_library) *library = open_library(NULL);
    assert_int_equal(use(plan_of(library, CONV_FORWARD, &shapes[0]), &shapes[0]).engine, FAKE_SLOW);
}

/* What a plan computes is what the loops compute, on any stream. */
TEST_WITH(plans_compute_what_they_should, enter, leave)
{
    fake_cudnn.hidden[FAKE_FAST] = true; /* leaves the one with a workspace */
    OWN(conv_library) *library = open_library(NULL);
    cudaStream_t stream;
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), 0);
    for (int32_t i = 0; i < SHAPES; i++)
        for (enum conv_op op = 0; op < CONV_OP_COUNT; op++) {
            const struct conv_plan *plan = plan_of(library, op, &shapes[i]);
            assert_int_equal(conv_workspace(plan), FAKE_WORKSPACE_BYTES);
            HELD(operands) got = operands_of(&shapes[i], conv_workspace(plan));
            struct conv_call want = conv_call_of(got.host, NULL);
            conv_run(plan, stream, &got.call);
            assert_int_equal(cudaStreamSynchronize(stream), 0);
            conv_loops(op, &shapes[i], &want);
            for (int32_t a = 0; a < CONV_ARRAY_COUNT; a++)
                assert_memory_equal(got.array[a], got.host[a], got.bytes[a]);
        }
    cudaStreamDestroy(stream);
}

static int64_t all_runs(void)
{
    int64_t runs = 0;
    for (int32_t i = 0; i < FAKE_ENGINES; i++)
        runs += fake_cudnn.runs[i];
    return runs;
}

/* The second time nothing is asked and nothing timed; the engine and its knob are the same. */
TEST_WITH(a_plan_in_the_file_is_not_looked_for_again, enter, leave)
{
    OWN(conv_library) *library = open_library(cache);
    double seconds = use(plan_of(library, CONV_FORWARD, &shapes[0]), &shapes[0]).seconds;
    reopen(&library, cache, false);
    struct used used = use(plan_of(library, CONV_FORWARD, &shapes[0]), &shapes[0]);
    assert_int_equal(used.engine, FAKE_FAST);
    assert_true(fabs(used.seconds - seconds) < 0.05); /* it is real time that adds */
    assert_int_equal(fake_cudnn.questions, 0);
    assert_int_equal(all_runs(), 1); /* so that it can be captured */
    assert_int_equal(fake_cudnn.runs[FAKE_FAST], 1);
}

TEST_WITH(a_plan_that_works_no_more_is_found_anew, enter, leave)
{
    OWN(conv_library) *library = open_library(cache);
    plan_of(library, CONV_BACKWARD_FILTER, &shapes[4]);
    for (int32_t kind = 0; kind < 2; kind++) {
        reopen(&library, cache, false);
        fake_cudnn.unbuilt[FAKE_FAST] = true;
        fake_cudnn.unrun[FAKE_WORKSPACE] = kind == 1;
        const struct conv_plan *plan = plan_of(library, CONV_BACKWARD_FILTER, &shapes[4]);
        assert_int_equal(use(plan, &shapes[4]).engine, kind ? FAKE_SLOW : FAKE_WORKSPACE);
        assert_true(fake_cudnn.questions > 0);
    }
    reopen(&library, cache, false); /* the file has the later one */
    assert_int_equal(use(plan_of(library, CONV_BACKWARD_FILTER, &shapes[4]), &shapes[4]).engine,
                     FAKE_SLOW);
    assert_int_equal(fake_cudnn.questions, 0);
}

/* Ranks that search at the same time go on with the plan of whoever is first. */
TEST_WITH(ranks_of_one_file_take_the_same_plan, enter, leave)
{
    OWN(conv_library) *first = open_library(cache), *second = open_library(cache);
    OWN(conv_library) *third = open_library(cache);
    plan_of(first, CONV_FORWARD, &shapes[0]);
    fake_cudnn.hidden[FAKE_FAST] = true; /* would take another, left to itself */
    fake_cudnn.runs[FAKE_WORKSPACE] = 0;
    const struct conv_plan *plan = plan_of(second, CONV_FORWARD, &shapes[0]);
    assert_int_equal(use(plan, &shapes[0]).engine, FAKE_FAST);
    assert_true(fake_cudnn.runs[FAKE_WORKSPACE] > 0); /* it did search */
    fake_cudnn.unbuilt[FAKE_FAST] =
        true; /* and what cannot do as the first does, does what it can */
    plan = plan_of(third, CONV_FORWARD, &shapes[0]);
    assert_int_equal(use(plan, &shapes[0]).engine, FAKE_WORKSPACE);
}

static void assert_seconds(struct conv_library *library, enum conv_op op, double seconds)
{
    double got = use(plan_of(library, op, &shapes[4]), &shapes[4]).seconds;
    assert_true(got >= seconds && got < seconds + 0.05); /* it is real time that adds */
}

/* Two settings together are 0.4 times as slow, one of them alone is no gain; another value is
 * faster still, and wrong.  What was found is the start, and neither is sought again. */
TEST_WITH(settings_of_engines_are_varied, enter, leave)
{
    OWN(conv_library) *library = open_library(cache);
    assert_seconds(library, CONV_FORWARD, 0.5);
    reopen(&library, cache, true);
    assert_seconds(library, CONV_FORWARD, 0.2);
    assert_int_equal(fake_cudnn.questions, 0);
    assert_seconds(library, CONV_BACKWARD_DATA, 0.2);
    assert_int_equal(fake_cudnn.questions, 3); /* this one was not known */
    reopen(&library, cache, true);
    assert_seconds(library, CONV_FORWARD, 0.2);
    assert_int_equal(all_runs(), 1);
    reopen(&library, cache, false); /* the other file is as it was */
    assert_seconds(library, CONV_FORWARD, 0.5);
    assert_int_equal(all_runs(), 1);
}

TEST_WITH(an_engine_without_settings_stays, enter, leave)
{
    OWN(conv_library) *library = open_for(NULL, true);
    fake_cudnn.hidden[FAKE_FAST] = true;
    assert_seconds(library, CONV_FORWARD, 1);
    assert_true(fake_cudnn.runs[FAKE_WORKSPACE] > 0);
}

/* No engine is an answer, too, and kept. */
TEST_WITH(that_there_is_no_engine_is_no_fault, enter, leave)
{
    for (int32_t i = 0; i < FAKE_ENGINES; i++)
        fake_cudnn.hidden[i] = i != FAKE_UNBUILT;
    for (int32_t round = 0; round < 2; round++) {
        OWN(conv_library) *library = open_library(cache);
        fake_cudnn.questions = 0;
        assert_null(plan_of(library, CONV_FORWARD, &shapes[2]));
        assert_null(plan_of(library, CONV_FORWARD, &shapes[2]));
        assert_int_equal(fake_cudnn.questions, round ? 0 : 3);
    }
}

static void assert_refused(struct conv_library *library, enum conv_op op,
                           const struct conv_shape *shape, const char *says)
{
    assert_null(conv_plan(library, op, shape, &err));
    assert_int_equal(err.count, 1);
    assert_message(&err, 69, says);
}

TEST_WITH(engines_that_are_all_wrong_are_a_fault, enter, leave)
{
    for (int32_t i = 0; i < FAKE_ENGINES; i++)
        fake_cudnn.hidden[i] = i != FAKE_WRONG;
    OWN(conv_library) *library = open_library(cache);
    assert_refused(library, CONV_BACKWARD_DATA, &shapes[0], "give wrong results");
    memset(fake_cudnn.hidden, 0, sizeof fake_cudnn.hidden);
    fake_cudnn.unwritten = true; /* wherever that is */
    for (enum conv_op op = 0; op < CONV_OP_COUNT; op++)
        assert_refused(library, op, &shapes[4], "give wrong results");
}

static int search(const void *op)
{
    OWN(conv_library) *library = open_library(NULL);
    conv_plan(library, *(const enum conv_op *)op, &shapes[4], NULL);
    return 0;
}

/* A search for @op says both on stderr; NULL: it says nothing. */
static void assert_says(enum conv_op op, const char *first, const char *second)
{
    HELD(text) said = {0};
    assert_int_equal(child_run(search, &op, STDERR_FILENO, &said), 0);
    assert_int_equal(said.length > 0, first != NULL);
    if (!first)
        return;
    assert_has(said.data, first);
    assert_has(said.data, second);
}

/* What is wrong should be seen in the first run on a GPU. */
TEST_WITH(what_is_wrong_with_engines_is_told, enter, leave)
{
    fake_cudnn.hidden[FAKE_WRONG] = true;
    assert_says(CONV_FORWARD, "some give wrong results", "another run's element ");
    fake_cudnn.hidden[FAKE_WRONG] = false;
    fake_cudnn.hidden[FAKE_FICKLE] = true;
    assert_says(CONV_FORWARD, "(forward, fp16, 8 x 6 x 5 to 24 x 3 x 3, window 3, batch 2)",
                "some give wrong results: element 431 is");
    fake_cudnn.hidden[FAKE_WRONG] = true;
    assert_says(CONV_FORWARD, NULL, NULL);
    for (int32_t i = 0; i < FAKE_ENGINES; i++)
        fake_cudnn.unrun[i] = true;
    assert_says(CONV_FORWARD, "none can be used: ", "cuDNN cannot run a convolution: ");
    for (int32_t i = 0; i < FAKE_ENGINES; i++)
        fake_cudnn.unbuilt[i] = true;
    assert_says(CONV_FORWARD, "none can be used: ", "no plan can be made");
}

TEST_WITH(too_little_memory_is_told, enter, leave)
{
    OWN(conv_library) *library = open_library(NULL);
    fake_capacity(1000);
    assert_refused(library, CONV_FORWARD, &shapes[0], "get memory for the operands on the GPU");
    assert_int_equal(cudaGetLastError(), cudaSuccess); /* nobody else sees the fault */
    fake_capacity((size_t)64 << 20);
    assert_non_null(plan_of(library, CONV_FORWARD, &shapes[0]));
}

TEST_WITH(a_shape_that_does_not_fit_is_told, enter, leave)
{
    OWN(conv_library) *library = open_library(NULL);
    struct conv_shape shape = shapes[0];
    shape.out_height++;
    assert_refused(library, CONV_FORWARD, &shape, "cuDNN cannot");
}

TEST_WITH(says_why_it_does_not_start, enter, leave)
{
    static const char *const says[] = {"no NVIDIA GPU can be used for convolutions",
                                       "cuDNN cannot start on this GPU: CUDNN_STATUS_IN_SOFTWARE"};
    for (int32_t i = 0; i < 2; i++) {
        struct conv_library *library = NULL;
        fake_devices(i);
        fake_cudnn.no_start = i == 1;
        assert_int_equal(conv_open(&library, NULL, false, &err), -1);
        assert_null(library);
        assert_message(&err, 69, says[i]);
    }
}

static int run_what_fails(const void *plan)
{
    HELD(operands) o = operands_of(&shapes[0], conv_workspace(plan));
    fake_cudnn.unrun[FAKE_FAST] = true;
    conv_run(plan, NULL, &o.call);
    return 0;
}

TEST_WITH(a_plan_that_fails_later_ends_the_process, enter, leave)
{
    HELD(text) said = {0};
    OWN(conv_library) *library = open_library(NULL);
    const struct conv_plan *plan = plan_of(library, CONV_FORWARD, &shapes[0]);
    assert_int_equal(child_run(run_what_fails, plan, STDERR_FILENO, &said), 70);
}
