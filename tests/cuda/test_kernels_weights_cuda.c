/* Kernels of gradients and weights: packing, and the optimizer against exec/step/optimizer.h. */
#include "exec/cuda/kernels/kernels.h"

#include "exec/step/half.h"
#include "exec/step/optimizer.h"
#include "tests/cuda/array.h"

/* ---- packing ---- */

/* A tensor: out, taps, in, padded_in. */
static const struct size tensors[] = {SIZE(64, 9, 24, 24), SIZE(5, 49, 3, 8), SIZE(7, 1, 20, 24),
                                      SIZE(1, 1, 10, 16),  SIZE(1, 1, 1, 8),  {0}};

/* Of two micro-batches, in a sum and on their way; of one, on its way alone. */
static void pack(const int32_t *size, enum dtype type)
{
    const struct kernel_tensor t = {
        .out = size[0], .taps = size[1], .in = size[2], .padded_in = size[3]};
    int64_t rows = (int64_t)t.out * t.taps, count = rows * t.in;
    for (enum dtype from = 0; from < DTYPE_COUNT; from++) {
        HELD(array) dw = array_random(from, rows * t.padded_in, 1, 0, 1);
        HELD(array) sum = array_blank(DTYPE_FP32, count), gradient = array_blank(type, count);
        HELD(array) alone = array_blank(type, count);
        kernel_pack(NULL, &t, from, dw.data, 1, sum.data, 0.5F, type, NULL);
        kernel_pack(NULL, &t, from, dw.data, 0, sum.data, 0.5F, type, gradient.data);
        kernel_pack(NULL, &t, from, dw.data, 1, NULL, 1, type, alone.data);
        for (int64_t i = 0; i < count; i++) {
            double want = (double)dw.value[i / t.in * t.padded_in + i % t.in];
            expect(sum, i, 2 * want, 0);
            expect(gradient, i, want, 0);
            expect(alone, i, want, 0);
        }
    }
}

/* Channels, and those without padding; the last has more than one block across. */
static const struct size norms[] = {SIZE(64, 64), SIZE(8, 3), SIZE(520, 517), {0}};

/* Likewise by kernel_pack() and beside batch norm's second pass, which several blocks share. */
static void pack_beside(const int32_t *size, enum dtype type)
{
    enum { ROWS = 5000 };
    const int32_t channels = size[0], count = size[1];
    const struct kernel_tensor t = {.out = 1, .taps = 2, .in = count, .padded_in = channels};
    HELD(array) x = array_random(DTYPE_FP16, (int64_t)ROWS * channels, 2, 0, 1);
    HELD(array) from = array_random(DTYPE_FP32, 2 * channels, 1, 0, 1);
    HELD(array) factors = array_random(DTYPE_FP32, 3 * channels, 3, 0, 1);
    HELD(array) sum = array_blank(DTYPE_FP32, 2 * count), sum_beside = array_copy(&sum);
    HELD(array) gradient = array_blank(type, 2 * count), beside = array_copy(&gradient);
    const struct {
        int32_t first;
        float share;
        bool sum, gradient;
    } calls[] = {{1, 0.5F, true, false}, {0, 0.5F, true, true}, {1, 0.25F, false, true}};
    for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
        const struct kernel_packed to = {.from = from.data,
                                         .count = count,
                                         .first = calls[i].first,
                                         .sum = calls[i].sum ? sum_beside.data : NULL,
                                         .share = calls[i].share,
                                         .type = type,
                                         .gradient = calls[i].gradient ? beside.data : NULL};
        kernel_pack(NULL, &t, DTYPE_FP32, from.data, to.first, to.sum ? sum.data : NULL, to.share,
                    type, to.gradient ? gradient.data : NULL);
        kernel_backward_apply(NULL, DTYPE_FP16, ROWS, channels, x.data, NULL, x.data, factors.data,
                              x.data, to);
        expect_same(sum_beside, sum);
        expect_same(beside, gradient);
    }
}

/* The gradients of 256 ranks, all alike, added in fp16; what is small and what is large comes out
 * exactly where they are divided by the root of 256 before, and only there. */
