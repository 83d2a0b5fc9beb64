#include "exec/step/optimizer.h"

#include <omp.h>

#include "tests/test.h"

OWNED(optimizer, optimizer_free)

/* A network of four tensors of awkward sizes, one of several blocks, not in memory's order. */
enum { TENSORS = 4, TOTAL = 70000 + 37 + 5 + 20011, MOMENTS = 2 * TOTAL };

static const int64_t sizes[TENSORS] = {70000, 37, 5, 20011};
static const enum parameter_kind kinds[TENSORS] = {PARAMETER_WEIGHT, PARAMETER_SCALE,
                                                   PARAMETER_BIAS, PARAMETER_WEIGHT};

/* One optimizer and what it works on. */
struct setup {
    struct model model;
    struct parameter parameter[TENSORS];
    struct layout layout;
    struct scenario scenario;
    struct update update;
    double scale;
    float *gradient, *momentum, *weight;
};

static float *random_numbers(uint64_t seed, double size)
{
    float *array = base_alloc(MOMENTS, sizeof(*array));
    for (int64_t i = 0; i < TOTAL; i++)
        array[i] = (float)((base_uniform(seed, 0, (uint64_t)i, 0) - 0.5) * size);
    for (int64_t i = 0; i < TOTAL; i++)
        array[TOTAL + i] = array[i] * array[i]; /* second moments */
    return array;
}

static void set_up(struct setup *s, enum optimizer_kind kind, bool nesterov)
{
    *s = (struct setup){
        .model.tensor_count = TENSORS, .update = {0.1, 1e-3, 128}, .scale = 1.0 / (4 * 128)};
    s->scenario.training.optimizer = kind;
    s->scenario.training.momentum = 0.9;
    s->scenario.training.beta2 = 0.99;
    s->scenario.training.trust = 0.02;
    s->scenario.training.nesterov = nesterov;
    int64_t end = TOTAL;
    for (int32_t t = 0; t < TENSORS; t++) {
        end -= sizes[t];
        s->parameter[t] = (struct parameter){.offset = end, .elements = sizes[t], .kind = kinds[t]};
    }
    s->layout = (struct layout){.model = &s->model, .parameter = s->parameter, .parameters = TOTAL};
    s->gradient = random_numbers(1, 100);
    s->momentum = random_numbers(2, 1);
    s->weight = random_numbers(3, 1);
}

static void setup_release(struct setup *s)
{
    free(s->gradient);
    free(s->momentum);
    free(s->weight);
}

/* Of all parameters. */
static struct optimizer *optimizer_of(const struct setup *s)
{
    return optimizer_new(&s->layout, &s->scenario, &(struct slice){0, TOTAL}, 1);
}

static struct outcome step(struct setup *s, struct optimizer *optimizer)
{
    return optimizer_step(optimizer, &s->update, s->scale, s->gradient, s->momentum, s->weight);
}

