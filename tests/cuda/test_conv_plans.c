#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <stdio.h>
#include <sys/wait.h>

#include "core/base.h"
#include "exec/cuda/conv_check.h"
#include "exec/half.h"
#include "tests/cuda/conv_loops.h"
#include "tests/cuda/fake_cudnn.h"
#include "tests/cuda/fake_runtime.h"

/* Finding, keeping and running plans, as on a GPU, over a cuDNN and a CUDA runtime in software. */

static const struct conv_shape shapes[] = {
    {DTYPE_FP32, 3, 8, 9, 9, 16, 9, 9, 3, 1, 1},  {DTYPE_FP32, 2, 16, 8, 8, 8, 4, 4, 1, 2, 0},
    {DTYPE_FP16, 2, 8, 14, 14, 8, 7, 7, 7, 2, 3}, {DTYPE_BF16, 5, 24, 1, 1, 16, 1, 1, 1, 1, 0},
    {DTYPE_FP16, 2, 8, 6, 5, 24, 3, 3, 3, 2, 1},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

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
    return fake_objects() != 0 || fake_cudnn.alive != 0;
}

static struct conv_library *open_library(const char *path)
{
    struct conv_library *library = NULL;
    struct err err = {0};
    assert_int_equal(conv_open(&library, path, &err), 0);
    return library;
}

static const struct conv_plan *plan_of(struct conv_library *library, enum conv_op op,
                                       const struct conv_shape *shape)
{
    struct err err = {0};
    const struct conv_plan *plan = conv_plan(library, op, shape, &err);
    if (err.count)
        fail_msg("%s", err.text);
    return plan;
}

/* ---- what results must be ---- */

static double element(enum dtype type, const void *array, int64_t index)
{
    float wide;
    if (type == DTYPE_FP32)
        return (double)((const float *)array)[index];
    half_to_float(type, 1, (const uint16_t *)array + index, &wide);
    return (double)wide;
}

/* @array of @shape full of its pattern, on the device of software. */
static void *filled(const struct conv_shape *shape, enum conv_array array)
{
    int64_t count = conv_elements(shape, array);
    float *pattern = conv_pattern(shape->type, array);
    void *to = NULL;
    assert_int_equal(cudaMalloc(&to, (size_t)count * (size_t)dtype_size(shape->type)), 0);
    for (int64_t i = 0; i < count; i++)
        if (shape->type == DTYPE_FP32)
            ((float *)to)[i] = pattern[i % CONV_PATTERN];
        else
            half_from_float(shape->type, 1, &pattern[i % CONV_PATTERN], (uint16_t *)to + i);
    free(pattern);
    return to;
}

/* Operands of any op on @shape. */
struct operands {
    void *array[CONV_ARRAY_COUNT], *workspace;
    float *sums;
    struct conv_call call;
};

static struct operands operands_of(const struct conv_shape *shape, size_t workspace)
{
    struct operands o = {0};
    for (int32_t i = 0; i < CONV_ARRAY_COUNT; i++)
        o.array[i] = filled(shape, (enum conv_array)i);
    assert_int_equal(cudaMalloc(&o.workspace, workspace + 1), 0);
    assert_int_equal(cudaMalloc((void **)&o.sums, 2 * (size_t)shape->out_channels * sizeof *o.sums),
                     0);
    o.call = (struct conv_call){.x = o.array[0],
                                .dx = o.array[0],
                                .w = o.array[1],
                                .dw = o.array[1],
                                .y = o.array[2],
                                .dy = o.array[2],
                                .factors = o.array[3],
                                .sums = o.sums,
                                .workspace = o.workspace};
    return o;
}

static void release(struct operands *o)
{
    for (int32_t i = 0; i < CONV_ARRAY_COUNT; i++)
        cudaFree(o->array[i]);
    cudaFree(o->workspace);
    cudaFree(o->sums);
}

static void assert_samples(enum conv_op op, const struct conv_shape *shape,
                           const struct operands *o)
{
    struct conv_sample sample[CONV_SAMPLES];
    conv_samples(op, shape, sample);
    for (int32_t i = 0; i < CONV_SAMPLES; i++)
        assert_true(
            conv_is_right(shape->type, &sample[i],
                          element(shape->type, o->array[conv_written(op)], sample[i].index)));
}