static void pack_for_ranks(const int32_t *size, enum dtype type)
{
    enum { RANKS = 256 };
    const int32_t divisor = size[0];
    const struct kernel_tensor tensor = {.out = 1, .taps = 1, .in = 8, .padded_in = 8};
    const double value[] = {0x1p-18, 0x1p8}; /* gradients of 2^-25 and 2, at a loss scale of 128 */
    for (int32_t large = 0; large < 2; large++) {
        double want = RANKS * value[large] / divisor;
        bool vanishes = !large && divisor == RANKS, overflows = large && divisor == 1;
        HELD(array) dw = array_random(type, 8, 1, value[large], 0), one = array_blank(type, 8);
        float sum = 0;
        kernel_pack(NULL, &tensor, type, dw.data, 1, NULL, 1 / (float)divisor, type, one.data);
        for (int32_t rank = 0; rank < RANKS; rank++) {
            sum += array_at(&one, 0);
            half_round(type, 1, &sum);
        }
        assert_int_equal((double)sum == want, !vanishes && !overflows);
        assert_int_equal(isinf(sum), overflows);
        assert_int_equal(sum == 0, vanishes);
    }
}

/* ---- optimizer ---- */

OWNED(optimizer, optimizer_free)

/* Tensors in the order of the model; in memory they lie the other way round.  Some begin where four
 * elements may be moved at once, some do not; the large one has several chunks. */
enum { TENSORS = 6 };
static const struct kernel_tensor shapes[TENSORS] = {
    {.out = 20, .taps = 49, .in = 3, .padded_in = 8, .decays = 1, .works = 1},
    {.out = 1, .taps = 1, .in = 22, .padded_in = 24},
    {.out = 61, .taps = 9, .in = 28, .padded_in = 32, .decays = 1, .works = 1},
    {.out = 64, .taps = 9, .in = 72, .padded_in = 72, .decays = 1, .works = 1},
    {.out = 10, .taps = 1, .in = 13, .padded_in = 16, .decays = 1, .works = 1},
    {.out = 1, .taps = 1, .in = 10, .padded_in = 16},
};

static int64_t elements_of(int32_t t)
{
    return (int64_t)shapes[t].out * shapes[t].taps * shapes[t].in;
}

/* What an optimizer works on. */
struct setup {
    struct kernel_tensor *tensor;
    struct kernel_chunk *chunk;
    int32_t *first_chunk;
    struct array gradient, momentum, weight, working;
    struct kernel_parameters parameters;
};

static struct setup setup_new(enum dtype gradient, enum dtype working)
{
    struct setup s = {.tensor = base_alloc(TENSORS, sizeof(*s.tensor)),
                      .first_chunk = base_alloc(TENSORS + 1, sizeof(*s.first_chunk))};
    int64_t total = 0, padded = 0;
    int32_t chunks = 0;
    memcpy(s.tensor, shapes, sizeof(shapes));
    for (int32_t t = TENSORS - 1; t >= 0; t--) {
        s.tensor[t].offset = total;
        s.tensor[t].padded = padded;
        total += elements_of(t);
        if (shapes[t].works) /* rows of `out` are padded, too */
            padded += (shapes[t].out + 7) / 8 * 8 * shapes[t].taps * shapes[t].padded_in;
    }
    s.chunk = base_alloc(total / KERNEL_CHUNK + TENSORS, sizeof(*s.chunk));
    for (int32_t t = 0; t < TENSORS; s.first_chunk[++t] = chunks)
        for (int64_t done = 0; done < elements_of(t); done += KERNEL_CHUNK) {
            int64_t left = elements_of(t) - done, at = s.tensor[t].offset + done;
            left = left < KERNEL_CHUNK ? left : KERNEL_CHUNK;
            s.chunk[chunks++] = (struct kernel_chunk){t, (int32_t)left, at, at, at, 1};
        }
    s.gradient = array_random(gradient, total, 1, 0, 20);
    s.momentum = array_random(DTYPE_FP32, total, 2, 0, 1);
    s.weight = array_random(DTYPE_FP32, total, 3, 0, 1);
    s.working = array_random(working, padded, 4, 0, 0);
    s.parameters = (struct kernel_parameters){.tensor = s.tensor,
                                              .chunk = s.chunk,
                                              .first_chunk = s.first_chunk,
                                              .tensors = TENSORS,
                                              .chunks = chunks,
                                              .gradient_type = gradient,
                                              .working_type = working,
                                              .gradient = s.gradient.data,
                                              .parameter = s.weight.data,
                                              .momentum = s.momentum.data,
                                              .working = s.working.data,
                                              .norms = base_alloc(2 * chunks, sizeof(double)),
                                              .trust = base_alloc(TENSORS, sizeof(float))};
    return s;
}

