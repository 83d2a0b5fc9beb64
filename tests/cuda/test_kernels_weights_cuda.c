/* Kernels of gradients and weights: packing, and the optimizer against exec/step/optimizer.h. */
#define OWN_MAIN
#include "exec/cuda/kernels/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "exec/step/half.h"
#include "exec/step/optimizer.h"
#include "tests/cuda/array.h"
#include "tests/cuda/fake/emulate_order.h"
#include "tests/test.h"

/* ---- packing ---- */

static void check_pack(struct kernel_tensor tensor, enum dtype from, enum dtype type)
{
    int64_t count = (int64_t)tensor.out * tensor.taps * tensor.in;
    struct array dw =
        array_random(from, (int64_t)tensor.out * tensor.taps * tensor.padded_in, 1, 0, 1);
    struct array sum = array_blank(DTYPE_FP32, count), gradient = array_blank(type, count);
    struct array alone = array_blank(type, count);
    kernel_pack(NULL, &tensor, from, dw.data, 1, sum.data, 0.5F, type, NULL);
    kernel_pack(NULL, &tensor, from, dw.data, 0, sum.data, 0.5F, type, gradient.data);
    kernel_pack(NULL, &tensor, from, dw.data, 1, NULL, 1, type, alone.data);
    array_widen(&sum);
    array_widen(&gradient);
    array_widen(&alone);
    for (int64_t i = 0; i < count; i++) {
        double want = (double)dw.value[i / tensor.in * tensor.padded_in + i % tensor.in];
        array_expect("sum", i, DTYPE_FP32, sum.value[i], 2 * want, 0);
        array_expect("gradient", i, type, gradient.value[i], want, 0);
        array_expect("gradient alone", i, type, alone.value[i], want, 0);
    }
    array_free(&dw);
    array_free(&sum);
    array_free(&gradient);
    array_free(&alone);
}

TEST(gradients_lose_their_padding)
{
    static const struct kernel_tensor tensors[] = {
        {.out = 64, .taps = 9, .in = 24, .padded_in = 24},
        {.out = 5, .taps = 49, .in = 3, .padded_in = 8},
        {.out = 7, .taps = 1, .in = 20, .padded_in = 24},
        {.out = 1, .taps = 1, .in = 10, .padded_in = 16},
        {.out = 1, .taps = 1, .in = 1, .padded_in = 8},
    };
    for (size_t i = 0; i < sizeof(tensors) / sizeof(*tensors); i++)
        for (int32_t pair = 0; pair < DTYPE_COUNT * DTYPE_COUNT; pair++)
            check_pack(tensors[i], (enum dtype)(pair % DTYPE_COUNT),
                       (enum dtype)(pair / DTYPE_COUNT));
}

/* @count of @channels channels, of two micro-batches and of one: once by kernel_pack(), once beside
 * batch norm's second pass, which several blocks share. */
static void check_pack_beside(enum dtype type, int32_t channels, int32_t count)
{
    enum { ROWS = 5000 };
    struct array from = array_random(DTYPE_FP32, 2 * channels, 1, 0, 1);
    struct array x = array_random(DTYPE_FP16, (int64_t)ROWS * channels, 2, 0, 1);
    struct array factors = array_random(DTYPE_FP32, 3 * (int64_t)channels, 3, 0, 1);
    struct array sum[2], gradient[2], alone[2];
    const struct kernel_tensor tensor = {.out = 1, .taps = 2, .in = count, .padded_in = channels};
    for (int32_t beside = 0; beside < 2; beside++) {
        sum[beside] = array_blank(DTYPE_FP32, 2 * count);
        gradient[beside] = array_blank(type, 2 * count);
        alone[beside] = array_blank(type, 2 * count);
        const struct kernel_packed to[] = {
            {from.data, count, 1, sum[beside].data, 0.5F, type, NULL},
            {from.data, count, 0, sum[beside].data, 0.5F, type, gradient[beside].data},
            {from.data, count, 1, NULL, 0.25F, type, alone[beside].data}};
        for (int32_t i = 0; i < 3; i++)
            if (beside)
                kernel_backward_apply(NULL, DTYPE_FP16, ROWS, channels, x.data,
                                      (struct kernel_cut){0}, x.data, factors.data, x.data, to[i]);
            else
                kernel_pack(NULL, &tensor, DTYPE_FP32, to[i].from, to[i].first, to[i].sum,
                            to[i].share, type, to[i].gradient);
    }
    const size_t size = 2 * (size_t)count * (size_t)dtype_size(type);
    assert_memory_equal(sum[0].data, sum[1].data, 2 * (size_t)count * sizeof(float));
    assert_memory_equal(gradient[0].data, gradient[1].data, size);
    assert_memory_equal(alone[0].data, alone[1].data, size);
    struct array *all[] = {&from,        &x,           &factors,  &sum[0],  &sum[1],
                           &gradient[0], &gradient[1], &alone[0], &alone[1]};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        array_free(all[i]);
}