/* The host's way to compute an element and the loops agree, for every op, shape and type. */
static void samples_are_what_loops_compute(void **state)
{
    (void)state;
    for (int32_t i = 0; i < SHAPES; i++)
        for (int32_t type = 0; type < DTYPE_COUNT; type++)
            for (int32_t op = 0; op < CONV_OP_COUNT; op++) {
                struct conv_shape shape = shapes[i];
                shape.type = (enum dtype)type;
                struct operands o = operands_of(&shape, 0);
                conv_loops((enum conv_op)op, &shape, &o.call);
                assert_samples((enum conv_op)op, &shape, &o);
                release(&o);
            }
}

/* An element that is off by two units in its last place is not let through; nor is NaN. */
static void samples_are_judged_by_the_type(void **state)
{
    (void)state;
    static const double unit[] = {
        [DTYPE_FP32] = 0x1p-23, [DTYPE_FP16] = 0x1p-10, [DTYPE_BF16] = 0x1p-7};
    for (int32_t type = 0; type < DTYPE_COUNT; type++) {
        struct conv_sample sample = {.want = 1.0, .size = 1.0};
        enum dtype t = (enum dtype)type;
        assert_true(conv_is_right(t, &sample, 1.0 + unit[type] / 2));
        assert_false(t != DTYPE_FP32 && conv_is_right(t, &sample, 1.0 + 2 * unit[type]));
        assert_false(conv_is_right(t, &sample, 1.0 + 0x1p-16 + unit[type]));
        assert_false(conv_is_right(t, &sample, -1.0));
        assert_false(conv_is_right(t, &sample, (double)strtof("nan", NULL)));
    }
    assert_true(conv_sum_is_right(10000, 0.0, 10000.0, 0.27));
    assert_false(conv_sum_is_right(10000, 0.0, 10000.0, 0.28));
}

/* ---- plans ---- */

/* Of the engines the one is taken that is right, steady, affordable and then the fastest. */
static void the_fastest_right_engine_is_found(void **state)
{
    (void)state;
    struct conv_library *library = open_library(NULL);
    for (int32_t i = 0; i < SHAPES; i++)
        for (int32_t op = 0; op < CONV_OP_COUNT; op++) {
            const struct conv_plan *plan = plan_of(library, (enum conv_op)op, &shapes[i]);
            if (conv_optional((enum conv_op)op) && shapes[i].type != DTYPE_FP16) {
                assert_null(plan);
                continue;
            }
            assert_string_equal(conv_engine(plan), "engine 1, Winograd");
            assert_true(conv_seconds(plan) < 1.0); /* with its knob at 4 it takes twice that */
            assert_ptr_equal(plan, plan_of(library, (enum conv_op)op, &shapes[i]));
        }
    assert_int_equal(fake_cudnn.runs[FAKE_UNSTEADY], 0); /* not even tried */
    assert_int_equal(fake_cudnn.runs[FAKE_HUGE], 0);
    assert_true(fake_cudnn.runs[FAKE_WRONG] > 0 && fake_cudnn.runs[FAKE_FICKLE] > 0);
    assert_true(fake_cudnn.runs[FAKE_UNCAPTURED] > 0);
    conv_close(library);
}

/* What a plan computes is what the loops compute, sums and all, on any stream. */
static void plans_compute_what_they_should(void **state)
{
    (void)state;
    fake_cudnn.hidden[FAKE_FAST] = true; /* leaves the one with a workspace */
    struct conv_library *library = open_library(NULL);
    cudaStream_t stream;
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), 0);
    for (int32_t i = 0; i < SHAPES; i++)
        for (int32_t op = 0; op < CONV_OP_COUNT; op++) {
            const struct conv_plan *plan = plan_of(library, (enum conv_op)op, &shapes[i]);
            if (!plan)
                continue;
            assert_int_equal(conv_workspace(plan), FAKE_WORKSPACE_BYTES);
            struct operands got = operands_of(&shapes[i], conv_workspace(plan));
            struct operands want = operands_of(&shapes[i], 0);
            conv_run(plan, stream, &got.call);
            assert_int_equal(cudaStreamSynchronize(stream), 0);
            conv_loops((enum conv_op)op, &shapes[i], &want.call);
            for (int32_t a = 0; a < CONV_ARRAY_COUNT; a++)
                assert_memory_equal(got.array[a], want.array[a],
                                    (size_t)conv_elements(&shapes[i], (enum conv_array)a) *
                                        (size_t)dtype_size(shapes[i].type));
            if (conv_sums((enum conv_op)op))
                assert_memory_equal(got.sums, want.sums,
                                    2 * (size_t)shapes[i].out_channels * sizeof *got.sums);
            release(&got);
            release(&want);
        }
    cudaStreamDestroy(stream);
    conv_close(library);
}