static void setup_release(struct setup *s)
{
    array_release(&s->gradient);
    array_release(&s->momentum);
    array_release(&s->weight);
    array_release(&s->working);
    free(s->tensor);
    free(s->chunk);
    free(s->first_chunk);
    free(s->parameters.norms);
    free(s->parameters.trust);
}

/* Every master's rounded copy is in its place, and everything else is 0. */
static void expect_working(const struct setup *s)
{
    HELD(array) want = array_random(s->working.type, s->working.count, 1, 0, 0);
    for (int32_t t = 0; t < TENSORS; t++)
        for (int64_t i = 0; shapes[t].works && i < elements_of(t); i++)
            array_set(&want,
                      s->tensor[t].padded + i / shapes[t].in * shapes[t].padded_in +
                          i % shapes[t].in,
                      array_at(&s->weight, s->tensor[t].offset + i));
    expect_same(s->working, want);
}

/* LARS, Nesterov, momentum [%], trust [1/1000]. */
static const struct size rules[] = {
    SIZE(0, 0, 90, 0), SIZE(0, 1, 90, 0), SIZE(1, 0, 90, 20), SIZE(1, 1, 80, 500), {0}};

static struct kernel_rule rule_of(const int32_t *size)
{
    return (struct kernel_rule){size[0], size[1], (float)size[2] / 100, (float)size[3] / 1000};
}

/* Three steps, ours and of the CPU, which works on the arrays' values. */
static void steps(const int32_t *size, enum dtype type, enum dtype working)
{
    const struct kernel_rule rule = rule_of(size);
    const double scale = 1.0 / (4 * 128);
    const struct update theirs = {.learning_rate = 0.1, .weight_decay = 1e-2, .loss_scale = 128};
    const struct kernel_update update = {
        .rate = {0.1F, 1e-2F}, .loss_scale = 128, .scale = (float)scale};
    const struct scenario scenario = {
        .training = {.optimizer = rule.lars ? OPTIMIZER_LARS : OPTIMIZER_SGD,
                     .momentum = (double)rule.momentum,
                     .trust = (double)rule.trust,
                     .nesterov = rule.nesterov}};
    HELD(setup) s = setup_new(type, working);
    struct parameter parameter[TENSORS];
    for (int32_t t = 0; t < TENSORS; t++)
        parameter[t] =
            (struct parameter){.offset = s.tensor[t].offset,
                               .elements = elements_of(t),
                               .kind = shapes[t].decays ? PARAMETER_WEIGHT : PARAMETER_SHIFT};
    const struct model model = {.tensor_count = TENSORS};
    const struct layout layout = {
        .model = &model, .parameter = parameter, .parameters = s.weight.count};
    OWN(optimizer) *optimizer =
        optimizer_new(&layout, &scenario, &(struct slice){0, layout.parameters}, 1);
    struct kernel_outcome outcome = {.loss = 5};
    HELD(array) norm = array_blank(DTYPE_FP32, 1);
    for (int32_t step = 0; step < 3; step++) {
        double want = optimizer_step(optimizer, &theirs, scale, s.gradient.value, s.momentum.value,
                                     s.weight.value)
                          .norm;
        kernel_optimizer(NULL, &s.parameters, rule, &update, &outcome);
        array_set(&norm, 0, outcome.norm);
        expect(norm, 0, want, 0);
        assert_int_equal(outcome.overflow, 0);
        assert_true(outcome.loss == 5);
    }
    for (int64_t i = 0; i < s.weight.count; i++) {
        expect(s.momentum, i, (double)s.momentum.value[i], 1e-6);
        expect(s.weight, i, (double)s.weight.value[i], 1e-6);
    }
    expect_working(&s);
}

static void optimizer(const int32_t *size, enum dtype type)
{
    steps(size, type, type);
    if (type == DTYPE_FP16)
        steps(size, type, DTYPE_FP32);
}