TEST(gradients_of_batch_norm_are_packed_beside_its_second_pass)
{
    for (enum dtype type = 0; type < DTYPE_COUNT; type++) {
        check_pack_beside(type, 64, 64);
        check_pack_beside(type, 8, 3);
        check_pack_beside(type, 520, 517); /* more than one block across */
    }
}

/* The gradients of 256 ranks, all alike, added in fp16; what is small and what is large comes out
 * exactly where they are divided by the root of 256 before, and only there. */
TEST(sums_of_256_ranks_neither_vanish_nor_overflow)
{
    enum { RANKS = 256 };
    const struct kernel_tensor tensor = {.out = 1, .taps = 1, .in = 8, .padded_in = 8};
    const double value[] = {0x1p-18, 0x1p8}; /* gradients of 2^-25 and 2, at a loss scale of 128 */
    static const float shares[] = {1, 1 / 16.0F, 1 / 256.0F};
    for (int32_t i = 0; i < 6; i++) {
        double want = RANKS * value[i % 2] * (double)shares[i / 2];
        struct array dw = array_random(DTYPE_FP16, 8, 1, value[i % 2], 0);
        struct array one = array_blank(DTYPE_FP16, 8);
        kernel_pack(NULL, &tensor, DTYPE_FP16, dw.data, 1, NULL, shares[i / 2], DTYPE_FP16,
                    one.data);
        array_widen(&one);
        float sum = 0;
        for (int32_t rank = 0; rank < RANKS; rank++) {
            sum += one.value[0];
            half_round(DTYPE_FP16, 1, &sum);
        }
        bool lost = i == 1 || i == 4; /* overflow of all, underflow of each */
        assert_int_equal((double)sum == want, !lost);
        assert_int_equal(isinf(sum), i == 1);
        assert_int_equal(sum == 0, i == 4);
        array_free(&dw);
        array_free(&one);
    }
}

/* ---- optimizer ---- */

/* Tensors in the order of the model; in memory they lie the other way round.  Some
 * begin where four elements may be moved at once, some do not; the large one has several chunks. */
enum { TENSORS = 6 };

static const struct kernel_tensor shapes[TENSORS] = {
    {.out = 20, .taps = 49, .in = 3, .padded_in = 8, .decays = 1, .works = 1},
    {.out = 1, .taps = 1, .in = 22, .padded_in = 24},
    {.out = 61, .taps = 9, .in = 28, .padded_in = 32, .decays = 1, .works = 1},
    {.out = 64, .taps = 9, .in = 72, .padded_in = 72, .decays = 1, .works = 1},
    {.out = 10, .taps = 1, .in = 13, .padded_in = 16, .decays = 1, .works = 1},
    {.out = 1, .taps = 1, .in = 10, .padded_in = 16},
};

static int64_t elements_of(const struct kernel_tensor *tensor)
{
    return (int64_t)tensor->out * tensor->taps * tensor->in;
}