static int64_t all_runs(void)
{
    int64_t runs = 0;
    for (int32_t i = 0; i < FAKE_ENGINES; i++)
        runs += fake_cudnn.runs[i];
    return runs;
}

/* The second time nothing is asked and nothing timed; the engine and its knob are the same. */
static void a_plan_in_the_file_is_not_looked_for_again(void **state)
{
    (void)state;
    struct conv_library *library = open_library(cache);
    double seconds = conv_seconds(plan_of(library, CONV_FORWARD, &shapes[0]));
    conv_close(library);
    fake_cudnn = (struct fake_cudnn){0};
    library = open_library(cache);
    const struct conv_plan *plan = plan_of(library, CONV_FORWARD, &shapes[0]);
    assert_string_equal(conv_engine(plan), "engine 1, Winograd");
    assert_true(conv_seconds(plan) > seconds * 0.999999 && conv_seconds(plan) < seconds * 1.000001);
    assert_int_equal(fake_cudnn.questions, 0);
    assert_int_equal(all_runs(), 1); /* so that it can be captured */
    assert_int_equal(fake_cudnn.runs[FAKE_FAST], 1);
    conv_close(library);
}

static void a_plan_that_works_no_more_is_found_anew(void **state)
{
    (void)state;
    struct conv_library *library = open_library(cache);
    plan_of(library, CONV_BACKWARD_FILTER, &shapes[4]);
    conv_close(library);
    for (int32_t kind = 0; kind < 2; kind++) {
        fake_cudnn = (struct fake_cudnn){0};
        fake_cudnn.unbuilt[FAKE_FAST] = true;
        fake_cudnn.unrun[FAKE_WORKSPACE] = kind == 1;
        library = open_library(cache);
        const struct conv_plan *plan = plan_of(library, CONV_BACKWARD_FILTER, &shapes[4]);
        assert_string_equal(conv_engine(plan), kind ? "engine 0, Winograd" : "engine 8, Winograd");
        assert_true(fake_cudnn.questions > 0);
        conv_close(library);
    }
    fake_cudnn = (struct fake_cudnn){0};
    library = open_library(cache); /* the file has the later one */
    assert_string_equal(conv_engine(plan_of(library, CONV_BACKWARD_FILTER, &shapes[4])),
                        "engine 0, Winograd");
    assert_int_equal(fake_cudnn.questions, 0);
    conv_close(library);
}

/* Ranks that search at the same time go on with the plan of whoever is first. */
static void ranks_of_one_file_take_the_same_plan(void **state)
{
    (void)state;
    struct conv_library *first = open_library(cache), *second = open_library(cache);
    struct conv_library *third = open_library(cache);
    plan_of(first, CONV_FORWARD, &shapes[0]);
    fake_cudnn.hidden[FAKE_FAST] = true; /* would take another, left to itself */
    fake_cudnn.runs[FAKE_WORKSPACE] = 0;
    const struct conv_plan *plan = plan_of(second, CONV_FORWARD, &shapes[0]);
    assert_string_equal(conv_engine(plan), "engine 1, Winograd");
    assert_true(fake_cudnn.runs[FAKE_WORKSPACE] > 0); /* it did search */
    fake_cudnn.unbuilt[FAKE_FAST] =
        true; /* and what cannot do as the first does, does what it can */
    plan = plan_of(third, CONV_FORWARD, &shapes[0]);
    assert_string_equal(conv_engine(plan), "engine 8, Winograd");
    conv_close(first);
    conv_close(second);
    conv_close(third);
}