static double norm_of(const float *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

/* Step @t of one tensor with AdamW or LAMB. */
static void refer_adaptively(const struct setup *s, struct parameter p, int32_t t, double *m,
                             double *w)
{
    bool weight = p.kind == PARAMETER_WEIGHT,
         lamb = s->scenario.training.optimizer != OPTIMIZER_ADAMW;
    double norm = norm_of(s->gradient, TOTAL) * s->scale, w_norm = 0, u_norm = 0;
    double clip = s->scenario.training.clip, scale = s->scale;
    scale *= clip > 0 && norm > clip ? clip / (norm + 1e-6) : 1;
    AUTOFREE double *u = base_alloc(p.elements, sizeof(*u));
    for (int64_t i = 0; i < p.elements; i++) {
        double *first = m + p.offset + i, *second = first + TOTAL, *here = w + p.offset + i;
        double g = scale * (double)s->gradient[p.offset + i];
        *first = 0.9 * *first + 0.1 * g;
        *second = 0.99 * *second + 0.01 * g * g;
        u[i] = *first / (1 - pow(0.9, t)) /
               (sqrt(*second / (1 - pow(0.99, t))) + (lamb ? 1e-6 : 1e-8));
        u[i] += weight ? s->update.weight_decay * *here : 0;
        w_norm += *here * *here;
        u_norm += u[i] * u[i];
    }
    double trust = lamb && weight ? sqrt(w_norm / u_norm) : 1;
    for (int64_t i = 0; i < p.elements; i++)
        w[p.offset + i] -= s->update.learning_rate * trust * u[i];
}

/* Step @t of one tensor, as the header defines it, in fp64. */
static void refer(const struct setup *s, int32_t tensor, int32_t t, double *v, double *w)
{
    struct parameter p = s->parameter[tensor];
    bool weight = p.kind == PARAMETER_WEIGHT;
    if (s->scenario.training.optimizer > OPTIMIZER_LARS) {
        refer_adaptively(s, p, t, v, w);
        return;
    }
    double decay = weight ? s->update.weight_decay : 0, trust = 1;
    if (weight && s->scenario.training.optimizer == OPTIMIZER_LARS) {
        double w_norm = 0, g_norm = s->scale * norm_of(s->gradient + p.offset, p.elements);
        for (int64_t i = p.offset; i < p.offset + p.elements; i++)
            w_norm += w[i] * w[i];
        w_norm = sqrt(w_norm);
        trust = s->scenario.training.trust * w_norm / (g_norm + decay * w_norm);
    }
    for (int64_t i = p.offset; i < p.offset + p.elements; i++) {
        double d = trust * (s->scale * (double)s->gradient[i] + decay * w[i]);
        v[i] = s->scenario.training.momentum * v[i] + d;
        double along =
            s->scenario.training.nesterov ? d + s->scenario.training.momentum * v[i] : v[i];
        w[i] -= s->update.learning_rate * along;
    }
}

static double *widen(const float *x)
{
    double *wide = base_alloc(MOMENTS, sizeof(*wide));
    for (int64_t i = 0; i < MOMENTS; i++)
        wide[i] = (double)x[i];
    return wide;
}

/* Five steps with other gradients and rates, beside the reference. */
static void compare(enum optimizer_kind kind, bool nesterov, double clip)
{
    HELD(setup) s;
    set_up(&s, kind, nesterov);
    s.scenario.training.clip = clip;
    OWN(optimizer) *optimizer = optimizer_of(&s);
    AUTOFREE double *v = widen(s.momentum), *w = widen(s.weight);
    for (int32_t i = 0; i < 5; i++) {
        free(s.gradient);
        s.gradient = random_numbers(10 + (uint64_t)i, 1000.0 / (i + 1));
        s.update.learning_rate = 0.1 * (i + 1);
        for (int32_t t = 0; t < TENSORS; t++)
            refer(&s, t, i + 1, v, w);
        struct outcome outcome = step(&s, optimizer);
        assert_false(outcome.overflow);
        double norm = s.scale * norm_of(s.gradient, TOTAL);
        assert_near(outcome.norm, norm, 1e-12 * norm);
    }
    for (int64_t i = 0; i < TOTAL; i++) {
        assert_near((double)s.momentum[i], v[i], 2e-6); /* of about 1: a few roundings of fp32 */
        assert_near((double)s.weight[i], w[i], kind > OPTIMIZER_LARS ? 5e-6 : 2e-6);
    }
}

TEST(steps_as_the_reference_does)
{
    compare(OPTIMIZER_SGD, false, 0);
    compare(OPTIMIZER_SGD, true, 0);
    compare(OPTIMIZER_LARS, false, 0);
    compare(OPTIMIZER_LARS, true, 0);
    compare(OPTIMIZER_ADAMW, false, 0);
    compare(OPTIMIZER_ADAMW, false, 1);
    compare(OPTIMIZER_LAMB, false, 0);
    compare(OPTIMIZER_LAMB, false, 1);
}

TEST(lars_moves_a_tensor_of_zeros)
{
    HELD(setup) s;
    set_up(&s, OPTIMIZER_LARS, false);
    memset(s.weight, 0, TOTAL * sizeof(*s.weight));
    memset(s.momentum, 0, TOTAL * sizeof(*s.momentum));
    OWN(optimizer) *optimizer = optimizer_of(&s);
    step(&s, optimizer);
    for (int64_t i = 0; i < TOTAL; i++)
        assert_near((double)s.weight[i], -0.1 * s.scale * (double)s.gradient[i], 1e-8);
}

/* A bad number anywhere: nothing is touched, and the next good step is as if it had not been. */
TEST(an_overflow_changes_nothing)
{
    static const int64_t places[] = {0, 15, 20011, 20012, TOTAL / 2, TOTAL - 1};
    const float bad[] = {INFINITY, -INFINITY, NAN};
    for (enum optimizer_kind kind = 0; kind <= OPTIMIZER_LAMB; kind++)
        for (size_t i = 0; i < 3 * sizeof(places) / sizeof(*places); i++) {
            HELD(setup) s, untouched;
            set_up(&s, kind, false);
            set_up(&untouched, kind, false);
            s.gradient[places[i / 3]] = bad[i % 3];
            OWN(optimizer) *optimizer = optimizer_of(&s);
            assert_true(step(&s, optimizer).overflow);
            assert_memory_equal(s.weight, untouched.weight, TOTAL * sizeof(*s.weight));
            assert_memory_equal(s.momentum, untouched.momentum, MOMENTS * sizeof(*s.momentum));
            s.gradient[places[i / 3]] = untouched.gradient[places[i / 3]];
            assert_false(step(&s, optimizer).overflow);
            optimizer_continue(optimizer, 0);
            assert_false(step(&untouched, optimizer).overflow);
            assert_memory_equal(s.weight, untouched.weight, TOTAL * sizeof(*s.weight));
        }
}

TEST(the_largest_gradients_are_no_overflow)
{
    HELD(setup) s;
    set_up(&s, OPTIMIZER_SGD, false);
    for (int64_t i = 0; i < TOTAL; i++)
        s.gradient[i] = 3e38F;
    s.scale = 1e-30;
    OWN(optimizer) *optimizer = optimizer_of(&s);
    struct outcome outcome = step(&s, optimizer);
    assert_false(outcome.overflow);
    assert_near(outcome.norm, 3e8 * sqrt(TOTAL), 1e4);
}

TEST(any_number_of_threads_gives_the_same_bits)
{
    for (enum optimizer_kind kind = 0; kind <= OPTIMIZER_LAMB; kind++) {
        HELD(setup) one;
        set_up(&one, kind, true);
        OWN(optimizer) *optimizer = optimizer_of(&one);
        omp_set_num_threads(1);
        double norm = step(&one, optimizer).norm;
        for (int threads = 2; threads <= 4; threads++) {
            HELD(setup) more;
            set_up(&more, kind, true);
            optimizer_continue(optimizer, 0);
            omp_set_num_threads(threads);
            assert_true(step(&more, optimizer).norm == norm);
            assert_memory_equal(more.weight, one.weight, TOTAL * sizeof(*one.weight));
            assert_memory_equal(more.momentum, one.momentum, MOMENTS * sizeof(*one.momentum));
        }
    }
}

/* Three ranks with two slices each, which cut through tensors. */
static void compare_shards(enum optimizer_kind kind, double tolerance)
{
    enum { RANKS = 3, SLICES = 2 };
    static const int64_t border[SLICES][RANKS + 1] = {{0, 11, 20020, 30000},
                                                      {30000, 60001, 60001, TOTAL}};
    HELD(setup) whole, parts;
    set_up(&whole, kind, true);
    set_up(&parts, kind, true);
    struct optimizer *optimizer = optimizer_of(&whole), *part[RANKS];
    struct outcome outcome = step(&whole, optimizer);
    struct slice shard[RANKS][SLICES];
    float *momentum[RANKS], sum[2 * TENSORS] = {0}, norms[2 * TENSORS];
    for (int32_t r = 0; r < RANKS; r++) {
        for (int32_t i = 0; i < SLICES; i++)
            shard[r][i] = (struct slice){border[i][r], border[i][r + 1] - border[i][r]};
        part[r] = optimizer_new(&parts.layout, &parts.scenario, shard[r], SLICES);
        int64_t elements = slice_elements(shard[r], SLICES);
        momentum[r] = base_alloc(2 * elements, sizeof(float));
        slice_pack(shard[r], SLICES, parts.momentum, momentum[r]);
        slice_pack(shard[r], SLICES, parts.momentum + TOTAL, momentum[r] + elements);
        optimizer_measure(part[r], parts.scale, parts.gradient, parts.weight, norms);
        for (int32_t i = 0; i < (kind == OPTIMIZER_LARS ? 2 * TENSORS : 1); i++)
            sum[i] += norms[i];
    }
    for (int32_t r = 0; r < RANKS; r++) {
        struct outcome same = optimizer_update(part[r], &parts.update, parts.scale, sum,
                                               parts.gradient, momentum[r], parts.weight);
        assert_near(same.norm, outcome.norm, 3 * 0x1p-24 * outcome.norm);
        slice_unpack(shard[r], SLICES, momentum[r], parts.momentum);
        optimizer_free(part[r]);
        free(momentum[r]);
    }
    for (int64_t i = 0; i < TOTAL; i++) {
        assert_near((double)parts.weight[i], (double)whole.weight[i], tolerance);
        assert_near((double)parts.momentum[i], (double)whole.momentum[i], tolerance);
    }
    optimizer_free(optimizer);
}

TEST(shards_of_sgd_and_adamw_give_the_bits_of_the_whole)
{
    compare_shards(OPTIMIZER_SGD, 0);
    compare_shards(OPTIMIZER_ADAMW, 0);
}

/* Numbers up to 1: a factor within 3 * 2^-24, and two roundings of fp32. */
TEST(shards_of_lars_differ_by_their_norms_alone)
{
    compare_shards(OPTIMIZER_LARS, 5 * 0x1p-24);
}

TEST(an_overflow_of_one_shard_stops_all)
{
    HELD(setup) s;
    set_up(&s, OPTIMIZER_SGD, false);
    struct slice first = {0, 100};
    OWN(optimizer) *optimizer = optimizer_new(&s.layout, &s.scenario, &first, 1);
    float norms = INFINITY, before = s.weight[0];
    struct outcome outcome =
        optimizer_update(optimizer, &s.update, s.scale, &norms, s.gradient, s.momentum, s.weight);
    assert_true(outcome.overflow);
    assert_true(s.weight[0] == before);
    s.gradient[7] = NAN;
    optimizer_measure(optimizer, s.scale, s.gradient, s.weight, &norms);
    assert_true(isnan(norms));
}