/* What is said beside the schedule would spoil every weight. */
static void scheduled(const int32_t *size, enum dtype type)
{
    static const int32_t iterations[] = {0, 1, 2, 3, 1000000, -1};
    struct kernel_rate rate[] = {{0.1F, 1e-2F}, {0.2F, 0}, {0.3F, 5e-2F}};
    for (size_t i = 0; i < ARRAY_SIZE(iterations); i++) {
        struct kernel_rate said =
            i < ARRAY_SIZE(rate) ? rate[i] : (struct kernel_rate){0.4F, 2e-2F};
        struct kernel_update update = {.iteration = iterations[i], .rate = said, .scale = 1};
        struct kernel_outcome found = {.loss = 5}, told = found;
        HELD(setup) s = setup_new(type, type), other = setup_new(type, type);
        kernel_optimizer(NULL, &other.parameters, rule_of(size), &update, &told);
        s.parameters.rate = rate;
        s.parameters.rate_count = ARRAY_SIZE(rate);
        if (i < ARRAY_SIZE(rate))
            update.rate = (struct kernel_rate){NAN, NAN};
        kernel_optimizer(NULL, &s.parameters, rule_of(size), &update, &found);
        expect_same(s.weight, other.weight);
        assert_memory_equal(&found, &told, sizeof(found));
        assert_memory_equal(&found.rate, &said, sizeof(said));
    }
}

/* A tensor that is 0 must start to move, or it stays so for ever. */
static void zeros(const int32_t *size, enum dtype type)
{
    const struct kernel_update update = {.rate = {0.5F, 1e-2F}, .loss_scale = 1, .scale = 1};
    struct kernel_outcome outcome;
    HELD(setup) s = setup_new(type, DTYPE_FP16);
    int64_t first = s.tensor[0].offset, end = first + elements_of(0);
    for (int64_t i = first; i < end; i++) {
        array_set(&s.weight, i, 0);
        array_set(&s.momentum, i, 0);
    }
    kernel_optimizer(NULL, &s.parameters, rule_of(size), &update, &outcome);
    for (int64_t i = first; i < end; i++)
        expect(s.weight, i, -0.5 * (double)s.gradient.value[i], 0);
}

/* An overflow changes nothing. */
static void overflow(const int32_t *size, enum dtype type)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    const struct kernel_update update = {.rate = {0.5F, 1e-2F}, .loss_scale = 1, .scale = 1};
    for (size_t k = 0; k < ARRAY_SIZE(bad); k++) {
        struct kernel_outcome outcome = {.loss = 5};
        HELD(setup) s = setup_new(type, type), before = setup_new(type, type);
        array_set(&s.gradient, s.gradient.count - 1, bad[k]);
        kernel_optimizer(NULL, &s.parameters, rule_of(size), &update, &outcome);
        assert_int_equal(outcome.overflow, 1);
        assert_false(isfinite(outcome.norm));
        assert_true(outcome.loss == 5);
        expect_same(s.weight, before.weight);
        expect_same(s.momentum, before.momentum);
    }
}

static void working(const int32_t *size, enum dtype type)
{
    (void)size;
    HELD(setup) s = setup_new(DTYPE_FP32, type);
    kernel_working(NULL, &s.parameters);
    expect_working(&s);
}
int main(void)
{
    static const struct size divisors[] = {SIZE(1), SIZE(16), SIZE(256), {0}};
    static const struct size small[] = {SIZE(1, 0, 90, 1), {0}};
    static const struct row rows[] = {
        {"gradients without padding", pack, tensors, DTYPE_FP32, DTYPE_BF16},
        {"gradients beside batch norm's second pass", pack_beside, norms, DTYPE_FP32, DTYPE_BF16},
        {"sums of 256 ranks", pack_for_ranks, divisors, DTYPE_FP16, DTYPE_FP16},
        {"steps as on the CPU", optimizer, rules, DTYPE_FP32, DTYPE_BF16},
        {"rates of a schedule", scheduled, rules, DTYPE_FP16, DTYPE_FP16},
        {"a tensor of zeros", zeros, small, DTYPE_FP32, DTYPE_FP32},
        {"an overflow", overflow, small, DTYPE_FP16, DTYPE_FP16},
        {"working copies", working, small, DTYPE_FP32, DTYPE_BF16}};
    return rows_run(rows, ARRAY_SIZE(rows));
}