/* No engine is an answer, too, and kept. */
static void that_there_is_no_engine_is_no_fault(void **state)
{
    (void)state;
    for (int32_t i = 0; i < FAKE_ENGINES; i++)
        fake_cudnn.hidden[i] = i != FAKE_UNBUILT;
    for (int32_t round = 0; round < 2; round++) {
        struct conv_library *library = open_library(cache);
        fake_cudnn.questions = 0;
        assert_null(plan_of(library, CONV_FORWARD_SUMS, &shapes[2]));
        assert_null(plan_of(library, CONV_FORWARD_SUMS, &shapes[2]));
        assert_int_equal(fake_cudnn.questions, round ? 0 : 3);
        conv_close(library);
    }
}

/* Says what it was told, and counts how often it was asked. */
struct clock {
    double seconds;
    int32_t asked;
};

static double look(void *context)
{
    struct clock *clock = context;
    clock->asked++;
    return clock->seconds;
}

/* A pass is timed once, also in later runs; where it cannot be, it is asked for again. */
static void a_pass_is_timed_once(void **state)
{
    (void)state;
    struct clock clock = {0, 0};
    for (int32_t round = 0; round < 2; round++) {
        struct conv_library *library = open_library(cache);
        for (int32_t i = 0; i < 3; i++) {
            clock.seconds = round == 0 && i == 0 ? 0 : 0.5 + i + round;
            double want = round == 0 && i == 0 ? 0 : 1.5;
            assert_true(conv_pass_seconds(library, CONV_PASS_APPLY, &shapes[2], look, &clock) ==
                        want);
        }
        assert_int_equal(clock.asked, 2);
        conv_close(library);
    }
}

/* Change @count numbers in fp16 by a sixteenth. */
static void stretch(int64_t count, uint16_t *numbers)
{
    float wide;
    for (int64_t i = 0; i < count; i++) {
        half_to_float(DTYPE_FP16, 1, &numbers[i], &wide);
        wide *= 1.0625F;
        half_from_float(DTYPE_FP16, 1, &wide, &numbers[i]);
    }
}

/* An engine with another scale, shift or sign is not let through, nor one that is a little off. */
static void samples_see_what_is_applied(void **state)
{
    (void)state;
    static const enum conv_op op[] = {CONV_FORWARD_APPLIED_SUMS, CONV_BACKWARD_FILTER_APPLIED};
    const struct conv_shape *shape = &shapes[4];
    for (int32_t i = 0; i < 2; i++)
        for (int32_t fault = 0; fault < 5; fault++) {
            struct operands o = operands_of(shape, 0);
            struct conv_sample sample[CONV_SAMPLES];
            uint16_t *factors = o.array[CONV_ARRAY_FACTORS], *x = o.array[CONV_ARRAY_X];
            int32_t wrong = 0;
            for (int32_t c = 0; fault == 1 && c < shape->in_channels; c++)
                factors[c] = 0x3c00; /* scale 1 */
            for (int32_t c = 0; fault == 2 && c < shape->in_channels; c++)
                factors[shape->in_channels + c] = 0;
            for (int64_t k = 0; fault == 3 && k < conv_elements(shape, CONV_ARRAY_X); k++)
                x[k] &= 0x7fff; /* no sign */
            if (fault == 4)
                stretch(2 * (int64_t)shape->in_channels, factors);
            conv_loops(op[i], shape, &o.call);
            conv_samples(op[i], shape, sample);
            const void *got = o.array[conv_written(op[i])];
            for (int32_t k = 0; k < CONV_SAMPLES; k++)
                wrong += !conv_is_right(shape->type, &sample[k],
                                        element(shape->type, got, sample[k].index));
            assert_true(fault ? wrong >= CONV_SAMPLES / 2 : wrong == 0);
            release(&o);
        }
}

static void assert_refused(struct conv_library *library, enum conv_op op,
                           const struct conv_shape *shape, const char *says)
{
    struct err err = {0};
    assert_null(conv_plan(library, op, shape, &err));
    assert_int_equal(err.count, 1);
    assert_int_equal(err.exit_code, 69);
    if (!strstr(err.text, says))
        fail_msg("expected \"%s\" in: %s", says, err.text);
    err_release(&err);
}

