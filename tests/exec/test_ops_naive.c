#include "exec/cpu/ops_naive.h"

#include "core/schedule/iteration.h"
#include "exec/step/vectors.h"
#include "tests/test.h"

enum { BATCH = 2 };

static double dot(int64_t count, const float *a, const float *b)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* Op, channels and size of the input, channels of the output, kernel, stride, padding, bias: the
 * shapes of all convolutions of the known networks, small; linear layers; averages of 4, 2 and 1
 * pixels, which are exact; maxima; a batch norm. */
static const int32_t shapes[][9] = {
    {LAYER_CONVOLUTION, 3, 8, 6, 4, 3, 1, 1, 1}, {LAYER_CONVOLUTION, 3, 9, 7, 2, 3, 2, 1},
    {LAYER_CONVOLUTION, 2, 8, 7, 3, 3, 2, 1},    {LAYER_CONVOLUTION, 4, 5, 5, 5, 1, 1, 0},
    {LAYER_CONVOLUTION, 4, 7, 8, 2, 1, 2, 0},    {LAYER_CONVOLUTION, 3, 15, 14, 2, 7, 2, 3},
    {LAYER_CONVOLUTION, 1, 2, 2, 1, 5, 1, 2},    {LAYER_LINEAR, 3, 4, 5, 6, 0, 1, 0},
    {LAYER_LINEAR, 7, 1, 1, 3, 0, 1, 0, 1},      {LAYER_AVERAGE_POOL, 3, 6, 6, 3, 2, 2, 0},
    {LAYER_AVERAGE_POOL, 3, 4, 4, 3, 4, 1, 0},   {LAYER_AVERAGE_POOL, 3, 5, 5, 3, 2, 2, 1},
    {LAYER_MAX_POOL, 3, 8, 8, 3, 2, 2, 0},       {LAYER_MAX_POOL, 3, 7, 7, 3, 3, 2, 1},
    {LAYER_BATCH_NORM, 3, 4, 5, 3, 1, 1, 0},
};

/* One layer with data for all its arrays. */
struct arrays {
    struct layer layer;
    int64_t in, out, weights, parameters;
    float *x, *w, *y, *dx, *dw, *dy; /* in one piece of memory */
    float statistics[6];
};

/* Small whole numbers: every sum below is exact in fp32, so results are compared with ==.  Outputs
 * are garbage: they are overwritten. */
static struct arrays arrays_new(const int32_t shape[9])
{
    struct layer l = {.op = (enum layer_op)shape[0],
                      .in = {shape[1], shape[2], shape[3]},
                      .out = {shape[4], 1, 1},
                      .kernel = shape[5],
                      .stride = shape[6],
                      .padding = shape[7],
                      .bias = shape[8]};
    if (l.op != LAYER_LINEAR) {
        l.out.height = (l.in.height + 2 * l.padding - l.kernel) / l.stride + 1;
        l.out.width = (l.in.width + 2 * l.padding - l.kernel) / l.stride + 1;
    }
    struct arrays a = {.layer = l, .in = BATCH * shape_elements(l.in)};
    a.out = BATCH * shape_elements(l.out);
    a.weights = l.op == LAYER_LINEAR ? l.out.channels * shape_elements(l.in)
                : l.op == LAYER_CONVOLUTION
                    ? (int64_t)l.out.channels * l.in.channels * l.kernel * l.kernel
                : l.op == LAYER_BATCH_NORM ? 2 * l.out.channels
                                           : 0;
    a.parameters = a.weights + (l.bias ? l.out.channels : 0);
    int64_t count = 2 * (a.in + a.parameters + a.out);
    a.x = base_alloc(count, sizeof(*a.x));
    for (int64_t i = 0; i < count; i++)
        a.x[i] = (float)(int32_t)(base_uniform(1, 0, (uint64_t)i, 0) * 7) - 3;
    for (int64_t i = 0; l.op == LAYER_MAX_POOL && i < a.in; i++)
        a.x[i] = (float)(i * 7919 % 1009); /* both prime: all different */
    a.dx = a.x + a.in;
    a.w = a.dx + a.in;
    a.dw = a.w + a.parameters;
    a.y = a.dw + a.parameters;
    a.dy = a.y + a.out;
    return a;
}