/* One optimizer, ours and the one of the CPU, and what they work on. */
struct setup {
    struct kernel_tensor tensor[TENSORS];
    int32_t first_chunk[TENSORS + 1];
    struct kernel_chunk *chunk;
    struct kernel_parameters parameters;
    struct array gradient, momentum, weight, working; /* ours */
    struct model model;
    struct parameter parameter[TENSORS];
    struct layout layout;
    struct scenario scenario;
    float *cpu_momentum, *cpu_weight;
    int64_t total, padded;
};

static void lay_out(struct setup *s)
{
    for (int32_t t = TENSORS - 1; t >= 0; t--) {
        s->tensor[t] = shapes[t];
        s->tensor[t].offset = s->total;
        s->tensor[t].padded = s->padded;
        s->parameter[t] =
            (struct parameter){.offset = s->total,
                               .elements = elements_of(&shapes[t]),
                               .kind = shapes[t].decays ? PARAMETER_WEIGHT : PARAMETER_SHIFT};
        s->total += elements_of(&shapes[t]);
        if (shapes[t].works) /* rows of `out` are padded, too */
            s->padded += (shapes[t].out + 7) / 8 * 8 * shapes[t].taps * shapes[t].padded_in;
    }
    s->layout =
        (struct layout){.model = &s->model, .parameter = s->parameter, .parameters = s->total};
    s->model.tensor_count = TENSORS;
}

static void cut_chunks(struct setup *s)
{
    int32_t count = 0;
    s->chunk = base_alloc(s->total / KERNEL_CHUNK + TENSORS, sizeof(*s->chunk));
    for (int32_t t = 0; t < TENSORS; t++) {
        int64_t all = elements_of(&shapes[t]);
        s->first_chunk[t] = count;
        for (int64_t done = 0; done < all; done += KERNEL_CHUNK) {
            int64_t left = all - done, offset = s->tensor[t].offset + done;
            s->chunk[count++] = (struct kernel_chunk){
                .tensor = t,
                .elements = (int32_t)(left < KERNEL_CHUNK ? left : KERNEL_CHUNK),
                .offset = offset,
                .parameter = offset,
                .momentum = offset,
                .own = 1};
        }
    }
    s->first_chunk[TENSORS] = count;
}

static void set_up(struct setup *s, enum dtype gradient, enum dtype working)
{
    *s = (struct setup){0};
    lay_out(s);
    cut_chunks(s);
    int32_t chunks = s->first_chunk[TENSORS];
    s->gradient = array_random(gradient, s->total, 1, 0, 20);
    s->momentum = array_random(DTYPE_FP32, s->total, 2, 0, 1);
    s->weight = array_random(DTYPE_FP32, s->total, 3, 0, 1);
    s->working = array_random(working, s->padded, 4, 0, 0);
    s->cpu_momentum = base_alloc(s->total, sizeof(float));
    s->cpu_weight = base_alloc(s->total, sizeof(float));
    memcpy(s->cpu_momentum, s->momentum.data, (size_t)s->total * sizeof(float));
    memcpy(s->cpu_weight, s->weight.data, (size_t)s->total * sizeof(float));
    s->parameters = (struct kernel_parameters){
        .tensor = s->tensor,
        .chunk = s->chunk,
        .first_chunk = s->first_chunk,
        .tensors = TENSORS,
        .chunks = chunks,
        .gradient_type = gradient,
        .working_type = working,
        .gradient = s->gradient.data,
        .parameter = s->weight.data,
        .momentum = s->momentum.data,
        .working = s->working.data,
        .norms = base_alloc(2 * chunks, sizeof(double)),
        .trust = base_alloc(TENSORS, sizeof(float)),
    };
}

static void tear_down(struct setup *s)
{
    array_free(&s->gradient);
    array_free(&s->momentum);
    array_free(&s->weight);
    array_free(&s->working);
    free(s->chunk);
    free(s->cpu_momentum);
    free(s->cpu_weight);
    free(s->parameters.norms);
    free(s->parameters.trust);
}