static void engines_that_are_all_wrong_are_a_fault(void **state)
{
    (void)state;
    for (int32_t i = 0; i < FAKE_ENGINES; i++)
        fake_cudnn.hidden[i] = i != FAKE_WRONG;
    struct conv_library *library = open_library(cache);
    assert_refused(library, CONV_BACKWARD_DATA, &shapes[0], "do not compute what they should");
    for (int32_t op = 0; op < CONV_OP_COUNT; op++)
        if (conv_optional((enum conv_op)op)) /* use another op */
            assert_null(plan_of(library, (enum conv_op)op, &shapes[2]));
    conv_close(library);
}

static void too_little_memory_is_told(void **state)
{
    (void)state;
    struct conv_library *library = open_library(NULL);
    fake_capacity(1000);
    assert_refused(library, CONV_FORWARD, &shapes[0], "get memory for the operands on the GPU");
    assert_int_equal(cudaGetLastError(), cudaSuccess); /* nobody else sees the fault */
    fake_capacity((size_t)64 << 20);
    assert_non_null(plan_of(library, CONV_FORWARD, &shapes[0]));
    conv_close(library);
}

static void a_shape_that_does_not_fit_is_told(void **state)
{
    (void)state;
    struct conv_library *library = open_library(NULL);
    struct conv_shape shape = shapes[0];
    shape.out_height++;
    assert_refused(library, CONV_FORWARD, &shape, "cuDNN cannot");
    conv_close(library);
}

static void says_why_it_does_not_start(void **state)
{
    (void)state;
    static const char *const says[] = {"no NVIDIA GPU can be used for convolutions",
                                       "cuDNN cannot start on this GPU: CUDNN_STATUS_IN_SOFTWARE"};
    for (int32_t i = 0; i < 2; i++) {
        struct conv_library *library = NULL;
        struct err err = {0};
        fake_devices(i);
        fake_cudnn.no_start = i == 1;
        assert_int_equal(conv_open(&library, NULL, &err), -1);
        assert_null(library);
        assert_int_equal(err.exit_code, 69);
        if (!strstr(err.text, says[i]))
            fail_msg("expected \"%s\" in: %s", says[i], err.text);
        err_release(&err);
    }
}

static void a_plan_that_fails_later_ends_the_process(void **state)
{
    (void)state;
    struct conv_library *library = open_library(NULL);
    const struct conv_plan *plan = plan_of(library, CONV_FORWARD, &shapes[0]);
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct operands o = operands_of(&shapes[0], conv_workspace(plan));
        fake_cudnn.unrun[FAKE_FAST] = true;
        conv_run(plan, NULL, &o.call);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 70);
    conv_close(library);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(samples_are_what_loops_compute, enter, leave),
        cmocka_unit_test_setup_teardown(samples_are_judged_by_the_type, enter, leave),
        cmocka_unit_test_setup_teardown(the_fastest_right_engine_is_found, enter, leave),
        cmocka_unit_test_setup_teardown(plans_compute_what_they_should, enter, leave),
        cmocka_unit_test_setup_teardown(a_plan_in_the_file_is_not_looked_for_again, enter, leave),
        cmocka_unit_test_setup_teardown(a_plan_that_works_no_more_is_found_anew, enter, leave),
        cmocka_unit_test_setup_teardown(ranks_of_one_file_take_the_same_plan, enter, leave),
        cmocka_unit_test_setup_teardown(that_there_is_no_engine_is_no_fault, enter, leave),
        cmocka_unit_test_setup_teardown(a_pass_is_timed_once, enter, leave),
        cmocka_unit_test_setup_teardown(samples_see_what_is_applied, enter, leave),
        cmocka_unit_test_setup_teardown(engines_that_are_all_wrong_are_a_fault, enter, leave),
        cmocka_unit_test_setup_teardown(too_little_memory_is_told, enter, leave),
        cmocka_unit_test_setup_teardown(a_shape_that_does_not_fit_is_told, enter, leave),
        cmocka_unit_test_setup_teardown(a_plan_that_fails_later_ends_the_process, enter, leave),
        cmocka_unit_test_setup_teardown(says_why_it_does_not_start, enter, leave),
    };
    return cmocka_run_group_tests_name("conv_plans", tests, NULL, NULL);
}