static void arrays_release(struct arrays *a)
{
    free(a->x);
}

static void forward(struct arrays *a)
{
    if (a->layer.op == LAYER_BATCH_NORM)
        naive_batch_norm(&a->layer, BATCH, 1e-5, a->x, a->w, a->statistics, a->y);
    else if (a->layer.op == LAYER_CONVOLUTION || a->layer.op == LAYER_LINEAR)
        naive_forward(&a->layer, BATCH, a->x, a->w, a->y);
    else
        naive_pool(&a->layer, BATCH, a->x, a->y);
}

static void backward(struct arrays *a)
{
    if (a->layer.op == LAYER_BATCH_NORM) {
        naive_batch_norm_backward(&a->layer, BATCH, a->x, a->w, a->statistics, a->dy, a->dx, a->dw);
    } else if (a->layer.op == LAYER_CONVOLUTION || a->layer.op == LAYER_LINEAR) {
        naive_backward_data(&a->layer, BATCH, a->w, a->dy, a->dx);
        naive_backward_filter(&a->layer, BATCH, a->x, a->dy, a->dw);
    } else {
        naive_pool_backward(&a->layer, BATCH, a->x, a->dy, a->dx);
    }
}

/* One output of a convolution straight from the definition; a linear layer is one of one pixel. */
static float defined_output(const struct arrays *a, int64_t i)
{
    struct layer l = a->layer;
    if (l.op == LAYER_LINEAR) {
        l.in = (struct shape){(int32_t)shape_elements(l.in), 1, 1};
        l.kernel = 1;
    }
    int64_t row = i / l.out.width, plane = row / l.out.height;
    int64_t o = plane % l.out.channels, image = plane / l.out.channels;
    float sum = l.bias ? a->w[a->weights + o] : 0;
    for (int32_t c = 0; c < l.in.channels; c++)
        for (int32_t k = 0; k < l.kernel * l.kernel; k++) {
            int64_t h = row % l.out.height * l.stride - l.padding + k / l.kernel;
            int64_t w = i % l.out.width * l.stride - l.padding + k % l.kernel;
            if (h >= 0 && h < l.in.height && w >= 0 && w < l.in.width)
                sum += a->w[(o * l.in.channels + c) * l.kernel * l.kernel + k] *
                       a->x[((image * l.in.channels + c) * l.in.height + h) * l.in.width + w];
        }
    return sum;
}

TEST(convolves_and_multiplies_as_defined)
{
    for (size_t s = 0; shapes[s][0] == LAYER_CONVOLUTION || shapes[s][0] == LAYER_LINEAR; s++) {
        HELD(arrays) a = arrays_new(shapes[s]);
        forward(&a);
        for (int64_t i = 0; i < a.out; i++)
            assert_near((double)a.y[i], (double)defined_output(&a, i), 0);
    }
}

/* A function of numbers that may be changed. */
typedef double objective(struct arrays *a);

/* @gradient is that of @of with respect to @value, by differences over a step each way. */
static void expect_gradient(objective *of, struct arrays *a, int64_t count, float *value,
                            const float *gradient, double step, double tolerance)
{
    for (int64_t i = 0; i < count; i++) {
        float kept = value[i];
        value[i] = kept + (float)step;
        double above = of(a);
        value[i] = kept - (float)step;
        double below = of(a);
        value[i] = kept;
        assert_near((double)gradient[i], (above - below) / (2 * step), tolerance);
    }
}

static double along_dy(struct arrays *a)
{
    forward(a);
    return dot(a->out, a->y, a->dy);
}

/* Linear layers have exact differences; so have pools: a step of 1/4 changes no maximum among
 * distinct whole numbers.  Of batch norm the outputs' rounding (2^-24 of about 2, 120 times) over a
 * step of 2^-6, and the square of the step, leave 1e-3 of gradients of about 3. */
TEST(gradients_are_finite_differences)
{
    for (size_t s = 0; s < ARRAY_SIZE(shapes); s++) {
        HELD(arrays) a = arrays_new(shapes[s]);
        bool curved = a.layer.op == LAYER_BATCH_NORM;
        double step = curved ? 0x1p-6 : 0.25, tolerance = curved ? 1e-3 : 0;
        forward(&a);
        backward(&a);
        expect_gradient(along_dy, &a, a.in, a.x, a.dx, step, tolerance);
        expect_gradient(along_dy, &a, a.parameters, a.w, a.dw, step, tolerance);
    }
}