/* Every master's rounded copy is in its place, and everything else is 0. */
static void expect_working(struct setup *s)
{
    float *want = base_alloc(s->padded, sizeof(*want));
    for (int32_t t = 0; t < TENSORS; t++) {
        const struct kernel_tensor *tensor = &s->tensor[t];
        for (int64_t i = 0; tensor->works && i < elements_of(tensor); i++)
            want[tensor->padded + i / tensor->in * tensor->padded_in + i % tensor->in] =
                s->weight.value[tensor->offset + i];
    }
    if (s->working.type != DTYPE_FP32)
        half_round(s->working.type, s->padded, want);
    array_widen(&s->working);
    assert_memory_equal(want, s->working.value, (size_t)s->padded * sizeof(*want));
    free(want);
}

/* Three steps of both. */
static void check_steps(enum dtype gradient, enum dtype working, struct kernel_rule rule)
{
    struct setup s;
    const struct update update = {.learning_rate = 0.1, .weight_decay = 1e-2, .loss_scale = 128};
    const double scale = 1.0 / (4 * 128);
    set_up(&s, gradient, working);
    s.scenario.training.optimizer = rule.lars ? OPTIMIZER_LARS : OPTIMIZER_SGD;
    s.scenario.training.momentum = (double)rule.momentum;
    s.scenario.training.trust = (double)rule.trust;
    s.scenario.training.nesterov = rule.nesterov;
    struct optimizer *optimizer = optimizer_new(&s.layout, &s.scenario);
    const struct kernel_update ours = {
        .rate = {0.1F, 1e-2F}, .loss_scale = 128, .scale = (float)scale};
    struct kernel_outcome got = {.loss = 5};
    for (int32_t step = 0; step < 3; step++) {
        struct outcome want = optimizer_step(optimizer, &update, scale, s.gradient.value,
                                             s.cpu_momentum, s.cpu_weight);
        kernel_optimizer(NULL, &s.parameters, rule, &ours, &got);
        array_expect("norm", step, DTYPE_FP32, got.norm, want.norm, 0);
        assert_int_equal(got.overflow, 0);
        assert_true(got.loss == 5);
    }
    array_widen(&s.momentum);
    array_widen(&s.weight);
    for (int64_t i = 0; i < s.total; i++) {
        array_expect("momentum", i, DTYPE_FP32, s.momentum.value[i], (double)s.cpu_momentum[i],
                     1e-6);
        array_expect("weight", i, DTYPE_FP32, s.weight.value[i], (double)s.cpu_weight[i], 1e-6);
    }
    expect_working(&s);
    optimizer_free(optimizer);
    tear_down(&s);
}

TEST(steps_as_on_the_cpu)
{
    static const struct kernel_rule rules[] = {
        {0, 0, 0.9F, 0}, {0, 1, 0.9F, 0}, {1, 0, 0.9F, 0.02F}, {1, 1, 0.8F, 0.5F}};
    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
        check_steps(DTYPE_FP32, DTYPE_FP32, rules[i]);
        check_steps(DTYPE_FP16, DTYPE_FP16, rules[i]);
        check_steps(DTYPE_FP16, DTYPE_FP32, rules[i]);
        check_steps(DTYPE_BF16, DTYPE_BF16, rules[i]);
    }
}

/* The weights after one step that reads @update, with a schedule of @count rates. */
static struct array step_once(struct kernel_rule rule, const struct kernel_rate *rate,
                              int32_t count, struct kernel_update update,
                              struct kernel_outcome *outcome)
{
    struct setup s;
    set_up(&s, DTYPE_FP16, DTYPE_FP16);
    s.parameters.rate = rate;
    s.parameters.rate_count = count;
    kernel_optimizer(NULL, &s.parameters, rule, &update, outcome);
    struct array weight = array_copy(&s.weight);
    tear_down(&s);
    return weight;
}