TEST(the_first_of_equal_maxima_gets_the_gradient)
{
    const struct layer layer = {
        .op = LAYER_MAX_POOL, .in = {1, 2, 2}, .out = {1, 1, 1}, .kernel = 2, .stride = 2};
    const float x[] = {-1, 5, 5, 5}, dy[] = {3};
    float dx[4];
    naive_pool_backward(&layer, 1, x, dy, dx);
    assert_true(dx[0] == 0 && dx[1] == 3 && dx[2] == 0 && dx[3] == 0);
}

TEST(batch_norm_gives_mean_shift_and_deviation_scale)
{
    HELD(arrays) a = arrays_new(shapes[ARRAY_SIZE(shapes) - 1]);
    const double pixels = BATCH * 20;
    forward(&a);
    for (int32_t c = 0; c < 3; c++) {
        double sum = 0, square = 0;
        for (int32_t i = 0; i < pixels; i++) {
            double value = (double)a.y[i / 20 * 60 + c * 20 + i % 20];
            sum += value;
            square += value * value;
        }
        /* fp32 rounding of y; the deviation also lacks the epsilon of 1e-5 */
        double mean = sum / pixels;
        assert_near(mean, (double)a.w[3 + c], 1e-6);
        assert_near(sqrt(square / pixels - mean * mean), fabs((double)a.w[c]), 1e-5);
    }
}

TEST(relu_cuts_and_masks)
{
    float y[] = {-2, 0, 3}, dy[] = {5, 6, 7};
    naive_relu(3, INFINITY, y);
    assert_true(y[0] == 0 && y[1] == 0 && y[2] == 3);
    naive_relu_backward(3, INFINITY, y, dy);
    assert_true(dy[0] == 0 && dy[1] == 0 && dy[2] == 7);
}

/* Of all classes. */
static double loss_of(int32_t rows, int32_t classes, const float *x, const int32_t *label,
                      double smoothing, float *dx)
{
    const struct some_scores scores = {rows, classes, 0, classes, classes, x, label};
    return naive_loss(&scores, smoothing, 0, NULL, dx);
}

TEST(loss_of_no_opinion_is_the_logarithm_of_the_classes)
{
    const float x[10] = {1, 1, 1, 1, 1, 7, 7, 7, 7, 7};
    const int32_t label[] = {0, 3};
    float dx[10];
    for (double smoothing = 0; smoothing < 0.5; smoothing += 0.25)
        assert_near(loss_of(2, 5, x, label, smoothing, dx), log(5), 1e-12);
}

static double loss(struct arrays *a)
{
    static const int32_t label[] = {0, 3};
    return loss_of(2, 5, a->x, label, 0.1, a->dx);
}

/* The loss is computed in double; what is left is the square of the step, 1e-6. */
TEST(loss_gradient_is_the_finite_difference)
{
    HELD(arrays) a = arrays_new(shapes[0]);
    float gradient[10];
    loss(&a);
    memcpy(gradient, a.dx, sizeof(gradient));
    expect_gradient(loss, &a, 10, a.x, gradient, 0x1p-10, 1e-6);
}

/* A smoothed label is a distribution; no loss is below its entropy, which is reached where the
 * softmax is that distribution.  Source: Szegedy et al. 2016, section 7; the numbers from
 * -p log p - (1 - p) log((1 - p) / (classes - 1)), p = 1 - smoothing + smoothing / classes. */
/* Three ranks have two of five classes each, the last one a column of padding. */
TEST(loss_of_parts_is_that_of_the_whole)
{
    const float x[] = {0.5F, -1, 2, 3, 0.25F, 40, -7, 41, 39, 0};
    const int32_t label[] = {4, 2};
    float dx[10], some[3][4], some_dx[4], sums[3 * 2 * LOSS_SUMS];
    double whole = loss_of(2, 5, x, label, 0.1, dx);
    struct some_scores part[3];
    for (int32_t p = 0; p < 3; p++) {
        part[p] = (struct some_scores){2, 2, 2 * p, p < 2 ? 2 : 1, 5, some[p], label};
        for (int32_t i = 0; i < 4; i++)
            some[p][i] = 2 * p + i % 2 < 5 ? x[i / 2 * 5 + 2 * p + i % 2] : 1e3F;
        naive_loss_sums(&part[p], sums + p * 2 * LOSS_SUMS);
    }
    for (int32_t p = 0; p < 3; p++) {
        assert_near(naive_loss(&part[p], 0.1, 3, sums, some_dx), whole, 1e-6);
        for (int32_t i = 0; i < 4; i++)
            assert_near((double)some_dx[i],
                        2 * p + i % 2 < 5 ? (double)dx[i / 2 * 5 + 2 * p + i % 2] : 0, 1e-7);
    }
}

TEST(loss_of_a_smoothed_label_has_its_entropy_as_floor)
{
    static const struct {
        int32_t classes;
        double smoothing, entropy;
    } floors[] = {{10, 0.1, 0.5002880}, {1000, 0.1, 1.0148480}, {2, 0.2, 0.3250830}};
    for (size_t i = 0; i < sizeof(floors) / sizeof(*floors); i++) {
        int32_t classes = floors[i].classes, label = classes - 1;
        double rest = floors[i].smoothing / classes;
        AUTOFREE float *x = base_alloc(classes, sizeof(*x)), *dx = base_alloc(classes, sizeof(*dx));
        for (int32_t c = 0; c < classes; c++)
            x[c] = (float)(7 + log(c == label ? 1 - floors[i].smoothing + rest : rest));
        double least = loss_of(1, classes, x, &label, floors[i].smoothing, dx);
        assert_near(least, floors[i].entropy, 1e-6);
        for (int32_t c = 0; c < classes; c++)
            assert_near((double)dx[c], 0, 1e-6);
        for (int32_t trial = 0; trial < 100; trial++) {
            int32_t c = trial % classes;
            float kept = x[c];
            x[c] += trial % 2 ? 0.1F : -0.1F;
            assert_true(loss_of(1, classes, x, &label, floors[i].smoothing, dx) > least);
            x[c] = kept;
        }
    }
}

TEST(functions_for_vectors_are_those_of_the_library)
{
    for (float x = -90; x < 88; x += 0.037F)
        assert_relative(vectors_exp(x), exp(fmax((double)x, -87)), 3e-7);
    for (float x = -40; x < 40; x += 0.00123F) {
        float bell, below = vectors_normal(x, &bell);
        assert_near(below, 0.5 * erfc(-(double)x * sqrt(0.5)), 3e-7);
        assert_near(bell, exp(-0.5 * (double)x * (double)x), 3e-7);
    }
    static const float far[] = {INFINITY, 1e30F, 3.4e38F};
    for (size_t i = 0; i < ARRAY_SIZE(far); i++) {
        float bell;
        assert_true(vectors_exp(-far[i]) < 2e-38F);
        assert_true(vectors_normal(far[i], &bell) == 1 && bell < 2e-38F);
        assert_true(vectors_normal(-far[i], &bell) < 2e-38F && bell < 2e-38F);
    }
    float bell;
    assert_true(isnan(vectors_exp(NAN)) && isnan(vectors_normal(NAN, &bell)) && isnan(bell));
    assert_true(vectors_exp(0) == 1 && vectors_exp(-1e-45F) == 1);
}

/* More than a vector, and no whole number of vectors. */
TEST(terms_of_a_row_stand_on_its_largest)
{
    enum { MOST = 37 };
    float x[MOST], term[MOST], largest;
    for (int32_t i = 0; i < MOST; i++)
        x[i] = i == 20 ? 3e38F : i == 5 ? -INFINITY : (float)i;
    for (int32_t count = 1; count <= MOST; count++) {
        double sum = naive_terms(count, x, &largest, term), expected = 0;
        for (int32_t i = 0; i < count; i++) {
            expected += exp((double)x[i] - (double)largest);
            assert_near(term[i], exp((double)x[i] - (double)largest), 3e-7);
        }
        assert_true(largest == x[count > 20 ? 20 : count == 6 ? 4 : count - 1]);
        assert_relative(sum, expected, 3e-7);
    }
    x[18] = NAN;
    assert_true(isnan(naive_terms(MOST, x, &largest, term)) && isnan(term[18]));
}