/* What is said beside the schedule would spoil every weight. */
static void check_lookup(struct kernel_rule rule, int32_t iteration)
{
    struct kernel_rate rate[] = {{0.1F, 1e-2F}, {0.2F, 0}, {0.3F, 5e-2F}}, said = {0.4F, 2e-2F};
    struct kernel_outcome found = {.loss = 5}, told = {.loss = 5};
    struct kernel_update update = {.iteration = iteration, .rate = said, .scale = 1};
    if (iteration >= 0 && iteration < 3) {
        said = rate[iteration];
        update.rate = (struct kernel_rate){NAN, NAN};
    }
    struct array weight = step_once(rule, rate, 3, update, &found);
    update.rate = said;
    struct array want = step_once(rule, NULL, 0, update, &told);
    assert_memory_equal(weight.data, want.data, (size_t)want.count * sizeof(float));
    assert_memory_equal(&found, &told, sizeof(found));
    assert_memory_equal(&found.rate, &said, sizeof(said));
    array_free(&weight);
    array_free(&want);
}

TEST(the_rate_of_an_iteration_is_looked_up)
{
    static const int32_t iterations[] = {0, 1, 2, 3, 1000000, -1};
    for (size_t i = 0; i < sizeof(iterations) / sizeof(*iterations); i++) {
        check_lookup((struct kernel_rule){0, 0, 0.9F, 0}, iterations[i]);
        check_lookup((struct kernel_rule){1, 1, 0.9F, 0.02F}, iterations[i]);
    }
}

/* A tensor that is 0 must start to move, or it stays so for ever. */
TEST(a_tensor_of_zeros_steps_as_in_sgd)
{
    struct setup s;
    const struct kernel_update update = {.rate = {0.5F, 1e-2F}, .loss_scale = 1, .scale = 1};
    struct kernel_outcome outcome;
    set_up(&s, DTYPE_FP32, DTYPE_FP16);
    float *weight = s.weight.data, *momentum = s.momentum.data;
    int64_t first = s.tensor[0].offset, count = elements_of(&shapes[0]);
    memset(weight + first, 0, (size_t)count * sizeof(float));
    memset(momentum + first, 0, (size_t)count * sizeof(float));
    kernel_optimizer(NULL, &s.parameters, (struct kernel_rule){1, 0, 0.9F, 0.001F}, &update,
                     &outcome);
    for (int64_t i = first; i < first + count; i++)
        assert_true(weight[i] == -0.5F * s.gradient.value[i]);
    tear_down(&s);
}

TEST(an_overflow_changes_nothing)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    const struct kernel_update update = {.rate = {0.5F, 1e-2F}, .loss_scale = 1, .scale = 1};
    for (int32_t k = 0; k < 3; k++) {
        struct setup s;
        struct kernel_outcome outcome = {.loss = 5};
        set_up(&s, DTYPE_FP16, DTYPE_FP16);
        struct array weight = array_copy(&s.weight), momentum = array_copy(&s.momentum);
        half_from_float(DTYPE_FP16, 1, &bad[k], (uint16_t *)s.gradient.data + s.total - 1);
        kernel_optimizer(NULL, &s.parameters, (struct kernel_rule){1, 0, 0.9F, 0.001F}, &update,
                         &outcome);
        assert_int_equal(outcome.overflow, 1);
        assert_false(isfinite(outcome.norm));
        assert_true(outcome.loss == 5);
        assert_memory_equal(weight.data, s.weight.data, (size_t)s.total * sizeof(float));
        assert_memory_equal(momentum.data, s.momentum.data, (size_t)s.total * sizeof(float));
        array_free(&weight);
        array_free(&momentum);
        tear_down(&s);
    }
}

TEST(working_copies_are_filled_from_masters)
{
    for (int32_t type = 0; type < DTYPE_COUNT; type++) {
        struct setup s;
        set_up(&s, DTYPE_FP32, (enum dtype)type);
        kernel_working(NULL, &s.parameters);
        expect_working(&s);
        tear_down(&s);
    }
}

int main(void)
{
    int failed = cmocka_run_group_tests_name("threads in order", tests, NULL, NULL);
    emulate_backwards(true);
    return failed + cmocka_run_group_tests_name("threads in reverse", tests, NULL, NULL);
}
